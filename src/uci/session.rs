//! A UCI session: turns commands into calls of the engine.

use super::format::Shown;
use super::lines::{Line, LineReader};
use super::log::Log;
use super::output::Output;
use super::parse::{self, Command};
use super::responder::UciResponder;
use crate::engine::Engine;
use crate::options::Options;
use crate::options::listing::{self, Extras};
use crate::os_error::in_words;
use crate::quote::quoted;
use crate::search::limits::GoParams;
use std::ffi::OsStr;
use std::io::BufRead;
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
    /// Whether the running search may go on until `stop` or `ponderhit`.
    open_ended: bool,
}

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
        Session { engine, responder, output, log, show_hidden, open_ended: false }
    }

    /// The engine, for tests that inspect it between two commands.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Executes commands until `quit` or the end of the stream. A search that is still running is aborted when the session
    /// is dropped.
    pub fn run(&mut self, input: impl BufRead) {
        let mut lines = LineReader::new(input);
        loop {
            let line = match lines.next_line() {
                Line::Text(line) => line,
                Line::Refused(reason) => {
                    self.output.error(&reason);
                    continue;
                }
                Line::End => return,
            };
            self.log.read(&line);
            if self.handle(&line).is_break() {
                return;
            }
        }
    }

    /// Ends the session of a process that ends next ([`Engine::end_with_process`]).
    pub fn end_with_process(self) {
        self.engine.end_with_process();
    }

    /// Executes one line. Returns `Break` after `quit`.
    pub fn handle(&mut self, line: &str) -> ControlFlow<()> {
        match parse::parse(line) {
            Ok(None) => {}
            Ok(Some(Command::Quit)) => return ControlFlow::Break(()),
            Ok(Some(command)) => {
                if let Err(error) = self.execute(command) {
                    self.output.error(&error);
                }
            }
            Err(error) => self.output.error(&error),
        }
        ControlFlow::Continue(())
    }

    fn execute(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Uci => self.introduce(),
            Command::Debug | Command::Quit => {}
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
                self.open_ended = false;
                self.engine.new_game();
            }
            Command::Position(position) => {
                self.engine.set_position(&position).map_err(text)?;
                self.open_ended = false;
            }
            Command::Go(params) => self.go(params)?,
            Command::Stop => {
                self.open_ended = false;
                self.engine.stop();
            }
            Command::PonderHit => {
                self.engine.ponder_hit().map_err(text)?;
                self.open_ended = false;
            }
            Command::Wait if self.open_ended && self.engine.is_searching() => {
                return Err("wait might never end, because only `stop` is sure to end this search".to_owned());
            }
            Command::Wait => self.engine.wait(),
            Command::Xyzzy => self.output.line("Nothing happens."),
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

    fn go(&mut self, params: GoParams) -> Result<(), String> {
        let open_ended = params.is_open_ended();
        if let Err(error) = self.engine.go(&params) {
            // The GUI waits for a move, so some legal move is sent after the error.
            self.output.error(&text(error));
            self.engine.answer_without_search();
            return Ok(());
        }
        self.open_ended = open_ended;
        Ok(())
    }
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
    format!("Rukh {}{place}", env!("RUKH_VERSION"))
}

fn cannot_log(path: &str, error: &std::io::Error) -> String {
    format!("LogFile: cannot write {}: {}", quoted(path), in_words(error))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
