// GEMMs of few rows, where moving the weights takes the time, with weights of 8 bits and arithmetic in 16 bits.
// Arguments: GemmArguments, and ChainArguments for gemm_chain_byte_weights (kernels.h).
//
//   gemm_byte_weights:        the same as gemm (gemm.hip) with weights[n][k] = scales[n] * (bytes[n][k] - 128)
//   gemm_chain_byte_weights:  the same as gemm_chain, where all GEMMs have such weights
//
//   grid, tile     those of gemm.hip. There are no tiles of more than 64 x 64, which only GEMMs of many rows need
//   types          f16, bf16; sums are fp32
//   layouts        those of gemm.hip, except that weights are bytes, preshuffled, with the scales behind them
//                  (GemmArguments)
//   shared memory  2 * (rows + columns) * 64 bytes, or twice that on NVIDIA for some tiles: a byte becomes an element of T
//                  on its way
//   memory         a tile reads rows * inputs elements and columns * inputs bytes
//
// The code is that of gemm.hip, with another kind of weights (gemm_weights.h). Widening takes one instruction per weight
// in fp16 and two and a half in bf16, each for 32 or 64 lanes, while a weight takes part in 32 or 64 multiplications.
#include "gemm.hip"

#define BYTE_WEIGHTS(type, T, Core, rows, columns, threads, step_bytes)                                        \
    GPU_KERNEL(threads, gemm_byte_weights_##type##_##rows##x##columns##_##threads, GemmArguments) {            \
        using Tile = Gemm<T, Core, rows, columns, threads, step_bytes, ByteWeights>;                           \
        GPU_SHARED(Words4, shared, Tile::STAGES * Tile::STAGE);                                                \
        const i32 gemm = block_y() / arguments.splits, split = block_y() % arguments.splits;                   \
        const i32 tile = Tile::tile_of_block(arguments, block_x());                                            \
        Tile::compute(arguments, arguments.partial, {tile, gemm, split}, shared);                              \
    }
#if GPU_HAS_CHAINS
#define BYTE_WEIGHTS_AND_CHAIN(type, T, Core, rows, columns, threads, step_bytes)                              \
    BYTE_WEIGHTS(type, T, Core, rows, columns, threads, step_bytes)                                            \
    GPU_KERNEL(threads, gemm_chain_byte_weights_##type##_##rows##x##columns##_##threads, ChainArguments) {     \
        using Tile = Gemm<T, Core, rows, columns, threads, step_bytes, ByteWeights>;                           \
        GPU_SHARED(Words4, shared, Tile::STAGES * Tile::STAGE);                                                \
        gemm_chain<T, Tile, threads>(in_memory(arguments), shared);                                            \
    }
#else
#define BYTE_WEIGHTS_AND_CHAIN BYTE_WEIGHTS
#endif
#if MATRIX_LAYOUT == MATRIX_NONE
#define BYTE_WEIGHTS_CORE PlainCore
#else
#define BYTE_WEIGHTS_CORE MatrixCore
#endif
#if MATRIX_LAYOUT == MATRIX_QUADS
// With steps of 128 bytes, the chain's kernel would spill.
#define INSTANCES(type, T)                                                                                     \
    BYTE_WEIGHTS(type, T, BYTE_WEIGHTS_CORE, 64, 64, 128, 128)                                                 \
    BYTE_WEIGHTS_AND_CHAIN(type, T, BYTE_WEIGHTS_CORE, 64, 32, 128, 64)                                        \
    BYTE_WEIGHTS(type, T, BYTE_WEIGHTS_CORE, 16, 32, 32, 128)
#else
#define INSTANCES(type, T)                                                                                     \
    BYTE_WEIGHTS(type, T, BYTE_WEIGHTS_CORE, 64, 64, 128, 64)                                                  \
    BYTE_WEIGHTS_AND_CHAIN(type, T, BYTE_WEIGHTS_CORE, 64, 32, 128, 64)                                        \
    BYTE_WEIGHTS(type, T, BYTE_WEIGHTS_CORE, 32, 64, 128, 64)
#endif
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
#undef BYTE_WEIGHTS_CORE
#undef BYTE_WEIGHTS_AND_CHAIN
#undef BYTE_WEIGHTS
