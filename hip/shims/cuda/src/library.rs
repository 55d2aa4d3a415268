//! Finds CUDA's libraries.

use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::Library;

/// Whether `RUKH_CUDA_SHIM_LOG` asks for messages.
pub(crate) fn logs() -> bool {
    static LOGS: OnceLock<bool> = OnceLock::new();
    *LOGS.get_or_init(|| is_set("RUKH_CUDA_SHIM_LOG"))
}

/// Whether an environment variable is set to a value other than 0.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Folders of CUDA's toolkit and drivers that the dynamic linker might not search.
const USUAL_FOLDERS: [&str; 3] = ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"];

/// Loads the first library of these names from which `resolve` can fill a table. It stays loaded until the process
/// ends.
///
/// `beside` names libraries that the loaded library itself opens by file name. If they are in its folder, they are
/// loaded first, so that it finds them.
pub(crate) fn load<T>(
    names: &[&str],
    beside: &[&str],
    resolve: impl Fn(&Library) -> Result<T, Vec<&'static str>>,
) -> Option<T> {
    let asked = std::env::var("RUKH_CUDA_SHIM_PATH").unwrap_or_default();
    let asked = asked.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folders: Vec<PathBuf> =
        asked.chain([PathBuf::new()]).chain(USUAL_FOLDERS.map(PathBuf::from)).collect();
    for folder in &folders {
        for name in names {
            let path = folder.join(name);
            if folder.is_absolute() && path.is_file() {
                beside.iter().map(|name| folder.join(name)).filter(|path| path.is_file()).for_each(keep);
            }
            // SAFETY: this runs the initialisers of one of CUDA's libraries.
            let opened = match unsafe { Library::new(&path) } {
                Ok(opened) => opened,
                Err(error) => {
                    if logs() {
                        let reason = std::error::Error::source(&error);
                        let reason = reason.map_or_else(|| error.to_string(), |source| source.to_string());
                        eprintln!("rocm-cuda-shim: {}: {reason}", path.display());
                    }
                    continue;
                }
            };
            let table = resolve(&opened);
            // The library is never unloaded, because CUDA's threads run its code until the process ends.
            std::mem::forget(opened);
            match table {
                Ok(table) => {
                    if logs() {
                        eprintln!("rocm-cuda-shim: loaded {}", path.display());
                    }
                    return Some(table);
                }
                Err(missing) => {
                    eprintln!("rocm-cuda-shim: {} lacks {}", path.display(), missing.join(", "))
                }
            }
        }
    }
    None
}

/// Loads a library that another library will look for, and never unloads it.
fn keep(path: PathBuf) {
    // SAFETY: this runs the initialisers of one of CUDA's libraries.
    if let Ok(library) = unsafe { Library::new(path) } {
        std::mem::forget(library);
    }
}
