//! The positions of a game so far, with repetition counts.
//!
//! lc0's networks have input planes for repetitions, so the count follows lc0, not the laws of chess. It looks back to
//! the last capture or pawn move, at positions with the same side to move. A castling move does not end the count, but
//! positions with different castling rights differ. The first position of a history always counts as new.
//!
//! Each search thread has one history. It pushes moves on the way down the tree and pops them on the way up.

use super::{Color, Move, Position};

/// A game's positions, oldest first; never empty.
#[derive(Clone, Debug)]
pub struct PositionHistory {
    positions: Vec<Position>,
}

/// How a game ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GameResult {
    /// Checkmate. The side is the winner.
    Won(Color),
    /// Stalemate, insufficient material, the fifty-move rule or the third occurrence of a position.
    Drawn,
}

impl PositionHistory {
    /// A history with one position.
    pub fn new(start: Position) -> PositionHistory {
        PositionHistory { positions: vec![start] }
    }

    /// A history of positions whose counters are known, oldest first. `None` without any.
    pub fn of(positions: Vec<Position>) -> Option<PositionHistory> {
        (!positions.is_empty()).then_some(PositionHistory { positions })
    }

    /// Plays a legal move and counts repetitions.
    pub fn push(&mut self, m: Move) {
        // Copies the position within the list and changes it there, because every ply of a descent calls this.
        self.positions.extend_from_within(self.positions.len() - 1..);
        let Some((next, earlier)) = self.positions.split_last_mut() else { return };
        next.advance(m);
        if let Some((same, plies)) = earlier_occurrence(earlier, next) {
            next.set_repetitions(same.repetitions().saturating_add(1), plies);
        }
    }

    /// Plays a null move ([`Position::pass`]). Returns whether that was possible.
    pub fn pass(&mut self) -> bool {
        let next = self.last().pass();
        let is_possible = next.is_some();
        self.positions.extend(next);
        is_possible
    }

    /// Takes back the last move. The first position always stays.
    pub fn pop(&mut self) {
        if self.positions.len() > 1 {
            self.positions.pop();
        }
    }

    /// Keeps the first `len` positions (at least one).
    pub fn truncate(&mut self, len: usize) {
        self.positions.truncate(len.max(1));
    }

    /// The current position.
    pub fn last(&self) -> &Position {
        // The constructor adds the first position, and no method removes it.
        self.positions.last().expect("a history is never empty")
    }

    /// All positions, oldest first.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// A copy of the last `count` positions (at least one). Their counters stay the same.
    pub fn recent(&self, count: usize) -> PositionHistory {
        let start = self.positions.len().saturating_sub(count.max(1));
        PositionHistory { positions: self.positions[start..].to_vec() }
    }

    /// A key of everything that the rest of the game depends on: positions with equal keys have the same moves,
    /// counters and possible repetitions. `None` if an earlier position may recur, because the rest of the game then
    /// also depends on the earlier positions. A history's first position has no key, because it may have earlier ones.
    ///
    /// An earlier position cannot recur after a capture or pawn move, or after the loss of a castling right. Only the
    /// rule-50 counter then remains from the past, since the loss of a right does not reset it. It would not help to
    /// put the earlier positions into the key: two paths to a position could have equal keys only if they went through
    /// the same positions in a different order, and since a move changes only one side's pieces, each path would have
    /// to repeat a position.
    pub fn future_key(&self) -> Option<u64> {
        let position = self.last();
        let is_first = self.positions.len() == 1;
        let may_come_again = position.rule50_ply() > 0
            && self.positions.iter().rev().nth(1).is_some_and(|earlier| earlier.has_same_rights(position));
        // The positions before a game's first position are unknown.
        (!is_first && !may_come_again)
            .then(|| position.key() ^ u64::from(position.rule50_ply()).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Whether a position has occurred twice since the last capture or pawn move.
    pub fn has_repetition_since_zeroing(&self) -> bool {
        for position in self.positions.iter().rev() {
            if position.repetitions() > 0 {
                return true;
            }
            if position.rule50_ply() == 0 {
                return false;
            }
        }
        false
    }

    /// The game's result, if the last position ends the game. The rules are lc0's, in this order: mate and stalemate,
    /// insufficient material, 100 plies without a capture or pawn move, third occurrence.
    pub fn result(&self) -> Option<GameResult> {
        let position = self.last();
        if position.legal_moves().is_empty() {
            return Some(if position.is_check() {
                GameResult::Won(!position.side_to_move())
            } else {
                GameResult::Drawn
            });
        }
        let drawn = position.has_insufficient_material()
            || position.rule50_ply() >= 100
            || position.repetitions() >= 2;
        drawn.then_some(GameResult::Drawn)
    }
}

/// The latest of `positions` that `next` repeats, and its distance from `next` in plies. `next` follows directly after
/// `positions`. Only positions with the same side to move are compared, and only as far back as the last capture or
/// pawn move.
fn earlier_occurrence<'a>(positions: &'a [Position], next: &Position) -> Option<(&'a Position, u16)> {
    // The length of the shortest cycle in plies: two moves by each side.
    const SHORTEST_CYCLE: u16 = 4;
    if next.rule50_ply() < SHORTEST_CYCLE {
        return None;
    }
    let mut plies = SHORTEST_CYCLE;
    for earlier in positions.iter().rev().skip(usize::from(SHORTEST_CYCLE) - 1).step_by(2) {
        if next.repeats(earlier) {
            return Some((earlier, plies));
        }
        // The next candidate, two plies older, comes before a capture or pawn move, so it cannot be equal.
        if earlier.rule50_ply() < 2 {
            return None;
        }
        plies = plies.saturating_add(2);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uci_move;

    fn play(fen: &str, moves: &str) -> PositionHistory {
        let mut history = PositionHistory::new(Position::from_fen(fen).expect("test FEN"));
        for text in moves.split_whitespace() {
            let m = uci_move::parse(history.last(), text).expect("test move");
            history.push(m);
        }
        history
    }

    fn repetitions(history: &PositionHistory) -> Vec<(u8, u16)> {
        history.positions().iter().map(|p| (p.repetitions(), p.plies_since_repetition())).collect()
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    #[test]
    fn knights_out_and_back_repeat_the_start() {
        let history = play(START, "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8");
        let expected = [(0, 0), (0, 0), (0, 0), (0, 0), (1, 4), (1, 4), (1, 4), (1, 4), (2, 4)];
        assert_eq!(repetitions(&history), expected);
        assert_eq!(history.result(), Some(GameResult::Drawn));
        assert!(history.has_repetition_since_zeroing());
    }

    #[test]
    fn a_lost_castling_right_makes_positions_differ() {
        let history = play("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "a1b1 a8b8 b1a1 b8a8 a1b1 a8b8 b1a1 b8a8");
        assert_eq!(repetitions(&history)[4], (0, 0));
        assert_eq!(repetitions(&history)[8], (1, 4));
    }

    #[test]
    fn a_remembered_en_passant_square_makes_positions_differ() {
        let fen = "4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1";
        let history = play(fen, "e8d8 e1d1 d8e8 d1e1 e8d8 e1d1 d8e8 d1e1");
        assert_eq!(repetitions(&history)[4], (0, 0));
        assert_eq!(repetitions(&history)[5], (1, 4));
        assert_eq!(repetitions(&history)[8], (1, 4));
    }

    #[test]
    fn a_pawn_move_ends_the_search_for_repetitions() {
        let history = play(START, "g1f3 g8f6 f3g1 f6g8 a2a3 a7a6 g1f3 g8f6 f3g1 f6g8");
        assert!(!history.positions()[5..10].iter().any(|p| p.repetitions() > 0));
        assert_eq!(repetitions(&history)[10], (1, 4));
    }

    #[test]
    fn the_future_depends_on_the_past_until_an_irreversible_move() {
        let key = |moves| play(START, moves).future_key();
        assert_eq!(key(""), None);
        assert_eq!(key("g1f3"), None);
        assert_eq!(key("d2d4 d7d5 g1f3"), None);
        assert!(key("d2d4").is_some());
        assert_eq!(key("d2d4 d7d5 c2c4"), key("c2c4 d7d5 d2d4"));
        assert_ne!(key("d2d4 d7d5 c2c4"), key("d2d4 d7d5 c2c3"));
        // The loss of a right makes the past irrelevant, but does not reset the counter.
        let rooks = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 5 9";
        let lost = |moves| play(rooks, moves).future_key();
        assert!(lost("e1e2").is_some() && lost("e1e2 e8e7").is_some());
        assert_eq!(lost("e1e2 e8e7 e2e1"), None);
        assert_ne!(lost("h1h8"), lost("a1a8"));
        let later = play("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 6 9", "e1e2").future_key();
        assert_ne!(lost("e1e2"), later);
    }

    #[test]
    fn popping_and_truncating_never_empty_a_history() {
        let mut history = play(START, "e2e4 e7e5");
        history.pop();
        assert_eq!(history.positions().len(), 2);
        history.truncate(0);
        history.pop();
        assert_eq!(history.last().to_fen(), START);
    }

    #[test]
    fn results_name_the_winner() {
        assert_eq!(play(START, "f2f3 e7e5 g2g4 d8h4").result(), Some(GameResult::Won(Color::Black)));
        assert_eq!(play("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "").result(), Some(GameResult::Drawn));
        assert_eq!(play("7k/8/5K2/8/8/8/8/7R b - - 99 80", "h8g8").result(), Some(GameResult::Drawn));
        assert_eq!(play(START, "e2e4").result(), None);
    }
}
