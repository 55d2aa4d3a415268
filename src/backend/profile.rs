//! A profile of a backend: the time and the work of each step of its forward pass, and what the machine can do.
//!
//! The figures are measured. What limits a step follows from them in the tool that shows the profile
//! (`docs/profile.md`).

use super::error::BackendError;
use rukh_chess::{PackedMove, PositionHistory};
use serde::{Deserialize, Serialize};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct ProfileRequest<'a> {
    /// The last position fills the batch.
    pub history: &'a PositionHistory,
    /// The legal moves of the position.
    pub moves: &'a [PackedMove],
    /// The number of positions in the batch.
    pub positions: usize,
    /// How often each time is measured, after a warm-up.
    pub passes: usize,
}

/// One step of the forward pass, with all its calls in a pass.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StepProfile {
    /// The part of the network: `encoder`, `block`, `value`, and so on.
    pub stage: String,
    /// The number of the encoder or block, if the stage has several.
    pub index: Option<usize>,
    /// What the step computes, for example `QKV`.
    pub operation: String,
    /// The kernel or the algorithm that computes it, if it has a name.
    pub kernel: Option<String>,
    /// The number of times that the step runs in a pass.
    pub calls: usize,
    /// The number of kernels that these calls launch on a device; 0 on the processor.
    pub launches: usize,
    /// The microseconds of all calls together, one figure for each of the passes that are kept.
    pub microseconds: Vec<f64>,
    /// Operations of the matrix products in all calls: two for each multiplication with its addition.
    pub operations: f64,
    /// Those of the operations on a device whose factors are 8-bit numbers.
    #[serde(default)]
    pub byte_operations: f64,
    /// The bytes that the calls must move at least: their weights, inputs and results, each counted once for each call.
    pub bytes: f64,
    /// The bytes of the largest call, which decide what caches can hold them.
    pub bytes_of_a_call: f64,
}

/// The speed of a copy.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CopySpeed {
    /// The size of the two buffers together.
    pub bytes: f64,
    /// The bytes read and written in a second.
    pub bytes_per_second: f64,
}

/// What the device can do at most, as measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Ceilings {
    /// Operations in a second: on the processor in the backend's number format, and on a device in that of the
    /// activations.
    pub operations_per_second: f64,
    /// Operations in a second on 8-bit numbers on a device; 0 if the backend multiplies none there.
    #[serde(default)]
    pub byte_operations_per_second: f64,
    /// Copies of buffers of different sizes, in ascending order.
    pub copies: Vec<CopySpeed>,
    /// The microseconds that an empty kernel takes in a chain; 0 on the processor.
    pub launch_microseconds: f64,
}

/// The time of a whole pass.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pass {
    /// The positions in the batch, before it is padded.
    pub positions: usize,
    /// The time of the padded batch.
    pub microseconds: f64,
}

/// The profile of one batch size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// The number of positions that were evaluated. A device pads a batch to the next size that it has a program for.
    pub positions: usize,
    /// The microseconds of whole passes in which no step was timed, without the slower half of them.
    pub whole_microseconds: Vec<f64>,
    /// The same where independent steps run in parallel, as the engine runs them; empty if none do.
    pub parallel_microseconds: Vec<f64>,
    /// The steps, in the order of the pass.
    pub steps: Vec<StepProfile>,
}

/// The backend that is profiled.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The backend's name in messages.
    pub name: String,
    /// The batch size that the backend recommends.
    pub recommended_batch: usize,
    /// The most positions in a batch.
    pub maximum_batch: usize,
    /// The batch sizes that the backend has programs for, in ascending order; empty if it takes every size as it is.
    pub ladder: Vec<usize>,
}

/// A backend that can be profiled, with everything that takes long prepared.
pub trait Profiler {
    /// What is profiled.
    fn subject(&self) -> Subject;

    /// Measures the ceilings of the device.
    ///
    /// # Errors
    /// A measurement failed.
    fn ceilings(&mut self) -> Result<Ceilings, BackendError>;

    /// Measures the steps of one batch.
    ///
    /// # Errors
    /// The batch is too large, or its evaluation failed.
    fn profile(&mut self, wanted: &ProfileRequest<'_>) -> Result<Profile, BackendError>;

    /// Measures whole passes of several batch sizes instead of that of `wanted`.
    ///
    /// # Errors
    /// A batch is too large, or its evaluation failed.
    fn passes(&mut self, wanted: &ProfileRequest<'_>, sizes: &[usize]) -> Result<Vec<Pass>, BackendError>;
}

impl<P: Profiler> Profiler for &mut P {
    fn subject(&self) -> Subject {
        (**self).subject()
    }

    fn ceilings(&mut self) -> Result<Ceilings, BackendError> {
        (**self).ceilings()
    }

    fn profile(&mut self, wanted: &ProfileRequest<'_>) -> Result<Profile, BackendError> {
        (**self).profile(wanted)
    }

    fn passes(&mut self, wanted: &ProfileRequest<'_>, sizes: &[usize]) -> Result<Vec<Pass>, BackendError> {
        (**self).passes(wanted, sizes)
    }
}

impl StepProfile {
    /// The stage and the operation, without the number of the encoder.
    pub fn kind(&self) -> String {
        format!("{} {}", self.stage, self.operation).trim_start().to_owned()
    }

    /// The mean time of all calls in a pass, in microseconds.
    pub fn mean(&self) -> f64 {
        mean(&self.microseconds)
    }
}

impl Profile {
    /// The mean time of the whole pass, in microseconds.
    pub fn whole(&self) -> f64 {
        mean(&self.whole_microseconds)
    }

    /// The sum of all steps, in microseconds.
    pub fn sum(&self) -> f64 {
        self.steps.iter().map(StepProfile::mean).sum()
    }
}

impl Ceilings {
    /// The speed at which `bytes` can be moved at most, in bytes per second: that of the fastest copy of so many bytes or
    /// more. A copy of a size that fits a cache shows that cache's speed. A card's copies of few bytes are slower than
    /// those of many, because most of their time is that of the launch.
    pub fn bytes_per_second(&self, bytes: f64) -> f64 {
        let fitting = self.copies.iter().filter(|copy| copy.bytes >= bytes);
        let fastest = fitting.map(|copy| copy.bytes_per_second).reduce(f64::max);
        fastest.or_else(|| self.copies.last().map(|copy| copy.bytes_per_second)).unwrap_or(0.0)
    }
}

/// The mean of some numbers; 0 if there are none.
pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

/// The indices of the faster half of some passes, which other processes disturbed least. Means of these passes add up,
/// while medians of the steps would not.
pub fn faster_half(passes: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..passes.len()).collect();
    order.sort_by(|&a, &b| passes[a].total_cmp(&passes[b]));
    order.truncate(passes.len().div_ceil(2));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_half_is_left_out() {
        assert_eq!(faster_half(&[5.0, 1.0, 9.0]), [1, 0]);
        assert!(faster_half(&[]).is_empty() && mean(&[]) == 0.0);
        assert_eq!(mean(&[1.0, 5.0]), 3.0);
    }

    #[test]
    fn small_copies_show_the_speed_of_caches_or_of_launches() {
        let copy = |bytes, bytes_per_second| CopySpeed { bytes, bytes_per_second };
        let ceilings = Ceilings { copies: vec![copy(1e4, 9e9), copy(1e6, 5e9)], ..Ceilings::default() };
        assert_eq!([1e3, 1e4, 2e4, 1e9].map(|bytes| ceilings.bytes_per_second(bytes)), [9e9, 9e9, 5e9, 5e9]);
        assert_eq!(Ceilings::default().bytes_per_second(1.0), 0.0);
        // On a card the launch takes most of the time of a small copy.
        let ceilings = Ceilings { copies: vec![copy(1e4, 1e9), copy(1e6, 8e9), copy(1e9, 4e9)], ..ceilings };
        assert_eq!([1e3, 1e6, 2e6].map(|bytes| ceilings.bytes_per_second(bytes)), [8e9, 8e9, 4e9]);
    }
}
