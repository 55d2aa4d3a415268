//! The outcome of measuring GEMMs: the fastest choice of each shape, its time, and how thoroughly it was measured.

use super::avoided::{Asked, BlasLibrary};
use super::own::OwnChoice;
use crate::runtime::ffi::gemm::{GemmShape, WeightLayout};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The number of algorithms to request from hipBLASLt, and that for a thorough tuning. Only a GEMM whose row names an
/// algorithm beyond the first ones needs the larger request at a start, which a helper process has then survived.
pub(crate) const PROPOSALS: usize = 16;
pub(crate) const MOST_PROPOSALS: usize = 32;

/// Preshuffled and transposed weights and those of 8 bits take memory, so that a GEMM must be faster with them by
/// this factor.
const WORTH_A_COPY: f32 = 1.02;

/// The library and algorithm for one shape, and the layout of the weights. Libraries have other algorithms for
/// transposed weights than for plain ones, and no library reads preshuffled weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum GemmChoice {
    /// rocBLAS, with the kernel of this solution index; `None` leaves the choice to rocBLAS.
    Rocblas { solution: Option<i32>, layout: WeightLayout },
    /// hipBLASLt, with the algorithm that has this solution index; `None` means its first proposal.
    HipblasLt { solution: Option<i32>, layout: WeightLayout },
    /// Our own kernel.
    Own(OwnChoice),
}

impl GemmChoice {
    /// rocBLAS with plain weights, which chooses the kernel itself.
    pub(crate) const ROCBLAS: GemmChoice =
        GemmChoice::Rocblas { solution: None, layout: WeightLayout::Plain };

    /// hipBLASLt's first proposal for plain weights.
    pub(crate) const HIPBLASLT: GemmChoice =
        GemmChoice::HipblasLt { solution: None, layout: WeightLayout::Plain };

    /// The layout of the weights.
    pub(crate) fn layout(self) -> WeightLayout {
        match self {
            GemmChoice::Rocblas { layout, .. } | GemmChoice::HipblasLt { layout, .. } => layout,
            GemmChoice::Own(own) => own.layout(),
        }
    }

    /// Who is asked for the GEMM.
    pub(crate) fn asked(self) -> Asked {
        Asked::new(self.library(), self.layout())
    }

    /// The library that computes the GEMM.
    pub(crate) fn library(self) -> BlasLibrary {
        match self {
            GemmChoice::Rocblas { .. } => BlasLibrary::Rocblas,
            GemmChoice::HipblasLt { .. } => BlasLibrary::HipblasLt,
            GemmChoice::Own(_) => BlasLibrary::Own,
        }
    }
}

/// How thoroughly a GEMM was measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Effort {
    /// The choices that are usually the fastest, as at the first start.
    Quick,
    /// Every choice.
    Full,
    /// Every choice, and then whole evaluations of the GEMM's batch size ([`crate::tuning::defaults`]). The layout of
    /// the weights in such a row is the one with which the evaluation was timed, so it counts whatever other rows say.
    Passes,
}

impl Effort {
    /// The name in files.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Full => "full",
            Effort::Passes => "passes",
        }
    }

    /// The effort with this [`Effort::key`].
    pub(crate) fn from_key(key: &str) -> Option<Effort> {
        [Effort::Quick, Effort::Full, Effort::Passes].into_iter().find(|effort| effort.key() == key)
    }

    /// The number of hipBLASLt's proposals to time for each shape.
    pub(crate) fn proposals(self) -> usize {
        match self {
            Effort::Quick => 8,
            Effort::Full | Effort::Passes => PROPOSALS,
        }
    }

    /// The most choices that are timed again.
    pub(crate) fn finalists(self) -> usize {
        match self {
            Effort::Quick => 3,
            Effort::Full | Effort::Passes => 4,
        }
    }

    /// The number of choices of our own kernels, the fastest ones, that are timed with preshuffled weights, too.
    pub(crate) fn preshuffled(self) -> usize {
        match self {
            Effort::Quick => 1,
            Effort::Full | Effort::Passes => 3,
        }
    }

    /// How often each of the [`Effort::finalists`] is timed again.
    pub(crate) fn final_rounds(self) -> usize {
        match self {
            Effort::Quick => 4,
            Effort::Full | Effort::Passes => 8,
        }
    }
}

/// The fastest choice for a shape, and the time of one GEMM.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) choice: GemmChoice,
    #[serde(with = "null_if_infinite")]
    pub(crate) microseconds: f32,
    /// The largest error of its results that was found; 0 if they were not compared.
    #[serde(with = "null_if_infinite")]
    pub(crate) error: f32,
    pub(crate) effort: Effort,
}

/// JSON has no infinity.
mod null_if_infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &f32, to: S) -> Result<S::Ok, S::Error> {
        number.is_finite().then_some(*number).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f32::INFINITY))
    }
}

impl Measured {
    /// The time of a GEMM that could be asked for without a crash, but that has not been timed yet.
    pub(crate) const NOT_YET: f32 = f32::INFINITY;

    /// The time of a GEMM for which no choice could be timed.
    pub(crate) const NEVER: f32 = -1.0;

    /// Whether the choice has a time.
    pub(crate) fn is_timed(&self) -> bool {
        self.microseconds.is_finite() && self.microseconds > 0.0
    }

    /// Orders choices by their times.
    pub(crate) fn by_time(&self, other: &Measured) -> Ordering {
        self.microseconds.total_cmp(&other.microseconds)
    }

    /// Orders choices by their times, where other weights than the plain ones must be worth their memory.
    pub(crate) fn by_worth(&self, other: &Measured) -> Ordering {
        let weighted = |one: &Measured| match one.choice.layout() {
            WeightLayout::Plain => one.microseconds,
            WeightLayout::Preshuffled | WeightLayout::Transposed | WeightLayout::Bytes => {
                one.microseconds * WORTH_A_COPY
            }
        };
        weighted(self).total_cmp(&weighted(other))
    }

    /// Whether the GEMM needs no further measurement of this effort.
    pub(crate) fn is_enough_for(&self, effort: Effort) -> bool {
        self.microseconds.is_finite() && self.effort >= effort
    }
}

/// The tuned GEMMs by shape, in sorted order, so that the files of two tunings can be compared.
pub(crate) type GemmTable = BTreeMap<GemmShape, Measured>;

/// A copy of `table` with `rows`, which take the place of its rows of the same shapes.
pub(crate) fn extended(table: &GemmTable, rows: &GemmTable) -> GemmTable {
    let mut all = table.clone();
    all.extend(rows);
    all
}
