//! Finds the best candidate and its rival while visits are given out one by one.
//!
//! Each visit lowers the score of the candidate that gets it, so the best and the second best score are needed a few
//! times for each list of candidates. A list has about twenty candidates. A scan of all scores, four at a time, is
//! cheaper than sorting them.

use crate::tree::MOST_EDGES;

/// The number of scores that are compared together.
const LANES: usize = 4;
/// The score of an unused place, and of a candidate whose score is NaN.
const LAST_CHOICE: f32 = f32::NEG_INFINITY;

/// The scores of a node's candidates, in the order in which they were listed.
#[derive(Debug)]
pub(crate) struct Ranking {
    /// The scores, followed by [`LAST_CHOICE`] at least up to a multiple of [`LANES`].
    scores: [f32; (MOST_EDGES + 1).next_multiple_of(LANES)],
    length: usize,
}

impl Default for Ranking {
    fn default() -> Ranking {
        let mut ranking = Ranking { scores: [0.0; _], length: 0 };
        ranking.fill([].into_iter());
        ranking
    }
}

impl Ranking {
    /// Replaces the scores of the previous node.
    pub(crate) fn fill(&mut self, scores: impl Iterator<Item = f32>) {
        self.length = 0;
        self.extend(scores);
    }

    /// The number of candidates.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Appends the scores of more candidates.
    #[inline]
    pub(crate) fn extend(&mut self, scores: impl Iterator<Item = f32>) {
        let places = &mut self.scores[self.length..];
        let mut added = 0;
        for (place, score) in places.iter_mut().zip(scores) {
            *place = greater(score, LAST_CHOICE);
            added += 1;
        }
        places.iter_mut().skip(added).take(LANES).for_each(|place| *place = LAST_CHOICE);
        self.length += added;
    }

    /// Changes the score of a candidate.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, score: f32) {
        self.scores[index] = greater(score, LAST_CHOICE);
    }

    /// The index of the best candidate and the second best score. Of equal candidates the first counts as the best. The
    /// second score is -inf if there is only one candidate.
    #[inline]
    pub(crate) fn best_and_rival(&self) -> Option<(usize, f32)> {
        if self.length == 0 {
            return None;
        }
        let (scores, _) = self.scores[..self.length.next_multiple_of(LANES)].as_chunks::<LANES>();
        let mut leaders = [LAST_CHOICE; LANES];
        let mut rivals = [LAST_CHOICE; LANES];
        for scores in scores {
            for lane in 0..LANES {
                rivals[lane] = greater(rivals[lane], lesser(leaders[lane], scores[lane]));
                leaders[lane] = greater(leaders[lane], scores[lane]);
            }
        }
        let (leader, rival) = (leaders.into_iter().zip(rivals)).fold(
            (LAST_CHOICE, LAST_CHOICE),
            |(leader, rival), (other_leader, other_rival)| {
                let second = greater(rival, other_rival);
                (greater(leader, other_leader), greater(second, lesser(leader, other_leader)))
            },
        );
        let is_leader = |scores: &[f32; LANES]| scores.map(|score| score == leader);
        let chunk = scores.iter().position(|scores| is_leader(scores) != [false; LANES])?;
        let lane = is_leader(&scores[chunk]).iter().position(|&is_leader| is_leader)?;
        Some((chunk * LANES + lane, rival))
    }
}

/// The greater of two numbers, or `b` if `a` is NaN. (`f32::max` also checks `b` for NaN, which doubles the cost.)
#[inline]
fn greater(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The lesser of two numbers.
#[inline]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected result, from a plain loop over all scores.
    fn best_and_rival(scores: &[f32]) -> (usize, f32) {
        let score = |index: usize| if scores[index].is_nan() { f32::NEG_INFINITY } else { scores[index] };
        let best =
            (0..scores.len()).fold(0, |best, index| if score(index) > score(best) { index } else { best });
        let others = (0..scores.len()).filter(|&index| index != best);
        (best, others.map(score).fold(f32::NEG_INFINITY, f32::max))
    }

    #[test]
    fn agrees_with_a_plain_loop_over_all_scores() {
        let mut state = 1_u32;
        let mut roll = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // There are few different scores, so that some are equal, and some are NaN.
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
                ranking.set(expected.0, lower);
                if step % 50 == 0 {
                    scores.push(roll());
                    ranking.extend(scores[scores.len() - 1..].iter().copied());
                    assert_eq!(ranking.len(), scores.len());
                }
            }
        }
    }
}
