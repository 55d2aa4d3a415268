// Compares convolution by Winograd's transforms with a direct convolution, and squeeze-and-excitation with plain loops.
#include "../convolution.hip"
#include "../squeeze_excite.hip"
#include "testing.h"

using namespace testing;

// Component (row, column) of a transformed 3x3 kernel: G g G^T. G's rows are 1, p, p^2 for each point p, over the
// product of its distances from the other points.
static double transformed_weight(const double (&kernel)[9], i32 row, i32 column) {
    const double points[] = {0.0, NEAR, -NEAR, FAR, -FAR};
    auto g = [&](i32 component, i32 power) {
        if (component == 5) return power == 2 ? 1.0 : 0.0;
        double scale = 1.0;
        for (i32 i = 0; i < 5; i++)
            if (i != component) scale *= points[component] - points[i];
        return std::pow(points[component], power) / scale;
    };
    double sum = 0.0;
    for (i32 i = 0; i < 3; i++)
        for (i32 j = 0; j < 3; j++) sum += g(row, i) * kernel[3 * i + j] * g(column, j);
    return sum;
}

template <class T>
static void test_convolution(void (*input_kernel)(WinogradArguments), void (*output_kernel)(WinogradArguments),
                             i32 positions, i32 inputs, i32 outputs, bool with_residual, void (*whole)(ConvolutionArguments) = nullptr) {
    using Component = typename ComponentOf<T>::Type;
    Check check{std::string("convolution_") + type_name<T>() + " " + std::to_string(inputs) + " to " + std::to_string(outputs)};
    Random random((u64)(inputs + outputs));
    const Filled<T> x((size_t)positions * 64 * inputs, random), bias(outputs, random);
    const Filled<T> residual((size_t)positions * 64 * outputs, random);
    const Filled<float> weights((size_t)outputs * inputs * 9, random, 1.0f / std::sqrt(9.0f * (float)inputs));
    const i64 input_stride = (i64)4 * positions * inputs + 8, output_stride = (i64)4 * positions * outputs + 16;
    Buffer<Component> transformed((size_t)(36 * input_stride)), products((size_t)(36 * output_stride));
    Buffer<T> y((size_t)positions * 64 * outputs);
    Buffer<float> means((size_t)positions * outputs);

    // The weights, rounded as the components are
    Buffer<Component> rounded((size_t)36 * outputs * inputs);
    for (i32 component = 0; component < 36; component++)
        for (i32 i = 0; i < outputs * inputs; i++) {
            double kernel[9];
            for (i32 tap = 0; tap < 9; tap++) kernel[tap] = weights.value((size_t)i * 9 + tap);
            assign(rounded[(size_t)component * outputs * inputs + i], (float)transformed_weight(kernel, component / 6, component % 6));
        }
    const i32 activation = with_residual ? ACTIVATION_MISH : ACTIVATION_NONE;
    const WinogradArguments input = {x.data(), transformed.data(), nullptr, nullptr, nullptr, input_stride, inputs, 0};
    const WinogradArguments output = {products.data(), y.data(), bias.data(), with_residual ? residual.data() : nullptr,
                                      with_residual ? nullptr : means.data(), output_stride, outputs, activation};
    if (whole) {
        const i32 rows = 4 * positions, tiles = (rows + 63) / 64 * ((outputs + 63) / 64);
        const i32 blocks = positions * ((inputs + 63) / 64 + (outputs + 63) / 64) + 36 * tiles;
        const GemmArguments product = {transformed.data(), rounded.data(), products.data(), nullptr, nullptr, nullptr,
                                       nullptr, nullptr, input_stride, (i64)outputs * inputs, output_stride, rows, outputs, inputs, inputs,
                                       inputs, outputs, 36, 1, ACTIVATION_NONE, 0};
        std::vector<u32> counters(1 + (rows + 63) / 64);
        launch(whole, ConvolutionArguments{input, product, output, counters.data(), positions, blocks}, blocks, 1, 128);
        for (u32 counter : counters)
            if (counter != 0) host::fail("a counter is not back at zero", (i32)counter);
    } else {
        launch(input_kernel, input, (inputs + 63) / 64, positions, 128);
        for (i32 component = 0; component < 36; component++)
            for (i32 n = 0; n < outputs; n++)
                for (i32 tile = 0; tile < 4 * positions; tile++) {
                    double sum = 0.0;
                    for (i32 k = 0; k < inputs; k++)
                        sum += rounded.value(((size_t)component * outputs + n) * inputs + k) *
                               transformed.value((size_t)(component * input_stride + tile * inputs + k));
                    assign(products[(size_t)(component * output_stride + tile * outputs + n)], (float)sum);
                }
        launch(output_kernel, output, (outputs + 63) / 64, positions, 128);
    }

    const double limit = sizeof(T) == 4 ? 2e-5 : 0.012 + 2 * precision<T>();
    for (i32 position = 0; position < positions; position++)
        for (i32 output = 0; output < outputs; output++) {
            double mean = 0.0;
            for (i32 square = 0; square < 64; square++) {
                double sum = bias.value(output);
                for (i32 tap = 0; tap < 9; tap++) {
                    const i32 rank = square / 8 + tap / 3 - 1, file = square % 8 + tap % 3 - 1;
                    if (rank < 0 || rank > 7 || file < 0 || file > 7) continue;
                    for (i32 input = 0; input < inputs; input++)
                        sum += weights.value(((size_t)output * inputs + input) * 9 + tap) *
                               x.value(((size_t)position * 64 + 8 * rank + file) * inputs + input);
                }
                const size_t place = ((size_t)position * 64 + square) * outputs + output;
                if (with_residual) sum += residual.value(place);
                mean += sum / 64;
                const double expected = activated(activation, sum);
                check.compare(y.value(place), expected, limit + precision<T>() * std::abs(expected), "output", place);
            }
            if (!with_residual) {
                const size_t place = (size_t)position * outputs + output;
                check.compare(means.value(place), mean, limit, "means", place);
            }
        }
}

template <class T>
static void test_squeeze_excite(void (*kernel)(SqueezeExciteArguments), i32 positions, i32 channels, i32 hidden) {
    Check check{std::string("squeeze_excite_") + type_name<T>() + " " + std::to_string(channels) + ", " + std::to_string(hidden)};
    Random random((u64)(channels + hidden));
    const size_t board = (size_t)64 * channels;
    const Filled<T> branch(positions * board, random), residual(positions * board, random);
    const Filled<float> means((size_t)positions * channels, random);
    const Filled<T> squeeze((size_t)hidden * channels, random, 0.2f), squeeze_bias(hidden, random);
    const Filled<T> excite((size_t)hidden * 2 * channels, random, 0.3f), excite_bias(2 * (size_t)channels, random);
    Buffer<T> output(positions * board);
    launch(kernel, SqueezeExciteArguments{branch.data(), residual.data(), output.data(), means.data(), squeeze.data(),
                                          squeeze_bias.data(), excite.data(), excite_bias.data(), channels, hidden,
                                          ACTIVATION_RELU, 0}, positions, 1, 256);
    for (i32 position = 0; position < positions; position++) {
        std::vector<double> middle(hidden), factors(2 * (size_t)channels);
        for (i32 row = 0; row < hidden; row++) {
            double sum = squeeze_bias.value(row);
            for (i32 i = 0; i < channels; i++)
                sum += squeeze.value((size_t)row * channels + i) * means.value((size_t)position * channels + i);
            middle[row] = std::max(sum, 0.0);
        }
        for (i32 i = 0; i < 2 * channels; i++) {
            factors[i] = excite_bias.value(i);
            for (i32 row = 0; row < hidden; row++) factors[i] += excite.value((size_t)row * 2 * channels + i) * middle[row];
        }
        for (size_t i = 0; i < board; i++) {
            const i32 channel = (i32)(i % channels);
            const size_t place = position * board + i;
            const double scale = 1.0 / (1.0 + std::exp(-factors[channel]));
            const double sum = scale * branch.value(place) + factors[channels + channel] + residual.value(place);
            const double expected = std::max(sum, 0.0);
            check.compare(output.value(place), expected, precision<T>() * std::abs(expected) + 3e-5, "output", place);
        }
    }
}

#define TYPE(type, T)                                                                                          \
    test_convolution<T>(winograd_input_##type, winograd_output_##type, 2, 16, 16, false);                      \
    test_convolution<T>(winograd_input_##type, winograd_output_##type, 1, 112, 24, true);                      \
    test_convolution<T>(winograd_input_##type, winograd_output_##type, 3, 64, 80, false);                      \
    test_convolution<T>(winograd_input_##type, winograd_output_##type, 17, 16, 8, true, convolution_##type##_64x64); \
    test_convolution<T>(winograd_input_##type, winograd_output_##type, 2, 72, 72, false, convolution_##type##_64x64); \
    test_squeeze_excite<T>(squeeze_excite_##type, 2, 16, 8);                                                   \
    test_squeeze_excite<T>(squeeze_excite_##type, 1, 264, 40);

int main() {
    TYPE(f32, float)
    TYPE(f16, Half)
    TYPE(bf16, Bfloat)
    return 0;
}
