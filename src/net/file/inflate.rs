//! Gzip decompression with a limit on the size of the output.
//!
//! A few megabytes of gzip can decompress to gigabytes. Two checks prevent this. The caller checks that the
//! first bytes of the output are those of a network before the rest is decompressed. And the size of the output
//! is limited, both by the longest possible protobuf message and by the size of the input, because weights
//! hardly compress.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

use crate::error::Reason;

/// The limit of the protobuf format on the size of a message, in bytes.
pub const MAXIMUM_SIZE: u64 = 1 << 31;

/// The output may have this many bytes, whatever the size of the input.
const FREE_SIZE: u64 = 64 << 20;

/// How many bytes of output each byte of input allows in addition to [`FREE_SIZE`]. Real networks compress to
/// between 0.4 and 0.9 of their size, so a ratio of 3 would suffice for them. Deflate can reach a ratio of 1032.
const MAXIMUM_RATIO: u64 = 16;

/// The first two bytes of a gzip file (RFC 1952, section 2.3.1).
pub(super) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decompresses `input`, which is `compressed_size` bytes long. `check_head` is called with the first
/// [`HEAD_SIZE`] bytes of the output (or fewer, if the output is shorter) before the rest is decompressed.
///
/// As in gzip itself, the output of several members is joined, and bytes after the last member are ignored.
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

/// How many bytes [`inflate`] passes to `check_head`: enough to recognise a network.
pub(super) const HEAD_SIZE: usize = 8;

fn another_member(input: &mut impl BufRead) -> io::Result<bool> {
    Ok(input.fill_buf()?.starts_with(&GZIP_MAGIC))
}
