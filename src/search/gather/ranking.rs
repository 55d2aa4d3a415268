//! Which candidate is ahead, while visits are given out one by one.
//!
//! Each visit lowers the score of the one that gets it, so the next best is wanted as often as visits are given out,
//! from dozens of candidates at the root. A binary heap moves one of them in a few steps.

/// A candidate's score and its index. Of equal scores the first candidate's counts as better.
#[derive(Clone, Copy, Debug)]
struct Rank {
    score: f32,
    index: u32,
}

impl Rank {
    #[inline]
    fn new(score: f32, index: usize) -> Rank {
        // A broken evaluation is the last choice.
        Rank { score: if score.is_nan() { f32::NEG_INFINITY } else { score }, index: index as u32 }
    }

    #[inline]
    fn is_ahead_of(self, other: Rank) -> bool {
        self.score > other.score || (self.score == other.score && self.index < other.index)
    }
}

/// Candidates by score; see the module.
#[derive(Default, Debug)]
pub(super) struct Ranking {
    /// No rank is ahead of that at half its index (of the places after it, counted from 0: `(place - 1) / 2`).
    heap: Vec<Rank>,
}

impl Ranking {
    /// Ranks candidates of these scores.
    pub(super) fn fill(&mut self, scores: impl Iterator<Item = f32>) {
        self.heap.clear();
        self.heap.extend(scores.enumerate().map(|(index, score)| Rank::new(score, index)));
        for place in (0..self.heap.len() / 2).rev() {
            self.sink(place);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Adds the next candidate.
    pub(super) fn push(&mut self, score: f32) {
        let mut place = self.heap.len();
        self.heap.push(Rank::new(score, place));
        while place > 0 && self.heap[place].is_ahead_of(self.heap[(place - 1) / 2]) {
            self.heap.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    /// The index of the best, and the score of the next best (-inf: there is none).
    #[inline]
    pub(super) fn best_and_rival(&self) -> Option<(usize, f32)> {
        let best = self.heap.first()?;
        let score = |place| self.heap.get(place).map_or(f32::NEG_INFINITY, |rank: &Rank| rank.score);
        Some((best.index as usize, score(1).max(score(2))))
    }

    /// Gives the best another score.
    #[inline]
    pub(super) fn rescore_best(&mut self, score: f32) {
        if let Some(best) = self.heap.first_mut() {
            *best = Rank::new(score, best.index as usize);
            self.sink(0);
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let Some(&left_rank) = self.heap.get(left) else { return };
            let ahead = match self.heap.get(left + 1) {
                Some(right_rank) if right_rank.is_ahead_of(left_rank) => left + 1,
                _ => left,
            };
            if !self.heap[ahead].is_ahead_of(self.heap[place]) {
                return;
            }
            self.heap.swap(place, ahead);
            place = ahead;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by looking at all of them.
    fn best_and_rival(scores: &[f32]) -> (usize, f32) {
        let score = |index: usize| if scores[index].is_nan() { f32::NEG_INFINITY } else { scores[index] };
        let best =
            (0..scores.len()).fold(0, |best, index| if score(index) > score(best) { index } else { best });
        let others = (0..scores.len()).filter(|&index| index != best);
        (best, others.map(score).fold(f32::NEG_INFINITY, f32::max))
    }

    #[test]
    fn the_best_is_found_as_if_all_were_looked_at() {
        let mut state = 1_u32;
        let mut roll = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Few different ones, so that some are equal; and broken ones.
            if state >> 28 == 0 { f32::NAN } else { ((state >> 20) % 64) as f32 / 64.0 }
        };
        let mut ranking = Ranking::default();
        assert_eq!(ranking.best_and_rival(), None);
        for count in 1..60 {
            let mut scores: Vec<f32> = (0..count).map(|_| roll()).collect();
            ranking.fill(scores.iter().copied());
            for step in 0..200 {
                let expected = best_and_rival(&scores);
                assert_eq!(ranking.best_and_rival(), Some(expected));
                let lower = scores[expected.0] - roll() / 8.0;
                scores[expected.0] = lower;
                ranking.rescore_best(lower);
                if step % 50 == 0 {
                    scores.push(roll());
                    ranking.push(scores[scores.len() - 1]);
                    assert_eq!(ranking.len(), scores.len());
                }
            }
        }
    }
}
