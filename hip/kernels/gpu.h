// The portability header. It declares everything that a kernel may use of the machine that it runs on.
//
// There are three platforms, and only this header refers to them: an AMD GPU (clang, hipcc or hiprtc, without ROCm
// headers and device libraries), an NVIDIA GPU (clang, without CUDA's headers; it makes PTX for five targets, see
// platform/nvidia.h), and the host (a C++ compiler; each GPU thread is a fiber, see host/platform.h). Each platform
// defines
//
//   GPU_FUNCTION                   qualifiers of a device function; GPU_METHOD those of a structure's function
//   GPU_KERNEL(threads, name, Arguments)  head of an entry point; its only parameter is `arguments`, by value
//   GPU_SHARED(Type, name, count)  memory shared by a block, aligned to 16 bytes
//   GPU_CONSTANT                   qualifiers of a constant table
//   GPU_HAS_F16, GPU_HAS_BF16      1 where there are kernels for that element type: not on NVIDIA GPUs without matrix
//                                  instructions for it. For f32 there are kernels everywhere
//   GPU_HAS_CHAINS                 1 where there are kernels that compute chains of GEMMs (gemm.hip)
//   WAVE                           lanes that run in lockstep: 32 or 64
//   thread(), block_x(), block_y() the thread's index in its block, the block's indices in the grid
//   synchronise_block()            a barrier for all threads of the block; orders shared memory
//   keep_order()                   the compiler moves no memory access across this call. That limits the number of
//                                  registers that pending loads occupy
//   exchange(value, mask)          the value of lane ^ mask; every lane must call it, and mask < 32 is a constant
//   power_of_two(x), reciprocal(x), reciprocal_root(x), maximum(a, b), minimum(a, b)
//   load16, load8, load4, load2, store16, store8, store4, store2
//                                  access that many bytes of global memory; the address is a multiple of that number
//   opaque(value)                  the compiler does not know the value from here on, so that it cannot compute in
//                                  advance, outside of a loop, what depends on it, and keep that in registers
//   half_pair, bfloat_pair         two floats, rounded to nearest even and packed, the first in the low half; bfloat_pair
//                                  only with GPU_HAS_BF16
//   low_half, high_half            the values of a pair of halves
//   add_halves(a, b)               the sums of two pairs of halves, rounded to fp16
//   dot_halves(a, b, sum)          sum + a . b, for two pairs of halves, without rounding in between to fp16
//   FP8_LARGEST                    defined where the machine multiplies numbers of 8 bits in the format e4m3: the largest
//                                  of them. It is 448 in OCP's variant, and 240 in AMD's older one (FNUZ)
//   fp8_quad(a, b, c, d)           (with FP8_LARGEST) four floats, rounded to nearest even and packed, the first in the
//                                  lowest byte. No magnitude may be larger than FP8_LARGEST by more than its rounding
//   GPU_HAS_DIES                   1 where neighbouring blocks run on dies with second-level caches of their own
//   GPU_ALWAYS_MASKS               1 where masks in every step of a GEMM take fewer instructions than a branch that skips
//                                  them, as compiled (README.md)
//   GPU_ASYNCHRONOUS_COPIES        1 where copy16_or_clear, end_copies and wait_for_copies exist
//   copy16_or_clear(to, from, copies)
//                                  starts to copy 16 bytes from global to shared memory, or to clear them
//   end_copies(), wait_for_copies<COUNT>()
//                                  end a group of copies; wait until at most COUNT groups of this thread are pending
//   load_matrices(row)             (with MATRIX_QUADS) loads four 8 x 8 matrices of 16-bit elements from shared memory.
//                                  Lane 8 m + r has the address of row r of matrix m, and word m of the result is the
//                                  elements 2 * (lane % 4) and the next of row lane / 4 of matrix m
//   float_bits, float_of_bits      convert a float to its bits and back
//   select_bytes(high, low, selector)
//                                  each byte of the result is the byte of low (0 to 3) or of high (4 to 7) that the
//                                  same byte of selector names
//   publish(), observe()           publish() before and observe() after a counter's change order global memory between
//                                  blocks: what a thread has stored before publish() can be read after observe() by a
//                                  block that has learned of it from the counter
//   add_to_counter(counter, value) adds to a counter in global memory that blocks share, and returns the old value
//   read_counter(counter)          the value of such a counter
//   wait_a_moment()                lets other waves run for a moment
//   in_memory(arguments)           the arguments of the entry point that is running, in memory whose arrays can be indexed
//                                  at run time
//   of_wave(value)                 a value that all lanes of a wave have, so that a branch on it is the wave's
//   settle(sum)                    makes sure that a tile's sums are computed before any later load begins
//   prefer_registers(value, first) (without MATRIX_QUADS) where an operand of a matrix instruction is best kept; may do
//                                  nothing
//   MATRIX_LAYOUT and, where it is not MATRIX_NONE, multiply_f16 and multiply_bytes, with GPU_HAS_BF16 multiply_bf16, and
//   with FP8_LARGEST multiply_fp8: see matrix.h
#pragma once

// How a platform's matrix instruction spreads a 16 x 16 tile over the lanes: see matrix.h.
#define MATRIX_NONE 0
#define MATRIX_REPLICATED 1
#define MATRIX_HALVES 2
#define MATRIX_QUARTERS 3
#define MATRIX_QUADS 4

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// The data of a 16-byte and of an 8-byte load or store.
struct alignas(16) Words4 {
    u32 word[4];
};
struct alignas(8) Words2 {
    u32 word[2];
};

#if defined(__AMDGCN__) || defined(__HIP__)
#include "platform/amd.h"
#elif defined(__NVPTX__)
#include "platform/nvidia.h"
#else
#include "host/platform.h"
#endif

// The attribute of a lambda that is always inlined.
#define GPU_INLINED __attribute__((always_inline))

#define LOG2_E 1.44269504088896340736f

// The thread's index in its wave, and the wave's index in its block.
GPU_FUNCTION i32 lane() {
    return thread() & (WAVE - 1);
}
GPU_FUNCTION i32 wave() {
    return thread() / WAVE;
}

// The number of a block among the `all` blocks of a launch, in the order in which they start. The counter is back at zero
// when all have started. All threads of a block must call it. `scratch` is a word of shared memory.
GPU_FUNCTION i32 number_of_block(u32* counter, u32 all, u32* scratch) {
    if (thread() == 0) {
        const u32 number = add_to_counter(counter, 1);
        if (number == all - 1) add_to_counter(counter, 0u - all);
        *scratch = number;
    }
    synchronise_block();
    const i32 number = of_wave(*scratch);
    // The scratch word is used for something else afterwards.
    synchronise_block();
    return number;
}

// Waits until `expected` blocks have ended (end_block). The block may then read what they have stored. All threads of a
// block must call it.
GPU_FUNCTION void wait_for_blocks(const u32* counter, u32 expected) {
    if (expected == 0) return;
    if (thread() == 0) {
        while (read_counter(counter) < expected) wait_a_moment();
    }
    synchronise_block();
    observe();
}

// Counts this block as ended. The last of `all` blocks sets the counter back to zero. All threads of a block must call
// it.
GPU_FUNCTION void end_block(u32* counter, u32 all) {
    publish();
    synchronise_block();
    if (thread() != 0) return;
    if (add_to_counter(counter, 1) == all - 1) add_to_counter(counter, 0u - all);
}

// Counts the blocks that come here. Returns, in all threads of a block, whether this block is the last of `expected`.
// The last block may read what the others have stored, and it sets the counter back to zero. All threads of a block
// must call it. `scratch` is a word of shared memory.
GPU_FUNCTION bool is_last_block(u32* counter, u32 expected, u32* scratch) {
    publish();
    synchronise_block();
    if (thread() == 0) {
        const bool ends = add_to_counter(counter, 1) == expected - 1;
        if (ends) add_to_counter(counter, 0u - expected);
        *scratch = ends;
    }
    synchronise_block();
    const bool is_last = of_wave(*scratch) != 0;
    if (is_last) observe();
    return is_last;
}

// The number of lanes that share a row of a matrix. It is 32 even where a wave has 64 lanes, so that grids do not
// depend on the wave size.
#define ROW_LANES 32

// The sum and the maximum over COUNT neighbouring lanes (a power of two, at most 32). Every lane gets the result.
template <i32 COUNT>
GPU_FUNCTION float sum_over_lanes(float value) {
#pragma unroll
    for (i32 mask = 1; mask < COUNT; mask *= 2) value += exchange(value, mask);
    return value;
}
template <i32 COUNT>
GPU_FUNCTION float maximum_over_lanes(float value) {
#pragma unroll
    for (i32 mask = 1; mask < COUNT; mask *= 2) value = maximum(value, exchange(value, mask));
    return value;
}
