//! What an analysis of files is asked to do.

use super::annotate::Style;
use super::document::Selection;
use super::input::InputFormat;
use super::input_state::{InputState, digest};
use super::output::OutputFormat;
use super::part::PartRecord;
use super::pool::Limits;
use rukh_base::distinct_files::{SharedFile, check_distinct};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

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
    /// The file of the first document's picture, which the caller draws.
    pub picture: Option<PathBuf>,
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
    /// Whether JSON and CSV have the policy.
    pub includes_policy: bool,
    /// Whether documents are written in the order of the input.
    pub is_ordered: bool,
    /// Which documents are analysed: those whose number leaves this remainder (first) after the division by the number of
    /// shards (second).
    pub shard: (u64, u64),
    /// All other settings that results depend on, as text for the journal.
    pub settings: String,
    /// `settings` without paths and backend, which may differ between the machines that make the parts.
    pub common_settings: String,
}

impl BatchConfig {
    /// The path of the journal beside the output. A device or a pipe has none, because nothing can be cut off there.
    pub(super) fn journal(&self) -> Option<PathBuf> {
        let output = self.output.as_deref()?;
        let is_special = fs::metadata(output).is_ok_and(|metadata| !metadata.is_file());
        (!is_special).then(|| output.with_added_extension("journal"))
    }

    /// Checks that no file is written that is another one of the command.
    ///
    /// # Errors
    /// Two are the same file.
    pub fn check_files(&self) -> Result<(), SharedFile> {
        self.check_files_with(self.picture.as_deref())
    }

    /// Checks the same for the picture of another document.
    ///
    /// # Errors
    /// Two are the same file.
    pub fn check_files_with(&self, picture: Option<&Path>) -> Result<(), SharedFile> {
        let (journal, record) = (self.journal(), self.record());
        let written = [
            ("--svg", picture),
            ("the output", self.output.as_deref()),
            ("the file of refused games and lines", self.rejected.as_deref()),
            ("the journal of the output", journal.as_deref()),
            ("the record of the output", record.as_deref()),
        ];
        let written: Vec<_> = written.into_iter().filter_map(|(name, path)| Some((name, path?))).collect();
        let read: Vec<_> = self
            .inputs
            .iter()
            .filter(|path| path.as_os_str() != "-")
            .map(|path| ("the input", path.as_path()))
            .collect();
        check_distinct(&written, &read)
    }

    /// The record of the part that is the output, or that an earlier analysis has left there; none beside a device.
    pub(super) fn record(&self) -> Option<PathBuf> {
        self.journal()?;
        self.output.as_deref().map(PartRecord::path_of)
    }

    /// What the parts of an analysis with `network` have in common. Paths, numbers of threads and, with a network, the
    /// backend may differ between machines.
    ///
    /// # Errors
    /// The network's file cannot be read.
    pub(super) fn analysis(&self, network: &str) -> io::Result<String> {
        let BatchConfig { inputs, format, selection, style, limits, multipv, .. } = self;
        let BatchConfig { includes_policy, common_settings, .. } = self;
        // `network` is no path if the network is the one in the binary, or if the backend has none.
        let network = match InputState::of(Path::new(network)) {
            Some(_) => format!("{:016x}", digest(Path::new(network))?),
            None => network.to_owned(),
        };
        let sizes: Vec<u64> =
            inputs.iter().map(|path| InputState::of(path).map_or(0, |state| state.bytes)).collect();
        let text = format!(
            "{} {network} {sizes:?} {format:?} {selection:?} {style:?} {limits:?} {multipv} \
             {includes_policy} {common_settings}",
            rukh_base::version::version()
        );
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Ok(format!("{:016x}", hasher.finish()))
    }

    /// Everything that the results depend on, as text.
    pub(super) fn settings_text(&self) -> String {
        let BatchConfig { inputs, input_format, output, format, rejected, selection, style, .. } = self;
        let BatchConfig { limits, multipv, includes_policy, is_ordered, shard, settings, .. } = self;
        let files = (inputs, input_format, output, format, rejected);
        format!(
            "{files:?} {selection:?} {style:?} {limits:?} {multipv} {includes_policy} {is_ordered} {shard:?} {settings}"
        )
    }
}
