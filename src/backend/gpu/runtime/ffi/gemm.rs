//! The description of a matrix multiplication (GEMM), in terms that fit both BLAS libraries.

use super::super::fp8::Fp8Format;
use super::hip::Address;
use serde::{Deserialize, Serialize};

use half::{bf16, f16};

/// The type of a matrix's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum ElementType {
    /// IEEE single precision.
    Fp32,
    /// IEEE half precision.
    Fp16,
    /// bfloat16: the upper half of single precision.
    Bf16,
    /// Integers of 8 bits. Only factors of GEMMs have this type, with scales of their own.
    Int8,
    /// Floating-point numbers of 8 bits, as the integers.
    Fp8(Fp8Format),
}

impl ElementType {
    pub(crate) fn bytes(self) -> usize {
        match self {
            ElementType::Fp32 => 4,
            ElementType::Fp16 | ElementType::Bf16 => 2,
            ElementType::Int8 | ElementType::Fp8(_) => 1,
        }
    }

    /// The name as it appears in kernel names and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ElementType::Fp32 => "f32",
            ElementType::Fp16 => "f16",
            ElementType::Bf16 => "bf16",
            ElementType::Int8 => "i8",
            ElementType::Fp8(Fp8Format::Ocp) => "f8",
            ElementType::Fp8(Fp8Format::Fnuz) => "f8z",
        }
    }

    /// Appends a number, rounded to the type (nearest, ties to even).
    pub(crate) fn append(self, value: f32, bytes: &mut Vec<u8>) {
        match self {
            ElementType::Fp32 => bytes.extend(value.to_le_bytes()),
            ElementType::Fp16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
            ElementType::Bf16 => bytes.extend(bf16::from_f32(value).to_le_bytes()),
            ElementType::Int8 => bytes.extend((value.round_ties_even() as i8).to_le_bytes()),
            ElementType::Fp8(format) => bytes.push(format.round(value)),
        }
    }
}

/// The size of the workspace for a GEMM, in bytes. Split-K kernels keep partial sums in it.
pub(crate) const WORKSPACE_BYTES: usize = 32 << 20;

/// The number of counters with which the blocks of our own kernels find out which of them is the last one.
pub(crate) const COUNTERS: usize = 1 << 14;

/// The operation that a GEMM applies to its result before writing it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Epilogue {
    None,
    /// Adds one bias per output.
    Bias,
    /// Adds a bias, then `max(x, 0)`.
    BiasRelu,
    /// Adds a bias, then `x * sigmoid(x)`.
    BiasSwish,
    /// Adds a bias, then lc0's other functions. Only our own kernels compute these.
    BiasRelu2,
    BiasTanh,
    BiasSigmoid,
    BiasSelu,
    BiasMish,
}

/// The shape of `y[rows][outputs] = x[rows][inputs] W[outputs][inputs]^T (+ y)`, row-major, `batch` times.
///
/// In BLAS's column-major terms: m = outputs, n = rows, k = inputs, A = W transposed, B = x, C = D = y. Sums and
/// scalars are always fp32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct GemmShape {
    pub(crate) outputs: usize,
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    /// The distance from one row of W to the next, in elements.
    pub(crate) weights_stride: usize,
    /// The distance from one row of x to the next, in elements.
    pub(crate) x_stride: usize,
    /// The distance from one row of y to the next, in elements.
    pub(crate) y_stride: usize,
    /// The number of independent GEMMs; 1 for a plain GEMM.
    pub(crate) batch: usize,
    /// The distances from the W, x and y of one GEMM to the W, x and y of the next, in elements.
    pub(crate) batch_strides: [usize; 3],
    /// The element type of W and x.
    pub(crate) input_type: ElementType,
    /// The element type of y.
    pub(crate) output_type: ElementType,
    /// Whether the GEMM is added to y instead of replacing it.
    pub(crate) accumulate: bool,
    pub(crate) epilogue: Epilogue,
    /// Whether gates follow the epilogue, `x * multiply + add` by square and output. Only our own kernels compute them.
    pub(crate) is_gated: bool,
    /// Whether the weights may be rounded to 8 bits.
    pub(crate) may_round: bool,
}

impl GemmShape {
    /// A single GEMM of densely stored matrices, without an epilogue.
    pub(crate) fn plain(rows: usize, outputs: usize, inputs: usize, element: ElementType) -> GemmShape {
        GemmShape {
            outputs,
            rows,
            inputs,
            weights_stride: inputs,
            x_stride: inputs,
            y_stride: outputs,
            batch: 1,
            batch_strides: [0; 3],
            input_type: element,
            output_type: element,
            accumulate: false,
            epilogue: Epilogue::None,
            is_gated: false,
            may_round: false,
        }
    }

    /// Whether anything is done with the sums before they are stored.
    pub(crate) fn has_epilogue(&self) -> bool {
        self.epilogue != Epilogue::None || self.is_gated
    }

    /// The GEMM without its epilogue, which a separate kernel then computes.
    pub(crate) fn without_epilogue(&self) -> GemmShape {
        GemmShape { epilogue: Epilogue::None, is_gated: false, ..*self }
    }

    /// Whether the factors are 8-bit numbers, with scales for the rows of W and of x.
    pub(crate) fn is_of_bytes(&self) -> bool {
        self.input_type.bytes() == 1
    }

    /// The number of multiply-adds. Each is two floating-point operations.
    pub(crate) fn multiply_adds(&self) -> f64 {
        self.outputs as f64 * self.rows as f64 * self.inputs as f64 * self.batch as f64
    }

    /// The bytes of W, x and y together. What a GEMM is added to is read and written.
    pub(crate) fn bytes(&self) -> f64 {
        let [outputs, rows, inputs] = [self.outputs, self.rows, self.inputs].map(|count| count as f64);
        let read = (outputs + rows) * inputs * self.input_type.bytes() as f64;
        let written = outputs * rows * self.output_type.bytes() as f64;
        let passes = if self.accumulate { 2.0 } else { 1.0 };
        self.batch as f64 * (read + passes * written)
    }
}

impl std::fmt::Display for GemmShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let GemmShape { outputs, rows, inputs, batch, input_type, output_type, epilogue, is_gated, .. } =
            self;
        write!(f, "m={outputs} n={rows} k={inputs}")?;
        if *batch != 1 {
            write!(f, " batch={batch}")?;
        }
        write!(f, " {}", input_type.name())?;
        if output_type != input_type {
            write!(f, "->{}", output_type.name())?;
        }
        if *epilogue != Epilogue::None {
            write!(f, " {epilogue:?}")?;
        }
        if *is_gated { write!(f, " gates") } else { Ok(()) }
    }
}

/// The order of a GEMM's weights in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum WeightLayout {
    /// `[outputs][inputs]`, with the strides of the shape. A network is loaded so, and everything reads it.
    Plain,
    /// The order in which our own kernels read the weights. Nothing else reads it.
    Preshuffled,
    /// `[inputs][outputs]`, with the strides of [`GemmShape::column_major_weights`]. Only the libraries read it.
    Transposed,
    /// Rounded to 8 bits, in the order in which our own kernels read them. Nothing else reads them.
    Bytes,
}

impl WeightLayout {
    pub(crate) const ALL: [WeightLayout; 4] =
        [WeightLayout::Plain, WeightLayout::Preshuffled, WeightLayout::Transposed, WeightLayout::Bytes];
}

/// The weights as the matrix A of a library: column-major, `inputs x outputs` of plain weights, from which the library
/// takes the transpose, or `outputs x inputs` of transposed weights, which it takes as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ColumnMajor {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// The distance from one column to the next, in elements.
    pub(crate) stride: usize,
    /// The distance from the weights of one GEMM to those of the next, in elements.
    pub(crate) batch_stride: usize,
}

/// Columns of transposed weights begin at multiples of so many elements, because libraries load 16 bytes at a time.
const TRANSPOSED_ALIGNMENT: usize = 8;

impl GemmShape {
    /// The weights as a library gets them. No library reads preshuffled weights and those of 8 bits, which count as
    /// plain ones here.
    pub(crate) fn column_major_weights(&self, layout: WeightLayout) -> ColumnMajor {
        let GemmShape { outputs, inputs, weights_stride, batch_strides: [batch_stride, ..], .. } = *self;
        match layout {
            WeightLayout::Plain | WeightLayout::Preshuffled | WeightLayout::Bytes => {
                ColumnMajor { rows: inputs, columns: outputs, stride: weights_stride, batch_stride }
            }
            WeightLayout::Transposed => {
                let stride = outputs.next_multiple_of(TRANSPOSED_ALIGNMENT);
                ColumnMajor { rows: outputs, columns: inputs, stride, batch_stride: inputs * stride }
            }
        }
    }
}

/// The addresses of the gates' factors and offsets, `[64][outputs]` with the strides of y. Row r of y has those of
/// square r % 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GateOperands {
    pub(crate) multiply: Address,
    pub(crate) add: Address,
}

impl GateOperands {
    /// The addresses of the factors and of the offsets; null without gates.
    pub(crate) fn addresses(gates: Option<GateOperands>) -> [Address; 2] {
        gates.map_or([Address::NULL; 2], |GateOperands { multiply, add }| [multiply, add])
    }
}

/// The device addresses of a GEMM's matrices, and the layout of the weights at theirs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmOperands {
    pub(crate) weights: Address,
    pub(crate) layout: WeightLayout,
    pub(crate) x: Address,
    pub(crate) y: Address,
    /// For a shape that has gates.
    pub(crate) gates: Option<GateOperands>,
}

impl GemmOperands {
    /// Operands with plain weights, and without gates.
    pub(crate) fn plain(weights: Address, x: Address, y: Address) -> GemmOperands {
        GemmOperands { weights, layout: WeightLayout::Plain, x, y, gates: None }
    }
}
