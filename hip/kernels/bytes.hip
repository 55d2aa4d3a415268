// Products of 8-bit integers with results in fp16, and the rounding of their inputs. Arguments: QuantiseArguments and
// GemmBytesArguments (kernels.h).
//
//   quantise:    bytes[r][k] = round((x[r][k] * factors[k] - least[r]) / scale[r]) - 128, where
//                least and most are the limits of the row, and scale = (most - least) / 255
//   gemm_bytes:  output[r][n] = act(y[r][n] + bias[n]) + residual[r][n], where
//                y[r][n] = scale[r] * scales[n] * sum over k of bytes[r][k] * weights[n][k] + zero[r] * shares[n],
//                zero = least + 128 * scale is the number that the byte 0 stands for, and
//                shares[n] = scales[n] * sum over k of weights[n][k]
//
// A weight is scales[n] times its byte. As x[r][k] * factors[k] is scale[r] * byte + zero[r], the weights are divided by the
// factors before they are rounded. All of 256 bytes are used for a row, whether its numbers have both signs or not.
//
//   grid           quantise: ceil(rows / 8) blocks of 256 threads, 32 lanes per row
//                  gemm_bytes: one block per tile, as in gemm.hip
//   a thread owns  quantise: every 32nd vector of eight elements of a row
//                  gemm_bytes: runs of eight neighbouring results (gemm_cores.h)
//   layouts        x [rows][width] fp16, factors [width] float, bytes [rows][width], row_scales [rows][2] float: scale and
//                  zero; weights [outputs][weights_stride] bytes, output_scales [2][outputs, rounded up to a multiple of
//                  eight] float: scales and shares
//   shared memory  quantise: none; gemm_bytes: 2 * (rows + columns) * 64 bytes; at most 48 KB on NVIDIA
//   wave size      32 or 64
//   memory         quantise reads a row twice, the second time from the cache
//
// The sums are 32-bit integers, which hold 2^17 products.
#include "gemm_tiles.h"

#define QUANTISE_THREADS 256
// What is added to a number below 2^22 so that its last bits are those of the nearest integer: 1.5 * 2^23.
#define ROUNDING 12582912.0f

GPU_FUNCTION Eight scaled_input(const QuantiseArguments& a, i32 row, i32 column) {
    Eight x = load_eight((const Half*)a.x + (i64)row * a.width + column);
    if (a.factors) {
        const Eight factors = load_eight(a.factors + column);
#pragma unroll
        for (i32 k = 0; k < 8; k++) x.value[k] *= factors.value[k];
    }
    return x;
}

GPU_KERNEL(QUANTISE_THREADS, quantise_f16, QuantiseArguments) {
    const QuantiseArguments& a = arguments;
    const i32 place = block_x() * (QUANTISE_THREADS / ROW_LANES) + thread() / ROW_LANES;
    // Lanes beyond the last row compute the last row again, because every lane must take part in the exchanges. They write
    // nothing.
    const i32 row = place < a.rows ? place : a.rows - 1;
    // No sum of a network is as large as 1e30.
    float least = 1e30f, most = -1e30f;
#pragma unroll 1
    for (i32 column = thread() % ROW_LANES * 8; column < a.width; column += ROW_LANES * 8) {
        const Eight x = scaled_input(a, row, column);
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            least = minimum(least, x.value[k]);
            most = maximum(most, x.value[k]);
        }
    }
    least = -maximum_over_lanes<ROW_LANES>(-least);
    most = maximum_over_lanes<ROW_LANES>(most);
    const float extent = most - least, scale = extent * (1.0f / 255.0f);
    // Where all numbers of a row are the same, the scale does not matter.
    const float inverse = extent > 1e-30f ? 255.0f * reciprocal(extent) : 0.0f;
    if (place >= a.rows) return;
#pragma unroll 1
    for (i32 column = thread() % ROW_LANES * 8; column < a.width; column += ROW_LANES * 8) {
        const Eight x = scaled_input(a, row, column);
        Words2 words = {};
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            const u32 above_least = float_bits((x.value[k] - least) * inverse + ROUNDING) & 0xff;
            words.word[k / 4] |= above_least << 8 * (k % 4);
        }
        // 128 less, which is the same as another sign.
        store8((u8*)a.bytes + (i64)row * a.width + column, {words.word[0] ^ 0x80808080u, words.word[1] ^ 0x80808080u});
    }
    if (thread() % ROW_LANES == 0) store_two(a.row_scales + 2 * row, scale, least + 128.0f * scale);
}

// What turns sums of products of bytes into results.
struct ByteScales {
    const float* rows;
    const float* outputs;
    i32 width;  // the outputs, rounded up to a multiple of eight

    GPU_METHOD Eight applied(Eight sums, i32 row, i32 column) const {
        float scale, zero;
        load_two(rows + 2 * row, scale, zero);
        const Eight scales = load_eight(outputs + column), shares = load_eight(outputs + width + column);
#pragma unroll
        for (i32 k = 0; k < 8; k++)
            sums.value[k] = sums.value[k] * scale * scales.value[k] + zero * shares.value[k];
        return sums;
    }
};

#if MATRIX_LAYOUT == MATRIX_NONE
#define BYTES_CORE PlainCore
#else
#define BYTES_CORE MatrixCore
#endif
#define GEMM_BYTES(rows, columns, threads, step_bytes)                                                         \
    GPU_KERNEL(threads, gemm_bytes_f16_##rows##x##columns##_##threads, GemmBytesArguments) {                   \
        using Tile = Gemm<Byte, BYTES_CORE, rows, columns, threads, step_bytes>;                               \
        GPU_SHARED(Words4, shared, Tile::STAGES * Tile::STAGE);                                                \
        const ByteScales scales = {arguments.row_scales, arguments.output_scales,                              \
                                   (arguments.product.outputs + 7) / 8 * 8};                                   \
        Tile::compute(arguments.product, nullptr, {block_x(), 0, 0}, shared, scales);                          \
    }
#if MATRIX_LAYOUT == MATRIX_QUADS
GEMM_BYTES(128, 128, 128, 64)
GEMM_BYTES(64, 64, 128, 128)
#else
GEMM_BYTES(128, 128, 256, 64)
GEMM_BYTES(64, 64, 128, 64)
#endif
#undef GEMM_BYTES
#undef BYTES_CORE
