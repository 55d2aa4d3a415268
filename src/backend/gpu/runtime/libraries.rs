//! Loads the driver's library and the BLAS libraries of a maker. AMD's must all use the same HIP runtime.
//!
//! HIP and rocBLAS may come from different releases of ROCm, for example one from the system's folders and one from a
//! Python wheel. Each BLAS library brings the HIP runtime that it was linked with. If that is another one than the
//! engine has loaded, streams and memory of one runtime would be given to the other. So the engine uses the runtime of
//! the BLAS libraries, and leaves out a library with yet another one.

use super::error::{GpuError, Result};
use super::ffi::{hip, hipblaslt, rocblas};
use super::maker::Maker;
use hip_runtime_sys::Hip;
use hip_runtime_sys::loader::file_of;
use hip_runtime_sys::runtime::Runtime;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The user's choice of who computes the GEMMs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GemmLibrary {
    /// Uses both libraries and our own kernels. Those that are not installed are not missed.
    Auto,
    /// Uses only our own kernels.
    Own,
    /// Uses both libraries, with a preference that depends on the architecture. One of them is enough.
    Library,
    /// Uses only rocBLAS.
    Rocblas,
    /// Uses only hipBLASLt.
    HipblasLt,
}

impl GemmLibrary {
    pub(crate) const ALL: [GemmLibrary; 5] = [
        GemmLibrary::Auto,
        GemmLibrary::Own,
        GemmLibrary::HipblasLt,
        GemmLibrary::Rocblas,
        GemmLibrary::Library,
    ];

    /// The choice's name in the options.
    pub(crate) fn key(self) -> &'static str {
        match self {
            GemmLibrary::Auto => "auto",
            GemmLibrary::Own => "own",
            GemmLibrary::Library => "library",
            GemmLibrary::Rocblas => "rocblas",
            GemmLibrary::HipblasLt => "hipblaslt",
        }
    }

    /// Whether our own kernels may compute GEMMs.
    pub(crate) fn has_own(self) -> bool {
        matches!(self, GemmLibrary::Auto | GemmLibrary::Own)
    }

    fn has_rocblas(self) -> bool {
        matches!(self, GemmLibrary::Auto | GemmLibrary::Library | GemmLibrary::Rocblas)
    }

    fn has_hipblaslt(self) -> bool {
        matches!(self, GemmLibrary::Auto | GemmLibrary::Library | GemmLibrary::HipblasLt)
    }
}

/// The libraries to load.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Sources {
    pub(crate) maker: Maker,
    pub(crate) gemm: GemmLibrary,
    /// The folder of NVIDIA's cuBLASLt, if the user has named one.
    pub(crate) folder: Option<PathBuf>,
    /// The target whose kernels are used on an NVIDIA card. `None` means the one that suits the card.
    pub(crate) target: Option<String>,
}

/// The libraries that a backend uses. None of their functions has been called yet.
pub(crate) struct Libraries {
    pub(crate) maker: Maker,
    /// The target that the user has asked for.
    pub(crate) target: Option<String>,
    pub(crate) hip: &'static Hip,
    /// rocBLAS, or the reason why it cannot be used. `None` if the user does not want it.
    pub(crate) rocblas: Option<Result<rocblas::Library>>,
    /// hipBLASLt, or the reason why it cannot be used. `None` if the user does not want it.
    pub(crate) hipblaslt: Option<Result<hipblaslt::Library>>,
    /// Whether our own kernels may compute GEMMs, so that none of the two libraries is needed.
    pub(crate) has_own: bool,
    /// Messages for the user.
    pub(crate) notices: Vec<String>,
}

impl Libraries {
    /// Loads the driver's library and the BLAS libraries that the user wants.
    ///
    /// # Errors
    /// The driver's library cannot be loaded. An absent BLAS library is an error of that library alone.
    pub(crate) fn load(sources: &Sources) -> Result<Libraries> {
        match sources.maker {
            Maker::Amd => Libraries::of_amd(sources.gemm),
            Maker::Nvidia => Libraries::of_nvidia(sources),
        }
    }

    fn of_nvidia(sources: &Sources) -> Result<Libraries> {
        let hip = hip::load(Maker::Nvidia).map_err(|error| match error {
            GpuError::Library(text) => {
                GpuError::Library(format!("NVIDIA's display driver cannot be used: {text}"))
            }
            other => other,
        })?;
        let wanted = sources.gemm;
        if wanted == GemmLibrary::Rocblas {
            return Err(GpuError::Unsupported(
                "gemm=rocblas, but rocBLAS is only for AMD's cards: gemm=hipblaslt is cuBLASLt".to_owned(),
            ));
        }
        let hipblaslt =
            wanted.has_hipblaslt().then(|| hipblaslt::load(Maker::Nvidia, sources.folder.as_deref()));
        let mut notices = Vec::new();
        match &hipblaslt {
            Some(Ok(library)) => notices.extend(
                hipblaslt::file(Maker::Nvidia, library).map(|file| format!("cuBLASLt is {}", file.display())),
            ),
            // A library that the user has named and that cannot be used is news, even if it is not needed.
            Some(Err(error)) if sources.folder.is_some() => notices.push(error.to_string()),
            _ => {}
        }
        Ok(Libraries {
            maker: Maker::Nvidia,
            target: sources.target.clone(),
            hip,
            rocblas: None,
            hipblaslt,
            has_own: wanted.has_own(),
            notices,
        })
    }

    fn of_amd(wanted: GemmLibrary) -> Result<Libraries> {
        let own = hip::load(Maker::Amd)?;
        let mut rocblas = wanted.has_rocblas().then(rocblas::load);
        let mut hipblaslt = wanted.has_hipblaslt().then(|| hipblaslt::load(Maker::Amd, None));
        let runtimes = [
            loaded(&rocblas).and_then(|library| library.runtime()),
            loaded(&hipblaslt).and_then(|library| library.runtime()),
        ];
        let address = shared(own.address(), runtimes.map(|runtime| runtime.map(Runtime::address)));
        let other = runtimes.into_iter().flatten().find(|runtime| runtime.address() == address);
        let (hip, notices) = match other.and_then(Runtime::hip).filter(|_| address != own.address()) {
            Some(&other) => (hip::keep(other), vec![replaced(&file(own.address()), &file(address))]),
            // A runtime that lacks functions cannot be used, and neither can the libraries that need it.
            None => (own, Vec::new()),
        };
        let [rocblas_runtime, hipblaslt_runtime] = runtimes.map(|runtime| runtime.copied());
        refuse(&mut rocblas, "rocBLAS", rocblas_runtime, hip.address());
        refuse(&mut hipblaslt, "hipBLASLt", hipblaslt_runtime, hip.address());
        Ok(Libraries {
            maker: Maker::Amd,
            target: None,
            hip,
            rocblas,
            hipblaslt,
            has_own: wanted.has_own(),
            notices,
        })
    }
}

fn loaded<T: Copy>(library: &Option<Result<T>>) -> Option<T> {
    library.as_ref().and_then(|library| library.as_ref().ok().copied())
}

/// The address of the runtime to use: `own` if it is the runtime of a BLAS library or none of them names its runtime,
/// and otherwise that of the first BLAS library that does.
fn shared(own: usize, libraries: [Option<usize>; 2]) -> usize {
    if libraries.contains(&Some(own)) {
        return own;
    }
    libraries.into_iter().flatten().next().unwrap_or(own)
}

/// Leaves out a library if it calls another runtime than the one at `used`.
fn refuse<T>(library: &mut Option<Result<T>>, name: &str, runtime: Option<Runtime>, used: usize) {
    let Some(runtime) = runtime.filter(|runtime| runtime.address() != used) else { return };
    *library = Some(Err(GpuError::Unsupported(format!(
        "{name} is left out, because it belongs to another HIP runtime ({}) than the one in use ({})",
        file(runtime.address()).display(),
        file(used).display()
    ))));
}

fn replaced(first: &Path, used: &Path) -> String {
    format!(
        "HIP is used from {} and not from {}, because the BLAS libraries belong to it",
        used.display(),
        first.display()
    )
}

/// The file of the runtime at an address.
fn file(address: usize) -> PathBuf {
    file_of(address).unwrap_or_else(|| "an unknown file".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_the_one_that_a_blas_library_has() {
        assert_eq!(shared(1, [None, None]), 1, "nothing is known");
        assert_eq!(shared(1, [Some(1), Some(1)]), 1, "all agree");
        assert_eq!(shared(1, [Some(2), Some(2)]), 2, "HIP alone is another");
        assert_eq!(shared(1, [None, Some(2)]), 2);
        assert_eq!(shared(1, [Some(2), Some(1)]), 1, "hipBLASLt works with the loaded runtime");
        assert_eq!(shared(1, [Some(2), Some(3)]), 2, "no two agree");
    }
}
