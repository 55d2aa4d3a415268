//! Plays all games of a tournament, hundreds at a time, and reports each as it ends.

use super::config::{GameCount, MoveChoice, PlayerConfig, TournamentConfig};
use super::elo::Verdict;
use super::evaluators;
use super::game::{FinishedGame, Trees, play};
use super::player::{NoMove, Player, PlayerError, Surroundings};
use super::schedule::{Assignment, Schedule};
use super::score::Score;
use super::summary::Finish;
use crate::concurrent::evaluator::SharedEvaluator;
use crate::concurrent::memory::Shares;
use crossbeam_channel::{Receiver, Sender, unbounded};
use rukh_backend::BackendError;
use rukh_backend::multi::BatchCounts;
use rukh_chess::tablebase::{TablebaseError, Tablebases};
use rukh_net::InputFormat;
use rukh_search::WORKER_STACK_BYTES;
use rukh_search::time::TimeManagerError;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Why a tournament cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum TournamentError {
    /// A player's searches would not end.
    #[error(
        "say when a search ends: --visits, --playouts or --movetime (for one player: --player1.visits …)"
    )]
    NoLimit,
    /// A limit of searches, although there are none.
    #[error(
        "leave out --visits, --playouts and --movetime: with --policy-mode-size or --value-mode-size nothing is searched"
    )]
    NeedlessLimit,
    /// The same games would be played again.
    #[error(
        "without searches an opening always gives the same game, so each may be played once with both colours: give \
         --openings-pgn, --mirror-openings, and --games=-2 or an even number up to {most}"
    )]
    Repeats {
        /// Twice the number of openings.
        most: u64,
    },
    /// Nothing was searched.
    #[error("training data need searches; leave out --policy-mode-size and --value-mode-size")]
    NoSearches,
    /// There would be nothing to learn from.
    #[error("training data need searches of at least 2 visits, because the first one visits no move")]
    NoVisits,
    /// Both players would leave the opening, with different probabilities.
    #[error("the players' --opening-stop-prob must be equal, unless one of them is 0")]
    OpeningStops,
    /// The players cannot share a tree.
    #[error("the players cannot share a tree, because {0}; leave out --share-trees")]
    CannotShareTrees(String),
    /// A backend cannot be made.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A player's time manager cannot be made.
    #[error(transparent)]
    TimeManager(#[from] TimeManagerError),
    /// The tablebases cannot be opened.
    #[error(transparent)]
    Tablebases(#[from] TablebaseError),
    /// A search has failed.
    #[error("game {number}: {reason}")]
    Game {
        /// The number of the game.
        number: u64,
        /// The error of the search.
        reason: String,
    },
    /// The system starts no thread.
    #[error("cannot start a thread for a game: {0}; a smaller --parallelism needs fewer")]
    Thread(std::io::Error),
}

impl TournamentError {
    /// Whether the settings contradict each other, whatever the machine and the files.
    pub fn is_wrong_settings(&self) -> bool {
        match self {
            Self::NoLimit
            | Self::NeedlessLimit
            | Self::Repeats { .. }
            | Self::NoSearches
            | Self::NoVisits => true,
            Self::OpeningStops | Self::CannotShareTrees(_) => true,
            Self::Backend(_)
            | Self::TimeManager(_)
            | Self::Tablebases(_)
            | Self::Game { .. }
            | Self::Thread(_) => false,
        }
    }
}

impl From<PlayerError> for TournamentError {
    fn from(error: PlayerError) -> TournamentError {
        match error {
            PlayerError::Backend(error) => error.into(),
            PlayerError::TimeManager(error) => error.into(),
        }
    }
}

/// What happened up to now.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The results.
    pub score: Score,
    /// The games that differ in a move, in the opening or in the players' colours.
    pub distinct_games: u32,
    /// The moves that the players searched.
    pub moves: u64,
    /// The visits that their searches made.
    pub nodes: u64,
    /// The number of games that the tournament has; `None` without an end.
    pub total: Option<u64>,
    /// The time since the first game began.
    pub elapsed: Duration,
    /// The batches that the backends have evaluated; `None` if they evaluate without collecting batches.
    pub evaluated: Option<BatchCounts>,
}

/// Interrupts a tournament. It can be used on any thread.
#[derive(Clone)]
pub struct Interrupter {
    is_ending: Arc<AtomicBool>,
    events: Sender<Event>,
}

impl Interrupter {
    /// Ends the tournament with the games that are finished.
    pub fn interrupt(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        let _ = self.events.send(Event::Interrupted);
    }
}

/// What the threads tell the tournament.
enum Event {
    Finished(Box<FinishedGame>),
    Failed(TournamentError),
    Interrupted,
    /// A thread has no more games.
    Left,
}

/// A tournament that is ready to be played.
pub struct Tournament {
    config: TournamentConfig,
    evaluators: [Arc<SharedEvaluator>; 2],
    parallelism: usize,
    tablebases: Option<Arc<Tablebases>>,
    /// The tables that each player probes.
    player_tablebases: [Option<Arc<Tablebases>>; 2],
    surroundings: Surroundings,
    sender: Sender<Event>,
    receiver: Receiver<Event>,
}

impl Tournament {
    /// Checks the settings and loads the networks.
    ///
    /// # Errors
    /// The settings are wrong, or a network, a backend or the tablebases cannot be used.
    pub fn new(config: TournamentConfig) -> Result<Tournament, TournamentError> {
        match config.choice {
            MoveChoice::Search if config.players.iter().any(|player| player.limits.are_absent()) => {
                return Err(TournamentError::NoLimit);
            }
            MoveChoice::Search => {}
            MoveChoice::Policy | MoveChoice::Value => check_without_searches(&config)?,
        }
        let visits =
            |player: &PlayerConfig| player.limits.visits.into_iter().chain(player.limits.playouts).min();
        if config.training.is_some()
            && config.players.iter().any(|player| visits(player).is_some_and(|n| n < 2))
        {
            return Err(TournamentError::NoVisits);
        }
        let [first, second] = config.players.each_ref().map(|player| player.opening_stop_probability);
        if first != second && first != 0.0 && second != 0.0 {
            return Err(TournamentError::OpeningStops);
        }
        let evaluators = evaluators::make(&config.players)?;
        if config.share_trees {
            check_shared_tree(&config.players, &evaluators)?;
        }
        let open = |path: &str| -> Result<Option<Arc<Tablebases>>, TablebaseError> {
            (!path.is_empty()).then(|| Tablebases::open(path).map(Arc::new)).transpose()
        };
        let tablebases = open(&config.tablebases)?;
        let mut player_tablebases = [None, None];
        for (tables, player) in player_tablebases.iter_mut().zip(&config.players) {
            let path = &player.options.syzygy_paths;
            *tables = if *path == config.tablebases { tablebases.clone() } else { open(path)? };
        }
        let total = Schedule::new(&config).total();
        let wanted = config
            .parallelism
            .unwrap_or_else(|| evaluators::games_at_once(&evaluators, &config.players))
            .max(1);
        let parallelism =
            total.map_or(wanted, |total| wanted.min(usize::try_from(total).unwrap_or(wanted)).max(1));
        let (sender, receiver) = unbounded();
        let surroundings = surroundings(&config, parallelism);
        Ok(Tournament {
            config,
            evaluators,
            parallelism,
            tablebases,
            player_tablebases,
            surroundings,
            sender,
            receiver,
        })
    }

    /// The number of games that are played at once.
    pub fn parallelism(&self) -> usize {
        self.parallelism
    }

    /// The networks of the players, or the names of backends without one.
    pub fn networks(&self) -> [&str; 2] {
        [&self.evaluators[0].name, &self.evaluators[1].name]
    }

    /// Messages about the backends for the user.
    pub fn notices(&self) -> Vec<&str> {
        let [first, second] = &self.evaluators;
        let both = if Arc::ptr_eq(first, second) { vec![first] } else { vec![first, second] };
        both.into_iter().flat_map(|evaluator| evaluator.notices.iter().map(String::as_str)).collect()
    }

    /// The tablebases that decide games, and those of the players, each once.
    pub fn tablebases(&self) -> Vec<Arc<Tablebases>> {
        let mut all: Vec<Arc<Tablebases>> = Vec::new();
        for tables in std::iter::once(&self.tablebases).chain(&self.player_tablebases).flatten() {
            if !all.iter().any(|known| Arc::ptr_eq(known, tables)) {
                all.push(Arc::clone(tables));
            }
        }
        all
    }

    /// A handle that interrupts this tournament.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { is_ending: Arc::clone(&self.surroundings.is_ending), events: self.sender.clone() }
    }

    /// Plays the games. Calls `on_game` after each.
    ///
    /// # Errors
    /// A search fails, or no thread can be started.
    pub fn run(
        self,
        mut on_game: impl FnMut(&FinishedGame, &Progress),
    ) -> Result<(Progress, Finish), TournamentError> {
        let schedule = Schedule::new(&self.config);
        let mut progress = Progress {
            score: Score::default(),
            distinct_games: 0,
            moves: 0,
            nodes: 0,
            total: schedule.total(),
            elapsed: Duration::ZERO,
            evaluated: None,
        };
        let mut known = HashSet::new();
        let begun = Instant::now();
        let schedule = Arc::new(Mutex::new(schedule));
        let mut threads = Threads { running: Vec::new(), tournament: &self };
        for index in 0..self.parallelism {
            match self.start_thread(&schedule) {
                Ok(thread) => threads.running.push(thread),
                Err(error) if index == 0 => return Err(error),
                // Fewer games at once are only slower.
                Err(_) => break,
            }
        }
        let mut left = threads.running.len();
        let mut finish = Finish::AllGames;
        while left > 0 {
            // The threads hold a sender as long as they run.
            let Ok(event) = self.receiver.recv() else { break };
            match event {
                Event::Left => left -= 1,
                Event::Failed(error) => return Err(error),
                Event::Interrupted => {
                    finish = Finish::Interrupted;
                    break;
                }
                Event::Finished(game) => {
                    progress.score.add(game.score, game.player1_is_black, game.pair);
                    progress.distinct_games += u32::from(known.insert(identity(&game)));
                    progress.moves += (game.moves.len() - game.opening_plies) as u64;
                    progress.nodes += game.playouts;
                    self.update(&mut progress, begun);
                    on_game(&game, &progress);
                    let verdict = self.config.sprt.map(|sprt| sprt.verdict(&progress.score));
                    if verdict.is_some_and(|verdict| verdict != Verdict::Open) {
                        finish = Finish::TestEnded;
                        break;
                    }
                }
            }
        }
        self.update(&mut progress, begun);
        Ok((progress, finish))
    }

    fn update(&self, progress: &mut Progress, begun: Instant) {
        progress.elapsed = begun.elapsed();
        let [first, second] = &self.evaluators;
        let mut counts = first.counts();
        if !Arc::ptr_eq(first, second)
            && let Some(more) = second.counts()
        {
            let sum = counts.get_or_insert_default();
            *sum = BatchCounts {
                batches: sum.batches + more.batches,
                positions: sum.positions + more.positions,
            };
        }
        progress.evaluated = counts;
    }

    /// Starts a thread that plays one game after another.
    fn start_thread(&self, schedule: &Arc<Mutex<Schedule>>) -> Result<JoinHandle<()>, TournamentError> {
        let player = |index: usize| -> Result<Player, PlayerError> {
            Player::new(
                Arc::new(self.config.players[index].clone()),
                Arc::clone(&self.evaluators[index]),
                self.player_tablebases[index].clone(),
                &self.surroundings,
            )
        };
        let players = [player(0)?, player(1)?];
        let table = Table {
            players,
            trees: Trees::new(self.config.share_trees),
            tablebases: self.tablebases.clone(),
            schedule: Arc::clone(schedule),
            events: self.sender.clone(),
            is_ending: Arc::clone(&self.surroundings.is_ending),
            training: self.config.training,
        };
        // The search runs on this thread and recurses along the line of play.
        let builder = Builder::new().name("game".to_owned()).stack_size(WORKER_STACK_BYTES);
        builder.spawn(move || table.play_all()).map_err(TournamentError::Thread)
    }
}

/// What identical games have in common, as a number.
fn identity(game: &FinishedGame) -> u64 {
    let mut hasher = DefaultHasher::new();
    (game.player1_is_black, &game.fen, &game.moves).hash(&mut hasher);
    hasher.finish()
}

/// The threads of the games. Dropping this ends the games.
struct Threads<'a> {
    running: Vec<JoinHandle<()>>,
    tournament: &'a Tournament,
}

impl Drop for Threads<'_> {
    fn drop(&mut self) {
        self.tournament.surroundings.is_ending.store(true, Ordering::Relaxed);
        self.tournament.evaluators.iter().for_each(|evaluator| evaluator.close());
        for thread in self.running.drain(..) {
            // A panic was reported as an event.
            let _ = thread.join();
        }
    }
}

/// The place of one game at a time, with its players.
struct Table {
    players: [Player; 2],
    trees: Trees,
    tablebases: Option<Arc<Tablebases>>,
    schedule: Arc<Mutex<Schedule>>,
    events: Sender<Event>,
    is_ending: Arc<AtomicBool>,
    training: Option<InputFormat>,
}

impl Table {
    /// Plays games until there are no more, or the tournament ends.
    fn play_all(mut self) {
        while !self.is_ending.load(Ordering::Relaxed)
            && let Some(assignment) = self.next_assignment()
        {
            let number = assignment.number;
            let played = catch_unwind(AssertUnwindSafe(|| self.play(&assignment)));
            let failed = |reason| Event::Failed(TournamentError::Game { number, reason });
            let event = match played {
                Ok(Ok(mut game)) => {
                    self.schedule().keep_discarded(std::mem::take(&mut game.discarded));
                    Event::Finished(Box::new(game))
                }
                Ok(Err(NoMove::Ending)) => break,
                Ok(Err(NoMove::Failed(reason))) => failed(reason),
                Err(_) => failed("the game's thread panicked".to_owned()),
            };
            let has_failed = matches!(event, Event::Failed(_));
            // If the tournament is over, nobody listens.
            let _ = self.events.send(event);
            if has_failed {
                break;
            }
        }
        let _ = self.events.send(Event::Left);
    }

    fn next_assignment(&self) -> Option<Assignment> {
        self.schedule().next()
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn play(&mut self, assignment: &Assignment) -> Result<FinishedGame, NoMove> {
        play(assignment, &mut self.players, &mut self.trees, self.tablebases.as_deref(), self.training)
    }
}

/// Divides the memory among the games.
fn surroundings(config: &TournamentConfig, parallelism: usize) -> Surroundings {
    let [first, second] = &config.players;
    let trees = parallelism * if config.share_trees { 1 } else { 2 };
    let entries = first.options.nncache.max(second.options.nncache);
    Surroundings {
        shares: Shares::new(&first.options, entries, trees, parallelism * 2),
        is_ending: Arc::default(),
        is_training: config.training.is_some(),
        choice: config.choice,
    }
}

/// Checks the settings of a tournament without searches, with lc0's rules.
fn check_without_searches(config: &TournamentConfig) -> Result<(), TournamentError> {
    if config.players.iter().any(|player| !player.limits.are_absent()) {
        return Err(TournamentError::NeedlessLimit);
    }
    if config.training.is_some() {
        return Err(TournamentError::NoSearches);
    }
    let most = 2 * config.openings.len() as u64;
    let is_once = match config.games {
        GameCount::Games(games) => games % 2 == 0 && games <= most,
        GameCount::Endless => false,
        GameCount::Openings => most > 0,
    };
    match is_once && config.mirror_openings {
        true => Ok(()),
        false => Err(TournamentError::Repeats { most }),
    }
}

/// Both players may search one tree only if its values mean the same to both.
fn check_shared_tree(
    players: &[PlayerConfig; 2],
    evaluators: &[Arc<SharedEvaluator>; 2],
) -> Result<(), TournamentError> {
    let cannot = |reason: &str| Err(TournamentError::CannotShareTrees(reason.to_owned()));
    let [first, second] = players;
    if !Arc::ptr_eq(&evaluators[0], &evaluators[1]) {
        return cannot("they have different networks or backends");
    }
    if first.options != second.options {
        return cannot("their options differ");
    }
    let has_no_contempt = first.options.contempt.is_empty() || first.options.contempt == "0";
    if !has_no_contempt {
        return cannot("contempt values a position by the player");
    }
    if !(first.reuse_tree && second.reuse_tree) {
        return cannot("it would not be reused without --reuse-tree");
    }
    Ok(())
}
