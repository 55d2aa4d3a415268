// The last layer of the value and moves-left heads: output = finish(weights act(input + hidden_bias) + bias).
// Arguments: ScalarHeadArguments (kernels.h).
//
//   grid           ceil(B / 8) blocks of 256 threads
//   a thread owns  every 32nd vector of eight hidden elements of one position: 32 lanes share a position
//   layouts        input [B][hidden], weights [outputs][hidden], output [B][outputs] in fp32, so that results are not
//                  rounded again; hidden is a multiple of 8, and outputs is 1 to 3
//   shared memory  none
//   wave size      32 or 64: the sums stay within 32 lanes
//
// With one to three outputs the work is too small for a library's GEMM: this kernel ends before such a
// GEMM would have started.
#include "activations.h"

#define HEAD_THREADS 256
#define LARGEST_OUTPUTS 3

template <class T>
GPU_FUNCTION void scalar_head(const ScalarHeadArguments& a) {
    const i32 position = block_x() * (HEAD_THREADS / ROW_LANES) + thread() / ROW_LANES;
    // Lanes beyond the last position compute the last position again, because every lane must take part in the sums.
    // They write nothing.
    const i32 row = position < a.positions ? position : a.positions - 1;
    float sum[LARGEST_OUTPUTS] = {};
#pragma unroll 1
    for (i32 i = thread() % ROW_LANES * 8; i < a.hidden; i += ROW_LANES * 8) {
        Eight x = load_eight((const T*)a.input + (i64)row * a.hidden + i);
        if (a.hidden_bias) x = plus(x, (const T*)a.hidden_bias + i);
        activate(a.activation, x.value);
#pragma unroll
        for (i32 output = 0; output < LARGEST_OUTPUTS; output++) {
            if (output >= a.outputs) break;
            const Eight weights = load_eight((const T*)a.weights + (i64)output * a.hidden + i);
#pragma unroll
            for (i32 k = 0; k < 8; k++) sum[output] += x.value[k] * weights.value[k];
        }
    }
#pragma unroll
    for (i32 output = 0; output < LARGEST_OUTPUTS; output++) {
        sum[output] = sum_over_lanes<ROW_LANES>(sum[output]);
        if (a.bias && output < a.outputs) sum[output] += load_one(a.bias + output);
    }
    if (position >= a.positions || thread() % ROW_LANES != 0) return;

    if (a.finish == FINISH_SOFTMAX) {
        float largest = sum[0], total = 0.0f;
#pragma unroll
        for (i32 output = 1; output < LARGEST_OUTPUTS; output++)
            if (output < a.outputs) largest = maximum(largest, sum[output]);
#pragma unroll
        for (i32 output = 0; output < LARGEST_OUTPUTS; output++) {
            sum[output] = output < a.outputs ? exponential(sum[output] - largest) : 0.0f;
            total += sum[output];
        }
        const float factor = reciprocal(total);
        map(sum, [&](float v) { return v * factor; });
    } else if (a.finish == FINISH_TANH) {
        map(sum, [](float v) { return hyperbolic_tangent(v); });
    } else if (a.finish == FINISH_RELU) {
        map(sum, [](float v) { return maximum(v, 0.0f); });
    }
#pragma unroll
    for (i32 output = 0; output < LARGEST_OUTPUTS; output++)
        if (output < a.outputs) store_one(a.output + (i64)row * a.outputs + output, sum[output]);
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(HEAD_THREADS, scalar_head_##type, ScalarHeadArguments) {                                        \
        scalar_head<T>(arguments);                                                                             \
    }
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
