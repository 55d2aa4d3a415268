//! The end of a tool together with the program that started it (`--end-with-stdin`).

use rukh_base::sync::start_system_thread;
use std::io::{self, ErrorKind, Read};

/// The exit code of a tool that ended because its standard input did.
const INPUT_ENDED: i32 = 1;

/// An input whose end is the end of this process, whatever it is doing.
pub(super) struct EndingInput<R>(pub R);

impl<R: Read> Read for EndingInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Ok(0) if !buffer.is_empty() => std::process::exit(INPUT_ENDED),
            Err(error) if error.kind() != ErrorKind::Interrupted => std::process::exit(INPUT_ENDED),
            read => read,
        }
    }
}

/// Ends this process as soon as standard input does. What comes from there is not used.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn end_with_stdin() -> io::Result<()> {
    let wait = || drop(io::copy(&mut EndingInput(io::stdin()), &mut io::sink()));
    start_system_thread("stdin", wait).map(drop)
}
