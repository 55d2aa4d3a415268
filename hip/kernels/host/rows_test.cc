// Compares planes, activations, LayerNorm, policies and scalar heads with plain loops, in all types and ragged shapes.
#include "../activation.hip"
#include "../heads.hip"
#include "../layer_norm.hip"
#include "../planes.hip"
#include "../policy.hip"
#include "testing.h"

using namespace testing;

static i32 blocks(i64 count, i32 each) {
    return (i32)((count + each - 1) / each);
}

template <class T>
static void test_planes(void (*kernel)(PlanesArguments), i32 positions, i32 planes, i32 extra, bool with_value) {
    Check check{std::string("planes_") + type_name<T>() + " " + std::to_string(planes) + " + " + std::to_string(extra)};
    Random random(7);
    const i32 stride = 112, width = planes + extra;
    Buffer<u64> masks((size_t)positions * stride);
    for (size_t i = 0; i < masks.count(); i++) masks[i] = (u64)random.bits() << 33 ^ (u64)random.bits() << 11 ^ random.bits();
    Buffer<float> values(positions);
    for (i32 i = 0; i < positions; i++) values[i] = 0.31f + (float)i;
    Filled<T> table((size_t)64 * extra, random);
    Buffer<T> output((size_t)positions * 64 * width);
    const i32 valued = with_value ? 109 : -1;
    launch(kernel, PlanesArguments{masks.data(), with_value ? values.data() : nullptr, extra ? table.data() : nullptr,
                                   output.data(), stride, planes, extra, valued}, positions, 1, 256);
    for (i32 position = 0; position < positions; position++)
        for (i32 square = 0; square < 64; square++)
            for (i32 channel = 0; channel < width; channel++) {
                double expected;
                if (channel >= planes) {
                    expected = table.value((size_t)square * extra + channel - planes);
                } else {
                    T one;
                    assign(one, channel == valued ? values[position] : 1.0f);
                    expected = masks[(size_t)position * stride + channel] >> square & 1 ? value_of(one) : 0.0;
                }
                const size_t place = ((size_t)position * 64 + square) * width + channel;
                check.compare(output.value(place), expected, 1e-9, "output", place);
            }
}

// The rows that the tests of activation, softmax and layer_norm share.
template <class T>
struct Rows {
    i32 rows, width, bias_rows;
    Filled<T> input, residual, bias, multiply, add;
    Buffer<T> output;

    Rows(i32 rows, i32 width, i32 bias_rows, float mean, Random& random)
        : rows(rows), width(width), bias_rows(bias_rows), input((size_t)rows * width, random, 2.0f, mean),
          residual((size_t)rows * width, random), bias((size_t)bias_rows * width, random),
          multiply((size_t)64 * width, random, 0.2f, 1.0f), add((size_t)64 * width, random, 0.2f),
          output((size_t)rows * width) {}
    double biased(i32 row, i32 column) const {
        return input.value((size_t)row * width + column) + bias.value((size_t)(row % bias_rows) * width + column);
    }
    double gated(i32 row, i32 column, double x) const {
        const size_t place = (size_t)(row % 64) * width + column;
        return x * multiply.value(place) + add.value(place);
    }
};

template <class T>
static void test_activation(void (*kernel)(ActivationArguments), i32 rows, i32 width, i32 bias_rows) {
    Check check{std::string("activation_") + type_name<T>() + " " + std::to_string(rows) + " x " + std::to_string(width)};
    Random random((u64)(rows * width));
    const Rows<T> x(rows, width, bias_rows, 0.0f, random);
    assign(x.input[0], 60.0f);  // where exponentials overflow
    assign(x.input[1], -60.0f);
    for (i32 activation = 0; activation < 8; activation++) {
        const bool gate = activation % 2 == 0;
        launch(kernel, ActivationArguments{x.input.data(), x.bias.data(), gate ? x.multiply.data() : nullptr,
                                           gate ? x.add.data() : nullptr, x.output.data(), rows, width, bias_rows,
                                           activation}, blocks((i64)rows * width, 2048), 1, 256);
        for (i32 row = 0; row < rows; row++)
            for (i32 column = 0; column < width; column++) {
                double expected = activated(activation, x.biased(row, column));
                if (gate) expected = x.gated(row, column, expected);
                const size_t place = (size_t)row * width + column;
                check.compare(x.output.value(place), expected, precision<T>() * std::abs(expected) + 1e-6, "output", place);
            }
    }
}

template <class T>
static void test_softmax(void (*kernel)(ActivationArguments), i32 rows, i32 width) {
    Check check{std::string("softmax_") + type_name<T>() + " " + std::to_string(rows) + " x " + std::to_string(width)};
    Random random((u64)(rows * width));
    const Rows<T> x(rows, width, 1, 0.0f, random);
    launch(kernel, ActivationArguments{x.input.data(), x.bias.data(), nullptr, nullptr, x.output.data(), rows, width, 1, 0},
           blocks(rows, 8), 1, 256);
    for (i32 row = 0; row < rows; row++) {
        std::vector<double> expected(width);
        for (i32 column = 0; column < width; column++) expected[column] = x.biased(row, column);
        softmax(expected);
        for (i32 column = 0; column < width; column++) {
            const size_t place = (size_t)row * width + column;
            check.compare(x.output.value(place), expected[column], (precision<T>() + 2e-6) * expected[column] + 1e-7,
                          "output", place);
        }
    }
}

template <class T>
static void test_layer_norm(void (*kernel)(LayerNormArguments), i32 rows, i32 width, i32 activation, bool plain,
                            float mean) {
    Check check{std::string("layer_norm_") + type_name<T>() + " " + std::to_string(rows) + " x " + std::to_string(width)};
    Random random((u64)(rows * width));
    const i32 bias_rows = rows > 64 ? 64 : 1;
    const Rows<T> x(rows, width, bias_rows, mean, random);
    const Filled<T> gammas(width, random, 0.1f, 1.0f), betas(width, random);
    const float alpha = plain ? 1.0f : 0.7f, epsilon = 1e-3f;
    auto optional = [&](const Buffer<T>& buffer) { return plain ? nullptr : buffer.data(); };
    launch(kernel, LayerNormArguments{x.input.data(), optional(x.bias), optional(x.residual), gammas.data(), betas.data(),
                                      optional(x.multiply), optional(x.add), x.output.data(), rows, width, bias_rows,
                                      activation, alpha, epsilon}, width > 1024 ? rows : blocks(rows, 8), 1, 256);
    for (i32 row = 0; row < rows; row++) {
        std::vector<double> sums(width);
        double total = 0.0, squares = 0.0;
        for (i32 column = 0; column < width; column++) {
            const size_t place = (size_t)row * width + column;
            const double value = activated(activation, plain ? x.input.value(place) : x.biased(row, column));
            sums[column] = alpha * value + (plain ? 0.0 : x.residual.value(place));
            total += sums[column];
        }
        total /= width;
        for (double sum : sums) squares += (sum - total) * (sum - total);
        const double scale = 1.0 / std::sqrt(squares / width + epsilon);
        for (i32 column = 0; column < width; column++) {
            double expected = (sums[column] - total) * scale * gammas.value(column) + betas.value(column);
            if (!plain) expected = x.gated(row, column, expected);
            const size_t place = (size_t)row * width + column;
            // With a mean of 100, fp32 has two digits fewer for the distances from the mean.
            check.compare(x.output.value(place), expected,
                          precision<T>() * std::abs(expected) + 3e-6 * (1 + std::abs(mean)), "output", place);
        }
    }
}

// Legal moves of some positions. One position has all moves, and another has no move.
struct Moves {
    Buffer<u32> first;
    Buffer<u16> moves;
    static Moves make(i32 positions, Random& random) {
        std::vector<u32> first = {0};
        std::vector<u16> moves;
        for (i32 position = 0; position < positions; position++) {
            const i32 count = position == 0 ? 1858 : position == 1 ? 0 : 1 + random.below(60);
            for (i32 i = 0; i < count; i++) moves.push_back((u16)(position == 0 ? i : random.below(1858)));
            first.push_back((u32)moves.size());
        }
        return Moves(first, moves);
    }

  private:
    Moves(const std::vector<u32>& f, const std::vector<u16>& m) : first(f.size()), moves(m.size()) {
        std::copy(f.begin(), f.end(), first.data());
        std::copy(m.begin(), m.end(), moves.data());
    }
};

template <class Logit>
static void compare_policy(Check& check, const Moves& moves, const Buffer<float>& found, i32 positions, float temperature,
                           double logit_limit, Logit logit) {
    for (i32 position = 0; position < positions; position++) {
        const u32 first = moves.first[position], last = moves.first[position + 1];
        std::vector<double> expected;
        for (u32 i = first; i < last; i++) expected.push_back(logit(position, moves.moves[i]));
        if (temperature != 0.0f && !expected.empty()) {
            for (double& x : expected) x *= temperature;
            softmax(expected);
        }
        for (u32 i = first; i < last; i++) {
            const double limit = temperature == 0.0f ? logit_limit : 4 * logit_limit * expected[i - first] + 1e-7;
            check.compare(found.value(i), expected[i - first], limit, "probabilities", i);
        }
    }
}

template <class T>
static void test_attention_policy(void (*kernel)(AttentionPolicyArguments), i32 depth, float temperature) {
    Check check{std::string("attention_policy_") + type_name<T>() + " depth " + std::to_string(depth)};
    Random random((u64)depth);
    const i32 positions = 4, stride = 2 * depth;
    const Filled<T> rows((size_t)positions * 64 * stride, random, 0.7f), promotions((size_t)3 * depth, random, 0.3f);
    Buffer<u16> places(1858);
    for (i32 i = 0; i < 1858; i++) places[i] = (u16)(i < 1792 ? random.below(4096) : 4096 + random.below(192));
    const Moves moves = Moves::make(positions, random);
    Buffer<float> found(moves.moves.count());
    const float scale = 1.0f / std::sqrt((float)depth);
    launch(kernel, AttentionPolicyArguments{rows.data(), rows.data() + depth, promotions.data(), places.data(),
                                            moves.first.data(), moves.moves.data(), found.data(), stride, depth, scale,
                                            temperature}, positions, 1, 512);
    compare_policy(check, moves, found, positions, temperature, 1e-5, [&](i32 position, u16 move) {
        const i32 place = places[move], promotion = place - 4096;
        const i32 from = place < 4096 ? place / 64 : 48 + promotion / 24;
        const i32 to = place < 4096 ? place % 64 : 56 + promotion / 3 % 8;
        double logit = 0.0;
        for (i32 k = 0; k < depth; k++) {
            const double key = rows.value(((size_t)position * 64 + to) * stride + depth + k);
            logit += scale * rows.value(((size_t)position * 64 + from) * stride + k) * key;
            if (place >= 4096) logit += promotions.value((size_t)(promotion % 3) * depth + k) * key;
        }
        return logit;
    });
}

template <class T>
static void test_policy(void (*kernel)(PolicyArguments), i32 width, i32 bias_width, float temperature) {
    Check check{std::string("policy_") + type_name<T>() + " width " + std::to_string(width)};
    Random random((u64)width);
    const i32 positions = 5;
    const Filled<T> logits((size_t)positions * width, random, 2.0f), bias(bias_width, random);
    Buffer<u16> places(1858);
    for (i32 i = 0; i < 1858; i++) places[i] = (u16)random.below(width);
    const Moves moves = Moves::make(positions, random);
    Buffer<float> found(moves.moves.count());
    launch(kernel, PolicyArguments{logits.data(), bias.data(), places.data(), moves.first.data(), moves.moves.data(),
                                   found.data(), width, bias_width, temperature, 0}, positions, 1, 512);
    compare_policy(check, moves, found, positions, temperature, 2e-6, [&](i32 position, u16 move) {
        return logits.value((size_t)position * width + places[move]) + bias.value(places[move] % bias_width);
    });
}

template <class T>
static void test_scalar_head(void (*kernel)(ScalarHeadArguments), i32 positions, i32 hidden, i32 outputs, i32 finish) {
    Check check{std::string("scalar_head_") + type_name<T>() + " hidden " + std::to_string(hidden)};
    Random random((u64)(hidden + outputs));
    const Filled<T> input((size_t)positions * hidden, random), hidden_bias(hidden, random);
    const Filled<T> weights((size_t)outputs * hidden, random, 0.2f);
    const Filled<float> bias(outputs, random);
    Buffer<float> output((size_t)positions * outputs);
    launch(kernel, ScalarHeadArguments{input.data(), hidden_bias.data(), weights.data(), bias.data(), output.data(),
                                       positions, hidden, outputs, ACTIVATION_MISH, finish, 0}, blocks(positions, 8), 1, 256);
    for (i32 position = 0; position < positions; position++) {
        std::vector<double> expected(outputs);
        for (i32 i = 0; i < outputs; i++) {
            expected[i] = bias.value(i);
            for (i32 k = 0; k < hidden; k++) {
                const double x = input.value((size_t)position * hidden + k) + hidden_bias.value(k);
                expected[i] += activated(ACTIVATION_MISH, x) * weights.value((size_t)i * hidden + k);
            }
            if (finish == FINISH_TANH) expected[i] = std::tanh(expected[i]);
            if (finish == FINISH_RELU) expected[i] = std::max(expected[i], 0.0);
        }
        if (finish == FINISH_SOFTMAX) softmax(expected);
        for (i32 i = 0; i < outputs; i++)
            check.compare(output.value((size_t)position * outputs + i), expected[i], 2e-5, "output", position * outputs + i);
    }
}

#define LAYER_NORM(type, T)                                                                                    \
    test_layer_norm<T>(layer_norm_##type##_w256, 9, 8, ACTIVATION_NONE, true, 0.0f);                           \
    test_layer_norm<T>(layer_norm_##type##_w256, 3, 248, ACTIVATION_SWISH, false, 0.0f);                       \
    test_layer_norm<T>(layer_norm_##type##_w256, 130, 256, ACTIVATION_MISH, false, 0.0f);                      \
    test_layer_norm<T>(layer_norm_##type##_w512, 8, 264, ACTIVATION_NONE, false, 100.0f);                      \
    test_layer_norm<T>(layer_norm_##type##_w768, 17, 768, ACTIVATION_NONE, false, 0.0f);                       \
    test_layer_norm<T>(layer_norm_##type##_w1024, 1, 1024, ACTIVATION_SWISH, true, 0.0f);                      \
    test_layer_norm<T>(layer_norm_##type##_w1024, 2, 776, ACTIVATION_NONE, false, 0.0f);                       \
    test_layer_norm<T>(layer_norm_##type##_w8192, 2, 1032, ACTIVATION_NONE, false, 100.0f);                    \
    test_layer_norm<T>(layer_norm_##type##_w8192, 1, 6144, ACTIVATION_SWISH, false, 0.0f);                     \
    test_layer_norm<T>(layer_norm_##type##_w8192, 2, 8192, ACTIVATION_NONE, true, 0.0f);
#define TYPE(type, T)                                                                                          \
    test_planes<T>(planes_##type, 2, 112, 0, true);                                                            \
    test_planes<T>(planes_##type, 3, 112, 64, true);                                                           \
    test_planes<T>(planes_##type, 1, 12, 0, false);                                                            \
    test_activation<T>(activation_##type, 7, 24, 1);                                                           \
    test_activation<T>(activation_##type, 130, 40, 64);                                                        \
    test_softmax<T>(softmax_##type, 9, 5);                                                                     \
    test_softmax<T>(softmax_##type, 3, 77);                                                                    \
    LAYER_NORM(type, T)                                                                                        \
    test_attention_policy<T>(attention_policy_##type, 24, 0.0f);                                               \
    test_attention_policy<T>(attention_policy_##type, 32, 0.7f);                                               \
    test_attention_policy<T>(attention_policy_##type, 264, 1.0f);                                              \
    test_policy<T>(policy_##type, 1858, 1858, 0.0f);                                                           \
    test_policy<T>(policy_##type, 5120, 80, 0.7f);                                                             \
    test_scalar_head<T>(scalar_head_##type, 9, 16, 3, FINISH_SOFTMAX);                                         \
    test_scalar_head<T>(scalar_head_##type, 3, 264, 1, FINISH_TANH);                                           \
    test_scalar_head<T>(scalar_head_##type, 1, 128, 1, FINISH_RELU);                                           \
    test_scalar_head<T>(scalar_head_##type, 2, 8, 2, FINISH_NONE);

int main() {
    TYPE(f32, float)
    TYPE(f16, Half)
    TYPE(bf16, Bfloat)
    return 0;
}
