//! Stage 3: the network's GEMMs in 16 and 32 bits, by the first algorithms that each library proposes, and by our own
//! kernels.

use super::bench::examined;
use super::reporter::Reporter;
use super::subject::Subject;
use crate::gemm::avoided::BlasLibrary;
use crate::gemm::gemms::{Effort, GemmChoice, GemmProblem, Gemms};
use crate::measure::measurer::{Measurer, Wanted, launches};
use crate::measure::samples::{Contents, Difference, Samples};
use crate::runtime::error::Result;
use crate::runtime::ffi::arguments::DenseArguments;
use crate::runtime::ffi::gemm::{GemmShape, WeightLayout};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::pinned::Staging;
use crate::runtime::ffi::program::{Program, Step};
use crate::runtime::kernels::Kernels;
use crate::runtime::numbers::short;
use crate::tuning::choices;
use serde_json::Value;
use std::collections::BTreeSet;

/// The number of hipBLASLt's algorithms to examine for each GEMM.
const MOST_ALGORITHMS: usize = 16;
const MOST_QUICK_ALGORITHMS: usize = 3;

/// The most rows of a GEMM that the option `few_rows` lets our own kernel compute.
const MOST_FEW_ROWS: usize = 1024;

/// A library is not asked for other GEMMs after so many questions that ended a process.
const MOST_DEATHS: usize = 4;

/// The name of our own kernels with preshuffled weights.
const PRESHUFFLED: &str = "Rukh's tiles, preshuffled weights";

/// What the name of a question to hipBLASLt or cuBLASLt ends with.
const QUESTION: &str = ", the question for algorithms";

pub(super) fn run(subject: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    let maker = subject.maker()?;
    let all = {
        let workspace = maker.workspace()?;
        choices::network_gemms(&maker, &workspace)?
    };
    let wanted = |layers: &Vec<GemmProblem>| Wanted { shape: layers[0].shape, layers: layers.len() };
    // Our own GEMMs of 8-bit numbers are examined with the kernels; those of hipBLASLt are not examined.
    let wanted = with_plain(all.iter().map(wanted).filter(|gemm| !gemm.shape.is_of_bytes()));
    let most = if subject.is_quick { MOST_QUICK_ALGORITHMS } else { MOST_ALGORITHMS };
    let Subject { gpu, gemms, kernels, element, .. } = subject;
    let mut examiner = Examiner {
        measurer: Measurer::new(gpu, gemms, kernels, *element, (&wanted, Effort::Quick))?,
        staging: Staging::new(gpu.device)?,
        contents: Contents::new(*element),
        gemms,
        kernels,
        most,
        blaslt: gpu.maker.blaslt(),
    };
    let deaths = report.killers().filter(|name| name.ends_with(QUESTION)).count();
    if deaths >= MOST_DEATHS {
        let blaslt = gpu.maker.blaslt();
        report
            .note(format!("{blaslt} ends a process again and again, so it is not asked for the other GEMMs"));
    }
    for gemm in &wanted {
        examiner.examine(gemm, deaths < MOST_DEATHS, report);
    }
    Ok(())
}

/// The GEMMs, and after each one with an epilogue the same without it, which rocBLAS computes instead.
fn with_plain(gemms: impl Iterator<Item = Wanted>) -> Vec<Wanted> {
    let mut seen = BTreeSet::new();
    let with_plain = gemms.flat_map(|gemm| {
        let plain = gemm.shape.without_epilogue();
        [gemm, Wanted { shape: plain, ..gemm }]
    });
    with_plain.filter(|gemm| seen.insert(gemm.shape)).collect()
}

/// A text that is different for all GEMMs of a network.
fn name(shape: &GemmShape) -> String {
    let strides = |shape: &GemmShape| [shape.weights_stride, shape.x_stride, shape.y_stride];
    let dense = GemmShape::plain(shape.rows, shape.outputs, shape.inputs, shape.input_type);
    let mut text = shape.to_string();
    if strides(shape) != strides(&dense) {
        text += &format!(" strides {:?}", strides(shape));
    }
    if shape.batch > 1 {
        text += &format!(" {:?}", shape.batch_strides);
    }
    if shape.accumulate {
        text += " added";
    }
    text
}

/// The device, the matrices, and what they hold.
struct Examiner<'a> {
    measurer: Measurer<'a>,
    staging: Staging,
    contents: Contents,
    gemms: &'a Gemms,
    kernels: &'a Kernels,
    /// The number of hipBLASLt's algorithms to examine for each GEMM.
    most: usize,
    /// hipBLASLt or cuBLASLt, by the card's maker.
    blaslt: &'static str,
}

/// A GEMM under examination.
struct Trial<'a> {
    gemm: &'a Wanted,
    /// The name in the report.
    name: String,
    /// The GEMM with the weights of each layer.
    layers: Vec<GemmProblem>,
    samples: Samples,
}

/// What an algorithm has computed, and how fast it was.
struct Outcome {
    algorithm: usize,
    difference: Difference,
    microseconds: f64,
}

impl Examiner<'_> {
    /// Examines one GEMM by every library that may compute it.
    fn examine(&mut self, gemm: &Wanted, asks_hipblaslt: bool, report: &mut Reporter<'_>) {
        let shape = &gemm.shape;
        let mut trial = None;
        let name = name(shape);
        let gemms = self.gemms;
        if asks_hipblaslt && gemms.hipblaslt_has_epilogue_of(shape) {
            let item = format!("{}, {name}", self.blaslt);
            report.item(&item, |report| {
                let trial = trial.get_or_insert_with(|| self.trial(gemm, &name));
                let mut proposals = None;
                report.attempt(&format!("{item}{QUESTION}"), |_| {
                    proposals = Some(gemms.proposals(&trial.layers[0], WeightLayout::Plain));
                    Ok(())
                });
                // Without an answer, the question ended an earlier process, which the report says.
                let Some(proposals) = proposals else { return Ok(()) };
                let choices = proposals.into_iter().take(self.most).collect();
                self.library(self.blaslt, &item, trial, choices, report)
            });
        }
        if gemms.has(BlasLibrary::Rocblas) && !shape.has_epilogue() {
            let item = format!("rocBLAS, {name}");
            report.item(&item, |report| {
                let trial = trial.get_or_insert_with(|| self.trial(gemm, &name));
                let choices = vec![GemmChoice::ROCBLAS];
                self.library("rocBLAS", &item, trial, choices, report)
            });
        }
        let own = gemms.own_choices(shape);
        if !own.is_empty() {
            let item = format!("Rukh's tiles, {name}");
            report.item(&item, |report| {
                let trial = trial.get_or_insert_with(|| self.trial(gemm, &name));
                self.library("Rukh's tiles", &item, trial, own.clone(), report)
            });
        }
        let preshuffled = own.iter().map(|&choice| gemms.with_preshuffled_weights(shape, choice));
        let preshuffled: Vec<GemmChoice> = preshuffled.flatten().collect();
        if !preshuffled.is_empty() {
            let item = format!("{PRESHUFFLED}, {name}");
            report.item(&item, |report| {
                let trial = trial.get_or_insert_with(|| self.trial(gemm, &name));
                // Without memory for these weights there is nothing to examine.
                if !self.measurer.preshuffle(&trial.layers)? {
                    return Ok(());
                }
                self.library(PRESHUFFLED, &item, trial, preshuffled, report)
            });
        }
        if self.own_step(shape, None).is_some() {
            report.item(&format!("Rukh's kernel, {name}"), |report| {
                let trial = trial.get_or_insert_with(|| self.trial(gemm, &name));
                let own =
                    |examiner: &Self, layer: &GemmProblem| Ok(examiner.own_step(&layer.shape, Some(layer)));
                let outcome = self.outcome(trial, 0, own)?;
                row("Rukh's kernel", trial, (&[outcome], &[]), report);
                Ok(())
            });
        }
    }

    fn trial<'p>(&self, gemm: &'p Wanted, name: &str) -> Trial<'p> {
        let layers = self.measurer.layers(gemm);
        let samples = Samples::new(&gemm.shape, WeightLayout::Plain, &self.contents);
        Trial { gemm, name: name.to_owned(), layers, samples }
    }

    /// Examines the algorithms of a library, or our own, for a GEMM.
    fn library(
        &mut self,
        library: &str,
        item: &str,
        trial: &Trial<'_>,
        choices: Vec<GemmChoice>,
        report: &mut Reporter<'_>,
    ) -> Result<()> {
        let mut outcomes = Vec::new();
        let name = |choice: &GemmChoice| match choice {
            GemmChoice::Own(own) => own.name(),
            GemmChoice::Rocblas { .. } | GemmChoice::HipblasLt { .. } => String::new(),
        };
        let names: Vec<String> = choices.iter().map(name).collect();
        for (algorithm, choice) in choices.into_iter().enumerate() {
            report.attempt(&format!("{item}, algorithm {algorithm}"), |_| {
                let step = |examiner: &Self, layer: &GemmProblem| {
                    examiner.gemms.step_by_choice("an examined GEMM", layer, choice)
                };
                outcomes.push(self.outcome(trial, algorithm, step)?);
                Ok(())
            });
        }
        row(library, trial, (&outcomes, &names), report);
        Ok(())
    }

    /// Computes and times a GEMM. `step` makes the step for a layer.
    fn outcome(
        &mut self,
        trial: &Trial<'_>,
        algorithm: usize,
        step: impl Fn(&Self, &GemmProblem) -> Result<Option<Step>>,
    ) -> Result<Outcome> {
        self.try_outcome(trial, algorithm, step).map_err(|error| examined(self.measurer.stream(), error))
    }

    fn try_outcome(
        &mut self,
        trial: &Trial<'_>,
        algorithm: usize,
        step: impl Fn(&Self, &GemmProblem) -> Result<Option<Step>>,
    ) -> Result<Outcome> {
        let Trial { layers, samples, .. } = trial;
        let program = |examiner: &Self, launches: usize| -> Result<Program> {
            let layers = layers.iter().cycle().take(launches);
            let steps = layers.filter_map(|layer| step(examiner, layer).transpose());
            Ok(Program::new(steps.collect::<Result<_>>()?, Vec::new()))
        };
        let once = program(self, 1)?;
        self.measurer.run_once(&once, samples.initial_byte)?;
        let rows = self.staging.download(self.measurer.results(), &samples.pieces, "a GEMM")?;
        let difference = samples.compare(&rows);
        let pilot = self.measurer.time(&once, 1)?;
        let launches = launches(pilot);
        let many = program(self, launches)?;
        let microseconds = f64::from(self.measurer.time(&many, 2)?) / launches as f64;
        Ok(Outcome { algorithm, difference, microseconds })
    }

    /// The step by our own kernel for GEMMs of few rows, if it computes this GEMM. Without a layer the step must
    /// not be run.
    fn own_step(&self, shape: &GemmShape, layer: Option<&GemmProblem>) -> Option<Step> {
        let &GemmShape { rows, outputs, inputs, input_type, .. } = shape;
        if rows > MOST_FEW_ROWS || *shape != GemmShape::plain(rows, outputs, inputs, input_type) {
            return None;
        }
        let (function, grid) = self.kernels.dense(rows, (outputs, inputs), false)?;
        let null = Address::NULL;
        let (input, weights, output) = layer
            .map_or((null, null, null), |GemmProblem { operands, .. }| {
                (operands.x, operands.weights, operands.y)
            });
        let arguments = DenseArguments {
            input,
            weights,
            output,
            bias: null,
            gammas: null,
            betas: null,
            rows: rows as i32,
            inputs: inputs as i32,
            outputs: outputs as i32,
            activation: 0,
            epsilon: 0.0,
            reserved: 0,
        };
        Some(Step::kernel("an examined GEMM".to_owned(), function, grid, arguments))
    }
}

/// Adds the row of a GEMM by a library. If no result is wrong, it names the fastest of our tiles; the names of the
/// libraries' algorithms are empty.
fn row(
    library: &str,
    trial: &Trial<'_>,
    (outcomes, names): (&[Outcome], &[String]),
    report: &mut Reporter<'_>,
) {
    let best = outcomes.iter().min_by(|a, b| a.microseconds.total_cmp(&b.microseconds));
    let error = outcomes.iter().map(|outcome| outcome.difference.error).fold(0.0, f64::max);
    let rate = |outcome: &Outcome| 2e-6 * trial.gemm.shape.multiply_adds() / outcome.microseconds;
    let wrong: Vec<String> = outcomes
        .iter()
        .filter_map(|Outcome { algorithm, difference, .. }| {
            difference.wrong.as_ref().map(|wrong| format!("algorithm {algorithm}: {wrong}"))
        })
        .collect();
    let all = outcomes.iter().map(|outcome| short(outcome.microseconds)).collect::<Vec<_>>();
    let (verdict, detail) = match (wrong.first(), outcomes.is_empty()) {
        (Some(first), _) => ("wrong".into(), format!("{} of {} wrong, {first}", wrong.len(), outcomes.len())),
        (None, true) => (Value::Null, "no algorithm".to_owned()),
        (None, false) => {
            let name = best.and_then(|best| names.get(best.algorithm));
            ("right".into(), name.cloned().unwrap_or_default())
        }
    };
    let cells = [
        ("gemm", trial.name.as_str().into()),
        ("layers", trial.gemm.layers.into()),
        ("by", library.into()),
        ("best", best.map(|best| best.algorithm).into()),
        ("µs", best.map_or(Value::Null, |best| short(best.microseconds))),
        ("TFLOP/s", best.map_or(Value::Null, |best| short(rate(best)))),
        ("error", short(error)),
        ("allowed", short(trial.samples.allowed())),
        ("verdict", verdict),
        ("detail", detail.into()),
        ("µs of all", all.into()),
    ];
    report.row("gemms", cells);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ffi::gemm::{ElementType, Epilogue};

    #[test]
    fn a_gemm_with_an_epilogue_is_followed_by_the_plain_one() {
        let plain = GemmShape::plain(64, 32, 16, ElementType::Fp16);
        let shape = GemmShape { epilogue: Epilogue::Bias, is_gated: true, ..plain };
        let other = GemmShape { accumulate: true, x_stride: 24, ..plain };
        let wanted = [shape, plain, other].map(|shape| Wanted { shape, layers: 3 });
        let all = with_plain(wanted.into_iter());
        assert_eq!(all.iter().map(|gemm| gemm.shape).collect::<Vec<_>>(), [shape, plain, other]);
        let names: BTreeSet<String> = all.iter().map(|gemm| name(&gemm.shape)).collect();
        assert_eq!(names.len(), 3);
    }
}
