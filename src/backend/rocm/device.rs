//! Finding a device, and what there is to know of it.

use super::blas_files::{Loaded, check_hipblaslt, check_rocblas};
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
    /// Why one of them is there and not used.
    pub(super) refusals: Vec<String>,
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
    /// No HIP, no device, none of this number, neither BLAS library with kernels for it.
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
        let Libraries { rocblas, hipblaslt, refusals } = load_blas(library, &architecture)?;
        Ok(Gpu { device, architecture, name, compute_units, free_memory, rocblas, hipblaslt, refusals })
    }
}

/// The BLAS libraries that can be used.
#[derive(Default)]
struct Libraries {
    rocblas: Option<rocblas::Library>,
    hipblaslt: Option<hipblaslt::Library>,
    refusals: Vec<String>,
}

/// The BLAS libraries that are asked for and have kernels for `architecture`: of two, one is enough.
fn load_blas(library: GemmLibrary, architecture: &str) -> Result<Libraries> {
    match library {
        GemmLibrary::Rocblas => {
            Ok(Libraries { rocblas: Some(load_rocblas(architecture)?), ..Libraries::default() })
        }
        GemmLibrary::HipblasLt => {
            Ok(Libraries { hipblaslt: Some(load_hipblaslt(architecture)?), ..Libraries::default() })
        }
        GemmLibrary::Auto => match (load_rocblas(architecture), load_hipblaslt(architecture)) {
            (Err(first), Err(second)) => Err(RocmError::Library(format!("{first}; {second}"))),
            (rocblas, hipblaslt) => {
                let errors = [rocblas.as_ref().err(), hipblaslt.as_ref().err()];
                let refusals = errors.into_iter().flatten().filter_map(|error| match error {
                    RocmError::Unsupported(reason) => Some(reason.clone()),
                    // Whoever installed only one of the two wants no word about the other.
                    _ => None,
                });
                let refusals = refusals.collect();
                Ok(Libraries { rocblas: rocblas.ok(), hipblaslt: hipblaslt.ok(), refusals })
            }
        },
    }
}

fn load_rocblas(architecture: &str) -> Result<rocblas::Library> {
    let library = rocblas::load()?;
    let loaded =
        Loaded { file: rocblas::file(library), version: rocblas::version(library).unwrap_or_default() };
    check_rocblas(&loaded, architecture).map_err(RocmError::Unsupported)?;
    Ok(library)
}

fn load_hipblaslt(architecture: &str) -> Result<hipblaslt::Library> {
    let library = hipblaslt::load()?;
    let loaded = Loaded { file: hipblaslt::file(library), version: String::new() };
    check_hipblaslt(&loaded, architecture).map_err(RocmError::Unsupported)?;
    Ok(library)
}
