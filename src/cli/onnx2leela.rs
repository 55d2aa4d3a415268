//! `onnx2leela`: makes a network file of an ONNX model.

use super::describenet;
use super::error::CliError;
use super::onnx2leela_args::{Onnx2leelaArgs, WeightsFormat};
use super::output_file::write_file;
use crate::uci::output::Output;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use prost::bytes::Bytes;
use rukh_base::regular_file;
use rukh_net::NetworkFile;
use rukh_net::describe::describe;
use rukh_net::file::MAXIMUM_SIZE;
use rukh_net::file::wrap::{Interface, Outline};
use rukh_net::onnx::edit;
use std::io::Write;

/// Reads the model, writes the file, and describes it.
///
/// # Errors
/// The model cannot be read, its inputs or outputs are not those that the flags name, or the file cannot be written.
pub(super) fn run(arguments: &Onnx2leelaArgs, output: &Output) -> Result<(), CliError> {
    let input = arguments.input.display();
    let failed = |error: &dyn std::fmt::Display| format!("cannot convert {input}: {error}");
    let bytes = regular_file::read(&arguments.input, MAXIMUM_SIZE).map_err(|error| failed(&error))?;
    let mut model = Bytes::from(bytes);
    let outline =
        Outline::of(&model).map_err(|error| failed(&format!("it is not an ONNX model: {error}")))?;
    let mut interface = arguments.interface();
    interface.complete(&outline);
    if arguments.validates() {
        check(&interface, &outline).map_err(|problem| failed(&problem))?;
    }

    let number_type = interface.planes.as_ref().map_or(1, |planes| outline.input_type(planes));
    let edited = |error: rukh_net::error::Reason| failed(&error);
    if let Some(planes) = interface.planes.as_ref().filter(|_| arguments.fix_rule50) {
        model = edit::scale_progress(&model, planes, number_type).map_err(edited)?;
    }
    if let Some(wdl) = interface.wdl.as_ref().filter(|_| arguments.fix_wdl_softmax) {
        model = edit::add_softmax(&model, wdl).map_err(edited)?;
    }
    let outputs = [&interface.policy, &interface.value, &interface.wdl, &interface.moves_left];
    for name in outputs.into_iter().flatten() {
        if let Some(cast) = edit::cast_output(&model, name, number_type).map_err(edited)? {
            model = cast;
        }
    }

    let wrapped = interface.wrap(model, number_type).encode_to_vec();
    let file =
        NetworkFile::from_bytes(&arguments.output, wrapped.into()).map_err(|error| failed(&error.reason))?;
    let file = match arguments.weights_format {
        WeightsFormat::Onnx => file,
        WeightsFormat::Native => file.with_layers().map_err(|error| failed(&error.reason))?.into_owned(),
    };
    write_file(&arguments.output, &[("the input", &arguments.input)], |writer| {
        let mut encoder = GzEncoder::new(writer, Compression::default());
        encoder.write_all(&file.to_message())?;
        encoder.finish().map(|_| ())
    })?;
    let path = arguments.output.display().to_string();
    let text = describe(&file);
    if arguments.json {
        output.line(&describenet::json(&text, &path).to_string());
    } else {
        let mut lines = vec![format!("Wrote {path}.")];
        lines.extend(text.lines().map(str::to_owned));
        output.lines(&lines);
    }
    Ok(())
}

/// Checks that the names are those of inputs and outputs of the model, as lc0 does.
fn check(interface: &Interface, outline: &Outline) -> Result<(), String> {
    if !outline.has_version {
        return Err("it has no version of the file format, so it is hardly an ONNX model".to_owned());
    }
    let known = |names: &[String]| match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    };
    let listed = |kind: &str, names: &[String], name: &Option<String>| match name {
        Some(name) if !names.contains(name) => {
            let known = rukh_base::quote::quoted(&known(names));
            Err(format!("it has no {kind} {}; it has {known}", rukh_base::quote::quoted(name)))
        }
        _ => Ok(()),
    };
    listed("input", &outline.inputs, &interface.planes)?;
    for name in [&interface.policy, &interface.value, &interface.wdl, &interface.moves_left] {
        listed("output", &outline.outputs, name)?;
    }
    let needed = |name: &Option<String>, flag: &str, usual: &str| match name {
        Some(_) => Ok(()),
        None => Err(format!(
            "--{flag} must name a tensor, because the model has none with the usual name {usual}"
        )),
    };
    needed(&interface.planes, "onnx-input", "/input/planes")?;
    needed(&interface.policy, "onnx-output-policy", "/output/policy")?;
    match (&interface.value, &interface.wdl) {
        (None, None) => {
            needed(&None, "onnx-output-value or --onnx-output-wdl", "/output/value or /output/wdl")
        }
        (Some(_), Some(_)) => {
            Err("only one of --onnx-output-value and --onnx-output-wdl can be given".to_owned())
        }
        _ => Ok(()),
    }
}
