// Compares products with weights of 8 bits with plain sums: ragged edges, strides, a summed axis in parts, and every kind
// of epilogue. What lies beyond the outputs and the inputs in the weights' memory is filled with numbers that show.
#include "../gemm_byte_weights.hip"
#include "testing.h"

using namespace testing;

struct Tile {
    void (*kernel)(GemmArguments);
    i32 rows, columns, threads;
};

// The weights in memory: [outputs / 16][inputs / 32][16][32] bytes, and then a scale for each output.
struct Bytes {
    i32 outputs, inputs, rows, row;
    Buffer<u8> memory;

    Bytes(i32 outputs, i32 inputs, Random& random)
        : outputs(outputs), inputs(inputs), rows((outputs + 15) / 16 * 16), row((inputs + 31) / 32 * 32),
          memory((size_t)rows * row + (outputs + 7) / 8 * 8 * sizeof(float)) {
        for (i32 n = 0; n < rows; n++)
            for (i32 k = 0; k < row; k++) byte(n, k) = n < outputs && k < inputs ? (u8)random.below(256) : 255;
        for (i32 n = 0; n < (outputs + 7) / 8 * 8; n++)
            scales()[n] = n < outputs ? 0.01f + (float)random.below(100) * 1e-4f : 1e30f;
    }
    u8& byte(i32 n, i32 k) { return memory[((size_t)(n / 16 * (row / 32) + k / 32) * 16 + n % 16) * 32 + k % 32]; }
    float* scales() { return (float*)(memory.data() + (size_t)rows * row); }
    double value(i32 n, i32 k) { return (double)scales()[n] * (byte(n, k) - 128); }
};

template <class T>
static void test_product(const Tile& tile, void (*sum)(GemmArguments), i32 rows, i32 outputs, i32 inputs, i32 splits,
                         i32 activation, bool has_bias, bool has_residual) {
    Check check{std::string("byte weights ") + type_name<T>() + " " + std::to_string(rows) + "x" + std::to_string(outputs) + "x" +
                std::to_string(inputs)};
    Random random((u64)(rows * 1000 + outputs + inputs));
    const i32 x_stride = inputs + 8, output_stride = outputs + (has_residual ? 24 : 0);
    Filled<T> x((size_t)(rows - 1) * x_stride + inputs, random), bias((size_t)outputs, random);
    Filled<T> residual((size_t)rows * output_stride, random);
    Bytes weights(outputs, inputs, random);
    Buffer<T> output((size_t)rows * output_stride);
    Buffer<float> partial(splits == 1 ? 8 : (size_t)splits * rows * ((outputs + 7) / 8 * 8));
    const GemmArguments arguments = {x.data(), weights.memory.data(), output.data(), has_bias ? bias.data() : nullptr,
                                     nullptr, nullptr, has_residual ? residual.data() : nullptr, splits == 1 ? nullptr : partial.data(), 0, 0, 0,
                                     rows, outputs, inputs, x_stride, weights.row, output_stride, 1, splits, activation, 1};
    const i32 tiles = (rows + tile.rows - 1) / tile.rows * ((outputs + tile.columns - 1) / tile.columns);
    launch(tile.kernel, arguments, tiles, splits, tile.threads);
    if (splits > 1) launch(sum, arguments, (rows * ((outputs + 7) / 8) + 255) / 256, 1, 256);
    for (i32 row = 0; row < rows; row++) {
        for (i32 n = 0; n < output_stride; n++) {
            const size_t place = (size_t)row * output_stride + n;
            if (n >= outputs) {
                if (output.value(place) == output.value(place)) host::fail("a gap was written", n);
                continue;
            }
            double expected = 0.0, total = 0.0;
            for (i32 k = 0; k < inputs; k++) {
                const double one = x.value((size_t)row * x_stride + k) * weights.value(n, k);
                expected += one;
                total += std::abs(one);
            }
            expected = activated(activation, expected + (has_bias ? bias.value(n) : 0.0));
            expected += has_residual ? residual.value(place) : 0.0;
            // A weight is exact, so that only sums in fp32 and the result are rounded.
            const double limit = 1e-6 * total + precision<T>() * std::abs(expected) * 1.01 + 1e-5;
            check.compare(output.value(place), expected, limit * (activation == ACTIVATION_RELU_2 ? 8 : 1), "output", place);
        }
    }
}

template <class T>
static void test_tile(const Tile& tile, void (*sum)(GemmArguments), i32 activation) {
    const i32 rows = tile.rows, columns = tile.columns;
    // One row, and less than a tile, a step and a vector of outputs; the last step has eight elements.
    test_product<T>(tile, sum, 1, 19, 40, 1, activation, true, false);
    test_product<T>(tile, sum, rows, columns, 64, 1, ACTIVATION_NONE, false, false);
    test_product<T>(tile, sum, rows + 3, columns + 24, 72, 1, ACTIVATION_NONE, true, true);
    test_product<T>(tile, sum, rows - 7, columns + 19, 8, 1, activation, true, true);
    // Parts of the summed axis; the last part has fewer steps.
    test_product<T>(tile, sum, 9, 21, 32 * 5 + 8, 3, activation, true, false);
    test_product<T>(tile, sum, 9, 24, 32 * 5, 4, ACTIVATION_NONE, false, true);
}

// Every byte becomes the number that it stands for.
template <class T>
static void test_widening() {
    for (u32 first = 0; first < 256; first += 4) {
        const Words2 words = widen_four(T(), first | (first + 1) << 8 | (first + 2) << 16 | (first + 3) << 24);
        for (u32 i = 0; i < 4; i++) {
            T element = {(u16)(words.word[i / 2] >> 16 * (i % 2))};
            if (value_of(element) != (float)(first + i) - 128.0f) host::fail("a byte is another number", first + i);
        }
    }
}

int main() {
    test_widening<Half>();
    test_widening<Bfloat>();
    test_tile<Half>({gemm_byte_weights_f16_64x64_128, 64, 64, 128}, gemm_sum_f16, ACTIVATION_MISH);
    test_tile<Bfloat>({gemm_byte_weights_bf16_64x64_128, 64, 64, 128}, gemm_sum_bf16, ACTIVATION_SWISH);
    test_tile<Half>({gemm_byte_weights_f16_64x32_128, 64, 32, 128}, gemm_sum_f16, ACTIVATION_RELU_2);
    test_tile<Bfloat>({gemm_byte_weights_bf16_64x32_128, 64, 32, 128}, gemm_sum_bf16, ACTIVATION_TANH);
#if MATRIX_LAYOUT == MATRIX_QUADS
    test_tile<Half>({gemm_byte_weights_f16_16x32_32, 16, 32, 32}, gemm_sum_f16, ACTIVATION_MISH);
#else
    test_tile<Half>({gemm_byte_weights_f16_32x64_128, 32, 64, 128}, gemm_sum_f16, ACTIVATION_MISH);
#endif
    return 0;
}
