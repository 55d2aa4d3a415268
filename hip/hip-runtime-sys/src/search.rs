//! The places to look for ROCm's libraries, and for NVIDIA's, in order.
//!
//! The order follows only from the platform, the environment, and the names of the files that exist. So the tests check
//! the order for each platform on any platform.
//!
//! The folders that [`FOLDER_VARIABLE`] lists are the only ones if it is set. Otherwise a place that the user has
//! chosen (`ROCM_PATH`, an active Python environment) comes before the folders that the system searches, and those come
//! before the folders in which ROCm is usually installed.
//!
//! On Windows the display driver puts HIP's runtime into the system's folder. `HIP_PATH` names the folder of the HIP
//! SDK, whose installer sets it for all users. The SDK may be older than the driver and the card, so that it comes after
//! the system's folders.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The environment variable that lists the only folders to load from, instead of all others. They are separated like
/// the folders of `PATH`.
pub const FOLDER_VARIABLE: &str = "RUKH_ROCM_LIBRARY_PATH";

/// The environment variable that lists the only folders to load NVIDIA's driver from, instead of all others.
pub const CUDA_FOLDER_VARIABLE: &str = "RUKH_CUDA_LIBRARY_PATH";

/// An operating system, as far as it decides where libraries are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "names of systems")]
pub enum Platform {
    Unix,
    Windows,
}

impl Platform {
    /// The platform that this program was built for.
    pub const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };

    /// The folder of shared libraries in a folder where ROCm is installed.
    fn library_folder(self) -> &'static str {
        match self {
            Self::Unix => "lib",
            Self::Windows => "bin",
        }
    }

    /// Splits a list of folders at the platform's separator. Empty entries are left out.
    pub(crate) fn split(self, list: &OsStr) -> Vec<PathBuf> {
        let separator = if self == Self::Windows { ';' } else { ':' };
        match list.to_str() {
            Some(text) => {
                text.split(separator).filter(|entry| !entry.is_empty()).map(PathBuf::from).collect()
            }
            // Only the platform's own function can split a list that is not Unicode.
            None => std::env::split_paths(list).filter(|entry| !entry.as_os_str().is_empty()).collect(),
        }
    }
}

/// The facts about a machine that the order depends on.
pub trait Machine {
    /// The value of an environment variable; `None` if it is empty.
    fn variable(&self, name: &str) -> Option<OsString>;

    /// Whether there is such a file.
    fn has_file(&self, path: &Path) -> bool;

    /// The names of the files and folders in a folder. There are none if the folder cannot be read.
    fn names(&self, folder: &Path) -> BTreeSet<String>;
}

/// The machine that this program runs on.
#[derive(Clone, Copy, Debug)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    fn has_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn names(&self, folder: &Path) -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// A place to look for a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The folders that the system's loader searches for a name without a folder.
    System,
    /// One folder.
    Folder(PathBuf),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System => f.write_str("the system's folders"),
            Self::Folder(folder) => folder.display().fmt(f),
        }
    }
}

/// The places to look for every library, in order.
pub fn places(platform: Platform, machine: &dyn Machine) -> Vec<Place> {
    let asked = machine.variable(FOLDER_VARIABLE).map(|list| platform.split(&list)).unwrap_or_default();
    if !asked.is_empty() {
        return asked.into_iter().map(Place::Folder).collect();
    }
    let search = Search { platform, machine };
    let mut places: Vec<Place> = search.chosen().into_iter().map(Place::Folder).collect();
    places.push(Place::System);
    places.extend(search.usual().into_iter().map(Place::Folder));
    let mut unique = Vec::new();
    for place in places {
        if !unique.contains(&place) {
            unique.push(place);
        }
    }
    unique
}

/// Whether the user has named the only folders for NVIDIA's driver.
pub fn names_nvidia_driver(machine: &dyn Machine) -> bool {
    machine.variable(CUDA_FOLDER_VARIABLE).is_some()
}

/// The places to look for the library of NVIDIA's display driver. WSL, some containers and NixOS have it in a folder that
/// the system's loader need not search. On Windows it is in the system's folder, and a file of the same name beside a
/// program, which the system's loader would take first, is not the driver's.
pub fn nvidia_driver(platform: Platform, machine: &dyn Machine) -> Vec<Place> {
    let asked = machine.variable(CUDA_FOLDER_VARIABLE).map(|list| platform.split(&list)).unwrap_or_default();
    if !asked.is_empty() {
        return asked.into_iter().map(Place::Folder).collect();
    }
    match platform {
        Platform::Unix => {
            let others = ["/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib"];
            std::iter::once(Place::System).chain(others.map(|folder| Place::Folder(folder.into()))).collect()
        }
        Platform::Windows => vec![match machine.variable("SystemRoot") {
            Some(root) => Place::Folder(PathBuf::from(root).join("System32")),
            None => Place::System,
        }],
    }
}

/// The places to look for cuBLASLt: only `asked`, if the user has named a folder, and else the folder of this program, where
/// lc0's package for Windows has it, the active Python environment, the toolkit that `CUDA_PATH` names, the system's
/// folders, and the toolkit's usual folder.
pub fn cublaslt(platform: Platform, machine: &dyn Machine, asked: Option<&Path>) -> Vec<Place> {
    if let Some(folder) = asked {
        return vec![Place::Folder(folder.to_path_buf())];
    }
    let search = Search { platform, machine };
    let mut folders = Vec::new();
    folders.extend(std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_path_buf())));
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|variable| search.root(variable)) {
        let packages = search.packages(&environment);
        folders.extend(packages.iter().flat_map(|packages| search.nvidia_wheels(packages)));
        folders.push(environment.join(platform.library_folder()));
    }
    folders.extend(search.root("CUDA_PATH").map(|root| match platform {
        Platform::Unix => root.join("lib64"),
        Platform::Windows => root.join("bin"),
    }));
    let mut places: Vec<Place> = folders.into_iter().map(Place::Folder).collect();
    places.push(Place::System);
    if platform == Platform::Unix {
        places.push(Place::Folder("/usr/local/cuda/lib64".into()));
    }
    places
}

struct Search<'a> {
    platform: Platform,
    machine: &'a dyn Machine,
}

impl Search<'_> {
    fn root(&self, variable: &str) -> Option<PathBuf> {
        self.machine.variable(variable).map(PathBuf::from)
    }

    /// The folders that the user has chosen through the environment.
    fn chosen(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        if let Some(root) = self.root("ROCM_PATH") {
            folders.push(root.join(self.platform.library_folder()));
            // The root may be one of the wheels, and the other libraries are then in the wheels beside it.
            let is_wheel =
                root.file_name().is_some_and(|name| name.to_string_lossy().starts_with("_rocm_sdk"));
            if let Some(packages) = root.parent().filter(|_| is_wheel) {
                folders.extend(self.wheels(packages));
            }
        }
        for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|variable| self.root(variable)) {
            folders.extend(self.packages(&environment).iter().flat_map(|packages| self.wheels(packages)));
        }
        folders
    }

    /// The folders in which ROCm is usually installed.
    fn usual(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let user_packages = match self.platform {
            Platform::Unix => {
                let rocm = Path::new("/opt/rocm");
                folders.push(rocm.join("lib"));
                // ROCm 10 is in `/opt/rocm/core-10.0`, and ROCm 5 to 7 are in `/opt/rocm-7.2.0`.
                folders.extend(self.versions(rocm, "core-").into_iter().map(|root| root.join("lib")));
                folders.extend(
                    self.versions(Path::new("/opt"), "rocm-").into_iter().map(|root| root.join("lib")),
                );
                let base = self.root("PYTHONUSERBASE").or_else(|| Some(self.root("HOME")?.join(".local")));
                base.map(|base| self.packages(&base)).unwrap_or_default()
            }
            Platform::Windows => {
                folders.extend(self.root("HIP_PATH").map(|root| root.join("bin")));
                let installed = self.root("ProgramFiles").map(|programs| programs.join("AMD").join("ROCm"));
                let versions = installed.map(|root| self.versions(&root, "")).unwrap_or_default();
                folders.extend(versions.into_iter().map(|root| root.join("bin")));
                let base = self.root("PYTHONUSERBASE").or_else(|| Some(self.root("APPDATA")?.join("Python")));
                let pythons = base.map(|base| self.versions(&base, "Python")).unwrap_or_default();
                pythons.into_iter().map(|python| python.join("site-packages")).collect()
            }
        };
        folders.extend(user_packages.iter().flat_map(|packages| self.wheels(packages)));
        folders
    }

    /// The folders of packages in a Python environment, those of the newest Python first.
    fn packages(&self, environment: &Path) -> Vec<PathBuf> {
        match self.platform {
            Platform::Unix => {
                let pythons = self.versions(&environment.join("lib"), "python");
                pythons.into_iter().map(|python| python.join("site-packages")).collect()
            }
            Platform::Windows => vec![environment.join("Lib").join("site-packages")],
        }
    }

    /// The folders of libraries in ROCm's wheels. HIP's wheel comes first, and then those of the BLAS libraries.
    fn wheels(&self, packages: &Path) -> Vec<PathBuf> {
        let names = self.machine.names(packages);
        let wheels = names
            .iter()
            .filter(|name| name.as_str() == "_rocm_sdk_core" || name.starts_with("_rocm_sdk_libraries"));
        wheels.map(|wheel| packages.join(wheel).join(self.platform.library_folder())).collect()
    }

    /// The folders of libraries in NVIDIA's wheels: `nvidia/cu13` since CUDA 13, and `nvidia/cublas` before.
    fn nvidia_wheels(&self, packages: &Path) -> Vec<PathBuf> {
        let nvidia = packages.join("nvidia");
        let mut folders = self.versions(&nvidia, "cu");
        folders.push(nvidia.join("cublas"));
        let libraries = |folder: PathBuf| match self.platform {
            Platform::Unix => vec![folder.join("lib")],
            Platform::Windows => vec![folder.join("bin").join("x86_64"), folder.join("bin")],
        };
        folders.into_iter().flat_map(libraries).collect()
    }

    /// The entries of a folder whose names are `prefix` and a version, the newest first.
    fn versions(&self, folder: &Path, prefix: &str) -> Vec<PathBuf> {
        let mut found: Vec<(Vec<u64>, String)> = self
            .machine
            .names(folder)
            .into_iter()
            .filter_map(|name| {
                let version = name.strip_prefix(prefix)?;
                version
                    .starts_with(|first: char| first.is_ascii_digit())
                    .then(|| (numbers(version), name.clone()))
            })
            .collect();
        found.sort_unstable();
        found.into_iter().rev().map(|(_, name)| folder.join(name)).collect()
    }
}

/// The numbers in a version, such as 6, 4 and 1 in `6.4.1`.
fn numbers(version: &str) -> Vec<u64> {
    let words = version.split(|character: char| !character.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A machine with these variables and files. A file's name stands for its folders, too.
    struct Imagined {
        variables: BTreeMap<&'static str, &'static str>,
        files: Vec<&'static str>,
    }

    impl Machine for Imagined {
        fn variable(&self, name: &str) -> Option<OsString> {
            self.variables.get(name).map(OsString::from)
        }

        fn has_file(&self, path: &Path) -> bool {
            self.files.iter().any(|file| Path::new(file) == path)
        }

        fn names(&self, folder: &Path) -> BTreeSet<String> {
            let inside = self.files.iter().filter_map(|file| Path::new(file).strip_prefix(folder).ok());
            let names = inside.filter_map(|path| path.iter().next());
            names.map(|name| name.to_string_lossy().into_owned()).collect()
        }
    }

    fn order(
        platform: Platform,
        variables: &[(&'static str, &'static str)],
        files: &[&'static str],
    ) -> Vec<Place> {
        let machine = Imagined { variables: variables.iter().copied().collect(), files: files.to_vec() };
        places(platform, &machine)
    }

    /// The expected places, of which `*` stands for the system's folders.
    fn expected(places: &[&str]) -> Vec<Place> {
        let place = |&text: &&str| if text == "*" { Place::System } else { Place::Folder(text.into()) };
        places.iter().map(place).collect()
    }

    #[test]
    fn without_an_installation_only_the_usual_places_are_left() {
        assert_eq!(order(Platform::Unix, &[], &[]), expected(&["*", "/opt/rocm/lib"]));
        assert_eq!(order(Platform::Windows, &[], &[]), expected(&["*"]));
    }

    #[test]
    fn the_users_list_is_the_only_place() {
        let unix = [(FOLDER_VARIABLE, "/hip:/blas::"), ("ROCM_PATH", "/rocm")];
        assert_eq!(order(Platform::Unix, &unix, &["/opt/rocm-7.0.0/lib/x"]), expected(&["/hip", "/blas"]));
        let windows = [(FOLDER_VARIABLE, "C:/hip;D:/blas"), ("HIP_PATH", "C:/rocm")];
        assert_eq!(order(Platform::Windows, &windows, &[]), expected(&["C:/hip", "D:/blas"]));
        assert_eq!(order(Platform::Unix, &[(FOLDER_VARIABLE, ":")], &[]), expected(&["*", "/opt/rocm/lib"]));
    }

    #[test]
    fn rocm_path_comes_before_the_system() {
        let found = order(Platform::Unix, &[("ROCM_PATH", "/rocm")], &[]);
        assert_eq!(found, expected(&["/rocm/lib", "*", "/opt/rocm/lib"]));
        let found = order(Platform::Unix, &[("ROCM_PATH", "/opt/rocm")], &[]);
        assert_eq!(found, expected(&["/opt/rocm/lib", "*"]), "a place is not searched twice");
        let variables = [("ROCM_PATH", "C:/rocm"), ("HIP_PATH", "C:/sdk")];
        assert_eq!(order(Platform::Windows, &variables, &[]), expected(&["C:/rocm/bin", "*", "C:/sdk/bin"]));
    }

    #[test]
    fn installed_versions_follow_the_newest_first() {
        let files = [
            "/opt/rocm-6.4.1/lib/libamdhip64.so.6",
            "/opt/rocm-7.2.0/lib/libamdhip64.so.7",
            "/opt/rocm/core-9.0/lib/libamdhip64.so.8",
            "/opt/rocm/core-10.0/lib/libamdhip64.so.8",
            "/opt/rocm/extras-10/lib/other.so",
        ];
        let in_order = [
            "*",
            "/opt/rocm/lib",
            "/opt/rocm/core-10.0/lib",
            "/opt/rocm/core-9.0/lib",
            "/opt/rocm-7.2.0/lib",
            "/opt/rocm-6.4.1/lib",
        ];
        assert_eq!(order(Platform::Unix, &[], &files), expected(&in_order));
        let files = ["C:/Program Files/AMD/ROCm/6.4/bin/x.dll", "C:/Program Files/AMD/ROCm/10.0/bin/x.dll"];
        let in_order = ["*", "C:/Program Files/AMD/ROCm/10.0/bin", "C:/Program Files/AMD/ROCm/6.4/bin"];
        let variables = [("ProgramFiles", "C:/Program Files")];
        assert_eq!(order(Platform::Windows, &variables, &files), expected(&in_order));
    }

    #[test]
    fn the_display_driver_comes_before_the_hip_sdk() {
        let files = ["C:/AMD/ROCm/6.2/bin/amdhip64_6.dll"];
        let found = order(Platform::Windows, &[("HIP_PATH", "C:/AMD/ROCm/6.2")], &files);
        assert_eq!(found, expected(&["*", "C:/AMD/ROCm/6.2/bin"]));
    }

    #[test]
    fn wheels_of_an_active_environment_come_before_the_system() {
        let files = [
            "/env/lib/python3.9/site-packages/_rocm_sdk_core/lib/libamdhip64.so.6",
            "/env/lib/python3.12/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7",
            "/env/lib/python3.12/site-packages/_rocm_sdk_libraries_gfx1151/lib/librocblas.so.5",
            "/env/lib/python3.12/site-packages/numpy/core.so",
        ];
        let in_order = [
            "/env/lib/python3.12/site-packages/_rocm_sdk_core/lib",
            "/env/lib/python3.12/site-packages/_rocm_sdk_libraries_gfx1151/lib",
            "/env/lib/python3.9/site-packages/_rocm_sdk_core/lib",
            "*",
            "/opt/rocm/lib",
        ];
        for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
            assert_eq!(order(Platform::Unix, &[(variable, "/env")], &files), expected(&in_order));
        }
        let files = [
            "C:/env/Lib/site-packages/_rocm_sdk_core/bin/amdhip64_7.dll",
            "C:/env/Lib/site-packages/_rocm_sdk_libraries/bin/rocblas.dll",
        ];
        let in_order = [
            "C:/env/Lib/site-packages/_rocm_sdk_core/bin",
            "C:/env/Lib/site-packages/_rocm_sdk_libraries/bin",
            "*",
        ];
        assert_eq!(order(Platform::Windows, &[("VIRTUAL_ENV", "C:/env")], &files), expected(&in_order));
    }

    #[test]
    fn the_other_wheels_are_found_beside_the_one_that_rocm_path_names() {
        let files = [
            "/py/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7",
            "/py/site-packages/_rocm_sdk_libraries_gfx110X/lib/librocblas.so.5",
        ];
        let in_order = [
            "/py/site-packages/_rocm_sdk_core/lib",
            "/py/site-packages/_rocm_sdk_libraries_gfx110X/lib",
            "*",
            "/opt/rocm/lib",
        ];
        let variables = [("ROCM_PATH", "/py/site-packages/_rocm_sdk_core")];
        assert_eq!(order(Platform::Unix, &variables, &files), expected(&in_order));
    }

    #[test]
    fn wheels_of_the_user_come_last() {
        let files = ["/home/me/.local/lib/python3.13/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7"];
        let wheel = "/home/me/.local/lib/python3.13/site-packages/_rocm_sdk_core/lib";
        let found = order(Platform::Unix, &[("HOME", "/home/me")], &files);
        assert_eq!(found, expected(&["*", "/opt/rocm/lib", wheel]));
        let found =
            order(Platform::Unix, &[("HOME", "/other"), ("PYTHONUSERBASE", "/home/me/.local")], &files);
        assert_eq!(found, expected(&["*", "/opt/rocm/lib", wheel]));
        let files = ["C:/me/Python/Python313/site-packages/_rocm_sdk_core/bin/amdhip64_7.dll"];
        let found = order(Platform::Windows, &[("APPDATA", "C:/me")], &files);
        assert_eq!(found, expected(&["*", "C:/me/Python/Python313/site-packages/_rocm_sdk_core/bin"]));
    }

    #[test]
    fn cublaslt_is_looked_for_where_users_have_it() {
        let folders = |platform, variables: &[(&'static str, &'static str)], files: &[&'static str]| {
            let machine = Imagined { variables: variables.iter().copied().collect(), files: files.to_vec() };
            let found = cublaslt(platform, &machine, None);
            // The folder of this program comes first.
            let texts = found[1..].iter().map(|place| place.to_string().replace('\\', "/"));
            texts.collect::<Vec<_>>()
        };
        let files = ["/env/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13"];
        let found = folders(Platform::Unix, &[("VIRTUAL_ENV", "/env"), ("CUDA_PATH", "/cuda")], &files);
        let packages = "/env/lib/python3.12/site-packages/nvidia";
        let expected = [
            &format!("{packages}/cu13/lib"),
            &format!("{packages}/cublas/lib"),
            "/env/lib",
            "/cuda/lib64",
            "the system's folders",
            "/usr/local/cuda/lib64",
        ];
        assert_eq!(found, expected);
        let found = folders(Platform::Windows, &[("CUDA_PATH", "C:/CUDA/v12.6")], &[]);
        assert_eq!(found, ["C:/CUDA/v12.6/bin", "the system's folders"]);
        let nothing = Imagined { variables: BTreeMap::new(), files: Vec::new() };
        let asked = cublaslt(Platform::Unix, &nothing, Some(Path::new("/mine")));
        assert_eq!(asked, [Place::Folder("/mine".into())]);
    }

    #[test]
    fn wsl_and_windows_have_the_driver_in_a_folder_of_their_own() {
        let nothing = Imagined { variables: BTreeMap::new(), files: Vec::new() };
        let found = nvidia_driver(Platform::Unix, &nothing);
        assert_eq!(found[..2], [Place::System, Place::Folder("/usr/lib/wsl/lib".into())]);
        assert_eq!(nvidia_driver(Platform::Windows, &nothing), [Place::System]);
        let windows =
            Imagined { variables: BTreeMap::from([("SystemRoot", "C:/Windows")]), files: Vec::new() };
        let found = nvidia_driver(Platform::Windows, &windows);
        assert_eq!(found, [Place::Folder(Path::new("C:/Windows").join("System32"))]);
        let asked =
            Imagined { variables: BTreeMap::from([(CUDA_FOLDER_VARIABLE, "/mine")]), files: Vec::new() };
        assert_eq!(nvidia_driver(Platform::Unix, &asked), [Place::Folder("/mine".into())]);
    }
}
