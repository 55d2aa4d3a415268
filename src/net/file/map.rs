//! Memory-maps an uncompressed network file. This module has the only unsafe block of the network loader.
//!
//! The layers of a mapped file are converted to `f32` directly from the page cache, so a file of hundreds of
//! megabytes is not copied into memory first.
#![allow(unsafe_code, reason = "mapping a file is unsafe because other programs can change it")]

use std::fs::File;
use std::io;

use memmap2::Mmap;
use prost::bytes::Bytes;

/// Maps the whole file. It is unmapped when the last `Bytes` that refers to it is dropped.
pub(super) fn map(file: &File) -> io::Result<Bytes> {
    // SAFETY: the returned `Bytes` owns the map and lends it out read-only. Nothing can prevent another program
    // from changing the file while it is mapped, so the loader limits what such a change can do: the map lives
    // only while a network is built; every length is checked against the slice at hand and never stored; every
    // bit pattern is a valid value of the integers and floats that are read from it; and values are checked
    // after they have been copied out. (Truncating a mapped file raises SIGBUS, as in every program that maps
    // files.)
    let map = unsafe { Mmap::map(file)? };
    Ok(Bytes::from_owner(map))
}
