//! What each of our kernels has to do at least, from its arguments and its grid (`hip/kernels/kernels.h`).
//!
//! Inputs and results count once, however often a kernel reads them. Biases and other vectors are left out: they are
//! small and stay in the caches. So are the moves, whose number the grid does not have.

use crate::network::layers::{SQUARES, component_type};
use crate::runtime::ffi::arguments::{
    ActivationArguments, AttentionArguments, AttentionPolicyArguments, DenseArguments, GemmArguments,
    GemmBytesArguments, LayerNormArguments, PlanesArguments, PolicyArguments, QuantiseArguments,
    ScalarHeadArguments, SqueezeExciteArguments, WinogradArguments,
};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::module::Grid;
use crate::runtime::ffi::program::Work;
use rukh_backend::winograd::{COMPONENTS, TILES};

/// Arguments that say what their kernel has to do.
pub(crate) trait KernelWork {
    /// The work of a launch with `grid` on numbers of the type `element`.
    fn work(&self, grid: Grid, element: ElementType) -> Work;
}

/// The product of sizes that are given as arguments of a kernel.
fn product(sizes: &[i32]) -> f64 {
    sizes.iter().map(|&size| f64::from(size)).product()
}

fn moving(elements: f64, element: ElementType) -> Work {
    Work { bytes: elements * element.bytes() as f64, ..Work::default() }
}

/// The number of squares of a batch with so many positions.
fn squares(positions: u32) -> f64 {
    f64::from(positions) * SQUARES as f64
}

impl KernelWork for PlanesArguments {
    /// The grid has a block for each position.
    fn work(&self, grid: Grid, element: ElementType) -> Work {
        let positions = grid.blocks.0;
        let masks = f64::from(positions) * product(&[self.planes]) * size_of::<u64>() as f64;
        let planes = moving(squares(positions) * f64::from(self.planes + self.extra), element);
        Work { bytes: planes.bytes + masks, ..planes }
    }
}

impl KernelWork for ActivationArguments {
    fn work(&self, _grid: Grid, element: ElementType) -> Work {
        moving(2.0 * product(&[self.rows, self.width]), element)
    }
}

impl KernelWork for LayerNormArguments {
    fn work(&self, _grid: Grid, element: ElementType) -> Work {
        let matrices = if self.residual == Address::NULL { 2.0 } else { 3.0 };
        moving(matrices * product(&[self.rows, self.width]), element)
    }
}

impl KernelWork for DenseArguments {
    fn work(&self, _grid: Grid, element: ElementType) -> Work {
        let DenseArguments { rows, inputs, outputs, .. } = *self;
        let matrices = [[outputs, inputs], [rows, inputs], [rows, outputs]];
        let elements = matrices.iter().map(|sizes| product(sizes)).sum();
        Work { operations: 2.0 * product(&[rows, inputs, outputs]), ..moving(elements, element) }
    }
}

impl KernelWork for QuantiseArguments {
    /// An element becomes a byte.
    fn work(&self, _grid: Grid, element: ElementType) -> Work {
        let elements = product(&[self.rows, self.width]);
        Work { bytes: elements + moving(elements, element).bytes, ..Work::default() }
    }
}

impl KernelWork for GemmBytesArguments {
    fn work(&self, _grid: Grid, element: ElementType) -> Work {
        let GemmArguments { rows, inputs, outputs, .. } = self.gemm;
        let factors = product(&[rows, inputs]) + product(&[outputs, inputs]);
        let results = moving(product(&[rows, outputs]), element);
        let operations = 2.0 * product(&[rows, inputs, outputs]);
        Work { operations, byte_operations: operations, bytes: factors + results.bytes }
    }
}

impl KernelWork for AttentionArguments {
    /// The grid has a row of blocks for each position.
    fn work(&self, grid: Grid, element: ElementType) -> Work {
        let positions = grid.blocks.1;
        let width = product(&[self.heads, self.depth]);
        let pairs = squares(positions) * SQUARES as f64;
        let logits = if self.logits == Address::NULL { 0.0 } else { pairs * f64::from(self.heads) };
        // Q, K and V are read, and the results are written. Both products have a term for each pair of squares.
        let elements = 4.0 * squares(positions) * width + logits;
        Work { operations: 2.0 * 2.0 * pairs * width, ..moving(elements, element) }
    }
}

impl KernelWork for AttentionPolicyArguments {
    /// The grid has a block for each position.
    fn work(&self, grid: Grid, element: ElementType) -> Work {
        moving(2.0 * squares(grid.blocks.0) * product(&[self.depth]), element)
    }
}

impl KernelWork for PolicyArguments {
    fn work(&self, _grid: Grid, _element: ElementType) -> Work {
        Work::default()
    }
}

impl KernelWork for ScalarHeadArguments {
    fn work(&self, _grid: Grid, element: ElementType) -> Work {
        let ScalarHeadArguments { positions, hidden, outputs, .. } = *self;
        let numbers = moving(product(&[positions, hidden]) + product(&[outputs, hidden]), element);
        let results = product(&[positions, outputs]) * size_of::<f32>() as f64;
        let operations = 2.0 * product(&[positions, hidden, outputs]);
        Work { operations, bytes: numbers.bytes + results, ..Work::default() }
    }
}

impl KernelWork for WinogradArguments {
    /// Boards become components, or components boards. The grid has a row of blocks for each position.
    fn work(&self, grid: Grid, element: ElementType) -> Work {
        let channels = product(&[self.channels]);
        let positions = f64::from(grid.blocks.1);
        let boards = if self.residual == Address::NULL { 1.0 } else { 2.0 };
        let board = moving(boards * squares(grid.blocks.1) * channels, element);
        let components = moving(positions * (COMPONENTS * TILES) as f64 * channels, component_type(element));
        Work { bytes: board.bytes + components.bytes, ..board }
    }
}

impl KernelWork for SqueezeExciteArguments {
    /// The grid has a block for each position.
    fn work(&self, grid: Grid, element: ElementType) -> Work {
        // The branch and the residual are read, and the result is written. Both layers are applied to each position.
        let elements = 3.0 * squares(grid.blocks.0) * product(&[self.channels]);
        let layers = 3.0 * product(&[self.channels, self.hidden]);
        let operations = 2.0 * f64::from(grid.blocks.0) * layers;
        Work { operations, ..moving(elements + layers, element) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::kernels::grid;

    #[test]
    fn attention_has_two_products_for_each_pair_of_squares() {
        let arguments = AttentionArguments {
            qkv: Address::NULL,
            logits: Address::NULL,
            output: Address::NULL,
            heads: 4,
            depth: 8,
            stride: 96,
            key_offset: 32,
            value_offset: 64,
            output_stride: 32,
            scale: 1.0,
            reserved: 0,
        };
        let work = arguments.work(grid(4, 3, 128), ElementType::Fp16);
        assert_eq!(work.operations, 3.0 * 4.0 * 64.0 * 64.0 * 32.0);
        assert_eq!(work.bytes, 3.0 * 4.0 * 64.0 * 32.0 * 2.0);
    }
}
