//! What an analysis of files is asked to do.

use super::annotate::Style;
use super::document::Selection;
use super::input::InputFormat;
use super::output::OutputFormat;
use super::pool::Limits;
use std::path::PathBuf;

/// What is analysed, and how.
#[derive(Clone, Debug)]
pub struct BatchConfig {
    /// The files; `-` is stdin.
    pub inputs: Vec<PathBuf>,
    /// Their format; `None` means that each file says it by its name or its first bytes.
    pub input_format: Option<InputFormat>,
    /// The file of the results; `None` means stdout, without a journal.
    pub output: Option<PathBuf>,
    /// The format of the results.
    pub format: OutputFormat,
    /// The file of the documents that are refused; `None` means that they are only named.
    pub rejected: Option<PathBuf>,
    /// Whether to begin anew although there is an output or a journal.
    pub overwrite: bool,
    /// Which positions of a game are searched.
    pub selection: Selection,
    /// How games are annotated.
    pub style: Style,
    /// When a search ends.
    pub limits: Limits,
    /// The number of best lines.
    pub multipv: usize,
    /// Whether documents are written in the order of the input.
    pub is_ordered: bool,
    /// Which documents are analysed: those whose number leaves this remainder (first) after the division by the number of
    /// shards (second).
    pub shard: (u64, u64),
    /// All other settings that results depend on, as text for the journal.
    pub settings: String,
}

impl BatchConfig {
    /// Everything that the results depend on, as text.
    pub(super) fn settings_text(&self) -> String {
        let BatchConfig { inputs, input_format, output, format, rejected, selection, style, .. } = self;
        let BatchConfig { limits, multipv, is_ordered, shard, settings, .. } = self;
        let files = (inputs, input_format, output, format, rejected);
        format!("{files:?} {selection:?} {style:?} {limits:?} {multipv} {is_ordered} {shard:?} {settings}")
    }
}
