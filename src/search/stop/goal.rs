//! Stoppers that wait for a goal: a depth, a mate, or a solved position.

use super::stopper::{IterationStats, Stopper, StopperHints};

/// Stops when the average depth of this search's visits reaches a limit. The visit that evaluates the root has a depth,
/// too, but it is no result of a search for chosen root moves.
#[derive(Debug)]
pub struct DepthStopper {
    depth: u32,
}

impl DepthStopper {
    /// `depth` counts the root as 1.
    pub fn new(depth: u32) -> DepthStopper {
        DepthStopper { depth }
    }
}

impl Stopper for DepthStopper {
    fn should_stop(&mut self, stats: &IterationStats, _hints: &mut StopperHints) -> bool {
        stats.total_nodes > 0 && stats.average_depth >= self.depth
    }
}

/// Stops when the search has found a mate that is short enough.
#[derive(Debug)]
pub struct MateStopper {
    moves: u32,
}

impl MateStopper {
    /// `moves` is the longest mate that stops the search, in moves of the side to move, as in `go mate`.
    pub fn new(moves: u32) -> MateStopper {
        MateStopper { moves }
    }
}

impl Stopper for MateStopper {
    fn should_stop(&mut self, stats: &IterationStats, _hints: &mut StopperHints) -> bool {
        stats.mate_depth.is_some_and(|moves| moves <= self.moves)
    }
}

/// What settles a search although the values of other root moves are unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Enough {
    /// A mate in one.
    pub mate_in_one: bool,
    /// A root move that is a proven win.
    pub win: bool,
    /// That there is nothing to choose ([`SearchStart::is_only_move`](crate::SearchStart)).
    pub only_move: bool,
}

/// Stops when more search can find out nothing new, or when what it has found is enough.
#[derive(Debug)]
pub struct SolvedStopper {
    enough: Enough,
}

impl SolvedStopper {
    /// Stops when all root moves are proven, and when the search has what is `enough`.
    pub fn new(enough: Enough) -> SolvedStopper {
        SolvedStopper { enough }
    }
}

impl Stopper for SolvedStopper {
    fn should_stop(&mut self, stats: &IterationStats, _hints: &mut StopperHints) -> bool {
        stats.is_solved
            || self.enough.only_move
            || (self.enough.win && stats.win_found)
            || (self.enough.mate_in_one && stats.mate_depth == Some(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_depth_and_beyond() {
        let stops = |average_depth| {
            let stats = IterationStats { average_depth, total_nodes: 1, ..Default::default() };
            DepthStopper::new(6).should_stop(&stats, &mut StopperHints::default())
        };
        assert_eq!([5, 6, 7].map(stops), [false, true, true]);
        let only_the_root = IterationStats { average_depth: 1, ..Default::default() };
        assert!(!DepthStopper::new(1).should_stop(&only_the_root, &mut StopperHints::default()));
    }

    #[test]
    fn a_result_stops_only_if_it_is_enough() {
        let win = IterationStats { win_found: true, mate_depth: Some(1), ..Default::default() };
        let solved = IterationStats { is_solved: true, ..Default::default() };
        let stops =
            |enough, stats| SolvedStopper::new(enough).should_stop(stats, &mut StopperHints::default());
        let nothing = Enough::default();
        assert!(stops(nothing, &solved) && !stops(nothing, &win));
        assert!(stops(Enough { win: true, ..nothing }, &win));
        assert!(stops(Enough { mate_in_one: true, ..nothing }, &win));
        let open = IterationStats::default();
        let all_but_only_move = Enough { win: true, mate_in_one: true, only_move: false };
        assert!(!stops(all_but_only_move, &open) && stops(Enough { only_move: true, ..nothing }, &open));
    }

    #[test]
    fn a_longer_mate_does_not_stop() {
        let stops = |mate_depth| {
            let stats = IterationStats { mate_depth, ..Default::default() };
            MateStopper::new(3).should_stop(&stats, &mut StopperHints::default())
        };
        assert_eq!([None, Some(4), Some(3), Some(1)].map(stops), [false, false, true, true]);
    }
}
