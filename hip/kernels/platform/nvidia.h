// NVIDIA GPUs: sm_61 (Pascal; no matrix instructions), sm_75 (Turing), sm_80 (Ampere and later), sm_89 (Ada and later)
// and sm_90a (Hopper only). For clang's NVPTX target. Uses only the compiler's builtins and inline PTX, and nothing of
// CUDA. NVIDIA's driver compiles the PTX for the card, also for cards that are newer than the target, but for sm_90a,
// which serves cards of 9.0 alone.
//
// | target | serves | matrix instructions | asynchronous copies | kernels |
// |---|---|---|---|---|
// | sm_61 | Pascal, Volta, Turing without tensor cores (GTX 16) | none are used | no | f32 |
// | sm_75 | Turing | fp16, bytes | no | f32, f16 |
// | sm_80 | Ampere and all later ones | fp16, bf16, bytes | yes | f32, f16, bf16 |
// | sm_89 | Ada and all later ones | also e4m3 | yes | what scripts/kernels/ptx.sh keeps: those for e4m3 |
// | sm_90a | Hopper, beside sm_80 | of warpgroups (nvidia_warpgroups.h) | yes | gemm_warpgroups.hip |
#pragma once

#ifndef __NVPTX__
#error "this platform needs clang's NVPTX target"
#endif

#define GPU_METHOD __attribute__((device, always_inline)) inline
#define GPU_FUNCTION static GPU_METHOD
// The arguments are constants in a memory of their own, whose arrays the machine can index at run time. clang 19 cannot
// say so (CUDA's __grid_constant__), and copies arguments that are indexed to each thread's stack. Only chains do that,
// so that they are left out unless GPU_HAS_CHAINS is defined on the command line (scripts/kernels/ptx.sh --chains).
#define GPU_KERNEL(threads, name, Arguments)                                                                   \
    extern "C" __attribute__((global, launch_bounds(threads))) void name(const Arguments arguments)
#ifndef GPU_HAS_CHAINS
#define GPU_HAS_CHAINS 0
#endif
#define GPU_HAS_F16 (__CUDA_ARCH__ >= 750)
#define GPU_HAS_BF16 (__CUDA_ARCH__ >= 800)
#define GPU_HAS_DIES 0
#define GPU_ALWAYS_MASKS 1
#define GPU_SHARED(Type, name, count) static __attribute__((shared, aligned(16))) Type name[count]
#define GPU_CONSTANT static __attribute__((device)) const
#define GLOBAL_MEMORY __attribute__((address_space(1)))
#define SHARED_MEMORY __attribute__((address_space(3)))

#define WAVE 32

typedef u32 native_words2 __attribute__((ext_vector_type(2)));
typedef u32 native_words4 __attribute__((ext_vector_type(4)));

GPU_FUNCTION i32 thread() {
    return __nvvm_read_ptx_sreg_tid_x();
}
GPU_FUNCTION i32 block_x() {
    return __nvvm_read_ptx_sreg_ctaid_x();
}
GPU_FUNCTION i32 block_y() {
    return __nvvm_read_ptx_sreg_ctaid_y();
}
GPU_FUNCTION void synchronise_block() {
    __syncthreads();
}

// The fence is for the memory of one GPU, in both directions.
GPU_FUNCTION void publish() {
    __nvvm_membar_gl();
}
GPU_FUNCTION void observe() {
    __nvvm_membar_gl();
}
GPU_FUNCTION u32 of_wave(u32 value) {
    return value;
}
GPU_FUNCTION u32 add_to_counter(u32* counter, u32 value) {
    return (u32)__nvvm_atom_add_gen_i((i32*)counter, (i32)value);
}
GPU_FUNCTION u32 read_counter(const u32* counter) {
    return *(const volatile GLOBAL_MEMORY u32*)counter;
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
    return __nvvm_ex2_approx_ftz_f(x);
}
GPU_FUNCTION float reciprocal(float x) {
    return __nvvm_rcp_approx_ftz_f(x);
}
GPU_FUNCTION float reciprocal_root(float x) {
    return __nvvm_rsqrt_approx_ftz_f(x);
}
GPU_FUNCTION float maximum(float a, float b) {
    return __builtin_fmaxf(a, b);
}
GPU_FUNCTION float minimum(float a, float b) {
    return __builtin_fminf(a, b);
}
GPU_FUNCTION float exchange(float value, i32 mask) {
    // All 32 lanes take part, and the exchange is among all 32.
    return __nvvm_shfl_sync_bfly_f32(0xffffffffu, value, mask, 0x1f);
}

// The cast to global memory avoids generic instructions, which have to find out which memory each address is in.
GPU_FUNCTION Words4 load16(const void* from) {
    const native_words4 words = *(const GLOBAL_MEMORY native_words4*)from;
    return {words[0], words[1], words[2], words[3]};
}
GPU_FUNCTION Words2 load8(const void* from) {
    const native_words2 words = *(const GLOBAL_MEMORY native_words2*)from;
    return {words[0], words[1]};
}
// NVIDIA's assembler chooses the addresses by itself.
GPU_FUNCTION void opaque(u32&) {}
GPU_FUNCTION u32 load4(const void* from) {
    return *(const GLOBAL_MEMORY u32*)from;
}
GPU_FUNCTION u16 load2(const void* from) {
    return *(const GLOBAL_MEMORY u16*)from;
}
GPU_FUNCTION void store16(void* to, Words4 value) {
    *(GLOBAL_MEMORY native_words4*)to = {value.word[0], value.word[1], value.word[2], value.word[3]};
}
GPU_FUNCTION void store8(void* to, Words2 value) {
    *(GLOBAL_MEMORY native_words2*)to = {value.word[0], value.word[1]};
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
// Each byte of the result is the byte that the same byte of `selector` names. The instruction takes a selector of four
// bits for each byte.
GPU_FUNCTION u32 select_bytes(u32 high, u32 low, u32 selector) {
    const u32 nibbles =
        (selector & 7) | (selector >> 8 & 7) << 4 | (selector >> 16 & 7) << 8 | (selector >> 24 & 7) << 12;
    return __nvvm_prmt(low, high, nibbles);
}

GPU_FUNCTION u32 half_pair(float low, float high) {
    u32 pair;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
    asm("{ .reg .f16 low, high; cvt.rn.f16.f32 low, %1; cvt.rn.f16.f32 high, %2; mov.b32 %0, {low, high}; }"
        : "=r"(pair)
        : "f"(low), "f"(high));
#endif
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
GPU_FUNCTION float dot_halves(u32 a, u32 b, float sum) {
    return sum + low_half(a) * low_half(b) + high_half(a) * high_half(b);
}
#if GPU_HAS_BF16
GPU_FUNCTION u32 bfloat_pair(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#endif
// sum + a . b for the four signed bytes of each word.
GPU_FUNCTION u32 dot_bytes(u32 a, u32 b, u32 sum) {
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

// The address of shared memory in the instructions that name it.
GPU_FUNCTION u32 shared_address(const void* at) {
    return (u32)(u64)(const SHARED_MEMORY char*)at;
}
#if __CUDA_ARCH__ >= 800
#define GPU_ASYNCHRONOUS_COPIES 1
GPU_FUNCTION void copy16_or_clear(void* to, const void* from, bool copies) {
    // What the instruction does not copy of the 16 bytes, it clears.
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(copies ? 16 : 0)
                 : "memory");
}
GPU_FUNCTION void end_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <i32 COUNT>
GPU_FUNCTION void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(COUNT) : "memory");
}
#else
#define GPU_ASYNCHRONOUS_COPIES 0
#endif

#if __CUDA_ARCH__ < 750
#define MATRIX_LAYOUT MATRIX_NONE
#else
#define MATRIX_LAYOUT MATRIX_QUADS

// The instruction ldmatrix. The PTX ISA describes which lane gives and gets what.
GPU_FUNCTION Words4 load_matrices(const Words4* row) {
    Words4 loaded;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(loaded.word[0]), "=r"(loaded.word[1]), "=r"(loaded.word[2]), "=r"(loaded.word[3])
                 : "r"(shared_address(row))
                 : "memory");
    return loaded;
}

// Does nothing, because NVIDIA's assembler schedules loads within the available registers by itself.
template <class Accumulator>
GPU_FUNCTION void settle(Accumulator&) {}

// The words of a fragment (matrix.h), for elements of 16 bits, or two bytes in the place of each:
//   word 0: rows 0 to 7, elements 0 to 7; word 1: rows 8 to 15, the same elements
//   words 2 and 3: the same rows, elements 8 to 15
// Sums 0 to 3 belong to rows 0 to 7 of the other side, and 4 to 7 to its rows 8 to 15. Of each four, the first two belong
// to rows 0 to 7 of the own side. The own side is M of the instruction, the other side is N, and a lane's place in each
// matrix of 8 x 8 is the one that ldmatrix gives. scripts/kernels/fragments.py compares this with the PTX ISA's figures.
#if __CUDA_ARCH__ >= 800

// Two mma.sync. Each takes 8 of the other side's 16 rows. PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point
// type" and "Matrix fragments for mma.m16n8k32".
#define MULTIPLY_TILE(depth, type)                                                                             \
    asm("mma.sync.aligned.m16n8" depth ".row.col.f32." type "." type ".f32 "                                   \
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

#else

// Turing's instructions take half as many elements along the summed axis, and that for bytes also half of the own side's
// rows. PTX ISA, "Matrix fragments for mma.m16n8k8" and "Matrix fragments for mma.m8n8k16".
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_f16(Fragment own, Fragment other, Accumulator sum) {
#pragma unroll
    for (i32 half = 0; half < 2; half++) {
#pragma unroll
        for (i32 k = 0; k < 2; k++) {
            asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                : "+f"(sum.value[4 * half]), "+f"(sum.value[4 * half + 1]), "+f"(sum.value[4 * half + 2]),
                  "+f"(sum.value[4 * half + 3])
                : "r"(own.word[2 * k]), "r"(own.word[2 * k + 1]), "r"(other.word[half + 2 * k]));
        }
    }
    return sum;
}
template <class Fragment, class Accumulator>
GPU_FUNCTION Accumulator multiply_bytes(Fragment own, Fragment other, Accumulator sum) {
#pragma unroll
    for (i32 half = 0; half < 2; half++) {
#pragma unroll
        for (i32 part = 0; part < 2; part++) {
            float* const sums = sum.value + 4 * half + 2 * part;
            u32 first = float_bits(sums[0]), second = float_bits(sums[1]);
#pragma unroll
            for (i32 k = 0; k < 2; k++) {
                asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                    : "+r"(first), "+r"(second)
                    : "r"(own.word[2 * k + part]), "r"(other.word[half + 2 * k]));
            }
            sums[0] = float_of_bits(first);
            sums[1] = float_of_bits(second);
        }
    }
    return sum;
}

#endif
#endif  // MATRIX_LAYOUT
