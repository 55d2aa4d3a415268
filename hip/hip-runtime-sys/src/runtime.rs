//! The HIP runtime that another library calls.
//!
//! A process can hold two HIP runtimes, for example `libamdhip64.so.6` that the engine has loaded and
//! `libamdhip64.so.7` that belongs to a rocBLAS of another release. A stream of one runtime means nothing to the other,
//! so all libraries must call the same one.

use std::path::PathBuf;

use crate::loader::{file_of, function};
use crate::{Hip, Library};

/// The function whose address tells two runtimes apart.
const FUNCTION: &str = "hipGetDeviceCount";

/// A HIP runtime in this process.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// The same number as [`Hip::address`].
    address: usize,
    hip: Option<Hip>,
}

impl Runtime {
    /// The runtime that `library` calls. `None` if it cannot be determined. `own_function` is the name of one of the
    /// library's own functions.
    ///
    /// On Unix, a symbol is looked up in the library and then in the libraries that it was linked with.
    #[cfg(unix)]
    pub fn used_by(library: &Library, own_function: &str) -> Option<Self> {
        let _ = own_function;
        Self::in_library(library)
    }

    /// The runtime that `library` calls. `None` if it cannot be determined. `own_function` is the name of one of the
    /// library's own functions.
    ///
    /// On Windows, each release of the runtime has a name of its own, and a library contains the name of the runtime
    /// that it imports. The library's file is read only if several runtimes are loaded.
    #[cfg(windows)]
    pub fn used_by(library: &Library, own_function: &str) -> Option<Self> {
        use libloading::os::windows;
        let loaded: Vec<(&str, Library)> = crate::HIP
            .windows
            .iter()
            .filter_map(|&name| Some((name, windows::Library::open_already_loaded(name).ok()?.into())))
            .collect();
        if let [(_, only)] = loaded.as_slice() {
            return Self::in_library(only);
        }
        // SAFETY: the function is never called.
        let own: unsafe extern "C" fn() = unsafe { function(library, own_function) }?;
        let file = std::fs::read(file_of(own as usize)?).ok()?;
        let (_, found) = loaded.iter().find(|(name, _)| contains(&file, name))?;
        Self::in_library(found)
    }

    fn in_library(library: &Library) -> Option<Self> {
        // SAFETY: the function is never called through this pointer.
        let found: unsafe extern "C" fn() = unsafe { function(library, FUNCTION) }?;
        Some(Self { address: found as usize, hip: Hip::resolve(library).ok() })
    }

    /// The same number as [`Hip::address`] for the same runtime.
    pub fn address(&self) -> usize {
        self.address
    }

    /// The runtime's functions. `None` if it lacks some of them.
    pub fn hip(&self) -> Option<&Hip> {
        self.hip.as_ref()
    }

    /// The path of the runtime's file.
    pub fn file(&self) -> Option<PathBuf> {
        file_of(self.address)
    }
}

/// Whether a library's file has this text, in any case and with a zero byte at its end, as a table of imports has.
#[cfg(any(windows, test))]
fn contains(file: &[u8], text: &str) -> bool {
    let mut wanted = text.as_bytes().to_vec();
    wanted.push(0);
    file.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_imported_release_is_found_in_a_librarys_file() {
        let file = b"MZ...rocblas.dll\0amdhip64_6.dll\0KERNEL32.dll\0";
        assert!(contains(file, "amdhip64_6.dll"));
        assert!(contains(file, "AMDHIP64_6.dll"));
        assert!(!contains(file, "amdhip64_7.dll") && !contains(file, "amdhip64.dll"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_hip_has_no_runtime() {
        let library = libloading::os::unix::Library::this().into();
        assert!(Runtime::used_by(&library, "getpid").is_none());
    }
}
