//! Converts between a position and the fields of a record that describe it.
//!
//! A record holds the planes of the boards, with the files the other way round, and the other eight planes as single
//! bytes. So the planes of a record are those that a network with its input format sees.

use super::record::{BOARD_PLANES, Record, RecordProblem, flags};
use rukh_chess::{Color, PositionHistory};
use rukh_net::InputFormat;
use rukh_net::input::{HistoryFill, InputPlanes, divides_rule50_by_100, encode, is_armageddon, is_canonical};

const ALL: u64 = !0;

/// Writes the last position of `history` into `record`, which has the input format. `fill` determines the boards before
/// the first position of the game. Returns the board transform, by which the policy indices of moves are found.
///
/// # Errors
/// The input format of `record` is unknown.
pub fn write_position(
    record: &mut Record,
    history: &PositionHistory,
    fill: HistoryFill,
) -> Result<u8, RecordProblem> {
    let format = record.format()?;
    let (planes, transform) = encode(history, format, fill);
    let position = history.last();
    let black_to_move = position.side_to_move() == Color::Black;
    for (field, &mask) in record.planes.iter_mut().zip(&planes.masks[..BOARD_PLANES]) {
        field.set(reverse_files(mask));
    }
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|index| planes.masks[BOARD_PLANES + index]);
    let [us_ooo, us_oo, them_ooo, them_oo] = match format {
        InputFormat::Classical112 => [first, second, third, fourth].map(|plane| u8::from(plane != 0)),
        // Our rooks are on the first rank, and theirs are on the last one.
        _ => [first as u8, second as u8, (first >> 56) as u8, (second >> 56) as u8],
    };
    record.castling_us_ooo = us_ooo;
    record.castling_us_oo = us_oo;
    record.castling_them_ooo = them_ooo;
    record.castling_them_oo = them_oo;
    if is_canonical(format) {
        record.side_to_move_or_enpassant = (planes.masks[BOARD_PLANES + 4] >> 56) as u8;
        record.invariance_info = transform | if black_to_move { flags::BLACK_TO_MOVE } else { 0 };
    } else {
        record.side_to_move_or_enpassant = u8::from(black_to_move);
        record.invariance_info = 0;
    }
    record.rule50_count = u8::try_from(position.rule50_ply()).unwrap_or(u8::MAX);
    Ok(transform)
}

/// The planes of a record: what [`encode`] has returned for its position.
///
/// # Errors
/// The input format is unknown.
pub fn read_planes(record: &Record) -> Result<InputPlanes, RecordProblem> {
    let format = record.format()?;
    let all_if = |condition| if condition { ALL } else { 0 };
    let mut masks = [0; InputPlanes::COUNT];
    for (mask, field) in masks.iter_mut().zip(&record.planes) {
        *mask = reverse_files(field.get());
    }
    let castling =
        [record.castling_us_ooo, record.castling_us_oo, record.castling_them_ooo, record.castling_them_oo];
    let auxiliary = &mut masks[BOARD_PLANES..];
    if format == InputFormat::Classical112 {
        for (plane, right) in auxiliary.iter_mut().zip(castling) {
            *plane = all_if(right != 0);
        }
    } else {
        let [us_ooo, us_oo, them_ooo, them_oo] = castling.map(u64::from);
        auxiliary[0] = us_ooo | them_ooo << 56;
        auxiliary[1] = us_oo | them_oo << 56;
    }
    auxiliary[4] = match is_canonical(format) {
        true => u64::from(record.side_to_move_or_enpassant) << 56,
        false => all_if(record.side_to_move_or_enpassant != 0),
    };
    auxiliary[5] = ALL;
    auxiliary[6] = all_if(is_armageddon(format) && is_black_to_move(record));
    auxiliary[7] = ALL;
    let rule50 = f32::from(record.rule50_count);
    let rule50_value = if divides_rule50_by_100(format) { rule50 / 100.0 } else { rule50 };
    Ok(InputPlanes { masks, rule50_value })
}

/// Whether Black is to move in the position of a record.
pub fn is_black_to_move(record: &Record) -> bool {
    match record.format().is_ok_and(is_canonical) {
        true => record.invariance_info & flags::BLACK_TO_MOVE != 0,
        false => record.side_to_move_or_enpassant != 0,
    }
}

/// Exchanges the files a and h, b and g, and so on.
fn reverse_files(mask: u64) -> u64 {
    mask.swap_bytes().reverse_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_chess::{Position, uci_move};

    /// A start position, the moves from it, and whether the history is filled.
    const GAMES: [(&str, &str); 5] = [
        (
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "e2e4 a7a6 e4e5 d7d5 e1e2 e8d7 e2e1 d7e8 e1e2",
        ),
        ("4k3/8/8/2pP4/8/8/8/4K2R w K c6 0 2", "h1h2 e8d8"),
        ("8/8/3k4/8/8/1K6/6R1/8 b - - 9 40", "d6d5 g2g1 d5d6 g1g2 d6d5"),
        ("nbbrkrqn/pppppppp/8/8/8/8/PPPPPPPP/NBBRKRQN w FDfd - 0 1", "a1b3 h8g6 f2f4"),
        ("7k/8/8/8/8/8/1Q6/K7 w - - 98 120", "b2c2"),
    ];

    #[test]
    fn a_record_has_the_planes_that_a_network_of_its_format_sees() {
        let mut transforms = 0_u32;
        for format in InputFormat::ALL {
            for (fen, moves) in GAMES {
                let mut history = PositionHistory::new(Position::from_fen(fen).unwrap());
                for text in moves.split(' ').map(Some).chain([None]) {
                    for fill in [HistoryFill::No, HistoryFill::FenOnly, HistoryFill::Always] {
                        let mut record = Record::empty(format);
                        let transform = write_position(&mut record, &history, fill).unwrap();
                        let (planes, expected) = encode(&history, format, fill);
                        assert_eq!((read_planes(&record).unwrap(), transform), (planes, expected), "{fen}");
                        let black = history.last().side_to_move() == Color::Black;
                        assert_eq!(is_black_to_move(&record), black, "{fen}");
                        transforms |= 1 << transform;
                    }
                    let Some(text) = text else { break };
                    history.push(uci_move::parse(history.last(), text).unwrap());
                }
            }
        }
        // Several board transforms were tried, and none.
        assert!(transforms & 1 != 0 && transforms.count_ones() > 3, "{transforms:b}");
    }

    #[test]
    fn files_are_reversed_and_ranks_stay() {
        assert_eq!(reverse_files(1), 1 << 7);
        assert_eq!(reverse_files(1 << 58), 1 << 61);
    }
}
