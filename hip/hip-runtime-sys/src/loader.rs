//! Finds a shared library under the names of its releases, and looks up its functions.
//!
//! A library stays loaded until the process ends, because threads of HIP run its code. So a table of functions is plain
//! data, which is valid in every thread until the process ends.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use libloading::Library;

/// The environment variable that names the only folder to load from, instead of the system's folders.
pub const FOLDER_VARIABLE: &str = "RUKH_ROCM_LIBRARY_PATH";

/// A library, and the names of its releases.
#[derive(Clone, Copy, Debug)]
pub struct Candidates {
    /// The name without prefix and suffix, as for the linker's `-l`.
    pub library: &'static str,
    /// Versions of the shared object, the newest first.
    pub versions: &'static [&'static str],
    /// File names on Windows, the newest first.
    pub windows: &'static [&'static str],
}

impl Candidates {
    /// The file names to try, in order. The name without a version is first, because a user can redirect that link.
    fn file_names(&self) -> Vec<String> {
        if cfg!(windows) {
            return self.windows.iter().map(|&name| name.to_owned()).collect();
        }
        let development = format!("lib{}.so", self.library);
        let versioned = self.versions.iter().map(|version| format!("{development}.{version}"));
        std::iter::once(development.clone()).chain(versioned).collect()
    }

    /// The files to try. They are in the folder `asked` if there is one, and otherwise first in the folders that the
    /// system searches and then in those where ROCm is installed.
    fn paths(&self, asked: Option<OsString>, installed: Option<OsString>) -> Vec<PathBuf> {
        let folders = match asked {
            Some(folder) => vec![PathBuf::from(folder)],
            None => {
                let library_folder = if cfg!(windows) { "bin" } else { "lib" };
                let mut folders = vec![PathBuf::new()];
                folders.extend(installed.map(|root| PathBuf::from(root).join(library_folder)));
                if cfg!(unix) {
                    folders.push(PathBuf::from("/opt/rocm/lib"));
                }
                folders
            }
        };
        let names = self.file_names();
        folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name))).collect()
    }
}

/// Why a library could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The library's name without prefix and suffix.
    pub library: &'static str,
    /// Each file that was tried, with its failure.
    pub attempts: Vec<Attempt>,
}

/// One file that a loader tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The file's path, or its name alone if the system searched for it.
    pub file: String,
    /// Why it was not used.
    pub failure: Failure,
}

/// Why a file was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It could not be opened, for this reason of the system.
    NotOpened(String),
    /// It was opened, but lacks these functions.
    Missing(Vec<&'static str>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpened(reason) => f.write_str(reason),
            Self::Missing(names) => write!(f, "it lacks {}", names.join(", ")),
        }
    }
}

impl LoadError {
    /// One line for a user. It has the files that were opened but lack functions. If there are no such files, it has
    /// all names that were tried.
    pub fn summary(&self) -> String {
        let opened: Vec<String> = self
            .attempts
            .iter()
            .filter(|attempt| matches!(attempt.failure, Failure::Missing(_)))
            .map(|attempt| format!("{}: {}", attempt.file, attempt.failure))
            .collect();
        if !opened.is_empty() {
            return format!("{} cannot be used ({})", self.library, opened.join("; "));
        }
        let names: Vec<&str> = self.attempts.iter().map(|attempt| attempt.file.as_str()).collect();
        let reason = self.attempts.last().map_or_else(String::new, |attempt| attempt.failure.to_string());
        format!("{} was not found (tried {}; {reason})", self.library, names.join(", "))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be loaded:", self.library)?;
        for (number, attempt) in self.attempts.iter().enumerate() {
            let separator = if number == 0 { "" } else { ";" };
            write!(f, "{separator} {}: {}", attempt.file, attempt.failure)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

/// Opens the first of the candidates from which `resolve` can fill a table.
///
/// # Errors
/// The error lists every file that was tried, with the reason of its failure.
pub fn load<T>(
    candidates: &Candidates,
    resolve: impl Fn(&Library) -> Result<T, Vec<&'static str>>,
) -> Result<T, LoadError> {
    let installed = std::env::var_os(if cfg!(windows) { "HIP_PATH" } else { "ROCM_PATH" });
    load_from(candidates.library, candidates.paths(std::env::var_os(FOLDER_VARIABLE), installed), resolve)
}

/// Opens the first of the candidates in a folder from which `resolve` can fill a table.
///
/// # Errors
/// The error lists every file that was tried, with the reason of its failure.
pub fn load_in<T>(
    folder: &Path,
    candidates: &Candidates,
    resolve: impl Fn(&Library) -> Result<T, Vec<&'static str>>,
) -> Result<T, LoadError> {
    load_from(candidates.library, candidates.paths(Some(folder.into()), None), resolve)
}

fn load_from<T>(
    library: &'static str,
    paths: Vec<PathBuf>,
    resolve: impl Fn(&Library) -> Result<T, Vec<&'static str>>,
) -> Result<T, LoadError> {
    let mut attempts = Vec::new();
    for path in paths {
        let failure = match open(&path) {
            Err(error) => Failure::NotOpened(reason(&error)),
            Ok(opened) => match resolve(&opened) {
                Ok(table) => {
                    // The library is never unloaded, because threads of HIP run its code.
                    std::mem::forget(opened);
                    return Ok(table);
                }
                Err(missing) => Failure::Missing(missing),
            },
        };
        attempts.push(Attempt { file: path.display().to_string(), failure });
    }
    Err(LoadError { library, attempts })
}

/// The path of the library that has a function at `address`, as the dynamic linker opened it. Symbolic links are not
/// resolved.
#[cfg(unix)]
pub fn file_of(_candidates: &Candidates, address: usize) -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr};
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt;
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` takes any address and writes one structure, for which zeros are a valid value.
    let status = unsafe { libc::dladdr(std::ptr::without_provenance(address), found.as_mut_ptr()) };
    // SAFETY: the structure was zeroed, so it is valid even if `dladdr` did not write it.
    let name = unsafe { found.assume_init() }.dli_fname;
    if status == 0 || name.is_null() {
        return None;
    }
    // SAFETY: the linker's string ends with zero and lives as long as the library, which is never unloaded.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The path of a loaded library. It is the first file with one of the library's names in the folders that the system
/// searches, which are taken from the environment.
#[cfg(not(unix))]
pub fn file_of(candidates: &Candidates, _address: usize) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        let mut paths = candidates.paths(Some(folder), None).into_iter();
        return paths.find(|path| path.is_file());
    }
    let program = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_path_buf));
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::var_os("HIP_PATH").map(|root| PathBuf::from(root).join("bin"));
    let folders = program.into_iter().chain(std::env::split_paths(&searched)).chain(installed);
    let names = candidates.file_names();
    let mut paths = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    paths.find(|path| path.is_file())
}

/// The message of the system's dynamic linker if there is one, and otherwise that of `libloading`.
fn reason(error: &libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

/// Opens a library and resolves its own imports, so that a missing import is an error here and not at a later call.
fn open(path: &PathBuf) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: this runs the initialisers of a library that the user has installed as the GPU's runtime, or has
        // named.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
    }
    #[cfg(not(unix))]
    // SAFETY: this runs the initialisers of a library that the user has installed as the GPU's runtime, or has named.
    unsafe {
        Library::new(path)
    }
}

/// A function's address as the function pointer type `F`, or `None` if the library lacks the function.
///
/// # Safety
/// `F` must be a function pointer type with the signature of the library's function.
#[doc(hidden)]
pub unsafe fn function<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller gives the signature.
    unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol)
}

/// Turns declarations into `Functions`, a table of the functions' addresses, and `signature`, a module with the type of
/// each function, which an implementation can be compared with.
#[macro_export]
macro_rules! function_table {
    ($(pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The addresses of all of the library's functions.
        #[allow(non_snake_case, missing_docs, unreachable_pub, reason = "the library's names")]
        #[derive(Clone, Copy, Debug)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
        }

        #[allow(
            non_snake_case,
            unreachable_pub,
            clippy::multiple_unsafe_ops_per_block,
            reason = "made for each of the library's names"
        )]
        impl Functions {
            /// The names of the functions.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Looks up every function. The error has the names of those that the library lacks.
            pub fn resolve(library: &$crate::Library) -> Result<Self, Vec<&'static str>> {
                // SAFETY: the signatures are those of the library's own headers.
                $(let $name = unsafe { $crate::loader::function(library, stringify!($name)) };)*
                let mut missing = Vec::new();
                $(
                    let found: &Option<unsafe extern "C" fn($($argument: $type),*) $(-> $result)?> = &$name;
                    if found.is_none() {
                        missing.push(stringify!($name));
                    }
                )*
                $(let Some($name) = $name else { return Err(missing) };)*
                Ok(Self { $($name),* })
            }
        }

        /// The types of the functions.
        #[allow(non_camel_case_types, missing_docs, unreachable_pub, reason = "the library's names")]
        pub mod signature {
            use super::*;
            $(pub type $name = unsafe extern "C" fn($($argument: $type),*) $(-> $result)?;)*
        }
    };
}

/// Defines a type for a library: its table of functions, and the functions that load it.
#[macro_export]
macro_rules! library {
    ($(#[$attribute:meta])* pub struct $name:ident($functions:ty) from $candidates:ident;) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            functions: $functions,
        }

        impl std::ops::Deref for $name {
            type Target = $functions;

            fn deref(&self) -> &$functions {
                &self.functions
            }
        }

        impl $name {
            /// Loads the library with its dependencies, and calls none of its functions.
            ///
            /// # Errors
            /// The error lists every file that was tried, with the reason of its failure.
            pub fn load() -> Result<Self, $crate::loader::LoadError> {
                Ok(Self { functions: $crate::loader::load(&$candidates, <$functions>::resolve)? })
            }

            /// Loads the library from a folder.
            ///
            /// # Errors
            /// The error lists every file that was tried, with the reason of its failure.
            pub fn load_from(folder: &std::path::Path) -> Result<Self, $crate::loader::LoadError> {
                Ok(Self { functions: $crate::loader::load_in(folder, &$candidates, <$functions>::resolve)? })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Candidates =
        Candidates { library: "rukhnowhere", versions: &["7", "6"], windows: &["rukhnowhere_7.dll"] };

    #[cfg(unix)]
    #[test]
    fn an_absent_library_is_an_error_with_every_name_and_reason() {
        let paths = NOWHERE.paths(None, Some("/somewhere/rocm".into()));
        let error = load_from("rukhnowhere", paths, |_| Ok(())).unwrap_err();
        let files: Vec<&str> = error.attempts.iter().map(|attempt| attempt.file.as_str()).collect();
        assert_eq!(files[..3], ["librukhnowhere.so", "librukhnowhere.so.7", "librukhnowhere.so.6"]);
        assert_eq!(files[4], "/somewhere/rocm/lib/librukhnowhere.so.7");
        assert_eq!(files.len(), 9);
        let text = error.to_string();
        assert!(
            text.contains("librukhnowhere.so.6: ") && text.contains("cannot open shared object file"),
            "{text}"
        );
        assert!(error.summary().contains("librukhnowhere.so.7"), "{}", error.summary());
    }

    #[cfg(unix)]
    #[test]
    fn a_requested_folder_is_the_only_one_searched() {
        let paths = NOWHERE.paths(Some("/asked".into()), Some("/somewhere/rocm".into()));
        assert_eq!(paths.len(), 3);
        assert!(paths.iter().all(|path| path.starts_with("/asked")), "{paths:?}");
    }

    #[cfg(all(unix, target_os = "linux"))]
    #[test]
    fn a_functions_file_is_known() {
        let opened = open(&PathBuf::from("libc.so.6")).unwrap();
        // SAFETY: never called.
        let function: unsafe extern "C" fn() = unsafe { function(&opened, "getpid") }.unwrap();
        let file = file_of(&NOWHERE, function as usize).unwrap();
        assert!(file.ends_with("libc.so.6") && file.is_file(), "{file:?}");
        assert_eq!(file_of(&NOWHERE, 0), None);
    }

    #[cfg(all(unix, target_os = "linux"))]
    #[test]
    fn a_library_without_the_functions_says_which() {
        let error = load_from("c", vec!["libc.so.6".into()], crate::Functions::resolve).unwrap_err();
        let Failure::Missing(names) = &error.attempts[0].failure else {
            panic!("libc opens: {error}");
        };
        assert_eq!(names, crate::Functions::NAMES);
        assert!(error.summary().contains("it lacks hipInit, "), "{}", error.summary());
    }
}
