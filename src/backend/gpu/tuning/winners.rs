//! Who computes the GEMMs of a network, according to a table.

use super::choices::network_gemms;
use crate::gemm::avoided::BlasLibrary;
use crate::gemm::gemms::{GemmChoice, GemmProblem};
use crate::pass::slot::SlotMaker;
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::WeightLayout;

/// Who computes a network's GEMMs.
pub(crate) struct Winners {
    /// The library of each GEMM.
    pub(crate) libraries: Vec<BlasLibrary>,
    /// The GEMMs that were faster with preshuffled weights, and those that use them.
    pub(crate) preshuffled: [usize; 2],
    /// The GEMMs that a library computes with transposed weights.
    pub(crate) transposed: usize,
    /// The GEMMs with weights of 8 bits.
    pub(crate) bytes: usize,
}

/// Who computes the GEMMs of the maker's network, according to its table.
///
/// # Errors
/// The memory for a pass is missing.
pub(crate) fn winners(maker: &SlotMaker<'_>) -> Result<Winners> {
    let gemms = network_gemms(maker, &maker.workspace()?)?;
    let table = maker.gemms.table();
    let choice = |layers: &Vec<GemmProblem>| Some(table.get(&layers[0].shape)?.choice);
    let choices: Vec<GemmChoice> = gemms.iter().filter_map(choice).collect();
    let count = |layout| choices.iter().filter(|choice| choice.layout() == layout).count();
    let (faster, transposed) = (count(WeightLayout::Preshuffled), count(WeightLayout::Transposed));
    let used = gemms.iter().filter(|layers| maker.gemms.prefers_preshuffled(&layers[0].shape)).count();
    let libraries = choices.iter().map(|choice| choice.library()).collect();
    Ok(Winners { libraries, preshuffled: [faster, used], transposed, bytes: count(WeightLayout::Bytes) })
}
