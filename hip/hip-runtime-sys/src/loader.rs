//! Finds a shared library under the names of its releases, and looks up its functions.
//!
//! A library stays loaded until the process ends, because threads of HIP run its code. So a table of functions is plain
//! data, which is valid in every thread until the process ends.

use std::fmt;
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::search::{Machine, Place, Platform, ThisMachine, places};

/// A library, and the names of its releases.
#[derive(Clone, Copy, Debug)]
pub struct Candidates {
    /// The name without prefix and suffix, as for the linker's `-l`.
    pub library: &'static str,
    /// Whether the name without a version is tried, too. It is then tried first, because a user can redirect that link.
    pub has_link: bool,
    /// Versions of the shared object, the newest first.
    pub versions: &'static [&'static str],
    /// File names on Windows, the newest first. A `#` stands for a digit. A name with a `#` is only looked for in
    /// folders whose files are known.
    pub windows: &'static [&'static str],
}

impl Candidates {
    /// The file names to try, in order.
    fn file_names(&self, platform: Platform) -> Vec<String> {
        if platform == Platform::Windows {
            return self.windows.iter().map(|&name| name.to_owned()).collect();
        }
        let development = format!("lib{}.so", self.library);
        let versioned = self.versions.iter().map(|version| format!("{development}.{version}"));
        let link = self.has_link.then(|| development.clone());
        link.into_iter().chain(versioned).collect()
    }

    /// The files to try in a place: those that exist in a folder, or every name for the system's loader.
    fn paths(&self, place: &Place, platform: Platform, machine: &dyn Machine) -> Vec<PathBuf> {
        let names = self.file_names(platform);
        match place {
            Place::System => {
                let names = names.into_iter().filter(|name| !name.contains('#'));
                let listed = listed_folders(platform, machine);
                // The file of a release may lie in one of the listed folders, before an older one of the system.
                let found = |name: String| {
                    let files: Vec<PathBuf> = listed.iter().map(|folder| folder.join(&name)).collect();
                    std::iter::once(PathBuf::from(name))
                        .chain(files.into_iter().filter(|file| machine.has_file(file)))
                };
                names.flat_map(found).collect()
            }
            Place::Folder(folder) => {
                let present = machine.names(folder);
                let found = |name: &String| {
                    let matching = present.iter().rev().filter(|file| matches(name, file, platform));
                    matching.map(|file| folder.join(file)).collect::<Vec<_>>()
                };
                let mut paths: Vec<PathBuf> = Vec::new();
                for path in names.iter().flat_map(found) {
                    if !paths.contains(&path) {
                        paths.push(path);
                    }
                }
                paths
            }
        }
    }
}

/// The folders of `PATH`, in which Windows looks for libraries too. Elsewhere the system's loader knows its folders.
/// Entries that depend on the current folder are left out: a chess program may start the engine in the folder of a game
/// or of a download, and a library there is not the driver's.
fn listed_folders(platform: Platform, machine: &dyn Machine) -> Vec<PathBuf> {
    if platform != Platform::Windows {
        return Vec::new();
    }
    let is_whole = |folder: &PathBuf| {
        let text = folder.to_string_lossy().replace('\\', "/");
        text.starts_with("//") || text.get(1..3) == Some(":/")
    };
    let folders = machine.variable("PATH").map(|list| platform.split(&list)).unwrap_or_default();
    folders.into_iter().filter(is_whole).collect()
}

/// Whether a file has a name in which `#` stands for a digit. Windows ignores case.
fn matches(name: &str, file: &str, platform: Platform) -> bool {
    let is_same = |wanted: u8, found: u8| match platform {
        Platform::Unix => wanted == found,
        Platform::Windows => wanted.eq_ignore_ascii_case(&found) || wanted == b'#' && found.is_ascii_digit(),
    };
    name.len() == file.len() && name.bytes().zip(file.bytes()).all(|(wanted, found)| is_same(wanted, found))
}

/// Why a library could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The library's name without prefix and suffix.
    pub library: &'static str,
    /// The places that were searched.
    pub places: Vec<Place>,
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
    /// The system's loader knows no library of this name.
    Absent,
    /// It could not be opened, for this reason of the system.
    NotOpened(String),
    /// It was opened, but lacks these functions.
    Missing(Vec<&'static str>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The most names of functions in a message.
        const MOST: usize = 3;
        match self {
            Self::Absent => f.write_str("it does not exist"),
            Self::NotOpened(reason) => f.write_str(reason),
            Self::Missing(names) => {
                write!(f, "it lacks {}", names[..names.len().min(MOST)].join(", "))?;
                if names.len() > MOST {
                    write!(f, " and {} more functions", names.len() - MOST)
                } else {
                    Ok(())
                }
            }
        }
    }
}

impl LoadError {
    /// One line for a user: a file that is there but cannot be used, or else the places that were searched.
    pub fn summary(&self) -> String {
        let is_opened = |attempt: &&Attempt| matches!(attempt.failure, Failure::Missing(_));
        let is_there = |attempt: &&Attempt| attempt.failure != Failure::Absent;
        let found = self.attempts.iter().find(is_opened).or_else(|| self.attempts.iter().find(is_there));
        if let Some(Attempt { file, failure }) = found {
            return format!("{} cannot be used ({file}: {failure})", self.library);
        }
        let places: Vec<String> = self.places.iter().map(Place::to_string).collect();
        let places = match places.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            all => all.concat(),
        };
        format!("{} is not in {places}", self.library)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

impl std::error::Error for LoadError {}

/// Opens the first of the candidates from which `resolve` can fill a table.
///
/// # Errors
/// The error lists the places that were searched, and every file that was tried, with the reason of its failure.
pub fn load<T>(
    candidates: &Candidates,
    resolve: impl Fn(&Library) -> Result<T, Vec<&'static str>>,
) -> Result<T, LoadError> {
    load_from(candidates, usual_places(), resolve)
}

/// Where [`load`] searches on this machine.
pub fn usual_places() -> Vec<Place> {
    places(Platform::HERE, &ThisMachine)
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
    load_from(candidates, vec![Place::Folder(folder.to_path_buf())], resolve)
}

/// Opens the first of the candidates in these places, in order, from which `resolve` can fill a table.
///
/// # Errors
/// The error lists the places, and every file that was tried, with the reason of its failure.
pub fn load_from<T>(
    candidates: &Candidates,
    places: Vec<Place>,
    resolve: impl Fn(&Library) -> Result<T, Vec<&'static str>>,
) -> Result<T, LoadError> {
    load_useful(candidates, places, resolve, |_| true)
}

/// Does the same as [`load_from`], but passes over libraries that `is_useful` refuses. If it refuses all, the first one
/// is taken. Refused libraries stay loaded.
///
/// # Errors
/// As those of [`load_from`].
pub fn load_useful<T>(
    candidates: &Candidates,
    places: Vec<Place>,
    resolve: impl Fn(&Library) -> Result<T, Vec<&'static str>>,
    is_useful: impl Fn(&T) -> bool,
) -> Result<T, LoadError> {
    let mut attempts = Vec::new();
    let mut first = None;
    let paths = places.iter().flat_map(|place| candidates.paths(place, Platform::HERE, &ThisMachine));
    for path in paths {
        let failure = match open(&path) {
            Err(error) => not_opened(&path, reason(&error)),
            Ok(opened) => match resolve(&opened) {
                Ok(table) => {
                    // The library is never unloaded, because threads of HIP run its code.
                    std::mem::forget(opened);
                    if is_useful(&table) {
                        return Ok(table);
                    }
                    first.get_or_insert(table);
                    continue;
                }
                Err(missing) => Failure::Missing(missing),
            },
        };
        attempts.push(Attempt { file: path.display().to_string(), failure });
    }
    first.ok_or(LoadError { library: candidates.library, places, attempts })
}

/// The failure for a library that could not be opened. A name that the system's loader does not know is no news, but a
/// file that exists and cannot be opened is.
fn not_opened(path: &Path, reason: String) -> Failure {
    let is_name = path.parent().is_none_or(|folder| folder.as_os_str().is_empty());
    let name = path.to_string_lossy();
    let lowercase = reason.to_lowercase();
    // On Windows error 126 does not tell whether the library or one of its own libraries is absent. Elsewhere the reason
    // names the absent file.
    let is_absent = cfg!(windows) && reason.contains("(os error 126)")
        || lowercase.contains("no such file") && reason.contains(&*name) && !lowercase.contains("needed by");
    if is_name && is_absent { Failure::Absent } else { Failure::NotOpened(reason) }
}

/// The path of the library that has a function at `address`, as the dynamic linker opened it. Symbolic links are not
/// resolved.
#[cfg(unix)]
pub fn file_of(address: usize) -> Option<PathBuf> {
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

/// The path of the library that has a function at `address`.
#[cfg(windows)]
pub fn file_of(address: usize) -> Option<PathBuf> {
    use std::ffi::{OsString, c_void};
    use std::os::windows::ffi::OsStringExt;
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, address: *const c_void, module: *mut *mut c_void) -> i32;
        fn GetModuleFileNameW(module: *mut c_void, name: *mut u16, characters: u32) -> u32;
    }
    /// The second argument is an address in the library, and the library's count of users stays as it is.
    const FROM_ADDRESS: u32 = 4 | 2;
    let mut module = std::ptr::null_mut();
    // SAFETY: with this flag the function takes any address, and it writes one handle.
    let status =
        unsafe { GetModuleHandleExW(FROM_ADDRESS, std::ptr::without_provenance(address), &mut module) };
    if status == 0 {
        return None;
    }
    let mut name = vec![0_u16; 32_768];
    // SAFETY: the buffer has this length, and the library is never unloaded.
    let length = unsafe { GetModuleFileNameW(module, name.as_mut_ptr(), name.len() as u32) } as usize;
    (1..name.len()).contains(&length).then(|| OsString::from_wide(&name[..length]).into())
}

/// The message of the system's dynamic linker if there is one, and otherwise that of `libloading`.
fn reason(error: &libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

/// Opens a library and resolves its own imports, so that a missing import is an error here and not at a later call.
fn open(path: &Path) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: this runs the initialisers of a library that the user has installed as the GPU's runtime, or has
        // named.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
    }
    #[cfg(windows)]
    {
        use libloading::os::windows::{
            LOAD_LIBRARY_SEARCH_APPLICATION_DIR, LOAD_LIBRARY_SEARCH_SYSTEM32, LOAD_WITH_ALTERED_SEARCH_PATH,
            Library,
        };
        leave_out_the_current_folder();
        // A name is looked for beside the program and in the system's folder. With a whole path, the system also looks
        // for the library's own libraries beside it.
        let is_name = path.parent().is_none_or(|folder| folder.as_os_str().is_empty());
        let whole = std::path::absolute(path).ok().filter(|_| !is_name);
        let flags = match whole {
            Some(_) => LOAD_WITH_ALTERED_SEARCH_PATH,
            None => LOAD_LIBRARY_SEARCH_APPLICATION_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32,
        };
        let path = whole.as_deref().unwrap_or(path);
        // SAFETY: this runs the initialisers of a library that the user has installed as the GPU's runtime, or has
        // named.
        unsafe { Library::load_with_flags(path, flags) }.map(Into::into)
    }
}

/// Takes the current folder out of the folders that Windows searches for a library's own libraries.
#[cfg(windows)]
fn leave_out_the_current_folder() {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn SetDllDirectoryW(folder: *const u16) -> i32;
    }
    // An error leaves the search as it is.
    // SAFETY: the text is empty and ends with zero.
    let _ = unsafe { SetDllDirectoryW([0_u16].as_ptr()) };
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
            runtime: Option<$crate::runtime::Runtime>,
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
                $crate::loader::load(&$candidates, Self::resolve)
            }

            /// Loads the library from a folder.
            ///
            /// # Errors
            /// The error lists every file that was tried, with the reason of its failure.
            pub fn load_from(folder: &std::path::Path) -> Result<Self, $crate::loader::LoadError> {
                $crate::loader::load_in(folder, &$candidates, Self::resolve)
            }

            /// A library whose functions are in this program. It calls no HIP runtime of its own.
            pub const fn of(functions: $functions) -> Self {
                Self { functions, runtime: None }
            }

            fn resolve(library: &$crate::Library) -> Result<Self, Vec<&'static str>> {
                let functions = <$functions>::resolve(library)?;
                let runtime = $crate::runtime::Runtime::used_by(library, <$functions>::NAMES[0]);
                Ok(Self { functions, runtime })
            }

            /// The HIP runtime that the library calls. `None` if it cannot be determined.
            pub fn runtime(&self) -> Option<&$crate::runtime::Runtime> {
                self.runtime.as_ref()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    const NOWHERE: Candidates = Candidates {
        library: "rukhnowhere",
        has_link: true,
        versions: &["7", "6"],
        windows: &["rukhnowhere_7.dll"],
    };

    /// A machine whose every folder has the same files, and which has some folders in `PATH`.
    struct Files(&'static [&'static str]);

    impl Machine for Files {
        fn variable(&self, name: &str) -> Option<OsString> {
            (name == "PATH").then(|| r"C:\tools;.;relative\bin;;\\server\bin;D:/sdk/bin".into())
        }

        fn has_file(&self, path: &Path) -> bool {
            let path = path.to_string_lossy();
            self.0.iter().any(|name| path.ends_with(name))
        }

        fn names(&self, _: &Path) -> BTreeSet<String> {
            self.0.iter().map(|&name| name.to_owned()).collect()
        }
    }

    fn paths(
        candidates: &Candidates,
        place: &Place,
        platform: Platform,
        files: &'static [&'static str],
    ) -> Vec<String> {
        let found = candidates.paths(place, platform, &Files(files));
        found.iter().map(|path| path.display().to_string().replace('\\', "/")).collect()
    }

    #[test]
    fn every_release_of_rocm_has_a_known_name() {
        let folder = Place::Folder("/rocm".into());
        for version in ["5", "6", "7", "8"] {
            let library: &'static str = format!("libamdhip64.so.{version}").leak();
            let files: &'static [&'static str] = vec![library, "libhiprtc.so"].leak();
            assert_eq!(paths(&crate::HIP, &folder, Platform::Unix, files), [format!("/rocm/{library}")]);
        }
        for library in ["amdhip64.dll", "amdhip64_6.dll", "AmdHip64_7.dll", "amdhip64_8.dll"] {
            let files: &'static [&'static str] = vec![library].leak();
            assert_eq!(paths(&crate::HIP, &folder, Platform::Windows, files), [format!("/rocm/{library}")]);
        }
        let newest_first = ["/rocm/hiprtc0801.dll", "/rocm/hiprtc0702.dll"];
        let files = &["hiprtc0702.dll", "hiprtc0801.dll", "hiprtc-builtins0702.dll"];
        assert_eq!(paths(&crate::HIPRTC, &folder, Platform::Windows, files), newest_first);
    }

    #[test]
    fn a_link_without_a_version_is_preferred_and_then_the_newest_version() {
        let folder = Place::Folder("/rocm".into());
        let files = &["libamdhip64.so.6", "libamdhip64.so", "libamdhip64.so.7"];
        let in_order = ["/rocm/libamdhip64.so", "/rocm/libamdhip64.so.7", "/rocm/libamdhip64.so.6"];
        assert_eq!(paths(&crate::HIP, &folder, Platform::Unix, files), in_order);
        let system = paths(&crate::HIP, &Place::System, Platform::Unix, &[]);
        assert_eq!(system[..3], ["libamdhip64.so", "libamdhip64.so.8", "libamdhip64.so.7"]);
        assert!(!paths(&crate::HIPRTC, &Place::System, Platform::Windows, &[])[0].contains('#'));
    }

    #[test]
    fn windows_also_looks_in_the_whole_paths_of_its_list() {
        let files = &["amdhip64_6.dll"];
        let system = paths(&crate::HIP, &Place::System, Platform::Windows, files);
        let listed =
            ["C:/tools", "//server/bin", "D:/sdk/bin"].map(|folder| format!("{folder}/amdhip64_6.dll"));
        let names = ["amdhip64_8.dll", "amdhip64_7.dll", "amdhip64_6.dll"].map(str::to_owned);
        assert_eq!(system, [&names[..], &listed, &["amdhip64.dll".to_owned()]].concat());
        let unix = paths(&crate::HIP, &Place::System, Platform::Unix, files);
        assert!(unix.iter().all(|path| !path.contains('/')), "{unix:?}");
    }

    #[test]
    fn an_absent_library_is_an_error_with_the_places_that_were_searched() {
        let places = ["/nowhere/a", "/nowhere/b"].map(|folder| Place::Folder(folder.into()));
        let error = load_from(&NOWHERE, [&places[..], &[Place::System]].concat(), |_| Ok(())).unwrap_err();
        assert_eq!(error.summary(), "rukhnowhere is not in /nowhere/a, /nowhere/b or the system's folders");
        let error = load_from(&NOWHERE, places[..1].to_vec(), |_| Ok(())).unwrap_err();
        assert_eq!(error.summary(), "rukhnowhere is not in /nowhere/a");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named_with_the_reason() {
        let name = if cfg!(windows) { "rukhnowhere_7.dll" } else { "librukhnowhere.so.7" };
        let folder = std::env::temp_dir().join(format!("rukh-loader-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), "not a library").unwrap();
        let error = load_in(&folder, &NOWHERE, |_| Ok(())).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        let text = error.summary();
        assert!(text.starts_with("rukhnowhere cannot be used (") && text.contains(name), "{text}");
    }

    #[test]
    fn a_library_that_lacks_its_own_libraries_is_not_taken_for_absent() {
        let opened = |path: &str, reason: &str| not_opened(Path::new(path), reason.to_owned());
        let glibc = "libamdhip64.so.7: cannot open shared object file: No such file or directory";
        let inner = "libhsa-runtime64.so.1: cannot open shared object file: No such file or directory";
        assert_eq!(opened("libamdhip64.so.7", glibc), Failure::Absent);
        if cfg!(unix) {
            assert_eq!(opened("libamdhip64.so.7", inner), Failure::NotOpened(inner.to_owned()));
        }
        let path = "/rocm/libamdhip64.so.7";
        assert_eq!(opened(path, inner), Failure::NotOpened(inner.to_owned()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_of_no_use_is_taken_only_if_there_is_no_other() {
        let folder = std::env::temp_dir().join(format!("rukh-useful-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let libc = file_of(libc::getpid as *const () as usize).expect("libc is a file");
        for version in ["6", "7"] {
            std::os::unix::fs::symlink(&libc, folder.join(format!("librukhnowhere.so.{version}"))).unwrap();
        }
        let loaded = |is_useful: fn(&i32) -> bool| {
            let count = std::cell::Cell::new(0);
            let number = |_: &Library| Ok(count.replace(count.get() + 1));
            load_useful(&NOWHERE, vec![Place::Folder(folder.clone())], number, is_useful).unwrap()
        };
        let found = [loaded(|_| true), loaded(|&number| number == 1), loaded(|_| false)];
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [0, 1, 0]);
    }

    #[cfg(all(unix, target_os = "linux"))]
    #[test]
    fn a_functions_file_is_known() {
        let opened = open(Path::new("libc.so.6")).unwrap();
        // SAFETY: never called.
        let function: unsafe extern "C" fn() = unsafe { function(&opened, "getpid") }.unwrap();
        let file = file_of(function as usize).unwrap();
        assert!(file.ends_with("libc.so.6") && file.is_file(), "{file:?}");
        assert_eq!(file_of(0), None);
    }

    #[cfg(all(unix, target_os = "linux"))]
    #[test]
    fn a_library_without_the_functions_says_which() {
        let libc = Candidates { library: "c", has_link: true, versions: &["6"], windows: &[] };
        let error = load_from(&libc, vec![Place::System], crate::Functions::resolve).unwrap_err();
        let Some(Failure::Missing(names)) = error.attempts.last().map(|attempt| attempt.failure.clone())
        else {
            panic!("libc opens: {error}");
        };
        assert_eq!(names, crate::Functions::NAMES);
        assert!(error.summary().contains("it lacks hipInit, "), "{}", error.summary());
    }
}
