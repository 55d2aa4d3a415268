//! Random games, standard and Chess960, for property tests.

use proptest::prelude::*;
use rukh_chess::{Position, PositionHistory};
use shakmaty::{Bitboard, Board, Setup, fen::Fen};

/// A start position (FEN), and for each ply a number that picks one of the legal moves.
#[derive(Clone, Debug)]
pub(crate) struct Game {
    start: String,
    choices: Vec<u8>,
}

/// The usual start position, and others from which random play soon reaches castling, promotions, en passant, pawnless
/// endgames and repetitions. From the usual one it hardly ever does.
const STARTS: [&str; 9] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 3 10",
    "1r3k1r/pppppppp/8/8/8/8/PPPPPPPP/1R3K1R w HBhb - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "1n1b3k/P1P2P1p/8/8/8/8/p1p3pp/2K1N1R1 b - - 0 1",
    "8/8/8/3k4/8/8/1Q6/K7 w - - 12 60",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 w - - 0 1",
];

impl Game {
    /// Plays the game. Each choice picks a legal move; two choices in three take back the side's last move if
    /// they can, so that positions repeat. The game ends early if there is no legal move.
    pub(crate) fn play(&self) -> PositionHistory {
        let start = Position::from_fen(&self.start).expect("a valid FEN");
        let mut history = PositionHistory::new(start);
        let mut own_last = [None, None];
        for (ply, &choice) in self.choices.iter().enumerate() {
            let moves = history.last().legal_moves();
            let back = own_last[ply % 2].and_then(|previous: shakmaty::Move| {
                moves.iter().find(|m| m.from() == Some(previous.to()) && Some(m.to()) == previous.from())
            });
            let picked = moves.get(usize::from(choice) % moves.len().max(1));
            let Some(&m) = back.filter(|_| choice % 3 != 0).or(picked) else {
                break;
            };
            own_last[ply % 2] = Some(m);
            history.push(m);
        }
        history
    }
}

/// Games of fewer than 80 plies.
pub(crate) fn games() -> impl Strategy<Value = Game> {
    let known = prop::sample::select(&STARTS[..]).prop_map(str::to_owned);
    let chess960 = (0..960_u32).prop_map(|number| {
        let board = Board::chess960(number);
        let castling_rights =
            board.rooks() & (Bitboard::from(shakmaty::Rank::First) | shakmaty::Rank::Eighth);
        let setup = Setup { board, castling_rights, ..Setup::empty() };
        Fen::try_from_setup(setup).expect("every starting array has a FEN").to_string()
    });
    let start = prop_oneof![3 => known, 1 => chess960];
    (start, prop::collection::vec(any::<u8>(), 0..80)).prop_map(|(start, choices)| Game { start, choices })
}
