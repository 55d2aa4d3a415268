//! The file that keeps how a network's weights were rounded.
//!
//! It is compressed with gzip, whose checksum finds damage. Inside, numbers are little-endian:
//!
//! | what | type |
//! |---|---|
//! | the length of the key in bytes, and the key: what the content depends on | u32, text |
//! | for dense layers and then for convolutions: how many there are, and for each: | u32 |
//! | · its number, and how many scales, factors and shifts there are | 4 u32 |
//! | · these numbers | f32, f32, i8 |

use super::kernels::matrix::KeptRounding;
use super::rounder::NetworkRounding;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

/// The most bytes that are decompressed: one for each weight, and the largest networks have some hundred million.
const MOST_BYTES: u64 = 1 << 31;

/// The file's first bytes, before the compression: the key and its length.
fn start(key: &str) -> Vec<u8> {
    [&(key.len() as u32).to_le_bytes(), key.as_bytes()].concat()
}

/// The bytes of the file.
///
/// # Errors
/// The compression fails.
pub(super) fn write(key: &str, rounding: &NetworkRounding) -> io::Result<Vec<u8>> {
    let mut bytes = GzEncoder::new(Vec::new(), Compression::new(6));
    bytes.write_all(&start(key))?;
    for layers in [&rounding.dense, &rounding.convolutions] {
        bytes.write_all(&(layers.len() as u32).to_le_bytes())?;
        for (number, KeptRounding { scales, factors, shifts }) in layers {
            bytes.write_all(&number.to_le_bytes())?;
            for length in [scales.len(), factors.len(), shifts.len()] {
                bytes.write_all(&(length as u32).to_le_bytes())?;
            }
            for number in scales.iter().chain(factors) {
                bytes.write_all(&number.to_le_bytes())?;
            }
            let shifts: Vec<u8> = shifts.iter().map(|shift| shift.cast_unsigned()).collect();
            bytes.write_all(&shifts)?;
        }
    }
    bytes.finish()
}

/// Reads what [`write`] has written with the same key. `None` if it is damaged, or of something else.
pub(super) fn read(file: &[u8], key: &str) -> Option<NetworkRounding> {
    let mut file = GzDecoder::new(file);
    // Most of a file of something else is never decompressed.
    let expected = start(key);
    let mut found = vec![0; expected.len()];
    file.read_exact(&mut found).ok()?;
    if found != expected {
        return None;
    }
    // The lengths in the file do not determine how much memory is taken, because only what is there is read.
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let mut rest = Rest(&bytes);
    let rounding = NetworkRounding { dense: rest.layers()?, convolutions: rest.layers()? };
    rest.0.is_empty().then_some(rounding)
}

/// The bytes that have not been read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn count(&mut self) -> Option<usize> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    }

    fn numbers(&mut self, count: usize) -> Option<Vec<f32>> {
        let (numbers, _) = self.bytes(count.checked_mul(size_of::<f32>())?)?.as_chunks();
        Some(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn layers(&mut self) -> Option<BTreeMap<u32, KeptRounding>> {
        let mut layers = BTreeMap::new();
        for _ in 0..self.count()? {
            let number = u32::try_from(self.count()?).ok()?;
            let [scales, factors, shifts] = [self.count()?, self.count()?, self.count()?];
            let (scales, factors) = (self.numbers(scales)?, self.numbers(factors)?);
            let shifts = self.bytes(shifts)?.iter().map(|byte| byte.cast_signed()).collect();
            layers.insert(number, KeptRounding { scales, factors, shifts });
        }
        Some(layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounding() -> NetworkRounding {
        let layer = |seed: i8| KeptRounding {
            scales: vec![0.5, f32::from(seed)],
            factors: vec![1.0, 2.0, 3.0],
            shifts: vec![seed, -1, 0, 1, i8::MIN, 0],
        };
        NetworkRounding {
            dense: [(3, layer(1)), (7, KeptRounding { factors: Vec::new(), ..layer(2) })].into(),
            convolutions: [(0, layer(3))].into(),
        }
    }

    #[test]
    fn what_was_written_is_read_with_the_same_key_only() {
        let file = write("key\n", &rounding()).expect("it is written");
        assert_eq!(read(&file, "key\n"), Some(rounding()));
        for other in ["", "key", "key\n\n", "kez\n"] {
            assert_eq!(read(&file, other), None, "{other:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_not_believed() {
        let file = write("key", &rounding()).expect("it is written");
        for length in 0..file.len() {
            assert_eq!(read(&file[..length], "key"), None, "the first {length} bytes");
        }
        // The first ten bytes are gzip's header, of which some mean nothing. Everything after it is checked.
        for index in 10..file.len() {
            let mut damaged = file.clone();
            damaged[index] ^= 0x10;
            // Bits that fill up the last byte of the compressed data mean nothing either.
            let read = read(&damaged, "key");
            assert!(read.is_none() || read == Some(rounding()), "byte {index}: {read:?}");
        }
        // Lengths that promise more than there is.
        for (at, what) in [(0, "the key"), (7, "the layers"), (15, "the scales")] {
            let mut bytes = Vec::new();
            GzDecoder::new(&file[..]).read_to_end(&mut bytes).expect("it is sound");
            bytes[at..at + 4].fill(0xff);
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&bytes).expect("it is written");
            assert_eq!(read(&encoder.finish().expect("it ends"), "key"), None, "{what}");
        }
    }
}
