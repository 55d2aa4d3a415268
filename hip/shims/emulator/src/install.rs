//! Makes a folder of links that have the names of ROCm's libraries.

use std::io;
use std::path::{Path, PathBuf};

/// The names under which the engine looks for ROCm's libraries.
const NAMES: [&str; 4] = ["libamdhip64.so", "libhiprtc.so", "librocblas.so", "libhipblaslt.so"];

/// The path of the emulator's shared library. Cargo puts the library beside the running program, into the folder above
/// it, or into the folder `deps` of one of these two.
///
/// # Errors
/// Fails if the library is in none of these folders.
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

/// Puts a second HIP runtime into a folder that [`install`] has made. The libraries called `names`, such as
/// `librocblas.so`, then belong to that runtime, because they are links to a copy of the emulator's file. The linker
/// loads the copy as another library, with streams and memory of its own.
///
/// # Errors
/// Fails if the library was not found or the folder cannot be written to.
#[cfg(unix)]
pub fn install_second_runtime(folder: &Path, names: &[&str]) -> io::Result<()> {
    let copy = folder.join(format!("second-runtime-of-{}", names.first().copied().unwrap_or_default()));
    std::fs::copy(library()?, &copy)?;
    names.iter().try_for_each(|name| {
        std::fs::remove_file(folder.join(name))?;
        std::os::unix::fs::symlink(&copy, folder.join(name))
    })
}

/// The architectures for which `install` pretends that rocBLAS has kernels. The emulator executes code for others too.
const ARCHITECTURES: [&str; 7] =
    ["gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1151", "gfx1200", "gfx1201"];

/// Makes links to the shared library under ROCm's names in a folder, for `RUKH_ROCM_LIBRARY_PATH`. They must be links,
/// so that the dynamic linker loads one library, whose streams and memory all four names share. Also writes empty files
/// with the names of rocBLAS's kernel catalogues, because these names tell a caller for which architectures rocBLAS has
/// kernels.
///
/// # Errors
/// Fails if the library was not found or the folder cannot be written to.
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
