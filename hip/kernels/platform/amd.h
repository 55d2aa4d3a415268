// AMD GPUs: gfx9 (wave64), gfx10, gfx11 and gfx12 (wave32). Uses only the compiler's builtins.
#pragma once

#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif

#define GPU_METHOD __device__ __attribute__((always_inline)) inline
#define GPU_FUNCTION static GPU_METHOD
// On these machines a lane has up to 256 ordinary registers and 256 accumulation registers. On gfx90a and later both
// come from one file of 512. If a kernel may use both, clang puts the sums of matrix products into the latter and
// copies them back and forth. Where two waves must fit on a SIMD, there are 256 in all, and clang uses only ordinary
// registers. gfx908 has two files of 256, and the sums of its matrix instructions are always accumulation registers.
// There the limit is 128 of each. Of more than 128 ordinary registers, clang keeps some in free accumulation
// registers.
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define REGISTER_LIMIT , amdgpu_waves_per_eu(2)
#else
#define REGISTER_LIMIT
#endif
#define GPU_KERNEL(threads, name, Arguments)                                                                   \
    extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads) REGISTER_LIMIT)) void   \
        name(Arguments arguments)
// Whether neighbouring blocks run on dies of one GPU that have second-level caches of their own.
#if defined(__gfx942__) || defined(__gfx950__)
#define GPU_HAS_DIES 1
#else
#define GPU_HAS_DIES 0
#endif
#define GPU_ALWAYS_MASKS 0
#define GPU_HAS_F16 1
#define GPU_HAS_BF16 1
#define GPU_HAS_CHAINS 1
#define GPU_SHARED(Type, name, count) alignas(16) __shared__ Type name[count]
#define GPU_CONSTANT static __device__ const

#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define WAVE 32
#else
#define WAVE 64
#endif

typedef _Float16 native_half2 __attribute__((ext_vector_type(2)));
typedef u32 native_words2 __attribute__((ext_vector_type(2)));
typedef u32 native_words4 __attribute__((ext_vector_type(4)));
#define GLOBAL_MEMORY __attribute__((address_space(1)))

GPU_FUNCTION i32 thread() {
    return __builtin_amdgcn_workitem_id_x();
}
GPU_FUNCTION i32 block_x() {
    return __builtin_amdgcn_workgroup_id_x();
}
GPU_FUNCTION i32 block_y() {
    return __builtin_amdgcn_workgroup_id_y();
}
// The fences order shared memory only. A fence for all memory would wait for global stores and empty the first-level
// cache at every barrier. Clang before version 19, which is in ROCm up to 6.3, has only that slower fence.
#if __clang_major__ >= 19
#define SHARED_FENCE(order) __builtin_amdgcn_fence(order, "workgroup", "local")
#else
#define SHARED_FENCE(order) __builtin_amdgcn_fence(order, "workgroup")
#endif
GPU_FUNCTION void synchronise_block() {
    SHARED_FENCE(__ATOMIC_RELEASE);
    __builtin_amdgcn_s_barrier();
    SHARED_FENCE(__ATOMIC_ACQUIRE);
}

// The scope "agent" is one GPU. On gfx942, whose dies have a second-level cache each, publish() writes that cache back.
GPU_FUNCTION void publish() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
}
GPU_FUNCTION void observe() {
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
}
GPU_FUNCTION u32 of_wave(u32 value) {
    return __builtin_amdgcn_readfirstlane(value);
}
GPU_FUNCTION u32 add_to_counter(u32* counter, u32 value) {
    return __hip_atomic_fetch_add((__attribute__((address_space(1))) u32*)counter, value, __ATOMIC_RELAXED,
                                  __HIP_MEMORY_SCOPE_AGENT);
}

GPU_FUNCTION u32 read_counter(const u32* counter) {
    return __hip_atomic_load((const __attribute__((address_space(1))) u32*)counter, __ATOMIC_RELAXED,
                             __HIP_MEMORY_SCOPE_AGENT);
}
GPU_FUNCTION void wait_a_moment() {
    __builtin_amdgcn_s_sleep(1);
}
// Registers cannot be indexed at run time, so that the compiler would copy the arguments to scratch memory.
template <class Arguments>
GPU_FUNCTION const Arguments& in_memory(const Arguments&) {
    return *(const Arguments*)__builtin_amdgcn_kernarg_segment_ptr();
}

GPU_FUNCTION void keep_order() {
    asm volatile("" ::: "memory");
    __builtin_amdgcn_sched_barrier(0);
}

GPU_FUNCTION float power_of_two(float x) {
    return __builtin_amdgcn_exp2f(x);
}
GPU_FUNCTION float reciprocal(float x) {
    return __builtin_amdgcn_rcpf(x);
}
GPU_FUNCTION float reciprocal_root(float x) {
    return __builtin_amdgcn_rsqf(x);
}
GPU_FUNCTION float maximum(float a, float b) {
    return __builtin_fmaxf(a, b);
}
GPU_FUNCTION float minimum(float a, float b) {
    return __builtin_fminf(a, b);
}

// Makes every lane compute the value here. Without this, clang 19 moves the last step of a reduction into the branch of
// the lane that stores the sum, where the lanes that the step reads from are inactive. It also moves a matrix
// instruction into the branch of the lanes that have loaded something, where the instruction must not run.
template <class T>
GPU_FUNCTION T everywhere(T value) {
    asm volatile("" : "+v"(value));
    return value;
}

// Exchanges through the vector ALU where it has a suitable pattern, and otherwise through the shared memory's crossbar.
GPU_FUNCTION u32 exchange_bits(u32 value, i32 mask) {
#if WAVE == 32
    switch (mask) {
        // DPP row_xmask: xor within 16 lanes
        case 1: return everywhere(__builtin_amdgcn_update_dpp(0, value, 0x161, 0xf, 0xf, true));
        case 2: return everywhere(__builtin_amdgcn_update_dpp(0, value, 0x162, 0xf, 0xf, true));
        case 4: return everywhere(__builtin_amdgcn_update_dpp(0, value, 0x164, 0xf, 0xf, true));
        case 8: return everywhere(__builtin_amdgcn_update_dpp(0, value, 0x168, 0xf, 0xf, true));
        default: return everywhere(__builtin_amdgcn_permlanex16(value, value, 0x76543210, 0xfedcba98, true, false));
    }
#else
    switch (mask) {
        // DPP quad_perm: xor within 4 lanes; ds_swizzle in its xor mode within 32
        case 1: return everywhere(__builtin_amdgcn_update_dpp(0, value, 0xb1, 0xf, 0xf, true));
        case 2: return everywhere(__builtin_amdgcn_update_dpp(0, value, 0x4e, 0xf, 0xf, true));
        case 4: return everywhere(__builtin_amdgcn_ds_swizzle(value, 0x101f));
        case 8: return everywhere(__builtin_amdgcn_ds_swizzle(value, 0x201f));
        case 16: return everywhere(__builtin_amdgcn_ds_swizzle(value, 0x401f));
        default: return everywhere(__builtin_amdgcn_ds_bpermute((__builtin_amdgcn_workitem_id_x() ^ mask) << 2, value));
    }
#endif
}
GPU_FUNCTION float exchange(float value, i32 mask) {
    return __builtin_bit_cast(float, exchange_bits(__builtin_bit_cast(u32, value), mask));
}

// The cast to global memory avoids flat instructions, which have to find out which memory each address is in.
GPU_FUNCTION Words4 load16(const void* from) {
    // A cast of the whole vector would become four loads, which clang may join again from the wrong word on: to loads
    // that are not aligned.
    const native_words4 words = *(const GLOBAL_MEMORY native_words4*)from;
    return {words[0], words[1], words[2], words[3]};
}
GPU_FUNCTION Words2 load8(const void* from) {
    return __builtin_bit_cast(Words2, *(const GLOBAL_MEMORY native_words2*)from);
}
GPU_FUNCTION void opaque(u32& value) {
    asm volatile("" : "+v"(value));
}
GPU_FUNCTION u32 load4(const void* from) {
    return *(const GLOBAL_MEMORY u32*)from;
}
GPU_FUNCTION u16 load2(const void* from) {
    return *(const GLOBAL_MEMORY u16*)from;
}
GPU_FUNCTION void store16(void* to, Words4 value) {
    *(GLOBAL_MEMORY native_words4*)to = __builtin_bit_cast(native_words4, value);
}
GPU_FUNCTION void store8(void* to, Words2 value) {
    *(GLOBAL_MEMORY native_words2*)to = __builtin_bit_cast(native_words2, value);
}
GPU_FUNCTION void store4(void* to, u32 value) {
    *(GLOBAL_MEMORY u32*)to = value;
}
GPU_FUNCTION void store2(void* to, u16 value) {
    *(GLOBAL_MEMORY u16*)to = value;
}

GPU_FUNCTION u32 float_bits(float x) {
    return __builtin_bit_cast(u32, x);
}
GPU_FUNCTION float float_of_bits(u32 bits) {
    return __builtin_bit_cast(float, bits);
}
GPU_FUNCTION u32 half_pair(float low, float high) {
    native_half2 pair = {(_Float16)low, (_Float16)high};
    return __builtin_bit_cast(u32, pair);
}
GPU_FUNCTION float low_half(u32 pair) {
    return (float)__builtin_bit_cast(native_half2, pair)[0];
}
GPU_FUNCTION float high_half(u32 pair) {
    return (float)__builtin_bit_cast(native_half2, pair)[1];
}
GPU_FUNCTION u32 add_halves(u32 a, u32 b) {
    return __builtin_bit_cast(u32, __builtin_bit_cast(native_half2, a) + __builtin_bit_cast(native_half2, b));
}
// These architectures have no instruction for this.
#if defined(__gfx900__) || defined(__gfx902__) || defined(__gfx904__) || defined(__gfx909__) ||                \
    defined(__gfx90c__) || defined(__gfx1010__) || defined(__gfx1013__)
GPU_FUNCTION float dot_halves(u32 a, u32 b, float sum) {
    return sum + low_half(a) * low_half(b) + high_half(a) * high_half(b);
}
#else
GPU_FUNCTION float dot_halves(u32 a, u32 b, float sum) {
    return __builtin_amdgcn_fdot2(__builtin_bit_cast(native_half2, a), __builtin_bit_cast(native_half2, b), sum, false);
}
#endif
// sum + a . b for the four signed bytes of each word.
#if defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) ||            \
    defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
// From the builtin, clang would make v_dot4c_i32_i8, which overwrites its sum, so that sums would be copied.
GPU_FUNCTION u32 dot_bytes(u32 a, u32 b, u32 sum) {
    asm("v_dot4_i32_i8 %0, %1, %2, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}
#elif __has_builtin(__builtin_amdgcn_sdot4) && (defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) ||  \
                                                defined(__gfx942__) || defined(__gfx950__))
GPU_FUNCTION u32 dot_bytes(u32 a, u32 b, u32 sum) {
    return (u32)__builtin_amdgcn_sdot4((i32)a, (i32)b, (i32)sum, false);
}
#else
GPU_FUNCTION u32 dot_bytes(u32 a, u32 b, u32 sum) {
#pragma unroll
    for (i32 shift = 0; shift < 32; shift += 8) sum += (u32)((i8)(a >> shift) * (i8)(b >> shift));
    return sum;
}
#endif
#define GPU_ASYNCHRONOUS_COPIES 0
// Rounds to nearest even with integer arithmetic. Rounding could turn a NaN into an infinity, so a NaN is not rounded
// but made quiet.
GPU_FUNCTION u32 bfloat_bits(float x) {
    const u32 bits = float_bits(x);
    const u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
    return __builtin_isnan(x) ? bits | 0x400000 : rounded;
}
GPU_FUNCTION u32 bfloat_pair(float low, float high) {
    return __builtin_amdgcn_perm(bfloat_bits(high), bfloat_bits(low), 0x07060302);
}
// Each byte of the result is the byte that the same byte of `selector` names: 0 to 3 for the bytes of `low`, and 4 to 7
// for those of `high`.
GPU_FUNCTION u32 select_bytes(u32 high, u32 low, u32 selector) {
    return __builtin_amdgcn_perm(high, low, selector);
}

#if defined(__GFX12__) || defined(__gfx942__) || defined(__gfx950__)
#if defined(__gfx942__)
#define FP8_LARGEST 240.0f
#else
#define FP8_LARGEST 448.0f
#endif
GPU_FUNCTION u32 fp8_quad(float a, float b, float c, float d) {
    const i32 low = __builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false);
    return (u32)__builtin_amdgcn_cvt_pk_fp8_f32(c, d, low, true);
}
#endif

// The instructions compute D = A B + C. The rows of A are the other side, and the columns of B are the own side
// (matrix.h).
typedef float native_float4 __attribute__((ext_vector_type(4)));
typedef float native_float8 __attribute__((ext_vector_type(8)));

// The registers that hold the sums of matrix instructions. On gfx908 these are accumulation registers, and naming
// others would copy the sums there and back.
#if defined(__gfx908__)
#define SUM_REGISTER "a"
#else
#define SUM_REGISTER "v"
#endif
template <class Accumulator>
GPU_FUNCTION void settle(Accumulator& sum) {
    if constexpr (sizeof(Accumulator) == sizeof(native_float8)) {
        native_float8 value = __builtin_bit_cast(native_float8, sum);
        asm volatile("" : "+v"(value) : : "memory");
        sum = __builtin_bit_cast(Accumulator, value);
    } else {
        native_float4 value = __builtin_bit_cast(native_float4, sum);
        asm volatile("" : "+" SUM_REGISTER(value) : : "memory");
        sum = __builtin_bit_cast(Accumulator, value);
    }
}

#if defined(__GFX11__)
#define MATRIX_LAYOUT MATRIX_REPLICATED
typedef _Float16 native_half16 __attribute__((ext_vector_type(16)));
typedef short native_short16 __attribute__((ext_vector_type(16)));
typedef i32 native_int8 __attribute__((ext_vector_type(8)));
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_f16(Fragment own, Fragment other, Accumulator sum) {
    return __builtin_bit_cast(Accumulator, everywhere(
                              __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(native_half16, other),
                                                                         __builtin_bit_cast(native_half16, own),
                                                                         __builtin_bit_cast(native_float8, sum))));
}
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bf16(Fragment own, Fragment other, Accumulator sum) {
    return __builtin_bit_cast(Accumulator, everywhere( __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(
                                               __builtin_bit_cast(native_short16, other),
                                               __builtin_bit_cast(native_short16, own),
                                               __builtin_bit_cast(native_float8, sum))));
}

typedef i32 native_int4 __attribute__((ext_vector_type(4)));
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bytes(Fragment own, Fragment other, Accumulator sum) {
    native_int8 result = __builtin_bit_cast(native_int8, sum);
#pragma unroll
    for (i32 i = 0; i < 8; i += 4) {
        const native_int4 a = {(i32)other.word[i], (i32)other.word[i + 1], (i32)other.word[i + 2], (i32)other.word[i + 3]};
        const native_int4 b = {(i32)own.word[i], (i32)own.word[i + 1], (i32)own.word[i + 2], (i32)own.word[i + 3]};
        result = everywhere(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, result, false));
    }
    return __builtin_bit_cast(Accumulator, result);
}

#elif defined(__GFX12__)
#define MATRIX_LAYOUT MATRIX_HALVES
typedef _Float16 native_half8 __attribute__((ext_vector_type(8)));
typedef short native_short8 __attribute__((ext_vector_type(8)));
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_f16(Fragment own, Fragment other, Accumulator sum) {
    return __builtin_bit_cast(Accumulator, everywhere( __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(
                                               __builtin_bit_cast(native_half8, other),
                                               __builtin_bit_cast(native_half8, own),
                                               __builtin_bit_cast(native_float8, sum))));
}
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bf16(Fragment own, Fragment other, Accumulator sum) {
    return __builtin_bit_cast(Accumulator, everywhere( __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(
                                               __builtin_bit_cast(native_short8, other),
                                               __builtin_bit_cast(native_short8, own),
                                               __builtin_bit_cast(native_float8, sum))));
}

typedef i32 native_int2 __attribute__((ext_vector_type(2)));
typedef i32 native_int8 __attribute__((ext_vector_type(8)));
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bytes(Fragment own, Fragment other, Accumulator sum) {
    native_int8 result = __builtin_bit_cast(native_int8, sum);
#pragma unroll
    for (i32 i = 0; i < 4; i += 2) {
        const native_int2 a = {(i32)other.word[i], (i32)other.word[i + 1]};
        const native_int2 b = {(i32)own.word[i], (i32)own.word[i + 1]};
        result = everywhere(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, result, false));
    }
    return __builtin_bit_cast(Accumulator, result);
}
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_fp8(Fragment own, Fragment other, Accumulator sum) {
    native_float8 result = __builtin_bit_cast(native_float8, sum);
#pragma unroll
    for (i32 i = 0; i < 4; i += 2) {
        const native_int2 a = {(i32)other.word[i], (i32)other.word[i + 1]};
        const native_int2 b = {(i32)own.word[i], (i32)own.word[i + 1]};
        result = everywhere(__builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a, b, result));
    }
    return __builtin_bit_cast(Accumulator, result);
}

#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define MATRIX_LAYOUT MATRIX_QUARTERS
typedef _Float16 native_half4 __attribute__((ext_vector_type(4)));
typedef short native_short4 __attribute__((ext_vector_type(4)));
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_f16(Fragment own, Fragment other, Accumulator sum) {
    return __builtin_bit_cast(
        Accumulator, __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(native_half4, other),
                                                           __builtin_bit_cast(native_half4, own),
                                                           __builtin_bit_cast(native_float4, sum), 0, 0, 0));
}
#if defined(__gfx908__)
// The instruction takes two elements of each lane, and so eight along the summed axis. Which eight does not matter,
// because they are the same for both operands.
typedef short native_short2 __attribute__((ext_vector_type(2)));
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bf16(Fragment own, Fragment other, Accumulator sum) {
    native_float4 result = __builtin_bit_cast(native_float4, sum);
#pragma unroll
    for (i32 i = 0; i < 2; i++) {
        result = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(native_short2, other.word[i]),
                                                       __builtin_bit_cast(native_short2, own.word[i]), result, 0, 0, 0);
    }
    return __builtin_bit_cast(Accumulator, result);
}
#else
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bf16(Fragment own, Fragment other, Accumulator sum) {
    return __builtin_bit_cast(
        Accumulator, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(native_short4, other),
                                                               __builtin_bit_cast(native_short4, own),
                                                               __builtin_bit_cast(native_float4, sum), 0, 0, 0));
}
#endif
typedef i32 native_int4 __attribute__((ext_vector_type(4)));
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bytes(Fragment own, Fragment other, Accumulator sum) {
    native_int4 result = __builtin_bit_cast(native_int4, sum);
#if defined(__gfx908__) || defined(__gfx90a__)
#pragma unroll
    for (i32 i = 0; i < 2; i++)
        result = __builtin_amdgcn_mfma_i32_16x16x16i8((i32)other.word[i], (i32)own.word[i], result, 0, 0, 0);
#else
    result = __builtin_amdgcn_mfma_i32_16x16x32_i8(__builtin_bit_cast(i64, other), __builtin_bit_cast(i64, own), result,
                                                   0, 0, 0);
#endif
    return __builtin_bit_cast(Accumulator, result);
}
#ifdef FP8_LARGEST
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_fp8(Fragment own, Fragment other, Accumulator sum) {
    return __builtin_bit_cast(
        Accumulator, __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(__builtin_bit_cast(i64, other), __builtin_bit_cast(i64, own),
                                                                __builtin_bit_cast(native_float4, sum), 0, 0, 0));
}
#endif

#else
#define MATRIX_LAYOUT MATRIX_NONE
#endif

#if defined(__GFX11__)
// A matrix instruction takes 34 instead of 32 cycles if two of its operands begin in the same of the four banks of
// vector registers (number mod 4; https://github.com/llvm/llvm-project/issues/204254). clang does not look at that, and
// operands one after another would all begin in the same bank. This asks for the eight registers from `first` on. If they
// are free, it adds no instruction; if not, clang copies (column "one bank" of RESOURCES.md).
template <class Value>
GPU_FUNCTION void prefer_registers(Value& value, i32 first) {
    typedef u32 native_words8 __attribute__((ext_vector_type(8)));
    native_words8 words = __builtin_bit_cast(native_words8, value);
#define IN(number, registers)                                                                                  \
    case number: asm("" : "={" registers "}"(words) : "0"(words)); break;
    switch (first) {
        IN(1, "v[1:8]") IN(9, "v[9:16]") IN(18, "v[18:25]") IN(26, "v[26:33]") IN(34, "v[34:41]")
        IN(42, "v[42:49]") IN(50, "v[50:57]") IN(58, "v[58:65]") IN(66, "v[66:73]") IN(74, "v[74:81]")
        IN(51, "v[51:58]") IN(59, "v[59:66]") IN(67, "v[67:74]") IN(75, "v[75:82]") IN(83, "v[83:90]")
        IN(91, "v[91:98]") IN(99, "v[99:106]") IN(107, "v[107:114]") IN(115, "v[115:122]")
        IN(123, "v[123:130]") IN(131, "v[131:138]") IN(139, "v[139:146]")
    }
#undef IN
    value = __builtin_bit_cast(Value, words);
}
#else
template <class Value>
GPU_FUNCTION void prefer_registers(Value&, i32) {}
#endif
