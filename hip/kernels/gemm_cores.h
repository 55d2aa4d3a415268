// The inner part of gemm.hip: how a block multiplies two operands that lie in shared memory, and which results each
// thread then holds. There are two cores with the same interface, one with matrix instructions and one without.
//
// An operand's part for one step is VECTORS vectors of 16 bytes of each row: four or eight. In shared memory, vector v
// of row r is at place v ^ (r / 2 % 4) of the row if there are four, and at place v ^ (r % 8) if there are eight, so that
// eight lanes that read the same vector of eight neighbouring rows, or whole rows, use all 32 banks once (README.md).
//
// The rows of the weights lie in "slots", in an order that the core chooses so that a thread's results are runs of eight
// neighbouring outputs:
//   column_of_slot(slot)   the block's column of weights that belongs into this slot
//   IS_UNROLLED            whether the loop of steps has two of them in a round
//   begin()                comes before the first step that does not go to shared memory asynchronously
//   LOADS_AHEAD            whether a fragment is loaded while the one before is multiplied
//   multiply(x, weights)   adds the products of one step; not with LOADS_AHEAD
//   FRAGMENTS, load(i, x, weights), multiply(i)
//                          with LOADS_AHEAD: the number of a step's fragments along the summed axis; loads fragment i;
//                          adds the products of fragment i. Two fragments can be loaded at a time
//   RUN_COUNT                   the number of runs of eight results that a thread holds
//   row(run), column(run)  the place of a run in the block's tile
//   result(run, k)         element k of a run, as a number
#pragma once
#include "matrix.h"

// The place of a vector among an operand's vectors in shared memory.
template <i32 VECTORS>
GPU_FUNCTION i32 gemm_place(i32 row, i32 vector) {
    static_assert(VECTORS == 4 || VECTORS == 8, "a row has four or eight vectors");
    return row * VECTORS + (vector ^ (VECTORS == 8 ? row & 7 : row >> 1 & 3));
}

// A sum as a number. Sums of products of bytes are integers.
template <class T>
GPU_FUNCTION float number_of(T, float sum) {
    return sum;
}
GPU_FUNCTION float number_of(Byte, float sum) {
    return (float)(i32)float_bits(sum);
}

#if MATRIX_LAYOUT != MATRIX_NONE

// Each wave owns X_TILES x W_TILES tiles of 16 x 16, and WAVES_ACROSS waves lie side by side.
template <class T, i32 ROWS, i32 COLUMNS, i32 THREADS, i32 VECTORS>
struct MatrixCore {
    static constexpr bool LOADS_AHEAD = MATRIX_LAYOUT == MATRIX_QUADS, IS_UNROLLED = !LOADS_AHEAD;
    static constexpr i32 WAVE_COUNT = THREADS / WAVE;
    // The waves' part of the tile is as square as possible, and at least 32 wide, so that runs have eight elements.
    static constexpr i32 WAVES_ACROSS = WAVE_COUNT == 1                         ? 1
                                        : WAVE_COUNT == 2                       ? (COLUMNS > ROWS ? 2 : 1)
                                        : WAVE_COUNT == 4                       ? (COLUMNS >= 64 ? 2 : 1)
                                        : COLUMNS / 4 >= 32 && ROWS <= COLUMNS  ? 4
                                                                           : 2;
    static constexpr i32 WAVE_ROWS = ROWS / (WAVE_COUNT / WAVES_ACROSS), WAVE_COLUMNS = COLUMNS / WAVES_ACROSS;
    static constexpr i32 X_TILES = WAVE_ROWS / TILE, W_TILES = WAVE_COLUMNS / TILE;
    static constexpr i32 RUNS_ACROSS = WAVE_COLUMNS / (8 * GROUPS);
    static constexpr i32 RUN_COUNT = X_TILES * OWN_ROWS * RUNS_ACROSS;
    static_assert(WAVE_COLUMNS >= 8 * GROUPS && X_TILES * TILE == WAVE_ROWS && W_TILES * TILE == WAVE_COLUMNS,
                  "waves own whole tiles and runs of eight");

    Accumulator sums[X_TILES][W_TILES];

    GPU_FUNCTION i32 wave_row() { return wave() / WAVES_ACROSS * WAVE_ROWS; }
    GPU_FUNCTION i32 wave_column() { return wave() % WAVES_ACROSS * WAVE_COLUMNS; }
    GPU_FUNCTION i32 column_of_slot(i32 slot) {
        const i32 inside = slot % WAVE_COLUMNS;
        return slot - inside + spread<W_TILES>(inside / TILE, inside % TILE);
    }
    GPU_FUNCTION i32 row(i32 run) {
        const i32 part = run / RUNS_ACROSS;
        return wave_row() + part / OWN_ROWS * TILE + operand_row(part % OWN_ROWS);
    }
    GPU_FUNCTION i32 column(i32 run) { return wave_column() + run_start<W_TILES>(run % RUNS_ACROSS, group()); }
    GPU_METHOD float result(i32 run, i32 k) {
        const i32 part = run / RUNS_ACROSS;
        return number_of(T(), sum_at(sums[part / OWN_ROWS], part % OWN_ROWS, run % RUNS_ACROSS, k));
    }

#if MATRIX_LAYOUT == MATRIX_QUADS
    static constexpr i32 FRAGMENTS = VECTORS / 2;
    Fragment own[2][X_TILES], other[2][W_TILES];

    GPU_METHOD void begin() {}
    GPU_METHOD void load(i32 fragment, const Words4* x, const Words4* weights) {
#pragma unroll
        for (i32 i = 0; i < X_TILES; i++) {
            own[fragment % 2][i] = load_fragment<OWN>([&](i32 row, i32 vector) {
                return x + gemm_place<VECTORS>(wave_row() + i * TILE + row, 2 * fragment + vector);
            });
        }
#pragma unroll
        for (i32 n = 0; n < W_TILES; n++) {
            other[fragment % 2][n] = load_fragment<OTHER>([&](i32 row, i32 vector) {
                return weights + gemm_place<VECTORS>(wave_column() + n * TILE + row, 2 * fragment + vector);
            });
        }
    }
    GPU_METHOD void multiply(i32 fragment) {
#pragma unroll
        for (i32 n = 0; n < W_TILES; n++) {
#pragma unroll
            for (i32 i = 0; i < X_TILES; i++)
                sums[i][n] = ::multiply(T(), own[fragment % 2][i], other[fragment % 2][n], sums[i][n]);
        }
    }
#else
    // Where a lane reads each operand's first tile in a step: byte offsets of its vectors from the operand's start. All
    // other tiles are at constant distances from these.
    static constexpr i32 PLACES = 2 * FRAGMENT_WORDS / 4;
    u32 own_places[PLACES], other_places[PLACES];

    GPU_METHOD void begin() {
        Fragment unused[2];
        i32 number = 0;
        load_rows(unused, [&](i32 part, i32 offset) {
            const i32 place = gemm_place<VECTORS>(operand_row(part), offset / 8);
            own_places[number] = (u32)(wave_row() * VECTORS + place) * 16;
            other_places[number++] = (u32)(wave_column() * VECTORS + place) * 16;
            return Words4();
        });
    }
    // Where gfx11 keeps the operands of its products: 8 registers each, in different banks (prefer_registers in amd.h).
    static constexpr i32 FIRST_OTHER = 1, FIRST_SUM = 18, FIRST_OWN = X_TILES * W_TILES <= 4 ? 51 : 83;
    // Tile number `tile` of an operand in shared memory.
    GPU_FUNCTION void load_tile(Fragment (&fragments)[2], const Words4* operand, const u32 (&places)[PLACES], i32 tile) {
        i32 number = 0;
        load_rows(fragments, [&](i32, i32) {
            return ((const Words4*)((const char*)operand + places[number++]))[tile * TILE * VECTORS];
        });
    }
    GPU_METHOD void multiply(const Words4* x, const Words4* weights) {
        static_assert(VECTORS == 4, "two fragments per step");
#pragma unroll
        for (i32 i = 0; i < PLACES; i++) {
            opaque(own_places[i]);
            opaque(other_places[i]);
        }
        Fragment own[X_TILES][2];
#pragma unroll
        for (i32 i = 0; i < X_TILES; i++) load_tile(own[i], x, own_places, i);
#pragma unroll
        for (i32 n = 0; n < W_TILES; n++) {
            Fragment other[2];
            load_tile(other, weights, other_places, n);
#pragma unroll
            for (i32 step = 0; step < 2; step++) {
#pragma unroll
                for (i32 i = 0; i < X_TILES; i++) {
                    prefer_registers(other[step], FIRST_OTHER + 8 * step);
                    prefer_registers(own[i][step], FIRST_OWN + 8 * (2 * i + step));
                    prefer_registers(sums[i][n], FIRST_SUM + 8 * (n * X_TILES + i));
                    sums[i][n] = ::multiply(T(), own[i][step], other[step], sums[i][n]);
                }
            }
        }
    }
#endif
};

#endif  // MATRIX_LAYOUT != MATRIX_NONE

// sum + a . b, for the elements of one word.
GPU_FUNCTION float dot_words(Half, u32 a, u32 b, float sum) {
    return dot_halves(a, b, sum);
}
GPU_FUNCTION float dot_words(Bfloat, u32 a, u32 b, float sum) {
    sum += float_of_bits(a << 16) * float_of_bits(b << 16);
    return sum + float_of_bits(a & 0xffff0000u) * float_of_bits(b & 0xffff0000u);
}
GPU_FUNCTION float dot_words(float, u32 a, u32 b, float sum) {
    return sum + float_of_bits(a) * float_of_bits(b);
}
GPU_FUNCTION float dot_words(Byte, u32 a, u32 b, float sum) {
    return float_of_bits(dot_bytes(a, b, float_bits(sum)));
}

// Each thread owns eight columns of every ROWS_APART-th row.
template <class T, i32 ROWS, i32 COLUMNS, i32 THREADS, i32 VECTORS>
struct PlainCore {
    static constexpr bool LOADS_AHEAD = false, IS_UNROLLED = false;
    static constexpr i32 ACROSS = COLUMNS / 8, ROWS_APART = THREADS / ACROSS;
    static constexpr i32 RUN_COUNT = ROWS / ROWS_APART;
    static_assert(RUN_COUNT * ROWS_APART == ROWS, "threads own whole rows of results");

    float sums[RUN_COUNT][8];

    GPU_METHOD void begin() {}
    // Neighbouring threads read neighbouring slots, whose columns are eight apart.
    GPU_FUNCTION i32 column_of_slot(i32 slot) { return slot % ACROSS * 8 + slot / ACROSS; }
    GPU_FUNCTION i32 row(i32 run) { return thread() / ACROSS + run * ROWS_APART; }
    GPU_FUNCTION i32 column(i32) { return thread() % ACROSS * 8; }
    GPU_METHOD float result(i32 run, i32 k) { return number_of(T(), sums[run][k]); }

    GPU_METHOD void multiply(const Words4* x, const Words4* weights) {
        // The loop is not unrolled, because its body already has several hundred instructions.
#pragma unroll 1
        for (i32 vector = 0; vector < VECTORS; vector++) {
            Words4 own[RUN_COUNT];
#pragma unroll
            for (i32 i = 0; i < RUN_COUNT; i++) own[i] = x[gemm_place<VECTORS>(row(i), vector)];
#pragma unroll
            for (i32 k = 0; k < 8; k++) {
                const Words4 other = weights[gemm_place<VECTORS>(thread() % ACROSS + k * ACROSS, vector)];
#pragma unroll
                for (i32 word = 0; word < 4; word++) {
#pragma unroll
                    for (i32 i = 0; i < RUN_COUNT; i++)
                        sums[i][k] = dot_words(T(), own[i].word[word], other.word[word], sums[i][k]);
                }
            }
        }
    }
};
