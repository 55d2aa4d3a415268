//! The head for the value's error, on the emulator. The golden sets have no figures for this error, so these tests make
//! an error head from a value head. Its output then follows from lc0's win, draw and loss, because the sigmoid of the
//! difference between two logits is p1 / (p1 + p2), where p1 and p2 are their softmax.

use rukh_backend::Value;
use rukh_cpu::{CpuNetwork, InstructionSet};
use rukh_net::input::encode;
use rukh_net::network::{ScalarHead, ValueError};
use rukh_net::weights::HeadInput;

use super::*;
use crate::rocm_errors::{search_with, stdout};
use crate::uncertainty::with_value_error;

/// The hidden layer of the error head.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Hidden {
    /// The error head shares the value head's layers.
    Shared,
    /// The error head has layers of its own: those of the value head with all units in reverse order.
    Own,
}

/// The network of `set` with an error head that is made from its value head `name`.
fn with_error(set: &GoldenSet, name: &str, hidden: Hidden) -> Network {
    let mut network = Network::load_bytes(&set.network, &set.heads).expect("a committed network loads");
    let heads = HeadSelection { value: name.to_owned(), ..set.heads.clone() };
    let value = Network::load_bytes(&set.network, &heads).expect("a committed network loads").value;
    network.value_error = Some(ValueError::of_head(error_head(&value, hidden), &network.value));
    network
}

/// An error head whose logit is that of a win minus that of a loss, or twice the only output of a classical head.
fn error_head(value: &ScalarHead, hidden: Hidden) -> ScalarHead {
    let ScalarHead { mut input, hidden: mut layer, output } = value.clone();
    let of_outputs = |values: &[f32], width: usize| -> Vec<f32> {
        match output.outputs {
            3 => (0..width).map(|i| values[i] - values[2 * width + i]).collect(),
            _ => values.iter().map(|value| 2.0 * value).collect(),
        }
    };
    let mut weights = of_outputs(&output.weights, output.inputs);
    if hidden == Hidden::Own {
        layer.weights = layer.weights.chunks_exact(layer.inputs).rev().flatten().copied().collect();
        layer.biases.reverse();
        weights.reverse();
        // The channels of the first layer are reversed, too, together with the weights that read them.
        reverse_channels(&mut input, &mut layer);
    }
    let output = Dense { weights, biases: of_outputs(&output.biases, 1), inputs: output.inputs, outputs: 1 };
    ScalarHead { input, hidden: layer, output }
}

/// Reverses the output channels of the first layer, and the weights of the next layer accordingly.
fn reverse_channels(input: &mut HeadInput, next: &mut Dense) {
    let (weights, biases, is_squares_first) = match input {
        HeadInput::Convolution(layer) => (&mut layer.weights, &mut layer.biases, false),
        HeadInput::Dense(layer) => (&mut layer.weights, &mut layer.biases, true),
    };
    let (channels, inputs) = (biases.len(), weights.len() / biases.len());
    *weights = weights.chunks_exact(inputs).rev().flatten().copied().collect();
    biases.reverse();
    for row in next.weights.chunks_exact_mut(next.inputs) {
        let old = row.to_vec();
        for (i, weight) in row.iter_mut().enumerate() {
            let from = match is_squares_first {
                true => i / channels * channels + channels - 1 - i % channels,
                false => (channels - 1 - i / 64) * 64 + i % 64,
            };
            *weight = old[from];
        }
    }
}

/// The output of [`error_head`], calculated from lc0's q and d: win / (win + loss).
fn expected_error(set: &GoldenSet, golden: &GoldenPosition) -> f32 {
    let win_and_loss = if set.has_wdl { 1.0 - golden.d } else { 1.0 };
    0.5 + golden.q / win_and_loss / 2.0
}

/// The largest differences of the error from the expected one and from that of the CPU in fp32.
#[derive(Default)]
struct Farthest {
    from_lc0: f32,
    from_cpu: f32,
}

/// Checks every sixth position of `set`. The set `lc0` has lc0's evaluations with the value head `name`.
fn check_error(
    set: &GoldenSet,
    (name, lc0): (&str, &GoldenSet),
    hidden: Hidden,
    farthest: &mut [Farthest; 3],
) {
    let network = with_error(set, name, hidden);
    let some = |set: &GoldenSet| -> Vec<Sample> { set.positions.iter().step_by(6).map(sample).collect() };
    let (samples, lc0_samples) = (some(set), some(lc0));
    let inputs: Vec<_> = samples
        .iter()
        .map(|sample| encode(&sample.history, network.architecture.input_format, HistoryFill::FenOnly).0)
        .collect();
    let cpu = CpuNetwork::new(network.clone(), Precision::Fp32, InstructionSet::best()).evaluate_raw(&inputs);
    for ((precision, limit), farthest) in PRECISIONS.into_iter().zip(farthest) {
        let gpu = backend_of(&network, precision, &options(16));
        assert!(gpu.attributes().has_value_error);
        for (index, (value, _)) in evaluate(&gpu, &samples).iter().enumerate() {
            let (found, on_cpu) = (value.e, cpu[index].e);
            assert_eq!(samples[index].golden.id, lc0_samples[index].golden.id);
            let expected = expected_error(lc0, &lc0_samples[index].golden);
            let what = format!("{} {}, {hidden:?}", set.name, samples[index].golden.id);
            assert!((on_cpu - expected).abs() <= FP32.q, "{what}: {on_cpu} on the CPU, {expected}");
            let (from_lc0, from_cpu) = ((found - expected).abs(), (found - on_cpu).abs());
            assert!(from_lc0 <= limit.q, "{what}, {precision:?}: {found} {expected}");
            farthest.from_lc0 = farthest.from_lc0.max(from_lc0);
            farthest.from_cpu = farthest.from_cpu.max(from_cpu);
        }
    }
}

#[test]
fn the_error_follows_from_lc0s_win_draw_and_loss() {
    on_emulator("value_error::the_error_follows_from_lc0s_win_draw_and_loss", &[], || {
        let sets = goldens::committed();
        let mut farthest = Default::default();
        // Sets that differ only in the input format or in the policy head would repeat the same check.
        for set in sets.iter().filter(|set| !set.name.contains("-in") && !set.name.contains(".policy-")) {
            for hidden in [Hidden::Shared, Hidden::Own] {
                check_error(set, (&set.heads.value, set), hidden, &mut farthest);
            }
        }
        // The error head may belong to another value head than the selected one, as in lc0's own networks.
        let named = |name: &str| sets.iter().find(|set| set.name == name).expect("the set is committed");
        let short_term = ("st", named("micro-multihead.value-st"));
        check_error(named("micro-multihead"), short_term, Hidden::Shared, &mut farthest);
        for ((precision, limit), Farthest { from_lc0, from_cpu }) in PRECISIONS.iter().zip(farthest) {
            let limit = limit.q;
            println!(
                "{precision:?}: {from_lc0:.1e} from lc0, {from_cpu:.1e} from the CPU, limit {limit:.0e}"
            );
        }
    });
}

/// The error is the same in every batch and with parallel branches, and the other outputs do not depend on it.
fn batches_and_branches() {
    let set = goldens::named("micro-multihead");
    let samples: Vec<Sample> = set.positions.iter().take(20).map(sample).collect();
    let backend = |network: &Network, options: &GpuOptions| backend_of(network, GpuPrecision::Fp16, options);
    let (one, forked) = (options(1), GpuOptions { fork: Some(32), ..options(32) });
    for (hidden, name) in [(Hidden::Shared, "winner"), (Hidden::Own, "winner"), (Hidden::Shared, "st")] {
        let network = with_error(&set, name, hidden);
        let plain = Network { value_error: None, ..network.clone() };
        let (plain, one, forked) =
            (backend(&plain, &forked), backend(&network, &one), backend(&network, &forked));
        assert!(!plain.attributes().has_value_error);
        let alone: Vec<f32> = samples
            .iter()
            .map(|sample| evaluate(&one, [sample]).iter().next().expect("one answer").0.e)
            .collect();
        for count in [1, 3, 20] {
            // The first batch runs step by step, the others as a graph in two orders.
            for _ in 0..3 {
                let (found, without) =
                    (evaluate(&forked, &samples[..count]), evaluate(&plain, &samples[..count]));
                for ((found, without), alone) in found.iter().zip(without.iter()).zip(&alone) {
                    let (value, priors) = found;
                    let difference = (value.e - alone).abs();
                    assert!(difference <= 1e-3, "{name}, {hidden:?}, {count} positions: {difference}");
                    assert_eq!((Value { e: 0.0, ..value }, priors), without);
                }
            }
        }
    }
}

#[test]
fn the_error_does_not_depend_on_batches_or_branches() {
    on_emulator("value_error::the_error_does_not_depend_on_batches_or_branches", &[], batches_and_branches);
}

#[test]
fn the_error_does_not_depend_on_batches_or_branches_on_gfx1151() {
    let settings = [("RUKH_EMULATOR_ARCH", "gfx1151")];
    let name = "value_error::the_error_does_not_depend_on_batches_or_branches_on_gfx1151";
    on_emulator(name, &settings, batches_and_branches);
}

#[test]
fn on_shared_layers_the_error_costs_one_launch_and_without_a_head_none() {
    let name = "value_error::on_shared_layers_the_error_costs_one_launch_and_without_a_head_none";
    on_emulator(name, &[], || {
        let set = goldens::named("micro-attn");
        let steps = |network: &Network| -> Vec<String> {
            let options =
                GpuOptions { time_steps: Some(1), warm_up: true, tuning: Tuning::Off, ..options(1) };
            let backend = backend_of(network, GpuPrecision::Fp16, &options);
            let names = backend.notices().iter().filter_map(|line| line.split_once(": "));
            names.map(|(name, _)| name.to_owned()).filter(|name| name.starts_with("value error")).collect()
        };
        let with = |hidden| with_error(&set, &set.heads.value, hidden);
        let none = Network::load_bytes(&set.network, &set.heads).expect("a committed network loads");
        assert_eq!(steps(&none), [""; 0]);
        assert_eq!(steps(&with(Hidden::Shared)), ["value error output"]);
        let own = steps(&with(Hidden::Own));
        let (first, last) = (own.first().map(String::as_str), own.last().map(String::as_str));
        assert_eq!((first, last), (Some("value error embedding"), Some("value error output")), "{own:?}");
    });
}

#[test]
fn the_engine_weights_visits_by_the_error_from_a_gpu() {
    let (libraries, folder) = (libraries(), tempfile::tempdir().expect("a temporary folder"));
    let path = folder.path().join("network.pb.gz");
    std::fs::write(&path, with_value_error()).expect("the network is written");
    let notice = "does not estimate the error of its values";
    for switch in ["--use-uncertainty-weighting", "--use-cpuct-uncertainty"] {
        let arguments = ["--backend=rocm", "-o", "max_batch=4,warm_up=false", switch];
        let search = |network: &str| stdout(&search_with(network, libraries.path(), &arguments, &[]));
        let text = search(path.to_str().expect("the path is UTF-8"));
        assert!(!text.contains(notice) && !text.contains("error:"), "{text}");
        let text = search(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz"));
        assert!(text.contains(notice), "{text}");
    }
    // Compare the GPU with the CPU: `check` includes the error of every position.
    let options = "freq=1,atol=0.0001,(backend=rocm,max_batch=4,warm_up=false),(backend=cpu)";
    let arguments = ["--backend=check", "-o", options, "--use-uncertainty-weighting"];
    let output = search_with(path.to_str().expect("the path is UTF-8"), libraries.path(), &arguments, &[]);
    let text = stdout(&output);
    assert!(!text.contains(notice) && !text.contains("error:"), "{text}");
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(report.contains("check: passed") && !report.contains("FAILED"), "{report}");
}
