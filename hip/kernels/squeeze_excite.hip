// Squeeze-and-excitation and the end of a residual block, in one pass over the board:
//
//   hidden = act(squeeze * means + squeeze_bias), where squeeze is a matrix
//   (scales, shifts) = excite * hidden + excite_bias, where excite is a matrix
//   output = act(sigmoid(scales) * branch + shifts + residual)
//
// Arguments: SqueezeExciteArguments (kernels.h). The means come from winograd_output.
//   grid           B blocks of 256 threads: a block computes one position
//   a thread owns  squeeze: every 32nd vector of eight channels of a row, 32 lanes per row; excite: pairs of
//                  neighbouring outputs, 256 pairs apart; output: vectors of eight elements, 256 vectors apart
//   layouts        branch, residual and output [B][64][channels]; squeeze [hidden][channels]; excite, transposed,
//                  [hidden][2 * channels]; at most 1024 channels and 512 hidden units
//   shared memory  14336 bytes: means, hidden, scales and shifts
//   wave size      32 or 64: reductions stay within 32 lanes
//   memory         per position 64 * channels elements each of branch, residual and output; all positions share the two
//                  small matrices in the cache
#include "activations.h"

#define EXCITE_THREADS 256
#define LARGEST_CHANNELS 1024
#define LARGEST_HIDDEN 512

template <class T>
GPU_FUNCTION void squeeze_excite(const SqueezeExciteArguments& a) {
    GPU_SHARED(float, means, LARGEST_CHANNELS);
    GPU_SHARED(float, hidden, LARGEST_HIDDEN);
    GPU_SHARED(float, factors, 2 * LARGEST_CHANNELS);
    const i32 position = block_x();
    for (i32 i = thread(); i < a.channels; i += EXCITE_THREADS)
        means[i] = load_one(a.means + (i64)position * a.channels + i);
    synchronise_block();

    for (i32 row = thread() / ROW_LANES; row < a.hidden; row += EXCITE_THREADS / ROW_LANES) {
        float sum[1] = {};
        for (i32 i = thread() % ROW_LANES * 8; i < a.channels; i += ROW_LANES * 8) {
            const Eight weights = load_eight((const T*)a.squeeze + (i64)row * a.channels + i);
#pragma unroll
            for (i32 k = 0; k < 8; k++) sum[0] += weights.value[k] * means[i + k];
        }
        sum[0] = sum_over_lanes<ROW_LANES>(sum[0]) + load_one((const T*)a.squeeze_bias + row);
        activate(a.activation, sum);
        if (thread() % ROW_LANES == 0) hidden[row] = sum[0];
    }
    synchronise_block();

    for (i32 i = 2 * thread(); i < 2 * a.channels; i += 2 * EXCITE_THREADS) {
        float first, second;
        load_two((const T*)a.excite_bias + i, first, second);
        for (i32 k = 0; k < a.hidden; k++) {
            float first_weight, second_weight;
            load_two((const T*)a.excite + (i64)k * 2 * a.channels + i, first_weight, second_weight);
            first += first_weight * hidden[k];
            second += second_weight * hidden[k];
        }
        factors[i] = i < a.channels ? sigmoid(first) : first;
        factors[i + 1] = i < a.channels ? sigmoid(second) : second;
    }
    synchronise_block();

    const i64 start = (i64)position * 64 * a.channels;
    for (i32 i = thread() * 8; i < 64 * a.channels; i += EXCITE_THREADS * 8) {
        const i32 channel = i % a.channels;
        Eight x = load_eight((const T*)a.branch + start + i);
        const Eight residual = load_eight((const T*)a.residual + start + i);
#pragma unroll
        for (i32 k = 0; k < 8; k++) {
            x.value[k] = factors[channel + k] * x.value[k] + factors[a.channels + channel + k] + residual.value[k];
        }
        activate(a.activation, x.value);
        store_eight((T*)a.output + start + i, x);
    }
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(EXCITE_THREADS, squeeze_excite_##type, SqueezeExciteArguments) {                                \
        squeeze_excite<T>(arguments);                                                                          \
    }
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
