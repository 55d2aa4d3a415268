//! Checks whether a BLAS library has kernels for an architecture, before its first GEMM.
//!
//! Both libraries keep their kernels in files, with a catalogue for each architecture that they were built for. Without
//! the catalogue rocBLAS ends the process (SIGABRT) at its first GEMM
//! (<https://github.com/ROCm/rocm-libraries/issues/7026>). hipBLASLt usually reports that it has no algorithm, but has
//! been reported to write out of bounds (<https://github.com/ROCm/TheRock/issues/7976>). So this module looks for the
//! files in the folders where the library itself would look.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The environment variable that names rocBLAS's folder of kernels.
const ROCBLAS_FOLDER: &str = "ROCBLAS_TENSILE_LIBPATH";

/// The environment variable that names hipBLASLt's folder of kernels.
const HIPBLASLT_FOLDER: &str = "HIPBLASLT_TENSILE_LIBPATH";

/// The path and version of a loaded library.
pub(crate) struct Loaded {
    /// The path as the dynamic linker opened it, if it is known.
    pub(crate) file: Option<PathBuf>,
    /// rocBLAS's version string, `4.4.1.…`; empty for hipBLASLt.
    pub(crate) version: String,
}

/// Checks that rocBLAS has kernels for `architecture`.
///
/// # Errors
/// A message that names the missing files and the folder.
pub(crate) fn check_rocblas(rocblas: &Loaded, architecture: &str) -> Result<(), String> {
    check_rocblas_in(&rocblas_folder(rocblas, std::env::var_os(ROCBLAS_FOLDER))?, architecture)
}

/// Checks that hipBLASLt has kernels for `architecture`. A folder whose files name no architecture passes the check,
/// because hipBLASLt reports missing kernels itself.
///
/// # Errors
/// A message that names the folder and the architectures that it has kernels for.
pub(crate) fn check_hipblaslt(hipblaslt: &Loaded, architecture: &str) -> Result<(), String> {
    match hipblaslt_folder(hipblaslt, std::env::var_os(HIPBLASLT_FOLDER)) {
        Some(folder) => check_hipblaslt_in(&folder, architecture),
        None => Ok(()),
    }
}

/// rocBLAS's folder of kernels. The search tries the same places as rocBLAS, in the same order.
fn rocblas_folder(rocblas: &Loaded, asked: Option<OsString>) -> Result<PathBuf, String> {
    if let Some(folder) = asked {
        return Ok(PathBuf::from(folder));
    }
    let Some(beside) = rocblas.file.as_deref().and_then(Path::parent) else {
        return Err(format!(
            "cannot find rocBLAS's kernels: the path of the library is unknown, and {ROCBLAS_FOLDER} is not set"
        ));
    };
    let usual = beside.join("rocblas/library");
    let before = ["../../Tensile/library", "library", "../rocblas/library"].map(|place| beside.join(place));
    let found = before.into_iter().find(|folder| folder.is_dir());
    Ok(found.or_else(|| versioned_folder(beside, &rocblas.version)).unwrap_or(usual))
}

/// The folder in Debian's layout, e.g. `rocblas/4.4.1/library`.
fn versioned_folder(beside: &Path, version: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(beside.join("rocblas")).ok()?;
    let mut folders = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| version.strip_prefix(name));
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    });
    folders.find_map(|entry| Some(entry.path().join("library")).filter(|folder| folder.is_dir()))
}

/// Checks that a folder has a catalogue that rocBLAS reads for `architecture`. That is either the architecture's own
/// catalogue, lazy or whole, or the catalogue of all architectures together with a kernel for `architecture`.
fn check_rocblas_in(folder: &Path, architecture: &str) -> Result<(), String> {
    let own = folder.join(architecture);
    let folder = if own.is_dir() { own.as_path() } else { folder };
    let is_there = |name: &str| {
        let names = [name.to_owned(), format!("{name}.zlib")];
        names.iter().any(|name| File::open(folder.join(name)).is_ok())
    };
    let lazy = format!("TensileLibrary_lazy_{architecture}.dat");
    let whole = format!("TensileLibrary_{architecture}.dat");
    let of_all = "TensileLibrary.dat";
    let has_kernels = || names(folder).iter().any(|name| name.ends_with("co") && is_for(name, architecture));
    if is_there(&lazy) || is_there(&whole) || is_there(of_all) && has_kernels() {
        return Ok(());
    }
    let known = architectures(folder);
    Err(format!(
        "rocBLAS has no kernels for {architecture}: neither {lazy} nor {whole}, nor {of_all} with kernels, is in {} \
         ({})",
        folder.display(),
        if known.is_empty() {
            "there are no kernels at all".to_owned()
        } else {
            format!("there: {}", known.join(" "))
        }
    ))
}

/// hipBLASLt's folder of kernels, if it exists. The search tries the same places as hipBLASLt, in the same order.
fn hipblaslt_folder(hipblaslt: &Loaded, asked: Option<OsString>) -> Option<PathBuf> {
    if let Some(folder) = asked {
        return Some(PathBuf::from(folder));
    }
    let beside = hipblaslt.file.as_deref().and_then(Path::parent)?;
    let places = ["../Tensile/library", "library", "hipblaslt/library"];
    places.into_iter().map(|place| beside.join(place)).find(|folder| folder.is_dir())
}

fn check_hipblaslt_in(folder: &Path, architecture: &str) -> Result<(), String> {
    let known = architectures(folder);
    // A folder without architecture names has an unknown layout; hipBLASLt itself then reports missing kernels.
    if known.is_empty() || folder.ends_with(architecture) || known.iter().any(|name| name == architecture) {
        return Ok(());
    }
    Err(format!(
        "hipBLASLt has no kernels for {architecture} in {} (there: {})",
        folder.display(),
        known.join(" ")
    ))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The architectures in the names of a folder's files and subfolders, sorted, each once.
fn architectures(folder: &Path) -> Vec<String> {
    let mut found: Vec<String> =
        names(folder).iter().flat_map(|name| named(name)).map(str::to_owned).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The architectures in a file's name, e.g. `gfx90a` in `Kernels.so-000-gfx90a-xnack-.hsaco`.
fn named(name: &str) -> impl Iterator<Item = &str> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| {
        word.strip_prefix("gfx").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

fn is_for(name: &str, architecture: &str) -> bool {
    named(name).any(|word| word == architecture)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary folder that contains `files`, all empty.
    fn with(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            File::create(path).unwrap();
        }
        root
    }

    fn loaded(root: &Path, file: &str) -> Loaded {
        Loaded { file: Some(root.join(file)), version: "4.4.1.7f1e3b5".to_owned() }
    }

    fn rocblas_says(root: &tempfile::TempDir, file: &str, architecture: &str) -> Result<(), String> {
        check_rocblas_in(&rocblas_folder(&loaded(root.path(), file), None)?, architecture)
    }

    #[test]
    fn rocblas_finds_its_catalogue_where_distributions_put_it() {
        let rocm = with(&["lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat"]);
        assert_eq!(rocblas_says(&rocm, "lib/librocblas.so.4", "gfx1100"), Ok(()));
        let debian = with(&[
            "lib/rocblas/4.4.1/library/TensileLibrary_lazy_gfx1100.dat",
            "lib/rocblas/3.2.0/library/TensileLibrary_lazy_gfx900.dat",
        ]);
        assert_eq!(rocblas_says(&debian, "lib/librocblas.so.4", "gfx1100"), Ok(()));
        assert!(rocblas_says(&debian, "lib/librocblas.so.4", "gfx900").is_err(), "another version's");
        let subfolder = with(&["lib/rocblas/library/gfx1151/TensileLibrary_lazy_gfx1151.dat"]);
        assert_eq!(rocblas_says(&subfolder, "lib/librocblas.so.5", "gfx1151"), Ok(()));
        let windows = with(&["bin/rocblas/library/TensileLibrary_gfx1100.dat"]);
        assert_eq!(rocblas_says(&windows, "bin/rocblas.dll", "gfx1100"), Ok(()));
        let sanitized =
            with(&["lib/rocblas/library/TensileLibrary_lazy_gfx942.dat", "lib/asan/librocblas.so"]);
        assert_eq!(rocblas_says(&sanitized, "lib/asan/librocblas.so", "gfx942"), Ok(()));
    }

    #[test]
    fn rocblas_is_refused_where_it_would_end_the_process() {
        // Debian's package has kernels for some architectures, and a fallback file that all of them share.
        let debian = with(&[
            "lib/rocblas/4.4.1/library/TensileLibrary_lazy_gfx1100.dat",
            "lib/rocblas/4.4.1/library/Kernels.so-000-gfx1100.hsaco",
            "lib/rocblas/4.4.1/library/Kernels.so-000-gfx90a-xnack-.hsaco",
            "lib/rocblas/4.4.1/library/TensileLibrary_Type_SS_Contraction_l_Ailk_Bjlk_Cijk_Dijk_fallback.dat",
        ]);
        let error = rocblas_says(&debian, "lib/librocblas.so.4", "gfx1150").unwrap_err();
        assert!(
            error.starts_with(
                "rocBLAS has no kernels for gfx1150: neither TensileLibrary_lazy_gfx1150.dat nor"
            )
        );
        let folder = Path::new("rocblas").join("4.4.1").join("library");
        assert!(error.contains(&format!("{} (there: gfx1100 gfx90a)", folder.display())), "{error}");
        // A kernel without a catalogue does not help, and neither does an architecture with a longer name.
        assert!(rocblas_says(&debian, "lib/librocblas.so.4", "gfx90a").is_err());
        assert!(rocblas_says(&debian, "lib/librocblas.so.4", "gfx110").is_err());
        let merged = with(&[
            "lib/rocblas/library/TensileLibrary.dat",
            "lib/rocblas/library/TensileLibrary_gfx1030.co",
        ]);
        assert_eq!(rocblas_says(&merged, "lib/librocblas.so", "gfx1030"), Ok(()));
        assert!(rocblas_says(&merged, "lib/librocblas.so", "gfx1031").is_err());
        let nothing = rocblas_says(&with(&[]), "lib/librocblas.so", "gfx1100").unwrap_err();
        let folder = Path::new("lib").join("rocblas/library");
        assert!(
            nothing.ends_with(&format!("{} (there are no kernels at all)", folder.display())),
            "{nothing}"
        );
        let unknown = Loaded { file: None, version: String::new() };
        assert!(rocblas_folder(&unknown, None).unwrap_err().contains(ROCBLAS_FOLDER));
        assert_eq!(rocblas_folder(&unknown, Some("/asked".into())), Ok(PathBuf::from("/asked")));
    }

    #[test]
    fn hipblaslt_is_refused_where_it_has_kernels_for_others_only() {
        let says = |files: &[&str], architecture: &str| {
            let root = with(files);
            let folder = hipblaslt_folder(&loaded(root.path(), "lib/libhipblaslt.so.1"), None);
            folder.map_or(Ok(()), |folder| check_hipblaslt_in(&folder, architecture))
        };
        let flat = ["lib/hipblaslt/library/Kernels.so-000-gfx1151.hsaco"];
        assert_eq!(says(&flat, "gfx1151"), Ok(()));
        assert!(says(&flat, "gfx1200").unwrap_err().contains("no kernels for gfx1200 in "));
        let compressed = ["lib/hipblaslt/library/gfx950/TensileLibrary_lazy_gfx950.dat.zlib"];
        assert_eq!(says(&compressed, "gfx950"), Ok(()));
        assert!(says(&compressed, "gfx942").is_err());
        // If the files name no architecture, hipBLASLt decides.
        assert_eq!(says(&[], "gfx1100"), Ok(()));
        assert_eq!(says(&["lib/hipblaslt/library/hipblasltExtOpLibrary.dat"], "gfx1100"), Ok(()));
    }
}
