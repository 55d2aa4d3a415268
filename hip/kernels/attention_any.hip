// Attention without matrix instructions: output = softmax(clamp(scale * Q K^T + logits)) V, as in attention.hip, but
// for every head dimension, type and architecture. Arguments and strides: AttentionArguments (kernels.h).
//
//   grid            (heads, B) blocks of 128 threads: a block computes one head of one position
//   a thread owns   32 of the 64 scores of one query, in registers: every other run of eight keys. Two neighbouring
//                   threads share a query
//   head dimension  any; columns beyond the last count as zeros
//   types           f32, f16, bf16; all sums are fp32
//   layouts         as in attention.hip; strides and offsets need not be multiples of anything
//   shared memory   2176 bytes: one slice of 64 keys x 8 columns as float
//   wave size       32 or 64: the two threads of a query are always in the same wave
//   memory          K and V are read once; eight neighbouring threads read one row of a slice
//
// The kernel goes through the head dimension in slices of eight columns. All threads first copy a slice to shared
// memory:
//
//   for each slice: scores += Q[query][slice] K[key][slice]
//   scores = softmax(clamp(scale * scores + logits)) over the two threads of the query
//   for each slice: output[query][slice] = sum over keys of scores[key] * V[key][slice]
//
// The two threads of a query read different keys at the same time. Every run of eight keys is followed by four floats
// of padding, so that the two reads fall into different banks.
#include "elements.h"
#include "kernels.h"

#define ANY_THREADS 128
#define ANY_SQUARES 64
#define SLICE 8
#define SCORES (ANY_SQUARES / 2)
#define LARGEST_SCORE 65504.0f

GPU_FUNCTION i32 slice_place(i32 key) {
    return key * SLICE + key / 8 * 4;
}

// Copies SLICE columns of all 64 rows, from `column` on, to shared memory. Columns from `depth` on become zeros.
template <class T>
GPU_FUNCTION void stage(float* slice, const T* rows, i32 stride, i32 column, i32 depth) {
    synchronise_block();
#pragma unroll
    for (i32 i = 0; i < ANY_SQUARES * SLICE / ANY_THREADS; i++) {
        const i32 index = i * ANY_THREADS + thread();
        const i32 key = index / SLICE, k = index % SLICE;
        const bool inside = column + k < depth;
        slice[slice_place(key) + k] = inside ? load_one(rows + (i64)key * stride + column + k) : 0.0f;
    }
    synchronise_block();
}

template <class T>
GPU_FUNCTION void attention_any(const AttentionArguments& a) {
    GPU_SHARED(float, slice, ANY_SQUARES * SLICE + ANY_SQUARES / 8 * 4);
    const i32 head = block_x(), position = block_y();
    const i32 query = thread() / 2, half = thread() % 2;
    const T* queries = (const T*)a.qkv + (i64)position * ANY_SQUARES * a.stride + head * a.depth;
    // The thread's i-th key, relative to its first key.
    auto key_of = [](i32 i) { return 16 * (i / 8) + i % 8; };
    const float* slice_of_half = slice + slice_place(8 * half);

    float scores[SCORES] = {};
#pragma unroll 1
    for (i32 column = 0; column < a.depth; column += SLICE) {
        stage(slice, queries + a.key_offset, a.stride, column, a.depth);
        float own[SLICE];
#pragma unroll
        for (i32 k = 0; k < SLICE; k++) {
            const bool inside = column + k < a.depth;
            own[k] = inside ? load_one(queries + (i64)query * a.stride + column + k) : 0.0f;
        }
#pragma unroll
        for (i32 i = 0; i < SCORES; i++) {
            const float* key = slice_of_half + slice_place(key_of(i));
#pragma unroll
            for (i32 k = 0; k < SLICE; k++) scores[i] += own[k] * key[k];
            if (i % 4 == 3) keep_order();
        }
    }

    const i64 logit_row = (((i64)position * a.heads + head) * ANY_SQUARES + query) * ANY_SQUARES;
    float largest = -3.0e38f, sum = 0.0f;
#pragma unroll
    for (i32 i = 0; i < SCORES; i += 8) {
        Eight added = {};
        if (a.logits) added = load_eight((const T*)a.logits + logit_row + 8 * half + key_of(i));
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            const float score = scores[i + k] * a.scale + added.value[k];
            scores[i + k] = maximum(minimum(score, LARGEST_SCORE), -LARGEST_SCORE) * LOG2_E;
            largest = maximum(largest, scores[i + k]);
        }
    }
    largest = maximum_over_lanes<2>(largest);
#pragma unroll
    for (i32 i = 0; i < SCORES; i++) {
        scores[i] = power_of_two(scores[i] - largest);
        sum += scores[i];
    }
    const float inverse_sum = reciprocal(sum_over_lanes<2>(sum));

    T* output = (T*)a.output + ((i64)position * ANY_SQUARES + query) * a.output_stride + head * a.depth;
#pragma unroll 1
    for (i32 column = 0; column < a.depth; column += SLICE) {
        stage(slice, queries + a.value_offset, a.stride, column, a.depth);
        float result[SLICE] = {};
#pragma unroll
        for (i32 i = 0; i < SCORES; i++) {
            const float* value = slice_of_half + slice_place(key_of(i));
#pragma unroll
            for (i32 k = 0; k < SLICE; k++) result[k] += scores[i] * value[k];
            if (i % 4 == 3) keep_order();
        }
        // Each of the two threads adds up and writes half of the columns.
        float total[SLICE / 2];
#pragma unroll
        for (i32 k = 0; k < SLICE / 2; k++) {
            const float others = half ? result[k] : result[k + SLICE / 2];
            const float mine = half ? result[k + SLICE / 2] : result[k];
            total[k] = (mine + exchange(others, 1)) * inverse_sum;
        }
        const i32 first = column + half * (SLICE / 2);
#pragma unroll
        for (i32 k = 0; k < SLICE / 2; k++) {
            if (first + k < a.depth) store_one(output + first + k, total[k]);
        }
    }
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(ANY_THREADS, attention_any_##type, AttentionArguments) {                                        \
        attention_any<T>(arguments);                                                                           \
    }
INSTANCES(f32, float)
INSTANCES(f16, Half)
INSTANCES(bf16, Bfloat)
#undef INSTANCES
