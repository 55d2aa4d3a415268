// The element types float, Half and Bfloat, and their vectors. Elements in registers are always fp32; only their format
// in memory differs.
#pragma once
#include "gpu.h"

struct Half {
    u16 bits;
};
struct Bfloat {
    u16 bits;
};

// WITH_F16(KERNELS) and WITH_BF16(KERNELS) are the definitions of kernels of that type where the platform has them, and
// nothing elsewhere.
#if GPU_HAS_F16
#define WITH_F16(...) __VA_ARGS__
#else
#define WITH_F16(...)
#endif
#if GPU_HAS_BF16
#define WITH_BF16(...) __VA_ARGS__
#else
#define WITH_BF16(...)
#endif

// A signed integer of eight bits. It is an element of the factors of a GEMM only (bytes.hip).
struct Byte {
    i8 bits;
};

// A number in e4m3: a sign, four bits of exponent and three of mantissa. It, too, is an element of factors only.
struct Fp8 {
    u8 bits;
};

// The element type of a GEMM's results, for factors of type T.
template <class T>
struct ResultOf {
    typedef T Type;
};
template <>
struct ResultOf<Byte> {
    typedef Half Type;
};
template <>
struct ResultOf<Fp8> {
    typedef Half Type;
};

// Conversions between a 32-bit word and the two neighbouring elements that it holds.
GPU_FUNCTION void unpack(Half, u32 pair, float& low, float& high) {
    low = low_half(pair);
    high = high_half(pair);
}
GPU_FUNCTION void unpack(Bfloat, u32 pair, float& low, float& high) {
    low = float_of_bits(pair << 16);
    high = float_of_bits(pair & 0xffff0000u);
}
GPU_FUNCTION u32 pack(Half, float low, float high) {
    return half_pair(low, high);
}
#if GPU_HAS_BF16
GPU_FUNCTION u32 pack(Bfloat, float low, float high) {
    return bfloat_pair(low, high);
}
#endif

// Eight neighbouring elements, the unit that a thread works on.
struct Eight {
    float value[8];
};

// Eight elements in their memory format: one vector of 16 bytes, or two for float.
template <class T>
struct Packed {
    Words4 words[sizeof(T) / sizeof(Half)];
};

template <class T>
GPU_FUNCTION Eight unpack_eight(T, Packed<T> packed) {
    Eight result;
#pragma unroll
    for (i32 i = 0; i < 4; i++) unpack(T(), packed.words[0].word[i], result.value[2 * i], result.value[2 * i + 1]);
    return result;
}
GPU_FUNCTION Eight unpack_eight(float, Packed<float> packed) {
    Eight result;
#pragma unroll
    for (i32 i = 0; i < 8; i++) result.value[i] = float_of_bits(packed.words[i / 4].word[i % 4]);
    return result;
}
template <class T>
GPU_FUNCTION Packed<T> pack_eight(T, Eight x) {
    Packed<T> packed;
#pragma unroll
    for (i32 i = 0; i < 4; i++) packed.words[0].word[i] = pack(T(), x.value[2 * i], x.value[2 * i + 1]);
    return packed;
}
GPU_FUNCTION Packed<float> pack_eight(float, Eight x) {
    Packed<float> packed;
#pragma unroll
    for (i32 i = 0; i < 8; i++) packed.words[i / 4].word[i % 4] = float_bits(x.value[i]);
    return packed;
}

// Loads and stores eight elements in global memory. Their address must be a multiple of 16 bytes.
template <class T>
GPU_FUNCTION Packed<T> load_packed(const T* from) {
    Packed<T> packed;
#pragma unroll
    for (u32 i = 0; i < sizeof(packed) / sizeof(Words4); i++) packed.words[i] = load16(from + 4 * i);
    return packed;
}
template <class T>
GPU_FUNCTION Eight load_eight(const T* from) {
    return unpack_eight(T(), load_packed(from));
}
template <class T>
GPU_FUNCTION void store_eight(T* to, Eight x) {
    const Packed<T> packed = pack_eight(T(), x);
#pragma unroll
    for (u32 i = 0; i < sizeof(packed) / sizeof(Words4); i++) store16(to + 4 * i, packed.words[i]);
}

// Loads and stores two elements. Their address must be a multiple of their common size.
template <class T>
GPU_FUNCTION void load_two(const T* from, float& first, float& second) {
    unpack(T(), load4(from), first, second);
}
GPU_FUNCTION void load_two(const float* from, float& first, float& second) {
    const Words2 words = load8(from);
    first = float_of_bits(words.word[0]);
    second = float_of_bits(words.word[1]);
}
template <class T>
GPU_FUNCTION void store_two(T* to, float first, float second) {
    store4(to, pack(T(), first, second));
}
GPU_FUNCTION void store_two(float* to, float first, float second) {
    store8(to, {float_bits(first), float_bits(second)});
}

// Loads and stores one element.
template <class T>
GPU_FUNCTION float load_one(const T* from) {
    float value, unused;
    unpack(T(), load2(from), value, unused);
    return value;
}
GPU_FUNCTION float load_one(const float* from) {
    return float_of_bits(load4(from));
}
template <class T>
GPU_FUNCTION void store_one(T* to, float x) {
    store2(to, (u16)pack(T(), x, 0.0f));
}
GPU_FUNCTION void store_one(float* to, float x) {
    store4(to, float_bits(x));
}

// The sum of x and eight elements in global memory, whose address must be a multiple of 16 bytes.
template <class T>
GPU_FUNCTION Eight plus(Eight x, const T* from) {
    const Eight more = load_eight(from);
#pragma unroll
    for (i32 i = 0; i < 8; i++) x.value[i] += more.value[i];
    return x;
}

// x * multiply + add, with eight elements of each gate in global memory, aligned as above.
template <class T>
GPU_FUNCTION Eight gated(Eight x, const T* multiply, const T* add) {
    const Eight factor = load_eight(multiply);
#pragma unroll
    for (i32 i = 0; i < 8; i++) x.value[i] *= factor.value[i];
    return plus(x, add);
}
