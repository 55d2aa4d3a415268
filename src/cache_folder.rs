//! Where the user's system keeps what programs can make again.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder `rukh` in the user's cache folder, if the user has one.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_of(cfg!(windows), |variable| std::env::var_os(variable))
}

/// The folder `rukh` in the cache folder of a user with this environment: `XDG_CACHE_HOME`, and else `~/.cache`. On
/// Windows it is `LOCALAPPDATA` instead of `~/.cache`, because `HOME` is set there only by programs that come from Unix,
/// and a file that is kept under one of them must be found without it.
fn folder_of(is_windows: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || match is_windows {
        true => folder("LOCALAPPDATA"),
        false => folder("HOME").map(|home| home.join(".cache")),
    };
    Some(folder("XDG_CACHE_HOME").or_else(of_user)?.join("rukh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_system_keeps_caches() {
        let home = |is_windows, set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into());
            folder_of(is_windows, value)
        };
        let all = [("LOCALAPPDATA", "local"), ("HOME", "home"), ("XDG_CACHE_HOME", "")];
        assert_eq!(home(true, &all), Some("local/rukh".into()));
        assert_eq!(home(false, &all), Some("home/.cache/rukh".into()));
        let chosen = [("LOCALAPPDATA", "local"), ("HOME", "home"), ("XDG_CACHE_HOME", "chosen")];
        assert_eq!(home(true, &chosen), Some("chosen/rukh".into()));
        assert_eq!(home(false, &chosen), Some("chosen/rukh".into()));
        assert_eq!(home(true, &all[1..]), None);
        assert_eq!(home(false, &[]), None);
    }
}
