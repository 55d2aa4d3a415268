//! Finds and reads the configuration file.

use super::error::{CliError, print_error_line};
use crate::options::{Options, config};
use std::path::{Path, PathBuf};

/// The default name of the file.
const FILE_NAME: &str = "rukh.config";

/// The configuration file that is read if the user does not name one: in the binary's directory, or in the user's
/// configuration directory. `None` if neither exists.
pub(super) fn find() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|binary| Some(binary.parent()?.join(FILE_NAME)));
    let in_home = config_directory().map(|directory| directory.join("rukh").join(FILE_NAME));
    [beside, in_home].into_iter().flatten().find(|path| path.is_file())
}

fn config_directory() -> Option<PathBuf> {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        named("APPDATA")
    } else {
        named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")))
    }
}

/// Sets the options that the file gives, and reports the file's name on stderr.
///
/// # Errors
/// The file cannot be read, or one of its lines is invalid.
pub(super) fn read(path: &Path, options: &mut Options) -> Result<(), CliError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read configuration file {shown}: {error}"))?;
    config::apply(options, &text).map_err(|error| format!("configuration file {shown}, {error}"))?;
    print_error_line(&format!("using configuration file {shown}"));
    Ok(())
}
