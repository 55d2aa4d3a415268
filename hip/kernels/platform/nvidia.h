// NVIDIA GPUs from sm_80 on. Uses only NVRTC's builtins and inline PTX.
#pragma once

#define GPU_METHOD __device__ __forceinline__
#define GPU_FUNCTION static GPU_METHOD
#define GPU_HAS_DIES 0
#define GPU_KERNEL(threads, name, Arguments)                                                                   \
    GPU_FUNCTION void name##_body(const Arguments& arguments);                                                 \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Arguments arguments) {  \
        wait_for_kernels_before();                                                                             \
        name##_body(arguments);                                                                                \
    }                                                                                                          \
    GPU_FUNCTION void name##_body(const Arguments& arguments)
#define GPU_SHARED(Type, name, count) __shared__ __align__(16) Type name[count]
#define GPU_CONSTANT static __device__ const

#define WAVE 32
#define MATRIX_LAYOUT MATRIX_QUADS

// Programmatic dependent launch (PTX ISA, "griddepcontrol") may launch a kernel before its predecessor has ended. The
// kernel waits here until its predecessor has ended, and then allows the next launch. For an ordinary launch this does
// nothing.
GPU_FUNCTION void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

GPU_FUNCTION i32 thread() {
    return threadIdx.x;
}
GPU_FUNCTION i32 block_x() {
    return blockIdx.x;
}
GPU_FUNCTION i32 block_y() {
    return blockIdx.y;
}
GPU_FUNCTION void synchronise_block() {
    __syncthreads();
}

GPU_FUNCTION void publish() {
    __threadfence();
}
GPU_FUNCTION void observe() {
    __threadfence();
}
GPU_FUNCTION u32 of_wave(u32 value) {
    return value;
}
GPU_FUNCTION u32 add_to_counter(u32* counter, u32 value) {
    return atomicAdd(counter, value);
}

GPU_FUNCTION u32 read_counter(const u32* counter) {
    return *(const volatile u32*)counter;
}
GPU_FUNCTION void wait_a_moment() {}
template <class Arguments>
GPU_FUNCTION const Arguments& in_memory(const Arguments& arguments) {
    return arguments;
}

GPU_FUNCTION void keep_order() {
    asm volatile("" ::: "memory");
}

GPU_FUNCTION float power_of_two(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
GPU_FUNCTION float reciprocal(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
GPU_FUNCTION float reciprocal_root(float x) {
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
GPU_FUNCTION float maximum(float a, float b) {
    float result;
    asm("max.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
GPU_FUNCTION float minimum(float a, float b) {
    float result;
    asm("min.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
GPU_FUNCTION float exchange(float value, i32 mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

GPU_FUNCTION Words4 load16(const void* from) {
    const uint4 value = *(const uint4*)from;
    return {value.x, value.y, value.z, value.w};
}
GPU_FUNCTION Words2 load8(const void* from) {
    const uint2 value = *(const uint2*)from;
    return {value.x, value.y};
}
GPU_FUNCTION u32 load4(const void* from) {
    return *(const u32*)from;
}
GPU_FUNCTION u16 load2(const void* from) {
    return *(const u16*)from;
}
GPU_FUNCTION void store16(void* to, Words4 value) {
    *(uint4*)to = make_uint4(value.word[0], value.word[1], value.word[2], value.word[3]);
}
GPU_FUNCTION void store8(void* to, Words2 value) {
    *(uint2*)to = make_uint2(value.word[0], value.word[1]);
}
GPU_FUNCTION void store4(void* to, u32 value) {
    *(u32*)to = value;
}
GPU_FUNCTION void store2(void* to, u16 value) {
    *(u16*)to = value;
}

GPU_FUNCTION u32 float_bits(float x) {
    return __float_as_uint(x);
}
GPU_FUNCTION float float_of_bits(u32 bits) {
    return __uint_as_float(bits);
}
GPU_FUNCTION u32 half_pair(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
GPU_FUNCTION float low_half(u32 pair) {
    float result;
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(result) : "r"(pair));
    return result;
}
GPU_FUNCTION float high_half(u32 pair) {
    float result;
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(result) : "r"(pair));
    return result;
}
GPU_FUNCTION u32 add_halves(u32 a, u32 b) {
    u32 sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}
GPU_FUNCTION u32 bfloat_pair(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
GPU_FUNCTION float dot_halves(u32 a, u32 b, float sum) {
    return sum + low_half(a) * low_half(b) + high_half(a) * high_half(b);
}
GPU_FUNCTION u32 dot_bytes(u32 a, u32 b, u32 sum) {
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}
#define GPU_ASYNCHRONOUS_COPIES 1
GPU_FUNCTION void copy16_or_clear(void* to, const void* from, bool copies) {
    const u32 address = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(address), "l"(from), "r"(copies ? 16 : 0) : "memory");
}
GPU_FUNCTION void end_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <i32 COUNT>
GPU_FUNCTION void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(COUNT) : "memory");
}
// The instruction ldmatrix. The PTX ISA describes which lane gives and gets what.
GPU_FUNCTION Words4 load_matrices(const Words4* row) {
    const u32 address = (u32)__cvta_generic_to_shared(row);
    Words4 loaded;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(loaded.word[0]), "=r"(loaded.word[1]), "=r"(loaded.word[2]), "=r"(loaded.word[3])
                 : "r"(address)
                 : "memory");
    return loaded;
}
GPU_FUNCTION u32 select_bytes(u32 high, u32 low, u32 selector) {
    const u32 nibbles =
        (selector & 7) | (selector >> 8 & 7) << 4 | (selector >> 16 & 7) << 8 | (selector >> 24 & 7) << 12;
    return __byte_perm(low, high, nibbles);
}

// Does nothing, because NVIDIA's assembler schedules loads within the available registers by itself.
template <class Accumulator>
GPU_FUNCTION void settle(Accumulator&) {}

// Two mma.sync.m16n8k16. The own side is M, and each instruction takes 8 of the other side's 16 rows as N. The PTX ISA
// describes the layout of the operands in "Matrix fragments for mma.m16n8k16 with floating point type".
#define MULTIPLY_TILE(depth, type)                                                                             \
    asm("mma.sync.aligned.m16n8" depth ".row.col.f32." type "." type ".f32 "                                         \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                      \
        : "+f"(sum.value[4 * half]), "+f"(sum.value[4 * half + 1]), "+f"(sum.value[4 * half + 2]),             \
          "+f"(sum.value[4 * half + 3])                                                                        \
        : "r"(own.word[0]), "r"(own.word[1]), "r"(own.word[2]), "r"(own.word[3]), "r"(other.word[half]),       \
          "r"(other.word[half + 2]))
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_f16(Fragment own, Fragment other, Accumulator sum) {
#pragma unroll
    for (i32 half = 0; half < 2; half++) MULTIPLY_TILE("k16", "f16");
    return sum;
}
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bf16(Fragment own, Fragment other, Accumulator sum) {
#pragma unroll
    for (i32 half = 0; half < 2; half++) MULTIPLY_TILE("k16", "bf16");
    return sum;
}
// The same with mma.sync.m16n8k32. Its operands have two bytes in the place of each element of 16 bits.
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bytes(Fragment own, Fragment other, Accumulator sum) {
#pragma unroll
    for (i32 half = 0; half < 2; half++) {
        u32 result[4];
#pragma unroll
        for (i32 i = 0; i < 4; i++) result[i] = float_bits(sum.value[4 * half + i]);
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+r"(result[0]), "+r"(result[1]), "+r"(result[2]), "+r"(result[3])
            : "r"(own.word[0]), "r"(own.word[1]), "r"(own.word[2]), "r"(own.word[3]), "r"(other.word[half]),
              "r"(other.word[half + 2]));
#pragma unroll
        for (i32 i = 0; i < 4; i++) sum.value[4 * half + i] = float_of_bits(result[i]);
    }
    return sum;
}

#if __CUDA_ARCH__ >= 890
#define FP8_LARGEST 448.0f
// The second operand of the instruction goes to the lower byte.
GPU_FUNCTION u32 fp8_quad(float a, float b, float c, float d) {
    u32 quad;
    asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; "
        "mov.b32 %0, {low, high}; }"
        : "=r"(quad)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return quad;
}
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_fp8(Fragment own, Fragment other, Accumulator sum) {
#pragma unroll
    for (i32 half = 0; half < 2; half++) MULTIPLY_TILE("k32", "e4m3");
    return sum;
}
#endif
#undef MULTIPLY_TILE
