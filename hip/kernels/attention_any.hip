// Attention without matrix instructions: output = softmax(clamp(scale * Q K^T + logits)) V, as in attention.hip, but
// for every head dimension, type and architecture. Arguments and strides: AttentionArguments (kernels.h).
//
//   grid            (heads, B) blocks of 128 threads: a block computes one head of one position
//   a thread owns   the scores of four queries with eight neighbouring keys, and the results of two queries in eight
//                   neighbouring columns: see PlainCore in gemm_cores.h
//   head dimension  any; columns beyond the last count as zeros
//   types           f32, f16, bf16; all sums are fp32. In f16, an instruction multiplies two pairs of elements (dot_halves)
//   layouts         as in attention.hip; strides and offsets need not be multiples of anything
//   shared memory   12.25 KB
//   wave size       32 or 64: the threads of a query are always in the same wave
//   memory          Q, K, V and the logits are read once: in 16-byte vectors if the depth, the strides and the offsets are
//                   multiples of eight, and otherwise element by element
//
// The steps:
//   1. For each slice of 64 bytes of the rows of Q and K: copy it to shared memory and add its products to the scores.
//   2. probabilities = exp(clamp(scale * scores + logits) - largest), in fp32 over the eight threads of a query. They are
//      rounded to T and written over Q and K.
//   3. For each 32 columns of V: write V^T to shared memory as [column][key], and multiply it by the probabilities. The
//      results are divided by the sum of the probabilities. In fp32, half of the keys are in shared memory at a time.
//
// In shared memory, the vectors of a row lie as gemm_place says, and the rows of K and of V^T lie in slots (gemm_cores.h).
#include "gemm_cores.h"
#include "kernels.h"

#define ANY_THREADS 128
#define ANY_SQUARES 64
// The number of columns of V in a step.
#define ANY_COLUMNS 32
// The number of vectors of a row of Q and K, and of a row of keys, in shared memory.
#define SLICE_VECTORS 4
#define KEY_VECTORS 8
#define LARGEST_SCORE 65504.0f

// The number of elements of a vector, and of a word.
template <class T>
constexpr i32 VECTOR_WIDTH = sizeof(Words4) / sizeof(T);
template <class T>
constexpr i32 WORD_WIDTH = sizeof(u32) / sizeof(T);

// Q, K or V of a head: 64 rows in global memory. Columns from `depth` on are zeros.
template <class T>
struct HeadMatrix {
    const T* start;
    i32 stride;
    i32 depth;
    bool is_aligned;

    // A vector of the row, from `column` on. It is zero if the matrix is not aligned.
    GPU_METHOD Words4 vector(i32 row, i32 column) const {
        Words4 words = {};
        if (is_aligned && column < depth) words = load16(start + (row * stride + column));
        return words;
    }
    // A word of the element at (row, column) and, in 16 bits, of the one so many rows and columns on.
    GPU_METHOD u32 word(i32 row, i32 column, i32 rows_on, i32 columns_on) const {
        const T* first = start + (row * stride + column);
        if constexpr (WORD_WIDTH<T> == 1) {
            return column < depth ? load4(first) : 0;
        } else {
            const T* second = first + (rows_on * stride + columns_on);
            return (column < depth ? load2(first) : 0u) |
                   (column + columns_on < depth ? (u32)load2(second) << 16 : 0u);
        }
    }
};

// A slice of Q or K on its way to shared memory. Row `row_of(r)` of the matrix becomes row r.
template <class T>
struct Slice {
    static constexpr i32 COUNT = ANY_SQUARES * SLICE_VECTORS / ANY_THREADS, WORDS = 4 * SLICE_VECTORS;
    Words4 vectors[COUNT];

    template <class RowOf>
    GPU_METHOD void load(const HeadMatrix<T>& matrix, i32 column, RowOf row_of) {
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) {
            const i32 index = i * ANY_THREADS + thread();
            vectors[i] = matrix.vector(row_of(index / SLICE_VECTORS), column + index % SLICE_VECTORS * VECTOR_WIDTH<T>);
        }
    }
    template <class RowOf>
    GPU_METHOD void store(Words4* to, const HeadMatrix<T>& matrix, i32 column, RowOf row_of) const {
        if (matrix.is_aligned) {
#pragma unroll
            for (i32 i = 0; i < COUNT; i++) {
                const i32 index = i * ANY_THREADS + thread();
                to[gemm_place<SLICE_VECTORS>(index / SLICE_VECTORS, index % SLICE_VECTORS)] = vectors[i];
            }
            return;
        }
#pragma unroll 1
        for (i32 index = thread(); index < ANY_SQUARES * WORDS; index += ANY_THREADS) {
            const i32 row = index / WORDS, word = index % WORDS;
            to[gemm_place<SLICE_VECTORS>(row, word / 4)].word[word % 4] =
                matrix.word(row_of(row), column + word * WORD_WIDTH<T>, 0, 1);
        }
    }
};

// ANY_COLUMNS columns of V on their way to shared memory. A thread transposes pieces of one vector of columns in one row,
// or in two neighbouring rows if a word holds two keys.
template <class T, class Core>
struct ValueColumns {
    static constexpr i32 ACROSS = ANY_COLUMNS / VECTOR_WIDTH<T>;
    static constexpr i32 COUNT = ANY_SQUARES / WORD_WIDTH<T> * ACROSS / ANY_THREADS;
    static constexpr i32 WORDS = 4 * KEY_VECTORS, PARTS = ANY_SQUARES / (WORDS * WORD_WIDTH<T>);
    static_assert(ANY_THREADS / ACROSS * (COUNT / PARTS) == WORDS, "a piece belongs to one part");
    Words4 pieces[COUNT][WORD_WIDTH<T>];

    GPU_METHOD void load(const HeadMatrix<T>& values, i32 column) {
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) {
            const i32 index = i * ANY_THREADS + thread();
#pragma unroll
            for (i32 k = 0; k < WORD_WIDTH<T>; k++) {
                const i32 row = index / ACROSS * WORD_WIDTH<T> + k;
                pieces[i][k] = values.vector(row, column + index % ACROSS * VECTOR_WIDTH<T>);
            }
        }
    }
    // Stores the words of part number `part` of the keys.
    GPU_METHOD void store(Words4* to, i32 part, const HeadMatrix<T>& values, i32 column) const {
        auto write = [&](i32 row, i32 word, u32 bits) {
            // The inverse of Core::column_of_slot
            const i32 slot = row % 8 * Core::ACROSS + row / 8;
            to[gemm_place<KEY_VECTORS>(slot, word / 4)].word[word % 4] = bits;
        };
        if (values.is_aligned) {
#pragma unroll
            for (i32 i = 0; i < COUNT / PARTS; i++) {
                const Words4(&piece)[WORD_WIDTH<T>] = pieces[part * (COUNT / PARTS) + i];
                const i32 index = i * ANY_THREADS + thread();
#pragma unroll
                for (i32 k = 0; k < VECTOR_WIDTH<T>; k++) {
                    u32 bits = piece[0].word[k / WORD_WIDTH<T>];
                    // The selectors pick the low or the high halves of two words.
                    if constexpr (WORD_WIDTH<T> == 2)
                        bits = select_bytes(piece[1].word[k / 2], bits, k % 2 == 0 ? 0x05040100 : 0x07060302);
                    write(index % ACROSS * VECTOR_WIDTH<T> + k, index / ACROSS, bits);
                }
            }
            return;
        }
#pragma unroll 1
        for (i32 index = thread(); index < ANY_COLUMNS * WORDS; index += ANY_THREADS) {
            const i32 row = index % ANY_COLUMNS, word = index / ANY_COLUMNS;
            write(row, word, values.word((part * WORDS + word) * WORD_WIDTH<T>, column + row, 1, 0));
        }
    }
};

template <class T>
GPU_FUNCTION void attention_any(const AttentionArguments& a) {
    typedef PlainCore<T, ANY_SQUARES, ANY_SQUARES, ANY_THREADS, SLICE_VECTORS> Scores;
    typedef PlainCore<T, ANY_SQUARES, ANY_COLUMNS, ANY_THREADS, KEY_VECTORS> Results;
    typedef ValueColumns<T, Results> Columns;
    constexpr i32 QUERIES = Scores::RUN_COUNT;
    // Slices of Q and K, and later probabilities
    GPU_SHARED(Words4, rows, ANY_SQUARES * KEY_VECTORS);
    GPU_SHARED(Words4, transposed, ANY_COLUMNS * KEY_VECTORS);
    GPU_SHARED(float, inverse_sums, ANY_SQUARES);
    Words4* const key_rows = rows + ANY_SQUARES * SLICE_VECTORS;

    const i32 head = block_x(), position = block_y();
    const bool is_aligned = (a.depth | a.stride | a.key_offset | a.value_offset | a.output_stride) % 8 == 0;
    const T* start = (const T*)a.qkv + (i64)position * ANY_SQUARES * a.stride + head * a.depth;
    const HeadMatrix<T> queries = {start, a.stride, a.depth, is_aligned};
    const HeadMatrix<T> keys = {start + a.key_offset, a.stride, a.depth, is_aligned};
    const HeadMatrix<T> values = {start + a.value_offset, a.stride, a.depth, is_aligned};
    auto same_row = [](i32 row) { return row; };
    auto key_of_slot = [](i32 slot) { return Scores::column_of_slot(slot); };

    // 1. scores = Q K^T
    Slice<T> query_slice, key_slice;
    query_slice.load(queries, 0, same_row);
    key_slice.load(keys, 0, key_of_slot);
    Scores scores = {};
#pragma unroll 1
    for (i32 column = 0; column < a.depth;) {
        query_slice.store(rows, queries, column, same_row);
        key_slice.store(key_rows, keys, column, key_of_slot);
        synchronise_block();
        scores.multiply(rows, key_rows);
        synchronise_block();
        column += SLICE_VECTORS * VECTOR_WIDTH<T>;
        query_slice.load(queries, column, same_row);
        key_slice.load(keys, column, key_of_slot);
    }

    const i32 first_key = Scores::column(0);
    Packed<T> logits[QUERIES] = {};
    if (a.logits) {
        const i64 matrix = (i64)position * a.heads + head;
        const T* from = (const T*)a.logits + matrix * ANY_SQUARES * ANY_SQUARES + first_key;
#pragma unroll
        for (i32 i = 0; i < QUERIES; i++) logits[i] = load_packed(from + Scores::row(i) * ANY_SQUARES);
    }
    Columns columns;
    columns.load(values, 0);

    // 2. The softmax, for each of the thread's queries.
    Packed<T> probabilities[QUERIES];
#pragma unroll
    for (i32 i = 0; i < QUERIES; i++) {
        const Eight added = unpack_eight(T(), logits[i]);
        float largest = -3.0e38f, sum = 0.0f;
        Eight weights;
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            const float score = scores.sums[i][k] * a.scale + added.value[k];
            weights.value[k] = maximum(minimum(score, LARGEST_SCORE), -LARGEST_SCORE) * LOG2_E;
            largest = maximum(largest, weights.value[k]);
        }
        largest = maximum_over_lanes<8>(largest);
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            weights.value[k] = power_of_two(weights.value[k] - largest);
            sum += weights.value[k];
        }
        sum = sum_over_lanes<8>(sum);
        if (first_key == 0) inverse_sums[Scores::row(i)] = reciprocal(sum);
        probabilities[i] = pack_eight(T(), weights);
    }

    auto store_probabilities = [&](i32 part) {
#pragma unroll
        for (i32 vector = 0; vector < 8 / VECTOR_WIDTH<T>; vector++) {
            const i32 place = first_key / VECTOR_WIDTH<T> + vector;
            if (place / KEY_VECTORS != part) continue;
#pragma unroll
            for (i32 i = 0; i < QUERIES; i++)
                rows[gemm_place<KEY_VECTORS>(Scores::row(i), place % KEY_VECTORS)] = probabilities[i].words[vector];
        }
    };
    if (Columns::PARTS == 1) store_probabilities(0);

    // 3. output = probabilities V
#pragma unroll 1
    for (i32 column = 0; column < a.depth; column += ANY_COLUMNS) {
        Results results = {};
#pragma unroll
        for (i32 part = 0; part < Columns::PARTS; part++) {
            if (Columns::PARTS > 1) store_probabilities(part);
            columns.store(transposed, part, values, column);
            synchronise_block();
            results.multiply(rows, transposed);
            if (part + 1 == Columns::PARTS) columns.load(values, column + ANY_COLUMNS);
            synchronise_block();
        }
#pragma unroll
        for (i32 run = 0; run < Results::RUN_COUNT; run++) {
            const i32 row = Results::row(run), first = column + Results::column(run);
            const float inverse_sum = inverse_sums[row];
            T* output = (T*)a.output + ((i64)position * ANY_SQUARES + row) * a.output_stride + head * a.depth + first;
            Eight result;
#pragma unroll
            for (i32 k = 0; k < 8; k++) result.value[k] = results.result(run, k) * inverse_sum;
            if (is_aligned) {
                if (first < a.depth) store_eight(output, result);
                continue;
            }
#pragma unroll
            for (i32 k = 0; k < 8; k++) {
                if (first + k < a.depth) store_one(output + k, result.value[k]);
            }
        }
    }
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(ANY_THREADS, attention_any_##type, AttentionArguments) {                                        \
        attention_any<T>(arguments);                                                                           \
    }
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
