//! `bench` and `benchmark`: search a list of positions and report nodes per second.
//!
//! The output has lc0's format. As in lc0, only nodes and time end a search: smart pruning and the move overhead are
//! off by default. `--signature` prints a hash of the nodes, depths and moves of searches on the `trivial` backend. The
//! hash is the same on every machine and changes only if the search changes.
//!
//! OpenBench runs `bench` without flags, and reads `N nodes N nps` at the end. It compares the nodes with those of other
//! machines, and it adjusts the time of games to the speed. Evaluations of a network differ in their last bits from
//! processor to processor, and so do the nodes of a search with it. So the nodes are those of searches to a given depth
//! on the `trivial` backend, with one thread. The speed is that of the timed searches with the network.

use super::chart::{Chart, Mark, Panel, Places, Shape};
use super::defaults::{default_options, with_defaults_of_bench};
use super::error::{CliError, WrongArguments, print_error_line};
use super::machine;
use super::output_file::{check_outputs, open_log};
use crate::uci::output::Output;
use rukh_chess::bench_positions::POSITIONS;
use rukh_chess::{Position, uci_move};
use rukh_engine::Engine;
use rukh_options::{BackendName, Options};
use rukh_search::info::{BestMove, Responder, ThinkingInfo};
use rukh_search::limits::{GoParams, PositionCommand, StartPosition};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The limits that apply unless flags change them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    /// Milliseconds for each position.
    pub movetime_ms: i64,
    /// Number of positions.
    pub positions: u32,
    /// Whether OpenBench's line is printed if no flag asks for something else.
    pub for_openbench: bool,
}

/// The limits of `bench`.
pub(super) const SHORT: Defaults = Defaults { movetime_ms: 500, positions: 10, for_openbench: true };

/// The limits of `benchmark`.
pub(super) const LONG: Defaults = Defaults { movetime_ms: 10_000, positions: 34, for_openbench: false };

/// Nodes for each position of the signature, unless `--nodes` is given.
const SIGNATURE_NODES: u64 = 10_000;

/// The depth of OpenBench's searches. They are short beside the timed ones.
const OPENBENCH_DEPTH: u32 = 6;
/// The most nodes of such a search, in case that a change of the search makes the depth hard to reach.
const OPENBENCH_MOST_NODES: u64 = 100_000;

/// The positions to search, the limits, and the form of the output.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Limit of nodes for each position; `None` means no limit.
    pub nodes: Option<u64>,
    /// Milliseconds for each position; `None` means no limit.
    pub movetime_ms: Option<u64>,
    /// A position to search instead of the list.
    pub fen: Option<String>,
    /// Number of positions from the list.
    pub positions: usize,
    /// Whether to print only the signature.
    pub signature: bool,
    /// Whether to print JSON instead of lc0's lines.
    pub json: bool,
    /// Whether to print a last line for OpenBench.
    pub for_openbench: bool,
    /// The file to draw a picture in.
    pub svg: Option<PathBuf>,
}

/// The result of one search.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Searched {
    /// The position as it is in the list: a FEN, with moves if there are any.
    pub position: String,
    /// Visits of the root.
    pub nodes: u64,
    /// The duration of the search in milliseconds.
    pub time_ms: u64,
    /// The best move, with castling as king takes rook.
    pub best_move: String,
    #[serde(skip)]
    last_info: Option<ThinkingInfo>,
}

/// Runs the benchmark.
///
/// # Errors
/// There is no limit, a position is invalid, or the backend fails.
pub(super) fn run(plan: &Plan, mut options: Options, output: Arc<Output>) -> Result<(), CliError> {
    let mut plan = plan.clone();
    if plan.signature {
        options.backend = BackendName::Trivial.into();
        options.threads = 1;
        plan.movetime_ms = None;
        plan.nodes = Some(plan.nodes.unwrap_or(SIGNATURE_NODES));
    }
    if plan.nodes.is_none() && plan.movetime_ms.is_none() {
        let reason = "with both --nodes=-1 and --movetime=-1 the search would never end";
        return Err(WrongArguments::because_of(reason).into());
    }
    check_outputs(&[("--svg", plan.svg.as_deref())], &[], &options)?;
    open_log(&options, &output)?;
    let limits = GoParams { nodes: plan.nodes, movetime: plan.movetime_ms, ..GoParams::default() };
    let positions: Vec<&str> = match &plan.fen {
        Some(fen) => {
            let start = position_command(fen).start;
            if let StartPosition::Fen(fen) = &start {
                Position::from_fen(fen).map_err(WrongArguments::because_of)?;
            }
            vec![fen]
        }
        None => POSITIONS.iter().copied().take(plan.positions).collect(),
    };

    let quiet = plan.json || plan.signature;
    let recorder = Arc::new(Recorder::new((!quiet).then(|| Arc::clone(&output))));
    let mut engine =
        Engine::new(options.clone(), Arc::clone(&recorder) as Arc<dyn Responder>).without_recovery();
    engine.ensure_ready()?;
    let mut searched = Vec::new();
    for (index, position) in positions.iter().enumerate() {
        if !quiet {
            output.lines(&[String::new(), format!("Position: {}/{} {position}", index + 1, positions.len())]);
        }
        searched.push(run_search(&mut engine, &recorder, position, &limits)?);
    }

    if let Some(path) = &plan.svg {
        let backend = engine.backend()?.attributes().name.clone();
        chart(&searched, machine::facts(&options, &backend)).write(path)?;
    }
    if plan.signature {
        output.line(&signature(&searched).to_string());
    } else if plan.json {
        output.line(&json(&searched));
    } else {
        let (nodes, time_ms, nps) = totals(&searched);
        output.lines(&[
            String::new(),
            "===========================".to_owned(),
            format!("Total time (ms) : {time_ms}"),
            format!("Nodes searched  : {nodes}"),
            format!("Nodes/second    : {nps}"),
        ]);
        if plan.for_openbench {
            drop(engine);
            output.line(&format!("{} nodes {nps} nps", openbench_nodes()?));
        }
    }
    Ok(())
}

/// Runs `bench` in a UCI session, with the session's options and without the line for OpenBench.
pub(super) fn in_console(options: &Options, output: &Arc<Output>) -> Result<(), String> {
    let plan = Plan {
        movetime_ms: u64::try_from(SHORT.movetime_ms).ok(),
        positions: SHORT.positions as usize,
        ..Plan::default()
    };
    let options = with_defaults_of_bench(options.clone());
    run(&plan, options, Arc::clone(output)).map_err(|error| error.to_string())
}

/// The number of nodes of searches that are the same on every machine. It changes if the search changes.
fn openbench_nodes() -> Result<u64, CliError> {
    // The user's options and configuration must not change the number.
    let options =
        Options { backend: BackendName::Trivial.into(), threads: 1, ..default_options(Some("bench")) };
    let recorder = Arc::new(Recorder::new(None));
    let mut engine = Engine::new(options, Arc::clone(&recorder) as Arc<dyn Responder>).without_recovery();
    let limits =
        GoParams { depth: Some(OPENBENCH_DEPTH), nodes: Some(OPENBENCH_MOST_NODES), ..GoParams::default() };
    let mut nodes = 0;
    for position in &POSITIONS[..SHORT.positions as usize] {
        nodes += run_search(&mut engine, &recorder, position, &limits)?.nodes;
    }
    Ok(nodes)
}

/// Searches one position from an empty tree and an empty cache.
fn run_search(
    engine: &mut Engine,
    recorder: &Recorder,
    position: &str,
    limits: &GoParams,
) -> Result<Searched, CliError> {
    let failed = |error: &dyn std::fmt::Display| format!("{position}: {error}");
    recorder.take();
    engine.new_game();
    let start = Instant::now();
    engine.set_position(&position_command(position)).map_err(|error| failed(&error))?;
    engine.go(limits).map_err(|error| failed(&error))?;
    engine.wait();
    let time_ms = start.elapsed().as_millis() as u64;
    let record = recorder.take();
    let Some(best) = record.best else {
        return Err(failed(&record.message.as_deref().unwrap_or("the search ended without a move")).into());
    };
    Ok(Searched {
        position: position.to_owned(),
        nodes: record.last_info.as_ref().and_then(|info| info.nodes).unwrap_or(0),
        time_ms,
        best_move: move_text(&best),
        last_info: record.last_info,
    })
}

/// Reads a FEN or `startpos`, optionally followed by `moves …`.
fn position_command(position: &str) -> PositionCommand {
    let (fen, moves) = position.split_once("moves").unwrap_or((position, ""));
    let start = match fen.trim() {
        "startpos" => StartPosition::Standard,
        fen => StartPosition::Fen(fen.to_owned()),
    };
    PositionCommand { start, moves: moves.split_whitespace().map(str::to_owned).collect() }
}

/// The text of the best move. Like lc0's benchmark, it writes castling as king takes rook.
fn move_text(best: &BestMove) -> String {
    best.best.map_or_else(|| "0000".to_owned(), |best| uci_move::text(best, true))
}

/// The total nodes, the total milliseconds, and the nodes per second.
fn totals(searched: &[Searched]) -> (u64, u64, u64) {
    let nodes: u64 = searched.iter().map(|one| one.nodes).sum();
    let time_ms: u64 = searched.iter().map(|one| one.time_ms).sum();
    // As in lc0, one more millisecond prevents a division by zero.
    let nps = (1000.0 * nodes as f64 / (time_ms + 1) as f64).round() as u64;
    (nodes, time_ms, nps)
}

/// A picture of the speed in each position, with the speed of all.
fn chart(searched: &[Searched], facts: Vec<String>) -> Chart {
    let speed = |one: &Searched| totals(std::slice::from_ref(one)).2 as f64;
    let (_, _, all) = totals(searched);
    Chart {
        title: "Speed of the search".to_owned(),
        facts,
        x_label: "Position".to_owned(),
        places: Places::Items(searched.iter().map(|one| one.position.clone()).collect()),
        panels: vec![Panel {
            heading: "Nodes per second".to_owned(),
            least_top: 0.0,
            marks: vec![
                Mark {
                    name: "each position".to_owned(),
                    shape: Shape::Bars(searched.iter().map(speed).collect()),
                },
                Mark { name: "all positions".to_owned(), shape: Shape::Level(all as f64) },
            ],
        }],
    }
}

fn json(searched: &[Searched]) -> String {
    let (nodes, time_ms, nps) = totals(searched);
    serde_json::json!({
        "positions": searched,
        "nodes": nodes,
        "time_ms": time_ms,
        "nps": nps,
        "signature": signature(searched),
    })
    .to_string()
}

/// A hash of the searches' nodes, depths, best moves and principal variations. It does not cover times, and it
/// does not cover scores, because their formulas use the platform's tangent.
fn signature(searched: &[Searched]) -> u32 {
    let mut text = String::new();
    for one in searched {
        // Writing to a string cannot fail.
        let _ = write!(text, "{} {} {}", one.position, one.nodes, one.best_move);
        if let Some(info) = &one.last_info {
            let pv: Vec<String> = info.pv.iter().map(|&m| uci_move::text(m, true)).collect();
            let _ = write!(text, " {:?} {:?} {}", info.depth, info.seldepth, pv.join(" "));
        }
        text.push('\n');
    }
    fnv1a(text.as_bytes())
}

/// The FNV-1a hash.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Records what a search reports, and prints it if there is an output.
struct Recorder {
    output: Option<Arc<Output>>,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    last_info: Option<ThinkingInfo>,
    best: Option<BestMove>,
    message: Option<String>,
}

impl Recorder {
    fn new(output: Option<Arc<Output>>) -> Recorder {
        Recorder { output, record: Mutex::default() }
    }

    /// Returns the record since the last call, and starts an empty record.
    fn take(&self) -> Record {
        std::mem::take(&mut self.record())
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        // A panic cannot leave the record in an invalid state.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, line: &str) {
        if let Some(output) = &self.output {
            output.line(line);
        }
    }
}

impl Responder for Recorder {
    fn thinking(&self, infos: &[ThinkingInfo]) {
        let Some(info) = infos.iter().find(|info| info.nodes.is_some()) else {
            return;
        };
        let mut line = format!(
            "Benchmark time {} ms, {} nodes, {} nps",
            info.time_ms.unwrap_or(0),
            info.nodes.unwrap_or(0),
            info.nps.unwrap_or(0)
        );
        if let Some(&first) = info.pv.first() {
            let _ = write!(line, ", move {}", uci_move::text(first, true));
        }
        self.print(&line);
        self.record().last_info = Some(info.clone());
    }

    fn best_move(&self, best: &BestMove) {
        self.print(&format!("bestmove {}", move_text(best)));
        self.record().best = Some(best.clone());
    }

    fn message(&self, text: &str) {
        print_error_line(text);
        self.record().message = Some(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_chess::Position;

    fn can_be_set_up(position: &str) -> bool {
        let command = position_command(position);
        let StartPosition::Fen(fen) = &command.start else {
            return false;
        };
        let Ok(mut position) = Position::from_fen(fen) else {
            return false;
        };
        for text in &command.moves {
            let Ok(m) = uci_move::parse(&position, text) else {
                return false;
            };
            position = position.play(m);
        }
        true
    }

    #[test]
    fn all_positions_can_be_set_up() {
        for position in POSITIONS {
            assert!(can_be_set_up(position), "{position}");
        }
    }

    fn searched(nodes: u64, time_ms: u64) -> Searched {
        Searched { position: "p".to_owned(), nodes, time_ms, best_move: "e2e4".to_owned(), last_info: None }
    }

    /// The figures are from a run of lc0.
    #[test]
    fn totals_are_lc0s() {
        assert_eq!(totals(&[searched(111, 85), searched(118, 110)]), (229, 195, 1168));
        assert_eq!(totals(&[searched(0, 0)]), (0, 0, 0));
    }

    #[test]
    fn the_signature_depends_on_the_search_and_not_on_time() {
        let base = signature(&[searched(10, 1)]);
        assert_eq!(base, signature(&[searched(10, 999)]));
        assert_ne!(base, signature(&[searched(11, 1)]));
        let deeper = ThinkingInfo { depth: Some(3), ..ThinkingInfo::default() };
        assert_ne!(base, signature(&[Searched { last_info: Some(deeper), ..searched(10, 1) }]));
    }

    #[test]
    fn hash_is_fnv1a() {
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }
}
