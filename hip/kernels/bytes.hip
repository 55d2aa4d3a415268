// GEMMs of 8-bit integers, or of 8-bit floating-point numbers, with results in fp16, and the rounding of their inputs.
// Arguments: QuantiseArguments and GemmBytesArguments (kernels.h).
//
//   quantise:      bytes[r][k] = round((x[r][k] * factors[k] - least[r]) / scale[r]) - 128, where
//                  least and most are the limits of the row, and scale = (most - least) / 255
//   gemm_bytes:    output[r][n] = act(y[r][n] + bias[n]) + residual[r][n], where
//                  y[r][n] = scale[r] * scales[n] * sum over k of bytes[r][k] * weights[n][k] + zero[r] * shares[n],
//                  zero = least + 128 * scale is the number that the byte 0 stands for, and
//                  shares[n] = scales[n] * sum over k of weights[n][k]
//   quantise_fp8:  bytes[r][k] = e4m3(x[r][k] * factors[k] / scale[r]), where
//                  scale = the row's largest magnitude / FP8_LARGEST
//   gemm_fp8:      the same as gemm_bytes with
//                  y[r][n] = scale[r] * scales[n] * sum over k of bytes[r][k] * weights[n][k]
//
// A weight is scales[n] times its byte. As x[r][k] * factors[k] is scale[r] * byte + zero[r], the weights are divided by the
// factors before they are rounded. All of 256 integers are used for a row, whether its numbers have both signs or not.
// e4m3 has a sign of its own and is finer near zero, so that a zero of its own would not help it.
//
//   grid           quantise, quantise_fp8: ceil(rows / 8) blocks of 256 threads, 32 lanes per row
//                  gemm_bytes, gemm_fp8: one block per tile, as in gemm.hip
//   a thread owns  quantise, quantise_fp8: every 32nd vector of eight elements of a row
//                  gemm_bytes, gemm_fp8: runs of eight neighbouring results (gemm_cores.h)
//   layouts        x [rows][width] fp16, factors [width] float, bytes [rows][width], weights [outputs][weights_stride] bytes.
//                  Integers: row_scales [rows][2] float: scale and zero; output_scales [2][outputs, rounded up to a
//                  multiple of eight] float: scales and shares.
//                  e4m3: row_scales [rows] float; output_scales [outputs, rounded up to a multiple of eight] float
//   shared memory  quantise, quantise_fp8: none; the GEMMs: 2 * (rows + columns) * 64 bytes; at most 48 KB on NVIDIA
//   wave size      32 or 64
//   memory         quantise and quantise_fp8 read a row twice, the second time from the cache
//
// Sums of integers have 32 bits, which hold 2^17 products. Sums of e4m3 are fp32. The kernels for e4m3 exist only where
// the machine multiplies that format (FP8_LARGEST in gpu.h).
#include "gemm_tiles.h"

#if GPU_HAS_F16

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

// Calls `use(column, x)` for each vector of the row that this lane owns.
template <class Use>
GPU_FUNCTION void over_row(const QuantiseArguments& a, i32 row, Use use) {
#pragma unroll 1
    for (i32 column = thread() % ROW_LANES * 8; column < a.width; column += ROW_LANES * 8)
        use(column, scaled_input(a, row, column));
}

// The row of this lane, which may be beyond the last.
GPU_FUNCTION i32 place_of_row() {
    return block_x() * (QUANTISE_THREADS / ROW_LANES) + thread() / ROW_LANES;
}

GPU_KERNEL(QUANTISE_THREADS, quantise_f16, QuantiseArguments) {
    const QuantiseArguments& a = arguments;
    const i32 place = place_of_row();
    // Lanes beyond the last row compute the last row again, because every lane must take part in the exchanges. They write
    // nothing.
    const i32 row = place < a.rows ? place : a.rows - 1;
    // No sum of a network is as large as 1e30.
    float least = 1e30f, most = -1e30f;
    over_row(a, row, [&](i32, const Eight& x) {
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            least = minimum(least, x.value[k]);
            most = maximum(most, x.value[k]);
        }
    });
    least = -maximum_over_lanes<ROW_LANES>(-least);
    most = maximum_over_lanes<ROW_LANES>(most);
    const float extent = most - least, scale = extent * (1.0f / 255.0f);
    // Where all numbers of a row are the same, the scale does not matter.
    const float inverse = extent > 1e-30f ? 255.0f * reciprocal(extent) : 0.0f;
    if (place >= a.rows) return;
    over_row(a, row, [&](i32 column, const Eight& x) {
        Words2 words = {};
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            const u32 above_least = float_bits((x.value[k] - least) * inverse + ROUNDING) & 0xff;
            words.word[k / 4] |= above_least << 8 * (k % 4);
        }
        // 128 less, which is the same as another sign.
        store8((u8*)a.bytes + (i64)row * a.width + column, {words.word[0] ^ 0x80808080u, words.word[1] ^ 0x80808080u});
    });
    if (thread() % ROW_LANES == 0) store_two(a.row_scales + 2 * row, scale, least + 128.0f * scale);
}

#ifdef FP8_LARGEST
GPU_KERNEL(QUANTISE_THREADS, quantise_fp8_f16, QuantiseArguments) {
    const QuantiseArguments& a = arguments;
    const i32 place = place_of_row();
    const i32 row = place < a.rows ? place : a.rows - 1;
    float most = 0.0f;
    over_row(a, row, [&](i32, const Eight& x) {
#pragma unroll
        for (i32 k = 0; k < 8; k++) most = maximum(most, maximum(x.value[k], -x.value[k]));
    });
    most = maximum_over_lanes<ROW_LANES>(most);
    // The largest number becomes FP8_LARGEST, or the error of the reciprocal away from it, which is far less than the half
    // step of the format from which on AMD's conversion would overflow.
    const float inverse = most > 1e-30f ? FP8_LARGEST * reciprocal(most) : 0.0f;
    if (place >= a.rows) return;
    over_row(a, row, [&](i32 column, const Eight& x) {
        Words2 words;
#pragma unroll
        for (i32 i = 0; i < 2; i++) {
            const float* four = x.value + 4 * i;
            words.word[i] = fp8_quad(four[0] * inverse, four[1] * inverse, four[2] * inverse, four[3] * inverse);
        }
        store8((u8*)a.bytes + (i64)row * a.width + column, words);
    });
    if (thread() % ROW_LANES == 0) store_one(a.row_scales + row, most * (1.0f / FP8_LARGEST));
}
#endif

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
    // The summed axis has one part.
    GPU_METHOD Eight of_part(Eight sums, i32) const { return sums; }
};

// The same for e4m3.
struct Fp8Scales {
    const float* rows;
    const float* outputs;

    GPU_METHOD Eight applied(Eight sums, i32 row, i32 column) const {
        const float scale = load_one(rows + row);
        const Eight scales = load_eight(outputs + column);
#pragma unroll
        for (i32 k = 0; k < 8; k++) sums.value[k] *= scale * scales.value[k];
        return sums;
    }
    GPU_METHOD Eight of_part(Eight sums, i32) const { return sums; }
};

GPU_FUNCTION ByteScales scales_of(Byte, const GemmBytesArguments& a) {
    return {a.row_scales, a.output_scales, (a.gemm.outputs + 7) / 8 * 8};
}
GPU_FUNCTION Fp8Scales scales_of(Fp8, const GemmBytesArguments& a) {
    return {a.row_scales, a.output_scales};
}

#if MATRIX_LAYOUT == MATRIX_NONE
#define BYTES_CORE PlainCore
#else
#define BYTES_CORE MatrixCore
#endif
#define GEMM_OF(Type, kernel, rows, columns, threads, step_bytes)                                              \
    GPU_KERNEL(threads, kernel##_f16_##rows##x##columns##_##threads, GemmBytesArguments) {                     \
        using Tile = Gemm<Type, BYTES_CORE, rows, columns, threads, step_bytes>;                               \
        GPU_SHARED(Words4, shared, Tile::STAGES * Tile::STAGE);                                                \
        const i32 tile = Tile::tile_of_block(arguments.gemm, block_x());                                       \
        Tile::compute(arguments.gemm, nullptr, {tile, 0, 0}, shared, scales_of(Type(), arguments));            \
    }
#if MATRIX_LAYOUT == MATRIX_QUADS
GEMM_OF(Byte, gemm_bytes, 128, 128, 128, 64)
GEMM_OF(Byte, gemm_bytes, 64, 64, 128, 128)
#else
GEMM_OF(Byte, gemm_bytes, 128, 128, 256, 64)
GEMM_OF(Byte, gemm_bytes, 64, 64, 128, 64)
#endif
#ifdef FP8_LARGEST
// On sm_90, mma.sync converts e4m3 to fp16 first, which takes registers: with 128 threads for the larger tile it spills.
GEMM_OF(Fp8, gemm_fp8, 128, 128, 256, 64)
#if MATRIX_LAYOUT == MATRIX_QUADS
GEMM_OF(Fp8, gemm_fp8, 64, 64, 128, 128)
#else
GEMM_OF(Fp8, gemm_fp8, 64, 64, 128, 64)
#endif
#endif
#undef GEMM_OF
#undef BYTES_CORE

#endif  // GPU_HAS_F16
