//! Opens a device, and loads the BLAS libraries that have kernels for it.

use super::blas_files::{Loaded, check_hipblaslt, check_rocblas};
use super::error::{Result, RocmError};
use super::ffi::hip::{self, Device};
use super::ffi::{hipblaslt, rocblas};

/// A usable device and its BLAS libraries. At least one library is present.
pub(super) struct Gpu {
    pub(super) device: Device,
    /// The compiler's name of the architecture, e.g. `gfx1100`.
    pub(super) architecture: String,
    /// The product name.
    pub(super) name: String,
    pub(super) compute_units: usize,
    /// Free device memory when the device was opened, in bytes.
    pub(super) free_memory: usize,
    pub(super) rocblas: Option<rocblas::Library>,
    pub(super) hipblaslt: Option<hipblaslt::Library>,
    /// The reasons why an installed library is not used.
    pub(super) refusals: Vec<String>,
}

/// The user's choice of a BLAS library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GemmLibrary {
    /// Uses both libraries, with a preference that depends on the architecture. One of them is enough.
    Auto,
    /// Uses only rocBLAS.
    Rocblas,
    /// Uses only hipBLASLt.
    HipblasLt,
}

impl GemmLibrary {
    const ALL: [GemmLibrary; 3] = [GemmLibrary::Auto, GemmLibrary::Rocblas, GemmLibrary::HipblasLt];

    /// The choice's name in the options.
    pub(super) fn key(self) -> &'static str {
        match self {
            GemmLibrary::Auto => "auto",
            GemmLibrary::Rocblas => "rocblas",
            GemmLibrary::HipblasLt => "hipblaslt",
        }
    }

    /// The choice with this [`GemmLibrary::key`].
    pub(super) fn from_key(key: &str) -> Option<GemmLibrary> {
        GemmLibrary::ALL.into_iter().find(|library| library.key() == key)
    }
}

impl Gpu {
    /// Opens device number `ordinal` and makes it current for this thread.
    ///
    /// # Errors
    /// HIP cannot be loaded, the device does not exist, or no BLAS library has kernels for it.
    pub(super) fn open(ordinal: usize, library: GemmLibrary) -> Result<Gpu> {
        let (hip, count) = hip::load()?;
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        if ordinal >= count {
            let text = format!("gpu={ordinal}, but HIP finds only {count} device(s), numbered from 0");
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

/// The usable BLAS libraries.
#[derive(Default)]
struct Libraries {
    rocblas: Option<rocblas::Library>,
    hipblaslt: Option<hipblaslt::Library>,
    refusals: Vec<String>,
}

/// Loads the requested BLAS libraries that have kernels for `architecture`. For [`GemmLibrary::Auto`] one library is
/// enough.
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
                    // A library that is not installed needs no notice while the other one works.
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
