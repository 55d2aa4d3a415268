// Input planes from bitboards: output[position][square][plane] = bit `square` of the plane's mask, times the plane's
// value. The square's `extra` constants follow its planes. Arguments: PlanesArguments (kernels.h).
//
//   grid           B blocks of 256 threads: a block computes one position
//   a thread owns  eight neighbouring elements at a time, which may belong to two squares
//   layouts        masks [B][mask_stride] of 64 bits, table [64][extra], output [B][64][planes + extra], channels last
//   shared memory  1024 bytes: the position's masks, at most 128
//   wave size      any: no lane reads another lane's registers
//   memory         per position 0.9 KB in and 64 * (planes + extra) elements out: 14 KB for 112 planes in 16 bits
#include "elements.h"
#include "kernels.h"

#define PLANES_THREADS 256
#define LARGEST_PLANES 128

template <class T>
GPU_FUNCTION void planes(const PlanesArguments& a) {
    GPU_SHARED(Words2, masks, LARGEST_PLANES);
    const i32 position = block_x();
    for (i32 plane = thread(); plane < a.planes; plane += PLANES_THREADS)
        masks[plane] = load8(a.masks + (i64)position * a.mask_stride + plane);
    const float value = a.valued_plane >= 0 ? load_one(a.values + position) : 1.0f;
    synchronise_block();

    const i32 width = a.planes + a.extra;
    T* output = (T*)a.output + (i64)position * 64 * width;
    for (i32 vector = thread(); vector < 8 * width; vector += PLANES_THREADS) {
        i32 square = vector * 8 / width, channel = vector * 8 % width;
        Eight x;
#pragma unroll
        for (i32 i = 0; i < 8; i++) {
            if (channel < a.planes) {
                const bool set = masks[channel].word[square / 32] >> square % 32 & 1;
                x.value[i] = set ? (channel == a.valued_plane ? value : 1.0f) : 0.0f;
            } else {
                x.value[i] = load_one((const T*)a.table + square * a.extra + channel - a.planes);
            }
            if (++channel == width) {
                channel = 0;
                square++;
            }
        }
        store_eight(output + vector * 8, x);
    }
}

#define INSTANCES(type, T)                                                                                     \
    GPU_KERNEL(PLANES_THREADS, planes_##type, PlanesArguments) {                                               \
        planes<T>(arguments);                                                                                  \
    }
INSTANCES(f32, float)
WITH_F16(INSTANCES(f16, Half))
WITH_BF16(INSTANCES(bf16, Bfloat))
#undef INSTANCES
