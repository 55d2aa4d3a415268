//! Checks a slot's figures against the processor's, before the first search.
//!
//! A library may report success and compute something else, and a graph may read the input of an earlier batch. A few
//! positions are therefore evaluated in every bucket, at changing places, and each result is compared with the one of
//! the CPU backend for the same network.

use super::processor_figures::{Expected, Question};
use crate::pass::slot::{Requests, Slot};
use crate::runtime::error::Result;
use crate::runtime::precision::{GpuPrecision, MOVES_LEFT, tolerance};
use crate::runtime::weight_bits::WeightBits;
use rukh_backend::{BackendError, Comparison, Figure, Value};
use rukh_net::Network;
use std::sync::Arc;

/// The largest differences of a batch from the processor's figures. What is not a number counts as infinitely far.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Differences {
    pub(crate) q: f32,
    pub(crate) d: f32,
    /// The moves left, in plies.
    pub(crate) m: f32,
    pub(crate) e: f32,
    pub(crate) prior: f32,
}

/// The processor's results for a few positions.
pub(crate) struct Reference {
    positions: Vec<Expected>,
    has_value_error: bool,
}

impl Reference {
    /// Evaluates the positions with the CPU backend, and keeps what it finds.
    ///
    /// # Errors
    /// The CPU backend cannot be made, or its evaluation fails.
    pub(crate) fn new(
        network: Arc<Network>,
        temperature: f32,
    ) -> std::result::Result<Reference, BackendError> {
        Reference::computed(&Question::of(&network, temperature), network)
    }

    /// Does the same as [`Reference::new`] with the question of `network`.
    ///
    /// # Errors
    /// As [`Reference::new`].
    pub(super) fn computed(
        question: &Question,
        network: Arc<Network>,
    ) -> std::result::Result<Reference, BackendError> {
        let positions = question.computed(network)?;
        Ok(Reference { positions, has_value_error: question.has_value_error })
    }

    /// What was computed and kept at an earlier start.
    pub(super) fn kept(question: &Question) -> Option<Reference> {
        Some(Reference { positions: question.kept()?, has_value_error: question.has_value_error })
    }

    /// Evaluates the positions in a batch that fills each bucket of `sizes`. Returns the first difference that is too
    /// large, in words.
    ///
    /// # Errors
    /// A batch fails.
    pub(crate) fn difference(
        &self,
        slot: &mut Slot,
        sizes: &[usize],
        (precision, weights): (GpuPrecision, WeightBits),
    ) -> Result<Option<String>> {
        let tolerance = tolerance_of(precision, weights);
        for (rotation, &size) in sizes.iter().enumerate() {
            let (requests, expected) = self.batch(size, rotation);
            let mut expected = expected.enumerate();
            let mut found = None;
            slot.evaluate(&requests, |answer| {
                let Some((place, expected)) = expected.next() else {
                    return;
                };
                if found.is_some() {
                    return;
                }
                let priors: Vec<f32> = answer.priors().collect();
                let wrong = self.wrong_figure(expected, answer.value(), &priors, tolerance);
                found = wrong.map(|Compared { name, figure, .. }| {
                    let (card, processor) = figure.values();
                    format!(
                        "in a batch of {size}, position {} has {name} {card:.4} instead of {processor:.4}",
                        place + 1
                    )
                });
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// A batch of `size` with the positions in turn, beginning with the one at `rotation`, and the results to expect.
    fn batch(&self, size: usize, rotation: usize) -> (Requests, impl Iterator<Item = &Expected>) {
        let places =
            move || (0..size).map(move |place| &self.positions[(place + rotation) % self.positions.len()]);
        let mut requests = Requests::default();
        places().for_each(|expected| requests.push(&expected.planes, expected.moves.iter().copied()));
        (requests, places())
    }

    /// Evaluates the positions in a batch of `size`, beginning with the one at `rotation`, and returns the largest
    /// difference of each figure.
    ///
    /// # Errors
    /// The batch fails.
    pub(crate) fn differences(&self, slot: &mut Slot, size: usize, rotation: usize) -> Result<Differences> {
        let (requests, mut expected) = self.batch(size, rotation);
        let mut largest = Differences::default();
        slot.evaluate(&requests, |answer| {
            let Some(expected) = expected.next() else { return };
            let priors: Vec<f32> = answer.priors().collect();
            for Compared { figure, place, .. } in self.compared(expected, answer.value(), &priors) {
                let largest = place(&mut largest);
                *largest = largest.max(figure.absolute() as f32);
            }
        })?;
        Ok(largest)
    }

    /// All figures of an answer.
    fn compared<'a>(
        &self,
        expected: &'a Expected,
        value: Value,
        priors: &'a [f32],
    ) -> impl Iterator<Item = Compared> + use<'a> {
        let comparison = Comparison::new((value, priors), (expected.value, &expected.priors));
        let compared = |name, figure, scale, place: Place| Compared { name, figure, scale, place };
        let values = [
            compared("q", comparison.q(), 1.0, |all| &mut all.q),
            compared("d", comparison.d(), 1.0, |all| &mut all.d),
            compared("m", comparison.m(), MOVES_LEFT, |all| &mut all.m),
        ];
        let error = self.has_value_error.then(|| compared("e", comparison.e(), 1.0, |all| &mut all.e));
        let priors =
            comparison.priors().map(move |figure| compared("a prior of", figure, 1.0, |all| &mut all.prior));
        values.into_iter().chain(error).chain(priors)
    }

    /// The first figure of an answer that is too far from the processor's.
    fn wrong_figure(
        &self,
        expected: &Expected,
        value: Value,
        priors: &[f32],
        tolerance: f32,
    ) -> Option<Compared> {
        self.compared(expected, value, priors)
            .find(|compared| compared.figure.absolute() > f64::from(tolerance * compared.scale))
    }
}

/// A figure of an answer.
struct Compared {
    /// Its name in messages.
    name: &'static str,
    figure: Figure,
    /// What the tolerance is multiplied with.
    scale: f32,
    /// Where its largest difference is noted.
    place: Place,
}

/// One of the differences.
type Place = fn(&mut Differences) -> &mut f32;

/// The same with weights of these bits. Weights of 8 bits that the user asked for are allowed what 8-bit integers are.
/// Otherwise they must be as near as weights of 16 bits.
fn tolerance_of(precision: GpuPrecision, weights: WeightBits) -> f32 {
    let usual = tolerance(precision);
    match weights {
        WeightBits::Sixteen | WeightBits::Auto => usual,
        WeightBits::Eight => usual.max(tolerance(GpuPrecision::Int8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_net::input::InputPlanes;

    #[test]
    fn a_figure_that_is_no_number_is_wrong() {
        let value = Value { q: 0.5, d: 0.25, m: 30.0, e: 0.0 };
        let planes = InputPlanes { masks: [0; InputPlanes::COUNT], rule50_value: 0.0 };
        let expected = Expected { planes, moves: vec![0, 1], value, priors: vec![0.75, 0.25] };
        let reference = Reference { positions: Vec::new(), has_value_error: false };
        let wrong = |value: Value, priors: [f32; 2]| {
            let found = reference.wrong_figure(&expected, value, &priors, tolerance(GpuPrecision::Fp16));
            found.map(|compared| compared.name)
        };
        assert_eq!(wrong(Value { q: 0.505, m: 30.5, ..value }, [0.745, 0.255]), None);
        assert_eq!(wrong(Value { q: 0.52, ..value }, [0.75, 0.25]), Some("q"));
        assert_eq!(wrong(Value { d: f32::NAN, ..value }, [0.75, 0.25]), Some("d"));
        assert_eq!(wrong(value, [0.5, 0.5]), Some("a prior of"));
    }
}
