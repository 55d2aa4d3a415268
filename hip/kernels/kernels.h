// The contract between the kernels and the host: names, arguments, launch shapes. Plain C;
// src/backend/gpu/runtime/ffi/arguments.rs mirrors it.
//
// An entry point is called `<kernel>_<T>`, where T is the element type: f32, f16 or bf16 (float, Half or Bfloat in the
// source). `preshuffle` has no type. All its arguments are in one structure, which is passed by value. B is the number of positions. Every
// pointer points to device memory and is a multiple of 16 bytes. Unless a comment says otherwise, so is the start of
// every row: widths and strides, which count elements, are multiples of 8. Launches request shared memory only
// for GEMMs by whole warpgroups.
//
// | kernel | arguments | threads | grid | what it computes |
// |---|---|---|---|---|
// | planes | PlanesArguments | 256 | B | bitboards -> input planes |
// | layer_norm_T_w{256,512,768,1024} | LayerNormArguments | 256 | ceil(rows / 8) | gate(LN(alpha act(x + bias) + residual)), rows at most that wide |
// | layer_norm_T_w8192 | LayerNormArguments | 256 | rows | the same for wider rows |
// | activation | ActivationArguments | 256 | ceil(rows * width / 2048) | gate(act(x + bias)) |
// | softmax | ActivationArguments | 256 | ceil(rows / 8) | softmax(x + bias) over each row, any width |
// | attention_T_d{8,16,32,64,96,128} | AttentionArguments | 128 | heads, B | softmax(scale * Q K^T + logits) V; f16, bf16 |
// | attention_T_d{8,16,32}_x2 | AttentionArguments | 256 | ceil(heads / 2), B | the same, two heads in a block |
// | attention_other_T_d32 | AttentionArguments | 128 | heads, B | the same for heads of 32, where keys take the other way: through the cache or shared memory; f16, bf16 |
// | attention_any | AttentionArguments | 128 | heads, B | the same for any head dimension, and for f32 |
// | dense | DenseArguments | 256 | outputs / 16, ceil(rows / 16) | GEMM of few rows; f16, bf16 |
// | norm_dense | DenseArguments | 256 | outputs / 16, ceil(rows / 16) | the same of LN(act(x + bias)); f16, bf16 |
// | gemm_T_{rows}x{columns}_{threads} | GemmArguments | threads | tiles, gemms * splits | any GEMM, in tiles of that size |
// | gemm_T_128x{192,256}_384 | GemmArguments | 384 | at most the multiprocessors, gemms * splits | the same, for many rows; f16, bf16 (gemm_warpgroups.hip) |
// | gemm_chain_T_{rows}x{columns}_{threads} | ChainArguments | threads | blocks | up to three GEMMs in a row, and LayerNorms of their results; f16, bf16 |
// | gemm_byte_weights_T_{rows}x{columns}_{threads} | GemmArguments | threads | tiles, splits | a GEMM with weights of 8 bits; f16, bf16 |
// | gemm_chain_byte_weights_T_{rows}x{columns}_{threads} | ChainArguments | threads | blocks | a chain of such GEMMs; f16, bf16 |
// | gemm_sum | GemmArguments | 256 | ceil(rows * ceil(outputs / 8) / 256), gemms | the end of a GEMM with splits |
// | gemm_any | GemmArguments | 256 | ceil(rows / 16) * ceil(outputs / 16), gemms | the same without multiples of 8 |
// | preshuffle | PreshuffleArguments | 256 | ceil(vectors / 256), gemms | weights in the order in which gemm reads them; one kernel for all types |
// | quantise | QuantiseArguments | 256 | ceil(rows / 8) | rows rounded to 8 bits; f16 |
// | gemm_bytes_T_{rows}x{columns}_{threads} | GemmBytesArguments | threads | tiles | a GEMM of 8-bit integers; f16 |
// | quantise_fp8 | QuantiseArguments | 256 | ceil(rows / 8) | rows rounded to e4m3; f16 |
// | gemm_fp8_T_{rows}x{columns}_{threads} | GemmBytesArguments | threads | tiles | a GEMM of numbers in e4m3; f16 |
// | attention_policy | AttentionPolicyArguments | 512 | B | softmax over the legal moves, from queries and keys |
// | policy | PolicyArguments | 512 | B | softmax over the legal moves, from a row of logits |
// | scalar_head | ScalarHeadArguments | 256 | ceil(B / 8) | the last layer of the value and moves-left heads |
// | winograd_input | WinogradArguments | 128 | ceil(channels / 64), B | board -> 36 components |
// | winograd_output | WinogradArguments | 128 | ceil(channels / 64), B | 36 sums -> board, bias, residual, act, means |
// | convolution_T_{rows}x{columns} | ConvolutionArguments | 128 | blocks | board -> components -> sums -> board |
// | squeeze_excite | SqueezeExciteArguments | 256 | B | squeeze-and-excitation, residual, act |
//
// attention_T_d*, attention_other, dense and norm_dense exist only on machines with a matrix instruction (MATRIX_LAYOUT
// in gpu.h), so gfx906 and gfx1030 do not have them. gfx942 and gfx950 (GPU_HAS_DIES in gpu.h) have attention_T_d*_x2
// instead of attention_T_d* for the same head dimensions. quantise_fp8 and gemm_fp8 exist only on machines that multiply
// e4m3 (FP8_LARGEST in gpu.h): gfx12, gfx942, gfx950, and NVIDIA's from sm_89 on. NVIDIA's sm_75 has no kernels of bf16,
// and sm_61 only those of f32 (GPU_HAS_F16 in gpu.h). Only sm_90a has gemm_T_128x{192,256}_384, whose launches request shared
// memory: WarpgroupGemm::LAUNCH_BYTES. No PTX for NVIDIA has gemm_chain and gemm_chain_byte_weights
// (GPU_HAS_CHAINS).
#pragma once

typedef int rukh_i32;

// The values of `activation`: elementwise functions.
enum {
    ACTIVATION_NONE = 0,
    ACTIVATION_RELU = 1,
    ACTIVATION_RELU_2 = 2,  // relu(x)^2
    ACTIVATION_TANH = 3,
    ACTIVATION_SIGMOID = 4,
    ACTIVATION_SELU = 5,
    ACTIVATION_MISH = 6,
    ACTIVATION_SWISH = 7,
};

// output [B][64][planes + extra] T: bit `square` of masks[plane] * (plane == valued_plane ? values[position] : 1), then
// row `square` of the table. The width planes + extra need not be a multiple of 8.
typedef struct PlanesArguments {
    const unsigned long long* masks;  // [B][mask_stride]; bit 8 * rank + file is that square
    const float* values;              // [B]: the value of plane `valued_plane`
    const void* table;                // [64][extra] T; null where extra is 0
    void* output;
    rukh_i32 mask_stride;   // masks per position: 112
    rukh_i32 planes;        // number of masks used, from the first: 112, or 12 for the newest pieces; at most 128
    rukh_i32 extra;         // constants after each square's planes: 64 with a positional table
    rukh_i32 valued_plane;  // 109, the rule-50 counter; -1 for none
} PlanesArguments;

// output [rows][width] T = act(input + bias) * multiply + add
typedef struct ActivationArguments {
    const void* input;     // [rows][width] T; may be the output
    const void* bias;      // [bias_rows][width] T, row number row % bias_rows; null for none
    const void* multiply;  // [64][width] T, row number row % 64; null for none, and then `add` is null, too
    const void* add;       // [64][width] T
    void* output;
    rukh_i32 rows;
    rukh_i32 width;
    rukh_i32 bias_rows;  // 1, or 64 for one bias per square
    rukh_i32 activation;
} ActivationArguments;

// output [rows][width] T = LN(alpha * act(input + bias) + residual) * multiply + add,
// LN(x) = (x - mean(x)) / sqrt(variance(x) + epsilon) * gammas + betas
typedef struct LayerNormArguments {
    const void* input;     // [rows][width] T
    const void* bias;      // as in ActivationArguments
    const void* residual;  // [rows][width] T; may be the output; null for none
    const void* gammas;    // [width] T
    const void* betas;     // [width] T
    const void* multiply;  // as in ActivationArguments
    const void* add;
    void* output;  // may be the input
    rukh_i32 rows;
    rukh_i32 width;
    rukh_i32 bias_rows;
    rukh_i32 activation;
    float alpha;
    float epsilon;
} LayerNormArguments;

// output [rows][outputs] T = x weights^T, where x is the input, or for norm_dense LN(act(input + bias)) of each row.
typedef struct DenseArguments {
    const void* input;    // [rows][inputs] T
    const void* weights;  // [outputs][inputs] T
    void* output;
    const void* bias;    // [inputs] T; null for none. Only norm_dense reads bias, gammas, betas, activation, epsilon
    const void* gammas;  // [inputs] T
    const void* betas;   // [inputs] T
    rukh_i32 rows;
    rukh_i32 inputs;   // multiple of 32, and at most 512 for norm_dense
    rukh_i32 outputs;  // multiple of 16
    rukh_i32 activation;
    float epsilon;
    rukh_i32 reserved;
} DenseArguments;

// output[r][n] = act(sum over k of x[r][k] * weights[n][k] + bias[n]) * multiply[r % 64][n] + add[r % 64][n]
//                + residual[r][n], for each of `gemms` GEMMs.
// Sizes and strides count elements. Except for gemm_any, inputs, x_stride and weights_stride are multiples of 8.
//
// Preshuffled weights are [outputs / 16][row bytes / 64][16][64 bytes], where both quotients are rounded up, and
// weights_stride is the row with that rounding. What lies beyond the outputs and the inputs is not read.
//
// The weights of gemm_byte_weights are [outputs / 16][inputs / 32][16][32] bytes, where both quotients are rounded up and
// weights_stride is inputs with that rounding, and then the outputs' scales: [outputs, rounded up to a multiple of 8] float.
// A weight is its output's scale times byte - 128. `gemms` is 1, and weights_batch and is_preshuffled are not used.
typedef struct GemmArguments {
    const void* x;         // [rows][x_stride] T
    const void* weights;   // [outputs][weights_stride] T
    void* output;          // [rows][output_stride] T; a row's start may be at any element
    const void* bias;      // [outputs] T; null for none
    const void* multiply;  // [64][output_stride] T, a row for each square; null for none, and then `add` is null, too
    const void* add;       // [64][output_stride] T
    const void* residual;  // laid out as the output, and may be the output; null for none
    float* partial;        // [splits][gemms][rows][outputs, rounded up to a multiple of 8]; unused if splits is 1
    long long x_batch;     // the distances from one GEMM's matrices to the next GEMM's
    long long weights_batch;
    long long output_batch;
    rukh_i32 rows;
    rukh_i32 outputs;
    rukh_i32 inputs;
    rukh_i32 x_stride;
    rukh_i32 weights_stride;
    rukh_i32 output_stride;
    rukh_i32 gemms;
    rukh_i32 splits;  // split-K: the number of parts of the summed axis, at least 1, and at most its steps of 64 bytes
    rukh_i32 activation;
    rukh_i32 is_preshuffled;  // whether the weights are; not for gemm_any
} GemmArguments;

// output = preshuffled weights, for each of `gemms` matrices. All sizes and distances are in bytes and multiples of 16.
typedef struct PreshuffleArguments {
    const void* weights;  // [outputs][stride]
    void* output;         // [outputs / 16][row / 64][16][64], with both quotients rounded up
    long long weights_batch;  // the distances from one GEMM's matrices to the next GEMM's
    long long output_batch;
    rukh_i32 outputs;
    rukh_i32 row;  // the bytes of a row that are used
    rukh_i32 stride;
    rukh_i32 reserved;
} PreshuffleArguments;

// bytes [rows][width] and row_scales [rows][2] = the rows of x * factors, rounded to 8 bits (bytes.hip). For
// quantise_fp8, row_scales is [rows]: the number that 1 stands for.
typedef struct QuantiseArguments {
    const void* x;         // [rows][width] T
    const float* factors;  // [width]; null if all are 1
    void* bytes;           // [rows][width]
    float* row_scales;     // [rows][2]: the number that 1 stands for, and the number that 0 stands for
    rukh_i32 rows;
    rukh_i32 width;
} QuantiseArguments;

// The same as GemmArguments, where x and weights are bytes: x, weights, inputs, x_stride and weights_stride are multiples
// of 16, and `gemms` and `splits` are 1. For gemm_fp8, row_scales is [rows], and output_scales has no second row.
typedef struct GemmBytesArguments {
    GemmArguments gemm;
    const float* row_scales;     // [rows][2], from quantise
    const float* output_scales;  // [2][outputs, rounded up to a multiple of 8]: the number that a weight of 1 stands for,
                                 // and that number times the sum of the output's weights
} GemmBytesArguments;

// A GEMM of a chain, and the LayerNorm of its results. Its blocks have numbers: first those of its tiles, for each part
// of the summed axis, and then those of the norm. They come after the blocks of the links before.
//
// Rows are divided into groups, which have the same numbers in all links. Each group has a counter of the blocks that
// have ended; of a tile in several parts, only the last part counts. A block waits until the counter of its rows has
// reached all blocks of the links before, and for a norm also those of the tiles. The last group may have fewer rows,
// so that each of these numbers is given twice: for all other groups, and for the last group.
typedef struct ChainLink {
    GemmArguments gemm;    // `gemms` is 1; `partial` is unused
    LayerNormArguments norm;  // width 0 for none; otherwise width is `outputs`, a multiple of 8 and at most 8192
    rukh_i32 first_block;
    rukh_i32 first_norm_block;
    rukh_i32 group_rows;     // the rows of a group: a multiple of the tile's rows
    rukh_i32 first_counter;  // with `splits` above 1, the place of the first tile's counter
    long long partial_start;  // the place of the partial sums in the workspace, a multiple of 8
    rukh_i32 before_tiles[2];
    rukh_i32 before_norm[2];
} ChainLink;

// GEMMs of which each reads what the one before has written, in one launch. Blocks take their number from a counter,
// so that every block that another one waits for has started before.
typedef struct ChainArguments {
    ChainLink links[3];
    float* workspace;        // partial sums, laid out as for a GEMM with splits
    unsigned int* counters;  // zero before and after: the number of blocks that have started, then one counter per
                             // group, then one per tile of each link with `splits` above 1
    rukh_i32 count;       // of the links
    rukh_i32 blocks;      // of the whole chain: the grid
    rukh_i32 last_group;  // the number of the last group
    rukh_i32 all[2];      // the blocks that count in a group's counter: for all but the last group, and for the last
    rukh_i32 reserved;
} ChainArguments;

// output = softmax(scale * Q K^T + logits) V for each position and head. For (position, square, head),
//   Q      begins at qkv + (64 * position + square) * stride + head * depth,
//   K, V   begin key_offset and value_offset elements after Q,
//   output begins at output + (64 * position + square) * output_stride + head * depth.
// attention_any takes any depth, stride and offsets.
typedef struct AttentionArguments {
    const void* qkv;     // [B * 64][stride] T
    const void* logits;  // [B][heads][64 queries][64 keys] T, added to the scores; null for none
    void* output;        // [B * 64][output_stride] T
    rukh_i32 heads;
    rukh_i32 depth;  // head dimension
    rukh_i32 stride;
    rukh_i32 key_offset;
    rukh_i32 value_offset;
    rukh_i32 output_stride;
    float scale;
    rukh_i32 reserved;
} AttentionArguments;

// For first_moves[position] <= i < first_moves[position + 1], probabilities[i] is the softmax of the moves' logits
// times inverse_temperature. If inverse_temperature is 0, it is the logit itself.
//   logit(move) = scale * query[from] . key[to], plus promotion[piece] . key[to] for a promotion
// places[move] is 64 * from + to, or for a promotion 4096 + 24 * (file of from) + 3 * (file of to) + piece.
typedef struct AttentionPolicyArguments {
    const void* queries;                // [B * 64][stride] T
    const void* keys;                   // [B * 64][stride] T
    const void* promotions;             // [3][depth] T: queen, rook, bishop
    const unsigned short* places;       // [1858]
    const unsigned int* first_moves;    // [B + 1]
    const unsigned short* moves;        // [first_moves[B]], below 1858; at most 1858 per position
    float* probabilities;               // [first_moves[B]]
    rukh_i32 stride;
    rukh_i32 depth;  // multiple of 8
    float scale;
    float inverse_temperature;
} AttentionPolicyArguments;

// The same as AttentionPolicyArguments, but with logit(move) = logits[places[move]] + bias.
typedef struct PolicyArguments {
    const void* logits;            // [B][width] T; width need not be a multiple of 8
    const void* bias;              // [bias_width] T, added to logit i: bias[i % bias_width]; null for none
    const unsigned short* places;  // [1858], below width
    const unsigned int* first_moves;
    const unsigned short* moves;
    float* probabilities;
    rukh_i32 width;
    rukh_i32 bias_width;
    float inverse_temperature;
    rukh_i32 reserved;
} PolicyArguments;

// The values of `finish`: the function that is applied to a scalar head's outputs.
enum {
    FINISH_NONE = 0,
    FINISH_SOFTMAX = 1,  // win, draw, loss
    FINISH_TANH = 2,
    FINISH_RELU = 3,
};

// output [B][outputs] float = finish(weights act(input + hidden_bias) + bias)
typedef struct ScalarHeadArguments {
    const void* input;         // [B][hidden] T
    const void* hidden_bias;   // [hidden] T; null for none
    const void* weights;       // [outputs][hidden] T
    const float* bias;         // [outputs]; null for none
    float* output;
    rukh_i32 positions;
    rukh_i32 hidden;   // multiple of 8
    rukh_i32 outputs;  // 1...3
    rukh_i32 activation;
    rukh_i32 finish;
    rukh_i32 reserved;
} ScalarHeadArguments;

// The transforms before and after the GEMMs of a 3x3 convolution (convolution.hip). Components have type C: float
// for f32, and fp16 for f16 and bf16.
//   winograd_input:  input [B][64][channels] T -> output [36][component_stride] C, of which [4 B][channels] are written
//   winograd_output: input [36][component_stride] C -> output [B][64][channels] T = act(sum + bias + residual), and
//                    means [B][channels], over the squares, of sum + bias + residual
typedef struct WinogradArguments {
    const void* input;
    void* output;
    const void* bias;             // [channels] T; null for none
    const void* residual;         // [B][64][channels] T; may be the output; null for none
    float* means;                 // [B][channels]; null for none
    long long component_stride;   // elements between components
    rukh_i32 channels;
    rukh_i32 activation;
} WinogradArguments;

// A whole 3x3 convolution: winograd_input, 36 GEMMs of components, and winograd_output. The blocks are those of the
// first, then those of the tiles of all GEMMs, and then those of the last. They wait for each other by counters, as in
// a chain: the blocks that have started, and then a counter for each group of rows / 4 positions.
typedef struct ConvolutionArguments {
    WinogradArguments input;
    GemmArguments gemm;  // of type C; x is input.output, output is output.input, and `splits` is 1
    WinogradArguments output;
    unsigned int* counters;  // zero before and after
    rukh_i32 positions;
    rukh_i32 blocks;  // of all three steps: the grid
} ConvolutionArguments;

// output [B][64][channels] T = act(sigmoid(scales) * branch + shifts + residual): see squeeze_excite.hip.
typedef struct SqueezeExciteArguments {
    const void* branch;        // [B][64][channels] T
    const void* residual;      // [B][64][channels] T
    void* output;              // may be branch or residual
    const float* means;        // [B][channels] of branch, from winograd_output
    const void* squeeze;       // [hidden][channels] T
    const void* squeeze_bias;  // [hidden] T
    const void* excite;        // [hidden][2 * channels] T: transposed; scales, then shifts
    const void* excite_bias;   // [2 * channels] T
    rukh_i32 channels;         // at most 1024
    rukh_i32 hidden;           // at most 512
    rukh_i32 activation;
    rukh_i32 reserved;
} SqueezeExciteArguments;

#ifdef __cplusplus
static_assert(sizeof(PlanesArguments) == 48, "mirrored in arguments.rs");
static_assert(sizeof(ActivationArguments) == 56, "mirrored in arguments.rs");
static_assert(sizeof(LayerNormArguments) == 88, "mirrored in arguments.rs");
static_assert(sizeof(DenseArguments) == 72, "mirrored in arguments.rs");
static_assert(sizeof(GemmArguments) == 128, "mirrored in arguments.rs");
static_assert(sizeof(PreshuffleArguments) == 48, "mirrored in arguments.rs");
static_assert(sizeof(QuantiseArguments) == 40, "mirrored in arguments.rs");
static_assert(sizeof(GemmBytesArguments) == 144, "mirrored in arguments.rs");
static_assert(sizeof(ChainLink) == 256, "mirrored in arguments.rs");
static_assert(sizeof(ChainArguments) == 808, "mirrored in arguments.rs");
static_assert(sizeof(AttentionArguments) == 56, "mirrored in arguments.rs");
static_assert(sizeof(AttentionPolicyArguments) == 72, "mirrored in arguments.rs");
static_assert(sizeof(PolicyArguments) == 64, "mirrored in arguments.rs");
static_assert(sizeof(ScalarHeadArguments) == 64, "mirrored in arguments.rs");
static_assert(sizeof(WinogradArguments) == 56, "mirrored in arguments.rs");
static_assert(sizeof(ConvolutionArguments) == 256, "mirrored in arguments.rs");
static_assert(sizeof(SqueezeExciteArguments) == 80, "mirrored in arguments.rs");
#endif
