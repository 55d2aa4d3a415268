//! Who computes the products of a network, according to a table.

use super::avoided::BlasLibrary;
use super::error::Result;
use super::ffi::gemm::WeightLayout;
use super::gemm::{GemmChoice, GemmProblem};
use super::slot::SlotMaker;
use super::tuning::products;

/// Who computes a network's products.
pub(super) struct Winners {
    /// The library of each product.
    pub(super) libraries: Vec<BlasLibrary>,
    /// The products that were faster with preshuffled weights, and those that use them.
    pub(super) preshuffled: [usize; 2],
    /// The products that a library computes with transposed weights.
    pub(super) transposed: usize,
    /// The products with weights of 8 bits.
    pub(super) bytes: usize,
}

/// Who computes the products of the maker's network, according to its table.
///
/// # Errors
/// The memory for a pass is missing.
pub(super) fn winners(maker: &SlotMaker<'_>) -> Result<Winners> {
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
