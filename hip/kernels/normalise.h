// LayerNorm of a row that several lanes share, for the kernels that end with one: layer_norm.hip and gemm.hip.
//
//   output = LN(alpha * act(input + bias) + residual) * multiply + add, where
//   LN(x) = (x - mean(x)) / sqrt(variance(x) + epsilon) * gammas + betas over the row
//
// A lane owns VECTORS vectors of eight elements of its row, vector number lane + lanes * i, in registers. Mean and
// variance are fp32. The variance is taken about the mean, in a second pass over the registers, so that a row far from
// zero keeps its precision.
#pragma once
#include "activations.h"

// The sum of a value over all lanes that share a row. Each of these lanes gets the sum. `lanes` is ROW_LANES or LANES, and
// then these are the whole block, and `partial` is shared memory for a float per 32 lanes.
template <i32 LANES>
GPU_FUNCTION float sum_of_row(float value, i32 lanes, [[maybe_unused]] float* partial) {
    value = sum_over_lanes<ROW_LANES>(value);
    if (lanes > ROW_LANES) {
        // Other threads may still be reading the previous sum.
        synchronise_block();
        if (thread() % ROW_LANES == 0) partial[thread() / ROW_LANES] = value;
        synchronise_block();
        value = 0.0f;
#pragma unroll
        for (i32 i = 0; i < LANES / ROW_LANES; i++) value += partial[i];
    }
    return value;
}

// Applies the activation function to a lane's part of a row. The functions for all vectors would be half of a kernel's code,
// and registers cannot be indexed. A loop therefore works on the first vector, and moves the others up by one.
template <i32 VECTORS>
GPU_FUNCTION void activate_row(i32 activation, Eight (&x)[VECTORS]) {
    if (activation == ACTIVATION_NONE) return;
#pragma unroll 1
    for (i32 count = 0; count < VECTORS; count++) {
        Eight first = x[0];
        activate(activation, first.value);
#pragma unroll
        for (i32 i = 0; i + 1 < VECTORS; i++) x[i] = x[i + 1];
        x[VECTORS - 1] = first;
    }
}

// Normalises row number `row`. Lanes beyond the last row compute the last row again, because every lane must take part
// in the sums. They write nothing. `lanes` and `partial` are those of sum_of_row.
template <class T, i32 LANES, i32 VECTORS>
GPU_FUNCTION void normalise_row(const LayerNormArguments& a, i32 row, i32 lanes, float* partial) {
    const i32 place = row < a.rows ? row : a.rows - 1;
    const i64 start = (i64)place * a.width;
    const i64 bias_start = (i64)(a.bias_rows == 1 ? 0 : place % a.bias_rows) * a.width;
    auto column = [&](i32 i) { return ((thread() & (lanes - 1)) + lanes * i) * 8; };

    // Start all loads before using any.
    Packed<T> input[VECTORS], residual[VECTORS];
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        input[i] = residual[i] = {};
        if (column(i) >= a.width) continue;
        input[i] = load_packed((const T*)a.input + start + column(i));
        if (a.residual) residual[i] = load_packed((const T*)a.residual + start + column(i));
    }
    Eight x[VECTORS];
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        x[i] = {};
        if (column(i) >= a.width) continue;
        x[i] = unpack_eight(T(), input[i]);
        if (a.bias) x[i] = plus(x[i], (const T*)a.bias + bias_start + column(i));
    }
    activate_row(a.activation, x);
    float sum = 0.0f;
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        if (column(i) >= a.width) continue;
        const Eight added = unpack_eight(T(), residual[i]);
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            x[i].value[k] = x[i].value[k] * a.alpha + added.value[k];
            sum += x[i].value[k];
        }
    }
    const float inverse_width = reciprocal((float)a.width);
    const float mean = sum_of_row<LANES>(sum, lanes, partial) * inverse_width;

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
    const float scale = reciprocal_root(sum_of_row<LANES>(squares, lanes, partial) * inverse_width + a.epsilon);

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
            x[i] = gated(x[i], (const T*)a.multiply + gate, (const T*)a.add + gate);
        }
        store_eight((T*)a.output + start + column(i), x[i]);
    }
}
