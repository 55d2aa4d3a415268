// Residual and LayerNorm: output = LN(alpha * act(input + bias) + residual) * multiply + add, where
// LN(x) = (x - mean(x)) / sqrt(variance(x) + epsilon) * gammas + betas over each row (normalise.h). Arguments:
// LayerNormArguments (kernels.h).
//
//   grid           up to 1024 wide: ceil(rows / 8) blocks of 256 threads, 32 lanes per row (kernels _w256 to _w1024)
//                  up to 8192 wide: rows blocks of 256 threads, the whole block on one row (kernel _w8192)
//   a thread owns  VECTORS vectors of eight elements of its row, vector number lane + LANES * i, in registers
//   layouts        input, residual and output [rows][width]; the width is a multiple of 8, at most the kernel's
//   shared memory  none up to 1024 wide; 32 bytes for the wider rows
//   wave size      32 or 64: reductions within a wave stay within 32 lanes
//   memory         every element of input, residual and output moves once, at consecutive addresses; gammas, betas,
//                  bias, multiply and add come from the cache
#include "normalise.h"

#define NORM_THREADS 256

template <class T, i32 LANES, i32 VECTORS>
GPU_FUNCTION void layer_norm(const LayerNormArguments& a) {
    GPU_SHARED(float, partial, NORM_THREADS / ROW_LANES);
    normalise_row<T, LANES, VECTORS>(a, block_x() * (NORM_THREADS / LANES) + thread() / LANES, LANES, partial);
}

#define INSTANCE(type, T, width, lanes)                                                                        \
    GPU_KERNEL(NORM_THREADS, layer_norm_##type##_w##width, LayerNormArguments) {                               \
        layer_norm<T, lanes, width / (8 * lanes)>(arguments);                                                  \
    }
#define INSTANCES(type, T)                                                                                     \
    INSTANCE(type, T, 256, ROW_LANES)                                                                          \
    INSTANCE(type, T, 512, ROW_LANES)                                                                          \
    INSTANCE(type, T, 768, ROW_LANES)                                                                          \
    INSTANCE(type, T, 1024, ROW_LANES)                                                                         \
    INSTANCE(type, T, 8192, NORM_THREADS)
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
#undef INSTANCE
