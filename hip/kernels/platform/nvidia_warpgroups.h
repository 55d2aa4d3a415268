// Products of whole warpgroups: four waves, of which the first is a multiple of four. Only sm_90a has them, for cards
// of compute capability 9.0. PTX ISA, "Asynchronous warpgroup level matrix instructions".
#pragma once

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GPU_HAS_WARPGROUPS 1
#include "../gpu.h"

// Memory shared by a block, as much as the launch requests, at a multiple of 1024 bytes.
#define GPU_LAUNCH_SHARED(Type, name) extern __attribute__((shared, aligned(1024))) Type name[]

// The number of blocks in x.
GPU_FUNCTION i32 blocks_x() {
    return __nvvm_read_ptx_sreg_nctaid_x();
}

// A barrier for the lanes of a wave, which also orders their accesses to memory.
GPU_FUNCTION void synchronise_wave() {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

// Barriers in shared memory: eight bytes at an address (shared_address). A phase ends when so many threads have
// arrived, and the next one begins. Phases have parities 0 and 1 in turn, from 0 on. PTX ISA, "mbarrier".
GPU_FUNCTION void make_barrier(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(arrivals) : "memory");
}
GPU_FUNCTION void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}
// The thread arrives when all its copies are complete.
GPU_FUNCTION void arrive_when_copied(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" : : "r"(barrier) : "memory");
}
// Waits until the phase with this parity has ended. Before any phase has ended, that is so for parity 1.
GPU_FUNCTION void wait_for_phase(u32 barrier, u32 parity) {
    asm volatile("{ .reg .pred ended; again%=: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1; "
                 "@!ended bra again%=; }"
                 :
                 : "r"(barrier), "r"(parity)
                 : "memory");
}

// Makes what this thread sees in shared memory visible to the products that it starts from here on.
GPU_FUNCTION void observe_for_products() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Begins a group of products. Until the group is complete, nothing else touches the sums, and nothing writes what it
// reads.
GPU_FUNCTION void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
GPU_FUNCTION void end_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most COUNT groups of this warpgroup are pending.
template <i32 COUNT>
GPU_FUNCTION void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(COUNT) : "memory");
}

// An operand in shared memory, at a multiple of 1024 bytes: rows of 128 bytes, in which vector v of row r is at place v
// ^ (r % 8). PTX ISA, "Matrix descriptor": the address, the distance from eight rows to the next eight, and the swizzle
// of 128 bytes. Addresses and distances are in units of 16 bytes, also when they are added to an operand.
GPU_FUNCTION u64 operand_of_products(const void* at) {
    return (u64)1 << 62 | (u64)(1024 / 16) << 32 | (u64)1 << 16 | (u64)(shared_address(at) / 16);
}

#define SUMS_8(i)                                                                                              \
    "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), "+f"(sums[i + 5]), \
        "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)
#define NAMES_64                                                                                               \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                   \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                         \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                         \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_96 NAMES_64 ", "                                                                                 \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                         \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_128 NAMES_96 ", "                                                                                \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "             \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// Starts the product of 64 rows of one operand and all rows of another, 16 elements of each, which is added to the
// sums. Without `adds` the sums start at zero. Waiting for the product does not tell the compiler that the sums change:
// complete_products does.
#define MULTIPLY_WARPGROUP(columns, type, names, own_name, other_name, adds_name, ...)                         \
    asm volatile("{ .reg .pred adds; setp.ne.b32 adds, " adds_name ", 0; "                                     \
                 "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" names "}, " own_name \
                 ", " other_name ", adds, 1, 1, 0, 0; }"                                                       \
                 : __VA_ARGS__                                                                                 \
                 : "l"(own), "l"(other), "r"((u32)adds)                                                        \
                 : "memory")
#define MULTIPLY_WARPGROUPS(name, type)                                                                        \
    GPU_FUNCTION void name(float (&sums)[96], u64 own, u64 other, bool adds) {                                 \
        MULTIPLY_WARPGROUP("192", type, NAMES_96, "%96", "%97", "%98", SUMS_32(0), SUMS_32(32), SUMS_32(64));  \
    }                                                                                                          \
    GPU_FUNCTION void name(float (&sums)[128], u64 own, u64 other, bool adds) {                                \
        MULTIPLY_WARPGROUP("256", type, NAMES_128, "%128", "%129", "%130", SUMS_32(0), SUMS_32(32),            \
                           SUMS_32(64), SUMS_32(96));                                                          \
    }
MULTIPLY_WARPGROUPS(multiply_warpgroup_f16, "f16")
MULTIPLY_WARPGROUPS(multiply_warpgroup_bf16, "bf16")

// Waits until all groups are complete. The sums may be read only after this.
GPU_FUNCTION void complete_products(float (&sums)[96]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : SUMS_32(0), SUMS_32(32), SUMS_32(64) : : "memory");
}
GPU_FUNCTION void complete_products(float (&sums)[128]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : SUMS_32(0), SUMS_32(32), SUMS_32(64), SUMS_32(96) : : "memory");
}
#undef MULTIPLY_WARPGROUPS
#undef MULTIPLY_WARPGROUP
#undef SUMS_8
#undef SUMS_32
#undef NAMES_64
#undef NAMES_96
#undef NAMES_128

#else
#define GPU_HAS_WARPGROUPS 0
#endif
