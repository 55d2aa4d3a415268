//! Input planes, repetition counts and FENs compared with lc0's own, which are in `tests/data/planes.txt`. Its first
//! lines explain its format; `scripts/fixtures/make_plane_goldens.py` wrote it.

use crate::games;
use proptest::prelude::*;
use rukh_chess::{Position, PositionHistory, uci_move};
use rukh_net::input::{HistoryFill, InputPlanes, encode};
use rukh_net::{InputFormat, policy_index};

/// A test position with lc0's encodings and policy indices.
pub(crate) struct Golden {
    pub(crate) id: String,
    pub(crate) history: PositionHistory,
    final_fen: String,
    repetitions: u8,
    encodings: Vec<Encoding>,
    /// For each board transform: every legal move in UCI notation, and its policy index.
    pub(crate) policies: Vec<(u8, Vec<(String, u16)>)>,
}

struct Encoding {
    format: InputFormat,
    fill: HistoryFill,
    /// The planes and the board transform; `None` if lc0 crashes.
    expected: Option<(InputPlanes, u8)>,
}

const FILLS: [HistoryFill; 3] = [HistoryFill::No, HistoryFill::FenOnly, HistoryFill::Always];

/// Reads `tests/data/planes.txt`.
pub(crate) fn goldens() -> Vec<Golden> {
    let text = include_str!("../data/planes.txt");
    let mut goldens: Vec<Golden> = Vec::new();
    let mut planes = no_planes();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (keyword, rest) = line.split_once(' ').expect("a keyword");
        if keyword == "position" {
            goldens.push(read_position(rest));
            planes = no_planes();
            continue;
        }
        let golden = goldens.last_mut().expect("a position line first");
        let mut words = rest.split(' ');
        match keyword {
            "planes" | "crash" => {
                let (format, fill) = (format_named(words.next()), fill_named(words.next()));
                let expected = (keyword == "planes").then(|| {
                    let transform = number(words.next());
                    words.for_each(|change| change_plane(&mut planes, change));
                    (planes.clone(), transform)
                });
                golden.encodings.push(Encoding { format, fill, expected });
            }
            "policy" => {
                let transform = number(words.next());
                let moves = words.map(|word| {
                    let (text, index) = word.split_once('=').expect("MOVE=INDEX");
                    (text.to_owned(), number(Some(index)))
                });
                golden.policies.push((transform, moves.collect()));
            }
            other => panic!("unknown keyword {other}"),
        }
    }
    goldens
}

fn read_position(text: &str) -> Golden {
    let fields: Vec<&str> = text.split('|').collect();
    let [id, fen, moves, final_fen, repetitions] = fields[..] else { panic!("{text}") };
    let mut history = PositionHistory::new(Position::from_fen(fen).expect(fen));
    for text in moves.split_whitespace() {
        history.push(uci_move::parse(history.last(), text).expect(text));
    }
    Golden {
        id: id.to_owned(),
        history,
        final_fen: final_fen.to_owned(),
        repetitions: number(Some(repetitions)),
        encodings: Vec::new(),
        policies: Vec::new(),
    }
}

fn no_planes() -> InputPlanes {
    InputPlanes { masks: [0; 112], rule50_value: 1.0 }
}

fn change_plane(planes: &mut InputPlanes, change: &str) {
    let (plane, mask) = change.split_once('=').expect("PLANE=MASK");
    let plane: usize = number(Some(plane));
    let (mask, value) = mask.split_once('*').unwrap_or((mask, "1"));
    planes.masks[plane] = u64::from_str_radix(mask, 16).expect(mask);
    if plane == InputPlanes::RULE50_PLANE {
        planes.rule50_value = value.parse().expect(value);
    } else {
        assert_eq!(value, "1", "only the rule-50 plane may have a value other than 1");
    }
}

fn number<N: std::str::FromStr>(text: Option<&str>) -> N {
    let text = text.expect("a number");
    text.parse().unwrap_or_else(|_| panic!("not a number: {text}"))
}

fn format_named(text: Option<&str>) -> InputFormat {
    let format: u8 = number(text);
    InputFormat::from_number(format.into()).expect("a known format")
}

fn fill_named(text: Option<&str>) -> HistoryFill {
    match text {
        Some("no") => HistoryFill::No,
        Some("fen_only") => HistoryFill::FenOnly,
        Some("always") => HistoryFill::Always,
        other => panic!("unknown fill {other:?}"),
    }
}

/// Compares two encodings plane by plane, because nobody can read a failure that prints all 112 masks.
fn assert_same(actual: &(InputPlanes, u8), expected: &(InputPlanes, u8), what: &str) {
    for plane in 0..112 {
        let (ours, theirs) = (actual.0.masks[plane], expected.0.masks[plane]);
        assert!(ours == theirs, "{what}: plane {plane} is {ours:#018x}, lc0's {theirs:#018x}");
    }
    assert_eq!(actual.0.rule50_value.to_bits(), expected.0.rule50_value.to_bits(), "{what}: rule-50 value");
    assert_eq!(actual.1, expected.1, "{what}: transform");
}

#[test]
fn planes_are_lc0s_bit_for_bit() {
    let mut compared = 0;
    for golden in goldens() {
        for Encoding { format, fill, expected } in &golden.encodings {
            let Some(expected) = expected else { continue };
            let what = format!("{} in format {} with fill {fill:?}", golden.id, *format as u8);
            assert_same(&encode(&golden.history, *format, *fill), expected, &what);
            compared += 1;
        }
    }
    assert_eq!(compared, 46 * 21 - 68);
}

#[test]
fn version_2_shows_no_repetition_from_before_a_zeroing_move() {
    let boards = |moves: &str| {
        let mut history = PositionHistory::new(Position::startpos());
        for text in moves.split_whitespace() {
            history.push(uci_move::parse(history.last(), text).expect(text));
        }
        let (planes, _) = encode(&history, InputFormat::CanonicalV2, HistoryFill::No);
        planes.masks[..104].chunks(13).filter(|board| board.iter().any(|&mask| mask != 0)).count()
    };
    let there_and_back = "g1f3 g8f6 f3g1 f6g8 g1f3";
    assert_eq!(boards(there_and_back), 2, "the newest board, and the start position, which was repeated");
    // Only the newest board is shown, although positions before the pawn move had been repeated.
    assert_eq!(boards(&format!("{there_and_back} a7a6 b1c3")), 1);
}

/// If our king is on the diagonal h1-a8, the first set of pieces that is not symmetric about that diagonal decides
/// whether the board is transposed. On these boards two sets are asymmetric, and they would decide differently.
#[test]
fn with_the_king_on_the_diagonal_the_first_asymmetric_set_decides() {
    // The reflection of e1 is h4, and that of a7 is b8.
    for (placement, expected) in [
        ("k7/8/8/8/4K2r/8/8/4N3", 0), // ours before rooks
        ("k7/8/8/8/4K2N/8/8/4r3", policy_index::TRANSPOSE),
        ("1k6/r7/8/8/4K3/8/8/8", policy_index::TRANSPOSE), // kings before rooks
        ("1r6/k7/8/8/4K3/8/8/8", 0),
        ("k7/8/8/8/4K2R/8/8/4Q3", 0), // queens before rooks
        ("k7/8/8/8/4K2Q/8/8/4R3", policy_index::TRANSPOSE),
        ("k7/8/8/8/4K2N/8/8/4R3", 0), // rooks before knights
        ("k7/8/8/8/4K2R/8/8/4N3", policy_index::TRANSPOSE),
        ("k7/8/8/8/4K2B/8/8/4N3", 0), // knights before bishops
        ("k7/8/8/8/4K2N/8/8/4B3", policy_index::TRANSPOSE),
    ] {
        let position = Position::from_fen(&format!("{placement} w - - 0 1")).expect(placement);
        let (_, transform) = encode(&PositionHistory::new(position), InputFormat::Canonical, HistoryFill::No);
        assert_eq!(transform, expected, "{placement}");
    }
}

#[test]
fn where_lc0_crashes_the_history_ends_at_the_first_known_position() {
    let mut crashes = 0;
    for golden in goldens() {
        for Encoding { format, fill, expected } in &golden.encodings {
            if expected.is_some() {
                continue;
            }
            // Without history fill lc0 does not crash, and the planes must be the same: the crash is an endless loop
            // over copies of the oldest board, which would not be shown.
            let without_fill = golden
                .encodings
                .iter()
                .find(|other| other.format == *format && other.fill == HistoryFill::No)
                .and_then(|other| other.expected.as_ref())
                .expect("no crash without fill");
            let what = format!("{} in format {} with fill {fill:?}", golden.id, *format as u8);
            assert_same(&encode(&golden.history, *format, *fill), without_fill, &what);
            crashes += 1;
        }
    }
    assert_eq!(crashes, 68);
}

#[test]
fn fens_and_repetitions_are_lc0s() {
    for golden in goldens() {
        let last = golden.history.last();
        assert_eq!(last.repetitions(), golden.repetitions, "{}", golden.id);
        let reread = |fen: &str| Position::from_fen(fen).expect(fen);
        // lc0 writes castling rights as file letters if any rook is not in its corner, so compare the parsed positions.
        let theirs = reread(&golden.final_fen);
        let ours = reread(&last.to_fen());
        assert_eq!(ours.key(), theirs.key(), "{}", golden.id);
        assert_eq!(ours.rule50_ply(), theirs.rule50_ply(), "{}", golden.id);
        assert_eq!(ours.key(), last.key(), "{}: the incremental key", golden.id);
    }
}

proptest! {
    #[test]
    fn encoding_any_game_in_any_format_keeps_the_pieces(game in games::games()) {
        let history = game.play();
        for format in InputFormat::ALL {
            for fill in FILLS {
                let (planes, transform) = encode(&history, format, fill);
                prop_assert!(transform < 8);
                let newest: u64 = planes.masks[..12].iter().fold(0, |all, mask| {
                    assert_eq!(all & mask, 0, "two pieces on one square");
                    all | mask
                });
                let pieces = shakmaty::Position::board(history.last().board()).occupied().count();
                prop_assert_eq!(newest.count_ones() as usize, pieces);
                prop_assert_eq!(planes.masks[111], u64::MAX);
                if transform & (policy_index::MIRROR_RANKS | policy_index::TRANSPOSE) != 0 {
                    prop_assert_eq!(planes.masks[0] | planes.masks[6], 0, "boards with pawns keep their ranks");
                }
            }
        }
    }

    #[test]
    fn encoding_agrees_with_a_square_by_square_encoder(game in games::games()) {
        let history = game.play();
        let (planes, transform) = encode(&history, InputFormat::Classical112, HistoryFill::No);
        prop_assert_eq!(transform, 0);
        for (age, position) in history.positions().iter().rev().take(8).enumerate() {
            let us = history.last().side_to_move();
            for (square, piece) in shakmaty::Position::board(position.board()).iter() {
                let seen = if us.is_white() { square } else { square.flip_vertical() };
                let plane = 13 * age + 6 * usize::from(piece.color != us) + piece.role as usize - 1;
                prop_assert!(planes.masks[plane] >> seen as u32 & 1 == 1, "{} at {}", age, square);
            }
            let repeated = planes.masks[13 * age + 12];
            prop_assert_eq!(repeated == u64::MAX, position.repetitions() > 0);
        }
    }
}
