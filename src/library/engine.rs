//! Searches.
//!
//! The engine lives on a thread of its own, which takes commands and never waits for a search, so that any thread can stop
//! one at any time.

use crate::error::Error;
use crate::network::Network;
use crate::position::Position;
use rukh_chess::{Move, uci_move};
use rukh_engine::EngineError;
use rukh_options::Options;
use rukh_search::{BestMove, GoParams, PositionCommand, Responder, StartPosition, ThinkingInfo};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How an engine searches.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineOptions {
    /// The backend, as in [`crate::EvaluatorOptions`].
    pub backend: String,
    /// Options by their UCI names (`docs/options.md`) with their values, such as `("MultiPV", "3")`, in the order in which
    /// they are set.
    pub uci: Vec<(String, String)>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { backend: "auto".to_owned(), uci: Vec::new() }
    }
}

impl EngineOptions {
    /// The defaults with another backend.
    pub fn on(backend: &str) -> EngineOptions {
        EngineOptions { backend: backend.to_owned(), ..EngineOptions::default() }
    }

    /// The same with another option.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> EngineOptions {
        self.uci.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// When a search ends: at the first of its limits. Without any, it ends when it is stopped.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Limits {
    /// Visits of the root, with those that an earlier search of the game has left.
    pub nodes: Option<u64>,
    /// Time.
    pub time: Option<Duration>,
    /// Average depth.
    pub depth: Option<u32>,
    /// Ends when a mate in at most this many moves is found.
    pub mate: Option<u32>,
    /// The clocks of the game, from which the engine budgets its time.
    pub clock: Option<Clock>,
    /// The moves to search; all if there are none.
    pub moves: Vec<Move>,
}

/// The clocks of both sides, White's first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// The time that is left.
    pub left: [Duration; 2],
    /// The time that each move adds.
    pub increments: [Duration; 2],
    /// The number of moves to the next time control, if there is one.
    pub moves: Option<u32>,
}

impl Limits {
    /// So many nodes.
    pub fn nodes(nodes: u64) -> Limits {
        Limits { nodes: Some(nodes), ..Limits::default() }
    }

    /// So much time.
    pub fn time(time: Duration) -> Limits {
        Limits { time: Some(time), ..Limits::default() }
    }

    fn to_go(&self) -> GoParams {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let of_clock = |of: fn(&Clock) -> Duration| self.clock.as_ref().map(of).map(milliseconds);
        let is_limited = self.nodes.is_some()
            || self.time.is_some()
            || self.depth.is_some()
            || self.mate.is_some()
            || self.clock.is_some();
        GoParams {
            infinite: !is_limited,
            nodes: self.nodes,
            movetime: self.time.map(milliseconds),
            depth: self.depth,
            mate: self.mate,
            wtime: of_clock(|clock| clock.left[0]),
            btime: of_clock(|clock| clock.left[1]),
            winc: of_clock(|clock| clock.increments[0]),
            binc: of_clock(|clock| clock.increments[1]),
            movestogo: self.clock.and_then(|clock| clock.moves),
            searchmoves: self.moves.iter().map(|&m| uci_move::text(m, true)).collect(),
            ..GoParams::default()
        }
    }
}

/// The score of a line, for the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Centipawns, as the option `ScoreType` defines them.
    Centipawns(i32),
    /// Moves to the mate; negative if the side to move is mated.
    Mate(i32),
}

/// What a search has found so far: one line of play.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// The rank of the line, from 1.
    pub rank: u32,
    /// The average depth of the visits.
    pub depth: u32,
    /// The depth of the deepest visit.
    pub deepest: u32,
    /// Visits of the root.
    pub nodes: u64,
    /// Visits per second.
    pub nodes_per_second: u64,
    /// Since the search began.
    pub time: Duration,
    /// The score, if there is one yet.
    pub score: Option<Score>,
    /// The probabilities of win, draw and loss, 0 to 1, for the side to move.
    pub wdl: Option<[f32; 3]>,
    /// The expected number of moves to the end of the game.
    pub moves_left: Option<u32>,
    /// Positions found in tablebases.
    pub tablebase_hits: u64,
    /// The line of play.
    pub line: Vec<Move>,
}

impl Info {
    fn new(info: &ThinkingInfo) -> Info {
        Info {
            rank: info.multipv.unwrap_or(1),
            depth: info.depth.unwrap_or(0),
            deepest: info.seldepth.unwrap_or(0),
            nodes: info.nodes.unwrap_or(0),
            nodes_per_second: info.nps.unwrap_or(0),
            time: Duration::from_millis(info.time_ms.unwrap_or(0)),
            score: info.score.map(|score| match score {
                rukh_search::Score::Cp(centipawns) => Score::Centipawns(centipawns),
                rukh_search::Score::Mate(moves) => Score::Mate(moves),
            }),
            wdl: info.wdl.map(|wdl| wdl.map(|permille| f32::from(permille) / 1000.0)),
            moves_left: info.moves_left,
            tablebase_hits: info.tb_hits.unwrap_or(0),
            line: info.pv.clone(),
        }
    }
}

/// Searches one position at a time with a network, and keeps the tree from one move of a game to the next.
#[derive(Debug)]
pub struct Engine {
    commands: Sender<Command>,
    /// The number of the last search.
    search: u64,
    thread: Option<JoinHandle<()>>,
}

enum Command {
    Analyse { search: u64, position: PositionCommand, go: Box<GoParams>, events: Sender<Event> },
    Stop { search: u64 },
    SetOption { name: String, value: String, reply: Sender<Result<(), Error>> },
    NewGame,
    End,
}

enum Event {
    Found(Vec<Info>),
    Best(Option<Move>),
    Failed(Error),
}

impl Engine {
    /// Prepares a network for searches. The engine reads the network's file again.
    ///
    /// # Errors
    /// An option is unknown or wrong, the backend is unavailable, or the network does not fit.
    pub fn new(network: &Network, options: &EngineOptions) -> Result<Engine, Error> {
        let relay = Arc::new(Relay(Mutex::new(None)));
        let responder = Arc::clone(&relay) as Arc<dyn Responder>;
        let mut engine = rukh_engine::Engine::new(Options::default(), responder).without_recovery();
        let network = network.path().display().to_string();
        let first = [("WeightsFile", network.as_str()), ("Backend", &options.backend)];
        let further = options.uci.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in first.into_iter().chain(further) {
            engine.set_option(name, value).map_err(in_words)?;
        }
        engine.ensure_ready().map_err(in_words)?;
        let (commands, received) = channel();
        let thread = thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || obey(&received, engine, &relay))
            .map_err(|error| Error::Search(format!("cannot start a thread: {error}")))?;
        Ok(Engine { commands, search: 0, thread: Some(thread) })
    }

    /// Begins a search, and ends the previous one if it still runs. If the position comes some moves after
    /// that of the previous search, it begins with what that one has found. [`Analysis::best_move`] returns
    /// errors.
    pub fn analyse(&mut self, position: &Position, limits: &Limits) -> Analysis {
        self.search += 1;
        let (events, received) = channel();
        let stopper = Stopper { commands: self.commands.clone(), search: self.search };
        let mut analysis = Analysis { stopper, received, found: VecDeque::new(), end: None };
        let legal = position.legal_moves();
        if let Some(m) = limits.moves.iter().find(|m| !legal.contains(m)) {
            analysis.end = Some(Err(position.illegal(*m)));
            return analysis;
        }
        let (fen, moves) = position.origin();
        self.send(Command::Analyse {
            search: self.search,
            position: PositionCommand { start: StartPosition::Fen(fen), moves },
            go: Box::new(limits.to_go()),
            events,
        });
        analysis
    }

    /// Sets an option by its UCI name, for the searches that follow.
    ///
    /// # Errors
    /// [`Error::Option`]; the option is as before.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let (reply, answer) = channel();
        self.send(Command::SetOption { name: name.to_owned(), value: value.to_owned(), reply });
        answer.recv().unwrap_or_else(|_| Err(lost()))
    }

    /// Forgets the tree and the evaluations of earlier searches.
    pub fn new_game(&mut self) {
        self.send(Command::NewGame);
    }

    fn send(&self, command: Command) {
        // The thread lives as long as this engine; if it has panicked, the analysis has no events.
        let _ = self.commands.send(command);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.send(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A search. It is an iterator of what it finds, which ends with the search. Dropping it stops the search.
#[derive(Debug)]
pub struct Analysis {
    stopper: Stopper,
    received: Receiver<Event>,
    /// Lines that came together with others and were not asked for yet.
    found: VecDeque<Info>,
    /// How the search ended, if it has.
    end: Option<Result<Option<Move>, Error>>,
}

impl Analysis {
    /// Waits for the end of the search, and returns the best move; `None` if there is no legal move.
    ///
    /// # Errors
    /// A move to search is not legal, the search could not begin, or an evaluation failed.
    pub fn best_move(mut self) -> Result<Option<Move>, Error> {
        while self.next().is_some() {}
        self.end.take().unwrap_or_else(|| Err(lost()))
    }

    /// Stops this search from any thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits no longer than this for what comes next. Returns whether it is there, so that [`Iterator::next`] does not
    /// wait.
    pub fn wait(&mut self, time: Duration) -> bool {
        if self.found.is_empty() && self.end.is_none() {
            match self.received.recv_timeout(time) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Disconnected) => self.end = Some(Err(lost())),
            }
        }
        !self.found.is_empty() || self.end.is_some()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Found(infos) => self.found.extend(infos),
            Event::Best(best) => self.end = Some(Ok(best)),
            Event::Failed(error) => self.end = Some(Err(error)),
        }
    }
}

impl Iterator for Analysis {
    type Item = Info;

    fn next(&mut self) -> Option<Info> {
        loop {
            if let Some(info) = self.found.pop_front() {
                return Some(info);
            }
            if self.end.is_some() {
                return None;
            }
            match self.received.recv() {
                Ok(event) => self.take(event),
                Err(_) => self.end = Some(Err(lost())),
            }
        }
    }
}

impl Drop for Analysis {
    fn drop(&mut self) {
        // After an error the search may still run.
        if !matches!(self.end, Some(Ok(_))) {
            self.stopper.stop();
        }
    }
}

/// Stops a search.
#[derive(Clone, Debug)]
pub struct Stopper {
    commands: Sender<Command>,
    search: u64,
}

impl Stopper {
    /// Stops the search, which then has its best move. Does nothing if it has ended.
    pub fn stop(&self) {
        // Without an engine there is no search.
        let _ = self.commands.send(Command::Stop { search: self.search });
    }
}

fn lost() -> Error {
    Error::Search("the search ended without a move".to_owned())
}

fn in_words(error: EngineError) -> Error {
    match error {
        EngineError::Backend(error) => error.into(),
        EngineError::Option(_) | EngineError::TimeManager(_) => Error::Option(error.to_string()),
        EngineError::Fen(_) => Error::Fen(error.to_string()),
        EngineError::Move(_) => Error::Move(error.to_string()),
        EngineError::Thread(_) | EngineError::NotPondering => Error::Search(error.to_string()),
    }
}

/// The body of the engine's thread.
fn obey(commands: &Receiver<Command>, mut engine: rukh_engine::Engine, relay: &Relay) {
    let mut current = 0;
    for command in commands {
        match command {
            Command::Analyse { search, position, go, events } => {
                current = search;
                // This ends the last search, whose move still goes to its own analysis.
                let set = engine.set_position(&position);
                *relay.lock() = Some(events);
                if let Err(error) = set.and_then(|()| engine.go(&go)) {
                    relay.send(Event::Failed(in_words(error)));
                }
            }
            Command::Stop { search } if search == current => engine.stop(),
            Command::Stop { .. } => {}
            Command::SetOption { name, value, reply } => {
                // The caller waits for the answer.
                let _ = reply.send(engine.set_option(&name, &value).map_err(in_words));
            }
            Command::NewGame => engine.new_game(),
            Command::End => return,
        }
    }
}

/// Passes what a search finds on to its analysis.
struct Relay(Mutex<Option<Sender<Event>>>);

impl Relay {
    fn lock(&self) -> MutexGuard<'_, Option<Sender<Event>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, event: Event) {
        if let Some(events) = &*self.lock() {
            // The analysis may have been dropped.
            let _ = events.send(event);
        }
    }
}

impl Responder for Relay {
    fn thinking(&self, infos: &[ThinkingInfo]) {
        let lines = infos.iter().filter(|info| info.comment.is_empty());
        self.send(Event::Found(lines.map(Info::new).collect()));
    }

    fn best_move(&self, best: &BestMove) {
        self.send(Event::Best(best.best));
    }

    /// What a user of a chess program would read. Only failures matter to a program.
    fn message(&self, text: &str) {
        if let Some(reason) = text.strip_prefix("error: ") {
            self.send(Event::Failed(Error::Search(reason.to_owned())));
        }
    }
}
