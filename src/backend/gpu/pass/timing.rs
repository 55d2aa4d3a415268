//! A table of the time that each kind of step takes in a forward pass.

use crate::runtime::ffi::program::StepTime;

/// The corresponding steps of all encoders or blocks.
pub(crate) struct Kind {
    pub(crate) name: String,
    /// The number of steps.
    pub(crate) steps: usize,
    /// The time of all of them.
    pub(crate) milliseconds: f32,
    /// Their floating-point operations in GEMMs.
    pub(crate) operations: f64,
}

/// Adds up the times of the corresponding steps. The kinds are in the order of the pass.
pub(crate) fn kinds(times: &[StepTime]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for time in times {
        let name = without_numbers(&time.name);
        let known = kinds.iter_mut().position(|kind| kind.name == name);
        let index = known.unwrap_or_else(|| {
            kinds.push(Kind { name, steps: 0, milliseconds: 0.0, operations: 0.0 });
            kinds.len() - 1
        });
        let kind = &mut kinds[index];
        kind.steps += 1;
        kind.milliseconds += time.milliseconds;
        kind.operations += time.operations;
    }
    kinds
}

/// Formats a line with the totals, and then one line for each kind of step.
pub(crate) fn table(positions: usize, times: &[StepTime]) -> Vec<String> {
    let kinds = kinds(times);
    let total: f32 = kinds.iter().map(|kind| kind.milliseconds).sum();
    let first = format!(
        "{positions} positions, {} steps one after another: {total:.3} ms, {:.0} positions/s",
        times.len(),
        positions as f32 / total * 1000.0
    );
    let lines = kinds.iter().map(|kind| {
        let Kind { name, steps, milliseconds, operations } = kind;
        let share = milliseconds / total * 100.0;
        let rate = if *operations > 0.0 {
            format!(", {:.1} TFLOP/s", operations / f64::from(*milliseconds) / 1e9)
        } else {
            String::new()
        };
        format!(
            "{name}: {steps} x {:.1} us = {milliseconds:.3} ms, {share:.1} %{rate}",
            milliseconds / *steps as f32 * 1000.0
        )
    });
    std::iter::once(first).chain(lines).collect()
}

/// Removes the numbers from a step's name, except a number at the end: "encoder 3 LayerNorm 1" becomes "encoder
/// LayerNorm 1".
fn without_numbers(name: &str) -> String {
    let words: Vec<&str> = name.split(' ').collect();
    let last = words.len() - 1;
    let is_kept = |(index, word): &(usize, &&str)| *index == last || word.parse::<u32>().is_err();
    words.iter().enumerate().filter(is_kept).map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_all_encoders_are_added_up() {
        let time = |name: &str, milliseconds, operations| StepTime {
            name: name.to_owned(),
            milliseconds,
            operations,
        };
        let times =
            [time("planes", 0.5, 0.0), time("encoder 0 FFN 1", 1.0, 1e9), time("encoder 1 FFN 1", 0.5, 1e9)];
        let lines = table(2, &times);
        assert_eq!(lines[0], "2 positions, 3 steps one after another: 2.000 ms, 1000 positions/s");
        assert_eq!(lines[1], "planes: 1 x 500.0 us = 0.500 ms, 25.0 %");
        assert_eq!(lines[2], "encoder FFN 1: 2 x 750.0 us = 1.500 ms, 75.0 %, 1.3 TFLOP/s");
        assert_eq!(lines.len(), 3);
    }
}
