//! Our kernels on one device: entry points by name, and the grids that they are launched with.
//!
//! Names, arguments and grids are those of `hip/kernels/kernels.h`.

use super::error::Result;
use super::ffi::gemm::ElementType;
use super::ffi::hip::{Device, Function, Grid, Module};
use crate::net::architecture::Activation;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The module, and the functions that were looked up.
pub(super) struct Kernels {
    module: Arc<Module>,
    element: ElementType,
    functions: RefCell<HashMap<String, Function>>,
}

/// Head sizes that the fused attention kernels exist for, where there are matrix instructions.
const FUSED_HEADS: [usize; 6] = [8, 16, 32, 64, 96, 128];

/// Widths that a group of lanes normalises in registers.
const LAYER_NORM_WIDTHS: [usize; 4] = [256, 512, 768, 1024];

/// The width that a whole block normalises.
pub(super) const LARGEST_LAYER_NORM: usize = 8192;

impl Kernels {
    /// Loads the code object.
    pub(super) fn new(device: Device, code: &[u8], what: &str, element: ElementType) -> Result<Kernels> {
        let module = Module::load(device, code, what)?;
        Ok(Kernels { module, element, functions: RefCell::default() })
    }

    /// The entry point `<kernel>_<type>` with an optional suffix.
    pub(super) fn function(&self, kernel: &str, suffix: &str) -> Result<Function> {
        let name = format!("{kernel}_{}{suffix}", self.element.name());
        if let Some(known) = self.functions.borrow().get(&name) {
            return Ok(known.clone());
        }
        let function = self.module.function(&name)?;
        self.functions.borrow_mut().insert(name, function.clone());
        Ok(function)
    }

    /// LayerNorm of this width, and its grid.
    pub(super) fn layer_norm(&self, rows: usize, width: usize) -> Result<(Function, Grid)> {
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

    /// A product of few rows, `outputs` from `inputs`, with a LayerNorm before it or not, and its grid; `None` where
    /// there are no matrix instructions for the type, or the shape is none of theirs.
    pub(super) fn dense(
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

    /// Attention with heads of this size, and its grid.
    pub(super) fn attention(&self, positions: usize, heads: usize, depth: usize) -> Result<(Function, Grid)> {
        let grid = grid(heads, positions, 128);
        // Not every architecture has matrix instructions.
        if self.element != ElementType::Fp32
            && FUSED_HEADS.contains(&depth)
            && let Ok(fused) = self.function("attention", &format!("_d{depth}"))
        {
            return Ok((fused, grid));
        }
        Ok((self.function("attention_any", "")?, grid))
    }
}

/// Side of a tile of the products of few rows, and what they take of the summed axis at a time.
const TILE: usize = 16;
const DENSE_STEP: usize = 32;

/// The longest row that a product normalises on the way.
const LARGEST_NORM_INPUTS: usize = 512;

/// `x` times `y` blocks.
pub(super) fn grid(x: usize, y: usize, threads: u32) -> Grid {
    Grid { blocks: (x as u32, y as u32), threads }
}

/// The kernels' number for an elementwise function; `None` for the softmax, which has a kernel of its own.
pub(super) fn activation_code(activation: Activation) -> Option<i32> {
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
