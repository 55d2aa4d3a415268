//! What a held-out record says; `records.py` has the whole format.

use anyhow::{Context, Result, bail};
use rukh::chess::Position;
use rukh::net::policy_index::POLICY_SIZE;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 296;
/// The game's end is unknown.
const FLAG_NO_END: u8 = 2;
/// No file.
const NONE: u8 = 255;

/// A position and what the labels say of it. The side to move is White: records are seen from its side.
pub(crate) struct Heldout {
    pub(crate) position: Position,
    /// Policy indices of the legal moves.
    pub(crate) legal: Vec<u16>,
    /// The best move.
    pub(crate) best: u16,
    /// Win, draw, loss.
    pub(crate) wdl: [f64; 3],
    /// Plies to the end of the game, where that is known.
    pub(crate) plies_left: Option<u16>,
}

/// Decodes one record.
pub(crate) fn decode(record: &[u8; RECORD_BYTES]) -> Result<Heldout> {
    let fen = fen(record)?;
    let position = Position::from_fen(&fen).with_context(|| fen.clone())?;
    let legal: Vec<u16> = (0..POLICY_SIZE as u16).filter(|&index| is_legal(record, index)).collect();
    let best = number(record, 46);
    if !legal.contains(&best) {
        bail!("{fen}: the labelled move {best} is not legal");
    }
    let [win, loss] = [36, 38].map(|at| f64::from(number(record, at)) / 1000.0);
    let plies = number(record, 32);
    Ok(Heldout {
        position,
        legal,
        best,
        wdl: [win, 1.0 - win - loss, loss],
        plies_left: (record[31] & FLAG_NO_END == 0 && plies > 0).then_some(plies),
    })
}

fn number(record: &[u8; RECORD_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// Indices 1856 and 1857 are kept apart from the others.
fn is_legal(record: &[u8; RECORD_BYTES], index: u16) -> bool {
    let (byte, bit) = match usize::from(index) {
        index if index < 1856 => (64 + index / 8, index % 8),
        index => (62, index - 1856),
    };
    record[byte] >> bit & 1 == 1
}

/// The position as a Shredder-FEN.
fn fen(record: &[u8; RECORD_BYTES]) -> Result<String> {
    let mut pieces = [None; 64];
    let mut next = 0;
    for (square, piece) in pieces.iter_mut().enumerate() {
        if record[square / 8] >> (square % 8) & 1 == 1 {
            let byte = record[8 + (next / 2).min(15)];
            let code = if next % 2 == 0 { byte & 15 } else { byte >> 4 };
            let name = "PNBRQK  pnbrqk  ".as_bytes()[usize::from(code)];
            if name == b' ' {
                bail!("a record with a piece of code {code}");
            }
            *piece = Some(char::from(name));
            next += 1;
        }
    }
    let mut fen = String::new();
    for rank in (0..8).rev() {
        let mut empty = 0;
        for piece in &pieces[rank * 8..][..8] {
            match piece {
                None => empty += 1,
                Some(name) => {
                    if empty > 0 {
                        fen += &empty.to_string();
                    }
                    empty = 0;
                    fen.push(*name);
                }
            }
        }
        if empty > 0 {
            fen += &empty.to_string();
        }
        fen.push(if rank > 0 { '/' } else { ' ' });
    }
    let file = |at: usize| (record[at] != NONE).then(|| char::from(b'a' + record[at] % 8));
    let castling: String = (24..28)
        .filter_map(|at| file(at).map(|file| if at < 26 { file.to_ascii_uppercase() } else { file }))
        .collect();
    let castling = if castling.is_empty() { "-" } else { &castling };
    let en_passant = file(29).map_or("-".to_owned(), |file| format!("{file}6"));
    Ok(format!("{fen}w {castling} {en_passant} {} 1", record[28]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usual start, with 1. e4 labelled, as the format's table has it.
    fn start() -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&0xffff_0000_0000_ffff_u64.to_le_bytes());
        let back = [0x13, 0x42, 0x25, 0x31];
        record[8..12].copy_from_slice(&back);
        record[16..20].fill(0x88);
        record[20..24].copy_from_slice(&back.map(|byte| byte | 0x88));
        record[24..28].copy_from_slice(&[7, 0, 7, 0]);
        record[29] = 255;
        record[32] = 90;
        record[36..40].copy_from_slice(&[100, 0, 50, 0]);
        record[46..48].copy_from_slice(&322_u16.to_le_bytes());
        record[64 + 322 / 8] |= 1 << (322 % 8);
        record[62] = 2;
        record
    }

    #[test]
    fn a_record_is_read_as_its_position_and_labels() {
        let heldout = decode(&start()).expect("a good record");
        assert_eq!(heldout.position.to_fen(), Position::startpos().to_fen());
        assert_eq!((heldout.best, heldout.legal), (322, vec![322, 1857]));
        assert_eq!(heldout.plies_left, Some(90));
        assert!((heldout.wdl[1] - 0.85).abs() < 1e-9);
    }

    #[test]
    fn a_record_without_a_legal_label_is_refused() {
        let mut record = start();
        record[46] = 0;
        assert!(decode(&record).is_err());
    }
}
