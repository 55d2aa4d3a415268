//! Stoppers that wait for a goal: a depth, a mate, or a solved position.

use super::stopper::{IterationStats, Stopper, StopperHints};

/// Stops when the average depth of this search's visits reaches a limit.
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
        stats.average_depth >= self.depth
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

/// Stops when more search can find out nothing new.
#[derive(Debug)]
pub struct SolvedStopper {
    mate_in_one_is_enough: bool,
}

impl SolvedStopper {
    /// With `mate_in_one_is_enough`, a mate in one stops the search although the values of other moves are unknown.
    pub fn new(mate_in_one_is_enough: bool) -> SolvedStopper {
        SolvedStopper { mate_in_one_is_enough }
    }
}

impl Stopper for SolvedStopper {
    fn should_stop(&mut self, stats: &IterationStats, _hints: &mut StopperHints) -> bool {
        stats.is_solved || (self.mate_in_one_is_enough && stats.mate_depth == Some(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_depth_and_beyond() {
        let stops = |average_depth| {
            let stats = IterationStats { average_depth, ..Default::default() };
            DepthStopper::new(6).should_stop(&stats, &mut StopperHints::default())
        };
        assert_eq!([5, 6, 7].map(stops), [false, true, true]);
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
