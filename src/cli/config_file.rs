//! Finds and reads the configuration file.

use super::error::{CliError, print_error_line};
use rukh_base::lc0_folders;
use rukh_base::regular_file;
use rukh_options::{Options, config};
use std::path::{Path, PathBuf};

/// The default name of the file.
const FILE_NAME: &str = "rukh.config";

/// The default name of lc0's file, which is read if there is no [`FILE_NAME`].
const LC0_FILE_NAME: &str = "lc0.config";

/// The most bytes of a file. A file that sets every option has some thousands.
const MOST_BYTES: u64 = 1 << 20;

/// The configuration file that is read if the user does not name one: `rukh.config` in the binary's directory or in
/// the user's configuration directory, or else `lc0.config` in the binary's directory or in lc0's. `None` if none of
/// them exists.
pub(super) fn find() -> Option<PathBuf> {
    let binary = rukh_base::program::file().ok();
    let beside = |name| binary.as_deref().and_then(Path::parent).map(|folder| folder.join(name));
    let in_home = config_directory().map(|directory| directory.join("rukh").join(FILE_NAME));
    let of_lc0 = lc0_folders::of_configuration().into_iter().map(|folder| folder.join(LC0_FILE_NAME));
    let candidates = [beside(FILE_NAME), in_home, beside(LC0_FILE_NAME)].into_iter().flatten();
    candidates.chain(of_lc0).find(|path| path.is_file())
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

/// What reading a configuration file found besides the options that it set.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The lines that were not understood.
    pub errors: Vec<String>,
    /// Other messages for the user.
    pub notes: Vec<String>,
    /// Whether the file asks to list the options for specialists.
    pub show_hidden: bool,
}

/// Sets the options that the file gives, and reports the file's name: on stderr, or in the notes if it is lc0's file,
/// which the user may not expect to be read.
///
/// # Errors
/// The file cannot be read, is no regular file, or is larger than [`MOST_BYTES`].
pub(super) fn read(path: &Path, options: &mut Options) -> Result<Read, CliError> {
    let shown = path.display();
    let bytes = regular_file::read(path, MOST_BYTES)
        .map_err(|error| format!("cannot read configuration file {shown}: {error}"))?;
    // A line in another encoding must not make the others unreadable.
    let applied = config::apply(options, &String::from_utf8_lossy(&bytes));
    let of_line = |text: &dyn std::fmt::Display| format!("configuration file {shown}, {text}");
    let mut read = Read { show_hidden: applied.show_hidden, ..Read::default() };
    if path.file_name().is_some_and(|name| name == LC0_FILE_NAME) {
        read.notes.push(format!("using lc0's configuration file {shown}"));
    } else {
        print_error_line(&format!("using configuration file {shown}"));
    }
    read.notes.extend(applied.notes.iter().map(|note| of_line(note)));
    read.errors
        .extend(applied.errors.iter().map(|error| format!("{}; the line is passed over", of_line(error))));
    Ok(read)
}
