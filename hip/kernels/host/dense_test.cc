// Compares products of few rows with plain sums, for both types and each matrix layout.
#include "../dense.hip"
#include "testing.h"

using namespace testing;

struct Shape {
    i32 rows, inputs, outputs, activation;
    bool with_bias;
};

template <class T>
static void test_dense(void (*kernel)(DenseArguments), const char* name, const Shape& shape, bool normalises) {
    Check check{std::string(name) + "_" + type_name<T>() + " " + std::to_string(shape.inputs)};
    Random random((u64)(shape.rows * 1000 + shape.inputs));
    const auto [rows, inputs, outputs, activation, with_bias] = shape;
    Filled<T> input((size_t)rows * inputs, random, 1.0f, 0.5f), weights((size_t)outputs * inputs, random);
    Filled<T> bias((size_t)inputs, random), gammas((size_t)inputs, random, 0.5f, 1.0f), betas((size_t)inputs, random);
    Buffer<T> output((size_t)rows * outputs);
    const float epsilon = 1e-3f;
    const DenseArguments arguments = {input.data(),
                                      weights.data(),
                                      output.data(),
                                      normalises && with_bias ? bias.data() : nullptr,
                                      normalises ? gammas.data() : nullptr,
                                      normalises ? betas.data() : nullptr,
                                      rows,
                                      inputs,
                                      outputs,
                                      activation,
                                      epsilon,
                                      0};
    launch(kernel, arguments, outputs / 16, (rows + 15) / 16, 256);

    for (i32 row = 0; row < rows; row++) {
        std::vector<double> x(inputs);
        for (i32 k = 0; k < inputs; k++) x[k] = input.value((size_t)row * inputs + k);
        if (normalises) {
            double mean = 0.0, variance = 0.0;
            for (i32 k = 0; k < inputs; k++) {
                x[k] = activated(activation, x[k] + (with_bias ? bias.value(k) : 0.0));
                mean += x[k] / inputs;
            }
            for (double v : x) variance += (v - mean) * (v - mean) / inputs;
            for (i32 k = 0; k < inputs; k++)
                x[k] = (x[k] - mean) / std::sqrt(variance + epsilon) * gammas.value(k) + betas.value(k);
        }
        for (i32 n = 0; n < outputs; n++) {
            double expected = 0.0, size = 0.0;
            for (i32 k = 0; k < inputs; k++) {
                const double product = x[k] * weights.value((size_t)n * inputs + k);
                expected += product;
                size += std::abs(product);
            }
            // The result is rounded once, and norm_dense also rounds each normalised element. The sums are fp32,
            // and for their errors 0.05 of such a rounding is enough.
            const double roundings = normalises ? 1.0 : 0.05;
            const double limit = roundings * precision<T>() * size + precision<T>() * std::abs(expected) + 1e-6;
            const size_t place = (size_t)row * outputs + n;
            check.compare(output.value(place), expected, limit, "output", place);
        }
    }
}

int main() {
    for (i32 inputs : {32, 64, 256, 416, 2048}) {
        for (i32 rows : {1, 16, 21}) {
            const Shape shape = {rows, inputs, 48, ACTIVATION_NONE, false};
            test_dense<Half>(dense_f16, "dense", shape, false);
            test_dense<Bfloat>(dense_bf16, "dense", shape, false);
        }
    }
    for (i32 inputs : {32, 96, 256, 512}) {
        for (i32 rows : {2, 16, 33}) {
            const Shape shape = {rows, inputs, 32, rows == 2 ? ACTIVATION_NONE : ACTIVATION_SWISH, rows != 33};
            test_dense<Half>(norm_dense_f16, "norm_dense", shape, true);
            test_dense<Bfloat>(norm_dense_bf16, "norm_dense", shape, true);
        }
    }
    return 0;
}
