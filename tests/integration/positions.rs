//! Positions, histories and moves on random games: round trips, and comparisons with simple models.

use crate::games;
use proptest::prelude::*;
use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
use shakmaty::Position as _;

/// The number of earlier occurrences of a position and the plies since the last one, found by comparing all positions.
fn recount(history: &PositionHistory, index: usize) -> (u8, u16) {
    let positions = history.positions();
    let current = &positions[index];
    let same = |earlier: &Position| {
        let (a, b) = (current.board(), earlier.board());
        a.board() == b.board()
            && a.turn() == b.turn()
            && a.castles().castling_rights() == b.castles().castling_rights()
            && current.en_passant() == earlier.en_passant()
    };
    let earlier: Vec<usize> = (0..index).filter(|&earlier| same(&positions[earlier])).collect();
    (earlier.len() as u8, earlier.last().map_or(0, |&latest| (index - latest) as u16))
}

proptest! {
    #[test]
    fn packed_moves_unpack_to_what_was_packed(game in games::games()) {
        for position in game.play().positions() {
            for &m in &position.legal_moves() {
                let packed = PackedMove::new(m);
                prop_assert_ne!(packed.bits(), 0);
                prop_assert_eq!(PackedMove::from_bits(packed.bits()), packed);
                prop_assert_eq!(packed.unpack(position), m);
            }
        }
    }

    #[test]
    fn uci_moves_are_read_back_in_standard_and_chess960_notation(game in games::games()) {
        for position in game.play().positions() {
            for &m in &position.legal_moves() {
                for chess960 in [false, true] {
                    let text = uci_move::text(m, chess960);
                    prop_assert_eq!(uci_move::parse(position, &text), Ok(m), "{}", text);
                }
            }
        }
    }

    #[test]
    fn fens_are_read_back(game in games::games()) {
        for position in game.play().positions() {
            let fen = position.to_fen();
            let reread = Position::from_fen(&fen).expect(&fen);
            prop_assert_eq!(reread.to_fen(), fen);
            prop_assert_eq!(reread.key(), position.key(), "the incremental key equals the key computed from scratch");
            prop_assert_eq!(reread.en_passant(), position.en_passant());
            prop_assert_eq!(reread.game_ply(), position.game_ply());
            prop_assert_eq!(reread.rule50_ply(), position.rule50_ply());
        }
    }

    #[test]
    fn repetitions_agree_with_a_recount(game in games::games()) {
        let history = game.play();
        for (index, position) in history.positions().iter().enumerate() {
            let counted = (position.repetitions(), position.plies_since_repetition());
            prop_assert_eq!(counted, recount(&history, index), "ply {}", index);
        }
    }

    #[test]
    fn packed_moves_are_the_legal_moves_in_order(game in games::games()) {
        let mut packed = Vec::new();
        for position in game.play().positions() {
            position.packed_moves(&mut packed);
            let expected: Vec<_> = position.legal_moves().into_iter().map(PackedMove::new).collect();
            prop_assert_eq!(&packed, &expected, "{}", position.to_fen());
        }
    }

    #[test]
    fn no_text_makes_the_fen_or_move_reader_panic(text in "\\PC{0,90}", fen in "[pnbrqkPNBRQK1-8/]{1,72}( [wb])?( [KQkqA-Ha-h-]{1,4})?( [a-h][36])?( [0-9]{1,12}){0,3}") {
        for text in [&text, &fen] {
            if let Ok(position) = Position::from_fen(text) {
                position.legal_moves();
            }
            prop_assert!(uci_move::parse(&Position::startpos(), text).is_err() || text.len() == 4);
        }
    }

    #[test]
    fn no_arrangement_of_pieces_makes_the_move_generator_panic(
        squares in prop::collection::vec(prop::sample::select(&b"PNBRQQQpnbrqqq1111"[..]), 64),
        kings in (0..64_usize, 0..64_usize),
        tail in "( [wb])( [KQkq]{1,4})( [a-h][36])?",
        choices in prop::collection::vec(any::<u8>(), 12),
    ) {
        let mut squares = squares;
        for (square, letter) in squares.iter_mut().enumerate() {
            if !(8..56).contains(&square) && letter.eq_ignore_ascii_case(&b'p') {
                *letter = b'1';
            }
        }
        squares[kings.0] = b'K';
        squares[kings.1] = b'k';
        let ranks: Vec<String> = squares.chunks(8).map(|rank| String::from_utf8_lossy(rank).into_owned()).collect();
        let fen = ranks.join("/") + &tail;
        if let Ok(start) = Position::from_fen(&fen) {
            let mut history = PositionHistory::new(start);
            for choice in choices {
                let moves = history.last().legal_moves();
                let Some(&m) = moves.get(usize::from(choice) % moves.len().max(1)) else { break };
                prop_assert_eq!(PackedMove::new(m).unpack(history.last()), m);
                history.push(m);
                let fen = history.last().to_fen();
                prop_assert!(Position::from_fen(&fen).is_ok() || history.last().is_check(), "{}", fen);
            }
        }
    }
}
