//! The layout of a record: 296 bytes, little endian, without padding.
//!
//! A record shows its position from the side to move: for Black the board is flipped vertically, and files are never
//! mirrored. lc0's networks see a position in the same way.
//!
//! | offset | field | type | content |
//! |---|---|---|---|
//! | 0 | `occupied` | u64 | occupied squares: bit `rank * 8 + file`, a1 = 0, the side to move at the bottom |
//! | 8 | `pieces` | 16 × u8 | the pieces in the order of those bits, low nibble first: 0…5 = P N B R Q K, + 8 for the opponent's |
//! | 24 | `castling` | 4 × u8 | file of the rook that may still castle, or 255: own king's side, own queen's side, then the opponent's |
//! | 28 | `rule50` | u8 | plies since the last capture or pawn move, at most 100 |
//! | 29 | `en_passant` | u8 | file of a pawn that can legally be captured en passant, or 255 |
//! | 30 | `result` | u8 | result of the game for the side to move: 0 loss, 1 draw, 2 win, 255 unknown |
//! | 31 | `flags` | u8 | [`FLAG_CHESS960`], [`FLAG_NO_END`], [`FLAG_SOFT`], [`FLAG_REPEATED`] |
//! | 32 | `plies_left` | u16 | plies to the end of the game; meaningless with [`FLAG_NO_END`] |
//! | 34 | `score` | i16 | score in centipawns; a mate in n moves is ±(32000 - n) |
//! | 36 | `win` | u16 | probability of a win, permille |
//! | 38 | `loss` | u16 | probability of a loss, permille |
//! | 40 | `labels` | u8 | number of labelled moves, 1…4 |
//! | 41 | `reserved` | u8 | 0 |
//! | 42 | `game` | u32 | number of the game |
//! | 46 | `moves` | 4 × u16 | the labelled moves as lc0's policy indices, best first; 65535 fills unused places |
//! | 54 | `scores` | 4 × i16 | the scores of those moves, in the unit of `score` |
//! | 62 | `legal_tail` | u16 | bits 0 and 1: whether policy indices 1856 and 1857 are legal |
//! | 64 | `legal` | 232 × u8 | bit `i % 8` of byte `i / 8`: whether policy index `i` below 1856 is legal |
//!
//! Castling is the move of the king to the square of its own rook, in standard chess as in Chess960.
//!
//! The trainer reads `record_layout.json`, which holds the fields, the flags and a few example records. The test
//! `the_layout_file_is_up_to_date` compares that file with this module; `LABELER_WRITE_LAYOUT=1 cargo test -p labeler`
//! regenerates it.

/// Bytes of a record.
pub const RECORD_BYTES: usize = 296;
/// Places for labelled moves in a record.
pub const MAX_MOVES: usize = 4;
/// The score of a mate in 0 moves; a mate in n moves is n less.
pub const MATE_SCORE: i16 = 32000;
/// The largest score that is not a mate, in centipawns.
pub const MAX_CENTIPAWNS: i16 = 30000;

/// The game began from a Chess960 position.
pub const FLAG_CHESS960: u8 = 1;
/// The game was adjudicated or broken off, so that its length is unknown.
pub const FLAG_NO_END: u8 = 2;
/// The record has more than one labelled move.
pub const FLAG_SOFT: u8 = 4;
/// The position has occurred before in its game. Only the trainer sets this flag, on copies in memory.
pub const FLAG_REPEATED: u8 = 8;

/// A field of a record: `count` numbers of one type, which begin at `offset`.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in `record_layout.json`.
    pub name: &'static str,
    /// Bytes before the field.
    pub offset: usize,
    /// The type of the numbers: `u8`, `u16`, `i16`, `u32` or `u64`.
    pub number: &'static str,
    /// How many numbers the field holds.
    pub count: usize,
}

impl Field {
    const fn new(name: &'static str, offset: usize, number: &'static str, count: usize) -> Field {
        Field { name, offset, number, count }
    }
}

pub(crate) const OCCUPIED: Field = Field::new("occupied", 0, "u64", 1);
pub(crate) const PIECES: Field = Field::new("pieces", 8, "u8", 16);
pub(crate) const CASTLING: Field = Field::new("castling", 24, "u8", 4);
pub(crate) const RULE50: Field = Field::new("rule50", 28, "u8", 1);
pub(crate) const EN_PASSANT: Field = Field::new("en_passant", 29, "u8", 1);
pub(crate) const RESULT: Field = Field::new("result", 30, "u8", 1);
pub(crate) const FLAGS: Field = Field::new("flags", 31, "u8", 1);
pub(crate) const PLIES_LEFT: Field = Field::new("plies_left", 32, "u16", 1);
pub(crate) const SCORE: Field = Field::new("score", 34, "i16", 1);
pub(crate) const WIN: Field = Field::new("win", 36, "u16", 1);
pub(crate) const LOSS: Field = Field::new("loss", 38, "u16", 1);
pub(crate) const LABELS: Field = Field::new("labels", 40, "u8", 1);
pub(crate) const RESERVED: Field = Field::new("reserved", 41, "u8", 1);
pub(crate) const GAME: Field = Field::new("game", 42, "u32", 1);
pub(crate) const MOVES: Field = Field::new("moves", 46, "u16", MAX_MOVES);
pub(crate) const SCORES: Field = Field::new("scores", 54, "i16", MAX_MOVES);
pub(crate) const LEGAL_TAIL: Field = Field::new("legal_tail", 62, "u16", 1);
pub(crate) const LEGAL: Field = Field::new("legal", 64, "u8", 232);

/// All fields of a record, in the order of their offsets.
pub const LAYOUT: [Field; 18] = [
    OCCUPIED, PIECES, CASTLING, RULE50, EN_PASSANT, RESULT, FLAGS, PLIES_LEFT, SCORE, WIN, LOSS, LABELS,
    RESERVED, GAME, MOVES, SCORES, LEGAL_TAIL, LEGAL,
];

/// The flags by their names in `record_layout.json`.
pub const FLAG_NAMES: [(&str, u8); 4] =
    [("chess960", FLAG_CHESS960), ("no_end", FLAG_NO_END), ("soft", FLAG_SOFT), ("repeated", FLAG_REPEATED)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::examples;
    use std::path::Path;

    #[test]
    fn fields_follow_each_other_and_fill_the_record() {
        let mut end = 0;
        for field in LAYOUT {
            assert_eq!(field.offset, end, "{}", field.name);
            let bits: usize = field.number[1..].parse().expect("a number of bits");
            end += field.count * bits / 8;
        }
        assert_eq!(end, RECORD_BYTES);
    }

    /// The text of `record_layout.json`.
    fn layout_file() -> String {
        let field = |field: &Field| {
            let Field { name, offset, number, count } = field;
            format!(r#"  {{"name": "{name}", "offset": {offset}, "type": "{number}", "count": {count}}}"#)
        };
        let example = |(fen, moves, record): &(&str, Vec<(&str, i16)>, crate::record::Record)| {
            let moves: Vec<_> = moves.iter().map(|(m, score)| format!(r#"["{m}", {score}]"#)).collect();
            let bytes: String = record.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            format!(
                "  {{\"fen\": \"{fen}\", \"moves\": [{}],\n   \"record\": \"{bytes}\"}}",
                moves.join(", ")
            )
        };
        format!(
            "{{\n \"bytes\": {RECORD_BYTES},\n \"flags\": {{{}}},\n \"fields\": [\n{}\n ],\n \"examples\": [\n{}\n ]\n}}\n",
            FLAG_NAMES.map(|(name, value)| format!("\"{name}\": {value}")).join(", "),
            LAYOUT.iter().map(field).collect::<Vec<_>>().join(",\n"),
            examples().iter().map(example).collect::<Vec<_>>().join(",\n"),
        )
    }

    #[test]
    fn the_layout_file_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("record_layout.json");
        let expected = layout_file();
        if std::env::var_os("LABELER_WRITE_LAYOUT").is_some() {
            std::fs::write(&path, &expected).expect("a writable file");
        }
        let found = std::fs::read_to_string(&path).expect("record_layout.json");
        assert!(found.replace("\r\n", "\n") == expected, "run LABELER_WRITE_LAYOUT=1 cargo test -p labeler");
    }
}
