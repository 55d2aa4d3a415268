//! The options of the backends on graphics cards, and their names in `BackendOptions` (`-o`).

use crate::gemm::gemms::Effort;
use crate::helper::probe::helper;
use crate::runtime::choice::GpuChoice;
use crate::runtime::facts::Facts;
use crate::runtime::ffi::wait::{DEFAULT_PATIENCE, Waiting};
use crate::runtime::kernels::AttentionKernel;
use crate::runtime::libraries::{GemmLibrary, Sources};
use crate::runtime::maker::Maker;
use crate::runtime::shared_launches::SharedLaunches;
use crate::runtime::weight_bits::WeightBits;
use rukh_backend::options_dict::{HEAD_OPTIONS, OptionsDict, ParsedOptions};
use rukh_backend::{BackendError, LARGEST_BATCH};
use rukh_net::HeadSelection;
use rukh_options::lc0;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The effort to find the fastest algorithm for each GEMM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tuning {
    /// Does not tune or read a table. The libraries choose the algorithms.
    Off,
    /// Times the libraries' first proposals, for at most ten seconds at the first start. The table is kept.
    Quick,
    /// Times all proposals of the libraries, for at most forty seconds.
    Full,
}

impl Tuning {
    /// How thoroughly each GEMM is measured.
    pub(crate) fn effort(self) -> Effort {
        match self {
            Tuning::Off | Tuning::Quick => Effort::Quick,
            Tuning::Full => Effort::Full,
        }
    }

    /// The time after which tuning stops. The GEMMs of the most important batch sizes come first, and what is left is
    /// measured at the next start. On an H100 three seconds measure half of a large network's GEMMs. There a first start
    /// should take six seconds: of the time since the device was opened, tuning gets what uploading the network and
    /// compiling the kernels have left.
    pub(crate) fn budget(self, maker: Maker, since_opening: Duration) -> Duration {
        match (self, maker) {
            (Tuning::Off, _) => Duration::ZERO,
            (Tuning::Quick, Maker::Amd) => Duration::from_secs(10),
            (Tuning::Quick, Maker::Nvidia) => {
                let left = Duration::from_millis(4700).saturating_sub(since_opening);
                left.clamp(Duration::from_millis(500), Duration::from_secs(3))
            }
            (Tuning::Full, _) => Duration::from_secs(40),
        }
    }

    /// The same after an earlier start has measured some of the GEMMs, if that is less. On NVIDIA's cards such a start
    /// should take at most a second longer than with the processor, and the check of the figures takes a part of that.
    pub(crate) fn later_budget(self, maker: Maker) -> Duration {
        match (self, maker) {
            (Tuning::Quick, Maker::Nvidia) => Duration::from_millis(500),
            _ => Duration::MAX,
        }
    }
}

/// The options of a backend on graphics cards.
#[derive(Clone, Debug)]
pub struct GpuOptions {
    /// The maker of the device. It follows from the backend's name.
    pub maker: Maker,
    /// The device.
    pub gpu: GpuChoice,
    /// The number of batches in flight. Small batches leave much of a card idle: with three batches in flight, they are
    /// evaluated a seventh faster than with two. `None` means what `rukh tune` has measured on this card, or else three.
    pub streams: Option<usize>,
    /// The most positions in a batch. With `None`, the limit depends on the device's memory.
    pub maximum_batch: Option<usize>,
    /// Whether forward passes are captured as graphs. With `None`, `rukh tune` decides, and otherwise they are.
    pub graph: Option<bool>,
    /// The largest batch, in positions, whose branches run in parallel. The branches are smolgen beside Q, K and V, and
    /// the heads. `None` means what `rukh tune` has measured on this card, or else none on an AMD device, because HIP
    /// launches a graph with branches node by node.
    pub fork: Option<usize>,
    /// The most rows of a GEMM that our own kernel computes instead of a library. This concerns the hidden layers of
    /// smolgen and of the scalar heads, on architectures with matrix instructions. `None` means what `rukh tune` has
    /// measured on this card, or else 0: cuBLASLt was faster, and no other library was measured.
    pub few_rows: Option<usize>,
    /// Which GEMMs of our own share a launch with the LayerNorm or the GEMMs that follow. `None` means what a start or
    /// `rukh tune` has measured on this card, or else the default of the architecture.
    pub fuse: Option<SharedLaunches>,
    /// The kernel for attention, where there are several. `None` means the one that `rukh tune` has measured to be faster on
    /// this card, or else the one with matrix instructions.
    pub attention: Option<AttentionKernel>,
    /// The way in which a slot's thread waits for its batch. `None` means what `rukh tune` has measured on this card,
    /// or else that it spins if there are enough processors, and sleeps otherwise.
    pub waiting: Option<Waiting>,
    /// The time after which a batch counts as failed. A batch that usually takes long gets 20 times its usual time, and
    /// the first batch of each size gets six times this time.
    pub timeout: Duration,
    /// The longest time that a batch may take in the warm-up. The sizes from the first one on that takes longer are left
    /// out, except the smallest.
    pub longest_batch: Duration,
    /// Who computes the GEMMs.
    pub gemm: GemmLibrary,
    /// The folder with NVIDIA's cuBLASLt, for an NVIDIA card. With `None` it is looked for.
    pub libraries: Option<PathBuf>,
    /// The target whose kernels are used on an NVIDIA card, for comparisons. `None` means the one that suits the card.
    pub target: Option<String>,
    /// How many bits the weights of GEMMs with few rows have.
    pub weight_bits: WeightBits,
    /// The effort to tune the GEMMs during the warm-up.
    pub tuning: Tuning,
    /// The file with the table of tuned GEMMs. `None` means a file in the user's cache folder.
    pub tuning_file: Option<PathBuf>,
    /// The program that asks the BLAS libraries for GEMMs in a process of its own, which may die of it. With `None`
    /// this process asks. [`set_helper`](crate::helper::probe::set_helper) sets the default of [`GpuOptions::read`].
    pub helper: Option<PathBuf>,
    /// A helper process that says nothing for so long is killed.
    pub helper_patience: Duration,
    /// Whether every bucket runs once before the backend is ready. Without a warm-up the first batches are slower, and
    /// nothing is tuned.
    pub warm_up: bool,
    /// The size of a batch whose steps are timed one by one when the backend is made. The table is part of the notices.
    pub time_steps: Option<usize>,
}

/// The default of [`GpuOptions::helper_patience`]. A library may load hundreds of megabytes at its first use.
const HELPER_PATIENCE: u64 = 30;

/// The default of [`GpuOptions::longest_batch`]. Windows resets a card that does not answer for two seconds.
const LONGEST_BATCH: Duration =
    if cfg!(windows) { Duration::from_millis(500) } else { Duration::from_secs(3600) };

/// The number of batches in flight, if neither the user nor a measurement has chosen it.
const DEFAULT_STREAMS: usize = 3;

/// A batch size, in positions, that includes every batch.
const EVERY_BATCH: usize = 1024;

/// The defaults were the fastest, or nearly so, for every batch size on the one card that could be measured: an NVIDIA
/// H200 (`scripts/checks/cuda.sh FOLDER sweep`).
impl Default for GpuOptions {
    fn default() -> GpuOptions {
        GpuOptions {
            maker: Maker::Amd,
            gpu: GpuChoice::Best,
            streams: None,
            maximum_batch: None,
            graph: None,
            fork: None,
            few_rows: None,
            fuse: None,
            attention: None,
            waiting: None,
            timeout: DEFAULT_PATIENCE,
            longest_batch: LONGEST_BATCH,
            gemm: GemmLibrary::Auto,
            libraries: None,
            target: None,
            weight_bits: WeightBits::Sixteen,
            tuning: Tuning::Quick,
            tuning_file: None,
            helper: None,
            helper_patience: Duration::from_secs(HELPER_PATIENCE),
            warm_up: true,
            time_steps: None,
        }
    }
}

/// What the text of `BackendOptions` says to a tool that works on a card itself, without the registry of backends.
#[derive(Clone, Debug)]
pub struct GivenOptions {
    /// The backend's options.
    pub options: GpuOptions,
    /// The heads of the network.
    pub heads: HeadSelection,
}

impl GivenOptions {
    /// Reads the text for a backend on cards of this maker.
    ///
    /// # Errors
    /// An option is unknown, or its value is invalid.
    pub fn read(maker: Maker, text: &str) -> Result<GivenOptions, BackendError> {
        let parsed = ParsedOptions::parse(text)?;
        let root = parsed.root();
        let options = GpuOptions::read(maker, root, LARGEST_BATCH)?;
        let heads = root.heads(HeadSelection::default());
        let backend = maker.usual_backend();
        parsed.check_all_used(backend.name(), GpuOptions::LISTS, lc0::is_backend_option)?;
        Ok(GivenOptions { options, heads })
    }
}

/// One option: its name in `BackendOptions`, and how it is read.
struct Row {
    name: &'static str,
    read: fn(&mut GpuOptions, &Given<'_>) -> Result<(), BackendError>,
    /// Whether the user left the choice to the engine.
    is_left: fn(&GpuOptions) -> bool,
}

/// A row for an option whose choice is never the engine's: it has a default.
const fn fixed(name: &'static str, read: fn(&mut GpuOptions, &Given<'_>) -> Result<(), BackendError>) -> Row {
    Row { name, read, is_left: |_| false }
}

/// A row for an option that `rukh tune` may choose.
const fn free(
    name: &'static str,
    is_left: fn(&GpuOptions) -> bool,
    read: fn(&mut GpuOptions, &Given<'_>) -> Result<(), BackendError>,
) -> Row {
    Row { name, read, is_left }
}

/// What the user gave for one option.
struct Given<'a> {
    options: OptionsDict<'a>,
    name: &'static str,
    largest_batch: usize,
}

impl<'a> Given<'a> {
    fn text(&self) -> Option<&'a str> {
        self.options.text(self.name)
    }

    /// A number of this range; `None` if the option is not given.
    fn number(&self, range: RangeInclusive<usize>) -> Result<Option<usize>, BackendError> {
        match self.text() {
            Some(_) => self.options.number(self.name, *range.start(), range).map(Some),
            None => Ok(None),
        }
    }

    /// A number of seconds.
    fn seconds(&self, default: Duration, range: RangeInclusive<f64>) -> Result<Duration, BackendError> {
        self.options.number(self.name, default.as_secs_f64(), range).map(Duration::from_secs_f64)
    }

    /// One of several words, of which the first is the default.
    fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, BackendError> {
        self.options.choice(self.name, choices)
    }
}

/// Puts what was read into its place.
fn set<T>(place: &mut T, read: Result<T, BackendError>) -> Result<(), BackendError> {
    read.map(|value| *place = value)
}

/// The words for a choice between two ways, which the user may leave to the engine.
const YES_OR_NO: [(&str, Option<bool>); 3] = [("auto", None), ("true", Some(true)), ("false", Some(false))];

/// Every option.
const TABLE: &[Row] = &[
    fixed("gpu", |to, given| {
        to.gpu = given.text().map_or(GpuChoice::Best, GpuChoice::from_text);
        Ok(())
    }),
    free("streams", |of| of.streams.is_none(), |to, given| set(&mut to.streams, given.number(1..=16))),
    fixed("max_batch", |to, given| {
        // lc0 has this option for NVIDIA's cards, and takes larger batches.
        let most = if to.maker == Maker::Nvidia { usize::MAX } else { given.largest_batch };
        let read = given.number(1..=most);
        set(&mut to.maximum_batch, read.map(|number| number.map(|number| number.min(given.largest_batch))))
    }),
    free("graph", |of| of.graph.is_none(), |to, given| set(&mut to.graph, given.choice(&YES_OR_NO))),
    free(
        "fork",
        |of| of.fork.is_none(),
        |to, given| set(&mut to.fork, given.number(0..=given.largest_batch)),
    ),
    free(
        "few_rows",
        |of| of.few_rows.is_none(),
        |to, given| set(&mut to.few_rows, given.number(0..=given.largest_batch)),
    ),
    free(
        "fuse",
        |of| of.fuse.is_none(),
        |to, given| {
            let shared = [
                ("auto", None),
                ("true", Some(SharedLaunches::All)),
                ("smolgen", Some(SharedLaunches::Smolgen)),
                ("false", Some(SharedLaunches::None)),
            ];
            set(&mut to.fuse, given.choice(&shared))
        },
    ),
    free(
        "attention",
        |of| of.attention.is_none(),
        |to, given| {
            let kernels = [
                ("auto", None),
                ("matrix", Some(AttentionKernel::Matrix)),
                ("other", Some(AttentionKernel::Other)),
                ("any", Some(AttentionKernel::Any)),
            ];
            set(&mut to.attention, given.choice(&kernels))
        },
    ),
    free(
        "wait",
        |of| of.waiting.is_none(),
        |to, given| {
            let ways = [
                ("auto", None),
                ("spin", Some(Waiting::Spin)),
                ("yield", Some(Waiting::Yield)),
                ("block", Some(Waiting::Block)),
            ];
            set(&mut to.waiting, given.choice(&ways))
        },
    ),
    fixed("timeout", |to, given| set(&mut to.timeout, given.seconds(DEFAULT_PATIENCE, 0.1..=3600.0))),
    fixed("longest_batch", |to, given| {
        set(&mut to.longest_batch, given.seconds(LONGEST_BATCH, 0.001..=3600.0))
    }),
    fixed("gemm", |to, given| {
        set(&mut to.gemm, given.choice(&GemmLibrary::ALL.map(|library| (library.key(), library))))
    }),
    fixed("libraries", |to, given| {
        to.libraries = given.text().map(PathBuf::from);
        Ok(())
    }),
    fixed("target", |to, given| {
        to.target = given.text().map(str::to_owned);
        Ok(())
    }),
    fixed("weight_bits", |to, given| {
        set(&mut to.weight_bits, given.choice(&WeightBits::ALL.map(|bits| (bits.key(), bits))))
    }),
    fixed("tune", |to, given| {
        let efforts = [("quick", Tuning::Quick), ("full", Tuning::Full), ("off", Tuning::Off)];
        set(&mut to.tuning, given.choice(&efforts))
    }),
    fixed("tuning_file", |to, given| {
        to.tuning_file = given.text().map(PathBuf::from);
        Ok(())
    }),
    fixed("helper", |to, given| {
        to.helper = given.text().map(PathBuf::from).or_else(helper);
        Ok(())
    }),
    fixed("helper_patience", |to, given| {
        let seconds = given.options.number(given.name, HELPER_PATIENCE, 1..=600);
        set(&mut to.helper_patience, seconds.map(Duration::from_secs))
    }),
    fixed("warm_up", |to, given| set(&mut to.warm_up, given.options.flag(given.name, true))),
    fixed("time_steps", |to, given| set(&mut to.time_steps, given.number(1..=given.largest_batch))),
];

impl GpuOptions {
    /// The names of all options.
    pub const NAMES: [&'static str; TABLE.len()] = {
        let mut names = [""; TABLE.len()];
        let mut row = 0;
        while row < TABLE.len() {
            names[row] = TABLE[row].name;
            row += 1;
        }
        names
    };

    /// All that the user may give to a backend on graphics cards, in lists.
    pub const LISTS: &[&[&str]] = &[&GpuOptions::NAMES, &HEAD_OPTIONS];

    /// Reads the options from `BackendOptions`, for a card of this maker. No option may ask for more than `largest_batch` positions.
    ///
    /// # Errors
    /// A value is invalid or out of range.
    pub fn read(
        maker: Maker,
        options: OptionsDict<'_>,
        largest_batch: usize,
    ) -> Result<GpuOptions, BackendError> {
        let mut read = GpuOptions { maker, ..GpuOptions::default() };
        for row in TABLE {
            (row.read)(&mut read, &Given { options, name: row.name, largest_batch })?;
        }
        Ok(read)
    }

    /// The libraries to load.
    pub(crate) fn sources(&self) -> Sources {
        Sources {
            maker: self.maker,
            gemm: self.gemm,
            folder: self.libraries.clone(),
            target: self.target.clone(),
        }
    }

    /// Whether the user left the choice of this option to the engine. The name is that in `BackendOptions`.
    pub(crate) fn leaves(&self, option: &str) -> bool {
        TABLE.iter().any(|row| row.name == option && (row.is_left)(self))
    }

    /// [`GpuOptions::streams`], or the default.
    pub(crate) fn settled_streams(&self) -> usize {
        self.streams.unwrap_or(DEFAULT_STREAMS)
    }

    /// [`GpuOptions::fork`], or the default for a card.
    pub(crate) fn settled_fork(&self, facts: &Facts) -> usize {
        self.fork.unwrap_or(if facts.forks { EVERY_BATCH } else { 0 })
    }

    /// [`GpuOptions::fuse`], or the default for a card.
    pub(crate) fn settled_fuse(&self, facts: &Facts) -> SharedLaunches {
        self.fuse.unwrap_or(facts.shared_launches)
    }

    /// [`GpuOptions::waiting`], or a default for this machine. A thread spins by default only if it does not take a
    /// processor from a search thread.
    pub(crate) fn settled_waiting(&self) -> Waiting {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spare = processors > 4 * self.settled_streams();
        self.waiting.unwrap_or(if spare { Waiting::Spin } else { Waiting::Block })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_read_under_its_name() {
        let text = "gpu=gfx1100,streams=5,max_batch=7,graph=false,fork=8,few_rows=9,fuse=smolgen,attention=any,\
                    wait=yield,timeout=2.5,longest_batch=0.25,gemm=own,libraries=c,target=sm_75,weight_bits=8,tune=full,tuning_file=a.csv,helper=b,\
                    helper_patience=11,warm_up=false,time_steps=12";
        let given: Vec<&str> = text.split(',').filter_map(|option| option.split('=').next()).collect();
        assert_eq!(given, GpuOptions::NAMES, "this test gives every option");
        let read = GivenOptions::read(Maker::Nvidia, text).unwrap().options;
        let GpuOptions { streams, maximum_batch, graph, fork, few_rows, fuse, time_steps, .. } = read;
        assert_eq!((streams, maximum_batch, fork, few_rows), (Some(5), Some(7), Some(8), Some(9)));
        assert_eq!((graph, fuse, time_steps), (Some(false), Some(SharedLaunches::Smolgen), Some(12)));
        assert!(matches!(read.gpu, GpuChoice::Name(ref name) if name == "gfx1100"), "{:?}", read.gpu);
        assert_eq!((read.attention, read.waiting), (Some(AttentionKernel::Any), Some(Waiting::Yield)));
        assert_eq!((read.gemm, read.weight_bits), (GemmLibrary::Own, WeightBits::Eight));
        assert_eq!((read.tuning, read.warm_up), (Tuning::Full, false));
        assert_eq!((read.tuning_file, read.helper), (Some("a.csv".into()), Some("b".into())));
        assert_eq!((read.maker, read.libraries), (Maker::Nvidia, Some("c".into())));
        assert_eq!(read.target.as_deref(), Some("sm_75"));
        assert_eq!(
            [read.timeout, read.longest_batch, read.helper_patience],
            [2500, 250, 11_000].map(Duration::from_millis)
        );
    }

    #[test]
    fn a_misspelt_option_is_refused_with_the_names_of_all() {
        let error = GivenOptions::read(Maker::Amd, "weight_bit=8").unwrap_err().to_string();
        assert!(error.contains("weight_bit=8") && error.contains("weight_bits, tune"), "{error}");
        assert!(error.contains("policy_head"), "{error}");
    }
}
