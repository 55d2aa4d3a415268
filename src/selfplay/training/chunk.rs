//! A chunk: the records of one game, as a gzip file.

use super::record::{RECORD_BYTES, Record, RecordProblem};
use flate2::Compression;
use flate2::write::GzEncoder;
use rukh_base::decompress::decompressed;
use std::io::{self, Read, Write};
use zerocopy::{FromBytes, IntoBytes};

/// A chunk with more records than this is refused, because no game is so long. It bounds the memory for a file that was
/// made to need much.
pub const MOST_RECORDS: usize = 20_000;

/// Why a chunk cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    /// The file cannot be read, or its compression is damaged.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The last record is not complete.
    #[error("it ends after {bytes} of the {RECORD_BYTES} bytes of record {}", records + 1)]
    Truncated {
        /// The number of complete records.
        records: usize,
        /// The bytes of the next one.
        bytes: usize,
    },
    /// There are too many records.
    #[error("it has more than {MOST_RECORDS} records, and no game is so long")]
    TooLong,
    /// A record is wrong.
    #[error("record {}: {problem}", index + 1)]
    Record {
        /// The number of the record, counted from 0.
        index: usize,
        /// What is wrong with it.
        problem: RecordProblem,
    },
}

/// The records of a game as a gzip file.
///
/// # Errors
/// None is known: memory is written.
pub fn write_chunk(records: &[Record]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    for record in records {
        encoder.write_all(record.as_bytes())?;
    }
    encoder.finish()
}

/// Reads and checks the records of a chunk, which may also be uncompressed.
///
/// # Errors
/// It cannot be read, it is not complete, or a record is wrong.
pub fn read_chunk(source: impl Read + Send + 'static) -> Result<Vec<Record>, ChunkError> {
    let mut source = decompressed(source)?;
    let mut records = Vec::new();
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    loop {
        bytes.clear();
        source.by_ref().take(RECORD_BYTES as u64).read_to_end(&mut bytes)?;
        let index = records.len();
        match Record::read_from_bytes(&bytes) {
            _ if bytes.is_empty() => return Ok(records),
            Err(_) => return Err(ChunkError::Truncated { records: index, bytes: bytes.len() }),
            Ok(_) if index == MOST_RECORDS => return Err(ChunkError::TooLong),
            Ok(record) => {
                record.check().map_err(|problem| ChunkError::Record { index, problem })?;
                records.push(record);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_net::InputFormat;
    use std::io::Cursor;

    fn sound() -> Record {
        let mut record = Record::empty(InputFormat::Canonical);
        record.probabilities[7] = 1.0.into();
        record.best_idx = 7.into();
        record.played_idx = 7.into();
        record
    }

    fn read(bytes: Vec<u8>) -> Result<usize, String> {
        read_chunk(Cursor::new(bytes)).map(|records| records.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let records = vec![sound(); 3];
        let chunk = write_chunk(&records).unwrap();
        let found = read_chunk(Cursor::new(chunk)).unwrap();
        assert_eq!(found.as_bytes(), records.as_bytes());
        assert_eq!(read(records.as_bytes().to_vec()), Ok(3), "uncompressed");
        assert_eq!(read(Vec::new()), Ok(0));
    }

    #[test]
    fn what_is_wrong_with_a_chunk_is_named() {
        let chunk = write_chunk(&[sound(), sound()]).unwrap();
        assert!(read(chunk[..chunk.len() - 9].to_vec()).unwrap_err().contains("cannot be read"));
        let plain = [sound(), sound()].as_bytes()[..9000].to_vec();
        assert_eq!(read(plain).unwrap_err(), "it ends after 644 of the 8356 bytes of record 2");
        let wrong = |change: fn(&mut Record)| {
            let mut record = sound();
            change(&mut record);
            read([sound(), record].as_bytes().to_vec()).unwrap_err()
        };
        assert_eq!(
            wrong(|record| record.version = 5.into()),
            "record 2: its version is 5, and only version 6 can be read"
        );
        assert_eq!(
            wrong(|record| record.input_format = 134.into()),
            "record 2: its input format 134 is unknown"
        );
        assert!(wrong(|record| record.best_idx = 8.into()).contains("the index of a legal move"));
        assert!(wrong(|record| record.played_idx = 1858.into()).contains("played_idx is 1858"));
        assert!(wrong(|record| record.root_q = f32::NAN.into()).contains("root_q is NaN"));
        assert!(wrong(|record| record.best_d = 1.5.into()).contains("best_d is 1.5"));
        assert!(wrong(|record| record.probabilities[9] = 0.5.into()).contains("sum of the probabilities"));
        assert!(wrong(|record| record.plies_left = f32::INFINITY.into()).contains("plies_left"));
    }
}
