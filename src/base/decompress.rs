//! Reads files that may be compressed.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

/// The first bytes of a gzip file (RFC 1952) and of a Zstandard frame (RFC 8878).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// The content of `source`, decompressed if its first bytes are those of a gzip or Zstandard file.
///
/// # Errors
/// `source` cannot be read, or the head of the compressed file is damaged.
pub fn decompressed(source: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    let head = source.fill_buf()?;
    Ok(if head.starts_with(&GZIP) {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(source)))
    } else if head.starts_with(&ZSTANDARD) {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, Frames::new(source)?))
    } else {
        Box::new(source)
    })
}

/// The Zstandard frames of a file, one after another.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    has_frame: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> io::Result<Frames<R>> {
        let mut frames = Frames { source, decoder: FrameDecoder::new(), has_frame: false };
        frames.next_frame()?;
        Ok(frames)
    }

    /// Begins the next frame, if there is one. Frames that hold no data are skipped.
    fn next_frame(&mut self) -> io::Result<()> {
        self.has_frame = false;
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.has_frame = true;
                    return Ok(());
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(())
    }

    /// # Errors
    /// The content of the frame that has ended is not what its checksum says.
    fn check(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => Err(damaged("its checksum is wrong")),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.has_frame {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.decoder.is_finished() {
                self.check()?;
                self.next_frame()?;
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(damaged)?;
            }
        }
        Ok(0)
    }
}

fn damaged(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the Zstandard file is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn text_of(bytes: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        decompressed(io::Cursor::new(bytes))?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn zstd(text: &str) -> Vec<u8> {
        compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
    }

    #[test]
    fn plain_gzip_and_zstandard_files_have_one_content() {
        let text = "1. e4 e5 *\n".repeat(50_000);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'a', b'b', b'c'];
        let frames = [&zstd(&text[..60_000])[..], &skipped, &zstd(&text[60_000..])].concat();
        for bytes in [text.clone().into_bytes(), gzip.finish().unwrap(), zstd(&text), frames] {
            assert!(text_of(bytes).unwrap() == text);
        }
        assert_eq!(text_of(Vec::new()).unwrap(), "");
    }

    #[test]
    fn a_damaged_zstandard_file_is_an_error_and_no_panic() {
        let sound = zstd(&"1. e4 e5 *\n".repeat(500));
        for length in 5..sound.len() {
            assert!(text_of(sound[..length].to_vec()).is_err(), "{length} bytes");
        }
        for index in 4..sound.len() {
            let mut broken = sound.clone();
            broken[index] ^= 0x55;
            if let Err(error) = text_of(broken) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}
