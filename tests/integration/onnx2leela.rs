//! `rukh onnx2leela`, run as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};

use rukh_net::{HeadSelection, Network, NetworkFile};

use crate::driver::{Driver, run, run_any};
use crate::goldens::data_directory;
use crate::onnx_read::fingerprint;

#[track_caller]
fn fails(arguments: &[&str], expected: &str) {
    let output = run_any(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains(expected), "{arguments:?}: {errors}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

fn load(path: &Path) -> Network {
    Network::load(path, &HeadSelection::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// A temporary directory with an ONNX file, and the flag that names it.
struct Scratch {
    directory: tempfile::TempDir,
    input: String,
}

impl Scratch {
    fn new(network: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("model.onnx");
        let input = format!("--input={}", path.display());
        let native = data_directory().join(format!("{network}.pb.gz"));
        let (from, to) = (format!("--input={}", native.display()), format!("--output={}", path.display()));
        run(&["leela2onnx", &from, &to]);
        Self { directory, input }
    }

    /// A path in the directory, and the flag that makes it the output.
    fn output(&self, name: &str) -> (PathBuf, String) {
        let path = self.directory.path().join(name);
        let flag = format!("--output={}", path.display());
        (path, flag)
    }
}

#[test]
fn leela2onnx_and_onnx2leela_together_change_no_weight() {
    for name in ["micro-multihead", "micro-se-conv"] {
        let scratch = Scratch::new(name);
        let original = load(&data_directory().join(format!("{name}.pb.gz")));
        let (wrapped, output) = scratch.output("wrapped.pb.gz");
        let text = run(&["onnx2leela", &scratch.input, &output]);
        assert!(text.contains("Network: NETWORK_ONNX") && text.contains("Output WDL: /output/wdl"), "{text}");
        assert_eq!(fingerprint(&load(&wrapped)), fingerprint(&original), "{name}");

        let (native, output) = scratch.output("native.pb.gz");
        let text = run(&["onnx2leela", &scratch.input, &output, "--weights-format=native"]);
        assert!(text.contains("FLOPs per position") && !text.contains("ONNX"), "{text}");
        assert_eq!(fingerprint(&load(&native)), fingerprint(&original), "{name}");
        assert!(NetworkFile::open(&native).is_ok_and(|file| file.weights().is_some()));
    }
}

#[test]
fn a_network_in_an_onnx_model_plays() {
    let scratch = Scratch::new("micro-attn");
    let (wrapped, output) = scratch.output("wrapped.pb.gz");
    run(&["onnx2leela", &scratch.input, &output]);
    let mut engine = Driver::start(&["--backend=cpu", "--config="]);
    engine.send(&format!("setoption name WeightsFile value {}", wrapped.display()));
    engine.send("go nodes 20");
    let text = engine.until("bestmove").join("\n");
    assert!(!text.contains("error"), "{text}");
}

#[test]
fn wrong_names_and_files_are_explained() {
    let scratch = Scratch::new("micro-attn");
    let (path, output) = scratch.output("out.pb.gz");
    let with = |flags: &[&'static str]| {
        let mut arguments = vec!["onnx2leela".to_owned(), scratch.input.clone(), output.clone()];
        arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
        arguments
    };
    let refused = |flags: &[&'static str], expected: &str| {
        let arguments = with(flags);
        fails(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    };
    refused(&["--onnx-input=planes"], "it has no input `planes`; it has `/input/planes`");
    refused(&["--onnx-output-value=v", "--onnx-output-wdl=/output/wdl"], "it has no output `v`");
    refused(&["--onnx-output-value=/output/mlh", "--onnx-output-wdl=/output/wdl"], "only one of");
    refused(&["--input-format=INPUT_113"], "INPUT_CLASSICAL_112_PLANE");
    refused(&["--onnx-output-policy=/output/wdl", "--weights-format=native"], "the operator `Softmax`");
    assert!(!path.exists());
    fails(&["onnx2leela", "--input=nowhere.onnx", &output], "cannot convert nowhere.onnx: ");
    let model = scratch.input.trim_start_matches("--input=");
    let itself = format!("--output={model}");
    fails(&["onnx2leela", &scratch.input, &itself], "is the same file as the input");
    fs::write(model, b"not a model").expect("a file can be written");
    refused(&[], "it is not an ONNX model");
}

#[test]
fn the_description_is_printed_as_json() {
    let scratch = Scratch::new("micro-classical-wdl");
    let (path, output) = scratch.output("out.pb.gz");
    let text = run(&[
        "onnx2leela",
        &scratch.input,
        &output,
        "--input-format=INPUT_112_WITH_CASTLING_PLANE",
        "--json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(json["file"], path.display().to_string());
    assert_eq!(json["Format"]["Input"], "INPUT_112_WITH_CASTLING_PLANE");
    assert_eq!(json["Weights"]["Filters"], 16);
}
