// 16 x 16 tiles of a matrix instruction, D = own * other^T + D in fp32, over elements of 16 bits, or over pairs of bytes
// with sums in 32-bit integers.
//
// All sums that a lane holds belong to one or two rows of the "own" side (attention's queries). The rows of the "other"
// side (the keys, or the columns of the values) are spread over the lane's registers. Both operands are rows of 16
// neighbouring elements, so that a lane loads each with a few wide loads. Platforms differ in which lane holds which
// element. The four layouts below describe that, and the code that uses them is written once.
//
// The kernels need not know the layout, because two orders can be chosen freely:
//   * The rows of the other side may come in any order. The order is chosen so that a lane's sums are runs of eight
//     neighbours: row r of tile n is row `spread(n, r)` of the other side. Then a lane holds, for each of its own rows,
//     runs that start at `run_start(i, group())`, and logits and results move as 16-byte vectors.
//   * The order along the summed axis does not matter as long as both operands agree. It is chosen so that a tile of
//     sums, rounded, is already an operand of the next product (`fragment_of`), and so that operands are loaded 16
//     bytes at a time (`load_rows`). With MATRIX_HALVES, for example, a lane loads eight neighbours of both operands,
//     from 8 * (lane / 16), although for the instruction the last four of them belong to the row's second half.
//
// | layout | machine | lanes, instruction | what a lane holds of an operand | lanes that share a row of D |
// |---|---|---|---|---|
// | MATRIX_REPLICATED | gfx11 | 32, wmma | row lane % 16, all 16 elements; both halves of the wave hold the same | 2: lane / 16 |
// | MATRIX_HALVES | gfx12 | 32, wmma | row lane % 16, 4 elements from 4 * (lane / 16) and 4 from 8 + 4 * (lane / 16) | 2: lane / 16 |
// | MATRIX_QUARTERS | gfx908, gfx90a, gfx942, gfx950 | 64, mfma | row lane % 16, 4 elements from 4 * (lane / 16) | 4: lane / 16 |
// | MATRIX_QUADS | sm_75 and later | 32, two mma.m16n8k16 (sm_75: four mma.m16n8k8) | rows lane / 4 and lane / 4 + 8, 2 + 2 elements of each | 4: lane % 4 |
//
// The element of D in a lane's register i:
//   MATRIX_REPLICATED  own row lane % 16, other row 2 i + lane / 16
//   MATRIX_HALVES      own row lane % 16, other row 8 (lane / 16) + i
//   MATRIX_QUARTERS    own row lane % 16, other row 4 (lane / 16) + i
//   MATRIX_QUADS       own row lane / 4 + 8 (i / 2 % 2), other row 8 (i / 4) + 2 (lane % 4) + i % 2
// Sources: AMD's RDNA3, RDNA4 and CDNA3 ISA documents, "WMMA" and "MFMA"; NVIDIA's PTX ISA.
#pragma once
#include "elements.h"

#if MATRIX_LAYOUT != MATRIX_NONE

// Rows and columns of a tile.
#define TILE 16

#if MATRIX_LAYOUT == MATRIX_REPLICATED
#define FRAGMENT_WORDS 8
#define SUMS 8
#define OWN_ROWS 1
#define GROUPS 2
#elif MATRIX_LAYOUT == MATRIX_HALVES
#define FRAGMENT_WORDS 4
#define SUMS 8
#define OWN_ROWS 1
#define GROUPS 2
#elif MATRIX_LAYOUT == MATRIX_QUARTERS
#define FRAGMENT_WORDS 2
#define SUMS 4
#define OWN_ROWS 1
#define GROUPS 4
#elif MATRIX_LAYOUT == MATRIX_QUADS
#define FRAGMENT_WORDS 4
#define SUMS 8
#define OWN_ROWS 2
#define GROUPS 4
#endif

// The part of a 16 x 16 operand that a lane holds.
struct Fragment {
    u32 word[FRAGMENT_WORDS];
};
// The part of a 16 x 16 tile of sums that a lane holds.
struct Accumulator {
    float value[SUMS];
};

GPU_FUNCTION Accumulator multiply(Half, Fragment own, Fragment other, Accumulator sum) {
    return multiply_f16(own, other, sum);
}
#if GPU_HAS_BF16
GPU_FUNCTION Accumulator multiply(Bfloat, Fragment own, Fragment other, Accumulator sum) {
    return multiply_bf16(own, other, sum);
}
#endif
// A fragment of bytes has twice as many along the summed axis, two in the place of each element of 16 bits. This is one
// instruction or two; their own order of the bytes does not matter, because it is the same for both operands. The sums
// are integers, in the bits of the accumulator.
GPU_FUNCTION Accumulator multiply(Byte, Fragment own, Fragment other, Accumulator sum) {
    return multiply_bytes(own, other, sum);
}
#ifdef FP8_LARGEST
// The same for numbers of 8 bits. Their sums are fp32.
GPU_FUNCTION Accumulator multiply(Fp8, Fragment own, Fragment other, Accumulator sum) {
    return multiply_fp8(own, other, sum);
}
#endif

// The lane's number among the lanes that share an own row, below GROUPS.
GPU_FUNCTION i32 group() {
    return MATRIX_LAYOUT == MATRIX_QUADS ? lane() & 3 : lane() >> 4;
}
// The row of an operand that the lane holds, for 0 <= part < OWN_ROWS. On the own side it is also the row of its sums.
GPU_FUNCTION i32 operand_row([[maybe_unused]] i32 part) {
    return MATRIX_LAYOUT == MATRIX_QUADS ? (lane() >> 2) + 8 * part : lane() & 15;
}

// Combines a value over the lanes that share an own row. Each of these lanes gets the result.
template <class Combine>
GPU_FUNCTION float over_groups(float value, Combine combine) {
    const i32 nearest = MATRIX_LAYOUT == MATRIX_QUADS ? 1 : 16;
    value = combine(value, exchange(value, nearest));
    if (GROUPS == 4) value = combine(value, exchange(value, 2 * nearest));
    return value;
}
GPU_FUNCTION float maximum_over_groups(float value) {
    return over_groups(value, [](float a, float b) { return maximum(a, b); });
}
GPU_FUNCTION float sum_over_groups(float value) {
    return over_groups(value, [](float a, float b) { return a + b; });
}

// The length of a lane's runs along an axis of TILES tiles. It is eight, or less if there are too few tiles.
template <i32 TILES>
GPU_FUNCTION constexpr i32 run_length() {
    return TILES * TILE / GROUPS < 8 ? TILES * TILE / GROUPS : 8;
}
// The row of the other side at which run number `run` of lane group `group` begins.
template <i32 TILES>
GPU_FUNCTION i32 run_start(i32 run, i32 group) {
    return run_length<TILES>() * (GROUPS * run + group);
}
// Element `k` of a lane's run number `run`, for its own row number `part`.
template <i32 TILES>
GPU_FUNCTION float& sum_at(Accumulator (&tiles)[TILES], [[maybe_unused]] i32 part, i32 run, i32 k) {
    const i32 j = run * run_length<TILES>() + k;
#if MATRIX_LAYOUT == MATRIX_QUARTERS
    return tiles[j / 4].value[j % 4];
#elif MATRIX_LAYOUT == MATRIX_QUADS
    return tiles[j / 4].value[4 * (j / 2 % 2) + 2 * part + j % 2];
#else
    return tiles[j / 8].value[j % 8];
#endif
}
// The row of the other side that must be row r of tile n, so that a lane's sums are runs of neighbours.
template <i32 TILES>
GPU_FUNCTION i32 spread(i32 n, i32 r) {
#if MATRIX_LAYOUT == MATRIX_REPLICATED
    const i32 owner = r & 1, j = 8 * n + (r >> 1);
#elif MATRIX_LAYOUT == MATRIX_HALVES
    const i32 owner = r >> 3, j = 8 * n + (r & 7);
#elif MATRIX_LAYOUT == MATRIX_QUARTERS
    const i32 owner = r >> 2, j = 4 * n + (r & 3);
#else
    const i32 owner = (r & 7) >> 1, j = 4 * n + 2 * (r >> 3) + (r & 1);
#endif
    return run_start<TILES>(j / run_length<TILES>(), owner) + j % run_length<TILES>();
}

// Loads a lane's part of STEPS fragments, which lie side by side along the summed axis. `load(part, offset)` returns
// eight elements (four words) of the lane's row number `part`, from element `offset` on.
template <i32 STEPS, class Load>
GPU_FUNCTION void load_rows(Fragment (&fragments)[STEPS], Load load) {
#pragma unroll
    for (i32 part = 0; part < OWN_ROWS; part++) {
#if MATRIX_LAYOUT == MATRIX_REPLICATED
#pragma unroll
        for (i32 i = 0; i < 2 * STEPS; i++) {
            const Words4 words = load(part, 8 * i);
#pragma unroll
            for (i32 k = 0; k < 4; k++) fragments[i / 2].word[4 * (i % 2) + k] = words.word[k];
        }
#elif MATRIX_LAYOUT == MATRIX_HALVES
#pragma unroll
        for (i32 step = 0; step < STEPS; step++) {
            const Words4 words = load(part, TILE * step + 8 * group());
#pragma unroll
            for (i32 k = 0; k < 4; k++) fragments[step].word[k] = words.word[k];
        }
#else
        // A lane's four elements of one step and its four elements of the next are neighbours and make one vector.
        // STEPS is even or 1. If it is 1, each lane takes one half of a vector.
#pragma unroll
        for (i32 pair = 0; pair < (STEPS + 1) / 2; pair++) {
            const bool single = 2 * pair + 1 == STEPS;
            const Words4 words = load(part, 2 * TILE * pair + 8 * (single ? group() / 2 : group()));
#pragma unroll
            for (i32 k = 0; k < (single ? 2 : 4); k++) {
                const u32 low = words.word[k], high = words.word[(k + 2) % 4];
                // If the lane has two rows, their words alternate.
                fragments[2 * pair + k / 2].word[OWN_ROWS * (k % 2) + part] =
                    single && group() % 2 != 0 ? high : low;
            }
        }
#endif
    }
}

#if MATRIX_LAYOUT == MATRIX_QUADS
// The sides of a product.
enum Side { OWN, OTHER };
// Loads a lane's part of a fragment from shared memory with one instruction, which also brings the words into the order
// that the matrix instruction needs. `place(row, vector)` is the address of the eight elements of the tile's row from
// 8 * vector on, for vector 0 and 1. Both operands must be loaded in this way, because here a fragment's elements keep
// their order along the summed axis.
template <Side SIDE, class Place>
GPU_FUNCTION Fragment load_fragment(Place place) {
    // The four matrices are the fragment's words: for the own side in the order of their numbers, and for the other
    // side with the second and the third exchanged, so that the two words of one instruction are neighbours.
    const i32 matrix = lane() >> 3, lower = SIDE == OWN ? matrix & 1 : matrix >> 1;
    const Words4 words = load_matrices(place(8 * lower + (lane() & 7), SIDE == OWN ? matrix >> 1 : matrix & 1));
    return {words.word[0], words.word[SIDE == OWN ? 1 : 2], words.word[SIDE == OWN ? 2 : 1], words.word[3]};
}
#endif

#if MATRIX_LAYOUT == MATRIX_REPLICATED
// A tile of sums, rounded to T, as an operand whose summed axis is the tile's other side. Every lane needs all 16
// elements of its row, but has only one run of eight. It gets the other run from the lane that shares the row.
template <class T>
GPU_FUNCTION Fragment fragment_of(Accumulator tile) {
    Fragment fragment;
#pragma unroll
    for (i32 i = 0; i < 4; i++) {
        const u32 own = pack(T(), tile.value[2 * i], tile.value[2 * i + 1]);
        const u32 partners = exchange_bits(own, 16);
        fragment.word[i] = group() == 0 ? own : partners;
        fragment.word[4 + i] = group() == 0 ? partners : own;
    }
    return fragment;
}
#else
// A tile of sums, rounded to T, as an operand whose summed axis is the tile's other side.
template <class T>
GPU_FUNCTION Fragment fragment_of(Accumulator tile) {
    Fragment fragment;
#pragma unroll
    for (i32 i = 0; i < SUMS / 2; i++) fragment.word[i] = pack(T(), tile.value[2 * i], tile.value[2 * i + 1]);
    return fragment;
}
#endif

#endif  // MATRIX_LAYOUT != MATRIX_NONE
