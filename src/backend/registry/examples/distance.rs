//! Measures how far a backend's results are from lc0's, network by network, in fp32, fp16 and bf16 and in every batch
//! size.
//!
//! usage: `distance [--formats=fp32,fp16,bf16] [--max-batch=1024] [--seconds=N] [--backend=cuda] [--options=fork=64]
//! FOLDER|NETWORK ...`
//!
//! In a folder it looks for golden files (`*.json`, `*.json.gz`: lc0's fp32 results) and for the networks that they
//! name. It skips a golden file whose network is missing. A network that is given as a file is compared with the CPU
//! backend's fp32 results, on the positions of the first golden file.
//!
//! The output has a line for each network and number format, with the largest errors over all batch sizes:
//!
//! | column | error | limit |
//! |---|---|---|
//! | q 99 % | the 99th percentile of q's errors in a batch | none |
//! | max | q | yes |
//! | d | the draw probability | that of q |
//! | m | the number of moves left | yes |
//! | best | the prior of the move with the highest expected prior | yes |
//! | KL | the Kullback-Leibler divergence of the policies, in nats | yes |
//!
//! After `--seconds` no further measurement begins. The exit status is 1 if a measurement failed or did not begin, if a
//! result is beyond its limit, or if there was nothing to measure.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use flate2::read::GzDecoder;
use prost::Message;
use rukh_backend::{Backend, EvalRequest, Evaluations, Value};
use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
use rukh_net::file::proto::Net;
use rukh_registry::{self, BackendConfig};
use serde::Deserialize;

type Error = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct GoldenFile {
    network: String,
    backend_opts: String,
    input_format: i32,
    positions: Vec<GoldenPosition>,
}

#[derive(Deserialize, Clone)]
struct GoldenPosition {
    fen: String,
    moves: Vec<String>,
    policy_raw: Vec<(String, u16, f32)>,
    q: f32,
    d: f32,
    m: f32,
}

/// A position and its expected results.
struct Sample {
    history: PositionHistory,
    moves: Vec<PackedMove>,
    value: Value,
    priors: Vec<f32>,
}

/// A network and its samples.
struct Case {
    name: String,
    network: PathBuf,
    /// The backend options `policy_head` and `value_head` of the golden file.
    heads: String,
    samples: Vec<Sample>,
}

/// The largest allowed errors in a number format.
struct Limit {
    format: &'static str,
    /// The limit for q and for d.
    q: f32,
    m: f32,
    /// The limit for the best move's prior.
    top: f32,
    divergence: f32,
}

const LIMITS: [Limit; 3] = [
    Limit { format: "fp32", q: 1e-4, m: 1e-2, top: 1e-4, divergence: 1e-5 },
    Limit { format: "fp16", q: 1e-2, m: 1e-1, top: 1e-2, divergence: 1e-3 },
    Limit { format: "bf16", q: 5e-2, m: 1.0, top: 5e-2, divergence: 2e-2 },
];

/// Golden files that have another format and do not belong to a network.
const OTHER_FIGURES: [&str; 3] = ["planes", "profile-micro-smolgen-gfx1100", "trained-network-goldens"];

/// The batch sizes that the backend computes. A batch of another size is padded to the next of these sizes.
const BUCKETS: [usize; 19] =
    [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024];

/// The worst errors so far.
#[derive(Default, Clone, Copy)]
struct Worst {
    /// The 99th percentile of q's errors.
    percentile: f32,
    q: f32,
    d: f32,
    m: f32,
    /// The error of the best move's prior.
    top: f32,
    divergence: f32,
}

struct Arguments {
    formats: Vec<String>,
    max_batch: usize,
    seconds: u64,
    backend: String,
    /// More options for the backend.
    options: String,
    paths: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, Error> {
    let mut found = Arguments {
        formats: LIMITS.iter().map(|limit| limit.format.to_owned()).collect(),
        max_batch: 1024,
        seconds: u64::MAX,
        backend: "cuda".to_owned(),
        options: String::new(),
        paths: Vec::new(),
    };
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("--formats", value)) => found.formats = value.split(',').map(str::to_owned).collect(),
            Some(("--max-batch", value)) => found.max_batch = value.parse()?,
            Some(("--seconds", value)) => found.seconds = value.parse()?,
            Some(("--options", value)) => found.options = format!(",{value}"),
            Some(("--backend", value)) => found.backend = value.to_owned(),
            _ if argument.starts_with("--") => return Err(format!("unknown argument {argument}").into()),
            _ => found.paths.push(argument.into()),
        }
    }
    if found.paths.is_empty() {
        return Err("name a folder with golden files".into());
    }
    Ok(found)
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("distance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, Error> {
    let begin = Instant::now();
    let edited = std::env::temp_dir().join(format!("rukh-distance-{}", std::process::id()));
    let mut files = BTreeMap::new();
    for folder in arguments.paths.iter().filter(|path| path.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.entry(name).or_insert(path);
        }
    }
    let mut cases = Vec::new();
    for (name, path) in &files {
        let Some(set) = name.strip_suffix(".json.gz").or_else(|| name.strip_suffix(".json")) else {
            continue;
        };
        if cases.iter().any(|case: &Case| case.name == set) || OTHER_FIGURES.contains(&set) {
            continue;
        }
        let golden: GoldenFile =
            serde_json::from_str(&text(path)?).map_err(|error| format!("{name}: {error}"))?;
        let Some(network) = network_of(&golden, &files, &edited)? else {
            println!("skipped: {set}, because {} was not found", golden.network);
            continue;
        };
        let samples = golden.positions.iter().map(sample).collect::<Result<_, _>>()?;
        let heads =
            golden.backend_opts.split(',').filter(|option| option.contains("_head=")).collect::<Vec<_>>();
        cases.push(Case { name: set.to_owned(), network, heads: heads.join(","), samples });
    }
    for network in arguments.paths.iter().filter(|path| path.is_file()) {
        let positions =
            &cases.first().ok_or("a network needs positions: name a folder with golden files too")?.samples;
        let name = network.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let samples = by_cpu(network, positions)?;
        cases.push(Case {
            name: format!("{name} (against the CPU)"),
            network: network.clone(),
            heads: String::new(),
            samples,
        });
    }
    println!(
        "network, format, positions x batches: q 99 %, max of LIMIT; d; m of LIMIT; best of LIMIT; KL of LIMIT"
    );
    let mut is_good = true;
    let mut totals: BTreeMap<&str, (Worst, usize)> = BTreeMap::new();
    for case in &cases {
        for limit in
            LIMITS.iter().filter(|limit| arguments.formats.iter().any(|format| format == limit.format))
        {
            if begin.elapsed().as_secs() > arguments.seconds {
                println!("{}, {}: NOT DONE, no time left", case.name, limit.format);
                is_good = false;
                continue;
            }
            match measure(case, limit.format, arguments) {
                Ok((worst, batches)) => {
                    is_good &= report(
                        &format!("{}, {}, {} x {batches}", case.name, limit.format, case.samples.len()),
                        &worst,
                        limit,
                    );
                    let (total, count) = totals.entry(limit.format).or_default();
                    total.merge(&worst);
                    *count += 1;
                }
                Err(error) => {
                    println!("{}, {}: FAILED: {error}", case.name, limit.format);
                    is_good = false;
                }
            }
        }
    }
    for limit in &LIMITS {
        if let Some((worst, count)) = totals.get(limit.format) {
            report(&format!("ALL {count} networks in {}", limit.format), worst, limit);
        }
    }
    // The folder exists only if a network had to be edited.
    let _ = fs::remove_dir_all(edited);
    Ok(is_good && !cases.is_empty())
}

fn text(path: &Path) -> Result<String, Error> {
    let bytes = fs::read(path)?;
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
    } else {
        text = String::from_utf8(bytes)?;
    }
    Ok(text)
}

/// Finds the network's file. If a network `micro-in*` is missing, it is made from micro-attn by changing the input
/// format in the header.
fn network_of(
    golden: &GoldenFile,
    files: &BTreeMap<String, PathBuf>,
    edited: &Path,
) -> Result<Option<PathBuf>, Error> {
    if let Some(path) = files.get(&golden.network) {
        return Ok(Some(path.clone()));
    }
    let Some(base) = files.get("micro-attn.pb.gz").filter(|_| golden.network.starts_with("micro-in")) else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    GzDecoder::new(&fs::read(base)?[..]).read_to_end(&mut bytes)?;
    let mut net = Net::decode(bytes.as_slice())?;
    let format = net.format.as_mut().and_then(|format| format.network_format.as_mut());
    format.ok_or("micro-attn has no network format")?.input = Some(golden.input_format);
    fs::create_dir_all(edited)?;
    let path = edited.join(golden.network.trim_end_matches(".gz"));
    fs::write(&path, net.encode_to_vec())?;
    Ok(Some(path))
}

fn sample(golden: &GoldenPosition) -> Result<Sample, Error> {
    let mut history = PositionHistory::new(Position::from_fen(&golden.fen)?);
    for text in &golden.moves {
        let next = uci_move::parse(history.last(), text)?;
        history.push(next);
    }
    let mut moves = Vec::new();
    for (text, _, _) in &golden.policy_raw {
        moves.push(PackedMove::new(uci_move::parse(history.last(), text)?));
    }
    let logits = || golden.policy_raw.iter().map(|(_, _, logit)| *logit);
    let largest = logits().fold(f32::NEG_INFINITY, f32::max);
    let total: f32 = logits().map(|logit| (logit - largest).exp()).sum();
    let priors = logits().map(|logit| (logit - largest).exp() / total).collect();
    Ok(Sample { history, moves, value: Value { q: golden.q, d: golden.d, m: golden.m, e: 0.0 }, priors })
}

fn backend(name: &str, options: &str, network: &Path) -> Result<Arc<dyn Backend>, Error> {
    let config = BackendConfig {
        backend: name.to_owned(),
        options: options.to_owned(),
        network: network.display().to_string(),
        policy_softmax_temperature: 1.0,
        cache_entries: 0,
        ..BackendConfig::default()
    };
    Ok(rukh_registry::create(&config)?.backend)
}

fn evaluate<'a>(
    backend: &dyn Backend,
    samples: impl Iterator<Item = &'a Sample>,
) -> Result<Evaluations, Error> {
    let mut batch = backend.new_batch();
    for Sample { history, moves, .. } in samples {
        batch.add(EvalRequest { history, moves });
    }
    Ok(batch.submit().wait()?)
}

/// The CPU backend's fp32 results for the positions. These results are within 1e-4 of lc0's.
fn by_cpu(network: &Path, positions: &[Sample]) -> Result<Vec<Sample>, Error> {
    let cpu = backend("cpu", "", network)?;
    let evaluations = evaluate(&*cpu, positions.iter())?;
    let made = positions.iter().zip(evaluations.iter()).map(|(sample, (value, priors))| Sample {
        history: sample.history.clone(),
        moves: sample.moves.clone(),
        value,
        priors: priors.to_vec(),
    });
    Ok(made.collect())
}

/// The worst errors of a network in a number format, and the number of batches. There is a full and a padded batch of
/// each size, and each batch runs twice: step by step and as a captured graph.
fn measure(case: &Case, format: &str, arguments: &Arguments) -> Result<(Worst, usize), Error> {
    let name =
        if format == "fp32" { arguments.backend.clone() } else { format!("{}-{format}", arguments.backend) };
    let separator = if case.heads.is_empty() { "" } else { "," };
    let (most, more) = (arguments.max_batch, &arguments.options);
    // If an option is given twice, the first value counts. So `warm_up=false` is left out if the caller sets `warm_up`.
    let warm_up = if more.contains("warm_up=") { "" } else { ",warm_up=false" };
    let options = format!("max_batch={most},streams=1{warm_up}{more}{separator}{}", case.heads);
    let backend = backend(&name, &options, &case.network)?;
    let mut worst = Worst::default();
    let mut batches = 0;
    let mut first = 0;
    for bucket in BUCKETS.into_iter().filter(|&bucket| bucket <= arguments.max_batch) {
        // The padded batch runs first, because the full batch would leave the right results behind in memory.
        for count in [bucket.saturating_sub(1).max(1), bucket] {
            for _ in 0..2 {
                let samples: Vec<&Sample> = case.samples.iter().cycle().skip(first).take(count).collect();
                let evaluations = evaluate(&*backend, samples.iter().copied())?;
                if evaluations.len() != count {
                    return Err(format!("{} answers for {count} positions", evaluations.len()).into());
                }
                worst.merge(&distance(&samples, &evaluations)?);
                batches += 1;
                // The next batch has other positions at the same index.
                first = (first + 7) % case.samples.len();
            }
        }
    }
    Ok((worst, batches))
}

/// The errors of one batch.
fn distance(samples: &[&Sample], evaluations: &Evaluations) -> Result<Worst, Error> {
    let mut worst = Worst::default();
    let mut errors = Vec::with_capacity(samples.len());
    for (sample, (value, priors)) in samples.iter().zip(evaluations.iter()) {
        if priors.len() != sample.priors.len()
            || priors.iter().any(|prior| prior.is_nan())
            || value.q.is_nan()
        {
            return Err("a figure is missing, or not a number".into());
        }
        let pairs = || sample.priors.iter().zip(priors);
        let best = pairs().max_by(|(a, _), (b, _)| a.total_cmp(b));
        errors.push((value.q - sample.value.q).abs());
        worst.merge(&Worst {
            d: (value.d - sample.value.d).abs(),
            m: (value.m - sample.value.m).abs(),
            top: best.map_or(0.0, |(expected, found)| (expected - found).abs()),
            divergence: pairs().map(|(p, q)| if *p > 0.0 { p * (p / q).ln() } else { 0.0 }).sum(),
            ..Worst::default()
        });
    }
    errors.sort_by(f32::total_cmp);
    worst.percentile = errors[(errors.len() * 99).div_ceil(100) - 1];
    worst.q = errors[errors.len() - 1];
    Ok(worst)
}

impl Worst {
    fn merge(&mut self, other: &Worst) {
        let pairs = [
            (&mut self.percentile, other.percentile),
            (&mut self.q, other.q),
            (&mut self.d, other.d),
            (&mut self.m, other.m),
            (&mut self.top, other.top),
            (&mut self.divergence, other.divergence),
        ];
        for (mine, theirs) in pairs {
            *mine = mine.max(theirs);
        }
    }
}

/// Prints a line of the table. Returns whether all results are within the limits.
fn report(what: &str, worst: &Worst, limit: &Limit) -> bool {
    let is_near = worst.q <= limit.q
        && worst.d <= limit.q
        && worst.m <= limit.m
        && worst.top <= limit.top
        && worst.divergence <= limit.divergence;
    println!(
        "{what}: q 99 % {:.1e}, max {:.1e} of {:.0e}; d {:.1e}; m {:.1e} of {:.0e}; best {:.1e} of {:.0e}; KL {:.1e} of {:.0e}{}",
        worst.percentile,
        worst.q,
        limit.q,
        worst.d,
        worst.m,
        limit.m,
        worst.top,
        limit.top,
        worst.divergence,
        limit.divergence,
        if is_near { "" } else { "  TOO FAR" },
    );
    is_near
}
