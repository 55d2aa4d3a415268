//! The list of all backends, and a function for each that makes it from its options.

use super::cards;
use super::maker::{BackendKind, Made, Maker, Selection};
use rukh_backend::multi::{DemuxBackend, MultiplexingBackend, RoundRobinBackend};
use rukh_backend::options_dict::{HEAD_OPTIONS, OptionsDict};
use rukh_backend::synthetic::{
    DeviceOptions, RandomBackend, RandomOptions, SimulatedDevice, Times, TrivialBackend,
};
use rukh_backend::wrap::{CheckBackend, CheckMode, CheckOptions, RecordingBackend, ReplayingBackend};
use rukh_backend::{Backend, BackendError, LARGEST_BATCH};
use rukh_cpu::{Choice, CpuBackend, CpuOptions, InstructionSet, Precision};
use rukh_net::Network;
use rukh_options::BackendName;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The lists of options of the backends on the processor.
const CPU_OPTIONS: &[&[&str]] = &[&["threads", "batch_size", "isa"], &HEAD_OPTIONS];

/// The options of a simulated device.
const DEVICE_OPTIONS: [&str; 5] = ["delay", "per_position", "times", "slots", "batch"];

/// The row of a backend on graphics cards.
const fn card(name: BackendName, selection: Selection, description: &'static str) -> BackendKind {
    BackendKind { name, description, options: cards::OPTIONS, selection, make: make_gpu }
}

/// Every backend. `auto` tries the backends with [`Selection::Automatic`] in this order, except that `cards::makers` says
/// which maker's cards come first.
pub const BACKENDS: &[BackendKind] = &[
    card(BackendName::RocmAuto, Selection::Automatic, "AMD GPU through ROCm, in fp16"),
    card(BackendName::RocmFp16, Selection::ByName, "AMD GPU, with weights and GEMMs in fp16"),
    card(BackendName::RocmBf16, Selection::ByName, "AMD GPU, with weights and GEMMs in bf16"),
    card(
        BackendName::RocmInt8,
        Selection::ByName,
        "AMD GPU, with the GEMMs of encoders in 8-bit integers and all else in fp16",
    ),
    card(
        BackendName::RocmFp8,
        Selection::ByName,
        "AMD GPU, with the GEMMs of encoders in 8-bit floating-point numbers, which only some cards have, and all else in fp16",
    ),
    card(BackendName::Rocm, Selection::ByName, "AMD GPU, in fp32"),
    card(
        BackendName::CudaAuto,
        Selection::Automatic,
        "NVIDIA GPU through its display driver, in fp16, or in fp32 where the card lacks that",
    ),
    card(BackendName::CudaFp16, Selection::ByName, "NVIDIA GPU, with weights and GEMMs in fp16"),
    card(BackendName::CudaBf16, Selection::ByName, "NVIDIA GPU, with weights and GEMMs in bf16"),
    card(
        BackendName::CudaInt8,
        Selection::ByName,
        "NVIDIA GPU, with the GEMMs of encoders in 8-bit integers and all else in fp16",
    ),
    card(
        BackendName::CudaFp8,
        Selection::ByName,
        "NVIDIA GPU, with the GEMMs of encoders in 8-bit floating-point numbers, which only some cards have, and all else in fp16",
    ),
    card(BackendName::Cuda, Selection::ByName, "NVIDIA GPU, in fp32"),
    BackendKind {
        name: BackendName::CpuAuto,
        description: "CPU, in the fastest number format that is accurate enough for the network, measured at the first start with it",
        options: CPU_OPTIONS,
        selection: Selection::Automatic,
        make: |maker, _, options| {
            make_cpu(maker, options, |network, cpu_options| {
                let chosen = Choice::new(network, cpu_options);
                match &chosen {
                    Ok(choice) => maker.notice_of_processor(choice.to_string()),
                    Err(error) => maker.notice(format!("{error}; using cpu")),
                }
                chosen.map_or(Precision::Fp32, |choice| choice.precision)
            })
        },
    },
    BackendKind {
        name: BackendName::Cpu,
        description: "CPU, in fp32",
        options: CPU_OPTIONS,
        selection: Selection::ByName,
        make: |maker, _, options| make_cpu(maker, options, |_, _| Precision::Fp32),
    },
    BackendKind {
        name: BackendName::CpuBf16,
        description: "CPU, with matrix products in bf16: less accurate than fp32, but faster with AMX or AVX512-BF16",
        options: CPU_OPTIONS,
        selection: Selection::ByName,
        make: |maker, _, options| make_cpu(maker, options, |_, _| Precision::Bf16),
    },
    BackendKind {
        name: BackendName::CpuInt8,
        description: "CPU, with matrix products in 8-bit integers: less accurate than bf16, but faster on most processors",
        options: CPU_OPTIONS,
        selection: Selection::ByName,
        make: |maker, _, options| make_cpu(maker, options, |_, _| Precision::Int8),
    },
    BackendKind {
        name: BackendName::Trivial,
        description: "counts material without a network, for tests and for benchmarks of the search",
        options: &[&DEVICE_OPTIONS],
        selection: Selection::WithoutNetwork,
        make: |_, _, options| on_device(Arc::new(TrivialBackend::new()), options),
    },
    BackendKind {
        name: BackendName::Random,
        description: "returns repeatable random evaluations without a network",
        options: &[&["seed", "uniform"], &DEVICE_OPTIONS],
        selection: Selection::WithoutNetwork,
        make: make_random,
    },
    BackendKind {
        name: BackendName::Check,
        description: "compares the evaluations of two backends",
        options: &[&["mode", "atol", "rtol", "freq"]],
        selection: Selection::WithoutNetwork,
        make: make_check,
    },
    BackendKind {
        name: BackendName::RecordReplay,
        description: "records the evaluations of a backend, or replays recorded evaluations",
        options: &[&["record_file", "replay_file"]],
        selection: Selection::WithoutNetwork,
        make: make_record_replay,
    },
    BackendKind {
        name: BackendName::RoundRobin,
        description: "gives whole batches to several backends in turn",
        options: &[],
        selection: Selection::WithoutNetwork,
        make: |maker, _, options| {
            let mut children = maker.children(options)?;
            Ok(Arc::new(RoundRobinBackend::new(children.remove(0), children)))
        },
    },
    BackendKind {
        name: BackendName::Multiplexing,
        description: "merges small batches into large ones, in one queue for several backends",
        options: &[&["max_batch", "workers"]],
        selection: Selection::WithoutNetwork,
        make: |maker, _, options| Ok(Arc::new(MultiplexingBackend::new(maker.children(options)?)?)),
    },
    BackendKind {
        name: BackendName::Demux,
        description: "splits each batch among several backends",
        options: &[&["step", "workers"]],
        selection: Selection::WithoutNetwork,
        make: |maker, _, options| {
            let step = options.number("step", 1, 1..=LARGEST_BATCH)?;
            Ok(Arc::new(DemuxBackend::new(maker.children(options)?, step)?))
        },
    },
];

/// The options that the backend of this name lists as its own; none for `auto`.
pub(super) fn own_options(name: &str) -> &'static [&'static [&'static str]] {
    BACKENDS.iter().find(|kind| kind.name.name() == name).map_or(&[], |kind| kind.options)
}

/// Whether a backend evaluates a network itself. Others may have children that do.
pub fn evaluates_network(name: BackendName) -> bool {
    let is_network = |kind: &BackendKind| kind.selection != Selection::WithoutNetwork;
    name == BackendName::Auto || BACKENDS.iter().any(|kind| kind.name == name && is_network(kind))
}

/// The option `isa` is only for comparisons: without it, the backend uses the processor's best instruction set.
fn make_cpu(
    maker: &Maker<'_>,
    options: OptionsDict<'_>,
    precision: impl FnOnce(&Arc<Network>, &CpuOptions) -> Precision,
) -> Made {
    let defaults = CpuOptions::default();
    let available = InstructionSet::available();
    let instructions = options
        .text("isa")
        .map(|name| {
            let found = available.iter().find(|known| known.name().eq_ignore_ascii_case(name));
            found.copied().ok_or_else(|| BackendError::Option {
                option: format!("isa={name}"),
                reason: format!(
                    "this processor supports {}",
                    available.iter().map(|known| known.name()).collect::<Vec<_>>().join(", ")
                ),
            })
        })
        .transpose()?;
    let cpu_options = CpuOptions {
        threads: options.number("threads", defaults.threads, 1..=512)?,
        maximum_batch_size: options.number("batch_size", defaults.maximum_batch_size, 1..=LARGEST_BATCH)?,
        instructions,
    };
    let network = maker.network(options)?;
    let precision = precision(&network, &cpu_options);
    Ok(Arc::new(CpuBackend::new(
        network,
        precision,
        &cpu_options,
        maker.config().policy_softmax_temperature,
        maker.config().history_fill,
    )?))
}

/// If the device computes wrong figures, the processor takes its place, whether the user named the backend or not.
fn make_gpu(maker: &Maker<'_>, name: BackendName, options: OptionsDict<'_>) -> Made {
    match cards::make(maker.config(), name, options, || maker.network(options), |notice| maker.notice(notice))
    {
        Err(BackendError::WrongFigures { name, reason, notices }) => {
            notices.into_iter().for_each(|notice| maker.notice(notice));
            maker.notice(format!("backend {name}: {reason}; using cpu instead"));
            make_cpu(maker, options.listed_in(CPU_OPTIONS), |_, _| Precision::Fp32)
        }
        made => made,
    }
}

fn make_random(_: &Maker<'_>, _: BackendName, options: OptionsDict<'_>) -> Made {
    let defaults = RandomOptions::default();
    let random = RandomBackend::new(RandomOptions {
        seed: options.number("seed", defaults.seed, 0..=u64::MAX)?,
        uniform: options.flag("uniform", defaults.uniform)?,
    });
    on_device(Arc::new(random), options)
}

/// The backend on a simulated device, if any of [`DEVICE_OPTIONS`] is given.
fn on_device(backend: Arc<dyn Backend>, options: OptionsDict<'_>) -> Made {
    if DEVICE_OPTIONS.iter().all(|key| options.text(key).is_none()) {
        return Ok(backend);
    }
    let defaults = DeviceOptions::default();
    let milliseconds = |key: &str| -> Result<Duration, BackendError> {
        Ok(Duration::from_secs_f64(options.number(key, 0.0, 0.0..=60_000.0)? / 1000.0))
    };
    let device = DeviceOptions {
        delay: milliseconds("delay")?,
        per_position: milliseconds("per_position")?,
        times: options.text("times").map_or(Ok(Times::default()), |text| {
            Times::parse(text).ok_or_else(|| BackendError::Option {
                option: format!("times={text}"),
                reason: "expected SIZE:MICROSECONDS/SIZE:MICROSECONDS/..., with ascending sizes".to_owned(),
            })
        })?,
        slots: options.number("slots", defaults.slots, 1..=1024)?,
        batch: options.number("batch", defaults.batch, 1..=LARGEST_BATCH)?,
    };
    Ok(Arc::new(SimulatedDevice::new(backend, device)))
}

fn make_check(maker: &Maker<'_>, _: BackendName, options: OptionsDict<'_>) -> Made {
    let children = maker.children(options)?;
    let [work, reference] = children.as_slice() else {
        return Err(BackendError::Create {
            name: "check".to_owned(),
            reason: format!("expected two backends, as in `-o cpu-bf16,cpu`, but got {}", children.len()),
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

fn make_record_replay(maker: &Maker<'_>, _: BackendName, options: OptionsDict<'_>) -> Made {
    match (options.text("record_file"), options.text("replay_file")) {
        (Some(record), None) => {
            let mut children = maker.children(options)?;
            let inner = children.remove(0).backend;
            if !children.is_empty() {
                let reason = "it can record only one backend; to record several, put them into a roundrobin"
                    .to_owned();
                return Err(BackendError::Create { name: "recordreplay".to_owned(), reason });
            }
            Ok(Arc::new(RecordingBackend::new(inner, Path::new(record))?))
        }
        (None, Some(replay)) => Ok(Arc::new(ReplayingBackend::new(Path::new(replay))?)),
        _ => Err(BackendError::Create {
            name: "recordreplay".to_owned(),
            reason: "the backend options need either record_file=FILE or replay_file=FILE".to_owned(),
        }),
    }
}
