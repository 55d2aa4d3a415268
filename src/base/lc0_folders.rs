//! The folders besides its own in which lc0 looks for a user's files.
//!
//! A user who replaces lc0's binary keeps these files, so Rukh reads them too. lc0 has no such folders on Windows.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The folders that may have `lc0.config`: the user's, and then those of the system.
pub fn of_configuration() -> Vec<PathBuf> {
    if cfg!(target_os = "macos") {
        return in_home("Library/Preferences").into_iter().collect();
    }
    folders("XDG_CONFIG_HOME", ".config", "XDG_CONFIG_DIRS", "/etc/xdg")
}

/// The folders that may have networks: the user's, and then those of the system.
pub fn of_networks() -> Vec<PathBuf> {
    let folders = if cfg!(target_os = "macos") {
        in_home("Library").into_iter().collect()
    } else {
        folders("XDG_DATA_HOME", ".local/share", "XDG_DATA_DIRS", "/usr/local/share:/usr/share")
    };
    folders.into_iter().flat_map(|folder| [folder.clone(), folder.join("networks")]).collect()
}

/// lc0's folder in the user's folder, which the variable `user` names or which is `user_default` in the home folder,
/// and in the system's folders, which the variable `system` lists.
fn folders(user: &str, user_default: &str, system: &str, system_default: &str) -> Vec<PathBuf> {
    if cfg!(windows) {
        return Vec::new();
    }
    // lc0 passes over a variable that names no folder.
    let named =
        variable(user).map(PathBuf::from).filter(|folder| folder.is_dir()).map(|folder| folder.join("lc0"));
    let of_user = named.or_else(|| in_home(user_default));
    let of_system = variable(system).unwrap_or_else(|| system_default.into());
    of_user.into_iter().chain(env::split_paths(&of_system).map(|folder| folder.join("lc0"))).collect()
}

fn in_home(folder: &str) -> Option<PathBuf> {
    variable("HOME").map(|home| PathBuf::from(home).join(folder).join("lc0"))
}

/// The value of a variable of the environment that is not empty.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
