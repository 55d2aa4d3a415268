//! The flags of `analyze`.

use super::shard::shard;
use crate::analysis::annotate::{Style, Variations};
use crate::analysis::config::BatchConfig;
use crate::analysis::document::Selection;
use crate::analysis::input::InputFormat;
use crate::analysis::output::OutputFormat;
use crate::analysis::pool::Limits;
use crate::analysis::protocol::Defaults;
use clap::Args;
use rukh_chess::Color;
use rukh_options::Options;
use std::path::{Path, PathBuf};

/// Flags of `analyze`.
#[derive(Args, Debug, Clone)]
pub(super) struct AnalyzeArgs {
    /// Files to analyse, as PGN, EPD, FEN lines or JSON lines, also compressed (.gz, .zst); `-`, or none, means stdin
    #[arg(value_name = "FILE")]
    inputs: Vec<PathBuf>,
    /// Visits of the root at which the search of a position ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=999_999_999))]
    nodes: Option<u64>,
    /// Milliseconds for each position
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=999_999_999))]
    movetime: Option<u64>,
    /// File of the results; without it they go to stdout, and an analysis that is killed cannot go on
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the results; without it the name of the output says it, or else the format of the input
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Format of the input (FEN lines are EPD); without it the name of each file says it, or else its first bytes
    #[arg(long, value_enum)]
    input_format: Option<ReadFormat>,
    /// Writes the output anew although it exists
    #[arg(long)]
    overwrite: bool,
    /// File to which games and lines go that cannot be read; by default the output's name with .rejected
    #[arg(long, value_name = "FILE")]
    rejected: Option<PathBuf>,
    /// Adds the network's probabilities of all legal moves to JSON lines and CSV
    #[arg(long)]
    policy: bool,
    /// Numbers of the first and the last move to analyse in each game, as in 10-30, 10- or 12
    #[arg(long, value_name = "A-B", value_parser = move_range)]
    moves: Option<(u32, u32)>,
    /// Analyses the moves of one side only
    #[arg(long, value_enum)]
    side: Option<Side>,
    /// Moves for which the better lines are added to a game as variations
    #[arg(long, value_enum, default_value = "mistakes")]
    variations: VariationsFlag,
    /// Most moves of a variation
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=200))]
    line_plies: u32,
    /// Losses of expected score, in percent of a point, from which a move gets ?!, ? and ??
    #[arg(long, value_name = "A,B,C", default_value = "5,10,15", value_parser = thresholds)]
    glyphs: [f64; 3],
    /// Writes each game or line as soon as it is done, and not in the order of the input
    #[arg(long)]
    unordered: bool,
    /// Analyses only every n-th game or line, from the i-th on (i is 1 to n), so that n processes share the work
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(u64, u64)>,
    /// Number of positions to search at once; 0 chooses as many as keep the backend busy
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=4096))]
    parallelism: u32,
    /// Draws White's expected score by move, in this file; a second game goes to NAME-2.svg
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Answers requests on stdin, one a line, instead of analysing files
    #[arg(long, value_enum, conflicts_with_all = ["inputs", "output", "input_format", "overwrite", "rejected",
          "unordered", "shard", "svg"])]
    protocol: Option<Protocol>,
    /// Ends at once when stdin ends, as it does when the program that sends the requests is killed, and leaves requests
    /// without an answer
    #[arg(long, requires = "protocol")]
    pub(super) end_with_stdin: bool,
    /// Prints the figures at the end as JSON, on stdout if the results go to a file, and otherwise on stderr
    #[arg(long)]
    pub(super) json: bool,
}

/// The formats that can be written.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum Format {
    Pgn,
    Epd,
    Jsonl,
    Csv,
}

impl Format {
    fn output(self) -> OutputFormat {
        match self {
            Format::Pgn => OutputFormat::Pgn,
            Format::Epd => OutputFormat::Epd,
            Format::Jsonl => OutputFormat::Jsonl,
            Format::Csv => OutputFormat::Csv,
        }
    }
}

/// The formats that can be read.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum ReadFormat {
    Pgn,
    #[value(alias = "fen")]
    Epd,
    Jsonl,
}

/// The languages of requests.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum Protocol {
    Json,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum Side {
    White,
    Black,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum VariationsFlag {
    None,
    Mistakes,
    All,
}

fn move_range(text: &str) -> Result<(u32, u32), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let parse = |text: &str, if_empty| match text.trim() {
        "" => Some(if_empty),
        text => text.parse::<u32>().ok(),
    };
    match (parse(first, 1), parse(last, u32::MAX)) {
        (Some(first), Some(last)) if first <= last && !text.trim().is_empty() => Ok((first, last)),
        _ => Err("not two numbers of moves, the smaller one first, as in 10-30".to_owned()),
    }
}

fn thresholds(text: &str) -> Result<[f64; 3], String> {
    let values: Vec<f64> = text.split(',').filter_map(|text| text.trim().parse().ok()).collect();
    let is_allowed = values.iter().all(|value| (0.0..=100.0).contains(value)) && values.is_sorted();
    match values[..] {
        [a, b, c] if is_allowed && text.matches(',').count() == 2 => Ok([a, b, c].map(|value| value / 100.0)),
        _ => Err("not three numbers from 0 to 100 in ascending order, as in 5,10,15".to_owned()),
    }
}

impl AnalyzeArgs {
    /// The number of searches at once; `None` if the user does not say.
    pub(super) fn parallelism(&self) -> Option<usize> {
        Some(self.parallelism as usize).filter(|&searches| searches > 0)
    }

    /// When a search ends.
    pub(super) fn limits(&self) -> Limits {
        Limits { nodes: self.nodes, movetime_ms: self.movetime }
    }

    /// Whether to answer requests instead of analysing files.
    pub(super) fn is_server(&self) -> bool {
        self.protocol.is_some()
    }

    /// The file of the results.
    pub(super) fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Which positions of a game are searched.
    fn selection(&self) -> Selection {
        Selection {
            moves: self.moves,
            side: self.side.map(|side| match side {
                Side::White => Color::White,
                Side::Black => Color::Black,
            }),
        }
    }

    /// How games are annotated.
    fn style(&self) -> Style {
        Style {
            thresholds: self.glyphs,
            variations: match self.variations {
                VariationsFlag::None => Variations::None,
                VariationsFlag::Mistakes => Variations::Mistakes,
                VariationsFlag::All => Variations::All,
            },
            line_plies: self.line_plies as usize,
        }
    }

    /// What applies to requests that do not say it.
    pub(super) fn defaults(&self, options: &Options) -> Defaults {
        Defaults {
            limits: self.limits(),
            multipv: options.multipv as usize,
            includes_policy: self.policy,
            selection: self.selection(),
            style: self.style(),
            format: self.format.map(Format::output),
        }
    }

    /// The analysis of files that the flags describe.
    ///
    /// # Errors
    /// A search would never end, or the name of the output promises a compressed file.
    pub(super) fn config(&self, options: &Options) -> Result<BatchConfig, String> {
        let limits = self.limits();
        if limits == Limits::default() {
            return Err("say when a search ends: --nodes or --movetime, for instance --nodes=400".to_owned());
        }
        let inputs = if self.inputs.is_empty() { vec![PathBuf::from("-")] } else { self.inputs.clone() };
        let input_format = self.input_format.map(|format| match format {
            ReadFormat::Pgn => InputFormat::Pgn,
            ReadFormat::Epd => InputFormat::Epd,
            ReadFormat::Jsonl => InputFormat::Jsonl,
        });
        let rejected =
            self.rejected.clone().or_else(|| Some(self.output.as_ref()?.with_added_extension("rejected")));
        Ok(BatchConfig {
            format: self.output_format(&inputs, input_format)?,
            inputs,
            input_format,
            output: self.output.clone(),
            rejected,
            picture: self.svg.clone(),
            overwrite: self.overwrite,
            selection: self.selection(),
            style: self.style(),
            limits,
            multipv: options.multipv as usize,
            includes_policy: self.policy,
            is_ordered: !self.unordered,
            shard: self.shard.unwrap_or((0, 1)),
            settings: settings_text(options),
            common_settings: common_settings_text(options),
        })
    }

    fn output_format(
        &self,
        inputs: &[PathBuf],
        input_format: Option<InputFormat>,
    ) -> Result<OutputFormat, String> {
        let ending =
            |path: &Path| path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let ending = self.output.as_deref().and_then(ending);
        if let Some(ending) = ending.as_deref().filter(|ending| ["gz", "zst"].contains(ending)) {
            return Err(format!(
                "the output is not compressed, because an analysis that was killed could not go on; \
                 choose a name without .{ending}"
            ));
        }
        Ok(match (self.format, ending.as_deref()) {
            (Some(format), _) => format.output(),
            (None, Some("pgn")) => OutputFormat::Pgn,
            (None, Some("epd" | "fen")) => OutputFormat::Epd,
            (None, Some("jsonl" | "ndjson" | "json")) => OutputFormat::Jsonl,
            (None, Some("csv")) => OutputFormat::Csv,
            (None, _) => input_format
                .or(inputs.first().and_then(|path| InputFormat::of_name(path)))
                .map_or(OutputFormat::Pgn, OutputFormat::of_input),
        })
    }
}

/// The options that results depend on. How much memory and how many threads there are does not count, so that an
/// analysis can go on with more or with less.
fn settings_text(options: &Options) -> String {
    let defaults = Options::default();
    let Options { nncache, ramlimit_mb, hash, threads, logfile, config, .. } = defaults;
    let of_results = Options { nncache, ramlimit_mb, hash, threads, logfile, config, ..options.clone() };
    format!("{of_results:?}")
}

/// [`settings_text`] without what may differ between the machines that analyse parts: paths, and the backend.
fn common_settings_text(options: &Options) -> String {
    let Options { weights, backend, backend_opts, syzygy_paths, .. } = Options::default();
    settings_text(&Options { weights, backend, backend_opts, syzygy_paths, ..options.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_thresholds_are_read() {
        assert_eq!(move_range("10-30"), Ok((10, 30)));
        assert_eq!(move_range("10-"), Ok((10, u32::MAX)));
        assert_eq!(move_range("-8"), Ok((1, 8)));
        assert_eq!(move_range("12"), Ok((12, 12)));
        assert!(["", "30-10", "a", "1-b"].iter().all(|text| move_range(text).is_err()));
        assert_eq!(thresholds("5, 10,20"), Ok([0.05, 0.1, 0.2]));
        assert!(["5,10", "10,5,20", "5,10,101", "5,x,10,20"].iter().all(|text| thresholds(text).is_err()));
    }
}
