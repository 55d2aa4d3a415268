//! A row of the table of tuned GEMMs ([`super::file`]): its columns, and how a GEMM and a choice are written
//! and read.

use super::cells::{Cells, RowError, damaged, number, python};
use super::left_out::Fault;
use crate::gemm::avoided::BlasLibrary;
use crate::gemm::gemms::{Effort, GemmChoice, Measured};
use crate::gemm::own::OwnChoice;
use crate::gemm::shape_text;
use crate::runtime::facts::Facts;
use crate::runtime::ffi::gemm::{ElementType, Epilogue, GemmShape, WeightLayout};
use crate::runtime::fp8::Fp8Format;

/// The columns of aiter's files, in its order.
pub(crate) const AITER_COLUMNS: [&str; 18] = [
    "gfx",
    "cu_num",
    "M",
    "N",
    "K",
    "bias",
    "dtype",
    "outdtype",
    "scaleAB",
    "bpreshuffle",
    "libtype",
    "solidx",
    "splitK",
    "us",
    "kernelName",
    "err_ratio",
    "tflops",
    "bw",
];

/// Our own columns, which follow.
pub(crate) const OWN_COLUMNS: [&str; 15] = [
    "w_stride",
    "x_stride",
    "y_stride",
    "batch",
    "w_batch_stride",
    "x_batch_stride",
    "y_batch_stride",
    "accumulate",
    "epilogue",
    "gates",
    "w_transposed",
    "effort",
    "measured_with",
    "w_may_round",
    "w_8bit",
];

/// The names that aiter gives to the element types.
const TYPES: [(ElementType, &str); 6] = [
    (ElementType::Fp32, "torch.float32"),
    (ElementType::Fp16, "torch.float16"),
    (ElementType::Bf16, "torch.bfloat16"),
    (ElementType::Int8, "torch.int8"),
    (ElementType::Fp8(Fp8Format::Ocp), "torch.float8_e4m3fn"),
    (ElementType::Fp8(Fp8Format::Fnuz), "torch.float8_e4m3fnuz"),
];

/// What a table was measured on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Origin {
    /// The architecture, such as `gfx1100`.
    pub(crate) architecture: String,
    pub(crate) multiprocessors: usize,
    /// The device's name, and the versions of the driver, the libraries and our kernels.
    pub(crate) versions: String,
}

/// A row of a file that can be used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) measured: Measured,
    /// Whether the row says that it was measured with the versions at hand. Aiter's files say nothing about versions.
    pub(crate) has_same_versions: bool,
}

/// The cells of one row, in the order of the columns.
pub(crate) fn cells(origin: &Origin, shape: &GemmShape, measured: &Measured) -> Vec<String> {
    let Measured { choice, microseconds, error, effort } = *measured;
    let GemmShape { outputs, rows, inputs, weights_stride, x_stride, y_stride, batch, .. } = *shape;
    let [w_batch, x_batch, y_batch] = shape.batch_strides;
    let [library, solution, splits, _] = choice_cells(choice);
    let is_timed = microseconds.is_finite() && microseconds > 0.0;
    // Weights of 8 bits are half of what the shape's weights are.
    let halved = if choice.layout() == WeightLayout::Bytes { outputs * inputs } else { 0 };
    let moved = shape.bytes() - halved as f64;
    let rate = |amount: f64| if is_timed { amount / f64::from(microseconds) } else { 0.0 };
    vec![
        origin.architecture.clone(),
        origin.multiprocessors.to_string(),
        rows.to_string(),
        outputs.to_string(),
        inputs.to_string(),
        python(shape.epilogue != Epilogue::None),
        type_name(shape.input_type).to_owned(),
        type_name(shape.output_type).to_owned(),
        python(shape.is_of_bytes()),
        python(choice.layout() == WeightLayout::Preshuffled),
        library,
        solution,
        splits,
        format!("{microseconds:.4}"),
        match choice {
            GemmChoice::Own(own) => own.kernel_name(shape.input_type),
            _ => String::new(),
        },
        format!("{error:.1e}"),
        format!("{:.2}", rate(2e-6 * shape.multiply_adds())),
        format!("{:.2}", rate(1e-3 * moved)),
        weights_stride.to_string(),
        x_stride.to_string(),
        y_stride.to_string(),
        batch.to_string(),
        w_batch.to_string(),
        x_batch.to_string(),
        y_batch.to_string(),
        python(shape.accumulate),
        shape_text::epilogue_name(shape.epilogue).to_owned(),
        python(shape.is_gated),
        python(choice.layout() == WeightLayout::Transposed),
        effort.key().to_owned(),
        origin.versions.clone(),
        python(shape.may_round),
        python(choice.layout() == WeightLayout::Bytes),
    ]
}

fn type_name(element: ElementType) -> &'static str {
    TYPES.iter().find(|(known, _)| *known == element).map_or("", |(_, name)| name)
}

/// The cells that name a choice: the library, the algorithm, the number of parts for split-K, and the layout of the
/// weights.
pub(crate) fn choice_cells(choice: GemmChoice) -> [String; 4] {
    let index = |solution: Option<i32>| solution.map_or_else(|| "-1".to_owned(), |index| index.to_string());
    let (solution, splits) = match choice {
        GemmChoice::Rocblas { solution, .. } | GemmChoice::HipblasLt { solution, .. } => (index(solution), 0),
        GemmChoice::Own(own) => (own.tile().to_string(), own.splits()),
    };
    [choice.library().key().to_owned(), solution, splits.to_string(), layout_key(choice.layout()).to_owned()]
}

fn layout_key(layout: WeightLayout) -> &'static str {
    match layout {
        WeightLayout::Plain => "plain",
        WeightLayout::Preshuffled => "preshuffled",
        WeightLayout::Transposed => "transposed",
        WeightLayout::Bytes => "8bit",
    }
}

/// The choice that [`choice_cells`] has written; `None` if there is no such choice.
pub(crate) fn choice([library, solution, splits, layout]: [&str; 4]) -> Option<GemmChoice> {
    let layout = WeightLayout::ALL.into_iter().find(|&known| layout_key(known) == layout)?;
    let solution: i32 = solution.parse().ok()?;
    let index = (solution >= 0).then_some(solution);
    let library = BlasLibrary::from_key(library)?;
    if matches!(layout, WeightLayout::Preshuffled | WeightLayout::Bytes) && library != BlasLibrary::Own {
        return None;
    }
    Some(match library {
        BlasLibrary::Rocblas => GemmChoice::Rocblas { solution: index, layout },
        BlasLibrary::HipblasLt => GemmChoice::HipblasLt { solution: index, layout },
        BlasLibrary::Own => {
            let (tile, splits) = (usize::try_from(solution).ok()?, splits.parse().ok()?);
            GemmChoice::Own(OwnChoice::new(tile, splits, layout)?)
        }
    })
}

impl Cells<'_> {
    /// The GEMM of a row, and what the row says about it.
    pub(crate) fn row(&self, origin: &Origin) -> Result<(GemmShape, Row), RowError> {
        let Origin { architecture, multiprocessors, versions } = origin;
        let (gfx, units) = (self.needed("gfx")?, self.needed("cu_num")?);
        if gfx != architecture || self.number("cu_num", None)? != *multiprocessors {
            return Err((Fault::Foreign, format!("{gfx} with {units} {}", Facts::of(gfx).multiprocessors)));
        }
        let made_with = self.get("measured_with");
        if let Some(other) = made_with.filter(|made_with| made_with != versions) {
            return Err((Fault::Stale, other.to_owned()));
        }
        let shape = self.shape()?;
        // Factors of 8 bits have scales, and no others have.
        if self.flag("scaleAB")? != shape.is_of_bytes() {
            return Err((Fault::Unknown, "scaleAB".to_owned()));
        }
        let library = self.needed("libtype")?;
        let Some(known) = BlasLibrary::from_key(library) else {
            return Err((Fault::Unknown, library.to_owned()));
        };
        if shape.is_of_bytes() && known != BlasLibrary::Own {
            return Err((Fault::Unknown, library.to_owned()));
        }
        let layout = layout_key(self.layout(known, &shape)?);
        let solution = self.needed("solidx")?;
        let splits = self.get("splitK").unwrap_or("0");
        let choice = choice([library, solution, splits, layout]).ok_or_else(|| damaged(solution))?;
        // A new tile has moved the number of the kernel for any width, and a row may lack its versions. The names of
        // kernels stay.
        if let GemmChoice::Own(own) = choice {
            let kernel = self.get("kernelName").unwrap_or_default();
            if kernel != own.kernel_name(shape.input_type) {
                return Err((Fault::Stale, kernel.to_owned()));
            }
        }
        let microseconds = self.needed("us")?;
        let error = self.get("err_ratio").filter(|cell| !cell.is_empty()).unwrap_or("0");
        let effort = self.get("effort").map_or(Some(Effort::Full), Effort::from_key);
        let measured = Measured {
            choice,
            microseconds: number(microseconds).ok_or_else(|| damaged(microseconds))?,
            error: number(error).ok_or_else(|| damaged(error))?,
            effort: effort.ok_or_else(|| damaged(self.get("effort").unwrap_or_default()))?,
        };
        Ok((shape, Row { measured, has_same_versions: made_with.is_some() }))
    }

    /// The layout of the weights that a library reads, or our own kernel.
    fn layout(&self, library: BlasLibrary, shape: &GemmShape) -> Result<WeightLayout, RowError> {
        let unknown = |column: &str| Err((Fault::Unknown, column.to_owned()));
        if self.flag("w_8bit")? {
            let is_possible =
                self.flag("w_may_round")? && !self.flag("bpreshuffle")? && !self.flag("w_transposed")?;
            return match library {
                _ if !is_possible => Err(damaged("w_8bit")),
                BlasLibrary::Own => Ok(WeightLayout::Bytes),
                _ => unknown("w_8bit"),
            };
        }
        match (self.flag("bpreshuffle")?, self.flag("w_transposed")?) {
            (false, false) => Ok(WeightLayout::Plain),
            (true, true) => Err(damaged("w_transposed")),
            (true, false) if library != BlasLibrary::Own => unknown("bpreshuffle"),
            (true, false) => Ok(WeightLayout::Preshuffled),
            (false, true) if library == BlasLibrary::Own => unknown("w_transposed"),
            // With an epilogue, rocBLAS stands for the plain GEMM, which has a row of its own.
            (false, true) if library == BlasLibrary::Rocblas && shape.has_epilogue() => {
                unknown("w_transposed")
            }
            // Only a helper process may find out whether hipBLASLt survives the question for transposed weights, and a
            // row without versions does not say that one has.
            (false, true) => self.needed("measured_with").map(|_| WeightLayout::Transposed),
        }
    }

    fn shape(&self) -> Result<GemmShape, RowError> {
        let count = |name| self.number(name, None);
        let (rows, outputs, inputs) = (count("M")?, count("N")?, count("K")?);
        let element = |name| {
            let cell = self.needed(name)?;
            let known = TYPES.iter().find(|(_, known)| *known == cell);
            known.map(|(element, _)| *element).ok_or_else(|| (Fault::Unknown, cell.to_owned()))
        };
        let plain = GemmShape::plain(rows, outputs, inputs, element("dtype")?);
        let or = |name, default| self.number(name, Some(default));
        let has_bias = self.flag("bias")?;
        let epilogue = match self.get("epilogue") {
            Some(name) => shape_text::epilogue(name)
                .filter(|epilogue| (*epilogue != Epilogue::None) == has_bias)
                .ok_or_else(|| damaged(name))?,
            None if has_bias => Epilogue::Bias,
            None => Epilogue::None,
        };
        Ok(GemmShape {
            weights_stride: or("w_stride", plain.weights_stride)?,
            x_stride: or("x_stride", plain.x_stride)?,
            y_stride: or("y_stride", plain.y_stride)?,
            batch: or("batch", plain.batch)?,
            batch_strides: [or("w_batch_stride", 0)?, or("x_batch_stride", 0)?, or("y_batch_stride", 0)?],
            output_type: element("outdtype")?,
            accumulate: self.flag("accumulate")?,
            is_gated: self.flag("gates")?,
            epilogue,
            may_round: self.flag("w_may_round")?,
            ..plain
        })
    }
}
