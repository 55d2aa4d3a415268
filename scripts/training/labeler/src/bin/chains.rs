//! `chains` packs the shards of `label` into some 5 bytes a position, and unpacks them.
//!
//! ```text
//! chains pack packed shards/*.bin
//! chains unpack shards packed/*.chains
//! ```
//!
//! Each file becomes one file of the same name in the folder. [`labeler::chains`] describes the format.

use anyhow::{Context as _, Result, anyhow};
use clap::Parser;
use labeler::chains;
use labeler::layout::RECORD_BYTES;
use labeler::record::Record;
use labeler::shards::read_shard;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Packs the shards of labelled positions, or unpacks them.
#[derive(Parser)]
#[command(version)]
enum Arguments {
    /// Writes FOLDER/NAME.chains for each NAME.bin.
    Pack {
        /// Folder for the packed files.
        folder: PathBuf,
        /// Shards.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Writes FOLDER/NAME.bin for each NAME.chains.
    Unpack {
        /// Folder for the shards.
        folder: PathBuf,
        /// Packed files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let (folder, files, work): (_, _, fn(&Path, &Path) -> Result<()>) = match Arguments::parse() {
        Arguments::Pack { folder, files } => (folder, files, pack),
        Arguments::Unpack { folder, files } => (folder, files, unpack),
    };
    match all(&folder, &files, work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chains: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does the work for each file, on all processors. A damaged file does not keep the others from their turn.
fn all(folder: &Path, files: &[PathBuf], work: fn(&Path, &Path) -> Result<()>) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(files.len()) {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Relaxed)) {
                    if let Err(error) = work(folder, file) {
                        eprintln!("chains: {}: {error:#}", file.display());
                        failed.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    match failed.into_inner() {
        0 => Ok(()),
        failed => Err(anyhow!("{failed} of {} files failed", files.len())),
    }
}

fn pack(folder: &Path, shard: &Path) -> Result<()> {
    let mut records = Vec::new();
    read_shard(shard, |record| records.push(record.clone()))?;
    let packed = chains::pack(&records).map_err(|error| anyhow!(error))?;
    write(folder, shard, "chains", &packed)
}

fn unpack(folder: &Path, packed: &Path) -> Result<()> {
    let records = chains::unpack(&fs::read(packed)?).map_err(|error| anyhow!(error))?;
    let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES);
    records.iter().map(Record::bytes).for_each(|record| bytes.extend(record));
    write(folder, packed, "bin", &bytes)
}

/// Writes the file as a whole or not at all.
fn write(folder: &Path, source: &Path, extension: &str, bytes: &[u8]) -> Result<()> {
    let name = source.file_stem().context("a file has a name")?;
    let target = folder.join(name).with_extension(extension);
    let part = target.with_extension("part");
    fs::write(&part, bytes)?;
    fs::rename(&part, &target)?;
    Ok(())
}
