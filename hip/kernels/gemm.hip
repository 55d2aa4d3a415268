// GEMMs of any size. Arguments: GemmArguments, and ChainArguments for gemm_chain (kernels.h).
//
//   gemm:       output[r][n] = gate(act(sum over k of x[r][k] * weights[n][k] + bias[n])) + residual[r][n], where
//               gate(y) = y * multiply[r % 64][n] + add[r % 64][n]
//   gemm_chain: up to three such GEMMs, of which each may read what the one before has written, and LayerNorms of
//               their results (normalise.h)
//   gemm_sum:   the same as gemm, where the sum over k is the sum of the partial sums that `gemm` has left
//   gemm_any:   the same as gemm, for widths and strides that are not multiples of eight
//   preshuffle: weights in another order, for gemm and gemm_chain (PreshuffleArguments)
//
//   grid           gemm: (tiles, gemms * splits) blocks. The tiles of one row of tiles are neighbours, so that
//                  blocks that run together share rows of x; tile_of_block in gemm_tiles.h says which block computes
//                  which tile where a GPU has dies
//                  gemm_chain: for each link (tiles * splits) blocks, and then those of its norm: 32 threads per row of
//                  at most 1024, or else a block per row
//   tile           rows x columns of the results, as in the kernel's name, with as many threads as its last number
//   a thread owns  runs of eight neighbouring results; the cores of gemm_cores.h say which
//   types          f32, f16, bf16; sums are fp32
//   layouts        x [rows][x_stride], weights [outputs][weights_stride] or preshuffled (GemmArguments), output and
//                  residual [rows][output_stride]
//   shared memory  2 * (rows + columns) * 64 bytes: 32 KB for 128 x 128; at most 48 KB on NVIDIA
//   wave size      32 or 64
//   memory         a tile reads (rows + columns) * inputs elements
//
// With `splits` above 1 (split-K), that many blocks share a tile's summed axis, and each leaves its sums in `partial`,
// [splits][gemms][rows][outputs, rounded up to a multiple of eight]. gemm_sum adds them up in a fixed order, so that
// results do not depend on timing. In a chain, the last block of a tile does that.
//
// A LayerNorm needs whole rows, and the next GEMM of a chain needs whole rows of its input. Rows therefore have
// counters of the blocks that have ended, and a block that needs these rows waits for them (ChainLink in kernels.h). A
// waiting block cannot keep one from starting that it waits for, because blocks take their numbers in the order in which
// they start. Which block computes what depends on timing, but not what it computes.
#pragma once
#include "gemm_tiles.h"
#include "normalise.h"

// The widest rows that 32 lanes normalise, and the widest that a block does. Both have the same code in a chain.
#define NARROW_NORM 1024
#define WIDE_NORM 8192

// A block of a chain: a tile of a link's GEMM, or some rows of its LayerNorm. `shared` is that of the tile.
template <class T, class Tile, i32 THREADS>
GPU_FUNCTION void gemm_chain(const ChainArguments& a, Words4* shared) {
    u32* scratch = (u32*)shared;
    const i32 number = number_of_block(a.counters, a.blocks, scratch);
    i32 index = 0;
    while (index + 1 < a.count && number >= a.links[index + 1].first_block) index++;
    const ChainLink& link = a.links[index];
    const bool normalises = number >= link.first_norm_block;
    const i32 rows_together = link.norm.width > NARROW_NORM ? 1 : THREADS / ROW_LANES;
    const i32 tiles = Tile::tiles_down(link.gemm) * Tile::tiles_across(link.gemm);
    const i32 place = number - (normalises ? link.first_norm_block : link.first_block);
    const i32 tile = place % tiles, row = normalises ? place * rows_together : Tile::first_row(link.gemm, tile);
    const i32 group = row / link.group_rows, is_last_group = group == a.last_group;
    u32* counter = a.counters + 1 + group;
    wait_for_blocks(counter, normalises ? link.before_norm[is_last_group] : link.before_tiles[is_last_group]);
    if (!normalises) {
        float* partial = a.workspace + link.partial_start;
        Tile::compute(link.gemm, partial, {tile, 0, place / tiles}, shared);
        if (link.gemm.splits > 1) {
            // The part that ends last adds up all parts.
            if (!is_last_block(a.counters + link.first_counter + tile, link.gemm.splits, scratch)) return;
            Tile::add_parts(link.gemm, partial, tile);
        }
    } else {
        const bool is_wide = rows_together == 1;
        const i32 row_of_thread = is_wide ? row : row + thread() / ROW_LANES;
        normalise_row<T, THREADS, WIDE_NORM / 8 / THREADS>(link.norm, row_of_thread, is_wide ? THREADS : ROW_LANES,
                                                           (float*)shared);
    }
    end_block(counter, a.all[is_last_group]);
}

#define GEMM_SUM_THREADS 256

// A thread adds up eight neighbouring results.
template <class T>
GPU_FUNCTION void gemm_sum(const GemmArguments& a) {
    const i32 vectors = (a.outputs + 7) / 8, gemm = block_y();
    const u32 vector = block_x() * GEMM_SUM_THREADS + thread();
    const i32 row = vector / (u32)vectors, column = vector % (u32)vectors * 8;
    if (row >= a.rows) return;
    gemm_finish<T>(a, gemm, row, column, gemm_total(a, a.partial, gemm, row, column));
}

#define GEMM_ANY_SIDE 16

// A thread computes one result. GEMMs with such widths are small.
template <class T>
GPU_FUNCTION void gemm_any(const GemmArguments& a) {
    const i32 tiles_across = (a.outputs + GEMM_ANY_SIDE - 1) / GEMM_ANY_SIDE, gemm = block_y();
    const i32 row = block_x() / tiles_across * GEMM_ANY_SIDE + thread() / GEMM_ANY_SIDE;
    const i32 column = block_x() % tiles_across * GEMM_ANY_SIDE + thread() % GEMM_ANY_SIDE;
    if (row >= a.rows || column >= a.outputs) return;
    const T* x = (const T*)a.x + gemm * a.x_batch + (i64)row * a.x_stride;
    const T* weights = (const T*)a.weights + gemm * a.weights_batch + (i64)column * a.weights_stride;
    float sum[1] = {0.0f};
#pragma unroll 1
    for (i32 k = 0; k < a.inputs; k++) sum[0] += load_one(x + k) * load_one(weights + k);
    const i64 place = gemm * a.output_batch + (i64)row * a.output_stride + column;
    if (a.bias) sum[0] += load_one((const T*)a.bias + column);
    activate(a.activation, sum);
    if (a.multiply) {
        const i64 gate = (i64)((u32)row % 64) * a.output_stride + column;
        sum[0] = sum[0] * load_one((const T*)a.multiply + gate) + load_one((const T*)a.add + gate);
    }
    if (a.residual) sum[0] += load_one((const T*)a.residual + place);
    store_one((T*)a.output + place, sum[0]);
}

#define PRESHUFFLE_THREADS 256

// A thread moves one vector. What lies beyond the outputs and the inputs is zero.
GPU_KERNEL(PRESHUFFLE_THREADS, preshuffle, PreshuffleArguments) {
    const PreshuffleArguments& a = arguments;
    const u32 pieces = (u32)(a.row + PIECE_BYTES - 1) / PIECE_BYTES;
    const u32 blocks = (u32)(a.outputs + PIECE_ROWS - 1) / PIECE_ROWS;
    constexpr u32 PIECE_VECTORS = PIECE_BYTES / 16, VECTORS = PIECE_ROWS * PIECE_VECTORS;
    const u32 place = block_x() * PRESHUFFLE_THREADS + thread(), block = place / VECTORS, inner = place % VECTORS;
    if (block >= blocks * pieces) return;
    const i32 row = block / pieces * PIECE_ROWS + inner / PIECE_VECTORS;
    const i32 column = block % pieces * PIECE_BYTES + inner % PIECE_VECTORS * 16;
    const char* from = (const char*)a.weights + block_y() * a.weights_batch + (i64)row * a.stride + column;
    Words4 vector = {};
    if (row < a.outputs && column < a.row) vector = load16(from);
    store16((char*)a.output + block_y() * a.output_batch + (i64)place * 16, vector);
}

#define GEMM(type, T, Core, rows, columns, threads, step_bytes)                                                \
    GPU_KERNEL(threads, gemm_##type##_##rows##x##columns##_##threads, GemmArguments) {                         \
        using Tile = Gemm<T, Core, rows, columns, threads, step_bytes>;                                        \
        GPU_SHARED(Words4, shared, Tile::STAGES * Tile::STAGE);                                                \
        const i32 gemm = block_y() / arguments.splits, split = block_y() % arguments.splits;                   \
        const i32 tile = Tile::tile_of_block(arguments, block_x());                                            \
        Tile::compute(arguments, arguments.partial, {tile, gemm, split}, shared);                              \
    }
#if GPU_HAS_CHAINS
#define GEMM_AND_CHAIN(type, T, Core, rows, columns, threads, step_bytes)                                      \
    GEMM(type, T, Core, rows, columns, threads, step_bytes)                                                    \
    GPU_KERNEL(threads, gemm_chain_##type##_##rows##x##columns##_##threads, ChainArguments) {                  \
        using Tile = Gemm<T, Core, rows, columns, threads, step_bytes>;                                        \
        GPU_SHARED(Words4, shared, Tile::STAGES * Tile::STAGE);                                                \
        gemm_chain<T, Tile, threads>(in_memory(arguments), shared);                                            \
    }
#else
#define GEMM_AND_CHAIN GEMM
#endif
#if MATRIX_LAYOUT == MATRIX_QUADS
// Waves of 64 x 64 results halve the traffic of shared memory, which would limit larger blocks. Two such waves make a
// tile of 64 x 128; with four waves of 32 x 64 it reads half as much again, but more waves hide what the memory takes.
// Smaller tiles have fewer products per step, and longer steps make up for that.
#define GEMM_16_BITS(type, T)                                                                                  \
    GEMM_AND_CHAIN(type, T, MatrixCore, 128, 128, 128, 64)                                                     \
    GEMM_AND_CHAIN(type, T, MatrixCore, 64, 128, 128, 64)                                                      \
    GEMM(type, T, MatrixCore, 64, 128, 64, 64)                                                                 \
    GEMM_AND_CHAIN(type, T, MatrixCore, 64, 64, 128, 128)                                                      \
    GEMM_AND_CHAIN(type, T, MatrixCore, 64, 32, 128, 128)                                                      \
    GEMM(type, T, MatrixCore, 16, 32, 32, 128)
#elif MATRIX_LAYOUT != MATRIX_NONE
#if MATRIX_LAYOUT == MATRIX_QUARTERS
// Shared memory has room for two blocks, so that with 128 threads a SIMD would have one wave.
#define GEMM_64X128(type, T) GEMM_AND_CHAIN(type, T, MatrixCore, 64, 128, 256, 64)
#else
#define GEMM_64X128(type, T) GEMM_AND_CHAIN(type, T, MatrixCore, 64, 128, 128, 64)
#endif
// The second-level cache of a die gives 128 x 128 tiles less than they take at the peak (EXPECTED_TIMES.md). Twice as many waves
// share a tile that takes three quarters of that.
#if GPU_HAS_DIES
#define GEMM_256X128(type, T) GEMM(type, T, MatrixCore, 256, 128, 512, 64)
#else
#define GEMM_256X128(type, T)
#endif
#define GEMM_16_BITS(type, T)                                                                                  \
    GEMM_256X128(type, T)                                                                                      \
    GEMM_AND_CHAIN(type, T, MatrixCore, 128, 128, 256, 64)                                                     \
    GEMM_64X128(type, T)                                                                                       \
    GEMM_AND_CHAIN(type, T, MatrixCore, 64, 64, 128, 64)                                                       \
    GEMM(type, T, MatrixCore, 32, 64, 128, 64)                                                                 \
    GEMM_AND_CHAIN(type, T, MatrixCore, 64, 32, 128, 64)
#else
#define GEMM_16_BITS(type, T)                                                                                  \
    GEMM_AND_CHAIN(type, T, PlainCore, 128, 128, 256, 64)                                                      \
    GEMM_AND_CHAIN(type, T, PlainCore, 64, 64, 128, 64)                                                        \
    GEMM(type, T, PlainCore, 32, 64, 128, 64)                                                                  \
    GEMM_AND_CHAIN(type, T, PlainCore, 64, 32, 128, 64)
#endif
WITH_F16(GEMM_16_BITS(f16, Half))
WITH_BF16(GEMM_16_BITS(bf16, Bfloat))
// fp32 is for comparisons, so that it has no chains.
GEMM(f32, float, PlainCore, 128, 128, 256, 64)
GEMM(f32, float, PlainCore, 64, 64, 128, 64)

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(GEMM_SUM_THREADS, gemm_sum_##type, GemmArguments) {                                             \
        gemm_sum<T>(arguments);                                                                                \
    }                                                                                                          \
    GPU_KERNEL(GEMM_ANY_SIDE * GEMM_ANY_SIDE, gemm_any_##type, GemmArguments) {                                \
        gemm_any<T>(arguments);                                                                                \
    }
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
#undef GEMM_AND_CHAIN
#undef GEMM
#undef GEMM_16_BITS
#undef GEMM_64X128
#undef GEMM_256X128
