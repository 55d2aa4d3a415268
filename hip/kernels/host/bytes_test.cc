// Compares the rounding of rows to 8 bits, and products of such rows, with plain sums: ragged edges, strides, and every
// kind of epilogue.
#include "../bytes.hip"
#include "testing.h"

using namespace testing;

// Row 0 has one sign only, row 1 one number only.
static void test_quantise(i32 rows, i32 width, bool has_factors) {
    Check check{"quantise " + std::to_string(rows) + "x" + std::to_string(width)};
    Random random((u64)(rows + width));
    Filled<Half> x((size_t)rows * width, random, 3.0f);
    Filled<float> factors((size_t)width, random, 0.2f, 1.0f);
    Buffer<u8> bytes((size_t)rows * width);
    Buffer<float> scales((size_t)2 * rows);
    for (i32 k = 0; k < width; k++) {
        assign(x[k], (float)-std::abs(x.value(k)) - 1.0f);
        assign(x[width + k], 0.625f);
    }
    const QuantiseArguments a = {x.data(), has_factors ? factors.data() : nullptr, bytes.data(), scales.data(), rows, width};
    launch(quantise_f16, a, (rows + 7) / 8, 1, 256);
    for (i32 row = 0; row < rows; row++) {
        i32 least = 127, most = -128;
        for (i32 k = 0; k < width; k++) {
            const size_t place = (size_t)row * width + k;
            const i32 byte = (i8)bytes[place];
            least = std::min(least, byte);
            most = std::max(most, byte);
            const double expected = x.value(place) * (has_factors ? factors.value(k) : 1.0);
            const double scale = scales.value(2 * row), found = scale * byte + scales.value(2 * row + 1);
            check.compare(found, expected, 0.501 * scale + 1e-6 * (1.0 + std::abs(expected)), "number", place);
        }
        const bool is_even = row == 1 && !has_factors;
        if (least != -128 || most != (is_even ? -128 : 127)) host::fail("a row does not use all bytes", row);
    }
}

#ifdef FP8_LARGEST
// Row 0 has only zeros, and the numbers of row 1 have many sizes.
static void test_quantise_fp8(i32 rows, i32 width) {
    Check check{"quantise_fp8 " + std::to_string(rows) + "x" + std::to_string(width)};
    Random random((u64)(rows + width));
    Filled<Half> x((size_t)rows * width, random, 3.0f);
    Filled<float> factors((size_t)width, random, 0.2f, 1.0f);
    Buffer<u8> bytes((size_t)rows * width);
    Buffer<float> scales((size_t)rows);
    for (i32 k = 0; k < width; k++) {
        assign(x[k], 0.0f);
        assign(x[width + k], (float)x.value(width + k) * std::ldexp(1.0f, -(k % 16)));
    }
    const QuantiseArguments a = {x.data(), factors.data(), bytes.data(), scales.data(), rows, width};
    launch(quantise_fp8_f16, a, (rows + 7) / 8, 1, 256);
    for (i32 row = 0; row < rows; row++) {
        double most = 0.0, largest = 0.0;
        for (i32 k = 0; k < width; k++) {
            const size_t place = (size_t)row * width + k;
            const double expected = x.value(place) * factors.value(k), scale = scales.value(row);
            const double found = scale * fp8_value(bytes[place]);
            most = std::max(most, std::abs(expected));
            largest = std::max(largest, std::abs(found));
            // Half a step of three bits of mantissa, or of the smallest numbers.
            check.compare(found, expected, std::abs(expected) / 15.9 + scale * fp8_value(1) * 0.501 + 1e-9, "number", place);
        }
        check.compare(scales.value(row) * FP8_LARGEST, most, 1e-6 * most + 1e-9, "scale", row);
        check.compare(largest, most, 1e-6 * most + 1e-9, "largest", row);
    }
}
#endif

struct Tile {
    void (*kernel)(GemmBytesArguments);
    i32 rows, columns, threads;
};

template <bool IS_FP8 = false>
static void test_product(const Tile& tile, i32 rows, i32 outputs, i32 inputs, i32 activation, bool has_residual) {
    Check check{(IS_FP8 ? "gemm_fp8 " : "gemm_bytes ") + std::to_string(rows) + "x" + std::to_string(outputs) + "x" + std::to_string(inputs)};
    Random random((u64)(rows * 1000 + outputs + inputs));
    const i32 x_stride = inputs + 16, weights_stride = inputs + 32, output_stride = outputs + (has_residual ? 24 : 0);
    const i32 width = (outputs + 7) / 8 * 8;
    Buffer<u8> x((size_t)(rows - 1) * x_stride + inputs), weights((size_t)(outputs - 1) * weights_stride + inputs);
    // In e4m3, without codes that are not numbers.
    auto byte = [&] {
        const u8 bits = (u8)random.bits();
        return IS_FP8 && ((bits & 0x7f) == 0x7f || bits == 0x80) ? (u8)0x38 : bits;
    };
    for (size_t i = 0; i < x.count(); i++) x[i] = byte();
    for (size_t i = 0; i < weights.count(); i++) weights[i] = byte();
    auto value = [](u8 bits) {
#ifdef FP8_LARGEST
        if (IS_FP8) return (double)fp8_value(bits);
#endif
        return (double)(i8)bits;
    };
    // Integers have two numbers for each row and output, and e4m3 has one.
    constexpr i32 EACH = IS_FP8 ? 1 : 2;
    Filled<float> row_scales((size_t)EACH * rows, random), output_scales((size_t)EACH * width, random, 1e-4f);
    Filled<Half> bias((size_t)outputs, random), residual((size_t)(rows - 1) * output_stride + outputs, random);
    Buffer<Half> output(residual.count());
    if (has_residual) for (size_t i = 0; i < output.count(); i++) output[i] = residual[i];
    GemmBytesArguments a = {};
    a.product = {x.data(), weights.data(), output.data(), bias.data(), nullptr, nullptr,
                 has_residual ? output.data() : nullptr, nullptr, 0, 0, 0,
                 rows, outputs, inputs, x_stride, weights_stride, output_stride, 1, 1, activation, 0};
    a.row_scales = row_scales.data();
    a.output_scales = output_scales.data();
    const i32 tiles = (rows + tile.rows - 1) / tile.rows * ((outputs + tile.columns - 1) / tile.columns);
    launch(tile.kernel, a, tiles, 1, tile.threads);
    for (i32 row = 0; row < rows; row++) {
        for (i32 n = 0; n < outputs; n++) {
            double sum = 0.0, size = 0.0;
            for (i32 k = 0; k < inputs; k++) {
                const double term = value(x[(size_t)row * x_stride + k]) * value(weights[(size_t)n * weights_stride + k]);
                sum += term;
                size += std::abs(term);
            }
            const double scale = row_scales.value(EACH * row) * output_scales.value(n), product = scale * sum;
            const double zero = IS_FP8 ? 0.0 : row_scales.value(2 * row + 1) * output_scales.value(width + n);
            const size_t place = (size_t)row * output_stride + n;
            const double expected = activated(activation, product + zero + bias.value(n)) + (has_residual ? residual.value(place) : 0.0);
            const double limit = precision<Half>() * (std::abs(expected) * 1.01 + std::abs(product) * 0.01) + 1e-5 +
                                 (IS_FP8 ? 1e-6 * std::abs(scale) * size : 0.0);
            check.compare(output.value(place), expected, limit, "output", place);
        }
        for (i32 n = outputs; n < output_stride && row + 1 < rows; n++)
            if (output.value((size_t)row * output_stride + n) != residual.value((size_t)row * output_stride + n))
                host::fail("a gap was written", n);
    }
}

template <bool IS_FP8 = false>
static void test_tile(const Tile& tile) {
    // Whole tiles and steps with the short epilogue; less than a tile and a step; the long epilogue, and a last run of three.
    test_product<IS_FP8>(tile, tile.rows, tile.columns, 128, ACTIVATION_NONE, false);
    test_product<IS_FP8>(tile, tile.rows + 3, tile.columns - 24, 80, ACTIVATION_NONE, true);
    test_product<IS_FP8>(tile, 9, tile.columns + 11, 144, ACTIVATION_MISH, true);
    // As many inputs as the widest layers have.
    test_product<IS_FP8>(tile, 3, 16, 4096, ACTIVATION_TANH, false);
}

int main() {
    test_quantise(11, 144, true);
    test_quantise(3, 1040, false);
#if MATRIX_LAYOUT == MATRIX_QUADS
    test_tile({gemm_bytes_f16_128x128_128, 128, 128, 128});
#else
    test_tile({gemm_bytes_f16_128x128_256, 128, 128, 256});
#endif
    test_tile({gemm_bytes_f16_64x64_128, 64, 64, 128});
#ifdef FP8_LARGEST
    test_quantise_fp8(11, 144);
    test_quantise_fp8(3, 1040);
    test_tile<true>({gemm_fp8_f16_128x128_256, 128, 128, 256});
    test_tile<true>({gemm_fp8_f16_64x64_128, 64, 64, 128});
#endif
    return 0;
}
