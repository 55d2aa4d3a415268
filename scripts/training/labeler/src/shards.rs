//! Shards, which are the files of records. Most games go to training shards, and a few to held-out shards.
//!
//! The name of a shard ends in `.part` while it grows and in `.bin` once it is complete, so that a trainer may read
//! every `.bin` file at any time.

use crate::layout::RECORD_BYTES;
use crate::record::Record;
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Writes the shards of one kind, one after another.
pub struct ShardWriter {
    /// The path without the number of the shard.
    stem: PathBuf,
    next: u32,
    limit: usize,
    max_age: Duration,
    open: Option<Open>,
    positions: u64,
    closed: u32,
}

struct Open {
    file: BufWriter<File>,
    part: PathBuf,
    records: usize,
    since: Instant,
}

impl ShardWriter {
    /// Writes shards `prefix-SEED-NUMBER.bin` in `folder`, each closed after `limit` positions or `max_age`.
    pub fn new(folder: &Path, prefix: &str, seed: u64, limit: usize, max_age: Duration) -> ShardWriter {
        let stem = folder.join(format!("{prefix}-{seed}"));
        ShardWriter { stem, next: 0, limit, max_age, open: None, positions: 0, closed: 0 }
    }

    /// Appends records to the open shard, and opens new ones as needed.
    ///
    /// # Errors
    /// If a file cannot be created, written or renamed.
    pub fn write(&mut self, records: &[Record]) -> Result<()> {
        for record in records {
            let open = match &mut self.open {
                Some(open) => open,
                None => {
                    let opened = self.start()?;
                    self.open.insert(opened)
                }
            };
            open.file
                .write_all(record.bytes())
                .with_context(|| format!("cannot write {}", open.part.display()))?;
            open.records += 1;
            self.positions += 1;
            if open.records >= self.limit {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Closes the open shard if it is old enough.
    ///
    /// # Errors
    /// As [`ShardWriter::write`].
    pub fn close_if_old(&mut self) -> Result<()> {
        let old = self.open.as_ref().is_some_and(|open| open.since.elapsed() >= self.max_age);
        if old { self.close() } else { Ok(()) }
    }

    /// Closes the open shard, if any.
    ///
    /// # Errors
    /// As [`ShardWriter::write`].
    pub fn close(&mut self) -> Result<()> {
        if let Some(mut open) = self.open.take() {
            let part = &open.part;
            open.file.flush().with_context(|| format!("cannot write {}", part.display()))?;
            fs::rename(part, part.with_extension("bin"))
                .with_context(|| format!("cannot rename {}", part.display()))?;
            self.closed += 1;
        }
        Ok(())
    }

    /// The numbers of positions written and of shards closed.
    pub fn counts(&self) -> (u64, u32) {
        (self.positions, self.closed)
    }

    /// Creates the next file whose name no earlier run has used.
    fn start(&mut self) -> Result<Open> {
        loop {
            let mut name = self.stem.clone().into_os_string();
            name.push(format!("-{:05}.part", self.next));
            let part = PathBuf::from(name);
            self.next += 1;
            if part.exists() || part.with_extension("bin").exists() {
                continue;
            }
            let file = File::create(&part).with_context(|| format!("cannot create {}", part.display()))?;
            let file = BufWriter::with_capacity(1 << 20, file);
            return Ok(Open { file, part, records: 0, since: Instant::now() });
        }
    }
}

/// The complete shards in a folder, sorted by name.
///
/// # Errors
/// If the folder cannot be read.
pub fn complete_shards(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut shards = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            shards.push(path);
        }
    }
    shards.sort();
    Ok(shards)
}

/// Calls `each` with every complete record of a shard.
///
/// # Errors
/// If the file cannot be read or ends within a record.
pub fn read_shard(path: &Path, mut each: impl FnMut(&Record)) -> Result<()> {
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(context)?;
    let length = file.metadata().with_context(context)?.len();
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut bytes = [0; RECORD_BYTES];
    for _ in 0..length / RECORD_BYTES as u64 {
        file.read_exact(&mut bytes).with_context(context)?;
        each(&Record::from_bytes(bytes));
    }
    let excess = length % RECORD_BYTES as u64;
    anyhow::ensure!(excess == 0, "{} ends with {excess} bytes of a record", path.display());
    Ok(())
}
