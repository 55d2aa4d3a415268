//! Who computes the products of a network, according to a table.

use super::choices::products;
use crate::gemm::avoided::BlasLibrary;
use crate::gemm::gemms::{GemmChoice, GemmProblem};
use crate::pass::slot::SlotMaker;
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::WeightLayout;

/// Who computes a network's products.
pub(crate) struct Winners {
    /// The library of each product.
    pub(crate) libraries: Vec<BlasLibrary>,
    /// The products that were faster with preshuffled weights, and those that use them.
    pub(crate) preshuffled: [usize; 2],
    /// The products that a library computes with transposed weights.
    pub(crate) transposed: usize,
    /// The products with weights of 8 bits.
    pub(crate) bytes: usize,
}

/// Who computes the products of the maker's network, according to its table.
///
/// # Errors
/// The memory for a pass is missing.
pub(crate) fn winners(maker: &SlotMaker<'_>) -> Result<Winners> {
    let products = products(maker, &maker.workspace()?)?;
    let table = maker.gemms.table();
    let choice = |layers: &Vec<GemmProblem>| Some(table.get(&layers[0].shape)?.choice);
    let choices: Vec<GemmChoice> = products.iter().filter_map(choice).collect();
    let count = |layout| choices.iter().filter(|choice| choice.layout() == layout).count();
    let (faster, transposed) = (count(WeightLayout::Preshuffled), count(WeightLayout::Transposed));
    let used = products.iter().filter(|layers| maker.gemms.prefers_preshuffled(&layers[0].shape)).count();
    let libraries = choices.iter().map(|choice| choice.library()).collect();
    Ok(Winners { libraries, preshuffled: [faster, used], transposed, bytes: count(WeightLayout::Bytes) })
}
