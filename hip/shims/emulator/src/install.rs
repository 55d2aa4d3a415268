//! Makes a folder of links that have the names of ROCm's libraries.
//!
//! On Windows the links are hard links, which a user may make without special rights. The system's loader takes two
//! hard links to one file for one library.

use std::io;
use std::path::{Path, PathBuf};

/// ROCm's libraries, without prefix and suffix.
pub const LIBRARIES: [&str; 4] = ["amdhip64", "hiprtc", "rocblas", "hipblaslt"];

/// The name under which the engine looks for one of [`LIBRARIES`]. On Windows the names of ROCm 7 are used.
pub fn file_name(library: &str) -> String {
    match (cfg!(windows), library) {
        (false, _) => format!("lib{library}.so"),
        (true, "amdhip64") => "amdhip64_7.dll".to_owned(),
        (true, "hiprtc") => "hiprtc0700.dll".to_owned(),
        (true, "hipblaslt") => "libhipblaslt.dll".to_owned(),
        (true, _) => format!("{library}.dll"),
    }
}

/// The path of the emulator's shared library, as [`shared_library`] finds it.
///
/// # Errors
/// Fails if the library was not found.
pub fn library() -> io::Result<PathBuf> {
    shared_library("rocm_emulator")
}

/// The path of a shared library that was built with the running program. Cargo puts the library beside the program, into
/// the folder above it, or into the folder `deps` of one of these two.
///
/// # Errors
/// Fails if the library is in none of these folders.
pub fn shared_library(name: &str) -> io::Result<PathBuf> {
    let name = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
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

/// Puts a second HIP runtime into a folder that [`install`] has made. `libraries`, such as `rocblas`, then belong to
/// that runtime, because they are links to a copy of the emulator's file. The linker loads the copy as another library,
/// with streams and memory of its own.
///
/// # Errors
/// Fails if the library was not found or the folder cannot be written to.
pub fn install_second_runtime(folder: &Path, libraries: &[&str]) -> io::Result<()> {
    let first = libraries.first().copied().unwrap_or_default();
    let copy = folder.join(format!("second-runtime-of-{}", file_name(first)));
    std::fs::copy(library()?, &copy)?;
    libraries.iter().try_for_each(|library| {
        let name = folder.join(file_name(library));
        std::fs::remove_file(&name)?;
        link(&copy, &name)
    })
}

/// Makes `name` a link to `file`.
///
/// # Errors
/// Fails if `name` exists or its folder cannot be written to, and on Windows if `file` is on another drive.
#[cfg(unix)]
pub fn link(file: &Path, name: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(file, name)
}

/// Makes `name` a link to `file`.
///
/// # Errors
/// Fails if `name` exists or its folder cannot be written to, and on Windows if `file` is on another drive.
#[cfg(not(unix))]
pub fn link(file: &Path, name: &Path) -> io::Result<()> {
    std::fs::hard_link(file, name)
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
pub fn install(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let library = target_in(folder)?;
    LIBRARIES.iter().try_for_each(|name| link(&library, &folder.join(file_name(name))))?;
    let kernels = folder.join("rocblas/library");
    std::fs::create_dir_all(&kernels)?;
    ARCHITECTURES.iter().try_for_each(|architecture| {
        std::fs::write(kernels.join(format!("TensileLibrary_lazy_{architecture}.dat")), "")
    })
}

/// The file to which the links in a folder lead. A hard link cannot lead to another drive, so that Windows needs a copy
/// in the folder itself.
fn target_in(folder: &Path) -> io::Result<PathBuf> {
    let library = library()?;
    if cfg!(unix) {
        return Ok(library);
    }
    let copy = folder.join("rocm_emulator.dll");
    std::fs::copy(library, &copy)?;
    Ok(copy)
}
