//! Finding a device, and what there is to know of it.

use super::error::{Result, RocmError};
use super::ffi::hip::{self, Device};
use super::ffi::{hipblaslt, rocblas};

/// A device that can evaluate, with the libraries for it.
pub(super) struct Gpu {
    pub(super) device: Device,
    /// As the compiler names it, e.g. `gfx1100`.
    pub(super) architecture: String,
    /// As it is sold.
    pub(super) name: String,
    pub(super) compute_units: usize,
    /// Bytes of its memory that are free.
    pub(super) free_memory: usize,
    pub(super) rocblas: Option<rocblas::Library>,
    pub(super) hipblaslt: Option<hipblaslt::Library>,
}

/// Which BLAS library multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GemmLibrary {
    /// What is best for the architecture, of what is there.
    Auto,
    /// rocBLAS only.
    Rocblas,
    /// hipBLASLt only.
    HipblasLt,
}

impl Gpu {
    /// Device number `ordinal`, made current for this thread.
    ///
    /// # Errors
    /// No HIP, no device, none of this number, neither BLAS library.
    pub(super) fn open(ordinal: usize, library: GemmLibrary) -> Result<Gpu> {
        let (hip, count) = hip::load()?;
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        if ordinal >= count {
            let text = format!("gpu={ordinal}, but HIP finds {count} (numbered from 0)");
            return Err(RocmError::Unsupported(text));
        }
        let device = Device::new(hip, ordinal)?;
        let architecture = device.architecture()?;
        let name = device.name()?;
        let compute_units = device.compute_units()?;
        let (free_memory, _) = device.memory()?;
        let (rocblas, hipblaslt) = load_blas(library)?;
        Ok(Gpu { device, architecture, name, compute_units, free_memory, rocblas, hipblaslt })
    }
}

type Libraries = (Option<rocblas::Library>, Option<hipblaslt::Library>);

/// The BLAS libraries that are asked for: of two, one is enough.
fn load_blas(library: GemmLibrary) -> Result<Libraries> {
    match library {
        GemmLibrary::Rocblas => Ok((Some(rocblas::load()?), None)),
        GemmLibrary::HipblasLt => Ok((None, Some(hipblaslt::load()?))),
        GemmLibrary::Auto => match (rocblas::load(), hipblaslt::load()) {
            (Err(first), Err(second)) => Err(RocmError::Library(format!("{first}; {second}"))),
            (rocblas, hipblaslt) => Ok((rocblas.ok(), hipblaslt.ok())),
        },
    }
}
