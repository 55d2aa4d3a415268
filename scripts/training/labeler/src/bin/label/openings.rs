//! The starting positions of games: random moves from the standard or a Chess960 position, or a random endgame.

use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rukh_chess::{Color, Position, PositionHistory, Role, Square};
use shakmaty::fen::Fen;
use shakmaty::{Board, CastlingMode, Chess, EnPassantMode, Setup};
use std::num::NonZeroU32;

/// At most this many random plies are played before the first label.
const MAX_RANDOM_PLIES: usize = 14;

/// The kinds of games.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Begins from the standard starting position.
    Standard,
    /// Begins from one of the 960 positions of Chess960.
    Chess960,
    /// Begins with a few pieces on random squares.
    Endgame,
}

/// The shares of the rarer kinds of games, 0…1; the other games are standard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) chess960: f64,
    pub(crate) endgame: f64,
}

/// A random position that is not over, with a history of this position alone: random moves cause no repetitions.
pub(crate) fn random_start(rng: &mut StdRng, shares: Shares) -> (Kind, PositionHistory) {
    let toss: f64 = rng.random();
    let kind = if toss < shares.chess960 {
        Kind::Chess960
    } else if toss < shares.chess960 + shares.endgame {
        Kind::Endgame
    } else {
        Kind::Standard
    };
    loop {
        let position = match kind {
            Kind::Standard => after_random_moves(rng, Position::startpos()),
            Kind::Chess960 => {
                let start = Position::from_fen(&chess960_fen(rng));
                start.ok().and_then(|start| after_random_moves(rng, start))
            }
            Kind::Endgame => random_endgame(rng),
        };
        if let Some(position) = position {
            let history = PositionHistory::new(position);
            if history.result().is_none() {
                return (kind, history);
            }
        }
    }
}

fn after_random_moves(rng: &mut StdRng, start: Position) -> Option<Position> {
    let mut position = start;
    for _ in 0..rng.random_range(0..=MAX_RANDOM_PLIES) {
        let moves = position.legal_moves();
        position = position.play(*moves.choose(rng)?);
    }
    Some(position)
}

/// A random starting position of Chess960: bishops on squares of both colours, the king between the rooks.
fn chess960_fen(rng: &mut StdRng) -> String {
    let mut row = [' '; 8];
    row[rng.random_range(0..4) * 2] = 'b';
    row[rng.random_range(0..4) * 2 + 1] = 'b';
    let mut others = ['q', 'n', 'n', 'r', 'r', 'r'];
    others.shuffle(rng);
    let mut rooks = ['r', 'k', 'r'].into_iter();
    let mut others =
        others.into_iter().map(|piece| if piece == 'r' { rooks.next().unwrap_or('r') } else { piece });
    for square in &mut row {
        if *square == ' ' {
            *square = others.next().unwrap_or('n');
        }
    }
    let black: String = row.iter().collect();
    format!("{black}/pppppppp/8/8/8/8/PPPPPPPP/{} w KQkq - 0 1", black.to_uppercase())
}

/// A random position of kings with up to two pieces and four pawns a side. Half of the time both sides have the same
/// pieces.
fn random_endgame(rng: &mut StdRng) -> Option<Position> {
    let ours = random_material(rng);
    let theirs = if rng.random_bool(0.5) { ours.clone() } else { random_material(rng) };
    let mut board = Board::empty();
    for (color, roles) in [(Color::White, ours), (Color::Black, theirs)] {
        for role in roles {
            let free: Vec<Square> = (!board.occupied())
                .into_iter()
                .filter(|square| role != Role::Pawn || !shakmaty::Bitboard::BACKRANKS.contains(*square))
                .collect();
            board.set_piece_at(*free.choose(rng)?, role.of(color));
        }
    }
    let setup = Setup {
        board,
        turn: Color::from_white(rng.random()),
        // Some positions are on the way to a draw by the fifty-move rule, so that the network sees such counters.
        halfmoves: if rng.random_bool(0.9) { 0 } else { rng.random_range(0..95) },
        // Stockfish's outcome model depends on the move number.
        fullmoves: NonZeroU32::new(rng.random_range(50..80)).unwrap_or(NonZeroU32::MIN),
        ..Setup::empty()
    };
    let chess: Chess = setup.position(CastlingMode::Standard).ok()?;
    Position::from_fen(&Fen::from_position(&chess, EnPassantMode::Legal).to_string()).ok()
}

fn random_material(rng: &mut StdRng) -> Vec<Role> {
    const PIECES: [Role; 6] = [Role::Rook, Role::Rook, Role::Knight, Role::Bishop, Role::Bishop, Role::Queen];
    let mut roles = vec![Role::King];
    for _ in 0..rng.random_range(0..=2) {
        roles.extend(PIECES.choose(rng));
    }
    roles.extend(std::iter::repeat_n(Role::Pawn, rng.random_range(0..=4)));
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use shakmaty::Position as _;
    use std::collections::HashSet;

    #[test]
    fn all_960_starts_come_up_and_can_castle() {
        let mut rng = StdRng::seed_from_u64(1);
        let fens: HashSet<String> = (0..20_000).map(|_| chess960_fen(&mut rng)).collect();
        assert_eq!(fens.len(), 960);
        for fen in fens {
            let start = Position::from_fen(&fen).expect("a start");
            assert_eq!(start.board().castles().castling_rights().count(), 4, "{fen}");
        }
    }

    #[test]
    fn shares_are_kept_and_no_start_is_over() {
        let mut rng = StdRng::seed_from_u64(2);
        let shares = Shares { chess960: 0.2, endgame: 0.3 };
        let mut counts = [0; 3];
        for _ in 0..2000 {
            let (kind, history) = random_start(&mut rng, shares);
            counts[kind as usize] += 1;
            assert!(history.result().is_none() && history.positions().len() == 1);
            assert_eq!(kind == Kind::Endgame, history.last().board().board().occupied().count() <= 14);
        }
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
        assert!((320..480).contains(&counts[1]), "{counts:?}");
    }
}
