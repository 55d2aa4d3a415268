//! Finds a shared library by the names that its releases gave it, and looks its functions up.
//!
//! A library stays loaded until the process ends: HIP keeps threads of its own, which must not lose their code.
//! So a table of functions is plain data, good for ever and from every thread.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use libloading::Library;

/// The environment variable that names the one folder to load from, where the system's own are not meant.
pub const FOLDER_VARIABLE: &str = "RUKH_ROCM_LIBRARY_PATH";

/// A library, and the names under which its releases are found.
#[derive(Clone, Copy, Debug)]
pub struct Candidates {
    /// The name without prefix and suffix, as the linker knows it.
    pub library: &'static str,
    /// Versions of the shared object, the newest first.
    pub versions: &'static [&'static str],
    /// File names on Windows, the newest first.
    pub windows: &'static [&'static str],
}

impl Candidates {
    /// The files to try, in order: the development name first, as it is the one that the user can redirect.
    fn file_names(&self) -> Vec<String> {
        if cfg!(windows) {
            return self.windows.iter().map(|&name| name.to_owned()).collect();
        }
        let development = format!("lib{}.so", self.library);
        let versioned = self.versions.iter().map(|version| format!("{development}.{version}"));
        std::iter::once(development.clone()).chain(versioned).collect()
    }

    /// The files to try with their folders: the one that is asked for, or else those the system searches and then
    /// those where ROCm installs itself.
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

/// Why a library is not there, name by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The library's name without prefix and suffix.
    pub library: &'static str,
    /// Each file that was tried, with the reason why it was not taken.
    pub attempts: Vec<Attempt>,
}

/// One file that a loader tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The file, with a folder unless the system was to search for it.
    pub file: String,
    /// What was wrong with it.
    pub failure: Failure,
}

/// What is wrong with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It could not be opened: what the system says.
    NotOpened(String),
    /// It was opened, and lacks these functions.
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
    /// One line for a user: the attempts that got furthest, and how many others found no file at all.
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

/// Opens the first of the candidates that `resolve` can fill a table from.
///
/// # Errors
/// Every file that was tried, each with what was wrong with it.
pub fn load<T>(
    candidates: &Candidates,
    resolve: impl Fn(&Library) -> Result<T, Vec<&'static str>>,
) -> Result<T, LoadError> {
    let installed = std::env::var_os(if cfg!(windows) { "HIP_PATH" } else { "ROCM_PATH" });
    load_from(candidates.library, candidates.paths(std::env::var_os(FOLDER_VARIABLE), installed), resolve)
}

/// The same from one folder.
///
/// # Errors
/// Every file that was tried, each with what was wrong with it.
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
                    // Never unloaded: see above.
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

/// The file that the function at an address comes from, under the name that the linker opened it by: links are not followed.
#[cfg(unix)]
pub fn file_of(_candidates: &Candidates, address: usize) -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr};
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt;
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: takes any address, and writes one structure, of which zeros are a value.
    let status = unsafe { libc::dladdr(std::ptr::without_provenance(address), found.as_mut_ptr()) };
    // SAFETY: as above.
    let name = unsafe { found.assume_init() }.dli_fname;
    if status == 0 || name.is_null() {
        return None;
    }
    // SAFETY: the linker's own text, which ends with zero and lives as long as the library: for ever.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The file that a loaded library's function comes from: the first of its names in the folders that the system
/// searches, which asks for no more of the system than its environment.
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

/// What the system says: the linker's own words are the source of the error, where there are any.
fn reason(error: &libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

/// Opens a library so that a function it lacks itself is found out now, not at the first call.
fn open(path: &PathBuf) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: runs the initialisers of a library which the user installed as his GPU's runtime, or named.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
    }
    #[cfg(not(unix))]
    // SAFETY: runs the initialisers of a library which the user installed as his GPU's runtime, or named.
    unsafe {
        Library::new(path)
    }
}

/// A function's address as the function pointer type `F`, or `None` where the library does not have it.
///
/// # Safety
/// `F` is the type of a function pointer, with the signature that the library's function has.
#[doc(hidden)]
pub unsafe fn function<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller gives the signature.
    unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol)
}

/// Turns a block of declarations into `Functions`, a table of the functions' addresses, and `signature`, a module
/// with the type of each, against which an implementation can be checked.
#[macro_export]
macro_rules! function_table {
    ($(pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The addresses of the library's functions, all of them there.
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
            /// The functions' names, as the library exports them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Looks every function up; without all of them, the names of those that are not there.
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

        /// The type of each function.
        #[allow(non_camel_case_types, missing_docs, unreachable_pub, reason = "the library's names")]
        pub mod signature {
            use super::*;
            $(pub type $name = unsafe extern "C" fn($($argument: $type),*) $(-> $result)?;)*
        }
    };
}

/// A type for a library that is nothing but its table of functions, with what loads it.
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
            /// Loads it, and what it needs. No function of it is called.
            ///
            /// # Errors
            /// Every file that was tried, each with what was wrong with it.
            pub fn load() -> Result<Self, $crate::loader::LoadError> {
                Ok(Self { functions: $crate::loader::load(&$candidates, <$functions>::resolve)? })
            }

            /// Loads it from one folder.
            ///
            /// # Errors
            /// Every file that was tried, each with what was wrong with it.
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
    fn the_asked_folder_is_the_only_one() {
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
