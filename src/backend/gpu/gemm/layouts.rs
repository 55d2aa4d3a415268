//! Which layout of its weights a GEMM reads, and where they are.

use super::measured::GemmTable;
use super::thresholds::{Thresholds, thresholds};
use crate::network::copies::{CopiedLayout, WeightCopies};
use crate::runtime::ffi::gemm::{GemmOperands, GemmShape, WeightLayout};
use crate::runtime::ffi::hip::{Address, Device, DeviceBuffer};
use std::cell::RefCell;
use std::sync::Arc;

/// A GEMM that a forward pass needs: its shape and the addresses of its matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmProblem {
    pub(crate) shape: GemmShape,
    /// With plain weights.
    pub(crate) operands: GemmOperands,
    pub(crate) bias: Address,
    /// The preshuffled and the transposed weights, and those of 8 bits; null where there are none.
    pub(crate) preshuffled: Address,
    pub(crate) transposed: Address,
    pub(crate) bytes: Address,
}

impl GemmProblem {
    /// A GEMM whose weights are there in the plain layout alone.
    pub(crate) fn plain(shape: GemmShape, operands: GemmOperands, bias: Address) -> GemmProblem {
        let null = Address::NULL;
        GemmProblem { shape, operands, bias, preshuffled: null, transposed: null, bytes: null }
    }

    /// The operands with weights of this layout; `None` if there are none.
    pub(crate) fn operands_in(&self, layout: WeightLayout) -> Option<GemmOperands> {
        let weights = match layout {
            WeightLayout::Plain => return Some(self.operands),
            WeightLayout::Preshuffled => self.preshuffled,
            WeightLayout::Transposed => self.transposed,
            WeightLayout::Bytes => self.bytes,
        };
        (weights != Address::NULL).then_some(GemmOperands { weights, layout, ..self.operands })
    }
}

/// The layouts of the weights on one device.
pub(crate) struct Layouts {
    device: Device,
    /// Which GEMMs of our own kernels use preshuffled weights, according to the table.
    thresholds: RefCell<Thresholds>,
    /// The copies for the layers that need them. They are made for the first one.
    copies: RefCell<Option<WeightCopies>>,
}

impl Layouts {
    /// All GEMMs read plain weights.
    pub(crate) fn new(device: Device) -> Layouts {
        Layouts { device, thresholds: RefCell::default(), copies: RefCell::default() }
    }

    /// Chooses anew where GEMMs of our own kernels read preshuffled weights.
    pub(crate) fn set_table(&self, table: &GemmTable) {
        self.thresholds.replace(thresholds(table));
    }

    /// Whether our own kernels read preshuffled weights for a GEMM: of GEMMs of the same layer, those with many
    /// rows do.
    pub(crate) fn prefer_preshuffled(&self, shape: &GemmShape) -> bool {
        self.thresholds.borrow().include(shape)
    }

    /// The operands with weights of this layout, of which a copy is made if there is none. `None` if that is
    /// impossible, for example because memory is full.
    pub(crate) fn copied(
        &self,
        shape: &GemmShape,
        operands: &GemmOperands,
        layout: &CopiedLayout,
    ) -> Option<GemmOperands> {
        let mut copies = self.copies.borrow_mut();
        if copies.is_none() {
            *copies = WeightCopies::new(self.device).ok();
        }
        let weights = copies.as_mut()?.of(shape, layout, operands.weights).ok()?;
        Some(GemmOperands { weights, layout: layout.layout(), ..*operands })
    }

    /// The memory of the copies. A program that was laid out before must keep it.
    pub(crate) fn memory(&self) -> Vec<Arc<DeviceBuffer>> {
        self.copies.borrow().as_ref().map(|copies| copies.memory().to_vec()).unwrap_or_default()
    }

    /// Frees nothing, because the device may use it for ever.
    pub(crate) fn leak(&self) {
        std::mem::forget(self.copies.take());
    }
}
