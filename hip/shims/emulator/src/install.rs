//! A folder of libraries under ROCm's names.

use std::io;
use std::path::{Path, PathBuf};

/// The libraries that the emulator takes the place of.
const NAMES: [&str; 4] = ["libamdhip64.so", "libhiprtc.so", "librocblas.so", "libhipblaslt.so"];

/// Where Cargo puts the shared library that belongs to the running program: beside it, or a folder above it.
///
/// # Errors
/// None is there: the crate was not built as a shared library.
pub fn library() -> io::Result<PathBuf> {
    let name = format!("{}rocm_emulator{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = std::env::current_exe()?;
    let found = program
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|folder| [folder.join(&name), folder.join("deps").join(&name)]);
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{name} is not beside {}", program.display()))
    })
}

/// The architectures of the cards that the emulator poses as.
const ARCHITECTURES: [&str; 2] = ["gfx1100", "gfx1151"];

/// Makes links to the shared library under ROCm's names in a folder, for `RUKH_ROCM_LIBRARY_PATH`. They must be links:
/// the dynamic linker then loads one library, and all four have the same streams and memory. Beside them are the files,
/// empty here, by which a caller sees what rocBLAS has kernels for.
///
/// # Errors
/// The library is not there, or the folder cannot be written to.
#[cfg(unix)]
pub fn install(folder: &Path) -> io::Result<()> {
    let library = library()?;
    std::fs::create_dir_all(folder)?;
    NAMES.iter().try_for_each(|name| std::os::unix::fs::symlink(&library, folder.join(name)))?;
    let kernels = folder.join("rocblas/library");
    std::fs::create_dir_all(&kernels)?;
    ARCHITECTURES.iter().try_for_each(|architecture| {
        std::fs::write(kernels.join(format!("TensileLibrary_lazy_{architecture}.dat")), "")
    })
}
