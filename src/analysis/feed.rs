//! Reads the documents of all files on a thread of its own, a little ahead of the searches.

use super::input::{InputFormat, RawDocument, Source};
use super::input_state::InputState;
use crossbeam_channel::{Receiver, Sender, bounded};
use rukh_base::os_error::in_words;
use rukh_base::sync::start_system_thread;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The most documents that are read ahead.
const AHEAD: usize = 32;

/// A file of the input.
pub(super) struct Input {
    /// Its path; `-` is stdin.
    pub(super) path: PathBuf,
    /// What it was like when the analysis began; `None` if it is not a regular file.
    pub(super) state: Option<InputState>,
}

/// The most bytes of documents that are read and not yet written. A game needs several times the memory of its text.
const BYTES_AHEAD: usize = 4 << 20;

/// Counts the bytes of documents in memory.
#[derive(Default)]
struct Gate {
    held: Mutex<usize>,
    changed: Condvar,
}

/// The place of a document in memory, which becomes free when this is dropped.
pub(super) struct Held {
    gate: Arc<Gate>,
    bytes: usize,
}

impl Gate {
    /// Blocks until there is room for a document. One document is always let through.
    fn hold(self: &Arc<Gate>, bytes: usize) -> Held {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |held: &mut usize| *held > 0 && *held + bytes > BYTES_AHEAD;
        let mut held = self.changed.wait_while(held, is_full).unwrap_or_else(PoisonError::into_inner);
        *held += bytes;
        Held { gate: Arc::clone(self), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.gate.held.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.gate.changed.notify_all();
    }
}

/// A document of the input.
pub(super) struct Fed {
    /// The number of the document among those of this shard, from 0.
    pub(super) sequence: u64,
    /// The number of the document among all, from 1.
    pub(super) number: u64,
    /// The text, or why a file cannot be read further.
    pub(super) raw: Result<RawDocument, String>,
    /// The bytes of input that were read up to the end of this document.
    pub(super) bytes_read: u64,
    /// Lets the thread read on when the document is written.
    pub(super) held: Held,
}

/// The thread that reads. It ends with the receiver of its documents.
pub(super) struct Feed {
    pub(super) documents: Receiver<Fed>,
    /// The bytes of all files; `None` if one of them is not a plain file.
    pub(super) total_bytes: Option<u64>,
}

impl Feed {
    /// Starts the thread. Of the documents it passes on those whose number, counted from 0, leaves the remainder
    /// `shard.0` after the division by `shard.1`.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn start(
        inputs: Vec<Input>,
        format: Option<InputFormat>,
        shard: (u64, u64),
    ) -> io::Result<Feed> {
        let total_bytes = inputs.iter().map(|input| Some(input.state?.bytes)).sum();
        let (sender, documents) = bounded(AHEAD);
        let reader =
            Reader { format, shard, sender, count: 0, sequence: 0, finished_bytes: 0, gate: Arc::default() };
        start_system_thread("reader", move || reader.read_all(&inputs))?;
        Ok(Feed { documents, total_bytes })
    }
}

struct Reader {
    format: Option<InputFormat>,
    shard: (u64, u64),
    sender: Sender<Fed>,
    /// The number of documents that were read.
    count: u64,
    /// The number of those of this shard.
    sequence: u64,
    /// The bytes of the files that are read to their end.
    finished_bytes: u64,
    gate: Arc<Gate>,
}

impl Reader {
    fn read_all(mut self, inputs: &[Input]) {
        for input in inputs {
            let shown = input.path.display();
            let read = self
                .read(&input.path)
                .map_err(|error| format!("cannot read {shown} further: {}", in_words(&error)));
            let is_changed = || InputState::of(&input.path) != input.state;
            let read = match read {
                Ok(()) if is_changed() => Err(format!("{shown} has been changed since the analysis began")),
                read => read,
            };
            if let Err(trouble) = read {
                let bytes_read = self.finished_bytes;
                let held = self.gate.hold(0);
                let fed =
                    Fed { sequence: self.sequence, number: self.count, raw: Err(trouble), bytes_read, held };
                if self.sender.send(fed).is_err() {
                    return;
                }
            }
            self.finished_bytes += input.state.map_or(0, |state| state.bytes);
        }
    }

    /// Reads a file. Ends early if nobody wants more.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let mut source = Source::open(path, self.format)?;
        while let Some(raw) = source.next()? {
            let (remainder, shards) = self.shard;
            let is_ours = self.count % shards == remainder;
            self.count += 1;
            if !is_ours {
                continue;
            }
            let bytes_read = self.finished_bytes + source.bytes_read();
            let held = self.gate.hold(raw.bytes.len());
            let fed = Fed { sequence: self.sequence, number: self.count, raw: Ok(raw), bytes_read, held };
            self.sequence += 1;
            if self.sender.send(fed).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn documents_are_read_ahead_only_as_far_as_they_fit_into_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pgn");
        let game = format!("1. e4 {{{}}} *\n\n", "x".repeat(500_000));
        std::fs::write(&path, game.repeat(12)).expect("the file is written");
        let input = Input { state: InputState::of(&path), path };
        let feed = Feed::start(vec![input], None, (0, 1)).expect("the thread starts");
        let next = || feed.documents.recv_timeout(Duration::from_secs(20)).expect("a document");
        let first: Vec<Fed> = (0..8).map(|_| next()).collect();
        assert!(feed.documents.recv_timeout(Duration::from_millis(100)).is_err());
        drop(first);
        assert_eq!((0..4).map(|_| next().number).collect::<Vec<_>>(), [9, 10, 11, 12]);
    }
}
