// GEMMs of many rows, on machines that multiply by whole warpgroups (GPU_HAS_WARPGROUPS: sm_90a). Arguments: GemmArguments
// (kernels.h), and what they compute is what `gemm` computes (gemm.hip).
//
//   grid           (at most the card's multiprocessors, products * splits) blocks. Block x computes the tiles x, x + grid x
//                  and so on, which are as many as for `gemm`: its grid is right, too, but slower
//   tile           rows x columns of the results, as in the kernel's name. Each of the two warpgroups (four waves) has 64 rows
//   a thread owns  runs of eight neighbouring results in two rows, eight rows apart
//   types          f16, bf16; sums are fp32
//   layouts        those of `gemm`
//   shared memory  what the launch requests (launch_bytes below): STAGES steps of both operands, sums on their way to the
//                  epilogue, and the biases of some tiles. A multiprocessor holds one block
//   wave size      32
//   memory         a tile reads (rows + columns) * inputs elements
//
// A block goes along the summed axis in steps of 128 bytes per row, and from the last step of a tile to the first of its
// next one. All threads copy, asynchronously, and STAGES steps are in shared memory or on their way. Products are
// asynchronous, too: while those of one step are computed, the threads start those of the next. A step's stage is free when
// both warpgroups have waited for its products, which they do after they have started those of the next step. So the copies
// of step s + STAGES - 2 begin in step s, into the stage of step s - 2.
//
// At the end of a tile all products are waited for. Then the two stages that they have used are filled, too, so that the
// copies go on while the results are stored.
//
// On an H100 the products alone run at 750 TFLOP/s with 256 columns. The store of a tile's results, during which nothing is
// multiplied, takes as long as a third of the products of 768 inputs. Blocks of half the size, of which a multiprocessor
// holds two, hide that but read more, and were slower; so were blocks that start at different times.
#include "gemm_tiles.h"
#include "platform/nvidia_warpgroups.h"

#if GPU_HAS_WARPGROUPS

template <i32 SUM_COUNT>
GPU_FUNCTION void multiply_warpgroup(Half, float (&sums)[SUM_COUNT], u64 own, u64 other, bool adds) {
    multiply_warpgroup_f16(sums, own, other, adds);
}
template <i32 SUM_COUNT>
GPU_FUNCTION void multiply_warpgroup(Bfloat, float (&sums)[SUM_COUNT], u64 own, u64 other, bool adds) {
    multiply_warpgroup_bf16(sums, own, other, adds);
}

// The sums of a block. Each warpgroup has 64 rows and all columns, and each of its waves 16 rows. What a lane holds of them
// is what it holds with MATRIX_QUADS (matrix.h), and the weights lie in slots for the same reason (gemm_cores.h).
template <class T, i32 COLUMNS>
struct WarpgroupCore {
    static constexpr i32 RUNS_ACROSS = COLUMNS / 32, RUN_COUNT = 2 * RUNS_ACROSS;
    float sums[COLUMNS / 2];

    GPU_FUNCTION i32 column_of_slot(i32 slot) {
        return slot / 32 * 32 + slot / 2 % 4 * 8 + slot / 8 % 4 * 2 + slot % 2;
    }
    GPU_FUNCTION i32 row(i32 run) { return wave() * 16 + run / RUNS_ACROSS * 8 + lane() / 4; }
    GPU_FUNCTION i32 column(i32 run) { return run % RUNS_ACROSS * 32 + lane() % 4 * 8; }
    GPU_METHOD float result(i32 run, i32 k) {
        return sums[4 * (run % RUNS_ACROSS * 4 + k / 2) + 2 * (run / RUNS_ACROSS) + k % 2];
    }
    // Starts the products of 16 elements of each row. Without `adds` the sums start at zero.
    GPU_METHOD void multiply(u64 own, u64 other, bool adds) { multiply_warpgroup(T(), sums, own, other, adds); }
};

template <class T, i32 COLUMNS>
struct WarpgroupGemm {
    static constexpr i32 ROWS = 128, THREADS = 256, VECTORS = 8, STEP_BYTES = 128, STEP = STEP_BYTES / sizeof(T);
    using Core = WarpgroupCore<T, COLUMNS>;
    static constexpr i32 X_VECTORS = ROWS * VECTORS, STAGE = (ROWS + COLUMNS) * VECTORS;
    static constexpr i32 STAGES = COLUMNS > 192 ? 4 : 5;
    // The stages whose products may be incomplete: those of a step and of the one before.
    static constexpr i32 BUSY = 2;
    // The runs of a thread that pass through shared memory together.
    static constexpr i32 TOGETHER = COLUMNS > 192 ? 4 : 2;
    static constexpr i32 SUM_VECTORS = 2 * TOGETHER * THREADS;
    // The copied steps can belong to as many tiles, and the tile whose results are stored is one more.
    static constexpr i32 BIASES = STAGES + 1, BIAS_VECTORS = COLUMNS / 8;
    // src/backend/gpu/gemm/own.rs has the same number.
    static constexpr i32 LAUNCH_BYTES = 16 * (STAGES * STAGE + SUM_VECTORS + BIASES * BIAS_VECTORS);
    static_assert(LAUNCH_BYTES == (COLUMNS == 256 ? 231936 : 223488) && LAUNCH_BYTES <= 227 * 1024,
                  "the launch requests as much, and a multiprocessor has no more");

    GPU_FUNCTION void compute(const GemmArguments& a, Words4* shared);
    // Applies the epilogue to a tile's results and stores them. `sums` is for this thread and others, each its own part, and
    // `bias` has the biases of the tile's columns.
    GPU_FUNCTION void store(const GemmArguments& a, Core& core, Words4* sums, const Words4* bias, i32 product, i32 first_row,
                            i32 first_column);
};

template <class T, i32 COLUMNS>
GPU_METHOD void WarpgroupGemm<T, COLUMNS>::store(const GemmArguments& a, Core& core, Words4* sums, const Words4* bias,
                                                 i32 product, i32 first_row, i32 first_column) {
    // Whether all runs lie at multiples of 16 bytes and have eight results. Only then the biases are in shared memory.
    const bool is_regular = a.outputs % 8 == 0 && a.output_stride % 8 == 0;
    const T* residual = (const T*)a.residual + product * a.output_batch;
    T* output = (T*)a.output + product * a.output_batch;
    auto with_bias = [&](Eight x, i32 run) {
        Packed<T> packed;
        packed.words[0] = bias[core.column(run) / 8];
        const Eight added = unpack_eight(T(), packed);
#pragma unroll
        for (i32 k = 0; k < 8; k++) x.value[k] += added.value[k];
        return x;
    };
    // The epilogues with little code, for all results at once.
    if (is_regular && !a.multiply && a.activation <= ACTIVATION_RELU_2) {
        // As in gemm_store, the loads of several runs are started before the first of them is stored.
        constexpr i32 LOADS = 4;
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
                Eight x;
#pragma unroll
                for (i32 k = 0; k < 8; k++) x.value[k] = core.result(first + i, k);
                if (a.bias) x = with_bias(x, first + i);
                if (a.activation != ACTIVATION_NONE) {
#pragma unroll
                    for (i32 k = 0; k < 8; k++) {
                        const float positive = maximum(x.value[k], 0.0f);
                        x.value[k] = a.activation == ACTIVATION_RELU ? positive : positive * positive;
                    }
                }
                const Eight added = unpack_eight(T(), before[i]);
#pragma unroll
                for (i32 k = 0; k < 8; k++) x.value[k] += added.value[k];
                if (row < a.rows && column < a.outputs) store_eight(output + (i64)row * a.output_stride + column, x);
            }
        }
        return;
    }
    // A thread cannot index its registers, so that here, too, a loop that is not unrolled reads from shared memory.
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
                sums[(2 * (run % TOGETHER) + half) * THREADS + thread()] = words;
            }
        }
        constexpr i32 PAIR = 2;
#pragma unroll 1
        for (i32 run = first; run < first + TOGETHER; run += PAIR) {
            float x[8 * PAIR];
#pragma unroll
            for (i32 i = 0; i < PAIR; i++) {
                Packed<float> packed;
#pragma unroll
                for (i32 half = 0; half < 2; half++)
                    packed.words[half] = sums[(2 * (run + i - first) + half) * THREADS + thread()];
                Eight run_sums = unpack_eight(0.0f, packed);
                if (is_regular && a.bias) run_sums = with_bias(run_sums, run + i);
#pragma unroll
                for (i32 k = 0; k < 8; k++) x[8 * i + k] = run_sums.value[k];
            }
            if (is_regular) activate(a.activation, x);
#pragma unroll
            for (i32 i = 0; i < PAIR; i++) {
                const i32 row = first_row + core.row(run + i), column = first_column + core.column(run + i);
                if (row >= a.rows || column >= a.outputs) continue;
                Eight result;
#pragma unroll
                for (i32 k = 0; k < 8; k++) result.value[k] = x[8 * i + k];
                if (!is_regular) {
                    gemm_finish<T>(a, product, row, column, result);
                    continue;
                }
                const i64 gate = (i64)((u32)row % 64) * a.output_stride + column;
                const i64 place = (i64)row * a.output_stride + column;
                if (a.multiply) result = gated(result, (const T*)a.multiply + gate, (const T*)a.add + gate);
                if (a.residual) result = plus(result, residual + place);
                store_eight(output + place, result);
            }
        }
    }
}

template <class T, i32 COLUMNS>
GPU_METHOD void WarpgroupGemm<T, COLUMNS>::compute(const GemmArguments& a, Words4* shared) {
    const i32 product = block_y() / a.splits, split = block_y() % a.splits;
    const i32 across = (a.outputs + COLUMNS - 1) / COLUMNS, tiles = (a.rows + ROWS - 1) / ROWS * across;
    const i32 all_steps = (a.inputs + STEP - 1) / STEP, most_steps = (all_steps + a.splits - 1) / a.splits;
    const i32 first_step = split * most_steps;
    i32 steps = all_steps - first_step < most_steps ? all_steps - first_step : most_steps;
    // A part without steps has sums of zero: those of a step beyond the end.
    steps = steps < 1 ? 1 : steps;

    using Source = SameWeights<T>;
    GemmLoader<Source, ROWS, THREADS, VECTORS> x;
    GemmLoader<Source, COLUMNS, THREADS, VECTORS> weights;
    const i64 first_input = (i64)first_step * STEP;
    const u32 x_row = (u32)a.x_stride * (u32)sizeof(T), weights_row = (u32)a.weights_stride * (u32)sizeof(T);
    const u32 neighbour = a.is_preshuffled ? (u32)PIECE_BYTES : weights_row;
    const i32 piece = a.is_preshuffled ? PIECE_BYTES * PIECE_ROWS : PIECE_BYTES;
    Words4* const sums = shared + STAGES * STAGE;
    Words4* const biases = sums + SUM_VECTORS;

    // Starts the copies of the next step, or ends an empty group behind the last one.
    i32 copy_tile = block_x(), copy_steps = 0, copy_stage = 0, copy_bias = 0, left = 0;
    auto copy = [&] {
        if (copy_tile < tiles) {
            if (copy_steps == 0) {
                const i32 first_row = copy_tile / across * ROWS, first_column = copy_tile % across * COLUMNS;
                x.begin((const T*)a.x + product * a.x_batch + (i64)first_row * a.x_stride + first_input,
                        a.rows - first_row, [](i32 slot) { return slot; }, [&](u32 row) { return row * x_row; });
                weights.begin((const char*)a.weights +
                                  (product * a.weights_batch + (i64)first_column * a.weights_stride) * (i64)sizeof(T) +
                                  (i64)first_step * (STEP_BYTES / PIECE_BYTES) * piece,
                              a.outputs - first_column, [](i32 slot) { return Core::column_of_slot(slot); },
                              [&](u32 row) {
                                  return row / PIECE_ROWS * PIECE_ROWS * weights_row + row % PIECE_ROWS * neighbour;
                              });
                left = (a.inputs - (i32)first_input) * (i32)sizeof(T);
                const i32 column = first_column + thread() * 8;
                if (a.bias && thread() < BIAS_VECTORS && column + 8 <= a.outputs)
                    copy16_or_clear(biases + copy_bias * BIAS_VECTORS + thread(), (const T*)a.bias + column, true);
                copy_bias = copy_bias == BIASES - 1 ? 0 : copy_bias + 1;
            }
            Words4* to = shared + copy_stage * STAGE;
            x.copy(left, PIECE_BYTES, to);
            weights.copy(left, piece, to + X_VECTORS);
            left -= STEP_BYTES;
            copy_stage = copy_stage == STAGES - 1 ? 0 : copy_stage + 1;
            if (++copy_steps == steps) {
                copy_steps = 0;
                copy_tile += blocks_x();
            }
        }
        end_copies();
    };

#pragma unroll 1
    for (i32 i = 0; i < STAGES; i++) copy();
    i32 stage = 0, bias = 0;
    const u64 own_first = operand_of_products(shared) + (wave() / 4) * (64 * STEP_BYTES >> 4);
    const u64 other_first = operand_of_products(shared + X_VECTORS);
    Core core;
#pragma unroll 1
    for (i32 tile = block_x(); tile < tiles; tile += blocks_x()) {
#pragma unroll 1
        for (i32 step = 0; step < steps; step++) {
            // The first steps have been copied before the last tile's results were stored.
            if (step == 0) {
                wait_for_copies<STAGES - 1>();
            } else if (step == 1) {
                wait_for_copies<STAGES - 2>();
            } else {
                wait_for_copies<STAGES - 1 - BUSY>();
            }
            publish_to_products();
            synchronise_block();
            const u64 own = own_first + (u32)(stage * STAGE), other = other_first + (u32)(stage * STAGE);
            begin_products();
#pragma unroll
            for (i32 k = 0; k < STEP_BYTES / 32; k++)
                core.multiply(own + 2 * k, other + 2 * k, step + k > 0);
            end_products();
            stage = stage == STAGES - 1 ? 0 : stage + 1;
            if (step >= BUSY) copy();
            wait_for_products<1>();
        }
        complete_products(core.sums);
        synchronise_block();
#pragma unroll 1
        for (i32 i = 0; i < BUSY && i < steps; i++) copy();
        const i32 first_row = tile / across * ROWS, first_column = tile % across * COLUMNS;
        if (a.splits == 1) {
            store(a, core, sums, biases + bias * BIAS_VECTORS, product, first_row, first_column);
        } else {
            gemm_store_partial(a, a.partial, core, Source::scales_of(a), product, split, first_row, first_column);
        }
        bias = bias == BIASES - 1 ? 0 : bias + 1;
    }
}

#define GEMM(type, T, columns)                                                                                 \
    GPU_KERNEL(256, gemm_##type##_128x##columns##_256, GemmArguments) {                                        \
        GPU_LAUNCH_SHARED(Words4, launch_shared);                                                              \
        WarpgroupGemm<T, columns>::compute(arguments, launch_shared);                                          \
    }
#define GEMM_16_BITS(type, T)                                                                                  \
    GEMM(type, T, 256)                                                                                         \
    GEMM(type, T, 192)
GEMM_16_BITS(f16, Half)
GEMM_16_BITS(bf16, Bfloat)
#undef GEMM_16_BITS
#undef GEMM

#endif  // GPU_HAS_WARPGROUPS
