//! Tests of the shim. They load it from a folder by the libraries' names and call it through the bindings, as the
//! engine does. If CUDA's libraries or a card are missing, a test that needs them prints `skipped:`.
#![allow(unsafe_code, clippy::multiple_unsafe_ops_per_block, reason = "calls C interfaces")]

mod absent;
mod card;
mod compiler;
mod descriptions;

use std::path::{Path, PathBuf};

use hip_runtime_sys::{Hip, Hiprtc};
use hipblaslt_sys::HipblasLt;
use rocblas_sys::Rocblas;

/// The four libraries of a shim in a temporary folder.
pub(crate) struct Libraries {
    pub(crate) hip: Hip,
    pub(crate) hiprtc: Hiprtc,
    pub(crate) rocblas: Rocblas,
    pub(crate) hipblaslt: HipblasLt,
    _folder: tempfile::TempDir,
}

/// The shim's shared library. Cargo puts it beside the running program or into the folder above.
fn library() -> PathBuf {
    let name = format!("{}rocm_cuda_shim{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = std::env::current_exe().expect("the test's own path");
    let folders = program.ancestors().skip(1).take(2).map(Path::to_owned);
    let mut found = folders.map(|folder| folder.join(&name)).filter(|path| path.is_file());
    found.next().unwrap_or_else(|| panic!("{name} is not beside {}", program.display()))
}

/// Loads the libraries from a folder of links. Fails if a function of the bindings is missing.
pub(crate) fn libraries() -> Libraries {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = library();
    for name in ["libamdhip64.so", "libhiprtc.so", "librocblas.so", "libhipblaslt.so"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).expect("a link can be made");
    }
    Libraries {
        hip: Hip::load_from(folder.path()).unwrap_or_else(|error| panic!("{error}")),
        hiprtc: Hiprtc::load_from(folder.path()).unwrap_or_else(|error| panic!("{error}")),
        rocblas: Rocblas::load_from(folder.path()).unwrap_or_else(|error| panic!("{error}")),
        hipblaslt: HipblasLt::load_from(folder.path()).unwrap_or_else(|error| panic!("{error}")),
        _folder: folder,
    }
}

impl Libraries {
    /// The status of `hipGetDeviceCount`, and the number of cards.
    pub(crate) fn devices(&self) -> (u32, i32) {
        let mut count = -1;
        // SAFETY: the pointer is to a local variable.
        let status = unsafe { (self.hip.hipGetDeviceCount)(&mut count) };
        (status, count)
    }
}
