// A tile of a GEMM, for the kernels that compute GEMMs: gemm.hip and convolution.hip. `Gemm` has the whole
// work of a block; gemm_cores.h has its inner part.
//
// A block goes along the summed axis in steps of 64 or 128 bytes per row. While it multiplies one step from shared
// memory, it loads the next: into registers, and from there into the other half of the shared memory, or directly into
// shared memory on machines with asynchronous copies, which are two to five steps ahead. One barrier per step is
// enough, because a stage is written only after the barrier behind its last use.
//
// Preshuffled weights are stored in the order in which a block reads them: pieces of 64 bytes of 16 outputs follow one
// another, so that a step takes whole cache lines (kernels.h). The order is the same for all tiles.
//
// A thread cannot index its registers at run time, and the activation functions for all its results would be a lot of
// code. Unless the epilogue is short, a thread therefore passes its results through its own part of shared memory to a
// loop that is not unrolled.
#pragma once
#include "activations.h"
#include "gemm_cores.h"
#include "gemm_weights.h"

// The number of steps of `vectors` vectors that shared memory holds at a time, if they are copied asynchronously. It is
// as many as fit into 48 KB, NVIDIA's limit for arrays of constant size, and at most six.
GPU_FUNCTION constexpr i32 gemm_stages(i32 vectors) {
    const i32 most = 48 * 1024 / 16 / vectors;
    return most < 6 ? most : 6;
}

// Moves one operand of a block, ROWS rows, from global to shared memory. A thread moves the same vector of every row
// that it handles. `Source` says what the operand is in global memory (gemm_weights.h).
template <class Source, i32 ROWS, i32 THREADS, i32 VECTORS>
struct GemmLoader {
    static constexpr i32 COUNT = ROWS * VECTORS / THREADS, APART = THREADS / VECTORS;
    static_assert(COUNT * APART == ROWS, "threads move whole rows");

    const char* from;    // the first row's elements of the next step
    u32 offsets[COUNT];  // bytes from there to the rows, or to what the thread moves of them
    typename Source::Loaded words[COUNT];
    u32 landing;  // bytes from a stage's start in shared memory to the thread's first vector

    // `row_of_slot` gives the row for each slot, and `offset_of_row` the bytes from the first row's start to a row's.
    // Rows from `rows` on repeat the last row, and their results are not used.
    template <class RowOfSlot, class OffsetOfRow>
    GPU_METHOD void begin(const void* matrix, i32 rows, RowOfSlot row_of_slot, OffsetOfRow offset_of_row) {
        from = (const char*)matrix;
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) {
            const i32 row = row_of_slot(thread() / VECTORS + i * APART);
            offsets[i] = offset_of_row((u32)(row < rows ? row : rows - 1));
        }
    }
    // The bytes from a row's start to the thread's vector of a step. From a piece of the row to the next it is `piece`
    // bytes.
    GPU_FUNCTION i32 in_row(i32 piece) {
        constexpr i32 PIECE_VECTORS = PIECE_BYTES / 16;
        const i32 vector = thread() % VECTORS;
        return vector / PIECE_VECTORS * piece + vector % PIECE_VECTORS * (i32)sizeof(typename Source::Loaded);
    }
    // Whether the thread's vector of a step is in the rows if `left` bytes of each row are left.
    GPU_FUNCTION bool is_inside(i32 left) { return thread() % VECTORS * 16 < left; }
    GPU_METHOD void advance(i32 piece) { from += VECTORS / (PIECE_BYTES / 16) * piece; }
#if GPU_ASYNCHRONOUS_COPIES
    // Starts to copy a step to shared memory. Each row has `left` bytes left; what lies beyond them is cleared.
    GPU_METHOD void copy(i32 left, i32 piece, Words4* to) {
        const bool inside = is_inside(left);
        const char* first = from + (inside ? in_row(piece) : 0);
        advance(piece);
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) copy16_or_clear(to + place(i), first + offsets[i], inside);
    }
#endif
    // Without asynchronous copies a step goes through registers. AMD's loads add a lane's offset to an address that all
    // lanes share, so that no step but the last needs another vector instruction.

    // Comes before the first step.
    GPU_METHOD void aim(i32 piece) {
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) offsets[i] += in_row(piece);
        landing = (u32)place(0) * 16;
    }
    // Comes before the loads of a step of which only `left` bytes of each row are left: a thread for which nothing is left
    // loads the first vector of the row's part in this step. No other step may follow.
    GPU_METHOD void clip(i32 left, i32 piece) {
        const i32 back = is_inside(left) ? 0 : in_row(piece);
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) {
            opaque(offsets[i]);
            offsets[i] -= back;
        }
    }
    // Starts the loads of a step.
    GPU_METHOD void load(i32 piece) {
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) {
            opaque(offsets[i]);
            words[i] = Source::load(from + offsets[i]);
        }
        advance(piece);
    }
    // Clears what lies beyond the rows, if `clip` has come before.
    GPU_METHOD void clear(i32 left) {
        u32 mask = is_inside(left) ? ~0u : 0u;
        opaque(mask);
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) words[i] = Source::kept(words[i], mask);
    }
    // Writes what `load` has loaded to shared memory.
    GPU_METHOD void land(Words4* to) {
        opaque(landing);
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) {
            // The order of a row's vectors repeats every eight rows.
            Words4* const at = APART % 8 == 0 ? (Words4*)((char*)to + landing) + i * APART * VECTORS : to + place(i);
            *at = Source::widened(words[i]);
        }
    }
    GPU_FUNCTION i32 place(i32 i) {
        return gemm_place<VECTORS>(thread() / VECTORS + i * APART, thread() % VECTORS);
    }
};

// Applies the epilogue to a run of eight sums, in the order of GemmArguments, and stores the run. `row` is inside of the
// matrix, and `column` is the run's first column.
template <class T>
GPU_FUNCTION void gemm_finish(const GemmArguments& a, i32 gemm, i32 row, i32 column, Eight x) {
    T* output = (T*)a.output + gemm * a.output_batch + (i64)row * a.output_stride + column;
    const T* bias = (const T*)a.bias + column;
    const i64 gate = (i64)((u32)row % 64) * a.output_stride + column;
    const T* residual = (const T*)a.residual + gemm * a.output_batch + (i64)row * a.output_stride + column;
    if (a.output_stride % 8 == 0 && column + 8 <= a.outputs) {
        if (a.bias) x = plus(x, bias);
        activate(a.activation, x.value);
        if (a.multiply) x = gated(x, (const T*)a.multiply + gate, (const T*)a.add + gate);
        if (a.residual) x = plus(x, residual);
        store_eight(output, x);
        return;
    }
#pragma unroll 1
    for (i32 k = 0; k < 8 && column + k < a.outputs; k++) {
        float one[1] = {x.value[0]};
        if (a.bias) one[0] += load_one(bias + k);
        activate(a.activation, one);
        if (a.multiply) {
            one[0] *= load_one((const T*)a.multiply + gate + k);
            one[0] += load_one((const T*)a.add + gate + k);
        }
        if (a.residual) one[0] += load_one(residual + k);
        store_one(output + k, one[0]);
        // The next element moves to the front, because registers cannot be indexed.
#pragma unroll
        for (i32 i = 0; i < 7; i++) x.value[i] = x.value[i + 1];
    }
}

// The sums of a run of eight results over all parts of the summed axis.
GPU_FUNCTION Eight gemm_total(const GemmArguments& a, const float* partial, i32 gemm, i32 row, i32 column) {
    const i32 width = (a.outputs + 7) / 8 * 8;
    const i64 apart = (i64)a.gemms * a.rows * width;
    // Numbers of rows fit into 32 bits. In 64 bits, `row` would take a second register for its sign, with which ptxas
    // spills on sm_90: the loop below takes all registers that it allows itself.
    const float* from = partial + (i64)(gemm * a.rows + row) * width + column;
    // Each load takes the memory's whole latency, so that several are started at a time. Those beyond the last part load
    // the last part again.
    constexpr i32 LOADS = 4;
    Eight sums = {};
#pragma unroll 1
    for (i32 first = 0; first < a.splits; first += LOADS) {
        Packed<float> parts[LOADS];
#pragma unroll
        for (i32 i = 0; i < LOADS; i++) {
            const i32 split = first + i < a.splits ? first + i : a.splits - 1;
            parts[i] = load_packed(from + split * apart);
        }
#pragma unroll
        for (i32 i = 0; i < LOADS; i++) {
            const Eight part = unpack_eight(0.0f, parts[i]);
#pragma unroll
            for (i32 k = 0; k < 8; k++) sums.value[k] += first + i < a.splits ? part.value[k] : 0.0f;
        }
    }
    return sums;
}

// Stores a block's sums of its part of the summed axis.
template <class Core, class Scales>
GPU_FUNCTION void gemm_store_partial(const GemmArguments& a, float* partial, Core& core, const Scales& scales,
                                     i32 gemm, i32 split, i32 first_row, i32 first_column) {
    const i32 width = (a.outputs + 7) / 8 * 8;
    partial += ((i64)split * a.gemms + gemm) * a.rows * width;
#pragma unroll
    for (i32 run = 0; run < Core::RUN_COUNT; run++) {
        const i32 row = first_row + core.row(run), column = first_column + core.column(run);
        if (row >= a.rows || column >= width) continue;
        Eight sums;
#pragma unroll
        for (i32 k = 0; k < 8; k++) sums.value[k] = core.result(run, k);
        store_eight(partial + (i64)row * width + column, scales.of_part(sums, column));
    }
}

// Applies the scales and the epilogue to a block's results and stores them. `shared` has VECTORS vectors.
template <class T, i32 VECTORS, i32 THREADS, class Core, class Scales>
GPU_FUNCTION void gemm_store(const GemmArguments& a, Core& core, const Scales& scales, Words4* shared, i32 gemm,
                             i32 first_row, i32 first_column) {
    const bool is_short =
        a.activation == ACTIVATION_NONE && !a.multiply && a.outputs % 8 == 0 && a.output_stride % 8 == 0;
    if (is_short) {
        const T* residual = (const T*)a.residual + gemm * a.output_batch;
        T* output = (T*)a.output + gemm * a.output_batch;
        // The residual may be the output, so that the compiler cannot move its loads before other runs' stores. Without
        // the loads of several runs at a time, each would take the memory's whole latency.
        constexpr i32 LOADS = Core::RUN_COUNT < 4 ? Core::RUN_COUNT : 4;
#pragma unroll
        for (i32 first = 0; first < Core::RUN_COUNT; first += LOADS) {
            Packed<T> before[LOADS] = {};
#pragma unroll
            for (i32 i = 0; i < LOADS && a.residual; i++) {
                const i32 row = first_row + core.row(first + i), column = first_column + core.column(first + i);
                if (row < a.rows && column < a.outputs)
                    before[i] = load_packed(residual + (i64)row * a.output_stride + column);
            }
#pragma unroll
            for (i32 i = 0; i < LOADS; i++) {
                const i32 row = first_row + core.row(first + i), column = first_column + core.column(first + i);
                if (row >= a.rows || column >= a.outputs) continue;
                Eight sums;
#pragma unroll
                for (i32 k = 0; k < 8; k++) sums.value[k] = core.result(first + i, k);
                sums = scales.applied(sums, row, column);
                const Eight added = unpack_eight(T(), before[i]);
#pragma unroll
                for (i32 k = 0; k < 8; k++) sums.value[k] += added.value[k];
                if (a.bias) sums = plus(sums, (const T*)a.bias + column);
                store_eight(output + (i64)row * a.output_stride + column, sums);
            }
        }
        return;
    }
    constexpr i32 ROOM = VECTORS / (2 * THREADS);
    constexpr i32 TOGETHER = ROOM < Core::RUN_COUNT ? ROOM : Core::RUN_COUNT;
    synchronise_block();
#pragma unroll 1
    for (i32 first = 0; first < Core::RUN_COUNT; first += TOGETHER) {
#pragma unroll
        for (i32 run = 0; run < Core::RUN_COUNT; run++) {
            if (run / TOGETHER * TOGETHER != first) continue;
#pragma unroll
            for (i32 half = 0; half < 2; half++) {
                Words4 words;
#pragma unroll
                for (i32 k = 0; k < 4; k++) words.word[k] = float_bits(core.result(run, 4 * half + k));
                shared[(2 * (run % TOGETHER) + half) * THREADS + thread()] = words;
            }
        }
#pragma unroll 1
        for (i32 run = first; run < first + TOGETHER && run < Core::RUN_COUNT; run++) {
            Packed<float> sums;
#pragma unroll
            for (i32 half = 0; half < 2; half++) sums.words[half] = shared[(2 * (run - first) + half) * THREADS + thread()];
            const i32 row = first_row + core.row(run), column = first_column + core.column(run);
            if (row < a.rows && column < a.outputs)
                gemm_finish<T>(a, gemm, row, column, scales.applied(unpack_eight(0.0f, sums), row, column));
        }
    }
}

// The dies among which a launch's blocks are dealt in turn, where there are any: those of an MI300X or MI350X that is not
// partitioned. On a card with fewer, tiles are only in another order.
#define DIES 8

// The place of a block's work: a tile of a GEMM, and a part of the summed axis.
struct GemmPlace {
    i32 tile, gemm, split;
};

template <class T, template <class, i32, i32, i32, i32> class CoreOf, i32 ROWS, i32 COLUMNS, i32 THREADS,
          i32 STEP_BYTES, template <class> class WeightsOf = SameWeights>
struct Gemm {
    static constexpr i32 VECTORS = STEP_BYTES / 16, STEP = STEP_BYTES / sizeof(T);
    using Core = CoreOf<T, ROWS, COLUMNS, THREADS, VECTORS>;
    static constexpr i32 X_VECTORS = ROWS * VECTORS, STAGE = (ROWS + COLUMNS) * VECTORS;
    using Weights = WeightsOf<T>;
    // Weights that are widened go through registers.
    static constexpr bool IS_COPIED = Core::LOADS_AHEAD && GPU_ASYNCHRONOUS_COPIES && !Weights::IS_WIDENED;
    static constexpr i32 STAGES = IS_COPIED ? gemm_stages(STAGE) : 2;

    GPU_FUNCTION i32 tiles_across(const GemmArguments& a) { return (a.outputs + COLUMNS - 1) / COLUMNS; }
    GPU_FUNCTION i32 tiles_down(const GemmArguments& a) { return (a.rows + ROWS - 1) / ROWS; }
    GPU_FUNCTION i32 first_row(const GemmArguments& a, i32 tile) { return tile / tiles_across(a) * ROWS; }
    GPU_FUNCTION i32 first_column(const GemmArguments& a, i32 tile) { return tile % tiles_across(a) * COLUMNS; }

    // The tile of a block of a launch that has a block for each tile. Where neighbouring blocks run on other dies, each die
    // gets neighbouring tiles, so that its cache fetches only a part of the larger operand (README.md).
    GPU_FUNCTION i32 tile_of_block(const GemmArguments& a, i32 block) {
        if (!GPU_HAS_DIES) return block;
        const u32 across = tiles_across(a), down = tiles_down(a), tiles = across * down;
        const u32 die = (u32)block % DIES, each = tiles / DIES, rest = tiles % DIES;
        const u32 place = die * each + (die < rest ? die : rest) + (u32)block / DIES;
        return a.rows < a.outputs ? place % down * across + place / down : place;
    }

    // Computes and stores the results of a tile, or its sums of a part of the summed axis. `shared` has STAGES * STAGE
    // vectors.
    template <class Scales>
    GPU_FUNCTION void compute(const GemmArguments& a, float* partial, GemmPlace place, Words4* shared,
                              const Scales& scales);
    GPU_FUNCTION void compute(const GemmArguments& a, float* partial, GemmPlace place, Words4* shared) {
        compute(a, partial, place, shared, Weights::scales_of(a));
    }
    // Adds up the parts of a tile's sums, and stores the results.
    GPU_FUNCTION void add_parts(const GemmArguments& a, const float* partial, i32 tile) {
#pragma unroll 1
        for (i32 i = thread(); i < ROWS * COLUMNS / 8; i += THREADS) {
            const i32 row = first_row(a, tile) + i / (COLUMNS / 8);
            const i32 column = first_column(a, tile) + i % (COLUMNS / 8) * 8;
            if (row < a.rows && column < a.outputs)
                gemm_finish<T>(a, 0, row, column, gemm_total(a, partial, 0, row, column));
        }
    }
};

template <class T, template <class, i32, i32, i32, i32> class CoreOf, i32 ROWS, i32 COLUMNS, i32 THREADS,
          i32 STEP_BYTES, template <class> class WeightsOf>
template <class Scales>
GPU_METHOD void Gemm<T, CoreOf, ROWS, COLUMNS, THREADS, STEP_BYTES, WeightsOf>::compute(
    const GemmArguments& a, float* partial, GemmPlace place, Words4* shared, const Scales& scales) {
    const i32 first_row = Gemm::first_row(a, place.tile), first_column = Gemm::first_column(a, place.tile);
    const i32 gemm = place.gemm, split = place.split;
    const i32 all_steps = (a.inputs + STEP - 1) / STEP, most_steps = (all_steps + a.splits - 1) / a.splits;
    const i32 first_step = split * most_steps;
    const i32 steps = all_steps - first_step < most_steps ? all_steps - first_step : most_steps;

    GemmLoader<SameWeights<T>, ROWS, THREADS, VECTORS> x;
    GemmLoader<Weights, COLUMNS, THREADS, VECTORS> weights;
    const i64 first_input = first_step * STEP;
    const u32 x_row = (u32)a.x_stride * (u32)sizeof(T), weights_row = (u32)a.weights_stride * (u32)Weights::ELEMENT;
    // From a row of the weights to the next, among those whose pieces follow one another, and from a piece to the next.
    constexpr i32 WEIGHTS_PIECE = PIECE_BYTES * Weights::ELEMENT / (i32)sizeof(T);
    const bool is_preshuffled = Weights::IS_WIDENED || a.is_preshuffled;
    const u32 neighbour = is_preshuffled ? WEIGHTS_PIECE : weights_row;
    const i32 piece = is_preshuffled ? WEIGHTS_PIECE * PIECE_ROWS : WEIGHTS_PIECE;
    x.begin((const T*)a.x + gemm * a.x_batch + (i64)first_row * a.x_stride + first_input, a.rows - first_row,
            [](i32 slot) { return slot; }, [&](u32 row) { return row * x_row; });
    weights.begin((const char*)a.weights + (gemm * a.weights_batch + (i64)first_column * a.weights_stride) * Weights::ELEMENT +
                      (i64)first_step * (STEP_BYTES / PIECE_BYTES) * piece,
                  a.outputs - first_column, [](i32 slot) { return Core::column_of_slot(slot); },
                  [&](u32 row) { return row / PIECE_ROWS * PIECE_ROWS * weights_row + row % PIECE_ROWS * neighbour; });
    // The bytes of each row from the next step on.
    i32 left = (a.inputs - (i32)first_input) * (i32)sizeof(T);

    Core core = {};
#if GPU_ASYNCHRONOUS_COPIES
    if constexpr (Gemm::IS_COPIED) {
        auto copy = [&](i32 stage) {
            x.copy(left, PIECE_BYTES, shared + stage * STAGE);
            weights.copy(left, piece, shared + stage * STAGE + X_VECTORS);
            left -= STEP_BYTES;
        };
#pragma unroll
        for (i32 step = 0; step < STAGES - 1; step++) {
            if (step < steps) copy(step);
            end_copies();
        }
        wait_for_copies<STAGES - 2>();
        synchronise_block();
        core.load(0, shared, shared + X_VECTORS);
        i32 stage = 0, next = STAGES - 1;
#pragma unroll 1
        for (i32 step = 0; step < steps; step++) {
            if (step + STAGES - 1 < steps) copy(next);
            end_copies();
            const Words4* place = shared + stage * STAGE;
            stage = stage == STAGES - 1 ? 0 : stage + 1;
            next = next == STAGES - 1 ? 0 : next + 1;
#pragma unroll
            for (i32 fragment = 0; fragment < Core::FRAGMENTS; fragment++) {
                if (fragment + 1 < Core::FRAGMENTS) {
                    core.load(fragment + 1, place, place + X_VECTORS);
                } else {
                    // All fragments of this step are in registers, so that its stage is free behind the barrier. In the
                    // last step, what is loaded here is not used.
                    wait_for_copies<STAGES - 2>();
                    synchronise_block();
                    place = shared + stage * STAGE;
                    core.load(0, place, place + X_VECTORS);
                }
                core.multiply(fragment);
            }
        }
    } else
#endif
    {
        // Of the last step, there may be only a part.
        auto is_part = [&](bool may_be_last) { return may_be_last && (GPU_ALWAYS_MASKS || left < STEP_BYTES); };
        auto load = [&](bool may_be_last) GPU_INLINED {
            if (is_part(may_be_last)) {
                x.clip(left, PIECE_BYTES);
                weights.clip(left, piece);
            }
            x.load(PIECE_BYTES);
            weights.load(piece);
        };
        auto land = [&](bool may_be_last, i32 stage) GPU_INLINED {
            if (is_part(may_be_last)) {
                x.clear(left);
                weights.clear(left);
            }
            x.land(shared + stage * STAGE);
            weights.land(shared + stage * STAGE + X_VECTORS);
            left -= STEP_BYTES;
        };
        // Multiplies the step in a stage, and moves the next one, if there is one, to the other stage.
        auto multiply = [&](i32 stage, bool more, bool may_be_last) GPU_INLINED {
            synchronise_block();
            if (more) load(may_be_last);
            // Without this, the compiler would move the loads behind the products to save registers, or move the wait for
            // them in front of the products.
            keep_order();
            const Words4* place = shared + stage * STAGE;
            if constexpr (Core::LOADS_AHEAD) {
#pragma unroll
                for (i32 fragment = 0; fragment < Core::FRAGMENTS; fragment++) {
                    core.load(fragment, place, place + X_VECTORS);
                    core.multiply(fragment);
                }
            } else {
                core.multiply(place, place + X_VECTORS);
            }
            keep_order();
            if (more) land(may_be_last, 1 - stage);
        };
        core.begin();
        x.aim(PIECE_BYTES);
        weights.aim(piece);
        if (steps > 0) {
            load(true);
            land(true, 0);
        }
        i32 step = 0;
        // With both stages in a round, a step in the middle has no vector instructions but the products, and those that
        // widen weights: what remains of addresses are constants.
        if constexpr (Core::IS_UNROLLED) {
#pragma unroll 1
            for (; step + 3 < steps; step += 2) {
                multiply(0, true, false);
                multiply(1, true, false);
            }
        }
#pragma unroll 1
        for (; step < steps; step++) multiply(step % 2, step + 1 < steps, true);
    }

    if (a.splits == 1) {
        gemm_store<typename ResultOf<T>::Type, STAGES * STAGE, THREADS>(a, core, scales, shared, gemm, first_row,
                                                                        first_column);
    } else {
        gemm_store_partial(a, partial, core, scales, gemm, split, first_row, first_column);
    }
}
