//! Measures the evaluations per second of the CPU backend, by precision, batch size and threads.
//!
//! ```text
//! cargo bench --bench hot -- NETWORK [--precision fp32|bf16|int8] [--batch 1,8,16] [--threads 1,2]
//!                            [--instructions portable|AVX2|AVX-512] [--seconds 2]
//! ```
//!
//! By default each thread evaluates its own batches, as search threads do. With `--shared` one thread submits
//! the batches, and the backend splits each of them over its own threads.
//!
//! The columns are evaluations per second in the median batch and in the fastest batch, and evaluations per second of
//! CPU time. Other processes on the machine do not lower the last figure. That figure needs Linux, and it has no
//! meaning with `--shared`.

use rukh_backend::{Backend, EvalRequest};
use rukh_chess::{PackedMove, Position, PositionHistory};
use rukh_cpu::{CpuBackend, CpuOptions, InstructionSet, Precision};
use rukh_net::{HeadSelection, HistoryFill, Network};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

struct Arguments {
    network: String,
    precisions: Vec<Precision>,
    batches: Vec<usize>,
    threads: Vec<usize>,
    instructions: Option<InstructionSet>,
    seconds: f64,
    shared: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        network: String::new(),
        precisions: vec![Precision::Fp32, Precision::Bf16, Precision::Int8],
        batches: vec![1, 8, 16],
        threads: vec![1],
        instructions: None,
        seconds: 2.0,
        shared: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--bench" => {} // Cargo adds this argument.
            "--shared" => arguments.shared = true,
            "--precision" => {
                arguments.precisions = match value()?.as_str() {
                    "fp32" => vec![Precision::Fp32],
                    "bf16" => vec![Precision::Bf16],
                    "int8" => vec![Precision::Int8],
                    other => return Err(format!("--precision {other}: expected fp32, bf16 or int8")),
                }
            }
            "--batch" => arguments.batches = numbers(&value()?)?,
            "--threads" => arguments.threads = numbers(&value()?)?,
            "--seconds" => {
                arguments.seconds = value()?.parse().map_err(|error| format!("--seconds: {error}"))?
            }
            "--instructions" => {
                let name = value()?;
                let all = InstructionSet::available();
                let found = all.iter().find(|instructions| instructions.name() == name);
                arguments.instructions = Some(*found.ok_or_else(|| {
                    let names: Vec<&str> = all.iter().map(|instructions| instructions.name()).collect();
                    format!("--instructions {name}: this processor has {}", names.join(", "))
                })?);
            }
            network => arguments.network = network.to_owned(),
        }
    }
    Ok(arguments)
}

fn numbers(list: &str) -> Result<Vec<usize>, String> {
    list.split(',').map(|number| number.parse().map_err(|error| format!("{number}: {error}"))).collect()
}

/// Up to 60 positions of a game, each with its legal moves. Each side plays the move in the middle of that list.
fn positions() -> Vec<(PositionHistory, Vec<PackedMove>)> {
    let mut history = PositionHistory::new(Position::startpos());
    let mut all = Vec::new();
    for _ in 0..60 {
        let legal = history.last().legal_moves();
        all.push((history.clone(), legal.iter().map(|&m| PackedMove::new(m)).collect()));
        match legal.get(legal.len() / 2) {
            Some(&m) => history.push(m),
            None => break,
        }
    }
    all
}

/// The CPU time that this thread has used so far, in seconds; 0 where there is no `/proc`.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds: Option<f64> = text.split(' ').next().and_then(|word| word.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// The measurements of one thread.
struct Measured {
    /// The wall-clock time of each batch.
    seconds: Vec<f64>,
    /// Positions evaluated per second of CPU time.
    per_cpu_second: f64,
}

/// Evaluates batches of `size` positions for `duration`, and at least three batches.
fn measure(
    backend: &CpuBackend,
    requests: &[(PositionHistory, Vec<PackedMove>)],
    size: usize,
    duration: Duration,
) -> Measured {
    let cpu = cpu_seconds();
    let mut seconds = Vec::new();
    let begin = Instant::now();
    let mut next = 0;
    while begin.elapsed() < duration || seconds.len() < 3 {
        let start = Instant::now();
        let mut batch = backend.new_batch();
        for _ in 0..size {
            let (history, moves) = &requests[next % requests.len()];
            batch.add(EvalRequest { history, moves });
            next += 1;
        }
        match batch.submit().wait() {
            Ok(evaluations) => assert_eq!(evaluations.len(), size),
            Err(error) => panic!("{error}"),
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    let per_cpu_second = (seconds.len() * size) as f64 / (cpu_seconds() - cpu);
    Measured { seconds, per_cpu_second }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let network = Network::load(Path::new(&arguments.network), &HeadSelection::default())
        .map_err(|error| error.to_string())?;
    let network = Arc::new(network);
    let requests = positions();
    println!(
        "{:<48} {:>7} {:>6} {:>10} {:>10} {:>10}",
        "backend", "threads", "batch", "median /s", "best /s", "/CPU s"
    );
    for &precision in &arguments.precisions {
        for &threads in &arguments.threads {
            let options = CpuOptions {
                threads: if arguments.shared { threads } else { 1 },
                instructions: arguments.instructions,
                ..CpuOptions::default()
            };
            let network = Arc::clone(&network);
            let backend = CpuBackend::new(network, precision, &options, 1.359, HistoryFill::FenOnly)
                .map_err(|error| error.to_string())?;
            for &size in &arguments.batches {
                let callers = if arguments.shared { 1 } else { threads };
                let barrier = Barrier::new(callers);
                let duration = Duration::from_secs_f64(arguments.seconds);
                let results: Vec<Measured> = std::thread::scope(|scope| {
                    let caller = || {
                        scope.spawn(|| {
                            measure(&backend, &requests, size, duration / 10);
                            barrier.wait();
                            measure(&backend, &requests, size, duration)
                        })
                    };
                    let all: Vec<_> = (0..callers).map(|_| caller()).collect();
                    all.into_iter().map(|caller| caller.join().expect("a caller does not panic")).collect()
                });
                let rate = |pick: &dyn Fn(&mut Vec<f64>) -> f64| -> f64 {
                    results.iter().map(|one| size as f64 / pick(&mut one.seconds.clone())).sum()
                };
                let median = rate(&|seconds| {
                    seconds.sort_by(f64::total_cmp);
                    seconds[seconds.len() / 2]
                });
                let best = rate(&|seconds| seconds.iter().copied().fold(f64::INFINITY, f64::min));
                let name = &backend.attributes().name;
                let per_cpu: f64 = results.iter().map(|one| one.per_cpu_second).sum();
                println!("{name:<48} {threads:>7} {size:>6} {median:>10.1} {best:>10.1} {per_cpu:>10.1}");
            }
        }
    }
    Ok(())
}

fn main() {
    let outcome = arguments().and_then(|arguments| {
        if arguments.network.is_empty() {
            // `cargo bench` and `cargo test --benches` name no network, so there is nothing to measure.
            println!(
                "usage: cargo bench --bench hot -- NETWORK [--precision fp32|bf16|int8] [--batch 1,8,16] …"
            );
            return Ok(());
        }
        run(&arguments)
    });
    if let Err(error) = outcome {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
