//! Decoding of protobuf messages whose memory is bounded.
//!
//! An empty message inside another takes two or three bytes in a file, and a hundred bytes to kilobytes in memory.
//! Without a limit, a small file could exhaust the memory.

use prost::Message;
use prost::bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, decode_key, skip_field};

use super::error::Reason;

/// A message that contains repeated messages.
pub trait Counted: Message + Default {
    /// The numbers of the fields that may occur at most [`Self::LIMIT`] times each.
    const REPEATED: &'static [u32];

    /// How often one of these fields may occur. The default is far above the numbers of encoders or residual blocks in
    /// any network.
    const LIMIT: usize = 512;
}

/// Decodes a message. Its repeated fields are counted first, before any memory is allocated for them.
///
/// # Errors
/// The bytes are not such a message, or a field occurs too often.
pub fn decode_bounded<M: Counted>(bytes: &Bytes) -> Result<M, Reason> {
    let mut repeats = vec![0; M::REPEATED.len()];
    let mut rest = bytes.clone();
    while rest.has_remaining() {
        let (field, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, field, &mut rest, DecodeContext::default())?;
        if let Some(index) = M::REPEATED.iter().position(|&counted| counted == field) {
            repeats[index] += 1;
            if repeats[index] > M::LIMIT {
                return Err(Reason::Repeats { field, limit: M::LIMIT });
            }
        }
    }
    Ok(M::decode(bytes.clone())?)
}
