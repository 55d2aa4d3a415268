// Elementwise activation with bias and gate, and the softmax over rows. Arguments: ActivationArguments (kernels.h).
//
// activation: output[r][c] = act(input[r][c] + bias[r % bias_rows][c]) * multiply[r % 64][c] + add[r % 64][c]
//   grid           ceil(rows * width / 2048) blocks of 256 threads
//   a thread owns  eight neighbouring elements of one row; width is a multiple of 8
//   memory         a thread moves one 16-byte vector in and one out (two each in fp32); bias and gates are cached
//   shared memory  none
//   wave size      any: no lane reads another lane's values
//
// softmax: output[r] = softmax(input[r] + bias[r % bias_rows]), separately for each row
//   grid           ceil(rows / 8) blocks of 256 threads
//   a thread owns  every 32nd element of a row: 32 lanes share a row
//   memory         three passes over the row, element by element, so that rows of any width work
//   shared memory  none
//   wave size      32 or 64: the reductions stay within 32 lanes
//   No known network needs this kernel.
#include "activations.h"

#define ELEMENTWISE_THREADS 256

template <class T>
GPU_FUNCTION void activation(const ActivationArguments& a) {
    const u32 vectors = a.width / 8;
    const u32 vector = block_x() * ELEMENTWISE_THREADS + thread();
    const u32 row = vector / vectors, column = vector % vectors * 8;
    if (row >= (u32)a.rows) return;
    const i64 place = (i64)vector * 8;
    Eight x = load_eight((const T*)a.input + place);
    if (a.bias) x = plus(x, (const T*)a.bias + (i64)(a.bias_rows == 1 ? 0 : row % a.bias_rows) * a.width + column);
    activate(a.activation, x.value);
    if (a.multiply) {
        const i64 gate = (i64)(row % 64) * a.width + column;
        x = gated(x, (const T*)a.multiply + gate, (const T*)a.add + gate);
    }
    store_eight((T*)a.output + place, x);
}

template <class T>
GPU_FUNCTION void softmax(const ActivationArguments& a) {
    const i32 row = block_x() * (ELEMENTWISE_THREADS / ROW_LANES) + thread() / ROW_LANES;
    const i32 first = thread() % ROW_LANES;
    // Lanes beyond the last row compute the last row again, because every lane must take part in the exchanges. They
    // write nothing.
    const i32 place = row < a.rows ? row : a.rows - 1;
    const T* input = (const T*)a.input + (i64)place * a.width;
    const T* bias = (const T*)a.bias + (i64)(a.bias_rows == 1 ? 0 : place % a.bias_rows) * a.width;
    T* output = (T*)a.output + (i64)place * a.width;
    auto logit = [&](i32 i) { return load_one(input + i) + (a.bias ? load_one(bias + i) : 0.0f); };
    float largest = -3.0e38f;
    for (i32 i = first; i < a.width; i += ROW_LANES) largest = maximum(largest, logit(i));
    largest = maximum_over_lanes<ROW_LANES>(largest);
    float sum = 0.0f;
    for (i32 i = first; i < a.width; i += ROW_LANES) sum += exponential(logit(i) - largest);
    const float factor = reciprocal(sum_over_lanes<ROW_LANES>(sum));
    if (row >= a.rows) return;
    for (i32 i = first; i < a.width; i += ROW_LANES) store_one(output + i, exponential(logit(i) - largest) * factor);
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(ELEMENTWISE_THREADS, activation_##type, ActivationArguments) {                                  \
        activation<T>(arguments);                                                                              \
    }                                                                                                          \
    GPU_KERNEL(ELEMENTWISE_THREADS, softmax_##type, ActivationArguments) {                                     \
        softmax<T>(arguments);                                                                                 \
    }
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
