//! Packs records into some 5 bytes each, to store or send them.
//!
//! Most positions of a game come from one of the positions before by one move. A packed record says from which and by
//! which, and how its label differs from what that position's label makes likely; the legal moves follow from the board.
//! Only positions without such an origin, as at the start of a game, are written in full.
//!
//! The numbers of all records are split into columns (`Column`). A file is `MAGIC`, the number of records (u32), and the
//! columns in their order, each as the length of the deflated column (u32) and the deflated column. Numbers are little
//! endian. A number of two bytes is written as its difference from the expected one, in zigzag (0, -1, 1, -2 ...), with
//! the low and the high byte in two columns.

use crate::layout::{FLAG_CHESS960, FLAG_NO_END, FLAG_SOFT, MAX_MOVES};
use crate::record::{BOARD_BYTES, Numbers, Record};
use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use rukh_chess::{Color, Move, PackedMove};
use rukh_net::policy_index::index_of;
use shakmaty::{Chess, Position as _};
use std::collections::VecDeque;
use std::io::Read as _;

/// The first bytes of a file.
const MAGIC: [u8; 8] = *b"chains1\n";
/// An origin is among so many last positions. No side line is longer.
const MAX_ORIGINS: usize = 16;
/// The link of a position without an origin.
const NO_ORIGIN: u8 = 255;

/// The columns of a file, in their order. The column of the high bytes follows that of the low bytes.
#[derive(Clone, Copy)]
enum Column {
    /// How many records before the origin is, less one; or [`NO_ORIGIN`].
    Link,
    /// Without an origin: the number of the game, whether it is Chess960, and the board; `FULL_BYTES` in all.
    Full,
    /// The place of the move from the origin: the origin's labelled moves first, then the others by policy index.
    Move,
    /// The number of labelled moves.
    Labels,
    /// The place of the best move among the legal moves, by policy index.
    Best,
    /// The places of the other labelled moves.
    Other,
    /// Expected: the origin's score with the other sign.
    Score,
    /// The score of the best move. Expected: the position's.
    BestScore = 8,
    /// The scores of the other labelled moves. Expected: that of the move before.
    OtherScore = 10,
    /// Expected: the origin's probability of a loss.
    Win = 12,
    /// Expected: the origin's probability of a win.
    Loss = 14,
    /// Expected: one less than the origin's.
    PliesLeft = 16,
    /// By exclusive or with those of the origin, without [`FLAG_SOFT`].
    Flags = 18,
    /// By exclusive or with the origin's, as the other side sees it.
    Result,
}

const COLUMNS: usize = Column::Result as usize + 1;
const FULL_BYTES: usize = 4 + 1 + BOARD_BYTES;

/// Packs records. Those of a game should follow each other.
///
/// # Errors
/// A message if a record is damaged.
pub fn pack(records: &[Record]) -> Result<Vec<u8>, String> {
    let mut writer = Writer(vec![Vec::new(); COLUMNS]);
    let mut origins = Origins::default();
    for (nth, record) in records.iter().enumerate() {
        let start = record.board().map(|board| origins.start_of(record, &board));
        let packed = start.and_then(|start| pass_record(&mut writer, &mut origins, start, record.numbers()));
        match packed {
            Ok(back) if back == *record => {}
            Ok(_) => return Err(format!("record {nth} would not come back as it is")),
            Err(error) => return Err(format!("record {nth}: {error}")),
        }
    }
    let mut packed = MAGIC.to_vec();
    packed.extend((records.len() as u32).to_le_bytes());
    for column in &writer.0 {
        let mut deflated = Vec::new();
        let read = DeflateEncoder::new(&column[..], Compression::best()).read_to_end(&mut deflated);
        read.map_err(|error| error.to_string())?;
        packed.extend((deflated.len() as u32).to_le_bytes());
        packed.extend(deflated);
    }
    Ok(packed)
}

/// The records in a packed file.
///
/// # Errors
/// A message if the file is damaged.
pub fn unpack(packed: &[u8]) -> Result<Vec<Record>, String> {
    let mut rest = packed.strip_prefix(&MAGIC).ok_or("this is not a file of chains")?;
    let count = take_u32(&mut rest)?;
    let mut reader = Reader(Vec::new());
    for _ in 0..COLUMNS {
        let length = take_u32(&mut rest)? as usize;
        let (deflated, after) = rest.split_at_checked(length).ok_or("the file ends too early")?;
        rest = after;
        let mut column = Vec::new();
        let read =
            DeflateDecoder::new(deflated).take(u64::from(count) * FULL_BYTES as u64).read_to_end(&mut column);
        read.map_err(|error| error.to_string())?;
        column.reverse();
        reader.0.push(column);
    }
    let mut origins = Origins::default();
    let mut record = |nth| {
        pass_record(&mut reader, &mut origins, Start::default(), Numbers::default())
            .map_err(|error| format!("record {nth}: {error}"))
    };
    (0..count).map(&mut record).collect()
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, String> {
    let (number, rest) = bytes.split_first_chunk().ok_or("the file ends too early")?;
    *bytes = rest;
    Ok(u32::from_le_bytes(*number))
}

/// Passes numbers to or from the columns, so that one description of the format serves both directions: a writer stores
/// the number that it is given, and a reader puts the stored one in its place.
trait Pass {
    fn byte(&mut self, column: usize, byte: &mut u8) -> Result<(), String>;

    /// Passes a byte by exclusive or with `expected`.
    fn bits(&mut self, column: Column, byte: &mut u8, expected: u8) -> Result<(), String> {
        let mut difference = *byte ^ expected;
        self.byte(column as usize, &mut difference)?;
        *byte = difference ^ expected;
        Ok(())
    }

    /// Passes a number of two bytes as its difference from `expected`.
    fn number(&mut self, column: Column, number: &mut i16, expected: i16) -> Result<(), String> {
        let difference = number.wrapping_sub(expected);
        let [mut low, mut high] = (difference << 1 ^ difference >> 15).to_le_bytes();
        self.byte(column as usize, &mut low)?;
        self.byte(column as usize + 1, &mut high)?;
        let zigzag = u16::from_le_bytes([low, high]);
        *number = expected.wrapping_add((zigzag >> 1 ^ (zigzag & 1).wrapping_neg()) as i16);
        Ok(())
    }
}

struct Writer(Vec<Vec<u8>>);

impl Pass for Writer {
    fn byte(&mut self, column: usize, byte: &mut u8) -> Result<(), String> {
        self.0[column].push(*byte);
        Ok(())
    }
}

/// Holds the columns backwards, so that the next byte is the last.
struct Reader(Vec<Vec<u8>>);

impl Pass for Reader {
    fn byte(&mut self, column: usize, byte: &mut u8) -> Result<(), String> {
        *byte = self.0[column].pop().ok_or_else(|| format!("column {column} ends too early"))?;
        Ok(())
    }
}

/// Where a position comes from: an origin and a move, or its bytes.
struct Start {
    link: u8,
    place: u8,
    full: [u8; FULL_BYTES],
}

impl Default for Start {
    fn default() -> Start {
        Start { link: NO_ORIGIN, place: 0, full: [0; FULL_BYTES] }
    }
}

/// The last records, newest first, with their boards.
#[derive(Default)]
struct Origins(VecDeque<Origin>);

struct Origin {
    board: Chess,
    record: Record,
}

impl Origins {
    fn remember(&mut self, board: Chess, record: &Record) {
        self.0.truncate(MAX_ORIGINS - 1);
        self.0.push_front(Origin { board, record: record.clone() });
    }

    /// Where the position of a record comes from.
    fn start_of(&self, record: &Record, board: &Chess) -> Start {
        let mut seen_by_other = board.board().clone();
        seen_by_other.mirror();
        let of_game = |origin: &&Origin| origin.record.game() == record.game();
        for (link, origin) in self.0.iter().take_while(of_game).enumerate() {
            let leads_here = |&m: &Move| {
                let mut after = origin.board.clone();
                after.play_unchecked(m);
                *after.board() == seen_by_other
                    && origin.record_after(m).board_bytes() == record.board_bytes()
            };
            if let Some(place) = origin.ordered_moves().iter().position(leads_here) {
                return Start { link: link as u8, place: place as u8, ..Start::default() };
            }
        }
        let mut full = [0; FULL_BYTES];
        full[..4].copy_from_slice(&record.game().to_le_bytes());
        full[4] = record.flags() & FLAG_CHESS960;
        full[5..].copy_from_slice(record.board_bytes());
        Start { full, ..Start::default() }
    }
}

impl Origin {
    /// The legal moves in the order of [`Column::Move`].
    fn ordered_moves(&self) -> Vec<Move> {
        let labelled = self.record.numbers().moves;
        let mut moves: Vec<_> = self.board.legal_moves().into_iter().collect();
        moves.sort_by_cached_key(|&m| {
            let index = index_of(PackedMove::new(m), Color::White, 0);
            (labelled.iter().position(|&other| other == index).unwrap_or(MAX_MOVES), index)
        });
        moves
    }

    /// The record of the position after a move, without a label.
    fn record_after(&self, m: Move) -> Record {
        let mut board = self.board.clone();
        board.play_unchecked(m);
        let rule50 = u16::try_from(board.halfmoves()).unwrap_or(u16::MAX);
        Record::of_board(&board, rule50, self.record.flags() & FLAG_CHESS960 != 0)
    }
}

/// Passes a record, returns it, and remembers it as an origin of others.
fn pass_record(
    pass: &mut impl Pass,
    origins: &mut Origins,
    mut start: Start,
    mut numbers: Numbers,
) -> Result<Record, String> {
    pass.byte(Column::Link as usize, &mut start.link)?;
    let (mut record, game, expected) = if start.link == NO_ORIGIN {
        for byte in &mut start.full {
            pass.byte(Column::Full as usize, byte)?;
        }
        let [a, b, c, d, chess960, board @ ..] = &start.full;
        let expected = Numbers { flags: FLAG_NO_END | chess960, ..Numbers::default() };
        (Record::of_board_bytes(board)?, u32::from_le_bytes([*a, *b, *c, *d]), expected)
    } else {
        pass.byte(Column::Move as usize, &mut start.place)?;
        let origin = origins.0.get(usize::from(start.link)).ok_or("there is no such origin")?;
        let moves = origin.ordered_moves();
        let m = *moves.get(usize::from(start.place)).ok_or("the origin has no such move")?;
        (origin.record_after(m), origin.record.game(), expected_after(&origin.record.numbers()))
    };
    pass_numbers(pass, &record.legal_indices(), &expected, &mut numbers)?;
    record.set_game(game);
    record.set_numbers(&numbers);
    // The legal moves come from this board.
    origins.remember(record.board_alone()?, &record);
    Ok(record)
}

/// What an origin's numbers make likely for the other side after a move.
fn expected_after(origin: &Numbers) -> Numbers {
    Numbers {
        score: origin.score.wrapping_neg(),
        win: origin.loss,
        loss: origin.win,
        plies_left: origin.plies_left.wrapping_sub(1),
        flags: origin.flags & !FLAG_SOFT,
        result: if origin.result <= 2 { 2 - origin.result } else { origin.result },
        ..Numbers::default()
    }
}

fn pass_numbers(
    pass: &mut impl Pass,
    legal: &[u16],
    expected: &Numbers,
    numbers: &mut Numbers,
) -> Result<(), String> {
    pass.number(Column::Score, &mut numbers.score, expected.score)?;
    pass.byte(Column::Labels as usize, &mut numbers.labels)?;
    if !(1..=MAX_MOVES).contains(&usize::from(numbers.labels)) {
        return Err(format!("{} labelled moves", numbers.labels));
    }
    let mut expected_score = numbers.score;
    for nth in 0..usize::from(numbers.labels) {
        let (place_column, score_column) =
            if nth == 0 { (Column::Best, Column::BestScore) } else { (Column::Other, Column::OtherScore) };
        let mut place = legal.iter().position(|&index| index == numbers.moves[nth]).unwrap_or(255) as u8;
        pass.byte(place_column as usize, &mut place)?;
        numbers.moves[nth] = *legal.get(usize::from(place)).ok_or("a labelled move is not legal")?;
        pass.number(score_column, &mut numbers.scores[nth], expected_score)?;
        expected_score = numbers.scores[nth];
    }
    let mut as_signed = |column, number: &mut u16, expected: u16| {
        let mut signed = *number as i16;
        pass.number(column, &mut signed, expected as i16)?;
        *number = signed as u16;
        Ok::<_, String>(())
    };
    as_signed(Column::Win, &mut numbers.win, expected.win)?;
    as_signed(Column::Loss, &mut numbers.loss, expected.loss)?;
    as_signed(Column::PliesLeft, &mut numbers.plies_left, expected.plies_left)?;
    pass.bits(Column::Flags, &mut numbers.flags, expected.flags)?;
    pass.bits(Column::Result, &mut numbers.result, expected.result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Outcome;
    use crate::record::tests::{examples, labelled};
    use rukh_chess::{Position, uci_move};

    /// The records of a game of these moves, and of a side line that begins before the last of them.
    fn game(moves: &[&str], side_line: &[&str]) -> Vec<Record> {
        let mut positions = vec![Position::startpos()];
        let play = |moves: &[&str], positions: &mut Vec<Position>| {
            for text in moves {
                let last = positions.last().expect("a position");
                let m = uci_move::parse(last, text).expect("a legal move");
                positions.push(last.play(m));
            }
        };
        play(moves, &mut positions);
        let mut line = positions[..positions.len() - 1].to_vec();
        play(side_line, &mut line);
        positions.extend_from_slice(&line[moves.len()..]);
        let plies = positions.len();
        let record = |(ply, position): (usize, &Position)| {
            let best = uci_move::text(position.legal_moves()[0], true);
            let mut record = labelled(&position.to_fen(), &[(&best, 25)]);
            record.set_game(77);
            record.set_end(if ply % 2 == 0 { Outcome::Win } else { Outcome::Loss }, Some(plies - ply));
            record
        };
        positions.iter().enumerate().map(record).collect()
    }

    #[test]
    fn records_come_back_as_they_were() {
        let records: Vec<_> = examples().into_iter().map(|(.., record)| record).collect();
        assert_eq!(unpack(&pack(&records).expect("good records")), Ok(records));
    }

    #[test]
    fn a_game_with_castling_en_passant_promotion_and_a_side_line_is_one_chain() {
        let moves = [
            "e2e4", "g8f6", "e4e5", "d7d5", "e5d6", "e7e6", "g1f3", "f8d6", "f1e2", "e8h8", "e1h1", "b7b5",
            "a2a4", "b5a4", "b2b4", "a4b3",
        ];
        let records = game(&moves, &["c7c6", "c2c3"]);
        let packed = pack(&records).expect("good records");
        assert_eq!(unpack(&packed).as_ref(), Ok(&records));
        // Only the first position has no origin.
        let mut origins = Origins::default();
        for (nth, record) in records.iter().enumerate() {
            let board = record.board().expect("a good board");
            assert_eq!(origins.start_of(record, &board).link == NO_ORIGIN, nth == 0, "record {nth}");
            origins.remember(board, record);
        }
    }

    #[test]
    fn damaged_files_are_errors() {
        let packed = pack(&game(&["e2e4", "e7e5", "g1f3"], &["f1c4"])).expect("good records");
        for length in 0..packed.len() {
            assert!(unpack(&packed[..length]).is_err(), "the first {length} bytes");
        }
        for place in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[place] ^= 1;
            // It may be other records, but nothing may panic.
            let _ = unpack(&damaged);
        }
    }
}
