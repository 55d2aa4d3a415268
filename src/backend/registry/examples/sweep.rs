//! Measures the GPU backend's speed with one set of options after another. The network is loaded once.
//!
//! usage: `sweep [--sizes=16,64,256,512] [--milliseconds=500] [--seconds=N] [--backend=cuda-fp16] NETWORK SET ...`
//!
//! A set is the value of the engine's `-o`, such as `fork=64,wait=spin`. `threads=N` before a slash
//! (`threads=4/streams=3`) replaces the number of threads that the backend asks for. Each batch size is measured for
//! `--milliseconds`, while every thread fills a batch, submits it and waits for it. After `--seconds` no further set is
//! started.
//!
//! Each set prints one line: network, set, seconds for making the backend, and positions per second at each size.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rukh_backend::options_dict::ParsedOptions;
use rukh_backend::{Backend, EvalRequest};
use rukh_chess::{PackedMove, Position, PositionHistory};
use rukh_gpu::{GpuBackend, GpuOptions, GpuPrecision, Maker};
use rukh_net::input::HistoryFill;
use rukh_net::{HeadSelection, Network};
use rukh_options::BackendName;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The number of batches that each thread runs before the measurement begins.
const WARM_UP_BATCHES: usize = 3;

struct Arguments {
    sizes: Vec<usize>,
    milliseconds: u64,
    seconds: u64,
    backend: String,
    network: String,
    sets: Vec<String>,
}

fn arguments() -> Result<Arguments, Error> {
    let (mut sizes, mut milliseconds, mut seconds) = (vec![16, 64, 256, 512], 500, u64::MAX);
    let (mut backend, mut words) = ("cuda-fp16".to_owned(), Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("--sizes", value)) => {
                sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            Some(("--milliseconds", value)) => milliseconds = value.parse()?,
            Some(("--seconds", value)) => seconds = value.parse()?,
            Some(("--backend", value)) => backend = value.to_owned(),
            _ if argument.starts_with("--") => return Err(format!("unknown argument {argument}").into()),
            _ => words.push(argument),
        }
    }
    if words.len() < 2 || sizes.is_empty() {
        return Err("a network and at least one set of options are needed".into());
    }
    let network = words.remove(0);
    Ok(Arguments { sizes, milliseconds, seconds, backend, network, sets: words })
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sweep: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, Error> {
    let begin = Instant::now();
    let bytes = std::fs::read(&arguments.network)?;
    let network = Network::load_bytes(&bytes, &HeadSelection::default())?;
    drop(bytes);
    let name = arguments.network.rsplit('/').next().unwrap_or_default().trim_end_matches(".pb.gz");
    let mut all_done = true;
    for set in &arguments.sets {
        if begin.elapsed().as_secs() >= arguments.seconds {
            say(&format!("{name} {set} NOT DONE: the time is over"));
            all_done = false;
            continue;
        }
        if let Err(error) = measure(arguments, name, &network, set) {
            say(&format!("{name} {set} FAILED: {error}"));
            all_done = false;
        }
    }
    Ok(all_done)
}

/// Prints a line and flushes standard output.
fn say(line: &str) {
    println!("{line}");
    // Errors are ignored, because the program that reads a pipe may have ended.
    let _ = std::io::stdout().flush();
}

fn measure(arguments: &Arguments, network_name: &str, network: &Network, set: &str) -> Result<(), Error> {
    let (threads, text) = match set.strip_prefix("threads=").and_then(|rest| rest.split_once('/')) {
        Some((threads, text)) => (Some(threads.parse()?), text),
        None => (None, set),
    };
    let largest = arguments.sizes.iter().copied().max().unwrap_or(1);
    let tree = ParsedOptions::parse(text)?;
    let name = arguments.backend.as_str();
    let backend = BackendName::from_name(name);
    let chosen = backend.and_then(|name| Maker::of_backend(name).zip(GpuPrecision::of_backend(name)));
    let (maker, precision) = chosen.ok_or_else(|| format!("{name} is no backend of a graphics card"))?;
    let mut options = GpuOptions::read(maker, tree.root(), 1024)?;
    tree.check_all_used(name, &[&GpuOptions::NAMES], |_| false)?;
    options.maximum_batch.get_or_insert(largest);
    let begin = Instant::now();
    let device = GpuBackend::open(name, &options)?;
    let fill = HistoryFill::FenOnly;
    let backend = GpuBackend::new(device, network.clone(), precision, &options, 1.0, fill)?;
    let seconds = begin.elapsed().as_secs_f64();
    backend.notices().iter().for_each(|notice| say(&format!("# {notice}")));
    let threads = threads.unwrap_or(backend.attributes().suggested_threads);
    let mut line = format!("{network_name:9} {set:60} {seconds:6.1} s");
    for &size in &arguments.sizes {
        let rate = rate(&backend, size, threads, Duration::from_millis(arguments.milliseconds))?;
        line += &format!(" {size:5} {rate:8.0}");
    }
    say(&line);
    Ok(())
}

/// Positions per second in batches of `size`.
fn rate(backend: &dyn Backend, size: usize, threads: usize, time: Duration) -> Result<f64, Error> {
    let position = Position::from_fen("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")?;
    let moves: Vec<PackedMove> = position.legal_moves().iter().map(|&m| PackedMove::new(m)).collect();
    let history = PositionHistory::new(position);
    let batch = || -> Result<(), Error> {
        let mut batch = backend.new_batch();
        for _ in 0..size {
            batch.add(EvalRequest { history: &history, moves: &moves });
        }
        batch.submit().wait()?;
        Ok(())
    };
    let ready = Barrier::new(threads);
    let done = AtomicUsize::new(0);
    let spans = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> Result<Duration, Error> {
                    let warm = (0..WARM_UP_BATCHES).try_for_each(|_| batch());
                    ready.wait();
                    warm?;
                    let begin = Instant::now();
                    while begin.elapsed() < time {
                        batch()?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(begin.elapsed())
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
    });
    let mut longest = Duration::ZERO;
    for span in spans {
        longest = longest.max(span.map_err(|_| "a thread panicked")??);
    }
    Ok((done.into_inner() * size) as f64 / longest.as_secs_f64())
}
