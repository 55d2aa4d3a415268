//! The makers of graphics cards, by the backends that use them.

use rukh_options::BackendName;
use serde::{Deserialize, Serialize};

/// Who makes a card, and so which driver it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Maker {
    /// AMD: HIP's runtime, rocBLAS and hipBLASLt.
    #[default]
    Amd,
    /// NVIDIA: the display driver, and cuBLASLt where the user has it.
    Nvidia,
}

impl Maker {
    /// Both makers.
    pub const ALL: [Maker; 2] = [Maker::Amd, Maker::Nvidia];

    /// The maker of the cards that a backend uses; `None` for a backend that uses no card.
    pub fn of_backend(name: BackendName) -> Option<Maker> {
        match name {
            BackendName::RocmAuto
            | BackendName::RocmFp16
            | BackendName::RocmBf16
            | BackendName::RocmInt8
            | BackendName::RocmFp8
            | BackendName::Rocm => Some(Maker::Amd),
            BackendName::CudaAuto
            | BackendName::CudaFp16
            | BackendName::CudaBf16
            | BackendName::CudaInt8
            | BackendName::CudaFp8
            | BackendName::Cuda => Some(Maker::Nvidia),
            _ => None,
        }
    }

    /// The maker's backend that chooses the number format.
    pub fn usual_backend(self) -> BackendName {
        match self {
            Maker::Amd => BackendName::RocmAuto,
            Maker::Nvidia => BackendName::CudaAuto,
        }
    }

    /// The maker's number among the vendors of PCI devices, as Linux writes it.
    pub(crate) fn pci_vendor(self) -> &'static str {
        match self {
            Maker::Amd => "0x1002",
            Maker::Nvidia => "0x10de",
        }
    }

    /// What the names of the maker's backends begin with.
    pub(crate) fn family(self) -> &'static str {
        match self {
            Maker::Amd => "rocm",
            Maker::Nvidia => "cuda",
        }
    }

    /// The name of the interface to the driver.
    pub(crate) fn interface(self) -> &'static str {
        match self {
            Maker::Amd => "HIP",
            Maker::Nvidia => "CUDA",
        }
    }

    /// The name of the library that hipBLASLt's interface leads to.
    pub(crate) fn blaslt(self) -> &'static str {
        match self {
            Maker::Amd => "hipBLASLt",
            Maker::Nvidia => "cuBLASLt",
        }
    }
}
