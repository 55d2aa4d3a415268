//! `leela2onnx`: converts a network file to an ONNX file.

use super::args::Leela2onnxArgs;
use super::error::{CliError, WrongArguments, print_error_line};
use super::output_file::write_file;
use crate::uci::output::Output;
use rukh_net::describe::{describe, describe_onnx};
use rukh_net::discover::find_network;
use rukh_net::file::proto::OnnxModel;
use rukh_net::onnx::write::{WriteError, convert};
use rukh_net::{HeadSelection, NetworkFile};

/// Converts the file and prints what was read and written.
///
/// # Errors
/// The network cannot be read or converted, or the file cannot be written.
pub(super) fn run(arguments: &Leela2onnxArgs, output: &Output) -> Result<(), CliError> {
    let file = find_network(&arguments.input, print_error_line).map_err(|error| error.to_string())?;
    let (onnx, action) = match &file.header().onnx_model {
        Some(onnx) if file.weights().is_none() => {
            let model = onnx.model.clone().unwrap_or_default();
            write_file(&arguments.output, &[("the input", file.path())], |output| output.write_all(&model))?;
            (onnx.clone(), "extracted the ONNX model that it contains")
        }
        _ => (write_converted(arguments, &file)?, "converted it to ONNX"),
    };
    let path = arguments.output.display().to_string();
    if arguments.json {
        let text = |field: &Option<prost::bytes::Bytes>| {
            field.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let json = serde_json::json!({
            "input": file.path().display().to_string(),
            "output": path,
            "action": action,
            "data_type": onnx.data_type,
            "input_planes": text(&onnx.input_planes),
            "output_policy": text(&onnx.output_policy),
            "output_wdl": text(&onnx.output_wdl),
            "output_value": text(&onnx.output_value),
            "output_mlh": text(&onnx.output_mlh),
        });
        output.line(&json.to_string());
    } else {
        let mut text = format!("Read {}, and {action}.\n", file.path().display());
        if file.weights().is_some() {
            text += &describe(&file);
            text += &describe_onnx(&OnnxModel { model: None, ..onnx });
        } else {
            text += &describe(&file);
        }
        text += &format!("\nWrote {path}.");
        output.lines(&text.lines().collect::<Vec<_>>());
    }
    Ok(())
}

/// Converts the network and writes the ONNX file. The result says how the tensors are called.
fn write_converted(arguments: &Leela2onnxArgs, file: &NetworkFile) -> Result<OnnxModel, CliError> {
    let heads = HeadSelection {
        policy: arguments.policy_head.clone(),
        value: arguments.value_head.clone(),
        ..HeadSelection::default()
    };
    let settings = arguments.settings();
    let network = file.network(&heads).map_err(|error| error.to_string())?;
    let converted = convert(&network, &settings).map_err(|error| {
        let text = format!("cannot convert {} to ONNX: {error}", file.path().display());
        // The names of the inputs and outputs are flags, too.
        match error {
            WriteError::Settings(_) | WriteError::SameName(_) => CliError::from(WrongArguments(text)),
            WriteError::TooLarge { .. } => text.into(),
        }
    })?;
    drop(network);
    write_file(&arguments.output, &[("the input", file.path())], |output| converted.write_to(output))?;
    let names = settings.names;
    let has = |name: &str| {
        converted.graph.output.iter().any(|output| output.name.as_deref() == Some(name.as_bytes()))
    };
    let if_output = |name: String| has(&name).then(|| name.into());
    Ok(OnnxModel {
        model: None,
        data_type: Some(settings.data_type.number()),
        input_planes: Some(names.planes.into()),
        output_value: if_output(names.value),
        output_wdl: if_output(names.wdl),
        output_policy: if_output(names.policy),
        output_mlh: if_output(names.moves_left),
    })
}
