// Compares products of odd sizes with plain sums, for each type and tile: ragged edges, strides, several products, a
// summed axis in parts, and every epilogue; and products in a row with a LayerNorm.
#include "../gemm.hip"
#include "testing.h"
#include <memory>

using namespace testing;

struct Tile {
    void (*kernel)(GemmArguments);
    i32 rows, columns, threads;
};
struct Shape {
    i32 rows, outputs, inputs, products, splits, activation;
    bool with_bias, with_residual, is_strided;
    bool is_preshuffled = false, is_gated = false;
};

// The preshuffled weights of `products` matrices that are `weights_batch` elements apart. What is beyond a row's end is not
// copied: the gaps between the rows hold numbers, too.
template <class T>
static std::unique_ptr<Buffer<T>> preshuffled(Filled<T>& weights, const Shape& shape, i32 stride, size_t weights_batch) {
    const i32 row = (shape.inputs * (i32)sizeof(T) + 63) / 64 * 64, rows = (shape.outputs + 15) / 16 * 16;
    auto output = std::make_unique<Buffer<T>>((size_t)shape.products * rows * row / sizeof(T));
    const PreshuffleArguments arguments = {weights.data(), output->data(), (long long)(weights_batch * sizeof(T)),
                                           (long long)rows * row, shape.outputs, shape.inputs * (i32)sizeof(T),
                                           stride * (i32)sizeof(T), 0};
    launch(preshuffle, arguments, (rows * row / 16 + 255) / 256, shape.products, 256);
    return output;
}

template <class T>
static void test_gemm(const char* name, const Tile& tile, void (*sum)(GemmArguments), const Shape& shape) {
    const auto [rows, outputs, inputs, products, splits, activation, with_bias, with_residual, is_strided, is_preshuffled, is_gated] = shape;
    Check check{std::string(name) + " " + std::to_string(rows) + "x" + std::to_string(outputs) + "x" + std::to_string(inputs)};
    Random random((u64)(rows * 1000 + outputs + inputs));
    const i32 x_stride = inputs + (is_strided ? 8 : 0), weights_stride = inputs + (is_strided ? 16 : 0);
    const i32 output_stride = outputs + (is_strided ? 24 : 0);
    auto size = [&](i32 count, i32 stride, i32 width) { return (size_t)(count - 1) * stride + width; };
    const size_t x_size = size(rows, x_stride, inputs), weights_size = size(outputs, weights_stride, inputs);
    // One product's matrices follow the last one's, at a multiple of eight elements.
    const size_t x_batch = (x_size + 7) / 8 * 8, weights_batch = (weights_size + 7) / 8 * 8;
    const size_t output_batch = (size(rows, output_stride, outputs) + 7) / 8 * 8;
    Filled<T> x(x_batch * (products - 1) + x_size, random), weights(weights_batch * (products - 1) + weights_size, random, 0.3f);
    // The last row of the gates ends with its last output: what follows is a guard page.
    const size_t gates = is_gated ? size(64, output_stride, outputs) : 8;
    Filled<T> multiply(gates, random), add(gates, random);
    Filled<T> bias((size_t)outputs, random), residual(output_batch * products, random);
    Buffer<T> output(output_batch * (products - 1) + size(rows, output_stride, outputs));
    Buffer<float> partial(splits == 1 ? 8 : (size_t)splits * products * rows * ((outputs + 7) / 8 * 8));
    // The same epilogue in place: the residual is the output.
    if (with_residual) for (size_t i = 0; i < output.count(); i++) output[i] = residual[i];
    std::unique_ptr<Buffer<T>> copy;
    if (is_preshuffled) copy = preshuffled(weights, shape, weights_stride, weights_batch);
    const i32 padded = (inputs * (i32)sizeof(T) + 63) / 64 * 64 / (i32)sizeof(T);
    const GemmArguments arguments = {x.data(),
                                     is_preshuffled ? copy->data() : weights.data(),
                                     output.data(),
                                     with_bias ? bias.data() : nullptr,
                                     is_gated ? multiply.data() : nullptr,
                                     is_gated ? add.data() : nullptr,
                                     with_residual ? output.data() : nullptr,
                                     splits == 1 ? nullptr : partial.data(),
                                     (long long)x_batch,
                                     is_preshuffled ? (long long)((outputs + 15) / 16 * 16) * padded : (long long)weights_batch,
                                     (long long)output_batch,
                                     rows,
                                     outputs,
                                     inputs,
                                     x_stride,
                                     is_preshuffled ? padded : weights_stride,
                                     output_stride,
                                     products,
                                     splits,
                                     activation,
                                     is_preshuffled};
    const i32 tiles = (rows + tile.rows - 1) / tile.rows * ((outputs + tile.columns - 1) / tile.columns);
    launch(tile.kernel, arguments, tiles, products * splits, tile.threads);
    if (splits > 1) launch(sum, arguments, (rows * ((outputs + 7) / 8) + 255) / 256, products, 256);

    for (i32 product = 0; product < products; product++) {
        for (i32 row = 0; row < rows; row++) {
            for (i32 n = 0; n < output_stride; n++) {
                const size_t place = product * output_batch + (size_t)row * output_stride + n;
                if (place >= output.count()) break;
                if (n >= outputs) {
                    if (!with_residual && output.value(place) == output.value(place)) host::fail("a gap was written", n);
                    continue;
                }
                double expected = 0.0, total = 0.0;
                for (i32 k = 0; k < inputs; k++) {
                    const double one = x.value(product * x_batch + (size_t)row * x_stride + k) *
                                       weights.value(product * weights_batch + (size_t)n * weights_stride + k);
                    expected += one;
                    total += std::abs(one);
                }
                expected = activated(activation, expected + (with_bias ? bias.value(n) : 0.0));
                const size_t gate = (size_t)(row % 64) * output_stride + n;
                if (is_gated) expected = expected * multiply.value(gate) + add.value(gate);
                expected += with_residual ? residual.value(place) : 0.0;
                const double limit = 0.05 * precision<T>() * total * (is_gated ? 2 : 1) + precision<T>() * std::abs(expected) * 1.01 + 1e-5;
                check.compare(output.value(place), expected, limit * (activation == ACTIVATION_RELU_2 ? 8 : 1), "output", place);
            }
        }
    }
}

// Two products in a row: the second reads four rows of the first as one, its summed axis may have parts, and its rows are
// normalised, by 32 threads each or by a block.
template <class T>
static void test_chain(void (*kernel)(ChainArguments), const Tile& tile, i32 outputs, i32 splits) {
    const i32 squares = 4, rows = tile.rows + 5, inputs = 40, channels = 24, width = squares * channels;
    Check check{"a chain, " + std::to_string(outputs) + " outputs, " + std::to_string(splits) + " parts"};
    Random random((u64)(outputs + splits));
    Filled<T> x((size_t)squares * rows * inputs, random), first((size_t)channels * inputs, random, 0.3f);
    Filled<T> weights((size_t)outputs * width, random, 0.3f), stream((size_t)rows * outputs, random);
    Filled<T> gammas((size_t)outputs, random), betas((size_t)outputs, random);
    Buffer<T> between((size_t)squares * rows * channels), output((size_t)rows * outputs);
    Buffer<float> partial((size_t)splits * rows * outputs);
    std::vector<double> before(stream.count());
    for (size_t i = 0; i < before.size(); i++) before[i] = stream.value(i);

    const i32 groups = 2, across = (outputs + tile.columns - 1) / tile.columns, tiles = groups * across;
    const i32 first_tiles[2] = {squares, (squares * 5 + tile.rows - 1) / tile.rows};
    const i32 first_norm = first_tiles[0] + first_tiles[1] + tiles * splits;
    const i32 together = outputs > 1024 ? 1 : tile.threads / 32;
    const i32 norms[2] = {tile.rows / together, (5 + together - 1) / together};
    ChainArguments a = {};
    a.links[0].product = {x.data(), first.data(), between.data(), nullptr, nullptr, nullptr, nullptr, nullptr, 0, 0, 0, squares * rows,
                          channels, inputs, inputs, inputs, channels, 1, 1, ACTIVATION_NONE, 0};
    a.links[0].first_norm_block = a.links[1].first_block = first_tiles[0] + first_tiles[1];
    a.links[0].group_rows = squares * tile.rows;
    a.links[1].product = {between.data(), weights.data(), output.data(), nullptr, nullptr, nullptr, nullptr, nullptr, 0, 0, 0, rows,
                          outputs, width, width, width, outputs, 1, splits, ACTIVATION_NONE, 0};
    a.links[1].norm = {output.data(), nullptr, stream.data(), gammas.data(), betas.data(), nullptr, nullptr, stream.data(),
                       rows, outputs, 1, ACTIVATION_NONE, 0.5f, 1e-3f};
    a.links[1].first_norm_block = first_norm;
    a.links[1].group_rows = tile.rows;
    a.links[1].first_counter = 1 + groups;
    for (i32 i = 0; i < 2; i++) {
        a.links[1].before_tiles[i] = first_tiles[i];
        a.links[1].before_norm[i] = first_tiles[i] + across;
        a.all[i] = first_tiles[i] + across + norms[i];
    }
    std::vector<u32> counters(1 + groups + tiles);
    a.workspace = partial.data();
    a.counters = counters.data();
    a.count = 2;
    a.blocks = first_norm + norms[0] + norms[1];
    a.last_group = groups - 1;
    launch(kernel, a, a.blocks, 1, tile.threads);

    for (u32 counter : counters)
        if (counter != 0) host::fail("a counter is not back at zero", (i32)counter);
    auto compare = [&](const Buffer<T>& results, double sum, double total, size_t place) {
        check.compare(results.value(place), sum, precision<T>() * (0.05 * total + std::abs(sum) * 1.01) + 1e-5, "product", place);
    };
    auto product = [&](const auto& x, const auto& weights, i32 inputs, i32 outputs, const Buffer<T>& results, size_t place) {
        double sum = 0.0, total = 0.0;
        for (i32 k = 0; k < inputs; k++) {
            const double one = x.value(place / outputs * inputs + k) * weights.value(place % outputs * inputs + k);
            sum += one;
            total += std::abs(one);
        }
        compare(results, sum, total, place);
    };
    for (size_t i = 0; i < between.count(); i++) product(x, first, inputs, channels, between, i);
    for (size_t i = 0; i < output.count(); i++) product(between, weights, width, outputs, output, i);
    for (i32 row = 0; row < rows; row++) {
        std::vector<double> values(outputs);
        double mean = 0.0, variance = 0.0;
        for (i32 n = 0; n < outputs; n++) {
            values[n] = before[(size_t)row * outputs + n] + 0.5 * output.value((size_t)row * outputs + n);
            mean += values[n] / outputs;
        }
        for (double value : values) variance += (value - mean) * (value - mean) / outputs;
        for (i32 n = 0; n < outputs; n++) {
            const double expected = (values[n] - mean) / std::sqrt(variance + 1e-3) * gammas.value(n) + betas.value(n);
            const double limit = precision<T>() * (std::abs(expected) * 1.01 + 0.01) + 1e-6;
            check.compare(stream.value((size_t)row * outputs + n), expected, limit, "stream", (size_t)row * outputs + n);
        }
    }
}

template <class T>
static void test_tile(const char* name, const Tile& tile, void (*sum)(GemmArguments), void (*any)(GemmArguments), i32 activation) {
    const i32 rows = tile.rows, columns = tile.columns;
    // Less than a tile, a step and a vector of outputs; the last step has eight elements.
    test_gemm<T>(name, tile, sum, {5, 19, 40, 1, 1, activation, true, false, false});
    // Whole tiles without an epilogue, and the short epilogue with a bias.
    test_gemm<T>(name, tile, sum, {rows, columns, 64, 1, 1, ACTIVATION_NONE, false, false, false});
    test_gemm<T>(name, tile, sum, {rows + 3, columns - 24, 72, 1, 1, ACTIVATION_NONE, true, false, true});
    // Two products, a residual in place, strides.
    test_gemm<T>(name, tile, sum, {rows - 7, columns - 8, 32, 2, 1, activation, true, true, true});
    // Parts of the summed axis; the last part has fewer steps, and of the second shape none.
    test_gemm<T>(name, tile, sum, {9, 21, 32 * 5 + 8, 2, 3, activation, true, false, false});
    test_gemm<T>(name, tile, sum, {9, 24, 32 * 5, 1, 4, ACTIVATION_NONE, false, true, false});
    // Preshuffled weights: a part of a block of 16 outputs and of 64 bytes, two products, strides, parts of the summed axis.
    test_gemm<T>(name, tile, sum, {rows - 7, columns + 19, 104, 2, 1, activation, true, true, true, true});
    test_gemm<T>(name, tile, sum, {9, 21, 32 * 5 + 8, 2, 3, ACTIVATION_NONE, true, false, false, true});
    test_gemm<T>("gemm_any", {any, 16, 16, 256}, sum, {17, 3, 13, 2, 1, activation, true, true, false});
    // Gates: of whole vectors of outputs without another epilogue, with every epilogue, strides and more rows than squares,
    // of an odd number of outputs, and after parts of the summed axis.
    auto gated = [&](const char* name, const Tile& tile, Shape shape) {
        shape.is_gated = true;
        test_gemm<T>(name, tile, sum, shape);
    };
    gated(name, tile, {rows + 3, columns - 8, 72, 1, 1, ACTIVATION_NONE, false, false, false});
    gated(name, tile, {rows - 7, columns - 8, 40, 2, 1, activation, true, true, true});
    gated(name, tile, {rows + 3, 19, 40, 1, 1, activation, true, false, false});
    gated(name, tile, {67, 21, 32 * 5 + 8, 2, 3, activation, true, true, false});
    gated("gemm_any", {any, 16, 16, 256}, {67, 3, 13, 2, 1, activation, true, true, false});
}

int main() {
#if MATRIX_LAYOUT == MATRIX_QUADS
#define LARGE(type) {gemm_##type##_128x128_128, 128, 128, 128}
#define SMALL(type) {gemm_##type##_16x32_32, 16, 32, 32}
#else
#define LARGE(type) {gemm_##type##_128x128_256, 128, 128, 256}
#define SMALL(type) {gemm_##type##_32x64_128, 32, 64, 128}
#endif
    test_tile<Half>("gemm_f16_128x128", LARGE(f16), gemm_sum_f16, gemm_any_f16, ACTIVATION_MISH);
    const Tile medium = {gemm_bf16_64x64_128, 64, 64, 128}, medium_f32 = {gemm_f32_64x64_128, 64, 64, 128};
    test_tile<Bfloat>("gemm_bf16_64x64", medium, gemm_sum_bf16, gemm_any_bf16, ACTIVATION_TANH);
    test_tile<Half>("gemm_f16, small", SMALL(f16), gemm_sum_f16, gemm_any_f16, ACTIVATION_RELU_2);
    const Tile narrow = {gemm_f16_64x32_128, 64, 32, 128};
    test_gemm<Half>("gemm_f16_64x32", narrow, gemm_sum_f16, {67, 40, 72, 1, 1, ACTIVATION_NONE, true, true, true});
#if MATRIX_LAYOUT == MATRIX_QUARTERS
    const Tile wide = {gemm_bf16_64x128_256, 64, 128, 256};
    auto wide_chain = gemm_chain_f16_64x128_256;
#else
    const Tile wide = {gemm_bf16_64x128_128, 64, 128, 128};
    auto wide_chain = gemm_chain_f16_64x128_128;
#endif
    test_tile<Bfloat>("gemm_bf16_64x128", wide, gemm_sum_bf16, gemm_any_bf16, ACTIVATION_SWISH);
    test_chain<Half>(wide_chain, wide, 136, 2);
#if MATRIX_LAYOUT == MATRIX_QUADS
    const Tile two_waves = {gemm_f16_64x128_64, 64, 128, 64};
    test_tile<Half>("gemm_f16_64x128, two waves", two_waves, gemm_sum_f16, gemm_any_f16, ACTIVATION_MISH);
#endif
    test_chain<Half>(gemm_chain_f16_64x32_128, narrow, 88, 1);
    test_chain<Bfloat>(gemm_chain_bf16_64x64_128, medium, 72, 3);
    test_chain<Half>(gemm_chain_f16_64x32_128, narrow, 1032, 2);
    // These kernels are the same for every matrix layout.
    if (MATRIX_LAYOUT != MATRIX_HALVES) return 0;
    const Tile large_f32 = {gemm_f32_128x128_256, 128, 128, 256};
    test_tile<float>("gemm_f32_64x64", medium_f32, gemm_sum_f32, gemm_any_f32, ACTIVATION_SELU);
    test_tile<float>("gemm_f32_128x128", large_f32, gemm_sum_f32, gemm_any_f32, ACTIVATION_SIGMOID);
    return 0;
}
