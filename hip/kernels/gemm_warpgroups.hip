// GEMMs of many rows, on machines that multiply by whole warpgroups (GPU_HAS_WARPGROUPS: sm_90a). Arguments:
// GemmArguments (kernels.h). They compute what `gemm` computes (gemm.hip).
//
//   grid           (at most the card's multiprocessors, gemms * splits) blocks. Block x computes the tiles x,
//                  x + grid x and so on. There are as many tiles as for `gemm`; a block for each is right, too
//   tile           rows x columns of the results, as in the kernel's name. Each of two warpgroups (four waves) has 64
//                  rows, and four other waves copy
//   a thread owns  runs of eight neighbouring results in two rows, eight rows apart
//   types          f16, bf16; sums are fp32
//   layouts        those of `gemm`
//   shared memory  LAUNCH_BYTES below, which the launch requests: STAGES steps of both operands, sums on their way to
//                  the epilogue, the biases of some tiles, and barriers. A multiprocessor holds one block
//   wave size      32
//   memory         a tile reads (rows + columns) * inputs elements
//
// A block goes along the summed axis in steps of 128 bytes per row, from the last step of a tile to the first of its
// next one. The first four waves copy steps to the stages, as soon as the warpgroups have released them. The warpgroups
// start the products of a step when it is there, and release the step before, whose products are complete by then. They
// do not wait for each other, so that one of them multiplies while the other one stores the results of its part of a
// tile.
//
// Twelve waves leave 168 registers to each thread, so that with 256 columns a few values are spilled. Moving registers
// between waves (setmaxnreg) does not help: the driver's compiler ignores it when it makes code that can be kept for the
// next start.
//
// README.md has the rates on an H100. Blocks of half the size, of which a multiprocessor holds two, read more and were
// slower; so were blocks in which all threads copy and multiply in step.
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

// The threads that copy come first.
#define COPYING_THREADS 128
#define MULTIPLYING_THREADS 256

// The sums of a block. Each multiplying warpgroup has 64 rows and all columns, and each of its waves 16 rows. What a
// lane holds of them is what it holds with MATRIX_QUADS (matrix.h), and the weights lie in slots for the same reason
// (gemm_cores.h).
template <class T, i32 COLUMNS>
struct WarpgroupCore {
    static constexpr i32 RUNS_ACROSS = COLUMNS / 32, RUN_COUNT = 2 * RUNS_ACROSS;
    float sums[COLUMNS / 2];
    GPU_FUNCTION i32 column_of_slot(i32 slot) {
        return slot / 32 * 32 + slot / 2 % 4 * 8 + slot / 8 % 4 * 2 + slot % 2;
    }
    GPU_FUNCTION i32 row(i32 run) {
        return (wave() - COPYING_THREADS / WAVE) * 16 + run / RUNS_ACROSS * 8 + lane() / 4;
    }
    GPU_FUNCTION i32 column(i32 run) { return run % RUNS_ACROSS * 32 + lane() % 4 * 8; }
    GPU_METHOD float result(i32 run, i32 k) {
        return sums[4 * (run % RUNS_ACROSS * 4 + k / 2) + 2 * (run / RUNS_ACROSS) + k % 2];
    }
    // Starts the products of 16 elements of each row. Without `adds` the sums start at zero.
    GPU_METHOD void multiply(u64 own, u64 other, bool adds) { multiply_warpgroup(T(), sums, own, other, adds); }
};

template <class T, i32 COLUMNS>
struct WarpgroupGemm {
    static constexpr i32 ROWS = 128, VECTORS = 8, STEP_BYTES = 128, STEP = STEP_BYTES / sizeof(T);
    using Core = WarpgroupCore<T, COLUMNS>;
    using Source = SameWeights<T>;
    static constexpr i32 X_VECTORS = ROWS * VECTORS, STAGE = (ROWS + COLUMNS) * VECTORS;
    static constexpr i32 STAGES = COLUMNS > 192 ? 4 : 5;
    // The runs of a thread that go through the epilogue together.
    static constexpr i32 TOGETHER = 2;
    static constexpr i32 SUM_VECTORS = 2 * TOGETHER * MULTIPLYING_THREADS;
    // Each stage can hold a step of another tile, and the results of one more tile are being stored.
    static constexpr i32 BIASES = STAGES + 1, BIAS_VECTORS = COLUMNS / 8;
    // src/backend/gpu/gemm/own.rs has the same number. Each stage has two barriers, which take 16 bytes.
    static constexpr i32 LAUNCH_BYTES = 16 * (STAGES * STAGE + SUM_VECTORS + BIASES * BIAS_VECTORS + STAGES);
    static_assert(LAUNCH_BYTES == (COLUMNS == 256 ? 215616 : 223568) && LAUNCH_BYTES <= 227 * 1024,
                  "the launch requests as much, and a multiprocessor has no more");

    // A block's work.
    struct Work {
        i32 gemm, split, across, tiles, first_step, steps;

        GPU_METHOD i32 first_row(i32 tile) const { return tile / across * ROWS; }
        GPU_METHOD i32 first_column(i32 tile) const { return tile % across * COLUMNS; }
    };
    static constexpr u32 BARRIERS = 16;
    // The parts of the shared memory.
    struct Shared {
        Words4 *stages, *sums, *biases;
        // The barriers of the first stage. From those of a stage to those of the next one it is BARRIERS bytes.
        u32 copied, released;
    };
    // The place of a step among the stages.
    struct Place {
        i32 stage = 0;
        u32 parity = 0;

        // The stage of so many steps before.
        GPU_METHOD i32 before(i32 steps) const { return stage >= steps ? stage - steps : stage + STAGES - steps; }
        GPU_METHOD void advance() {
            stage++;
            if (stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    };

    // Tells those that copy that this wave no longer reads a stage, nor the biases of tiles before.
    GPU_FUNCTION void release(const Shared& shared, i32 stage) {
        synchronise_wave();
        if (lane() == 0) arrive(shared.released + stage * BARRIERS);
    }
    GPU_FUNCTION void compute(const GemmArguments& a, Words4* memory);
    // What the threads do that copy, and those that multiply.
    GPU_FUNCTION void copy(const GemmArguments& a, const Work& work, const Shared& shared);
    GPU_FUNCTION void multiply(const GemmArguments& a, const Work& work, const Shared& shared);
    // Applies the epilogue to a tile's results and stores them. `bias` has the biases of the tile's columns.
    GPU_FUNCTION void store(const GemmArguments& a, Core& core, Words4* sums, const Words4* bias, i32 gemm,
                            i32 first_row, i32 first_column);
};

template <class T, i32 COLUMNS>
GPU_METHOD void WarpgroupGemm<T, COLUMNS>::copy(const GemmArguments& a, const Work& work, const Shared& shared) {
    GemmLoader<Source, ROWS, COPYING_THREADS, VECTORS> x;
    GemmLoader<Source, COLUMNS, COPYING_THREADS, VECTORS> weights;
    const i64 first_input = (i64)work.first_step * STEP;
    const u32 x_row = (u32)a.x_stride * (u32)sizeof(T), weights_row = (u32)a.weights_stride * (u32)sizeof(T);
    // As in gemm_tiles.h.
    const u32 neighbour = a.is_preshuffled ? (u32)PIECE_BYTES : weights_row;
    const i32 piece = a.is_preshuffled ? PIECE_BYTES * PIECE_ROWS : PIECE_BYTES;
    const char* const first_weights = (const char*)a.weights + work.gemm * a.weights_batch * (i64)sizeof(T) +
                                      (i64)work.first_step * (STEP_BYTES / PIECE_BYTES) * piece;
    const T* const first_x = (const T*)a.x + work.gemm * a.x_batch + first_input;
    Place place;
    i32 bias = 0;
#pragma unroll 1
    for (i32 tile = block_x(); tile < work.tiles; tile += blocks_x()) {
        const i32 first_row = work.first_row(tile), first_column = work.first_column(tile);
        x.begin(first_x + (i64)first_row * a.x_stride, a.rows - first_row, [](i32 slot) { return slot; },
                [&](u32 row) { return row * x_row; });
        weights.begin(first_weights + (i64)first_column * weights_row, a.outputs - first_column,
                      [](i32 slot) { return Core::column_of_slot(slot); },
                      [&](u32 row) {
                          return row / PIECE_ROWS * PIECE_ROWS * weights_row + row % PIECE_ROWS * neighbour;
                      });
        i32 left = (a.inputs - (i32)first_input) * (i32)sizeof(T);
#pragma unroll 1
        for (i32 step = 0; step < work.steps; step++) {
            wait_for_phase(shared.released + place.stage * BARRIERS, place.parity ^ 1);
            if (step == 0) {
                const i32 column = first_column + thread() * 8;
                if (a.bias && thread() < BIAS_VECTORS && column + 8 <= a.outputs)
                    copy16_or_clear(shared.biases + bias * BIAS_VECTORS + thread(), (const T*)a.bias + column, true);
                bias = bias == BIASES - 1 ? 0 : bias + 1;
            }
            Words4* to = shared.stages + place.stage * STAGE;
            x.copy(left, PIECE_BYTES, to);
            weights.copy(left, piece, to + X_VECTORS);
            left -= STEP_BYTES;
            arrive_when_copied(shared.copied + place.stage * BARRIERS);
            place.advance();
        }
    }
    end_copies();
    wait_for_copies<0>();
}

template <class T, i32 COLUMNS>
GPU_METHOD void WarpgroupGemm<T, COLUMNS>::multiply(const GemmArguments& a, const Work& work, const Shared& shared) {
    const u64 own = operand_of_products(shared.stages) + (u32)((wave() - COPYING_THREADS / WAVE) / 4 * 64 * VECTORS);
    const u64 other = operand_of_products(shared.stages + X_VECTORS);
    Place place;
    i32 bias = 0;
    Core core;
#pragma unroll 1
    for (i32 tile = block_x(); tile < work.tiles; tile += blocks_x()) {
#pragma unroll 1
        for (i32 step = 0; step < work.steps; step++) {
            wait_for_phase(shared.copied + place.stage * BARRIERS, place.parity);
            observe_for_products();
            const u32 stage = (u32)(place.stage * STAGE);
            begin_products();
#pragma unroll
            for (i32 k = 0; k < STEP_BYTES / 32; k++)
                core.multiply(own + stage + 2 * k, other + stage + 2 * k, step + k > 0);
            end_products();
            place.advance();
            if (step > 0) {
                wait_for_products<1>();
                release(shared, place.before(2));
            }
        }
        complete_products(core.sums);
        release(shared, place.before(1));
        const i32 first_row = work.first_row(tile), first_column = work.first_column(tile);
        if (a.splits == 1) {
            store(a, core, shared.sums, shared.biases + bias * BIAS_VECTORS, work.gemm, first_row, first_column);
        } else {
            gemm_store_partial(a, a.partial, core, Source::scales_of(a), work.gemm, work.split, first_row,
                               first_column);
        }
        bias = bias == BIASES - 1 ? 0 : bias + 1;
    }
}

template <class T, i32 COLUMNS>
GPU_METHOD void WarpgroupGemm<T, COLUMNS>::store(const GemmArguments& a, Core& core, Words4* sums, const Words4* bias,
                                                 i32 gemm, i32 first_row, i32 first_column) {
    // Whether all runs lie at multiples of 16 bytes and have eight results. Only then are all biases of a tile in shared
    // memory: `copy` leaves out an incomplete run.
    const bool is_regular = a.outputs % 8 == 0 && a.output_stride % 8 == 0;
    auto add_bias = [&](float* x, i32 run) {
        Packed<T> packed;
        packed.words[0] = bias[core.column(run) / 8];
        const Eight added = unpack_eight(T(), packed);
#pragma unroll
        for (i32 k = 0; k < 8; k++) x[k] += added.value[k];
    };
    // The usual epilogues of large GEMMs, for some results at once.
    const bool is_usual = a.activation <= ACTIVATION_RELU_2 || a.activation == ACTIVATION_MISH;
    if (is_regular && !a.multiply && is_usual) {
        const i32 left = a.outputs - first_column - core.column(0);
#pragma unroll
        for (i32 part = 0; part < 2; part++) {
            const i32 first = part * Core::RUNS_ACROSS, row = first_row + core.row(first);
            const i64 place = gemm * a.output_batch + (i64)row * a.output_stride + first_column + core.column(0);
            T* const to = (T*)a.output + place;
            const T* const residual = (const T*)a.residual + place;
            const bool is_inside = row < a.rows;
#pragma unroll
            for (i32 run = 0; run < Core::RUNS_ACROSS; run += TOGETHER) {
                float x[8 * TOGETHER];
#pragma unroll
                for (i32 i = 0; i < 8 * TOGETHER; i++) x[i] = core.result(first + run + i / 8, i % 8);
                if (a.bias) {
#pragma unroll
                    for (i32 i = 0; i < TOGETHER; i++) add_bias(x + 8 * i, run + i);
                }
                if (a.activation == ACTIVATION_MISH) {
                    map(x, [](float v) { return mish(v); });
                } else if (a.activation != ACTIVATION_NONE) {
                    map(x, [](float v) { return maximum(v, 0.0f); });
                    if (a.activation == ACTIVATION_RELU_2) map(x, [](float v) { return v * v; });
                }
                if (a.residual) {
#pragma unroll
                    for (i32 i = 0; i < TOGETHER; i++) {
                        if (!is_inside || 32 * (run + i) >= left) continue;
                        const Eight added = unpack_eight(T(), load_packed(residual + 32 * (run + i)));
#pragma unroll
                        for (i32 k = 0; k < 8; k++) x[8 * i + k] += added.value[k];
                    }
                }
#pragma unroll
                for (i32 i = 0; i < TOGETHER; i++) {
                    Eight result;
#pragma unroll
                    for (i32 k = 0; k < 8; k++) result.value[k] = x[8 * i + k];
                    if (is_inside && 32 * (run + i) < left) store_eight(to + 32 * (run + i), result);
                }
            }
        }
        return;
    }
    // A thread cannot index its registers, so that a loop that is not unrolled reads from shared memory: each thread
    // what it has written.
    Words4* const own = sums + thread() - COPYING_THREADS;
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
                own[(2 * (run % TOGETHER) + half) * MULTIPLYING_THREADS] = words;
            }
        }
#pragma unroll 1
        for (i32 run = first; run < first + TOGETHER; run++) {
            const i32 row = first_row + core.row(run), column = first_column + core.column(run);
            if (row >= a.rows || column >= a.outputs) continue;
            Packed<float> packed;
#pragma unroll
            for (i32 half = 0; half < 2; half++)
                packed.words[half] = own[(2 * (run - first) + half) * MULTIPLYING_THREADS];
            gemm_finish<T>(a, gemm, row, column, unpack_eight(0.0f, packed));
        }
    }
}

template <class T, i32 COLUMNS>
GPU_METHOD void WarpgroupGemm<T, COLUMNS>::compute(const GemmArguments& a, Words4* memory) {
    Work work;
    work.gemm = block_y() / a.splits;
    work.split = block_y() % a.splits;
    work.across = (a.outputs + COLUMNS - 1) / COLUMNS;
    work.tiles = (a.rows + ROWS - 1) / ROWS * work.across;
    const i32 all_steps = (a.inputs + STEP - 1) / STEP, most_steps = (all_steps + a.splits - 1) / a.splits;
    work.first_step = work.split * most_steps;
    const i32 left = all_steps - work.first_step, steps = left < most_steps ? left : most_steps;
    // A part without steps has sums of zero: those of a step beyond the end.
    work.steps = steps < 1 ? 1 : steps;

    Shared shared;
    shared.stages = memory;
    shared.sums = shared.stages + STAGES * STAGE;
    shared.biases = shared.sums + SUM_VECTORS;
    shared.copied = shared_address(shared.biases + BIASES * BIAS_VECTORS);
    shared.released = shared.copied + 8;
    if (thread() == 0) {
        for (i32 i = 0; i < STAGES; i++) {
            make_barrier(shared.copied + i * BARRIERS, COPYING_THREADS);
            // A lane of each wave arrives.
            make_barrier(shared.released + i * BARRIERS, MULTIPLYING_THREADS / WAVE);
        }
    }
    synchronise_block();
    if (thread() < COPYING_THREADS) {
        copy(a, work, shared);
    } else {
        multiply(a, work, shared);
    }
}

#define GEMM(type, T, columns)                                                                                 \
    GPU_KERNEL(384, gemm_##type##_128x##columns##_384, GemmArguments) {                                        \
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
#undef COPYING_THREADS
#undef MULTIPLYING_THREADS

#endif  // GPU_HAS_WARPGROUPS
