//! Measures how full a search's batches are from its start on, and how many of the evaluations it used.
//!
//! `RUKH_NETWORK=FILE cargo test --profile quick --test integration full_batches -- --nocapture` evaluates with a network
//! on the CPU, in the place of a graphics card, and prints a table. Without a network the evaluations are random.

use crate::search::{KIWIPETE, MIDDLEGAME};
use rukh_backend::position_key::KeyRules;
use rukh_backend::synthetic::{DeviceOptions, RandomBackend, SimulatedDevice};
use rukh_backend::wrap::CachingBackend;
use rukh_backend::{Added, Attributes, Backend, Batch, BatchSizes, EvalRequest, Ticket};
use rukh_chess::{Position, PositionHistory};
use rukh_options::{BackendName, Options};
use rukh_registry::{self, BackendConfig};
use rukh_search::stop::{ChainStopper, VisitsStopper};
use rukh_search::{BestMove, Responder, Search, SearchParams, SearchSetup, ThinkingInfo};
use rukh_tree::{NodeId, Tree};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The sizes to which the card pads batches.
const SIZES: [usize; 15] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256];

/// An evaluator that looks like a graphics card to the search, and logs its batches.
struct Card {
    inner: Arc<dyn Backend>,
    attributes: Attributes,
    batches: Arc<Mutex<Vec<Vec<u64>>>>,
}

struct CardBatch {
    inner: Box<dyn Batch>,
    keys: Vec<u64>,
    batches: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Card {
    fn new(inner: Arc<dyn Backend>) -> Card {
        let attributes = Attributes {
            name: "card".to_owned(),
            runs_on_cpu: false,
            batch_sizes: BatchSizes::new(SIZES),
            ..inner.attributes().clone()
        };
        Card { inner, attributes, batches: Arc::default() }
    }
}

impl Backend for Card {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        let batches = Arc::clone(&self.batches);
        Box::new(CardBatch { inner: self.inner.new_batch(), keys: Vec::new(), batches })
    }
}

impl Batch for CardBatch {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.keys.push(request.history.last().key());
        self.inner.add(request)
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        self.batches.lock().unwrap().push(self.keys);
        self.inner.submit()
    }
}

struct Silent;

impl Responder for Silent {
    fn thinking(&self, _: &[ThinkingInfo]) {}
    fn best_move(&self, _: &BestMove) {}
    fn message(&self, text: &str) {
        panic!("{text}");
    }
}

/// The network of the environment variable, or random evaluations that take as long as those of a graphics card.
fn evaluator() -> Arc<dyn Backend> {
    let Some(file) = std::env::var_os("RUKH_NETWORK") else {
        let delay = Duration::from_millis(3);
        let random = Arc::new(RandomBackend::default());
        return Arc::new(SimulatedDevice::new(
            random,
            DeviceOptions { delay, slots: 2, ..DeviceOptions::default() },
        ));
    };
    let options = Options {
        backend: BackendName::Cpu.into(),
        weights: file.to_string_lossy().into_owned(),
        nncache: 0,
        ..Options::default()
    };
    rukh_registry::create(&BackendConfig::from_options(&options)).expect("the network can be loaded").backend
}

/// The keys of all positions that the tree has visited.
fn visited(tree: &Tree, root: &Position) -> HashSet<u64> {
    let (mut keys, mut nodes) = (HashSet::new(), HashSet::new());
    let mut waiting: Vec<(NodeId, Position)> = vec![(tree.root(), root.clone())];
    while let Some((id, position)) = waiting.pop() {
        keys.insert(position.key());
        for (_, link) in tree.links(tree.node(id)).filter(|(_, link)| link.visits() > 0) {
            let child = link.child().expect("a visited link has a child");
            if nodes.insert(child) {
                waiting.push((child, position.play(link.edge().packed_move().unpack(&position))));
            }
        }
    }
    keys
}

const POSITIONS: [&str; 3] =
    ["rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", KIWIPETE, MIDDLEGAME];

/// The results of searches with `nodes` nodes of each position.
struct Measured {
    /// Evaluations for each batch.
    batch: f64,
    /// Batches for each search.
    batches: f64,
    /// The share of the places of the padded batches that have a position.
    filled: f64,
    /// The share of the evaluations that were used when 1,000 nodes more had been searched.
    used: f64,
}

fn measure(inner: &Arc<dyn Backend>, settings: &[(&str, &str)], nodes: u64) -> Measured {
    let mut options = Options::default();
    for (name, value) in [("MinibatchSize", "64"), ("SmartPruningFactor", "0")].iter().chain(settings) {
        options.set(name, value).expect("the settings are valid");
    }
    let sizes = BatchSizes::new(SIZES);
    let (mut batches, mut evaluations, mut places, mut used) = (0, 0, 0, 0);
    for fen in POSITIONS {
        let card = Card::new(Arc::clone(inner));
        let log = Arc::clone(&card.batches);
        let backend: Arc<dyn Backend> =
            Arc::new(CachingBackend::new(Arc::new(card), 100_000, KeyRules::from_options(&options)));
        let history = PositionHistory::new(Position::from_fen(fen).unwrap());
        let tree = Arc::new(Tree::new());
        let search = |limit| {
            let mut stopper = ChainStopper::new();
            stopper.push(VisitsStopper::new(limit, false));
            let setup = SearchSetup {
                params: SearchParams {
                    threads: 2,
                    ..SearchParams::from_options(&options, backend.attributes(), None)
                },
                visit_limit: Some(limit),
                ..SearchSetup::new(tree.clone(), backend.clone(), history.clone(), Box::new(stopper))
            };
            let search = Search::start(setup, Arc::new(Silent)).expect("threads can be started");
            search.wait_for_move();
            let released = search.release();
            released.threads.into_iter().for_each(|thread| thread.join().unwrap());
        };
        search(nodes);
        let begun: Vec<Vec<u64>> = log.lock().unwrap().clone();
        search(nodes + 1000);
        let needed = visited(&tree, history.last());
        batches += begun.len();
        evaluations += begun.iter().map(Vec::len).sum::<usize>();
        places += begun.iter().map(|batch| sizes.padded(batch.len())).sum::<usize>();
        used += begun.iter().flatten().filter(|key| needed.contains(key)).count();
    }
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    Measured {
        batch: share(evaluations, batches),
        batches: share(batches, POSITIONS.len()),
        filled: share(evaluations, places),
        used: share(used, evaluations),
    }
}

#[test]
fn batches_are_filled_as_far_as_the_card_pads_them() {
    let inner = evaluator();
    println!(
        "| nodes | prefetch | batches | evaluations a batch | places filled | used within 1,000 nodes |\n\
         |---|---|---|---|---|---|"
    );
    let kinds = [
        ("none", ("MaxPrefetch", "0")),
        ("lc0's", ("PrefetchByVisits", "false")),
        ("by visits", ("PrefetchByVisits", "true")),
    ];
    for nodes in [300, 1000, 5000] {
        let mut places = Vec::new();
        for (name, setting) in kinds {
            let Measured { batch, batches, filled, used } = measure(&inner, &[setting], nodes);
            let [filled_percent, used] = [filled, used].map(|share| format!("{:.0} %", 100.0 * share));
            println!("| {nodes} | {name} | {batches:.0} | {batch:.1} | {filled_percent} | {used} |");
            places.push(filled);
        }
        // A busy machine delays one of the threads, and then it does not mostly wait.
        assert!(places[2] > places[0], "{nodes} nodes: {places:?}");
    }
}

#[test]
fn a_limit_of_0_turns_prefetching_off() {
    let inner = evaluator();
    let off = measure(&inner, &[("MaxPrefetch", "0")], 300);
    // Cached evaluations of transpositions are used by several nodes, so all of them are.
    assert!(off.used > 0.97 && off.batch < 32.0, "{} {}", off.used, off.batch);
}
