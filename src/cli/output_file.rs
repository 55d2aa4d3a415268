//! Writes the file that a tool makes.

use super::error::CliError;
use crate::replace_file::replace_file;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file with `write`. If that fails, a file that was there before is unchanged.
///
/// # Errors
/// `output` is the file `input`, or it cannot be written.
pub(super) fn write_file(
    output: &Path,
    input: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), CliError> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", output.display());
    if is_same_file(output, input) {
        return Err(format!("the output {} is the input; choose another name", output.display()).into());
    }
    Ok(write_whole(output, write).map_err(failed)?)
}

/// Writes a file with `write`. The file appears when it is complete, and nothing of it is left if that fails.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_whole(
    output: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    // A device or a pipe is written itself.
    let is_special = fs::metadata(output).is_ok_and(|metadata| !metadata.is_file());
    // The file that a link leads to is replaced, not the link.
    let place = output.canonicalize().unwrap_or_else(|_| output.to_owned());
    let target = if is_special { place.clone() } else { partial(&place) };
    let written = File::create(&target).and_then(|file| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        write(&mut file)?;
        file.flush()
    });
    if is_special {
        return written;
    }
    written.and_then(|()| replace_file(&target, &place)).inspect_err(|_| {
        let _ = fs::remove_file(&target);
    })
}

/// The name under which a file is written until it is complete.
fn partial(output: &Path) -> PathBuf {
    let mut name = OsString::from(output);
    name.push(format!(".partial-{}", std::process::id()));
    PathBuf::from(name)
}

/// Whether both names lead to one file that exists.
pub(super) fn is_same_file(first: &Path, second: &Path) -> bool {
    match (first.canonicalize(), second.canonicalize()) {
        (Ok(first), Ok(second)) => first == second,
        _ => false,
    }
}
