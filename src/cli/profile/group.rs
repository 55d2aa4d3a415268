//! Steps of a pass that are shown together: all encoders' steps of one operation, or all steps of one encoder.

use rukh_backend::profile::{Profile, StepProfile, mean};
use serde::Serialize;

/// The sum of several steps.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Group {
    /// The operation, or the part of the network.
    pub(super) name: String,
    pub(super) calls: usize,
    pub(super) launches: usize,
    /// One figure for each measured pass.
    #[serde(skip)]
    pub(super) passes: Vec<f64>,
    pub(super) operations: f64,
    /// Those of the operations whose factors are 8-bit numbers, on a device.
    pub(super) byte_operations: f64,
    pub(super) bytes: f64,
    pub(super) bytes_of_a_call: f64,
}

impl Group {
    /// The mean time in a pass.
    pub(super) fn microseconds(&self) -> f64 {
        mean(&self.passes)
    }

    /// The standard error of the mean as a share of it.
    pub(super) fn noise(&self) -> f64 {
        let middle = self.microseconds();
        let squares: f64 = self.passes.iter().map(|one| (one - middle).powi(2)).sum();
        let count = self.passes.len() as f64;
        if middle > 0.0 && count > 1.0 { (squares / (count - 1.0) / count).sqrt() / middle } else { 0.0 }
    }

    fn new(name: String) -> Group {
        Group {
            name,
            calls: 0,
            launches: 0,
            passes: Vec::new(),
            operations: 0.0,
            byte_operations: 0.0,
            bytes: 0.0,
            bytes_of_a_call: 0.0,
        }
    }

    fn add(&mut self, step: &StepProfile) {
        self.calls += step.calls;
        self.launches += step.launches;
        self.operations += step.operations;
        self.byte_operations += step.byte_operations;
        self.bytes += step.bytes;
        self.bytes_of_a_call = self.bytes_of_a_call.max(step.bytes_of_a_call);
        let passes = self.passes.len().max(step.microseconds.len());
        self.passes.resize(passes, 0.0);
        for (sum, time) in self.passes.iter_mut().zip(&step.microseconds) {
            *sum += time;
        }
    }
}

/// Adds up the steps that have the same name. The groups are in the order of the pass.
fn groups(profile: &Profile, name: impl Fn(&StepProfile) -> String) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for step in &profile.steps {
        let name = name(step);
        let known = groups.iter().position(|group| group.name == name);
        let index = known.unwrap_or_else(|| {
            groups.push(Group::new(name));
            groups.len() - 1
        });
        groups[index].add(step);
    }
    groups
}

/// The steps by operation.
pub(super) fn operations(profile: &Profile) -> Vec<Group> {
    groups(profile, StepProfile::kind)
}

/// The steps by encoder, block or head.
pub(super) fn parts(profile: &Profile) -> Vec<Group> {
    groups(profile, part)
}

/// The part of the network that a step belongs to.
pub(super) fn part(step: &StepProfile) -> String {
    match step.index {
        Some(index) => format!("{} {index}", step.stage),
        None => step.stage.clone(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A step with one call.
    pub(in crate::cli::profile) fn step(
        (stage, index): (&str, Option<usize>),
        operation: &str,
        microseconds: Vec<f64>,
    ) -> StepProfile {
        StepProfile {
            stage: stage.to_owned(),
            index,
            operation: operation.to_owned(),
            kernel: None,
            calls: 1,
            launches: 1,
            microseconds,
            operations: 1e6,
            byte_operations: 0.0,
            bytes: 1e3,
            bytes_of_a_call: 1e3,
        }
    }

    #[test]
    fn steps_are_added_up_by_operation_and_by_encoder() {
        let profile = Profile {
            positions: 1,
            whole_microseconds: vec![10.0],
            parallel_microseconds: Vec::new(),
            steps: vec![
                step(("encoder", Some(0)), "QKV", vec![1.0, 2.0, 9.0]),
                step(("encoder", Some(0)), "FFN 1", vec![3.0, 3.0, 3.0]),
                step(("encoder", Some(1)), "QKV", vec![2.0, 2.0, 2.0]),
            ],
        };
        let operations = operations(&profile);
        assert_eq!(operations[0].name, "encoder QKV");
        assert_eq!((operations[0].calls, operations[0].passes.as_slice()), (2, &[3.0, 4.0, 11.0][..]));
        assert_eq!((operations[0].operations, operations[0].bytes_of_a_call), (2e6, 1e3));
        assert_eq!(operations[0].microseconds(), 6.0);
        assert!(operations[0].noise() > 0.2 && operations[1].noise() == 0.0);
        let names: Vec<String> = parts(&profile).into_iter().map(|group| group.name).collect();
        assert_eq!(names, ["encoder 0", "encoder 1"]);
    }
}
