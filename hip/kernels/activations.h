// lc0's activation functions for COUNT elements at a time. All threads of a block use the same function, so the switch
// costs only a few scalar instructions for all of a thread's elements.
//
// tanh, mish and swish each need one exponential and one reciprocal, and are written so that nothing overflows:
//   tanh(x) = 1 - 2 / (e^2x + 1)
//   mish(x) = x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2); from 20 on it equals x in fp32
//   swish(x) = x / (1 + e^-x)
#pragma once
#include "elements.h"
#include "kernels.h"

GPU_FUNCTION float exponential(float x) {
    return power_of_two(x * LOG2_E);
}
GPU_FUNCTION float sigmoid(float x) {
    return reciprocal(1.0f + exponential(-x));
}
GPU_FUNCTION float hyperbolic_tangent(float x) {
    return 1.0f - 2.0f * reciprocal(exponential(2.0f * x) + 1.0f);
}
GPU_FUNCTION float mish(float x) {
    const float e = exponential(minimum(x, 20.0f));
    const float n = e * (e + 2.0f);
    return x * (n * reciprocal(n + 2.0f));
}
GPU_FUNCTION float selu(float x) {
    const float scale = 1.05070098735548049342f, alpha = 1.67326324235437728481f;
    return scale * (x > 0.0f ? x : alpha * (exponential(x) - 1.0f));
}

// Applies `function` to each element.
template <i32 COUNT, class Function>
GPU_FUNCTION void map(float (&x)[COUNT], Function function) {
#pragma unroll
    for (i32 i = 0; i < COUNT; i++) x[i] = function(x[i]);
}

template <i32 COUNT>
GPU_FUNCTION void activate(i32 activation, float (&x)[COUNT]) {
    switch (activation) {
        case ACTIVATION_RELU: map(x, [](float v) { return maximum(v, 0.0f); }); break;
        case ACTIVATION_RELU_2:
            map(x, [](float v) {
                const float positive = maximum(v, 0.0f);
                return positive * positive;
            });
            break;
        case ACTIVATION_TANH: map(x, [](float v) { return hyperbolic_tangent(v); }); break;
        case ACTIVATION_SIGMOID: map(x, [](float v) { return sigmoid(v); }); break;
        case ACTIVATION_SELU: map(x, [](float v) { return selu(v); }); break;
        case ACTIVATION_MISH: map(x, [](float v) { return mish(v); }); break;
        case ACTIVATION_SWISH: map(x, [](float v) { return v * sigmoid(v); }); break;
        default: break;
    }
}
