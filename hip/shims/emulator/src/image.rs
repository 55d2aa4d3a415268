//! The image that a caller loads as a module: an ELF file, a bundle of several ELF files, or a compressed bundle. The C
//! interface passes only the address of the image's first byte. The image's header gives the length.

use std::borrow::Cow;
use std::io::Read;

use hip_runtime_sys::{hipError_t, hipErrorInvalidImage, hipErrorNoBinaryForGpu};

use crate::calls::report;

const ELF: &[u8] = b"\x7fELF";
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
/// The number that means zstd in the header of a compressed bundle.
const ZSTD: usize = 1;

/// The ELF file in an image: the image itself, or the bundle's entry for a device of this architecture.
///
/// # Safety
/// `image` points to a whole code object or bundle.
pub(crate) unsafe fn code_of<'a>(image: *const u8, architecture: &str) -> Result<Cow<'a, [u8]>, hipError_t> {
    // SAFETY: every image has a header of at least 24 bytes.
    let start = unsafe { std::slice::from_raw_parts(image, BUNDLE.len()) };
    if start.starts_with(ELF) {
        // SAFETY: an ELF file has a header of 64 bytes.
        let bytes = file_length(unsafe { std::slice::from_raw_parts(image, 64) });
        // SAFETY: the header says that the file has this many bytes.
        return Ok(Cow::Borrowed(unsafe { std::slice::from_raw_parts(image, bytes) }));
    }
    if start.starts_with(COMPRESSED) {
        // SAFETY: the longest header has 32 bytes.
        let (header, total) = compressed_lengths(unsafe { std::slice::from_raw_parts(image, 32) })?;
        // SAFETY: the header gives this length.
        let frame = unsafe { std::slice::from_raw_parts(image.add(header), total.saturating_sub(header)) };
        let bundle = inflated(frame).ok_or_else(|| damaged("a compressed bundle"))?;
        return device_entry(&bundle, architecture).map(|code| Cow::Owned(code.to_vec()));
    }
    if start == BUNDLE {
        // SAFETY: the table of a bundle lies within it, and gives the ends of its entries.
        let bytes = unsafe { bundle_length(image) };
        // SAFETY: the reason above applies here too.
        let bundle = unsafe { std::slice::from_raw_parts(image, bytes) };
        return device_entry(bundle, architecture).map(Cow::Borrowed);
    }
    Err(damaged("an image that is neither a code object nor a bundle"))
}

fn damaged(what: &str) -> hipError_t {
    report(&format!("{what} cannot be loaded"));
    hipErrorInvalidImage
}

/// Reads the little-endian number at a position.
fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    bytes[at..at + length].iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte))
}

/// The length of an ELF file, whose last part is the table of sections.
fn file_length(header: &[u8]) -> usize {
    number(header, 40, 8).saturating_add(number(header, 58, 2) * number(header, 60, 2))
}

/// The lengths of a compressed bundle's header and of the whole bundle, in versions 2 and 3 of LLVM's format.
fn compressed_lengths(header: &[u8]) -> Result<(usize, usize), hipError_t> {
    let (version, method) = (number(header, 4, 2), number(header, 6, 2));
    match version {
        2 if method == ZSTD => Ok((24, number(header, 8, 4))),
        3 if method == ZSTD => Ok((32, number(header, 8, 8))),
        _ => Err(damaged(&format!("a bundle in compressed format {version}, method {method},"))),
    }
}

fn inflated(frame: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(frame).ok()?.read_to_end(&mut bytes).ok()?;
    bytes.starts_with(BUNDLE).then_some(bytes)
}

/// The length of a bundle, up to the end of its last entry.
///
/// # Safety
/// `image` points to a whole bundle.
unsafe fn bundle_length(image: *const u8) -> usize {
    // SAFETY: the words of the bundle's table lie within it.
    let word = |at: usize| unsafe { image.add(at).cast::<u64>().read_unaligned() } as usize;
    let (mut at, mut end) = (BUNDLE.len() + 8, 0);
    for _ in 0..word(BUNDLE.len()) {
        end = end.max(word(at).saturating_add(word(at + 8)));
        at += 24 + word(at + 16);
    }
    end.max(at)
}

/// The bundle's entry for a device of this architecture.
fn device_entry<'a>(bundle: &'a [u8], architecture: &str) -> Result<&'a [u8], hipError_t> {
    let mut at = BUNDLE.len() + 8;
    for _ in 0..number(bundle, BUNDLE.len(), 8) {
        let [offset, bytes, name_bytes] = [0, 8, 16].map(|field| number(bundle, at + field, 8));
        let name = String::from_utf8_lossy(bundle.get(at + 24..at + 24 + name_bytes).unwrap_or_default());
        let target = name.rsplit("--").next().unwrap_or_default();
        if bytes > 0 && target.split(':').next() == Some(architecture) {
            return bundle
                .get(offset..offset.saturating_add(bytes))
                .ok_or_else(|| damaged("a truncated bundle"));
        }
        at += 24 + name_bytes;
    }
    Err(hipErrorNoBinaryForGpu)
}
