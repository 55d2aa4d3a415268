//! A matrix product, as both BLAS libraries are asked for it.

use super::hip::Address;

/// The type of a matrix's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum ElementType {
    /// IEEE single precision.
    Fp32,
    /// IEEE half precision.
    Fp16,
    /// The upper half of single precision.
    Bf16,
}

impl ElementType {
    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            ElementType::Fp32 => 4,
            ElementType::Fp16 | ElementType::Bf16 => 2,
        }
    }

    /// As in kernels' names and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ElementType::Fp32 => "f32",
            ElementType::Fp16 => "f16",
            ElementType::Bf16 => "bf16",
        }
    }
}

/// What a product does to its result before it writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Epilogue {
    /// Nothing.
    None,
    /// Adds a bias per output.
    Bias,
    /// Adds a bias, then takes what is positive.
    BiasRelu,
    /// Adds a bias, then `x * sigmoid(x)`.
    BiasSwish,
}

/// The shape of `y[rows][outputs] = x[rows][inputs] W[outputs][inputs]^T (+ y)`, row-major, `batch` times.
///
/// In BLAS's terms, where matrices lie column by column: m = outputs, n = rows, k = inputs, A = W transposed,
/// B = x, C = D = y. Sums and scalars are fp32 throughout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct GemmShape {
    pub(crate) outputs: usize,
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    /// Elements from one row of W to the next.
    pub(crate) weights_stride: usize,
    /// Elements from one row of x to the next.
    pub(crate) x_stride: usize,
    /// Elements from one row of y to the next.
    pub(crate) y_stride: usize,
    /// Independent products; 1 for a plain one.
    pub(crate) batch: usize,
    /// Elements from one product's W, x and y to the next product's.
    pub(crate) batch_strides: [usize; 3],
    /// Of W and x.
    pub(crate) input_type: ElementType,
    /// Of y.
    pub(crate) output_type: ElementType,
    /// Whether the result is added to what y holds.
    pub(crate) accumulate: bool,
    pub(crate) epilogue: Epilogue,
}

impl GemmShape {
    /// Of one product whose matrices have no gaps.
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
        }
    }

    /// Multiplications and additions, each.
    pub(crate) fn operations(&self) -> f64 {
        self.outputs as f64 * self.rows as f64 * self.inputs as f64 * self.batch as f64
    }
}

impl std::fmt::Display for GemmShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let GemmShape { outputs, rows, inputs, batch, input_type, output_type, epilogue, .. } = self;
        write!(f, "m={outputs} n={rows} k={inputs}")?;
        if *batch != 1 {
            write!(f, " batch={batch}")?;
        }
        write!(f, " {}", input_type.name())?;
        if output_type != input_type {
            write!(f, "->{}", output_type.name())?;
        }
        match epilogue {
            Epilogue::None => Ok(()),
            other => write!(f, " {other:?}"),
        }
    }
}

/// Where a product's matrices are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmOperands {
    pub(crate) weights: Address,
    pub(crate) x: Address,
    pub(crate) y: Address,
}
