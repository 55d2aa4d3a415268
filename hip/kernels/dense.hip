// GEMMs of few rows, computed with matrix instructions. Arguments: DenseArguments (kernels.h).
//
//   dense:      output[r][n] = sum over k of input[r][k] * weights[n][k]
//   norm_dense: the same with LN(act(input[r] + bias)) in place of input[r]; LN as in layer_norm.hip
//
//   grid           (outputs / 16, ceil(rows / 16)) blocks of 256 threads: a block computes one 16 x 16 tile of outputs
//   a wave owns    every DENSE_WAVES-th step of 32 elements of the summed axis; the waves' sums are added up in shared
//                  memory
//   types          f16, bf16; sums are fp32
//   layouts        input [rows][inputs], weights [outputs][inputs], output [rows][outputs]; inputs is a multiple of 32,
//                  outputs of 16; norm_dense takes at most 512 inputs
//   shared memory  dense 1024 bytes per wave (8 KB, or 4 KB with 64 lanes); norm_dense 16.3 KB more
//   wave size      32 or 64
//   memory         a block reads 32 * inputs elements; the blocks of one row or column of tiles share them in the cache
//
// A library computes a GEMM of sixteen rows as one row of large tiles. That takes only a few workgroups, each of
// which goes through the whole summed axis alone. These kernels split that axis between waves instead. They are meant
// for smolgen's hidden layers and for the scalar heads, up to about 64 rows. With more rows, tiles of 16 x 16 read the
// same operands too often.
//
// In norm_dense every block itself normalises its 16 rows, with 16 threads per row, and writes them to shared memory.
// That costs less than another launch.
#include "activations.h"
#include "matrix.h"

#if MATRIX_LAYOUT != MATRIX_NONE

#define DENSE_THREADS 256
#define DENSE_WAVES (DENSE_THREADS / WAVE)
// The number of elements of the summed axis that a wave multiplies at a time.
#define DENSE_STEP 32
// The number of steps whose operands are loaded at once.
#define DENSE_AHEAD (MATRIX_LAYOUT == MATRIX_REPLICATED ? 2 : 4)
// The largest width of a row that norm_dense accepts.
#define LARGEST_NORM_INPUTS 512
#define NORM_ROW_THREADS (DENSE_THREADS / TILE)

// Normalises the block's 16 rows, rounds them to T and writes them to `normalised`. Each row begins `row_vectors`
// vectors of eight elements after the previous row.
template <class T>
GPU_FUNCTION void normalise_rows(const DenseArguments& a, i32 first_row, Words4* normalised, i32 row_vectors) {
    constexpr i32 VECTORS = LARGEST_NORM_INPUTS / 8 / NORM_ROW_THREADS;
    const i32 row = first_row + thread() / NORM_ROW_THREADS, first = thread() % NORM_ROW_THREADS;
    const T* input = (const T*)a.input + (i64)(row < a.rows ? row : a.rows - 1) * a.inputs;
    auto column = [&](i32 i) { return (first + NORM_ROW_THREADS * i) * 8; };

    Eight x[VECTORS];
    float sum = 0.0f;
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        x[i] = {};
        if (column(i) >= a.inputs) continue;
        x[i] = load_eight(input + column(i));
        if (a.bias) x[i] = plus(x[i], (const T*)a.bias + column(i));
        activate(a.activation, x[i].value);
#pragma unroll
        for (i32 k = 0; k < 8; k++) sum += x[i].value[k];
    }
    const float inverse_width = reciprocal((float)a.inputs);
    const float mean = sum_over_lanes<NORM_ROW_THREADS>(sum) * inverse_width;
    float squares = 0.0f;
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        if (column(i) >= a.inputs) continue;
#pragma unroll
        for (i32 k = 0; k < 8; k++) squares += (x[i].value[k] - mean) * (x[i].value[k] - mean);
    }
    const float variance = sum_over_lanes<NORM_ROW_THREADS>(squares) * inverse_width;
    const float scale = reciprocal_root(variance + a.epsilon);
#pragma unroll
    for (i32 i = 0; i < VECTORS; i++) {
        if (column(i) >= a.inputs) continue;
        const Eight gamma = load_eight((const T*)a.gammas + column(i));
#pragma unroll
        for (i32 k = 0; k < 8; k++) x[i].value[k] = (x[i].value[k] - mean) * scale * gamma.value[k];
        x[i] = plus(x[i], (const T*)a.betas + column(i));
        normalised[thread() / NORM_ROW_THREADS * row_vectors + column(i) / 8] = pack_eight(T(), x[i]).words[0];
    }
}

// Computes the block's tile. `load_input(row, column)` returns eight elements of one of the block's 16 input rows.
template <class T, class Load>
GPU_FUNCTION void dense(const DenseArguments& a, i32 first_row, Load load_input) {
    GPU_SHARED(float, partial, DENSE_WAVES * TILE * TILE);
    const i32 first_output = block_x() * TILE, steps = a.inputs / DENSE_STEP;
    const T* weights = (const T*)a.weights + (i64)first_output * a.inputs;
    const Words4 zeros = {};

    Accumulator sums[1] = {};
#pragma unroll 1
    for (i32 step = wave(); step < steps; step += DENSE_WAVES * DENSE_AHEAD) {
        Fragment own[DENSE_AHEAD][2], other[DENSE_AHEAD][2];
#pragma unroll
        for (i32 ahead = 0; ahead < DENSE_AHEAD; ahead++) {
            const bool inside = step + ahead * DENSE_WAVES < steps;
            // A step beyond the last repeats an earlier step, with zeros as input.
            const i32 start = (inside ? step + ahead * DENSE_WAVES : step) * DENSE_STEP;
            load_rows(own[ahead], [&](i32 part, i32 offset) {
                const Words4 words = load_input(operand_row(part), start + offset);
                return inside ? words : zeros;
            });
            load_rows(other[ahead], [&](i32 part, i32 offset) {
                return load16(weights + (i64)spread<1>(0, operand_row(part)) * a.inputs + start + offset);
            });
        }
        keep_order();
#pragma unroll
        for (i32 ahead = 0; ahead < DENSE_AHEAD; ahead++) {
#pragma unroll
            for (i32 i = 0; i < 2; i++) sums[0] = multiply(T(), own[ahead][i], other[ahead][i], sums[0]);
        }
        settle(sums[0]);
    }
#pragma unroll
    for (i32 part = 0; part < OWN_ROWS; part++) {
#pragma unroll
        for (i32 k = 0; k < run_length<1>(); k++) {
            const i32 place = operand_row(part) * TILE + run_start<1>(0, group()) + k;
            partial[wave() * TILE * TILE + place] = sum_at(sums, part, 0, k);
        }
    }
    synchronise_block();

    // Half of the threads add up the waves' sums, two neighbouring outputs each.
    const i32 row = first_row + thread() / (TILE / 2), column = thread() % (TILE / 2) * 2;
    if (thread() >= TILE * TILE / 2 || row >= a.rows) return;
    float low = 0.0f, high = 0.0f;
#pragma unroll
    for (i32 i = 0; i < DENSE_WAVES; i++) {
        low += partial[i * TILE * TILE + thread() * 2];
        high += partial[i * TILE * TILE + thread() * 2 + 1];
    }
    store_two((T*)a.output + (i64)row * a.outputs + first_output + column, low, high);
}

template <class T>
GPU_FUNCTION void plain_dense(const DenseArguments& a) {
    const i32 first_row = block_y() * TILE;
    // Rows beyond the last repeat the last row. Their results are not written.
    dense<T>(a, first_row, [&](i32 row, i32 column) {
        const i32 place = first_row + row < a.rows ? first_row + row : a.rows - 1;
        return load16((const T*)a.input + (i64)place * a.inputs + column);
    });
}

template <class T>
GPU_FUNCTION void norm_dense(const DenseArguments& a) {
    GPU_SHARED(Words4, normalised, TILE * (LARGEST_NORM_INPUTS / 8 + 1));
    // One vector of padding per row, so that rows that are read together begin in different banks.
    const i32 first_row = block_y() * TILE, row_vectors = a.inputs / 8 + 1;
    normalise_rows<T>(a, first_row, normalised, row_vectors);
    synchronise_block();
    dense<T>(a, first_row, [&](i32 row, i32 column) { return normalised[row * row_vectors + column / 8]; });
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(DENSE_THREADS, dense_##type, DenseArguments) {                                                  \
        plain_dense<T>(arguments);                                                                             \
    }                                                                                                          \
    GPU_KERNEL(DENSE_THREADS, norm_dense_##type, DenseArguments) {                                             \
        norm_dense<T>(arguments);                                                                              \
    }
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES

#endif  // MATRIX_LAYOUT != MATRIX_NONE
