//! The value of a node's visited children together, if each counts by its visits and its value.
//!
//! This is what [`super::children_value`] computes if all visits weigh the same, which they do by default. Then a
//! backup spends most of its time here. So the children are kept as one array for each figure: the quotients and roots
//! of several children are computed together, while all sums are taken in the order of the children, as a plain loop
//! would take them.

use super::children_value::{Mean, power, probability, value_deviation};
use std::sync::LazyLock;

/// The number of children that are computed together.
pub(crate) const LANES: usize = 4;

/// [`value_deviation`] for each small number of visits. Most children have few visits, and the deviation takes two roots
/// and a quotient.
static DEVIATIONS: LazyLock<[f64; 512]> =
    LazyLock::new(|| std::array::from_fn(|visits| value_deviation(visits.max(1) as f64)));

/// Computes [`DEVIATIONS`] now. A model checker's threads have stacks that are too small for it without optimization.
#[cfg(all(feature = "loom", test))]
pub(crate) fn compute_deviations() {
    LazyLock::force(&DEVIATIONS);
}

/// The visited children of a node, in its view: at most `LANES * CHUNKS`.
pub(crate) struct VisitedChildren<const CHUNKS: usize> {
    count: usize,
    chunks: [Chunk; CHUNKS],
    known_deviations: &'static [f64; 512],
}

/// Some children. All is 0 in a place that holds none.
#[derive(Clone, Copy)]
struct Chunk {
    /// The visits through the links.
    visits: [f64; LANES],
    wl: [f64; LANES],
    d: [f64; LANES],
    /// [`value_deviation`] of the visits.
    deviations: [f64; LANES],
}

impl<const CHUNKS: usize> VisitedChildren<CHUNKS> {
    #[inline(always)]
    pub(crate) fn new() -> VisitedChildren<CHUNKS> {
        let zero = [0.0; LANES];
        VisitedChildren {
            count: 0,
            chunks: [Chunk { visits: zero, wl: zero, d: zero, deviations: zero }; CHUNKS],
            known_deviations: &DEVIATIONS,
        }
    }

    /// Adds a child. `visits` is at least 1. Nothing happens if there is no place left.
    #[inline(always)]
    pub(crate) fn push(&mut self, visits: u32, wl: f64, d: f64) {
        let Some(chunk) = self.chunks.get_mut(self.count / LANES) else { return };
        let lane = self.count % LANES;
        let weight = f64::from(visits);
        chunk.visits[lane] = weight;
        chunk.wl[lane] = wl;
        chunk.d[lane] = d;
        chunk.deviations[lane] = match self.known_deviations.get(visits as usize) {
            Some(&known) => known,
            None => value_deviation(weight),
        };
        self.count += 1;
    }

    /// The mean of the children, with their visits as its weight. The exponent is that of
    /// [`value_weight`](super::children_value::value_weight); 0 means that the values do not count.
    #[inline(always)]
    pub(crate) fn mean(&mut self, exponent: f32) -> Mean {
        if self.count == 0 {
            return Mean::default();
        }
        let (mut weight, mut wl_sum, mut d_sum) = (0.0, 0.0, 0.0);
        for chunk in self.used() {
            // A place without a child adds 0, which changes no bit of the sums.
            for lane in 0..LANES {
                weight += chunk.visits[lane];
                wl_sum += chunk.visits[lane] * chunk.wl[lane];
                d_sum += chunk.visits[lane] * chunk.d[lane];
            }
        }
        let plain = Mean { wl: wl_sum / weight, d: d_sum / weight, weight };
        match exponent {
            _ if self.count == 1 => plain,
            0.0 => plain,
            // The default exponent in a loop of its own, without a choice for each child.
            0.5 => self.weigh(plain, f64::sqrt),
            _ => self.weigh(plain, |base| power(base, exponent)),
        }
    }

    /// The chunks that hold children.
    #[inline(always)]
    fn used(&mut self) -> &mut [Chunk] {
        &mut self.chunks[..self.count.div_ceil(LANES).min(CHUNKS)]
    }

    /// The mean with each child's weight multiplied by `to_weight` of the probability that its value is the better one,
    /// compared with `plain`, the mean by the visits alone.
    #[inline(always)]
    fn weigh(&mut self, plain: Mean, to_weight: impl Fn(f64) -> f64) -> Mean {
        let unused = self.count.next_multiple_of(LANES) - self.count;
        if let Some(last) = self.used().last_mut() {
            // Any deviation will do where there is no child, except 0, by which nothing can be divided.
            last.deviations[LANES - unused..].fill(1.0);
        }
        let (mut sum, mut wl_sum, mut d_sum) = (0.0, 0.0, 0.0);
        for chunk in self.used() {
            let mut parts = [0.0; LANES];
            for (lane, part) in parts.iter_mut().enumerate() {
                let z = (chunk.wl[lane] - plain.wl) / chunk.deviations[lane];
                *part = chunk.visits[lane] * to_weight(probability(z));
            }
            for (lane, part) in parts.into_iter().enumerate() {
                sum += part;
                wl_sum += part * chunk.wl[lane];
                d_sum += part * chunk.d[lane];
            }
        }
        Mean { wl: wl_sum / sum, d: d_sum / sum, weight: plain.weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::children_value::value_weight;

    /// The mean by plain loops.
    fn expected(children: &[(u32, f64, f64)], exponent: f32) -> Mean {
        let mean = |weight: &dyn Fn(&(u32, f64, f64)) -> f64| {
            let (mut sum, mut wl, mut d) = (0.0, 0.0, 0.0);
            for child in children {
                sum += weight(child);
                wl += weight(child) * child.1;
                d += weight(child) * child.2;
            }
            Mean { wl: wl / sum, d: d / sum, weight: sum }
        };
        let plain = mean(&|child| f64::from(child.0));
        if exponent == 0.0 || children.len() == 1 {
            return plain;
        }
        let weighted = mean(&|&(visits, wl, _)| {
            let visits = f64::from(visits);
            visits * value_weight(wl - plain.wl, visits, exponent)
        });
        Mean { weight: plain.weight, ..weighted }
    }

    #[test]
    fn all_bits_agree_with_plain_loops() {
        let mut state = 1_u32;
        let mut roll = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        assert_eq!(VisitedChildren::<4>::new().mean(0.5), Mean::default());
        for count in 1..=16 {
            for _ in 0..200 {
                let mut child = || {
                    let visits = 1 + (roll() >> (roll() % 24));
                    let wl = f64::from((f64::from(roll()) / 8_388_608.0 - 1.0) as f32);
                    (visits, wl, f64::from((f64::from(roll()) / 16_777_216.0) as f32))
                };
                let children: Vec<_> = (0..count).map(|_| child()).collect();
                let mut visited = VisitedChildren::<4>::new();
                children.iter().for_each(|&(visits, wl, d)| visited.push(visits, wl, d));
                for exponent in [0.0, 0.25, 0.5, 0.7] {
                    assert_eq!(visited.mean(exponent), expected(&children, exponent), "{children:?}");
                }
            }
        }
    }
}
