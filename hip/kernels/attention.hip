// Attention by matrix instructions: output = softmax(scale * Q K^T + logits) V, for each position and head.
//
// A block of 128 threads does one head of one position; a wave does the queries of one 16-row tile (with 64
// lanes: of two). There are always 64 keys, so the whole row of scores is in registers and the softmax needs
// one pass. A lane has the scores of its own queries for runs of eight neighbouring keys (matrix.h), so that
// Q, K, V, logits and output all move in 16-byte vectors, each byte once:
//
//   1. all loads: Q and K as operands straight from global memory, where the waves of a block share K through the
//      cache; V, two keys x eight columns a thread; logits
//   2. scores = Q K^T
//   3. V^T -> shared memory [column][key], two keys a word
//   4. scores * scale + logits, clamped; softmax in fp32 within the lanes that share a query
//   5. output = P V: the probabilities, rounded to T, are an operand as they lie
//
// Shapes and strides: AttentionArguments. Shared memory: (DEPTH or 16) * ROW_WORDS * 4 bytes, 4.5 KB at DEPTH 32.
// Bytes a head moves at least: logits 8192, Q, K, V and output 128 * DEPTH each.
#include "kernels.h"
#include "matrix.h"

#if MATRIX_LAYOUT != MATRIX_NONE

#define ATTENTION_THREADS 128
#define SQUARES 64
#define KEY_TILES (SQUARES / TILE)
#define WAVES (ATTENTION_THREADS / WAVE)
#define QUERY_TILES (SQUARES / TILE / WAVES)
// Runs of eight keys that a lane has for each of its queries.
#define RUNS (SQUARES / GROUPS / 8)
// Words between rows of V^T: the padding keeps the rows that are read together in different banks.
#define ROW_WORDS (MATRIX_LAYOUT == MATRIX_QUADS ? 48 : 36)

// fp16's largest number: a product of smolgen's last layer that became infinite does not spoil the softmax.
#define LARGEST_LOGIT 65504.0f

// V of one head on its way through a thread: two neighbouring keys, eight columns.
template <i32 UNITS>
struct Values {
    Words4 even[UNITS], odd[UNITS];
};

// Where word `word` of V^T's row `column` lies. Threads write rows eight apart together, and the rows' lengths
// being multiples of four words, all would fall into the same banks: hence the xor, of whole 16-byte vectors.
template <i32 COLUMNS>
GPU_FUNCTION i32 transposed_place(i32 column, i32 word) {
    const i32 vectors = COLUMNS / 8 < 8 ? COLUMNS / 8 : 8;
    return column * ROW_WORDS + (word ^ (4 * (column / 8 * (8 / vectors) % 8)));
}

template <class T, i32 DEPTH>
GPU_FUNCTION void attention(const AttentionArguments& a) {
    constexpr i32 STEPS = (DEPTH + TILE - 1) / TILE;  // along the depth
    constexpr i32 SLICE_STEPS = STEPS < 2 ? 1 : 2;
    constexpr i32 COLUMNS = STEPS * TILE;             // DEPTH, filled up with zeros to whole tiles
    constexpr i32 VECTORS = COLUMNS / 8;
    constexpr i32 PAIRS = SQUARES / 2 * VECTORS;  // of keys, times vectors of eight columns
    constexpr i32 UNITS = (PAIRS + ATTENTION_THREADS - 1) / ATTENTION_THREADS;
    static_assert(STEPS == 1 || STEPS % 2 == 0, "a lane's runs are of eight");
    GPU_SHARED(u32, transposed, COLUMNS * ROW_WORDS);

    const i32 head = block_x(), position = block_y();
    const i64 first = (i64)position * SQUARES * a.stride + head * DEPTH;
    const T* queries = (const T*)a.qkv + first;
    const T* keys = queries + a.key_offset;
    const T* values = queries + a.value_offset;
    const Words4 zeros = {};

    // 1. Everything that can be is on its way before anything is waited for. What is wanted first comes first.
    Fragment query[QUERY_TILES][SLICE_STEPS], key[KEY_TILES][SLICE_STEPS];
    auto load_slice = [&](i32 slice) {
        const i32 first_column = slice * SLICE_STEPS * TILE;
#pragma unroll
        for (i32 tile = 0; tile < QUERY_TILES; tile++) {
            const T* rows = queries + (i64)(wave() * QUERY_TILES + tile) * TILE * a.stride + first_column;
            load_rows(query[tile], [&](i32 part, i32 offset) {
                return offset < DEPTH ? load16(rows + (i64)operand_row(part) * a.stride + offset) : zeros;
            });
        }
#pragma unroll
        for (i32 n = 0; n < KEY_TILES; n++) {
            load_rows(key[n], [&](i32 part, i32 offset) {
                const T* row = keys + (i64)spread<KEY_TILES>(n, operand_row(part)) * a.stride + first_column;
                return offset < DEPTH ? load16(row + offset) : zeros;
            });
        }
    };
    load_slice(0);

    Values<UNITS> v;
#pragma unroll
    for (i32 unit = 0; unit < UNITS; unit++) {
        const i32 index = unit * ATTENTION_THREADS + thread(), column = index % VECTORS * 8;
        const T* from = values + (i64)(index / VECTORS * 2) * a.stride + column;
        const bool inside = column < DEPTH && index < PAIRS;
        v.even[unit] = inside ? load16(from) : zeros;
        v.odd[unit] = inside ? load16(from + a.stride) : zeros;
    }

    // Without logits the same loads read something else, to be masked out: at a branch, all that is on its way would
    // be waited for.
    Packed<T> logits[QUERY_TILES][OWN_ROWS][RUNS];
    const u32 mask = a.logits ? ~0u : 0u;
    const T* logit_rows = a.logits ? (const T*)a.logits + ((i64)position * a.heads + head) * SQUARES * SQUARES : queries;
    const i32 logit_stride = a.logits ? SQUARES : 0;
#pragma unroll
    for (i32 tile = 0; tile < QUERY_TILES; tile++) {
#pragma unroll
        for (i32 part = 0; part < OWN_ROWS; part++) {
            const i32 row = (wave() * QUERY_TILES + tile) * TILE + operand_row(part);
#pragma unroll
            for (i32 run = 0; run < RUNS; run++) {
                const i32 column = a.logits ? run_start<KEY_TILES>(run, group()) : 0;
                logits[tile][part][run] = load_packed(logit_rows + row * logit_stride + column);
            }
        }
    }
    keep_order();

    // 2. In slices of the depth, each of which is one or two fragments wide.
    Accumulator scores[QUERY_TILES][KEY_TILES] = {};
#pragma unroll
    for (i32 slice = 0; slice < STEPS / SLICE_STEPS; slice++) {
        if (slice > 0) {
            load_slice(slice);
            keep_order();
        }
#pragma unroll
        for (i32 n = 0; n < KEY_TILES; n++) {
#pragma unroll
            for (i32 tile = 0; tile < QUERY_TILES; tile++) {
#pragma unroll
                for (i32 step = 0; step < SLICE_STEPS; step++)
                    scores[tile][n] = multiply(T(), query[tile][step], key[n][step], scores[tile][n]);
                if (DEPTH >= 64) settle(scores[tile][n]);
            }
        }
    }

    // 3.
#pragma unroll
    for (i32 unit = 0; unit < UNITS; unit++) {
        const i32 index = unit * ATTENTION_THREADS + thread(), column = index % VECTORS * 8;
        if (PAIRS % ATTENTION_THREADS != 0 && index >= PAIRS) break;
#pragma unroll
        for (i32 i = 0; i < 8; i++) {
            const u32 selector = i % 2 == 0 ? 0x05040100 : 0x07060302;
            transposed[transposed_place<COLUMNS>(column + i, index / VECTORS)] =
                select_bytes(v.odd[unit].word[i / 2], v.even[unit].word[i / 2], selector);
        }
    }
    synchronise_block();

#pragma unroll
    for (i32 tile = 0; tile < QUERY_TILES; tile++) {
        const i32 row = (wave() * QUERY_TILES + tile) * TILE;
        float inverse_sum[OWN_ROWS];
#pragma unroll
        for (i32 part = 0; part < OWN_ROWS; part++) {
            // 4. In units of log 2, for the exponential is a power of two.
            float largest = -3.0e38f;
#pragma unroll
            for (i32 run = 0; run < RUNS; run++) {
                Packed<T> packed = logits[tile][part][run];
#pragma unroll
                for (i32 k = 0; k < 4; k++) packed.words[0].word[k] &= mask;
                const Eight added = unpack_eight(T(), packed);
#pragma unroll
                for (i32 k = 0; k < 8; k++) {
                    float& score = sum_at(scores[tile], part, run, k);
                    score = score * a.scale + added.value[k];
                    score = maximum(minimum(score, LARGEST_LOGIT), -LARGEST_LOGIT) * LOG2_E;
                    largest = maximum(largest, score);
                }
            }
            largest = maximum_over_groups(largest);
            float sum = 0.0f;
#pragma unroll
            for (i32 run = 0; run < RUNS; run++) {
#pragma unroll
                for (i32 k = 0; k < 8; k++) {
                    float& score = sum_at(scores[tile], part, run, k);
                    score = power_of_two(score - largest);
                    sum += score;
                }
            }
            inverse_sum[part] = reciprocal(sum_over_groups(sum));
        }

        // 5.
        Fragment probability[KEY_TILES];
#pragma unroll
        for (i32 n = 0; n < KEY_TILES; n++) probability[n] = fragment_of<T>(scores[tile][n]);
        Accumulator result[STEPS] = {};
#pragma unroll
        for (i32 m = 0; m < STEPS; m++) {
            Fragment value[KEY_TILES];
            load_rows(value, [&](i32 part, i32 offset) {
                const i32 column = spread<STEPS>(m, operand_row(part));
                return *(const Words4*)&transposed[transposed_place<COLUMNS>(column, offset / 2)];
            });
#pragma unroll
            for (i32 n = 0; n < KEY_TILES; n++) result[m] = multiply(T(), probability[n], value[n], result[m]);
            if (DEPTH >= 64) settle(result[m]);
        }
        constexpr i32 LENGTH = run_length<STEPS>();
#pragma unroll
        for (i32 part = 0; part < OWN_ROWS; part++) {
            const i64 output_row = (i64)position * SQUARES + row + operand_row(part);
            T* output = (T*)a.output + output_row * a.output_stride + head * DEPTH;
#pragma unroll
            for (i32 run = 0; run < COLUMNS / (GROUPS * LENGTH); run++) {
                const i32 column = run_start<STEPS>(run, group());
                u32 word[LENGTH / 2];
#pragma unroll
                for (i32 k = 0; k < LENGTH; k += 2) {
                    word[k / 2] = pack(T(), sum_at(result, part, run, k) * inverse_sum[part],
                                       sum_at(result, part, run, k + 1) * inverse_sum[part]);
                }
                if (column >= DEPTH) continue;
                if constexpr (LENGTH == 8) {
                    store16(output + column, {word[0], word[1], word[2], word[3]});
                } else {
                    store8(output + column, {word[0], word[1]});
                }
            }
        }
    }
}

#define ATTENTION(depth)                                                                                       \
    GPU_KERNEL(ATTENTION_THREADS, attention_f16_d##depth, AttentionArguments) {                                \
        attention<Half, depth>(arguments);                                                                     \
    }                                                                                                          \
    GPU_KERNEL(ATTENTION_THREADS, attention_bf16_d##depth, AttentionArguments) {                               \
        attention<Bfloat, depth>(arguments);                                                                   \
    }
ATTENTION(8)
ATTENTION(16)
ATTENTION(32)
ATTENTION(64)
ATTENTION(96)
ATTENTION(128)

#endif  // MATRIX_LAYOUT != MATRIX_NONE
