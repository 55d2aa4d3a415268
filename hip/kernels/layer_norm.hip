// Residual and LayerNorm: output = LN(alpha * act(input + bias) + residual) * multiply + add.
//
// Up to 1024 wide: 32 lanes a row, eight rows a block. Wider, up to 8192: a block of 256 threads a row. Either way a
// lane keeps its part of the row in registers, as VECTORS vectors of eight, number `lane + LANES * i`: memory is
// read and written once, neighbouring lanes next to each other.
// Mean and variance are in fp32, the variance about the mean in a second pass over the registers, so that a
// row far from zero loses nothing.
//
// Bytes a row moves: (input + residual + output) * width; gammas, betas and bias are read from the cache.
#include "activations.h"

#define NORM_THREADS 256

// The sum over the lanes of a row.
template <i32 LANES>
GPU_FUNCTION float sum_of_row(float value) {
    value = sum_over_lanes<ROW_LANES>(value);
    if constexpr (LANES > ROW_LANES) {
        GPU_SHARED(float, partial, LANES / ROW_LANES);
        // What an earlier sum left may still be read.
        synchronise_block();
        if (thread() % ROW_LANES == 0) partial[thread() / ROW_LANES] = value;
        synchronise_block();
        value = 0.0f;
#pragma unroll
        for (i32 i = 0; i < LANES / ROW_LANES; i++) value += partial[i];
    }
    return value;
}

template <class T, i32 LANES, i32 VECTORS>
GPU_FUNCTION void layer_norm(const LayerNormArguments& a) {
    const i32 row = block_x() * (NORM_THREADS / LANES) + thread() / LANES;
    // A row beyond the last is computed like the last one, for its lanes take part in the sums; it is not written.
    const i32 place = row < a.rows ? row : a.rows - 1;
    const i64 start = (i64)place * a.width;
    const i64 bias_start = (i64)(a.bias_rows == 1 ? 0 : place % a.bias_rows) * a.width;
    auto column = [&](i32 i) { return (thread() % LANES + LANES * i) * 8; };

    // All loads first, so that they are on their way together.
    Packed<T> input[VECTORS], residual[VECTORS];
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        input[i] = residual[i] = {};
        if (column(i) >= a.width) continue;
        input[i] = load_packed((const T*)a.input + start + column(i));
        if (a.residual) residual[i] = load_packed((const T*)a.residual + start + column(i));
    }
    Eight x[VECTORS];
    float sum = 0.0f;
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        x[i] = {};
        if (column(i) >= a.width) continue;
        x[i] = unpack_eight(T(), input[i]);
        if (a.bias) x[i] = plus(x[i], (const T*)a.bias + bias_start + column(i));
        activate(a.activation, x[i].value);
        const Eight added = unpack_eight(T(), residual[i]);
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            x[i].value[k] = x[i].value[k] * a.alpha + added.value[k];
            sum += x[i].value[k];
        }
    }
    const float inverse_width = reciprocal((float)a.width);
    const float mean = sum_of_row<LANES>(sum) * inverse_width;

    float squares = 0.0f;
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        if (column(i) >= a.width) continue;
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            const float distance = x[i].value[k] - mean;
            squares += distance * distance;
        }
    }
    const float scale = reciprocal_root(sum_of_row<LANES>(squares) * inverse_width + a.epsilon);

    if (row >= a.rows) return;
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        if (column(i) >= a.width) continue;
        const Eight gamma = load_eight((const T*)a.gammas + column(i));
#pragma unroll
        for (i32 k = 0; k < 8; k++) x[i].value[k] = (x[i].value[k] - mean) * scale * gamma.value[k];
        x[i] = plus(x[i], (const T*)a.betas + column(i));
        if (a.multiply) {
            const i64 gate = (i64)(row % 64) * a.width + column(i);
            const Eight factor = load_eight((const T*)a.multiply + gate);
#pragma unroll
            for (i32 k = 0; k < 8; k++) x[i].value[k] *= factor.value[k];
            x[i] = plus(x[i], (const T*)a.add + gate);
        }
        store_eight((T*)a.output + start + column(i), x[i]);
    }
}

#define INSTANCE(type, T, width, lanes)                                                                        \
    GPU_KERNEL(NORM_THREADS, layer_norm_##type##_w##width, LayerNormArguments) {                               \
        layer_norm<T, lanes, width / (8 * lanes)>(arguments);                                                  \
    }
#define INSTANCES(type, T)                                                                                     \
    INSTANCE(type, T, 256, ROW_LANES)                                                                          \
    INSTANCE(type, T, 512, ROW_LANES)                                                                          \
    INSTANCE(type, T, 768, ROW_LANES)                                                                          \
    INSTANCE(type, T, 1024, ROW_LANES)                                                                         \
    INSTANCE(type, T, 8192, NORM_THREADS)
INSTANCES(f32, float)
INSTANCES(f16, Half)
INSTANCES(bf16, Bfloat)
#undef INSTANCES
#undef INSTANCE
