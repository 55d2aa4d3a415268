//! The flags.

use super::job::{
    Format, MOST_GAMES, MOST_MILLISECONDS, MOST_PIECES, MOST_REDELIVERY_S, MOST_TIME_LIMIT_S, MOST_TRIES,
    checked_name,
};
use clap::{Args, Parser, Subcommand};
use rukh::selfplay::elo::Sprt;
use std::path::PathBuf;

/// Spreads analyses and tournaments of the chess engine Rukh over many machines.
#[derive(Parser, Debug)]
#[command(name = "rukh-fleet", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How the server is reached.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ServerArgs {
    /// Address of the server; several addresses of one cluster are separated by commas
    #[arg(
        long,
        global = true,
        env = "RUKH_FLEET_SERVER",
        hide_env_values = true,
        default_value = "nats://127.0.0.1:4222",
        value_name = "URL"
    )]
    pub(crate) server: String,
    /// File with the credentials of a user (.creds)
    #[arg(long, global = true, env = "RUKH_FLEET_CREDS", value_name = "FILE")]
    pub(crate) creds: Option<PathBuf>,
    /// File with the seed of an NKey
    #[arg(long, global = true, env = "RUKH_FLEET_NKEY", value_name = "FILE")]
    pub(crate) nkey: Option<PathBuf>,
    /// Name of the user
    #[arg(long, global = true, env = "RUKH_FLEET_USER", value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File with the password of the user
    #[arg(long, global = true, env = "RUKH_FLEET_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// File with a token
    #[arg(long, global = true, env = "RUKH_FLEET_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Encrypts the connection, also if the server does not ask for it
    #[arg(long, global = true)]
    pub(crate) tls: bool,
    /// File with the certificates of authorities that the server's certificate may be from
    #[arg(long, global = true, env = "RUKH_FLEET_TLS_CA", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// File with the certificate of this client
    #[arg(long, global = true, env = "RUKH_FLEET_TLS_CERT", requires = "tls_key", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the key of this client's certificate
    #[arg(long, global = true, env = "RUKH_FLEET_TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Runs a NATS server with JetStream for this machine, or for others if it is told to listen
    Serve(ServeArgs),
    /// Cuts a job into pieces and gives them to the server
    Submit(SubmitArgs),
    /// Works on pieces until it is interrupted
    Work(WorkArgs),
    /// Writes the results of a job
    Collect(CollectArgs),
    /// Shows jobs and workers
    Status(StatusArgs),
    /// Lets the pieces of a job that were put aside be worked on again
    Retry(JobArgs),
    /// Removes a job with its pieces and results
    Remove(JobArgs),
    /// Puts the parts together that processes with `--shard` have written
    Merge(MergeArgs),
    /// Measures the pieces a second of a server with many simulated workers
    #[command(hide = true)]
    Simulate(SimulateArgs),
}

/// Flags of `serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on
    #[arg(long, default_value = "127.0.0.1:4222", value_name = "ADDRESS")]
    pub(crate) listen: String,
    /// Folder of the jobs and their results
    #[arg(long, default_value = "rukh-fleet-store", value_name = "FOLDER")]
    pub(crate) store: PathBuf,
    /// Most megabytes that the store may take; by default three quarters of the free space of its disk, as NATS decides
    #[arg(long, value_name = "MB")]
    pub(crate) max_store_mb: Option<u64>,
    /// Program of the server
    #[arg(long, default_value = "nats-server", value_name = "PROGRAM")]
    pub(crate) nats_server: PathBuf,
    /// File of NATS settings to include, such as `authorization` or `accounts`
    #[arg(long, value_name = "FILE")]
    pub(crate) include: Option<PathBuf>,
    /// Certificate of the server; connections are then encrypted
    #[arg(long, requires = "serve_tls_key", value_name = "FILE")]
    pub(crate) serve_tls_cert: Option<PathBuf>,
    /// Key of the server's certificate
    #[arg(long, requires = "serve_tls_cert", value_name = "FILE")]
    pub(crate) serve_tls_key: Option<PathBuf>,
    /// Authorities of the certificates that clients must have
    #[arg(long, requires = "serve_tls_cert", value_name = "FILE")]
    pub(crate) serve_tls_ca: Option<PathBuf>,
}

/// Flags of `submit`.
#[derive(Args, Debug)]
pub(crate) struct SubmitArgs {
    #[command(subcommand)]
    pub(crate) kind: SubmitKind,
}

/// Kinds of jobs.
#[derive(Subcommand, Debug)]
pub(crate) enum SubmitKind {
    /// Annotates games and positions, as `rukh analyze` does
    Analyze(SubmitAnalyzeArgs),
    /// Plays games or a tournament, as `rukh selfplay` does
    Selfplay(SubmitSelfplayArgs),
    /// Does nothing for a while with each piece, to test the server
    Test(SubmitTestArgs),
}

/// Flags of all jobs.
#[derive(Args, Debug, Clone)]
pub(crate) struct CommonArgs {
    /// Name of the job
    #[arg(long, value_name = "NAME", value_parser = checked_name)]
    pub(crate) job: String,
    /// Jobs with a higher priority come first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_name = "N")]
    pub(crate) priority: i64,
    /// How often a piece is tried before it is put aside with its error
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_TRIES)))]
    pub(crate) tries: u32,
    /// Seconds after which a piece of a silent worker is given to another one
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=MOST_REDELIVERY_S))]
    pub(crate) silence: u64,
    /// Seconds after which the engine is ended that works on a piece; this counts as a failed try
    #[arg(long, default_value_t = 21_600, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=MOST_TIME_LIMIT_S))]
    pub(crate) time_limit: u64,
}

/// Flags of jobs on which the engine works.
#[derive(Args, Debug, Clone)]
pub(crate) struct EngineArgs {
    /// Program of the engine, which says its version and its network; by default `rukh` beside this program
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) engine: Option<PathBuf>,
    /// Name of the network's file, without its folder, which the workers must have, or `any`; by default the network that
    /// the engine finds here
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Lets engines of every version work on the job
    #[arg(long)]
    pub(crate) any_version: bool,
    #[command(flatten)]
    pub(crate) folders: FolderArgs,
    /// Flags of the engine on all machines, after `--`, as in `-- --nodes=800`
    #[arg(last = true, value_name = "FLAG")]
    pub(crate) flags: Vec<String>,
}

/// Folders in which a job's flags may name files.
#[derive(Args, Debug, Clone)]
pub(crate) struct FolderArgs {
    /// Folder of the networks that a job may name, as in `--weights=new.pb.gz`; by default those that the engine finds by
    /// itself may be named
    #[arg(long, value_name = "FOLDER")]
    pub(crate) networks: Option<PathBuf>,
    /// Folder of the folders of tablebases that a job may name, as in `--syzygy-paths=3-4-5:6`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tablebases: Option<PathBuf>,
}

/// Flags of `submit analyze`.
#[derive(Args, Debug)]
pub(crate) struct SubmitAnalyzeArgs {
    /// Files as PGN, EPD, FEN lines or JSON lines, also compressed (.gz, .zst); `-` means stdin
    #[arg(value_name = "FILE", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Positions of a piece; a piece has at least one game or line
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) positions: u64,
    /// Format of the input; without it the name of each file says it, or else its first bytes
    #[arg(long, value_enum)]
    pub(crate) input_format: Option<ReadFormat>,
    /// Format of the results; by default that of the first file
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Formats of the input.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
pub(crate) enum ReadFormat {
    Pgn,
    #[value(alias = "fen")]
    Epd,
    Jsonl,
}

/// Flags of `submit selfplay`.
#[derive(Args, Debug)]
pub(crate) struct SubmitSelfplayArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Number of games
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_GAMES))]
    pub(crate) games: u64,
    /// Games of a piece; a pair of games with one opening is never divided
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) games_per_piece: u64,
    /// Ends the job as soon as its results decide between these two Elo differences, as in `0,5`
    #[arg(long, value_name = "ELO0,ELO1", allow_hyphen_values = true)]
    pub(crate) sprt: Option<Sprt>,
    /// Makes training data, as `rukh selfplay --training` does
    #[arg(long)]
    pub(crate) training: bool,
    /// File of openings, which the workers get from the server
    #[arg(long, value_name = "FILE")]
    pub(crate) openings: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Flags of `submit test`.
#[derive(Args, Debug)]
pub(crate) struct SubmitTestArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Number of pieces
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..MOST_PIECES))]
    pub(crate) pieces: u64,
    /// Time for each piece
    #[arg(long, default_value_t = 1.0, value_name = "MS", value_parser = milliseconds)]
    pub(crate) milliseconds: f64,
    /// Spends the time computing, and not waiting
    #[arg(long)]
    pub(crate) computes: bool,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (0.0..=MOST_MILLISECONDS).contains(value));
    value.ok_or_else(|| format!("not a number from 0 to {MOST_MILLISECONDS}"))
}

/// Flags of `work`.
#[derive(Args, Debug, Clone)]
pub(crate) struct WorkArgs {
    /// Program of the engine; by default `rukh` beside this program
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) engine: Option<PathBuf>,
    /// Name of this worker; by default the machine's name and the number of the process
    #[arg(long, value_name = "NAME", value_parser = checked_name)]
    pub(crate) name: Option<String>,
    /// Pieces to work on at once; by default as many as fill the engine's batches
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) slots: Option<u16>,
    /// Works on this job only
    #[arg(long, value_name = "NAME", value_parser = checked_name)]
    pub(crate) job: Option<String>,
    /// Ends when there is no more work
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) folders: FolderArgs,
    /// Flags of the engine on this machine, after `--`, as in `-- --backend=rocm`
    #[arg(last = true, value_name = "FLAG")]
    pub(crate) flags: Vec<String>,
}

/// Flags of `collect`.
#[derive(Args, Debug)]
pub(crate) struct CollectArgs {
    /// Name of the job
    #[arg(value_name = "JOB", value_parser = checked_name)]
    pub(crate) job: String,
    /// File of the results, named FILE.part until they are complete; without this flag, results go to stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Writes the file of the results although results are missing, and replaces one that is there
    #[arg(long, requires = "output")]
    pub(crate) partial: bool,
    /// Folder of the training data, which belongs to this job alone; what it has already is left as it is
    #[arg(long, value_name = "FOLDER")]
    pub(crate) training_dir: Option<PathBuf>,
    /// Puts the training data of each piece into a tar archive, and not of each game into a file
    #[arg(long, requires = "training_dir")]
    pub(crate) training_tar: bool,
    /// Writes results as they come, and not in the order of the input
    #[arg(long)]
    pub(crate) unordered: bool,
    /// Waits for the results that are missing
    #[arg(long)]
    pub(crate) wait: bool,
    /// Prints the figures at the end as JSON, on stdout if the results go to a file, and otherwise on stderr
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Name of a job; all jobs without it
    #[arg(value_name = "JOB", value_parser = checked_name)]
    pub(crate) job: Option<String>,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The flag of `retry` and `remove`.
#[derive(Args, Debug)]
pub(crate) struct JobArgs {
    /// Name of the job
    #[arg(value_name = "JOB", value_parser = checked_name)]
    pub(crate) job: String,
}

/// Flags of `merge`.
#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// Results of `rukh analyze` (.pgn, .epd, .jsonl, .csv), or what `rukh selfplay --json` has printed (.json)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) parts: Vec<PathBuf>,
    /// File of the whole; stdout without it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Flags of `simulate`.
#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// Name of a job of the kind test
    #[arg(value_name = "JOB", value_parser = checked_name)]
    pub(crate) job: String,
    /// Connections, each with one worker
    #[arg(long, default_value_t = 8)]
    pub(crate) workers: u32,
    /// Seconds after which the measurement ends
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Works on the pieces without a server, on as many threads as there are workers
    #[arg(long)]
    pub(crate) local: bool,
}
