// 3x3 convolution on the 8 x 8 board by Winograd's minimal filtering F(4x4, 3x3), in three steps. The second is a strided
// batch of 36 GEMMs:
//
//   V = B^T x B for each tile             winograd_input:  x [B][64][channels] -> V [36][4 B][channels]
//   M[i] = V[i] W[i], i = 0...35          gemm, a library: V -> M [36][4 B][outputs], with transformed weights W
//   y = act(A^T M A + bias + residual)    winograd_output: M -> y [B][64][outputs], and the means over the squares
//
// `convolution` computes all three steps in one launch, with its own GEMMs (gemm_tiles.h). Arguments:
// ConvolutionArguments; grid: `blocks` of 128 threads; shared memory: that of the GEMMs. Arguments of the two
// kernels for one step: WinogradArguments (kernels.h). These kernels:
//   grid            (ceil(channels / 64), B) blocks of 128 threads: a block computes 64 channels of one position
//   a thread owns   two neighbouring channels of one 4 x 4 tile of results: 32 lanes per tile, four tiles
//   components      float for f32; fp16 for f16 and bf16. bf16 components would have four times the error of a direct
//                   convolution. fp16 holds them as long as activations stay below a thousand
//   shared memory   winograd_output 1024 bytes, for the means; winograd_input none
//   wave size       32 or 64: a tile's lanes do not exchange anything within a wave
//   memory          in 16 bits, per position and channel: winograd_input 128 -> 288 bytes, winograd_output 288 -> 128
//                   bytes. 32 lanes read and write 128 neighbouring bytes. Squares that two tiles share are cached
//
// A tile of 4 x 4 results reads 6 x 6 squares; squares outside of the board are zeros. The interpolation points are 0,
// +-5/8, +-3/2 and infinity, as in the CPU's convolution, whose transformed weights are used here too. These points
// give half the error of the usual points 0, +-1, +-2.
#include "gemm_tiles.h"

#define TILE_LANES 32
#define WINOGRAD_THREADS (4 * TILE_LANES)
#define SIDE 6
#define RESULT 4
#define NEAR 0.625f
#define FAR 1.5f
#define NEAR_SQUARED (NEAR * NEAR)
#define FAR_SQUARED (FAR * FAR)

// The type of the 36 components if elements have type T.
template <class T>
struct ComponentOf {
    using Type = Half;
};
template <>
struct ComponentOf<float> {
    using Type = float;
};

// The values of two neighbouring channels.
struct Two {
    float first, second;
};
GPU_FUNCTION Two operator+(Two a, Two b) {
    return {a.first + b.first, a.second + b.second};
}
GPU_FUNCTION Two operator-(Two a, Two b) {
    return {a.first - b.first, a.second - b.second};
}
GPU_FUNCTION Two operator*(float factor, Two a) {
    return {factor * a.first, factor * a.second};
}

// B^T d. Row i of B^T holds the coefficients of the polynomial whose zeros are all points but the i-th.
GPU_FUNCTION void transform_input(const Two (&d)[SIDE], Two (&to)[SIDE]) {
    const float product = NEAR_SQUARED * FAR_SQUARED, sum = NEAR_SQUARED + FAR_SQUARED;
    const Two near_even = d[4] - FAR_SQUARED * d[2], near_odd = d[3] - FAR_SQUARED * d[1];
    const Two far_even = d[4] - NEAR_SQUARED * d[2], far_odd = d[3] - NEAR_SQUARED * d[1];
    to[0] = product * d[0] - sum * d[2] + d[4];
    to[1] = near_even + NEAR * near_odd;
    to[2] = near_even - NEAR * near_odd;
    to[3] = far_even + FAR * far_odd;
    to[4] = far_even - FAR * far_odd;
    to[5] = product * d[1] - sum * d[3] + d[5];
}

// A^T m. Row i of A^T holds the i-th powers of the points.
GPU_FUNCTION void transform_output(const Two (&m)[SIDE], Two (&to)[RESULT]) {
    const Two near_sum = m[1] + m[2], near_difference = m[1] - m[2];
    const Two far_sum = m[3] + m[4], far_difference = m[3] - m[4];
    to[0] = m[0] + near_sum + far_sum;
    to[1] = NEAR * near_difference + FAR * far_difference;
    to[2] = NEAR_SQUARED * near_sum + FAR_SQUARED * far_sum;
    to[3] = NEAR * NEAR_SQUARED * near_difference + FAR * FAR_SQUARED * far_difference + m[5];
}

// The components of 64 channels of a position. `channels` is the number of these 64 channels.
template <class T>
GPU_FUNCTION void winograd_input(const WinogradArguments& a, i32 channels, i32 position) {
    using Component = typename ComponentOf<T>::Type;
    const i32 tile = thread() / TILE_LANES, channel = 2 * (channels * TILE_LANES + thread() % TILE_LANES);
    if (channel >= a.channels) return;
    const T* board = (const T*)a.input + (i64)position * 64 * a.channels + channel;
    const i32 top = tile / 2 * RESULT - 1, left = tile % 2 * RESULT - 1;

    Two columns[SIDE][SIDE];
#pragma unroll
    for (i32 j = 0; j < SIDE; j++) {
        Two d[SIDE];
#pragma unroll
        for (i32 i = 0; i < SIDE; i++) {
            const u32 rank = top + i, file = left + j;
            d[i] = {};
            if (rank < 8 && file < 8) load_two(board + (i64)(8 * rank + file) * a.channels, d[i].first, d[i].second);
        }
        transform_input(d, columns[j]);
    }
    Component* to = (Component*)a.output + (i64)(position * 4 + tile) * a.channels + channel;
#pragma unroll
    for (i32 i = 0; i < SIDE; i++) {
        Two d[SIDE], row[SIDE];
#pragma unroll
        for (i32 j = 0; j < SIDE; j++) d[j] = columns[j][i];
        transform_input(d, row);
#pragma unroll
        for (i32 j = 0; j < SIDE; j++)
            store_two(to + (SIDE * i + j) * a.component_stride, row[j].first, row[j].second);
    }
}

// The board of 64 channels of a position. `sums` is shared memory for one value per thread.
template <class T>
GPU_FUNCTION void winograd_output(const WinogradArguments& a, i32 channels, i32 position, Two* sums) {
    using Component = typename ComponentOf<T>::Type;
    const i32 tile = thread() / TILE_LANES, channel = 2 * (channels * TILE_LANES + thread() % TILE_LANES);
    Two sum = {};
    if (channel < a.channels) {
        const Component* from = (const Component*)a.input + (i64)(position * 4 + tile) * a.channels + channel;
        Two columns[SIDE][RESULT];
#pragma unroll
        for (i32 j = 0; j < SIDE; j++) {
            Two m[SIDE];
#pragma unroll
            for (i32 i = 0; i < SIDE; i++) load_two(from + (SIDE * i + j) * a.component_stride, m[i].first, m[i].second);
            transform_output(m, columns[j]);
        }
        Two bias = {};
        if (a.bias) load_two((const T*)a.bias + channel, bias.first, bias.second);
        const i32 first = 8 * (tile / 2 * RESULT) + tile % 2 * RESULT;
        const i64 start = ((i64)position * 64 + first) * a.channels + channel;
#pragma unroll
        for (i32 i = 0; i < RESULT; i++) {
            Two m[SIDE], row[RESULT];
#pragma unroll
            for (i32 j = 0; j < SIDE; j++) m[j] = columns[j][i];
            transform_output(m, row);
            float x[2 * RESULT];
#pragma unroll
            for (i32 j = 0; j < RESULT; j++) {
                Two added = bias;
                if (a.residual) {
                    Two residual;
                    load_two((const T*)a.residual + start + (i64)(8 * i + j) * a.channels, residual.first, residual.second);
                    added = bias + residual;
                }
                row[j] = row[j] + added;
                sum = sum + row[j];
                x[2 * j] = row[j].first;
                x[2 * j + 1] = row[j].second;
            }
            activate(a.activation, x);
#pragma unroll
            for (i32 j = 0; j < RESULT; j++)
                store_two((T*)a.output + start + (i64)(8 * i + j) * a.channels, x[2 * j], x[2 * j + 1]);
        }
    }
    if (!a.means) return;
    sums[thread()] = sum;
    synchronise_block();
    if (tile != 0 || channel >= a.channels) return;
#pragma unroll
    for (i32 i = 1; i < 4; i++) sum = sum + sums[i * TILE_LANES + thread()];
    store_two(a.means + (i64)position * a.channels + channel, sum.first * (1.0f / 64.0f), sum.second * (1.0f / 64.0f));
}

// All three steps in one launch. A row of tiles of the GEMMs has the components of ROWS / 4 positions. These are a
// group, whose counter counts the blocks that have ended: first those of the components, then those of all GEMMs' tiles
// in this row, and then those of the board.
template <class T, class Tile, i32 ROWS>
GPU_FUNCTION void convolution(const ConvolutionArguments& a, Words4* shared) {
    constexpr i32 GROUP = ROWS / 4;
    const i32 number = number_of_block(a.counters, a.blocks, (u32*)shared);
    const i32 inputs = (a.input.channels + 63) / 64, outputs = (a.output.channels + 63) / 64;
    const i32 across = Tile::tiles_across(a.gemm), tiles = Tile::tiles_down(a.gemm) * across;
    const i32 place = number - a.positions * inputs, last = place - tiles * a.gemm.gemms;
    const i32 position = place < 0 ? number / inputs : last < 0 ? place % tiles / across * GROUP : last / outputs;
    const i32 group = position / GROUP, left = a.positions - group * GROUP, positions = left < GROUP ? left : GROUP;
    u32* counter = a.counters + 1 + group;
    const i32 before_gemms = positions * inputs, before_board = before_gemms + across * a.gemm.gemms;
    if (place < 0) {
        winograd_input<T>(a.input, number % inputs, position);
    } else if (last < 0) {
        wait_for_blocks(counter, before_gemms);
        Tile::compute(a.gemm, nullptr, {place % tiles, place / tiles, 0}, shared);
    } else {
        wait_for_blocks(counter, before_board);
        winograd_output<T>(a.output, last % outputs, position, (Two*)shared);
    }
    end_block(counter, before_board + positions * outputs);
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(WINOGRAD_THREADS, winograd_input_##type, WinogradArguments) {                                   \
        winograd_input<T>(arguments, block_x(), block_y());                                                    \
    }                                                                                                          \
    GPU_KERNEL(WINOGRAD_THREADS, winograd_output_##type, WinogradArguments) {                                  \
        GPU_SHARED(Two, sums, WINOGRAD_THREADS);                                                               \
        winograd_output<T>(arguments, block_x(), block_y(), sums);                                             \
    }
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES

#if MATRIX_LAYOUT == MATRIX_NONE
#define COMPONENT_CORE PlainCore
#else
#define COMPONENT_CORE MatrixCore
#endif
#define CONVOLUTION(type, T, Core, rows, columns, step_bytes)                                                  \
    GPU_KERNEL(WINOGRAD_THREADS, convolution_##type##_##rows##x##columns, ConvolutionArguments) {              \
        using Tile = Gemm<ComponentOf<T>::Type, Core, rows, columns, WINOGRAD_THREADS, step_bytes>;            \
        GPU_SHARED(Words4, shared, Tile::STAGES * Tile::STAGE);                                                \
        convolution<T, Tile, rows>(arguments, shared);                                                         \
    }
WITH_F16(CONVOLUTION(f16, Half, COMPONENT_CORE, 64, 64, 64))
WITH_BF16(CONVOLUTION(bf16, Bfloat, COMPONENT_CORE, 64, 64, 64))
WITH_F16(CONVOLUTION(f16, Half, COMPONENT_CORE, 64, 32, 64))
WITH_BF16(CONVOLUTION(bf16, Bfloat, COMPONENT_CORE, 64, 32, 64))
CONVOLUTION(f32, float, PlainCore, 64, 64, 64)
#undef CONVOLUTION
#undef COMPONENT_CORE
