//! Looks up our kernels by name, and computes the grids that they are launched with.
//!
//! `hip/kernels/kernels.h` documents the kernels' names, arguments and grids.

use super::device::Gpu;
use super::error::Result;
use super::ffi::gemm::ElementType;
use super::ffi::hip::Device;
use super::ffi::module::{Function, Grid, Module};
use super::kernel_code::KernelCode;
use rukh_net::architecture::Activation;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of elements that kernels load at a time.
pub(crate) const VECTOR: usize = 8;

/// The module of our kernels, with a cache of the functions that were looked up.
pub(crate) struct Kernels {
    module: Arc<Module>,
    element: ElementType,
    functions: RefCell<HashMap<String, Function>>,
}

/// A kernel for attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttentionKernel {
    /// The usual kernel with matrix instructions, where the card has these and there is one for the network's head size.
    Matrix,
    /// The kernel with matrix instructions that reads the keys in the other way: through the cache where the usual one
    /// copies them to shared memory, and the other way round. Only heads of 32 channels have it.
    Other,
    /// The kernel without matrix instructions, which computes heads of any size.
    Any,
}

/// The head sizes that have a fused attention kernel on architectures with matrix instructions.
pub(crate) const FUSED_HEADS: [usize; 6] = [8, 16, 32, 64, 96, 128];

/// The widest rows of the kernels in which 32 lanes normalise a row in registers.
const LAYER_NORM_WIDTHS: [usize; 4] = [256, 512, 768, 1024];

/// The widest row that a whole block can normalise.
pub(crate) const LARGEST_LAYER_NORM: usize = 8192;

impl Kernels {
    /// Loads the kernels in `code`.
    pub(crate) fn new(device: Device, code: &KernelCode, element: ElementType) -> Result<Kernels> {
        let module = Module::load(device, code)?;
        Ok(Kernels { module, element, functions: RefCell::default() })
    }

    /// Loads the kernels for an open device.
    pub(crate) fn of(gpu: &Gpu, element: ElementType) -> Result<Kernels> {
        Kernels::new(gpu.device, &gpu.code, element)
    }

    /// The module that the kernels are in.
    pub(crate) fn module(&self) -> Arc<Module> {
        Arc::clone(&self.module)
    }

    /// The kernel with this name, which is the same for all types.
    pub(crate) fn typeless(&self, name: &str) -> Result<Function> {
        self.module.function(name)
    }

    /// The function `<kernel>_<type><suffix>`.
    pub(crate) fn function(&self, kernel: &str, suffix: &str) -> Result<Function> {
        let name = format!("{kernel}_{}{suffix}", self.element.name());
        if let Some(known) = self.functions.borrow().get(&name) {
            return Ok(known.clone());
        }
        let function = self.module.function(&name)?;
        self.functions.borrow_mut().insert(name, function.clone());
        Ok(function)
    }

    /// The LayerNorm kernel for `rows` rows of `width` channels, and its grid.
    pub(crate) fn layer_norm(&self, rows: usize, width: usize) -> Result<(Function, Grid)> {
        match LAYER_NORM_WIDTHS.into_iter().find(|&most| width <= most) {
            Some(most) => {
                Ok((self.function("layer_norm", &format!("_w{most}"))?, grid(rows.div_ceil(8), 1, 256)))
            }
            None => {
                let suffix = format!("_w{LARGEST_LAYER_NORM}");
                Ok((self.function("layer_norm", &suffix)?, grid(rows, 1, 256)))
            }
        }
    }

    /// Our own kernel for a GEMM of few rows, `[rows][inputs]` to `[rows][outputs]`, and its grid. With `normalises`
    /// the kernel applies a LayerNorm to its input first. Returns `None` if the architecture has no matrix instructions
    /// for the element type, or the kernel does not support the shape.
    pub(crate) fn dense(
        &self,
        rows: usize,
        (outputs, inputs): (usize, usize),
        normalises: bool,
    ) -> Option<(Function, Grid)> {
        let fits = inputs.is_multiple_of(DENSE_STEP) && outputs.is_multiple_of(TILE);
        let is_short = !normalises || inputs <= LARGEST_NORM_INPUTS;
        if self.element == ElementType::Fp32 || !fits || !is_short {
            return None;
        }
        let name = if normalises { "norm_dense" } else { "dense" };
        let function = self.function(name, "").ok()?;
        Some((function, grid(outputs / TILE, rows.div_ceil(TILE), 256)))
    }

    /// The attention kernel for heads of `depth` channels, and the number of heads that a block computes; `None` if there
    /// is no such kernel. An architecture without matrix instructions has only the one for any heads.
    fn attention_function(&self, kernel: AttentionKernel, depth: usize) -> Option<(Function, usize)> {
        let name = match kernel {
            AttentionKernel::Matrix => "attention",
            AttentionKernel::Other => "attention_other",
            AttentionKernel::Any => return Some((self.function("attention_any", "").ok()?, 1)),
        };
        if self.element == ElementType::Fp32 || !FUSED_HEADS.contains(&depth) {
            return None;
        }
        // An architecture has one of these.
        let kernels = [(String::new(), 1), (PAIRS.to_owned(), 2)];
        kernels.into_iter().find_map(|(suffix, heads)| {
            Some((self.function(name, &format!("_d{depth}{suffix}")).ok()?, heads))
        })
    }

    /// The attention kernel for heads of `depth` channels, and its grid. Where the wanted kernel does not exist, it is the
    /// usual one with matrix instructions, or else the one for any heads.
    pub(crate) fn attention(
        &self,
        wanted: AttentionKernel,
        positions: usize,
        heads: usize,
        depth: usize,
    ) -> Result<(Function, Grid)> {
        let found = [wanted, AttentionKernel::Matrix]
            .into_iter()
            .find_map(|kernel| self.attention_function(kernel, depth));
        let (function, together) = match found {
            Some(found) => found,
            None => (self.function("attention_any", "")?, 1),
        };
        Ok((function, attention_grid(heads, positions, together)))
    }
}

/// What ends the names of attention kernels that compute two heads in a block.
pub(crate) const PAIRS: &str = "_x2";

/// The grid of an attention kernel that computes `together` heads in a block.
pub(crate) fn attention_grid(heads: usize, positions: usize, together: usize) -> Grid {
    grid(heads.div_ceil(together), positions, 128 * together as u32)
}

/// The number of rows, and of columns, of a tile of the kernel for few rows.
const TILE: usize = 16;
/// The number of inputs that the kernel for few rows reads in one step.
const DENSE_STEP: usize = 32;

/// The longest row to which the kernel for few rows can apply a LayerNorm.
const LARGEST_NORM_INPUTS: usize = 512;

/// A grid of `x` times `y` blocks with `threads` threads each.
pub(crate) fn grid(x: usize, y: usize, threads: u32) -> Grid {
    Grid { blocks: (x as u32, y as u32), threads, shared_bytes: 0 }
}

/// The number of an elementwise activation in `hip/kernels/kernels.h`; `None` for the softmax, which is a separate
/// kernel.
pub(crate) fn activation_code(activation: Activation) -> Option<i32> {
    match activation {
        Activation::None => Some(0),
        Activation::Relu => Some(1),
        Activation::Relu2 => Some(2),
        Activation::Tanh => Some(3),
        Activation::Sigmoid => Some(4),
        Activation::Selu => Some(5),
        Activation::Mish => Some(6),
        Activation::Swish => Some(7),
        Activation::Softmax => None,
    }
}
