//! A launch to examine.

use super::arena::{Arena, Expected};
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::module::{Function, Grid};
use crate::runtime::ffi::program::{KernelArguments, Step};
use crate::runtime::kernels::Kernels;

/// A kernel with a shape.
pub(super) struct Case {
    /// The kernel's name without type and size.
    pub(super) family: &'static str,
    /// What follows the type in the kernel's name; `None` if the kernel is the same for all types.
    pub(super) suffix: Option<String>,
    /// The kernel's whole name.
    pub(super) kernel: String,
    pub(super) shape: String,
    /// Whether the kernel exists only where there are matrix instructions.
    pub(super) needs_matrix_instructions: bool,
    /// Whether some architectures have other kernels instead.
    pub(super) is_optional: bool,
    pub(super) make: Make,
}

/// Makes the arrays of a launch in an arena.
type Make = Box<dyn Fn(&mut Arena, Function) -> Trial>;

/// A launch, and what it must compute.
pub(super) struct Trial {
    pub(super) step: Step,
    pub(super) expected: Vec<Expected>,
}

impl Case {
    /// The kernel `<family>_<type><suffix>` with a shape, for the report.
    pub(super) fn new(
        (family, element, suffix): (&'static str, ElementType, &str),
        shape: String,
        make: impl Fn(&mut Arena, Function) -> Trial + 'static,
    ) -> Case {
        Case {
            family,
            suffix: Some(suffix.to_owned()),
            kernel: format!("{family}_{}{suffix}", element.name()),
            shape,
            needs_matrix_instructions: false,
            is_optional: false,
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

    /// The kernel's function.
    ///
    /// # Errors
    /// The card's code lacks the kernel.
    pub(super) fn function(&self, kernels: &Kernels) -> Result<Function> {
        match &self.suffix {
            Some(suffix) => kernels.function(self.family, suffix),
            None => kernels.typeless(self.family),
        }
    }

    /// This case, of a kernel instead of which some architectures have others.
    pub(super) fn optional(self) -> Case {
        Case { is_optional: true, ..self }
    }
}

impl Trial {
    /// A launch with one structure of arguments.
    pub(super) fn new<A: KernelArguments>(
        function: Function,
        grid: Grid,
        arguments: A,
        expected: Vec<Expected>,
    ) -> Trial {
        Trial { step: Step::kernel("an examined kernel".to_owned(), function, grid, arguments), expected }
    }
}

/// The first `quick` of `all`, or all of them.
pub(super) fn some<T>(all: Vec<T>, is_quick: bool, quick: usize) -> Vec<T> {
    let count = if is_quick { quick } else { all.len() };
    all.into_iter().take(count).collect()
}
