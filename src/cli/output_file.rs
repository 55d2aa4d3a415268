//! Writes the file that a tool makes.

use super::error::CliError;
use crate::uci::output::Output;
use crate::uci::session::cannot_log;
use rukh_base::distinct_files::check_distinct;
use rukh_base::os_error::why_not_written;
use rukh_base::replace_file::{self, Access};
use rukh_options::Options;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Checks before the work that no file that a command writes is another one of its files. `written` and `read` are its own
/// files, with the names of their flags; the options add the network, the configuration and the log.
///
/// # Errors
/// Two are the same file.
pub(super) fn check_outputs(
    written: &[(&str, Option<&Path>)],
    read: &[(&str, &Path)],
    options: &Options,
) -> Result<(), CliError> {
    let log = Some(options.logfile.as_str()).filter(|name| !name.is_empty()).map(Path::new);
    let written = written.iter().copied().chain([("--logfile", log)]);
    let written: Vec<_> = written.filter_map(|(name, path)| Some((name, path?))).collect();
    let of_options = [("the network", &options.weights), ("the configuration", &options.config)];
    let of_options = of_options.into_iter().map(|(name, path)| (name, Path::new(path)));
    let read = read.iter().copied().chain(of_options.filter(|(_, path)| path.is_file()));
    Ok(check_distinct(&written, &read.collect::<Vec<_>>())?)
}

/// Writes a file with `write`. If that fails, a file that was there before is unchanged. `read` are the files that the
/// command reads, with what they are.
///
/// # Errors
/// `output` is one of them, or it cannot be written.
pub(super) fn write_file(
    output: &Path,
    read: &[(&str, &Path)],
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    check_distinct(&[("the output", output)], read)?;
    write_whole(output, write).map_err(|error| {
        format!("cannot write {}: {}", output.display(), why_not_written(output, &error)).into()
    })
}

/// Logs the output of a tool from now on, if the options name a file.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn open_log(options: &Options, output: &Output) -> Result<(), CliError> {
    let opened = output.log().set_path(&options.logfile);
    Ok(opened.map_err(|error| cannot_log(&options.logfile, &error))?)
}

/// Writes a file with `write`. The file appears when it is complete, and nothing of it is left if that fails.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_whole(
    output: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // A device or a pipe is written itself.
    if fs::metadata(output).is_ok_and(|metadata| !metadata.is_file()) {
        let mut file = BufWriter::with_capacity(1 << 16, File::create(output)?);
        write(&mut file)?;
        return file.flush();
    }
    // The file that a link leads to is replaced, not the link.
    let place = output.canonicalize().unwrap_or_else(|_| output.to_owned());
    replace_file::write_whole(&place, Access::Usual, |file| write(file))
}
