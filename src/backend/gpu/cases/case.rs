//! A launch of a kernel, and what it must compute.

use super::arena::{Arena, Expected};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::module::Grid;
use crate::runtime::ffi::program::{ArgumentWords, KernelArguments};
use crate::runtime::fp8::Fp8Format;

/// A kernel with a shape.
pub(crate) struct Case {
    /// The kernel's name without type and size.
    pub(crate) family: &'static str,
    /// What follows the type in the kernel's name; `None` if the kernel is the same for all types.
    pub(crate) suffix: Option<String>,
    /// The kernel's whole name.
    pub(crate) kernel: String,
    pub(crate) shape: String,
    /// See [`cost`].
    pub(crate) cost: usize,
    /// Whether the kernel exists only where there are matrix instructions.
    pub(crate) needs_matrix_instructions: bool,
    /// Whether some architectures have other kernels instead.
    pub(crate) is_optional: bool,
    /// The variant of e4m3 that the card must multiply.
    pub(crate) fp8: Option<Fp8Format>,
    pub(crate) make: Make,
}

/// Makes the arrays of a launch in an arena.
type Make = Box<dyn Fn(&mut Arena) -> Launch + Send + Sync>;

/// A launch, and what it must compute.
pub(crate) struct Launch {
    pub(crate) grid: Grid,
    pub(crate) arguments: ArgumentWords,
    pub(crate) expected: Vec<Expected>,
}

impl Case {
    /// The kernel `<family>_<type><suffix>` with a shape.
    pub(super) fn new(
        (family, element, suffix): (&'static str, ElementType, &str),
        shape: String,
        cost: usize,
        make: impl Fn(&mut Arena) -> Launch + Send + Sync + 'static,
    ) -> Case {
        Case {
            family,
            suffix: Some(suffix.to_owned()),
            kernel: format!("{family}_{}{suffix}", element.name()),
            shape,
            cost,
            needs_matrix_instructions: false,
            is_optional: false,
            fp8: None,
            make: Box::new(make),
        }
    }

    /// This case, of a kernel that needs matrix instructions.
    pub(super) fn with_matrix_instructions(self) -> Case {
        Case { needs_matrix_instructions: true, ..self }
    }

    /// This case, of a kernel that is the same for all types, with the name of the family alone.
    pub(super) fn typeless(self) -> Case {
        Case { suffix: None, kernel: self.family.to_owned(), ..self }
    }

    /// This case, of a kernel instead of which some architectures have others.
    pub(super) fn optional(self) -> Case {
        Case { is_optional: true, ..self }
    }

    /// This case, of a kernel that exists only where the card multiplies e4m3, and whose results are right only if it
    /// is this variant.
    pub(super) fn of_fp8(self, format: Fp8Format) -> Case {
        Case { is_optional: true, fp8: Some(format), ..self }
    }
}

impl Launch {
    /// A launch with one structure of arguments.
    pub(super) fn new<A: KernelArguments>(grid: Grid, arguments: A, expected: Vec<Expected>) -> Launch {
        Launch { grid, arguments: ArgumentWords::of(arguments), expected }
    }
}

/// What is added to the results.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Residual {
    None,
    Apart,
    /// The residual is the output.
    InPlace,
}

/// The cost of a launch where launches are slow: its multiply-adds, and for each result as much as for 64 of them.
pub(super) fn cost(multiply_adds: usize, results: usize) -> usize {
    multiply_adds + 64 * results
}

/// All of `all`, or only the first `quick` of them if `is_quick`.
pub(super) fn some<T>(all: Vec<T>, is_quick: bool, quick: usize) -> Vec<T> {
    let count = if is_quick { quick } else { all.len() };
    all.into_iter().take(count).collect()
}
