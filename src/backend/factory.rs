//! From the user's words (`Backend`, `BackendOptions`, `WeightsFile` …) to a backend that the search can use.
//!
//! [`BACKENDS`] is the one list of backends: `--help`, the UCI combo and `auto` all read it. To add a
//! backend, add a row and the function that makes it. [`create`] wraps what is made: a batch splitter where
//! the backend takes small batches only, and the cache around everything.
//!
//! The network is read once, however many backends share it, and not at all for those that need none.

use super::batch_split::BatchSplittingBackend;
use super::cache::CachingBackend;
use super::check::{CheckBackend, CheckMode, CheckOptions};
use super::children::Child;
use super::cpu::{CpuBackend, CpuOptions, InstructionSet, Precision};
use super::demux::DemuxBackend;
use super::multiplexing::MultiplexingBackend;
use super::options::{OptionTree, Options};
use super::position_key::KeyRules;
use super::random::{RandomBackend, RandomOptions};
use super::record::{RecordingBackend, ReplayingBackend};
use super::rocm::{RocmBackend, RocmOptions, RocmPrecision};
use super::round_robin::RoundRobinBackend;
use super::trivial::TrivialBackend;
use super::{Backend, BackendError};
use crate::net::discover::{AUTODISCOVER, find_network};
use crate::net::{HeadSelection, HistoryFill, Network, NetworkError, NetworkFile};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The name that leaves the choice to us.
pub const AUTO: &str = "auto";

/// The largest `MinibatchSize` that a user may ask for: every backend is made to take batches of this size.
const LARGEST_BATCH: usize = 1024;

/// Backends around backends around backends: enough is enough.
const MAXIMUM_DEPTH: usize = 8;

/// The most positions that `multiplexing` merges into one batch by default, as in lc0.
const MULTIPLEXING_BATCH: usize = 256;

/// What the user asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct BackendConfig {
    /// A name of [`BACKENDS`], or [`AUTO`].
    pub backend: String,
    /// See [`super::options`].
    pub options: String,
    /// A path, or what [`find_network`] knows besides.
    pub network: String,
    /// Divides the policy logits.
    pub policy_softmax_temperature: f32,
    /// Share of the optimistic policy head, 0 … 1.
    pub policy_optimism: f32,
    /// Whether to evaluate how far the value may be off, too.
    pub value_error: bool,
    /// What stands in for positions before the game's first.
    pub history_fill: HistoryFill,
    /// Evaluations that the cache holds; 0 for none.
    pub cache_entries: usize,
    /// What must agree besides the position for a cache hit.
    pub cache_key_rules: KeyRules,
}

impl Default for BackendConfig {
    fn default() -> BackendConfig {
        BackendConfig {
            backend: AUTO.to_owned(),
            options: String::new(),
            network: AUTODISCOVER.to_owned(),
            policy_softmax_temperature: 1.359,
            policy_optimism: 0.0,
            value_error: false,
            history_fill: HistoryFill::FenOnly,
            cache_entries: 2_000_000,
            cache_key_rules: KeyRules::default(),
        }
    }
}

/// What [`create`] made.
pub struct CreatedBackend {
    /// Ready for use.
    pub backend: Arc<dyn Backend>,
    /// What the user should be told (as `info string`): why the backend is not the one they may expect, and
    /// which network was found where none was named.
    pub notices: Vec<String>,
}

/// A row of [`BACKENDS`].
pub struct BackendKind {
    /// As in `--backend`.
    pub name: &'static str,
    /// `auto` takes the highest of [`Use::Automatic`] that can be made.
    pub priority: i32,
    /// One line for the help.
    pub description: &'static str,
    /// When it is used.
    pub used: Use,
    make: fn(&Maker<'_>, Options<'_>) -> Made,
}

/// When a backend is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It evaluates with the network, and `auto` tries it.
    Automatic,
    /// It evaluates with the network, where it is asked for by name.
    ByName,
    /// It needs no network itself.
    WithoutNetwork,
}

type Made = Result<Arc<dyn Backend>, BackendError>;

/// Every backend, highest priority first.
pub const BACKENDS: &[BackendKind] = &[
    BackendKind {
        name: "rocm-auto",
        priority: 100,
        description: "AMD GPU through ROCm, fp16 (gpu, streams, max_batch, graph, gemm, fork, few_rows, wait, tune; policy_head, value_head)",
        used: Use::Automatic,
        make: |maker, options| maker.make_rocm("rocm-auto", RocmPrecision::Auto, options),
    },
    BackendKind {
        name: "rocm-fp16",
        priority: 99,
        description: "AMD GPU, weights and products in fp16",
        used: Use::ByName,
        make: |maker, options| maker.make_rocm("rocm-fp16", RocmPrecision::Fp16, options),
    },
    BackendKind {
        name: "rocm-bf16",
        priority: 98,
        description: "AMD GPU, weights and products in bf16",
        used: Use::ByName,
        make: |maker, options| maker.make_rocm("rocm-bf16", RocmPrecision::Bf16, options),
    },
    BackendKind {
        name: "rocm",
        priority: 97,
        description: "AMD GPU, fp32",
        used: Use::ByName,
        make: |maker, options| maker.make_rocm("rocm", RocmPrecision::Fp32, options),
    },
    BackendKind {
        name: "cpu",
        priority: 50,
        description: "this processor, fp32 (threads, batch_size, isa; policy_head, value_head)",
        used: Use::Automatic,
        make: |maker, options| maker.make_cpu(Precision::Fp32, options),
    },
    BackendKind {
        name: "cpu-bf16",
        priority: 49,
        description: "this processor, products in bf16: twice as fast with AVX512-BF16, less exact",
        used: Use::Automatic,
        make: |maker, options| maker.make_cpu(Precision::Bf16, options),
    },
    BackendKind {
        name: "trivial",
        priority: 4,
        description: "no network: counts material; for tests and for measuring the search",
        used: Use::WithoutNetwork,
        make: |_, _| Ok(Arc::new(TrivialBackend::new())),
    },
    BackendKind {
        name: "random",
        priority: 0,
        description: "no network: repeatable random values (seed, uniform; delay, per_position, slots, batch)",
        used: Use::WithoutNetwork,
        make: make_random,
    },
    BackendKind {
        name: "check",
        priority: -800,
        description: "compares two backends (mode=check/display/histo, atol, rtol, freq)",
        used: Use::WithoutNetwork,
        make: make_check,
    },
    BackendKind {
        name: "recordreplay",
        priority: -900,
        description: "writes evaluations to record_file, or answers from replay_file",
        used: Use::WithoutNetwork,
        make: make_record_replay,
    },
    BackendKind {
        name: "roundrobin",
        priority: -999,
        description: "several backends, each batch to the next in turn",
        used: Use::WithoutNetwork,
        make: |maker, options| {
            let mut children = maker.children(options)?;
            Ok(Arc::new(RoundRobinBackend::new(children.remove(0), children)))
        },
    },
    BackendKind {
        name: "multiplexing",
        priority: -1000,
        description: "several backends behind one queue; merges small batches (max_batch, workers)",
        used: Use::WithoutNetwork,
        make: |maker, options| Ok(Arc::new(MultiplexingBackend::new(maker.children(options)?)?)),
    },
    BackendKind {
        name: "demux",
        priority: -1001,
        description: "several backends, each batch dealt out among them (step, workers)",
        used: Use::WithoutNetwork,
        make: |maker, options| {
            let step = options.number("step", 1, 1..=LARGEST_BATCH)?;
            Ok(Arc::new(DemuxBackend::new(maker.children(options)?, step)?))
        },
    },
];

/// All names that `Backend` may have, [`AUTO`] first.
pub fn names() -> Vec<&'static str> {
    std::iter::once(AUTO).chain(BACKENDS.iter().map(|kind| kind.name)).collect()
}

fn kind_of(name: &str) -> Option<&'static BackendKind> {
    BACKENDS.iter().find(|kind| kind.name == name)
}

/// Makes the backend that `config` describes, with its cache.
///
/// # Errors
/// An unknown name, an option that is not understood or that nothing asked for, a network that does not load,
/// a backend that cannot run here.
pub fn create(config: &BackendConfig) -> Result<CreatedBackend, BackendError> {
    let tree = OptionTree::parse(&config.options)?;
    let maker = Maker::new(config);
    let backend = maker.make(&config.backend, tree.root())?;
    tree.check_all_used(&config.backend)?;
    let backend: Arc<dyn Backend> = if backend.attributes().maximum_batch_size < LARGEST_BATCH {
        Arc::new(BatchSplittingBackend::new(backend, LARGEST_BATCH))
    } else {
        backend
    };
    let backend = CachingBackend::new(backend, config.cache_entries, config.cache_key_rules)?;
    let mut notices = maker.notices.into_inner();
    if config.value_error && !backend.attributes().has_value_error {
        let name = &backend.attributes().name;
        notices.push(format!(
            "{name} tells no error of the value (the network has no such head, or the backend passes it over): visits \
             and cpuct are not weighted by it"
        ));
    }
    // Who named no network wants to know which one was found.
    let found = maker.found.into_inner().filter(|_| ["", AUTODISCOVER].contains(&config.network.as_str()));
    notices.extend(found.map(|path| format!("network {}", path.display())));
    Ok(CreatedBackend { backend: Arc::new(backend), notices })
}

/// What the functions that make backends share.
struct Maker<'a> {
    config: &'a BackendConfig,
    /// The network's file, while somebody may want it.
    file: RefCell<Option<NetworkFile>>,
    /// Where the network was found.
    found: RefCell<Option<PathBuf>>,
    /// Networks assembled for backends that may have neighbours: the heads can be chosen per backend.
    networks: RefCell<Vec<(HeadSelection, Arc<Network>)>>,
    notices: RefCell<Vec<String>>,
    /// How many backends are being made, one for another.
    depth: Cell<usize>,
}

impl Maker<'_> {
    fn new(config: &BackendConfig) -> Maker<'_> {
        Maker {
            config,
            file: RefCell::default(),
            found: RefCell::default(),
            networks: RefCell::default(),
            notices: RefCell::default(),
            depth: Cell::default(),
        }
    }

    /// The backend called `name`.
    fn make(&self, name: &str, options: Options<'_>) -> Made {
        if name == AUTO {
            return self.make_auto(options);
        }
        let kind = kind_of(name)
            .ok_or_else(|| BackendError::Unknown { name: name.to_owned(), known: names().join(", ") })?;
        if self.depth.get() == MAXIMUM_DEPTH {
            let reason = format!("backends inside backends, more than {MAXIMUM_DEPTH} deep");
            return Err(BackendError::Create { name: name.to_owned(), reason });
        }
        self.depth.update(|depth| depth + 1);
        let made = (kind.make)(self, options);
        self.depth.update(|depth| depth - 1);
        made
    }

    /// The best backend that works with the network.
    fn make_auto(&self, options: Options<'_>) -> Made {
        let file = self.network_file().map_err(|error| BackendError::Network(error.to_string()))?;
        *self.file.borrow_mut() = Some(file);
        let mut passed_over = None;
        for kind in BACKENDS.iter().filter(|kind| kind.used == Use::Automatic) {
            match (self.make(kind.name, options), &passed_over) {
                // What cannot run here is passed over; anything else is the user's to mend.
                (Err(error @ BackendError::Create { .. }), None) => passed_over = Some(error),
                (Err(BackendError::Create { .. }), Some(_)) => {}
                (Ok(backend), Some(error)) => {
                    self.notices.borrow_mut().push(format!("{error}; {} evaluates instead", kind.name));
                    return Ok(backend);
                }
                (made, _) => return made,
            }
        }
        Err(passed_over.unwrap_or_else(|| BackendError::Create {
            name: AUTO.to_owned(),
            reason: "this build has no backend for networks".to_owned(),
        }))
    }

    /// The children that `options` name, or one: what `backend=` says, else the best.
    fn children(&self, options: Options<'_>) -> Result<Vec<Child>, BackendError> {
        let nodes = options.children();
        if nodes.is_empty() {
            let name = options.inherited_backend().unwrap_or(AUTO);
            return Ok(vec![self.child(name, options)?]);
        }
        nodes
            .into_iter()
            .map(|node| self.child(node.backend_name(|name| name == AUTO || kind_of(name).is_some()), node))
            .collect()
    }

    fn child(&self, name: &str, options: Options<'_>) -> Result<Child, BackendError> {
        if name.is_empty() {
            let reason =
                "a child without a name needs a backend=, its own or outside the parentheses".to_owned();
            return Err(BackendError::Option { option: "( … )".to_owned(), reason });
        }
        let child = Child::new(self.make(name, options)?);
        let maximum_batch = child.maximum_batch;
        Ok(Child {
            threads: options.number("workers", child.threads, 1..=128)?,
            maximum_batch: options
                .number("max_batch", MULTIPLEXING_BATCH.min(maximum_batch), 1..=LARGEST_BATCH)?
                .min(maximum_batch),
            ..child
        })
    }

    /// The network, with the heads that `options` choose.
    ///
    /// A backend by itself gets the only copy: neither file nor network are kept here while it packs them.
    fn network(&self, options: Options<'_>) -> Result<Arc<Network>, BackendError> {
        let mut heads = HeadSelection {
            policy_optimism: self.config.policy_optimism,
            value_error: self.config.value_error,
            ..HeadSelection::default()
        };
        if let Some(policy) = options.text("policy_head") {
            heads.policy = policy.to_owned();
        }
        if let Some(value) = options.text("value_head") {
            heads.value = value.to_owned();
        }
        let known = self
            .networks
            .borrow()
            .iter()
            .find(|(known, _)| *known == heads)
            .map(|(_, network)| Arc::clone(network));
        if let Some(network) = known {
            return Ok(network);
        }
        let file = self.network_file().map_err(|error| BackendError::Network(error.to_string()))?;
        let network = file.network(&heads).map_err(|error| BackendError::Network(error.to_string()))?;
        let network = Arc::new(network);
        if self.depth.get() > 1 {
            *self.file.borrow_mut() = Some(file);
            self.networks.borrow_mut().push((heads, Arc::clone(&network)));
        }
        Ok(network)
    }

    /// `isa` is for comparing: nobody needs less than the best instruction set in play.
    fn make_cpu(&self, precision: Precision, options: Options<'_>) -> Made {
        let defaults = CpuOptions::default();
        let available = InstructionSet::available();
        let instructions = options
            .text("isa")
            .map(|name| {
                let found = available.iter().find(|known| known.name().eq_ignore_ascii_case(name));
                found.copied().ok_or_else(|| BackendError::Option {
                    option: format!("isa={name}"),
                    reason: format!(
                        "this processor has {}",
                        available.iter().map(|known| known.name()).collect::<Vec<_>>().join(", ")
                    ),
                })
            })
            .transpose()?;
        let cpu_options = CpuOptions {
            threads: options.number("threads", defaults.threads, 1..=512)?,
            maximum_batch_size: options.number(
                "batch_size",
                defaults.maximum_batch_size,
                1..=LARGEST_BATCH,
            )?,
            instructions,
        };
        Ok(Arc::new(CpuBackend::new(
            self.network(options)?,
            precision,
            &cpu_options,
            self.config.policy_softmax_temperature,
            self.config.history_fill,
        )?))
    }

    /// The options are read before a device is looked for, so that they are known where there is none.
    fn make_rocm(&self, name: &str, precision: RocmPrecision, options: Options<'_>) -> Made {
        let rocm_options = RocmOptions::read(options, LARGEST_BATCH)?;
        let device = RocmBackend::open(name, &rocm_options)?;
        let backend = RocmBackend::new(
            device,
            Arc::unwrap_or_clone(self.network(options)?),
            precision,
            &rocm_options,
            self.config.policy_softmax_temperature,
            self.config.history_fill,
        )?;
        self.notices.borrow_mut().extend_from_slice(backend.notices());
        Ok(Arc::new(backend))
    }

    /// The network's file: what was put back, or else opened anew.
    fn network_file(&self) -> Result<NetworkFile, NetworkError> {
        if let Some(file) = self.file.take() {
            return Ok(file);
        }
        let file = find_network(&self.config.network)?;
        *self.found.borrow_mut() = Some(file.path().to_owned());
        Ok(file)
    }
}

fn make_random(_: &Maker<'_>, options: Options<'_>) -> Made {
    let defaults = RandomOptions::default();
    let milliseconds = |key: &str| -> Result<Duration, BackendError> {
        Ok(Duration::from_secs_f64(options.number(key, 0.0, 0.0..=60_000.0)? / 1000.0))
    };
    Ok(Arc::new(RandomBackend::new(RandomOptions {
        seed: options.number("seed", defaults.seed, 0..=u64::MAX)?,
        uniform: options.flag("uniform", defaults.uniform)?,
        delay: milliseconds("delay")?,
        per_position: milliseconds("per_position")?,
        slots: options.number("slots", defaults.slots, 1..=1024)?,
        batch: options.number("batch", defaults.batch, 1..=LARGEST_BATCH)?,
    })))
}

fn make_check(maker: &Maker<'_>, options: Options<'_>) -> Made {
    let children = maker.children(options)?;
    let [work, reference] = children.as_slice() else {
        return Err(BackendError::Create {
            name: "check".to_owned(),
            reason: format!("it compares two backends, as in `-o cpu-bf16,cpu`; {} given", children.len()),
        });
    };
    let defaults = CheckOptions::default();
    let check_options = CheckOptions {
        mode: options.choice(
            "mode",
            &[("check", CheckMode::Check), ("display", CheckMode::Display), ("histo", CheckMode::Histogram)],
        )?,
        absolute_tolerance: options.number("atol", defaults.absolute_tolerance, 0.0..=1.0)?,
        relative_tolerance: options.number("rtol", defaults.relative_tolerance, 0.0..=1.0)?,
        frequency: options.number("freq", defaults.frequency, 0.0..=1.0)?,
    };
    let (work, reference) = (Arc::clone(&work.backend), Arc::clone(&reference.backend));
    Ok(Arc::new(CheckBackend::new(work, reference, check_options)))
}

fn make_record_replay(maker: &Maker<'_>, options: Options<'_>) -> Made {
    match (options.text("record_file"), options.text("replay_file")) {
        (Some(record), None) => {
            let mut children = maker.children(options)?;
            let inner = children.remove(0).backend;
            if !children.is_empty() {
                let reason = "it records one backend; for several, put a roundrobin inside".to_owned();
                return Err(BackendError::Create { name: "recordreplay".to_owned(), reason });
            }
            Ok(Arc::new(RecordingBackend::new(inner, Path::new(record))?))
        }
        (None, Some(replay)) => Ok(Arc::new(ReplayingBackend::new(Path::new(replay))?)),
        _ => Err(BackendError::Create {
            name: "recordreplay".to_owned(),
            reason: "it needs either record_file=FILE or replay_file=FILE among the backend options"
                .to_owned(),
        }),
    }
}
