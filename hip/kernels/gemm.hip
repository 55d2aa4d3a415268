// Matrix products of any size. Arguments: GemmArguments (kernels.h).
//
//   gemm:      output[r][n] = act(sum over k of x[r][k] * weights[n][k] + bias[n]) + residual[r][n]
//   gemm_sum:  the same, where the sum over k is the sum of the partial sums that `gemm` has left
//   with a norm: the rows of output, normalised (normalise.h), by the last block that ends in a row of tiles
//   gemm_any:  the same as gemm, for widths and strides that are not multiples of eight
//
//   grid           gemm: (tiles, products * splits) blocks. The tiles of one row of tiles are neighbours, so that
//                  blocks that run together share rows of x
//   tile           rows x columns of the results, as in the kernel's name, with as many threads as its last number
//   a thread owns  runs of eight neighbouring results; the cores of gemm_cores.h say which
//   types          f32, f16, bf16; sums are fp32
//   layouts        x [rows][x_stride], weights [outputs][weights_stride], output and residual [rows][output_stride]
//   shared memory  2 * (rows + columns) * 64 bytes: 32 KB for 128 x 128; at most 48 KB on NVIDIA
//   wave size      32 or 64
//   memory         a tile reads (rows + columns) * inputs elements
//
// A block goes along the summed axis in steps of 64 or 128 bytes per row. While it multiplies one step from shared
// memory, it loads the next: into registers, and from there into the other half of the shared memory, or directly into
// shared memory on machines with asynchronous copies, which are two to five steps ahead. One barrier per step is
// enough, because a stage is written only after the barrier behind its last use.
//
// With `splits` above 1, that many blocks share a tile's summed axis, and each leaves its sums in `partial`,
// [splits][products][rows][outputs, rounded up to a multiple of eight]. gemm_sum adds them up in a fixed order, so that
// results do not depend on timing. With a norm, the last block of a tile does that instead.
//
// A LayerNorm needs whole rows, which belong to the blocks of a row of tiles. Each of these blocks counts when its
// results are stored, and the last one reads them back, from the cache, and normalises them while other rows of tiles
// are still being multiplied. Which block is the last depends on timing, but not what it computes.
//
// A thread cannot index its registers at run time, and the activation functions for all its results would be a lot of
// code. Unless the epilogue is short, a thread therefore passes its results through its own part of shared memory to a
// loop that is not unrolled.
#include "gemm_cores.h"
#include "normalise.h"

// The number of steps of `vectors` vectors that shared memory holds at a time, if they are copied asynchronously. It is
// as many as fit into 48 KB, NVIDIA's limit for arrays of constant size, and at most six.
GPU_FUNCTION constexpr i32 gemm_stages(i32 vectors) {
    const i32 most = 48 * 1024 / 16 / vectors;
    return most < 6 ? most : 6;
}

// Moves one operand of a block, ROWS rows, from global to shared memory. A thread moves the same vector of every row
// that it handles.
template <class T, i32 ROWS, i32 THREADS, i32 VECTORS>
struct GemmLoader {
    static constexpr i32 COUNT = ROWS * VECTORS / THREADS, APART = THREADS / VECTORS;
    static_assert(COUNT * APART == ROWS, "threads move whole rows");

    const char* from;    // the first row's elements of the next step
    u32 offsets[COUNT];  // bytes from there
    Words4 words[COUNT];
    bool inside;

    // `row_of_slot` gives the row for each slot. Rows from `rows` on repeat the last row, and their results are not used.
    template <class RowOfSlot>
    GPU_METHOD void begin(const void* matrix, i32 stride, i32 rows, RowOfSlot row_of_slot) {
        from = (const char*)matrix;
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) {
            const i32 row = row_of_slot(thread() / VECTORS + i * APART);
            offsets[i] = (u32)(row < rows ? row : rows - 1) * (u32)stride * (u32)sizeof(T);
        }
    }
    // Where the thread's vector of the next step begins, if no more than `left` bytes of each row are left. It is the
    // row's first vector if there is none.
    GPU_METHOD const char* next(i32 left) {
        const i32 vector = thread() % VECTORS;
        inside = vector * 16 < left;
        const char* first = from + (inside ? vector * 16 : 0);
        from += 16 * VECTORS;
        return first;
    }
    // Starts the loads of a step.
    GPU_METHOD void load(i32 left) {
        const char* first = next(left);
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) words[i] = load16(first + offsets[i]);
    }
#if GPU_ASYNCHRONOUS_COPIES
    // Starts to copy a step to shared memory.
    GPU_METHOD void copy(i32 left, Words4* to) {
        const char* first = next(left);
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) copy16_or_clear(to + place(i), first + offsets[i], inside);
    }
#endif
    // Writes what `load` has loaded to shared memory.
    GPU_METHOD void land(Words4* to) {
        const u32 mask = inside ? ~0u : 0u;
#pragma unroll
        for (i32 i = 0; i < COUNT; i++) {
            Words4 kept = words[i];
#pragma unroll
            for (i32 k = 0; k < 4; k++) kept.word[k] &= mask;
            to[place(i)] = kept;
        }
    }
    GPU_FUNCTION i32 place(i32 i) {
        return gemm_place<VECTORS>(thread() / VECTORS + i * APART, thread() % VECTORS);
    }
};

// Adds bias and residual to a run of eight sums, applies the activation, and stores the run. `row` is inside of the
// matrix, and `column` is the run's first column.
template <class T>
GPU_FUNCTION void gemm_finish(const GemmArguments& a, i32 product, i32 row, i32 column, Eight x) {
    T* output = (T*)a.output + product * a.output_batch + (i64)row * a.output_stride + column;
    const T* bias = (const T*)a.bias + column;
    const T* residual = (const T*)a.residual + product * a.output_batch + (i64)row * a.output_stride + column;
    if (a.output_stride % 8 == 0 && column + 8 <= a.outputs) {
        if (a.bias) x = plus(x, bias);
        activate(a.activation, x.value);
        if (a.residual) x = plus(x, residual);
        store_eight(output, x);
        return;
    }
#pragma unroll 1
    for (i32 k = 0; k < 8 && column + k < a.outputs; k++) {
        float one[1] = {x.value[0]};
        if (a.bias) one[0] += load_one(bias + k);
        activate(a.activation, one);
        if (a.residual) one[0] += load_one(residual + k);
        store_one(output + k, one[0]);
        // The next element moves to the front, because registers cannot be indexed.
#pragma unroll
        for (i32 i = 0; i < 7; i++) x.value[i] = x.value[i + 1];
    }
}

// The sums of a run of eight results over all parts of the summed axis.
GPU_FUNCTION Eight gemm_total(const GemmArguments& a, i32 product, i32 row, i32 column) {
    const i32 width = (a.outputs + 7) / 8 * 8;
    const i64 apart = (i64)a.products * a.rows * width;
    const float* from = a.partial + ((i64)product * a.rows + row) * width + column;
    Eight sums = load_eight(from);
#pragma unroll 1
    for (i32 split = 1; split < a.splits; split++) {
        from += apart;
        sums = plus(sums, from);
    }
    return sums;
}

// Stores a block's sums of its part of the summed axis.
template <class Core>
GPU_FUNCTION void gemm_store_partial(const GemmArguments& a, Core& core, i32 product, i32 split, i32 first_row, i32 first_column) {
    const i32 width = (a.outputs + 7) / 8 * 8;
    float* partial = a.partial + ((i64)split * a.products + product) * a.rows * width;
#pragma unroll
    for (i32 run = 0; run < Core::RUN_COUNT; run++) {
        const i32 row = first_row + core.row(run), column = first_column + core.column(run);
        if (row >= a.rows || column >= width) continue;
        Eight sums;
#pragma unroll
        for (i32 k = 0; k < 8; k++) sums.value[k] = core.result(run, k);
        store_eight(partial + (i64)row * width + column, sums);
    }
}

// Applies the epilogue to a block's results and stores them. `shared` has VECTORS vectors.
template <class T, i32 VECTORS, i32 THREADS, class Core>
GPU_FUNCTION void gemm_store(const GemmArguments& a, Core& core, Words4* shared, i32 product, i32 first_row, i32 first_column) {
    const bool is_short = a.activation == ACTIVATION_NONE && a.outputs % 8 == 0 && a.output_stride % 8 == 0;
    if (is_short) {
        const T* residual = (const T*)a.residual + product * a.output_batch;
        T* output = (T*)a.output + product * a.output_batch;
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
                Eight sums = unpack_eight(T(), before[i]);
#pragma unroll
                for (i32 k = 0; k < 8; k++) sums.value[k] += core.result(first + i, k);
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
            if (row < a.rows && column < a.outputs) gemm_finish<T>(a, product, row, column, unpack_eight(0.0f, sums));
        }
    }
}

// The widest rows that a product's last block normalises.
#define LARGEST_NORM 1024

template <class T, template <class, i32, i32, i32, i32> class CoreOf, i32 ROWS, i32 COLUMNS, i32 THREADS,
          i32 STEP_BYTES>
GPU_FUNCTION void gemm(const GemmArguments& a) {
    constexpr i32 VECTORS = STEP_BYTES / 16, STEP = STEP_BYTES / sizeof(T);
    using Core = CoreOf<T, ROWS, COLUMNS, THREADS, VECTORS>;
    constexpr i32 X_VECTORS = ROWS * VECTORS, STAGE = (ROWS + COLUMNS) * VECTORS;
    constexpr i32 STAGES = Core::LOADS_AHEAD ? gemm_stages(STAGE) : 2;
    GPU_SHARED(Words4, shared, STAGES * STAGE);

    const i32 tiles_across = (a.outputs + COLUMNS - 1) / COLUMNS;
    const i32 first_row = block_x() / tiles_across * ROWS, first_column = block_x() % tiles_across * COLUMNS;
    const i32 product = block_y() / a.splits, split = block_y() % a.splits;
    const i32 all_steps = (a.inputs + STEP - 1) / STEP, most_steps = (all_steps + a.splits - 1) / a.splits;
    const i32 first_step = split * most_steps;
    const i32 steps = all_steps - first_step < most_steps ? all_steps - first_step : most_steps;

    GemmLoader<T, ROWS, THREADS, VECTORS> x;
    GemmLoader<T, COLUMNS, THREADS, VECTORS> weights;
    const i64 first_input = first_step * STEP;
    x.begin((const T*)a.x + product * a.x_batch + (i64)first_row * a.x_stride + first_input, a.x_stride,
            a.rows - first_row, [](i32 slot) { return slot; });
    weights.begin((const T*)a.weights + product * a.weights_batch + (i64)first_column * a.weights_stride + first_input,
                  a.weights_stride, a.outputs - first_column, [](i32 slot) { return Core::column_of_slot(slot); });
    i32 left = (a.inputs - (i32)first_input) * (i32)sizeof(T);

    Core core = {};
#if GPU_ASYNCHRONOUS_COPIES
    if constexpr (Core::LOADS_AHEAD) {
        auto copy = [&](i32 stage) {
            x.copy(left, shared + stage * STAGE);
            weights.copy(left, shared + stage * STAGE + X_VECTORS);
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
        auto load = [&] {
            x.load(left);
            weights.load(left);
            left -= STEP_BYTES;
        };
        auto land = [&](i32 stage) {
            x.land(shared + stage * STAGE);
            weights.land(shared + stage * STAGE + X_VECTORS);
        };
        if (steps > 0) {
            load();
            land(0);
        }
#pragma unroll 1
        for (i32 step = 0; step < steps; step++) {
            synchronise_block();
            const bool more = step + 1 < steps;
            if (more) load();
            // Without this, the compiler would move the loads behind the products, to save registers.
            keep_order();
            core.multiply(shared + step % 2 * STAGE, shared + step % 2 * STAGE + X_VECTORS);
            if (more) land(1 - step % 2);
        }
    }

    u32* flag = (u32*)shared;
    if (a.splits == 1) {
        gemm_store<T, STAGES * STAGE, THREADS>(a, core, shared, product, first_row, first_column);
    } else {
        gemm_store_partial(a, core, product, split, first_row, first_column);
        if (!a.counters) return;
        const i32 tiles_down = (a.rows + ROWS - 1) / ROWS;
        if (!is_last_block(a.counters + tiles_down + block_x(), a.splits, flag)) return;
#pragma unroll 1
        for (i32 i = thread(); i < ROWS * COLUMNS / 8; i += THREADS) {
            const i32 row = first_row + i / (COLUMNS / 8), column = first_column + i % (COLUMNS / 8) * 8;
            if (row < a.rows && column < a.outputs) gemm_finish<T>(a, product, row, column, gemm_total(a, product, row, column));
        }
    }
    if (!a.counters || !is_last_block(a.counters + block_x() / tiles_across, tiles_across, flag)) return;
#pragma unroll 1
    for (i32 row = 0; row < ROWS; row += THREADS / ROW_LANES)
        normalise_row<T, ROW_LANES, LARGEST_NORM / 8 / ROW_LANES>(a.norm, first_row + row + thread() / ROW_LANES);
}

#define GEMM_SUM_THREADS 256

// A thread adds up eight neighbouring results.
template <class T>
GPU_FUNCTION void gemm_sum(const GemmArguments& a) {
    const i32 vectors = (a.outputs + 7) / 8, product = block_y();
    const u32 vector = block_x() * GEMM_SUM_THREADS + thread();
    const i32 row = vector / (u32)vectors, column = vector % (u32)vectors * 8;
    if (row >= a.rows) return;
    gemm_finish<T>(a, product, row, column, gemm_total(a, product, row, column));
}

#define GEMM_ANY_SIDE 16

// A thread computes one result. Products with such widths are small.
template <class T>
GPU_FUNCTION void gemm_any(const GemmArguments& a) {
    const i32 tiles_across = (a.outputs + GEMM_ANY_SIDE - 1) / GEMM_ANY_SIDE, product = block_y();
    const i32 row = block_x() / tiles_across * GEMM_ANY_SIDE + thread() / GEMM_ANY_SIDE;
    const i32 column = block_x() % tiles_across * GEMM_ANY_SIDE + thread() % GEMM_ANY_SIDE;
    if (row >= a.rows || column >= a.outputs) return;
    const T* x = (const T*)a.x + product * a.x_batch + (i64)row * a.x_stride;
    const T* weights = (const T*)a.weights + product * a.weights_batch + (i64)column * a.weights_stride;
    float sum[1] = {0.0f};
#pragma unroll 1
    for (i32 k = 0; k < a.inputs; k++) sum[0] += load_one(x + k) * load_one(weights + k);
    const i64 place = product * a.output_batch + (i64)row * a.output_stride + column;
    if (a.bias) sum[0] += load_one((const T*)a.bias + column);
    activate(a.activation, sum);
    if (a.residual) sum[0] += load_one((const T*)a.residual + place);
    store_one((T*)a.output + place, sum[0]);
}

#define GEMM(type, T, Core, rows, columns, threads, step_bytes)                                                \
    GPU_KERNEL(threads, gemm_##type##_##rows##x##columns##_##threads, GemmArguments) {                         \
        gemm<T, Core, rows, columns, threads, step_bytes>(arguments);                                          \
    }
#if MATRIX_LAYOUT == MATRIX_QUADS
// Waves of 64 x 64 results halve the traffic of shared memory, which would limit larger blocks. Smaller tiles have
// fewer products per step, and longer steps make up for that.
#define GEMM_16_BITS(type, T)                                                                                  \
    GEMM(type, T, MatrixCore, 128, 128, 128, 64)                                                               \
    GEMM(type, T, MatrixCore, 64, 64, 128, 128)                                                                \
    GEMM(type, T, MatrixCore, 64, 32, 128, 128)                                                                \
    GEMM(type, T, MatrixCore, 16, 32, 32, 128)
#elif MATRIX_LAYOUT != MATRIX_NONE
#define GEMM_16_BITS(type, T)                                                                                  \
    GEMM(type, T, MatrixCore, 128, 128, 256, 64)                                                               \
    GEMM(type, T, MatrixCore, 64, 64, 128, 64)                                                                 \
    GEMM(type, T, MatrixCore, 32, 64, 128, 64)                                                                 \
    GEMM(type, T, MatrixCore, 64, 32, 128, 64)
#else
#define GEMM_16_BITS(type, T)                                                                                  \
    GEMM(type, T, PlainCore, 128, 128, 256, 64)                                                                \
    GEMM(type, T, PlainCore, 64, 64, 128, 64)                                                                  \
    GEMM(type, T, PlainCore, 32, 64, 128, 64)                                                                  \
    GEMM(type, T, PlainCore, 64, 32, 128, 64)
#endif
GEMM_16_BITS(f16, Half)
GEMM_16_BITS(bf16, Bfloat)
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
INSTANCES(f16, Half)
INSTANCES(bf16, Bfloat)
#undef INSTANCES
#undef GEMM
#undef GEMM_16_BITS
