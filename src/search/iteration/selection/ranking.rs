//! Finds the best candidate and its rival while visits are given out one by one.
//!
//! Each visit lowers the score of the candidate that gets it, so the best and the second best score are needed a few
//! times for each list of candidates. A list has about twenty candidates. A scan of all scores, four at a time, is
//! cheaper than sorting them.

/// The number of scores that are compared together.
pub(super) const LANES: usize = 4;
/// The score of an unused place.
pub(super) const LAST_CHOICE: f32 = f32::NEG_INFINITY;

/// The index of the best of `scores`. Of equal scores the first counts as the best, and a score that is NaN counts as the
/// worst one.
#[inline]
pub(super) fn best(scores: &[[f32; LANES]]) -> Option<usize> {
    let mut leaders = [LAST_CHOICE; LANES];
    for scores in scores {
        for lane in 0..LANES {
            leaders[lane] = greater(scores[lane], leaders[lane]);
        }
    }
    let leader = leaders.into_iter().fold(LAST_CHOICE, greater);
    first_place(scores, leader)
}

/// The index of the best of `scores`, as [`best`] returns it, and the second best score, which is -inf if there is none.
#[inline]
pub(super) fn best_and_rival(scores: &[[f32; LANES]]) -> Option<(usize, f32)> {
    let mut leaders = [LAST_CHOICE; LANES];
    let mut rivals = [LAST_CHOICE; LANES];
    for scores in scores {
        for lane in 0..LANES {
            rivals[lane] = greater(lesser(leaders[lane], scores[lane]), rivals[lane]);
            leaders[lane] = greater(scores[lane], leaders[lane]);
        }
    }
    // Two lanes are compared with the other two, and then the two results with each other.
    let mut leader = [LAST_CHOICE; 2];
    let mut rival = [LAST_CHOICE; 2];
    for lane in 0..2 {
        let beaten = lesser(leaders[lane], leaders[lane + 2]);
        leader[lane] = greater(leaders[lane], leaders[lane + 2]);
        rival[lane] = greater(greater(rivals[lane], rivals[lane + 2]), beaten);
    }
    let beaten = lesser(leader[0], leader[1]);
    let rival = greater(greater(rival[0], rival[1]), beaten);
    first_place(scores, greater(leader[0], leader[1])).map(|index| (index, rival))
}

/// The index of the first score that equals `wanted`. If all are NaN, it is the first one.
#[inline]
fn first_place(scores: &[[f32; LANES]], wanted: f32) -> Option<usize> {
    if scores.is_empty() {
        return None;
    }
    for (chunk, scores) in scores.iter().enumerate() {
        // The bits of the places that are equal are found without a branch for each of them.
        let mut equal = 0_u32;
        for (lane, &score) in scores.iter().enumerate() {
            equal |= u32::from(score == wanted) << lane;
        }
        if equal != 0 {
            return Some(LANES * chunk + equal.trailing_zeros() as usize);
        }
    }
    Some(0)
}

/// The greater of two numbers, or `b` if `a` is NaN. (`f32::max` also checks `b` for NaN, which doubles the cost.)
#[inline]
fn greater(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The lesser of two numbers, or `b` if one is NaN.
#[inline]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected result, from a plain loop over all scores.
    fn expected(scores: &[f32]) -> (usize, f32) {
        let best =
            (0..scores.len()).fold(0, |best, index| if scores[index] > scores[best] { index } else { best });
        let others = (0..scores.len()).filter(|&index| index != best);
        (best, others.map(|index| scores[index]).fold(LAST_CHOICE, f32::max))
    }

    #[test]
    fn agrees_with_a_plain_loop_over_all_scores() {
        let mut state = 1_u32;
        let mut roll = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // There are few different scores, so that some are equal, and some are the worst one.
            if state >> 28 == 0 { LAST_CHOICE } else { ((state >> 20) % 64) as f32 / 64.0 }
        };
        assert_eq!((best(&[]), best_and_rival(&[])), (None, None));
        let with_nan = [[f32::NAN, 1.0, f32::NAN, LAST_CHOICE], [3.0, f32::NAN, 2.0, f32::NAN]];
        assert_eq!((best(&with_nan), best_and_rival(&with_nan)), (Some(4), Some((4, 2.0))));
        let all_nan = [[f32::NAN; LANES]];
        assert_eq!((best(&all_nan), best_and_rival(&all_nan)), (Some(0), Some((0, LAST_CHOICE))));
        for count in 1..60_usize {
            for _ in 0..200 {
                let mut scores: Vec<f32> = (0..count).map(|_| roll()).collect();
                let expected = expected(&scores);
                scores.resize(count.next_multiple_of(LANES), LAST_CHOICE);
                let (chunks, _) = scores.as_chunks();
                assert_eq!((best(chunks), best_and_rival(chunks)), (Some(expected.0), Some(expected)));
            }
        }
    }
}
