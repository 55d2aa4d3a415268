// Attention with matrix instructions: output = softmax(clamp(scale * Q K^T + logits)) V for each position and head.
// Arguments and strides: AttentionArguments (kernels.h). Layout of the tiles: matrix.h.
//
//   grid            (ceil(heads / HEADS), B) blocks of HEADS * 128 threads: a block computes HEADS heads of one position,
//                   which share nothing but the caches' lines. HEADS is 1, or 2 for the kernels called _x2
//   a wave owns     the queries of one head, of one tile of 16 rows, or of two tiles if it has 64 lanes
//   a lane owns     the scores of its queries, for runs of eight neighbouring keys
//   variants        attention_other reads K through the cache where attention reads it through shared memory, and the
//                   other way round
//   head dimension  DEPTH = 8, 16, 32, 64, 96 or 128; 8 is padded with zeros to a tile of 16
//   types           T = f16 or bf16; sums, scores and the softmax are fp32
//   layouts         Q, K, V [B * 64][stride], logits [B][heads][64 queries][64 keys], output [B * 64][output_stride]
//   shared memory   for each head V^T, max(DEPTH, 16) * ROW_WORDS * 4 bytes, and in the same place, with STAGES_KEYS, K,
//                   64 * (max(DEPTH, 16) / 8 + 1) * 16 bytes: 5 KB for DEPTH 32 (4.5 KB without K, 6 KB on NVIDIA)
//   wave size       32 or 64
//   memory          at least 8192 bytes of logits per head, and 128 * DEPTH bytes each of Q, K, V and output
//
// There are always 64 keys, so a whole row of scores fits into registers, and the softmax need not take the keys in
// several parts. Q, K, V, logits and output all move in 16-byte vectors, and every byte moves once. (Where four lanes
// share a query, the output for DEPTH 8 and 16 moves in 8-byte vectors.) The steps:
//
//   1. Start the loads: K, Q as operands straight from global memory, V in units of two keys x eight columns, and the
//      logits. Then write K to shared memory. Without STAGES_KEYS, K is loaded as operands, too, and if DEPTH is above 32,
//      this step loads only the first 32 columns of Q and K.
//   2. scores = Q K^T, 32 columns at a time
//   3. Write V^T to shared memory as [column][key], two keys per word. It takes the place of K.
//   4. scores = softmax(clamp(scale * scores + logits)), in fp32, within the lanes that share a query.
//   5. output = scores V. The probabilities, rounded to T, already lie in registers as an operand.
#include "kernels.h"
#include "matrix.h"

#if MATRIX_LAYOUT != MATRIX_NONE

#define ATTENTION_THREADS 128
#define SQUARES 64
#define KEY_TILES (SQUARES / TILE)
#define WAVES (ATTENTION_THREADS / WAVE)
#define QUERY_TILES (SQUARES / TILE / WAVES)
// The number of runs of eight keys that a lane owns for each of its queries.
#define RUNS (SQUARES / GROUPS / 8)
// Whether the waves of a block usually share K through shared memory, and not only through the cache. With these layouts, a
// block has four waves, and a load of an operand takes only 16 or 32 bytes from each of 16 rows (README.md).
#define USUALLY_STAGES_KEYS (MATRIX_LAYOUT == MATRIX_REPLICATED || MATRIX_LAYOUT == MATRIX_HALVES)
// The number of words from one row of V^T to the next. Without padding, rows that are read together would begin at the
// same bank. With it, reads have no conflicts on gfx12 and NVIDIA, and on gfx11 for heads of at most 16. On gfx11 for
// wider heads, and on gfx9, they take twice as many cycles as without conflicts (README.md).
#define ROW_WORDS (MATRIX_LAYOUT == MATRIX_QUADS ? 48 : 36)
// The heads of a block, for heads of at most 32: two where neighbouring blocks run on dies with caches of their own, whose
// lines hold the rows of several heads (README.md).
#if GPU_HAS_DIES
#define SMALL_HEADS 2
#define SMALL_NAME(name) name##_x2
#else
#define SMALL_HEADS 1
#define SMALL_NAME(name) name
#endif

// fp16's largest number. Smolgen's last GEMM can overflow to infinity in fp16, and an infinite score would make the
// softmax a NaN, so scores are clamped to this number.
#define LARGEST_LOGIT 65504.0f

// The index of a thread and of a wave among those of its head.
template <i32 HEADS>
GPU_FUNCTION i32 own_thread() {
    return HEADS == 1 ? thread() : thread() % ATTENTION_THREADS;
}
template <i32 HEADS>
GPU_FUNCTION i32 own_wave() {
    return own_thread<HEADS>() / WAVE;
}

// The part of V that a thread transposes: two neighbouring keys x eight columns per unit.
template <i32 UNITS>
struct Values {
    Words4 even[UNITS], odd[UNITS];
};

// The index in shared memory of word `word` of V^T's row `column`. Threads write rows that are eight apart at the same
// time, and a row's length is a multiple of four words, so without the xor all these writes would hit the same banks.
// The xor keeps every 16-byte vector whole. It has eight values, so that heads of 96 and 128, where threads write 12 and
// 16 rows at the same time, have two writes for a bank.
template <i32 COLUMNS>
GPU_FUNCTION i32 transposed_place(i32 column, i32 word) {
    const i32 vectors = COLUMNS / 8 < 8 ? COLUMNS / 8 : 8;
    return column * ROW_WORDS + (word ^ (4 * (column / 8 * (8 / vectors) % 8)));
}

template <class T, i32 DEPTH, bool STAGES_KEYS, i32 HEADS>
GPU_FUNCTION void attention(const AttentionArguments& a) {
    constexpr i32 STEPS = (DEPTH + TILE - 1) / TILE;  // tiles along the head dimension
    constexpr i32 SLICE_STEPS = STEPS < 2 ? 1 : 2;
    constexpr i32 QUERY_STEPS = STAGES_KEYS ? STEPS : SLICE_STEPS;  // of Q, in registers at a time
    constexpr i32 COLUMNS = STEPS * TILE;             // DEPTH, padded to whole tiles
    constexpr i32 VECTORS = COLUMNS / 8;
    constexpr i32 PAIRS = SQUARES / 2 * VECTORS;  // pairs of keys x vectors of eight columns
    constexpr i32 UNITS = (PAIRS + ATTENTION_THREADS - 1) / ATTENTION_THREADS;
    static_assert(STEPS == 1 || STEPS % 2 == 0, "the tiles must divide into slices of two");
    // The number of vectors from one row of K to the next in shared memory. It is odd, so that the same vector of eight
    // neighbouring rows uses all banks once: that is how gfx11 and gfx12 read. gfx9 and NVIDIA read otherwise, with
    // conflicts, and so do threads write that share a row among fewer than eight (ACROSS).
    constexpr i32 KEY_ROW = VECTORS + 1;
    constexpr i32 KEY_WORDS = STAGES_KEYS ? SQUARES * KEY_ROW * 4 : 0, VALUE_WORDS = COLUMNS * ROW_WORDS;
    constexpr i32 SHARED_WORDS = KEY_WORDS < VALUE_WORDS ? VALUE_WORDS : KEY_WORDS;
    GPU_SHARED(u32, transposed, HEADS * SHARED_WORDS);
    // Each head has waves and a part of shared memory of its own. Where a block has more heads than there are, it computes
    // the last head again, because all waves must reach the barriers, and stores it once.
    const i32 place = HEADS == 1 ? 0 : (i32)of_wave(thread() / ATTENTION_THREADS), start = place * SHARED_WORDS;
    [[maybe_unused]] Words4* const staged_keys = (Words4*)(transposed + start);

    const i32 wanted = block_x() * HEADS + place, position = block_y();
    const i32 head = HEADS == 1 || wanted < a.heads ? wanted : a.heads - 1;
    const i64 first = (i64)position * SQUARES * a.stride + head * DEPTH;
    const T* queries = (const T*)a.qkv + first;
    const T* keys = queries + a.key_offset;
    const T* values = queries + a.value_offset;
    const Words4 zeros = {};

    // 1. Start all these loads before waiting for any. The operands of the first product come first.
    Fragment query[QUERY_TILES][QUERY_STEPS];
    [[maybe_unused]] Fragment key[KEY_TILES][SLICE_STEPS];
    [[maybe_unused]] Words4 key_words[VECTORS / 2];
    auto load_queries = [&](i32 first_column) {
#pragma unroll
        for (i32 tile = 0; tile < QUERY_TILES; tile++) {
            const T* rows = queries + (i64)(own_wave<HEADS>() * QUERY_TILES + tile) * TILE * a.stride + first_column;
            load_rows(query[tile], [&](i32 part, i32 offset) {
                return offset < DEPTH ? load16(rows + (i64)operand_row(part) * a.stride + offset) : zeros;
            });
        }
    };
    // Slot r of shared memory holds the key that is row r % 16 of tile r / 16. So many neighbouring threads load a row.
    constexpr i32 ACROSS = VECTORS % 8 == 0 ? 8 : VECTORS % 4 == 0 ? 4 : 2;
    auto key_slot = [](i32 i) {
        return i / (VECTORS / ACROSS) * (ATTENTION_THREADS / ACROSS) + own_thread<HEADS>() / ACROSS;
    };
    auto key_vector = [](i32 i) { return i % (VECTORS / ACROSS) * ACROSS + own_thread<HEADS>() % ACROSS; };
    if constexpr (STAGES_KEYS) {
#pragma unroll
        for (i32 i = 0; i < VECTORS / 2; i++) {
            const i64 row = spread<KEY_TILES>(key_slot(i) / TILE, key_slot(i) % TILE);
            key_words[i] = key_vector(i) * 8 < DEPTH ? load16(keys + row * a.stride + key_vector(i) * 8) : zeros;
        }
        load_queries(0);
    }
    auto load_slice = [&](i32 slice) {
        const i32 first_column = slice * SLICE_STEPS * TILE;
        load_queries(first_column);
#pragma unroll
        for (i32 n = 0; n < KEY_TILES; n++) {
            load_rows(key[n], [&](i32 part, i32 offset) {
                const T* row = keys + (i64)spread<KEY_TILES>(n, operand_row(part)) * a.stride + first_column;
                return offset < DEPTH ? load16(row + offset) : zeros;
            });
        }
    };
    if constexpr (!STAGES_KEYS) load_slice(0);

    Values<UNITS> v;
#pragma unroll
    for (i32 unit = 0; unit < UNITS; unit++) {
        const i32 index = unit * ATTENTION_THREADS + own_thread<HEADS>(), column = index % VECTORS * 8;
        const T* from = values + (i64)(index / VECTORS * 2) * a.stride + column;
        const bool inside = (COLUMNS == DEPTH || column < DEPTH) && (PAIRS % ATTENTION_THREADS == 0 || index < PAIRS);
        v.even[unit] = inside ? load16(from) : zeros;
        v.odd[unit] = inside ? load16(from + a.stride) : zeros;
    }

    // Without logits the same loads read queries instead, and a mask clears what they have read. A branch here would
    // wait for all loads that have been started.
    Packed<T> logits[QUERY_TILES][OWN_ROWS][RUNS];
    const u32 mask = a.logits ? ~0u : 0u;
    const T* logit_rows = a.logits ? (const T*)a.logits + ((i64)position * a.heads + head) * SQUARES * SQUARES : queries;
    const i32 logit_stride = a.logits ? SQUARES : 0;
#pragma unroll
    for (i32 tile = 0; tile < QUERY_TILES; tile++) {
#pragma unroll
        for (i32 part = 0; part < OWN_ROWS; part++) {
            const i32 row = (own_wave<HEADS>() * QUERY_TILES + tile) * TILE + operand_row(part);
#pragma unroll
            for (i32 run = 0; run < RUNS; run++) {
                const i32 column = a.logits ? run_start<KEY_TILES>(run, group()) : 0;
                logits[tile][part][run] = load_packed(logit_rows + row * logit_stride + column);
            }
        }
    }
    keep_order();

    // 2. scores = Q K^T, in slices of the head dimension that are one or two fragments wide.
    Accumulator scores[QUERY_TILES][KEY_TILES] = {};
    if constexpr (STAGES_KEYS) {
#pragma unroll
        for (i32 i = 0; i < VECTORS / 2; i++) staged_keys[key_slot(i) * KEY_ROW + key_vector(i)] = key_words[i];
        synchronise_block();
    }
#pragma unroll
    for (i32 slice = 0; slice < STEPS / SLICE_STEPS; slice++) {
        if (!STAGES_KEYS && slice > 0) {
            load_slice(slice);
            keep_order();
        }
#pragma unroll
        for (i32 n = 0; n < KEY_TILES; n++) {
            if constexpr (STAGES_KEYS) {
                load_rows(key[n], [&](i32 part, i32 offset) {
                    const i32 slot = n * TILE + operand_row(part);
                    return staged_keys[slot * KEY_ROW + slice * SLICE_STEPS * 2 + offset / 8];
                });
            }
#pragma unroll
            for (i32 tile = 0; tile < QUERY_TILES; tile++) {
#pragma unroll
                for (i32 step = 0; step < SLICE_STEPS; step++) {
                    const Fragment own = query[tile][(STAGES_KEYS ? slice * SLICE_STEPS : 0) + step];
                    scores[tile][n] = multiply(T(), own, key[n][step], scores[tile][n]);
                }
                if (DEPTH >= 64 && !STAGES_KEYS) settle(scores[tile][n]);
            }
        }
    }
    if constexpr (STAGES_KEYS) synchronise_block();

    // 3. Write V^T to shared memory. The selectors pick the low or the high halves of two words.
#pragma unroll
    for (i32 unit = 0; unit < UNITS; unit++) {
        const i32 index = unit * ATTENTION_THREADS + own_thread<HEADS>(), column = index % VECTORS * 8;
        if (PAIRS % ATTENTION_THREADS != 0 && index >= PAIRS) break;
#pragma unroll
        for (i32 i = 0; i < 8; i++) {
            const u32 selector = i % 2 == 0 ? 0x05040100 : 0x07060302;
            transposed[start + transposed_place<COLUMNS>(column + i, index / VECTORS)] =
                select_bytes(v.odd[unit].word[i / 2], v.even[unit].word[i / 2], selector);
        }
    }
    synchronise_block();

#pragma unroll
    for (i32 tile = 0; tile < QUERY_TILES; tile++) {
        const i32 row = (own_wave<HEADS>() * QUERY_TILES + tile) * TILE;
        float inverse_sum[OWN_ROWS];
#pragma unroll
        for (i32 part = 0; part < OWN_ROWS; part++) {
            // 4. The softmax. Scores are scaled by log2(e), because the exponential is computed as a power of two.
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

        // 5. output = scores V, one tile of columns at a time, divided by the softmax's sum at the end.
        Fragment probability[KEY_TILES];
#pragma unroll
        for (i32 n = 0; n < KEY_TILES; n++) probability[n] = fragment_of<T>(scores[tile][n]);
        Accumulator result[STEPS] = {};
#pragma unroll
        for (i32 m = 0; m < STEPS; m++) {
            Fragment value[KEY_TILES];
            load_rows(value, [&](i32 part, i32 offset) {
                const i32 column = spread<STEPS>(m, operand_row(part));
                return *(const Words4*)&transposed[start + transposed_place<COLUMNS>(column, offset / 2)];
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
                if (column >= DEPTH || (HEADS > 1 && head != wanted)) continue;
                if constexpr (LENGTH == 8) {
                    store16(output + column, {word[0], word[1], word[2], word[3]});
                } else {
                    store8(output + column, {word[0], word[1]});
                }
            }
        }
    }
}

#define KERNEL(kernel, T, depth, stages_keys, heads)                                                           \
    GPU_KERNEL(heads * ATTENTION_THREADS, kernel, AttentionArguments) {                                        \
        attention<T, depth, stages_keys, heads>(arguments);                                                    \
    }
#define ATTENTION(name, depth, stages_keys)                                                                    \
    KERNEL(name##_f16_d##depth, Half, depth, stages_keys, 1)                                                   \
    WITH_BF16(KERNEL(name##_bf16_d##depth, Bfloat, depth, stages_keys, 1))
#define ATTENTION_SMALL(depth)                                                                                 \
    KERNEL(SMALL_NAME(attention_f16_d##depth), Half, depth, USUALLY_STAGES_KEYS, SMALL_HEADS)                  \
    WITH_BF16(KERNEL(SMALL_NAME(attention_bf16_d##depth), Bfloat, depth, USUALLY_STAGES_KEYS, SMALL_HEADS))
ATTENTION_SMALL(8)
ATTENTION_SMALL(16)
ATTENTION_SMALL(32)
ATTENTION(attention, 64, USUALLY_STAGES_KEYS)
ATTENTION(attention, 96, USUALLY_STAGES_KEYS)
ATTENTION(attention, 128, USUALLY_STAGES_KEYS)
// The other way, for the head dimension of the usual networks. `rukh tune` measures which is faster on a card.
ATTENTION(attention_other, 32, !USUALLY_STAGES_KEYS)
#undef ATTENTION
#undef ATTENTION_SMALL
#undef KERNEL

#endif  // MATRIX_LAYOUT != MATRIX_NONE
