//! The choice of the move to play after a search: usually the best one, sometimes another.

use crate::stockfish::ScoredMove;
use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rukh_chess::{Move, Position};

/// A move that is this many centipawns worse than the best is less likely by a factor of e.
const TEMPERATURE: f64 = 50.0;
/// Score in centipawns beyond which deviations are rare, so that decided games end.
const DECIDED_SCORE: i16 = 800;

/// How the next move is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deviation {
    /// The best move is played.
    None,
    /// One of the best few moves is played; better ones are likelier.
    AmongBest,
    /// Any legal move is played.
    Anything,
}

impl Deviation {
    /// Makes the choice at random. This happens before the search, because the search must know how many moves to
    /// score. `fresh` means that the position is not labelled yet, and `score` is the score of the previous position.
    pub(crate) fn toss(rng: &mut StdRng, ply: usize, fresh: bool, score: i16) -> Deviation {
        let decided = score.abs() > DECIDED_SCORE;
        let (among_best, anything) = match (fresh, decided) {
            (_, true) => (0.02, 0.01),
            // Deviations soon lead away from positions that are already known.
            (false, false) => (0.4, 0.1),
            (true, false) => deviations(ply),
        };
        let toss: f64 = rng.random();
        if toss < among_best {
            Deviation::AmongBest
        } else if toss < among_best + anything {
            Deviation::Anything
        } else {
            Deviation::None
        }
    }

    /// The move to play, given the searched moves.
    pub(crate) fn choose(self, rng: &mut StdRng, position: &Position, best_first: &[ScoredMove]) -> Move {
        let best = best_first[0];
        match self {
            Deviation::None => best.m,
            Deviation::AmongBest => {
                let weight = |scored: &ScoredMove| {
                    (f64::from(i32::from(scored.score) - i32::from(best.score)) / TEMPERATURE).exp()
                };
                best_first.choose_weighted(rng, weight).map_or(best.m, |scored| scored.m)
            }
            Deviation::Anything => position.legal_moves().choose(rng).copied().unwrap_or(best.m),
        }
    }
}

/// The probabilities of [`Deviation::AmongBest`] and [`Deviation::Anything`] in a position that is neither labelled yet
/// nor decided.
fn deviations(ply: usize) -> (f64, f64) {
    match ply {
        0..16 => (0.20, 0.05),
        16..60 => (0.10, 0.05),
        _ => (0.05, 0.03),
    }
}

/// The probability of scoring several moves in a position without [`Deviation::AmongBest`]. With this probability, a
/// `share` of all positions has several labelled moves.
pub(crate) fn remaining_share(share: f64, ply: usize) -> f64 {
    let (among_best, _) = deviations(ply);
    ((share - among_best) / (1.0 - among_best)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rukh_chess::uci_move;

    #[test]
    fn better_moves_are_chosen_more_often_and_blunders_hardly_ever() {
        let position = Position::startpos();
        let scored = |text: &str, score| {
            let m = uci_move::parse(&position, text).expect("test move");
            ScoredMove { m, score }
        };
        let moves = [scored("e2e4", 30), scored("d2d4", 30), scored("a2a3", -20), scored("g2g4", -600)];
        let mut rng = StdRng::seed_from_u64(3);
        let mut counts = [0; 4];
        for _ in 0..10_000 {
            let chosen = Deviation::AmongBest.choose(&mut rng, &position, &moves);
            counts[moves.iter().position(|scored| scored.m == chosen).expect("one of them")] += 1;
        }
        // The expected ratios are 1 : 1 : 1/e : e^-12.6.
        assert!((4000..4450).contains(&counts[0]) && (4000..4450).contains(&counts[1]), "{counts:?}");
        assert!((1400..1700).contains(&counts[2]) && counts[3] <= 2, "{counts:?}");
        assert_eq!(Deviation::None.choose(&mut rng, &position, &moves), moves[0].m);
    }

    #[test]
    fn deviations_count_towards_the_share_of_positions_with_several_moves() {
        let mut rng = StdRng::seed_from_u64(4);
        for ply in [0, 30, 100] {
            let several = (0..20_000).filter(|_| {
                Deviation::toss(&mut rng, ply, true, 0) == Deviation::AmongBest
                    || rng.random_bool(remaining_share(0.25, ply))
            });
            let count = several.count();
            assert!((4700..5300).contains(&count), "{count} at ply {ply}");
        }
    }
}
