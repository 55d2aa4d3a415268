//! Gzip, with a bound on what comes out.
//!
//! A few megabytes of gzip can inflate to gigabytes. Two things stop that early: the first bytes that come out
//! must be those of a network (the caller looks at them before more is inflated), and the size is bounded both
//! by protobuf's own limit and by what went in, as weights hardly compress.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

use super::error::Reason;

/// No protobuf message is longer.
pub(super) const MAXIMUM_SIZE: u64 = 1 << 31;

/// Allowed output, whatever the input.
const FREE_SIZE: u64 = 64 << 20;

/// Allowed output per byte of input beyond [`FREE_SIZE`]. Real networks compress to between 0.4 and 0.9 of
/// their size; deflate's own limit is 1032.
const MAXIMUM_RATIO: u64 = 16;

/// How gzip begins.
pub(super) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The decompressed bytes of `input`, which is `compressed_size` bytes long; `check_head` sees the first
/// [`HEAD_SIZE`] of them (or fewer, if there are no more) before the rest is inflated.
///
/// Several gzip members in a row are one stream, and what follows the last one is ignored, as in gzip itself.
pub(super) fn inflate(
    mut input: impl BufRead,
    compressed_size: u64,
    check_head: impl FnOnce(&[u8]) -> Result<(), Reason>,
) -> Result<Vec<u8>, Reason> {
    let limit = compressed_size.saturating_mul(MAXIMUM_RATIO).saturating_add(FREE_SIZE).min(MAXIMUM_SIZE);
    let mut output = Vec::new();
    let mut member = GzDecoder::new(&mut input);
    (&mut member).take(HEAD_SIZE as u64).read_to_end(&mut output).map_err(Reason::Gzip)?;
    check_head(&output)?;
    loop {
        let room = (limit + 1).saturating_sub(output.len() as u64);
        (&mut member).take(room).read_to_end(&mut output).map_err(Reason::Gzip)?;
        if output.len() as u64 > limit {
            return Err(Reason::TooLarge { limit, compressed: true });
        }
        if !another_member(member.get_mut()).map_err(Reason::Gzip)? {
            return Ok(output);
        }
        member = GzDecoder::new(&mut input);
    }
}

/// As many bytes as it takes to know a network.
pub(super) const HEAD_SIZE: usize = 8;

fn another_member(input: &mut impl BufRead) -> io::Result<bool> {
    Ok(input.fill_buf()?.starts_with(&GZIP_MAGIC))
}
