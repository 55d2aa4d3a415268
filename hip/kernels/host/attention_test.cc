// Compares attention with plain sums, for every depth, type and matrix layout.
#include "../attention.hip"
#include "../attention_any.hip"
#include "testing.h"

using namespace testing;

struct Shape {
    i32 positions, heads, depth, gap;  // gap: unused columns after each row of Q, K, V
    bool with_logits;
    float deviation;  // of Q and K
};

template <class T>
static void test_attention(void (*kernel)(AttentionArguments), const char* name, const Shape& shape, i32 together = 1) {
    Check check{std::string(name) + "_" + type_name<T>() + " depth " + std::to_string(shape.depth)};
    Random random((u64)(shape.depth * 100 + shape.heads));
    const auto [positions, heads, depth, gap, with_logits, deviation] = shape;
    const i32 width = heads * depth, stride = 3 * width + gap, output_stride = width + gap;
    const size_t rows = (size_t)positions * 64;
    // The last row has no gap after it: nothing may be read beyond V.
    Filled<T> qkv(rows * stride - gap, random, deviation);
    Filled<T> logits((size_t)positions * heads * 4096, random, 2.0f);
    Buffer<T> output(rows * output_stride - gap);
    // Stands for a product that has overflowed
    if (with_logits && std::is_same_v<T, Half>) assign(logits[5], INFINITY);
    const float scale = 1.0f / std::sqrt((float)depth);
    const AttentionArguments arguments = {qkv.data(), with_logits ? logits.data() : nullptr, output.data(), heads,
                                          depth, stride, width, 2 * width, output_stride, scale};
    launch(kernel, arguments, (heads + together - 1) / together, positions, together * 128);

    for (i32 position = 0; position < positions; position++)
        for (i32 head = 0; head < heads; head++)
            for (i32 query = 0; query < 64; query++) {
                auto at = [&](i32 square, i32 part, i32 k) {
                    return qkv.value(((size_t)position * 64 + square) * stride + part * width + head * depth + k);
                };
                std::vector<double> weights(64);
                for (i32 key = 0; key < 64; key++) {
                    for (i32 k = 0; k < depth; k++) weights[key] += at(query, 0, k) * at(key, 1, k);
                    weights[key] *= scale;
                    if (with_logits) {
                        const size_t place = (((size_t)position * heads + head) * 64 + query) * 64 + key;
                        weights[key] = std::min(weights[key] + logits.value(place), 65504.0);
                    }
                }
                softmax(weights);
                for (i32 k = 0; k < depth; k++) {
                    double expected = 0.0, size = 0.0;
                    for (i32 key = 0; key < 64; key++) {
                        expected += weights[key] * at(key, 2, k);
                        size += weights[key] * std::abs(at(key, 2, k));
                    }
                    const size_t place = ((size_t)position * 64 + query) * output_stride + head * depth + k;
                    // Rounded once as probabilities and once as results; the scores' error grows with their size.
                    const double limit = (1.5 * precision<T>() + 2e-5 * (1 + deviation * deviation)) * size;
                    check.compare(output.value(place), expected, limit, "output", place);
                }
            }
    for (size_t row = 0; row + 1 < rows; row++)
        for (i32 k = width; k < output_stride; k++)
            if (!std::isnan(output.value(row * output_stride + k))) host::fail("wrote into the gap", 0);
}

int main() {
#define DEPTH(suffix, depth, together)                                                                         \
    test_attention<Half>(attention_f16_##suffix, "attention", {1, 3, depth, 8, true, 1.0f}, together);         \
    test_attention<Half>(attention_f16_##suffix, "attention", {2, 1, depth, 0, false, 2.0f}, together);        \
    test_attention<Bfloat>(attention_bf16_##suffix, "attention", {2, 2, depth, 0, true, 1.0f}, together);
#if GPU_HAS_DIES
    DEPTH(d8_x2, 8, 2)
    DEPTH(d16_x2, 16, 2)
    DEPTH(d32_x2, 32, 2)
#else
    DEPTH(d8, 8, 1)
    DEPTH(d16, 16, 1)
    DEPTH(d32, 32, 1)
#endif
    DEPTH(d64, 64, 1)
    DEPTH(d96, 96, 1)
    DEPTH(d128, 128, 1)
    test_attention<Half>(attention_other_f16_d32, "attention_other", {2, 3, 32, 8, true, 1.0f});
    test_attention<Bfloat>(attention_other_bf16_d32, "attention_other", {1, 2, 32, 0, false, 2.0f});
    // attention_any does not depend on the matrix layout.
    if (MATRIX_LAYOUT == MATRIX_REPLICATED || MATRIX_LAYOUT == MATRIX_QUARTERS) {
        // With a gap of 8, all strides are multiples of eight if the depth is.
        for (i32 depth : {4, 8, 20, 32, 40, 64}) {
            test_attention<float>(attention_any_f32, "attention_any", {2, 2, depth, 3, true, 1.0f});
            test_attention<float>(attention_any_f32, "attention_any", {1, 1, depth, 0, false, 2.0f});
            test_attention<float>(attention_any_f32, "attention_any", {1, 2, depth, 8, true, 1.0f});
            for (i32 gap : {1, 8}) {
                test_attention<Half>(attention_any_f16, "attention_any", {1, 2, depth, gap, true, 1.0f});
                test_attention<Bfloat>(attention_any_bf16, "attention_any", {1, 2, depth, gap, gap == 1, 1.0f});
            }
        }
    }
    return 0;
}
