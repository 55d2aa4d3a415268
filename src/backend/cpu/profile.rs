//! The profile of a network on one thread of the processor.
//!
//! Passes whose steps are timed alternate with passes that are timed only as a whole, so that a processor that changes
//! its clock slows both.

use super::ceilings;
use super::layers::Body;
use super::network::CpuNetwork;
use super::recorder::{Lap, Place};
use super::scratch::{Outputs, Scratch};
use rukh_backend::profile::{
    Ceilings, Pass, Profile, ProfileRequest, Profiler, StepProfile, Subject, faster_half, mean,
};
use rukh_backend::ticket::check_batch_size;
use rukh_backend::{Attributes, BackendError};
use rukh_net::architecture::InputFormat;
use rukh_net::input::{HistoryFill, InputPlanes, encode};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Passes before the measurement, in which the memory grows to its size and the processor raises its clock.
const WARM_UP_PASSES: usize = 2;

/// Profiles a backend's network on the calling thread.
pub(super) struct CpuProfiler {
    pub(super) network: Arc<CpuNetwork>,
    /// The backend's attributes.
    pub(super) attributes: Attributes,
    /// How positions become planes.
    pub(super) encoding: (InputFormat, HistoryFill),
}

impl Profiler for CpuProfiler {
    fn subject(&self) -> Subject {
        let Attributes { name, recommended_batch_size, maximum_batch_size, .. } = &self.attributes;
        Subject {
            name: name.clone(),
            recommended_batch: *recommended_batch_size,
            maximum_batch: *maximum_batch_size,
            ladder: Vec::new(),
        }
    }

    fn ceilings(&mut self) -> Result<Ceilings, BackendError> {
        let layer = match &self.network.layers.body {
            Body::Attention { stack, .. } => stack.encoders.first().map(|encoder| &encoder.ffn.dense1),
            Body::Convolution { blocks, .. } => blocks.first().and_then(|block| block.conv1.byte_product()),
        };
        Ok(ceilings::measure(self.network.isa, layer))
    }

    fn profile(&mut self, wanted: &ProfileRequest<'_>) -> Result<Profile, BackendError> {
        let inputs = self.inputs(wanted, wanted.positions)?;
        let mut scratch = Scratch::new(self.network.isa);
        let mut outputs = Outputs::default();
        let mut wholes = Vec::new();
        let mut steps = Steps::default();
        for pass in 0..WARM_UP_PASSES + wanted.passes.max(1) {
            let begin = Instant::now();
            self.network.forward(&inputs, &mut scratch, &mut outputs);
            let whole = begin.elapsed().as_secs_f64() * 1e6;
            scratch.steps.recorder.start();
            self.network.forward(&inputs, &mut scratch, &mut outputs);
            let laps = scratch.steps.recorder.stop();
            if pass >= WARM_UP_PASSES {
                wholes.push(whole);
                steps.add_pass(&laps);
            }
        }
        let whole_microseconds = kept(&wholes, &faster_half(&wholes));
        let steps = steps.of_faster_passes();
        let parallel_microseconds = Vec::new();
        Ok(Profile { positions: wanted.positions, whole_microseconds, parallel_microseconds, steps })
    }

    fn passes(&mut self, wanted: &ProfileRequest<'_>, sizes: &[usize]) -> Result<Vec<Pass>, BackendError> {
        let mut scratch = Scratch::new(self.network.isa);
        let mut outputs = Outputs::default();
        let mut pass = |&positions: &usize| {
            let inputs = self.inputs(wanted, positions)?;
            let mut time = || {
                let begin = Instant::now();
                self.network.forward(&inputs, &mut scratch, &mut outputs);
                begin.elapsed().as_secs_f64() * 1e6
            };
            time();
            let times: Vec<f64> = (0..wanted.passes.max(1)).map(|_| time()).collect();
            Ok(Pass { positions, microseconds: mean(&kept(&times, &faster_half(&times))) })
        };
        sizes.iter().map(&mut pass).collect()
    }
}

impl CpuProfiler {
    /// A batch of the same position.
    fn inputs(
        &self,
        wanted: &ProfileRequest<'_>,
        positions: usize,
    ) -> Result<Vec<InputPlanes>, BackendError> {
        check_batch_size(&self.attributes, positions)?;
        let (format, fill) = self.encoding;
        Ok(vec![encode(wanted.history, format, fill).0; positions])
    }
}

/// The steps of all passes.
#[derive(Default)]
struct Steps {
    profiles: Vec<StepProfile>,
    /// The index of each step in `profiles`.
    known: HashMap<(Place, &'static str), usize>,
    passes: usize,
    /// The sum of each pass, in microseconds.
    sums: Vec<f64>,
}

/// The passes with these indices.
fn kept(passes: &[f64], indices: &[usize]) -> Vec<f64> {
    indices.iter().map(|&index| passes[index]).collect()
}

impl Steps {
    /// Adds the steps of one pass.
    fn add_pass(&mut self, laps: &[Lap]) {
        let is_first = self.passes == 0;
        self.passes += 1;
        self.sums.push(laps.iter().map(|lap| lap.time.as_secs_f64() * 1e6).sum());
        for lap in laps {
            let Lap { place, name, time, work } = *lap;
            let index = *self.known.entry((place, name)).or_insert_with(|| {
                self.profiles.push(new_step(place, name));
                self.profiles.len() - 1
            });
            let step = &mut self.profiles[index];
            step.microseconds.resize(self.passes, 0.0);
            step.microseconds[self.passes - 1] += time.as_secs_f64() * 1e6;
            // All passes have the same work.
            if is_first {
                step.calls += 1;
                step.operations += work.operations;
                step.bytes += work.bytes;
                step.bytes_of_a_call = step.bytes_of_a_call.max(work.bytes);
            }
        }
    }

    /// The steps without the slower half of the passes.
    fn of_faster_passes(mut self) -> Vec<StepProfile> {
        let indices = faster_half(&self.sums);
        for step in &mut self.profiles {
            step.microseconds = kept(&step.microseconds, &indices);
        }
        self.profiles
    }
}

fn new_step(place: Place, name: &str) -> StepProfile {
    StepProfile {
        stage: place.stage.to_owned(),
        index: place.index,
        operation: name.to_owned(),
        kernel: None,
        calls: 0,
        launches: 0,
        microseconds: Vec::new(),
        operations: 0.0,
        byte_operations: 0.0,
        bytes: 0.0,
        bytes_of_a_call: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::Work;
    use super::*;
    use std::time::Duration;

    #[test]
    fn calls_of_a_pass_are_added_up_and_passes_are_kept_apart() {
        let lap = |index, microseconds| Lap {
            place: Place { stage: "encoder", index: Some(index) },
            name: "QKV",
            time: Duration::from_micros(microseconds),
            work: Work { operations: 10.0, bytes: 3.0 },
        };
        let mut steps = Steps::default();
        steps.add_pass(&[lap(0, 2), lap(1, 5), lap(0, 3)]);
        steps.add_pass(&[lap(0, 1), lap(1, 4), lap(0, 1)]);
        let [first, second] = steps.profiles.as_slice() else { panic!("{:?}", steps.profiles) };
        assert_eq!((first.calls, first.operations, first.bytes, first.bytes_of_a_call), (2, 20.0, 6.0, 3.0));
        assert_eq!(
            (first.microseconds.as_slice(), second.microseconds.as_slice()),
            (&[5.0, 2.0][..], &[5.0, 4.0][..])
        );
        assert_eq!((first.index, second.index), (Some(0), Some(1)));
        assert_eq!(steps.of_faster_passes()[1].microseconds, [4.0]);
    }
}
