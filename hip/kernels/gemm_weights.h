// How the weights of a GEMM lie in memory, for the tile of gemm_tiles.h: as elements of the type of x, or as bytes,
// which become elements of that type while a step is moved to shared memory. From there on a GEMM is the same.
//
// A kind of weights has these members:
//   ELEMENT              the bytes of a weight in memory
//   IS_WIDENED           whether a weight takes fewer bytes in memory than in shared memory
//   Loaded, load(from)   what becomes a vector of 16 bytes in shared memory, and its load
//   kept(loaded, mask)   what becomes that vector if the mask is all ones, and zeros if it is zero
//   widened(loaded)      that vector
//   Scales, scales_of(a) what the sums are multiplied by (gemm_tiles.h)
//
// A byte b stands for b - 128. The weight of an output is that number times the output's scale, and both the number and
// its product with an element of x are exact: fp16 has 11 bits, and bf16 has 8. So the only rounding is that of the
// weights to bytes, which is at most half the output's scale.
#pragma once
#include "elements.h"
#include "kernels.h"

// What a block's sums are multiplied by before the epilogue: nothing. Sums of bytes have scales (bytes.hip).
// `applied` is for the sums of a whole summed axis, and `of_part` for those of a part of it.
struct NoScales {
    GPU_METHOD Eight applied(Eight sums, i32, i32) const { return sums; }
    GPU_METHOD Eight of_part(Eight sums, i32) const { return sums; }
};

// The part of a row of x that lies together, in bytes, and the rows of weights whose parts follow one another in
// preshuffled weights.
#define PIECE_BYTES 64
#define PIECE_ROWS 16

// Weights with the type of x.
template <class T>
struct SameWeights {
    static constexpr i32 ELEMENT = sizeof(T);
    static constexpr bool IS_WIDENED = false;
    typedef Words4 Loaded;
    typedef NoScales Scales;

    GPU_FUNCTION Loaded load(const char* from) { return load16(from); }
    GPU_FUNCTION Loaded kept(Loaded loaded, u32 mask) {
#pragma unroll
        for (i32 k = 0; k < 4; k++) loaded.word[k] &= mask;
        return loaded;
    }
    GPU_FUNCTION Words4 widened(Loaded loaded) { return loaded; }
    GPU_FUNCTION Scales scales_of(const GemmArguments&) { return {}; }
};

// Four weights as elements of T, each with the value byte - 128.
GPU_FUNCTION Words2 widen_four(Half, u32 bytes) {
    // As the last bits of 1024 in fp16, a byte is 1024 + byte.
    constexpr u32 THOUSAND = 0x64646464, NEGATIVE = 0xe480e480;  // 1024, and -1152 twice
    return {add_halves(select_bytes(THOUSAND, bytes, 0x04010400), NEGATIVE),
            add_halves(select_bytes(THOUSAND, bytes, 0x04030402), NEGATIVE)};
}
GPU_FUNCTION Words2 widen_four(Bfloat, u32 bytes) {
    u32 number[4];
#pragma unroll
    for (i32 i = 0; i < 4; i++) {
        // As the last bits of 2^23 in fp32, a byte is 2^23 + byte.
        const u32 sum = select_bytes(0x4b000000, bytes, 0x07060500 | i);
        number[i] = float_bits(float_of_bits(sum) - (8388608.0f + 128.0f));
    }
    // The lower halves are zero.
    return {select_bytes(number[1], number[0], 0x07060302), select_bytes(number[3], number[2], 0x07060302)};
}

// A scale for each output.
struct OutputScales {
    const float* outputs;

    GPU_METHOD Eight of_part(Eight sums, i32 column) const {
        const Eight scales = load_eight(outputs + column);
#pragma unroll
        for (i32 k = 0; k < 8; k++) sums.value[k] *= scales.value[k];
        return sums;
    }
    GPU_METHOD Eight applied(Eight sums, i32, i32 column) const { return of_part(sums, column); }
};

// Weights of 8 bits. They are always preshuffled, and the outputs' scales follow them (kernels.h).
template <class T>
struct ByteWeights {
    static_assert(sizeof(T) == 2, "x has 16 bits");
    static constexpr i32 ELEMENT = 1;
    static constexpr bool IS_WIDENED = true;
    typedef Words2 Loaded;
    typedef OutputScales Scales;

    GPU_FUNCTION Loaded load(const char* from) { return load8(from); }
    GPU_FUNCTION Loaded kept(Loaded loaded, u32 mask) {
        // The byte 128 stands for zero.
#pragma unroll
        for (i32 k = 0; k < 2; k++) loaded.word[k] = (loaded.word[k] & mask) | (0x80808080 & ~mask);
        return loaded;
    }
    GPU_FUNCTION Words4 widened(Loaded loaded) {
        const Words2 low = widen_four(T(), loaded.word[0]), high = widen_four(T(), loaded.word[1]);
        return {low.word[0], low.word[1], high.word[0], high.word[1]};
    }
    GPU_FUNCTION Scales scales_of(const GemmArguments& a) {
        const i64 rows = (a.outputs + PIECE_ROWS - 1) / PIECE_ROWS * PIECE_ROWS;
        return {(const float*)((const char*)a.weights + rows * a.weights_stride)};
    }
};
