//! A file as memory: the one unsafe block of the network loader.
//!
//! An uncompressed network is read in place, so that a file of hundreds of megabytes is neither copied nor held
//! twice: its tensors become `f32` straight from the page cache.
#![allow(unsafe_code, reason = "a memory map is unsafe by nature: see the SAFETY note of the only block")]

use std::fs::File;
use std::io;

use memmap2::Mmap;
use prost::bytes::Bytes;

/// The whole file, unmapped when the last view of it is dropped.
pub(super) fn map(file: &File) -> io::Result<Bytes> {
    // SAFETY: the map is private to the returned `Bytes`, which owns it and only ever lends it read-only. What
    // nobody can promise is that no other program writes to the file meanwhile. So nothing here keeps a map: it
    // lives while a network is built, every length is checked against the slice at hand and never remembered,
    // every bit pattern is a valid value of the integers and floats read from it, and values are checked after
    // they are copied out. (A file cut short under a map raises SIGBUS, as in every program that maps files.)
    let map = unsafe { Mmap::map(file)? };
    Ok(Bytes::from_owner(map))
}
