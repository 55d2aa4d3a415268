// The policy of the legal moves: their logits, and the softmax over them. Arguments: AttentionPolicyArguments and
// PolicyArguments (kernels.h).
//
// attention_policy: logit(move) = scale * query[from] . key[to], plus promotion[piece] . key[to] for a promotion
// policy:           logit(move) = logits[places[move]] + bias
// both:             probabilities = softmax(inverse_temperature * logit) over a position's legal moves
//
//   grid           B blocks of 512 threads: a block computes one position
//   a thread owns  attention_policy: every 32nd group of eight elements of a move's dot product; 32 lanes share a move;
//                  policy: every 512th move
//   layouts        moves of position p: moves[first_moves[p]] to moves[first_moves[p + 1] - 1]; probabilities likewise
//   shared memory  7504 bytes: room for 1858 logits (only a test requests them all), and one float per 32 lanes
//   wave size      32 or 64: reductions within a wave stay within 32 lanes
//   memory         attention_policy computes only the dot products of the legal moves, about 30 of 4096, and reads only
//                  their queries and keys: with 16-bit elements, at most 256 * depth bytes per position
#include "activations.h"

#define POLICY_THREADS 512
#define MAX_MOVES 1858

// Combines a value of every thread of the block, and gives each thread the result. `scratch` has one float per 32
// lanes.
template <class Combine>
GPU_FUNCTION float over_block(float value, float* scratch, Combine combine) {
#pragma unroll
    for (i32 mask = 1; mask < ROW_LANES; mask *= 2) value = combine(value, exchange(value, mask));
    // Other threads may still be reading the previous result.
    synchronise_block();
    if (thread() % ROW_LANES == 0) scratch[thread() / ROW_LANES] = value;
    synchronise_block();
    value = scratch[0];
    for (i32 i = 1; i < POLICY_THREADS / ROW_LANES; i++) value = combine(value, scratch[i]);
    return value;
}

// Writes probabilities = softmax(inverse_temperature * logits), or the logits themselves if inverse_temperature is 0.
GPU_FUNCTION void write_softmax(const float* logits, i32 count, float inverse_temperature, float* probabilities) {
    GPU_SHARED(float, scratch, POLICY_THREADS / ROW_LANES);
    synchronise_block();
    if (inverse_temperature == 0.0f) {
        for (i32 i = thread(); i < count; i += POLICY_THREADS) store_one(probabilities + i, logits[i]);
        return;
    }
    float largest = -3.0e38f, sum = 0.0f;
    for (i32 i = thread(); i < count; i += POLICY_THREADS) largest = maximum(largest, logits[i]);
    largest = over_block(largest, scratch, [](float a, float b) { return maximum(a, b); });
    const float factor = inverse_temperature;
    for (i32 i = thread(); i < count; i += POLICY_THREADS) sum += exponential((logits[i] - largest) * factor);
    sum = reciprocal(over_block(sum, scratch, [](float a, float b) { return a + b; }));
    for (i32 i = thread(); i < count; i += POLICY_THREADS)
        store_one(probabilities + i, exponential((logits[i] - largest) * factor) * sum);
}

template <class T>
GPU_FUNCTION void attention_policy(const AttentionPolicyArguments& a) {
    GPU_SHARED(float, logits, MAX_MOVES);
    const i32 position = block_x();
    const i32 first = load4(a.first_moves + position);
    const i32 count = load4(a.first_moves + position + 1) - first;
    const T* queries = (const T*)a.queries + (i64)position * 64 * a.stride;
    const T* keys = (const T*)a.keys + (i64)position * 64 * a.stride;
    for (i32 move = thread() / ROW_LANES; move < count; move += POLICY_THREADS / ROW_LANES) {
        i32 from, to, piece = -1;
        const i32 place = load2(a.places + load2(a.moves + first + move));
        if (place < 4096) {
            from = place / 64;
            to = place % 64;
        } else {
            from = 48 + (place - 4096) / 24;
            to = 56 + (place - 4096) / 3 % 8;
            piece = (place - 4096) % 3;
        }
        float plain = 0.0f, added = 0.0f;
#pragma unroll 1
        for (i32 i = thread() % ROW_LANES * 8; i < a.depth; i += ROW_LANES * 8) {
            const Eight query = load_eight(queries + (i64)from * a.stride + i);
            const Eight key = load_eight(keys + (i64)to * a.stride + i);
#pragma unroll
            for (i32 k = 0; k < 8; k++) plain += query.value[k] * key.value[k];
            if (piece < 0) continue;
            const Eight row = load_eight((const T*)a.promotions + (i64)piece * a.depth + i);
#pragma unroll
            for (i32 k = 0; k < 8; k++) added += row.value[k] * key.value[k];
        }
        const float logit = sum_over_lanes<ROW_LANES>(plain * a.scale + added);
        if (thread() % ROW_LANES == 0) logits[move] = logit;
    }
    write_softmax(logits, count, a.inverse_temperature, a.probabilities + first);
}

template <class T>
GPU_FUNCTION void policy(const PolicyArguments& a) {
    GPU_SHARED(float, logits, MAX_MOVES);
    const i32 position = block_x();
    const i32 first = load4(a.first_moves + position);
    const i32 count = load4(a.first_moves + position + 1) - first;
    const T* row = (const T*)a.logits + (i64)position * a.width;
    for (i32 move = thread(); move < count; move += POLICY_THREADS) {
        const i32 place = load2(a.places + load2(a.moves + first + move));
        const float bias = a.bias ? load_one((const T*)a.bias + place % a.bias_width) : 0.0f;
        logits[move] = load_one(row + place) + bias;
    }
    write_softmax(logits, count, a.inverse_temperature, a.probabilities + first);
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(POLICY_THREADS, attention_policy_##type, AttentionPolicyArguments) {                            \
        attention_policy<T>(arguments);                                                                        \
    }                                                                                                          \
    GPU_KERNEL(POLICY_THREADS, policy_##type, PolicyArguments) {                                               \
        policy<T>(arguments);                                                                                  \
    }
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
