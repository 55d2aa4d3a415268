// The platform for kernels on the host. Each GPU thread is a fiber. The matrix instruction of the machine that
// MATRIX_LAYOUT names is computed lane by lane, as its documentation describes. A kernel that passes with all four
// layouts has therefore read and written every fragment where the machine keeps it.
#pragma once
#include "fibers.h"
#include "kernel_list.h"
#include <cmath>

#ifndef MATRIX_LAYOUT
#define MATRIX_LAYOUT MATRIX_HALVES
#endif
#define WAVE (MATRIX_LAYOUT == MATRIX_QUARTERS ? 64 : 32)
// gfx942 has this layout and dies.
#define GPU_HAS_DIES (MATRIX_LAYOUT == MATRIX_QUARTERS)

#define GPU_METHOD inline
#define GPU_FUNCTION static GPU_METHOD
// Every kernel is in a list, by its name.
#define GPU_KERNEL(threads, name, Arguments)                                                                   \
    extern "C" void name(Arguments arguments);                                                                 \
    static const host::Listed name##_listed{#name, threads, &name};                                            \
    extern "C" void name(Arguments arguments)
#define GPU_ALWAYS_MASKS 0
#define GPU_HAS_F16 1
#define GPU_HAS_BF16 1
#define GPU_HAS_CHAINS 1
#define GPU_SHARED(Type, name, count)                                                                          \
    static host::Shared<Type, count> name##_storage;                                                           \
    Type* const name = name##_storage.values
#define GPU_CONSTANT static const

GPU_FUNCTION i32 thread() {
    return host::Block::current().thread;
}
GPU_FUNCTION i32 block_x() {
    return host::Block::current().block_x;
}
GPU_FUNCTION i32 block_y() {
    return host::Block::current().block_y;
}
GPU_FUNCTION void synchronise_block() {
    host::Block::current().wait_for_block();
}
GPU_FUNCTION void keep_order() {}
// Blocks run one after another.
GPU_FUNCTION void publish() {}
GPU_FUNCTION void observe() {}
GPU_FUNCTION u32 of_wave(u32 value) {
    return value;
}
GPU_FUNCTION u32 add_to_counter(u32* counter, u32 value) {
    const u32 before = *counter;
    *counter += value;
    return before;
}
GPU_FUNCTION u32 read_counter(const u32* counter) {
    return *counter;
}
// Blocks run one after another, so that no other block can end in the meantime.
GPU_FUNCTION void wait_a_moment() {
    host::fail("a block waits for one that has not run", 0);
}
template <class Arguments>
GPU_FUNCTION const Arguments& in_memory(const Arguments& arguments) {
    return arguments;
}

GPU_FUNCTION float power_of_two(float x) {
    return std::exp2(x);
}
GPU_FUNCTION float reciprocal(float x) {
    return x == 0.0f ? INFINITY : 1.0f / x;
}
GPU_FUNCTION float reciprocal_root(float x) {
    return 1.0f / std::sqrt(x);
}
GPU_FUNCTION float maximum(float a, float b) {
    return std::fmax(a, b);
}
GPU_FUNCTION float minimum(float a, float b) {
    return std::fmin(a, b);
}

// The bits of a value as another type of the same size.
template <class To, class From>
GPU_FUNCTION To reinterpret(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
GPU_FUNCTION u32 float_bits(float x) {
    return reinterpret<u32>(x);
}
GPU_FUNCTION float float_of_bits(u32 bits) {
    return reinterpret<float>(bits);
}

GPU_FUNCTION u32 exchange_bits(u32 value, i32 mask) {
    host::Block& block = host::Block::current();
    u32 result = 0;
    block.exchange(mask >= 32, &value, sizeof value,
                   [&] { std::memcpy(&result, block.parcel_of((thread() % WAVE) ^ mask), sizeof result); });
    return result;
}
GPU_FUNCTION float exchange(float value, i32 mask) {
    return float_of_bits(exchange_bits(float_bits(value), mask));
}

template <class T>
GPU_FUNCTION T load_bytes(const void* from) {
    if (reinterpret_cast<size_t>(from) % sizeof(T) != 0) host::fail("load from an address that is not aligned", thread());
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
template <class T>
GPU_FUNCTION void store_bytes(void* to, T value) {
    if (reinterpret_cast<size_t>(to) % sizeof(T) != 0) host::fail("store to an address that is not aligned", thread());
    std::memcpy(to, &value, sizeof value);
}
GPU_FUNCTION Words4 load16(const void* from) {
    return load_bytes<Words4>(from);
}
GPU_FUNCTION Words2 load8(const void* from) {
    return load_bytes<Words2>(from);
}
GPU_FUNCTION void opaque(u32&) {}
GPU_FUNCTION u32 load4(const void* from) {
    return load_bytes<u32>(from);
}
GPU_FUNCTION u16 load2(const void* from) {
    return load_bytes<u16>(from);
}
GPU_FUNCTION void store16(void* to, Words4 value) {
    store_bytes(to, value);
}
GPU_FUNCTION void store8(void* to, Words2 value) {
    store_bytes(to, value);
}
GPU_FUNCTION void store4(void* to, u32 value) {
    store_bytes(to, value);
}
GPU_FUNCTION void store2(void* to, u16 value) {
    store_bytes(to, value);
}

GPU_FUNCTION u32 half_bits(float x) {
    return reinterpret<u16>((_Float16)x);
}
GPU_FUNCTION float half_value(u32 bits) {
    return (float)reinterpret<_Float16>((u16)bits);
}
GPU_FUNCTION u32 half_pair(float low, float high) {
    return half_bits(low) | half_bits(high) << 16;
}
GPU_FUNCTION float low_half(u32 pair) {
    return half_value(pair & 0xffff);
}
GPU_FUNCTION float high_half(u32 pair) {
    return half_value(pair >> 16);
}
GPU_FUNCTION u32 add_halves(u32 a, u32 b) {
    return half_pair(low_half(a) + low_half(b), high_half(a) + high_half(b));
}
GPU_FUNCTION float dot_halves(u32 a, u32 b, float sum) {
    return sum + low_half(a) * low_half(b) + high_half(a) * high_half(b);
}
GPU_FUNCTION u32 dot_bytes(u32 a, u32 b, u32 sum) {
    for (i32 shift = 0; shift < 32; shift += 8) sum += (u32)((i8)(a >> shift) * (i8)(b >> shift));
    return sum;
}
// With MATRIX_QUADS the host copies as NVIDIA's machines do, but at once.
#define GPU_ASYNCHRONOUS_COPIES (MATRIX_LAYOUT == MATRIX_QUADS)
GPU_FUNCTION void copy16_or_clear(Words4* to, const void* from, bool copies) {
    *to = copies ? load16(from) : Words4{};
}
GPU_FUNCTION void end_copies() {}
template <i32 COUNT>
GPU_FUNCTION void wait_for_copies() {}
#if MATRIX_LAYOUT == MATRIX_QUADS
// PTX ISA, ldmatrix: the lanes from 8 * m on have the addresses of matrix m's rows.
GPU_FUNCTION Words4 load_matrices(const Words4* row) {
    host::Block& block = host::Block::current();
    Words4 result;
    block.exchange(true, row, sizeof *row, [&] {
        for (i32 matrix = 0; matrix < 4; matrix++) {
            Words4 from;
            std::memcpy(&from, block.parcel_of(8 * matrix + thread() % WAVE / 4), sizeof from);
            result.word[matrix] = from.word[thread() % 4];
        }
    });
    return result;
}
#endif
GPU_FUNCTION u32 bfloat_bits(float x) {
    const u32 bits = float_bits(x);
    return std::isnan(x) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
GPU_FUNCTION u32 bfloat_pair(float low, float high) {
    return bfloat_bits(low) | bfloat_bits(high) << 16;
}
GPU_FUNCTION u32 select_bytes(u32 high, u32 low, u32 selector) {
    const u64 both = (u64)high << 32 | low;
    u32 result = 0;
    for (i32 i = 0; i < 4; i++) result |= (u32)(both >> 8 * (selector >> 8 * i & 7) & 0xff) << 8 * i;
    return result;
}

#if MATRIX_LAYOUT != MATRIX_REPLICATED
// gfx942, whose layout is MATRIX_QUARTERS, has the older variant of e4m3.
#define FP8_FNUZ (MATRIX_LAYOUT == MATRIX_QUARTERS)
#define FP8_LARGEST (FP8_FNUZ ? 240.0f : 448.0f)
GPU_FUNCTION float fp8_value(u32 code) {
    const i32 exponent = (i32)(code >> 3 & 15), mantissa = (i32)(code & 7), bias = FP8_FNUZ ? 8 : 7;
    if (FP8_FNUZ ? code == 0x80 : (code & 0x7f) == 0x7f) return NAN;
    const float magnitude = std::ldexp((float)(exponent == 0 ? mantissa : mantissa + 8), (exponent == 0 ? 1 : exponent) - bias - 3);
    return code & 0x80 ? -magnitude : magnitude;
}
// The codes of positive numbers are in their order. Of two that are equally near, the even one is taken.
GPU_FUNCTION u32 fp8_code(float x) {
    const float magnitude = std::fabs(x);
    u32 code = 0;
    while (fp8_value(code + 1) <= magnitude) code++;
    const float rest = magnitude - fp8_value(code), step = code < (FP8_FNUZ ? 0x7fu : 0x7eu) ? fp8_value(code + 1) - fp8_value(code) : 1e9f;
    if (rest > step / 2 || (rest == step / 2 && code % 2 == 1)) code++;
    return x < 0.0f && code != 0 ? code | 0x80 : code;
}
GPU_FUNCTION u32 fp8_quad(float a, float b, float c, float d) {
    return fp8_code(a) | fp8_code(b) << 8 | fp8_code(c) << 16 | fp8_code(d) << 24;
}
#endif

// The lane that holds element k of an operand's row, and which of the lane's 16-bit elements it is.
struct Place {
    i32 lane, element;
};
GPU_FUNCTION Place operand_place(i32 row, i32 k) {
#if MATRIX_LAYOUT == MATRIX_REPLICATED
    return {row, k};
#elif MATRIX_LAYOUT == MATRIX_HALVES
    return {row + 16 * (k / 4 % 2), k % 4 + 4 * (k / 8)};
#elif MATRIX_LAYOUT == MATRIX_QUARTERS
    return {row + 16 * (k / 4), k % 4};
#else
    // PTX ISA, mma.m16n8k16, where groupID is lane / 4: of A's elements, a2, a3, a6 and a7 are in row groupID + 8, and
    // a4 to a7 are in columns 8 to 15. Each of the two instructions takes eight of B's columns as b0 to b3. Words 0 and
    // 2 of the fragment go to the first instruction, and words 1 and 3 to the second.
    return {row % 8 * 4 + k % 8 / 2, k % 2 + 2 * (row / 8) + 4 * (k / 8)};
#endif
}
// The own row and the other row of a lane's i-th sum.
GPU_FUNCTION void sum_place(i32 lane, i32 i, i32& own, i32& other) {
#if MATRIX_LAYOUT == MATRIX_QUADS
    // The C of two mma.m16n8k16, one after the other: c2 and c3 are in row groupID + 8.
    own = lane / 4 + 8 * (i % 4 / 2);
    other = 8 * (i / 4) + lane % 4 * 2 + i % 2;
#else
    own = lane % 16;
#if MATRIX_LAYOUT == MATRIX_REPLICATED
    other = 2 * i + lane / 16;
#elif MATRIX_LAYOUT == MATRIX_HALVES
    other = 8 * (lane / 16) + i;
#else
    other = 4 * (lane / 16) + i;
#endif
#endif
}

template <class Accumulator>
GPU_FUNCTION void settle(Accumulator&) {}
template <class Value>
GPU_FUNCTION void prefer_registers(Value&, i32) {}
// Adds `product(sum, a, b)` of all pairs of elements of 16 bits.
template <class Fragment, class Accumulator, class Product>
GPU_FUNCTION Accumulator multiply_with(Fragment own, Fragment other, Accumulator sum, Product product) {
    struct Parcel {
        Fragment own, other;
    };
    const Parcel parcel = {own, other};
    host::Block& block = host::Block::current();
    block.exchange(true, &parcel, sizeof parcel, [&] {
        auto element = [&](bool other, i32 row, i32 k) {
            const Place place = operand_place(row, k);
            auto read = [&](i32 lane) {
                Parcel from;
                std::memcpy(&from, block.parcel_of(lane), sizeof from);
                const u32 word = (other ? from.other : from.own).word[place.element / 2];
                return place.element % 2 == 0 ? word & 0xffff : word >> 16;
            };
            const u32 bits = read(place.lane);
#if MATRIX_LAYOUT == MATRIX_REPLICATED
            if (read(place.lane + 16) != bits) host::fail("an operand differs between a wave's halves", thread());
#endif
            return bits;
        };
        for (size_t i = 0; i < sizeof sum.value / sizeof(float); i++) {
            i32 own_row, other_row;
            sum_place(thread() % WAVE, (i32)i, own_row, other_row);
            for (i32 k = 0; k < 16; k++)
                sum.value[i] = product(sum.value[i], element(false, own_row, k), element(true, other_row, k));
        }
    });
    return sum;
}
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_f16(Fragment own, Fragment other, Accumulator sum) {
    return multiply_with(own, other, sum, [](float sum, u32 a, u32 b) { return sum + half_value(a) * half_value(b); });
}
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bf16(Fragment own, Fragment other, Accumulator sum) {
    return multiply_with(own, other, sum, [](float sum, u32 a, u32 b) {
        return sum + float_of_bits(a << 16) * float_of_bits(b << 16);
    });
}
// All four layouts have two bytes in the place of each element of 16 bits. Sums of integers do not depend on their order.
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bytes(Fragment own, Fragment other, Accumulator sum) {
    return multiply_with(own, other, sum, [](float sum, u32 a, u32 b) {
        return float_of_bits(dot_bytes(a, b, float_bits(sum)));
    });
}
#ifdef FP8_LARGEST
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_fp8(Fragment own, Fragment other, Accumulator sum) {
    return multiply_with(own, other, sum, [](float sum, u32 a, u32 b) {
        return sum + fp8_value(a & 0xff) * fp8_value(b & 0xff) + fp8_value(a >> 8) * fp8_value(b >> 8);
    });
}
#endif
