//! A UCI session: turns commands into calls of the engine.

use super::console::{self, Count};
use super::error::UciError;
use super::format::Shown;
use super::lines::Line;
use super::log::Log;
use super::output::Output;
use super::parse::{self, Command, ConsoleCommand, Parsed};
use super::responder::UciResponder;
use rukh_base::os_error::in_words;
use rukh_base::quote::quoted;
use rukh_engine::Engine;
use rukh_options::Options;
use rukh_options::listing::{self, Extras};
use rukh_search::limits::GoParams;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// The engine and the GUI's view of it.
pub struct Session {
    engine: Engine,
    responder: Arc<UciResponder>,
    output: Arc<Output>,
    log: Arc<Log>,
    show_hidden: bool,
    /// The last `go`, until `stop`, a new position or a new game.
    last_go: Option<GoParams>,
    /// The count of `go perft`, until `stop` or another command of the console.
    count: Option<Count>,
    /// What the command `bench` runs.
    bench: Option<Bench>,
}

/// Runs a benchmark with the session's options.
type Bench = fn(&Options, &Arc<Output>) -> Result<(), String>;

/// An error line shows at most so many of the errors of one line.
const MOST_ERRORS: usize = 3;

impl Session {
    /// A session that has not read a command yet. With `show_hidden`, `uci` lists the hidden options too.
    pub fn new(options: Options, output: Arc<Output>, log: Arc<Log>, show_hidden: bool) -> Session {
        let responder = Arc::new(UciResponder::new(Arc::clone(&output), Shown::of(&options)));
        if let Err(error) = log.set_path(&options.logfile) {
            output.error(&cannot_log(&options.logfile, &error));
        }
        let preload = options.preload;
        let mut engine = Engine::new(options, Arc::clone(&responder) as Arc<_>);
        if preload {
            if let Err(error) = engine.ensure_ready() {
                output.error(&error);
            }
        } else if let Some(error) = engine.missing_network() {
            // The user hears of it at once, and not only when the network is needed.
            output.error(&error);
        }
        Session { engine, responder, output, log, show_hidden, last_go: None, count: None, bench: None }
    }

    /// The session, in which the command `bench` runs `bench`.
    pub(crate) fn with_bench(self, bench: Bench) -> Session {
        Session { bench: Some(bench), ..self }
    }

    /// The engine, for tests that inspect it between two commands.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Executes the commands that `next_line` reads, until `quit` or the end of the lines. A search that is still running
    /// at `quit` is aborted when the session is dropped. At the end of the lines it is finished.
    pub(crate) fn run(&mut self, mut next_line: impl FnMut() -> Line) {
        loop {
            match next_line() {
                Line::Text(line) => {
                    self.log.read(&line);
                    if self.handle(&line).is_break() {
                        return self.wait_for_count();
                    }
                }
                Line::Refused { reason, start } => self.refuse(reason, &start),
                Line::End => return self.finish(),
            }
        }
    }

    /// Ends the session of a process that ends next ([`Engine::end_with_process`]).
    pub fn end_with_process(self) {
        self.engine.end_with_process();
    }

    /// Executes one line. Returns `Break` after `quit`.
    pub fn handle(&mut self, line: &str) -> ControlFlow<()> {
        let Parsed { command, errors } = parse::parse(line);
        let error = joined(&errors);
        if let Some(error) = &error {
            self.output.error(error);
        }
        match command {
            None => {}
            Some(Command::Quit) => return ControlFlow::Break(()),
            Some(Command::UnreadablePosition) => self.engine.refuse_position(error.unwrap_or_default()),
            Some(command) => {
                if let Err(error) = self.execute(command) {
                    self.output.error(&error);
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Reports a line that cannot be read as a whole, but begins with `start`. `go` and the like are
    /// still answered, and after a `position` no older position is searched.
    fn refuse(&mut self, reason: String, start: &str) {
        self.output.error(&reason);
        match parse::parse(start).command {
            Some(Command::Position(_) | Command::UnreadablePosition) => self.engine.refuse_position(reason),
            Some(
                command @ (Command::Go(_)
                | Command::IsReady
                | Command::Uci
                | Command::Stop
                | Command::PonderHit),
            ) => {
                if let Err(error) = self.execute(command) {
                    self.output.error(&error);
                }
            }
            _ => {}
        }
    }

    /// Finishes the running search, because the last command has been read. A search that only a command would end is
    /// stopped.
    fn finish(&mut self) {
        if self.may_be_endless() {
            self.engine.stop();
        }
        self.engine.wait();
        self.wait_for_count();
    }

    fn wait_for_count(&self) {
        if let Some(count) = &self.count {
            count.wait_a_while();
        }
    }

    /// Whether the running search may go on until `stop` or `ponderhit`.
    fn may_be_endless(&self) -> bool {
        let side = self.engine.position().side_to_move();
        self.engine.is_searching() && self.last_go.as_ref().is_some_and(|go| go.is_open_ended(side))
    }

    fn execute(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Uci => self.introduce(),
            Command::Quit | Command::UnreadablePosition => {}
            Command::Debug(is_on) => self.engine.tell_details(is_on),
            Command::IsReady => {
                // An error in the network is reported now, before a clock is running.
                let ready = self.engine.ensure_ready().map_err(text);
                if let Err(error) = ready {
                    self.output.error(&error);
                }
                self.output.line("readyok");
            }
            Command::SetOption { name, value } => self.set_option(&name, &value)?,
            Command::UciNewGame => {
                self.last_go = None;
                self.engine.new_game();
            }
            Command::Position(position) => {
                self.engine.set_position(&position).map_err(text)?;
                self.last_go = None;
            }
            Command::Go(params) => self.go(params),
            Command::Stop => {
                self.last_go = None;
                self.engine.stop();
                self.count = None;
            }
            Command::PonderHit => {
                self.engine.ponder_hit().map_err(text)?;
                if let Some(go) = &mut self.last_go {
                    go.ponder = false;
                }
            }
            Command::Wait if self.may_be_endless() => {
                return Err("wait might never end, because only `stop` is sure to end this search".to_owned());
            }
            Command::Wait => {
                self.engine.wait();
                self.wait_for_count();
            }
            Command::Console(command) => {
                self.answer_console(command).map_err(|error| format!("{}: {error}", command.name()))?;
            }
            Command::Xyzzy => self.output.line("Nothing happens."),
        }
        Ok(())
    }

    fn answer_console(&mut self, command: ConsoleCommand) -> Result<(), String> {
        if self.engine.is_searching() {
            return Err("a search is running; `stop` ends it".to_owned());
        }
        if self.count.as_ref().is_some_and(Count::is_running) {
            return Err("perft is running; `stop` ends it".to_owned());
        }
        self.count = None;
        let position = || {
            let history = self.engine.history();
            history
                .map(|history| history.last().clone())
                .map_err(|reason| format!("the last position was refused: {reason}"))
        };
        match command {
            ConsoleCommand::Diagram => self.output.lines(&console::diagram(&position()?)),
            ConsoleCommand::Evaluate => self.output.lines(&console::evaluation(&mut self.engine)?),
            ConsoleCommand::Help => self.output.line(console::HELP),
            ConsoleCommand::Bench => {
                let bench = self.bench.ok_or("this session has no benchmark")?;
                bench(self.engine.options(), &self.output)?;
            }
            ConsoleCommand::Perft(depth) => {
                let chess960 = self.engine.options().chess960;
                self.count = Some(Count::start(position()?, depth, chess960, Arc::clone(&self.output))?);
            }
        }
        Ok(())
    }

    fn introduce(&self) {
        let called = std::env::args_os().next().unwrap_or_default();
        let in_place_of_lc0 = is_in_place_of_lc0(&called);
        let extras = Extras { hidden: self.show_hidden, lc0_backends: in_place_of_lc0 };
        let mut lines =
            vec![format!("id name {}", name(in_place_of_lc0)), "id author the Rukh authors".to_owned()];
        lines.extend(listing::uci_lines(self.engine.options(), extras));
        lines.push("uciok".to_owned());
        self.output.lines(&lines);
    }

    fn set_option(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.engine.set_option(name, value).map_err(text)?;
        let options = self.engine.options();
        self.responder.show(Shown::of(options));
        self.log.set_path(&options.logfile).map_err(|error| cannot_log(&options.logfile, &error))
    }

    fn go(&mut self, params: GoParams) {
        if let Err(error) = self.engine.go(&params) {
            // The GUI waits for a move, so some legal move is sent after the error.
            self.output.error(&text(error));
            self.engine.answer_without_search();
        }
        self.last_go = Some(params);
    }
}

/// The errors of a line as one text; `None` if there are none.
fn joined(errors: &[UciError]) -> Option<String> {
    let shown: Vec<String> = errors.iter().take(MOST_ERRORS).map(ToString::to_string).collect();
    let more = match errors.len().saturating_sub(MOST_ERRORS) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!errors.is_empty()).then(|| shown.join("; ") + &more)
}

/// Whether a binary that is `called` so was put in the place of lc0's.
fn is_in_place_of_lc0(called: &OsStr) -> bool {
    Path::new(called).file_stem().unwrap_or_default().to_string_lossy().to_lowercase().contains("lc0")
}

/// The engine's name.
///
/// Nibbler shows the visits, policy and values of the moves only if the name contains `Lc0`. People who put Rukh in the
/// place of lc0's binary keep them.
fn name(in_place_of_lc0: bool) -> String {
    let place = if in_place_of_lc0 { " (in place of Lc0)" } else { "" };
    format!("Rukh {}{place}", rukh_base::version::version())
}

/// Why a log cannot be written.
pub(crate) fn cannot_log(path: &str, error: &std::io::Error) -> String {
    format!("LogFile: cannot write {}: {}", quoted(path), in_words(error))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
