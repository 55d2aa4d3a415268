//! The connection to the server, with the credentials and the encryption that NATS has.

use super::args::ServerArgs;
use super::board::Board;
use super::error::{FleetError, file_error, print_error_line, server_error};
use super::job::{self, Job, JobVersion};
use async_nats::jetstream::context::{Context, ContextBuilder};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use futures_util::TryStreamExt;
use std::cmp::Reverse;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest pause between two attempts to reach the server.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long the server may take for a request or for storing a message.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Shorter passwords are only hidden where they stand in an address, because they may be a part of other words.
const SHORTEST_SECRET: usize = 6;

/// The jobs.
pub(crate) const JOBS: Board = Board { stream: "rukh-jobs", subject: "rukh.jobs", max_age: None };

/// The files that jobs need.
pub(crate) const FILES: Board = Board { stream: "rukh-files", subject: "rukh.files", max_age: None };

/// What workers say about themselves. A worker that is gone disappears after a while.
pub(crate) const WORKERS: Board =
    Board { stream: "rukh-workers", subject: "rukh.workers", max_age: Some(Duration::from_secs(60)) };

/// Connects to the server, and makes the streams that all jobs share.
///
/// # Errors
/// A setting is wrong, or the server refuses the connection or has no JetStream.
pub(crate) async fn connect(arguments: &ServerArgs, name: &str) -> Result<Context, FleetError> {
    let context = context_of(connect_client(arguments, name, false).await?);
    for board in [&JOBS, &FILES, &WORKERS] {
        board.open(&context).await?;
    }
    Ok(context)
}

/// The JetStream of a connection.
pub(crate) fn context_of(client: Client) -> Context {
    ContextBuilder::new().timeout(REQUEST_TIMEOUT).build(client)
}

/// Connects to the server. With `is_patient` it waits until a server answers, but not if it refuses this client's
/// credentials or has a certificate that is not trusted. A connection that is lost is made again, as often as needed.
///
/// # Errors
/// A setting is wrong, or the server refuses the connection; the text says with what it was tried.
pub(crate) async fn connect_client(
    arguments: &ServerArgs,
    name: &str,
    is_patient: bool,
) -> Result<Client, FleetError> {
    let addresses = arguments.server.clone();
    let mut options =
        ConnectOptions::new().name(name).max_reconnects(None).reconnect_delay_callback(pause).event_callback(
            move |event| {
                let text = match event {
                    Event::Disconnected => Some("the connection to the server is lost".to_owned()),
                    Event::ServerError(error) => Some(format!("the server says: {error}")),
                    Event::ClientError(error) => Some(format!("the connection: {error}")),
                    _ => None,
                };
                if let Some(text) = text {
                    print_error_line(&without_secrets(&text, &addresses));
                }
                std::future::ready(())
            },
        );
    let wrong = |what: &str, reason: String| FleetError::Connection { what: what.to_owned(), reason };
    if let Some(path) = &arguments.creds {
        let text = secret(path)?;
        options = options.credentials(&text).map_err(|error| wrong("--creds", error.to_string()))?;
    }
    if let Some(path) = &arguments.nkey {
        options = options.nkey(secret(path)?.trim().to_owned());
    }
    if let Some(path) = &arguments.token_file {
        options = options.token(secret(path)?.trim().to_owned());
    }
    if let Some(user) = &arguments.user {
        let password = match &arguments.password_file {
            Some(path) => secret(path)?.trim_end_matches(['\r', '\n']).to_owned(),
            None => return Err(wrong("--user", "also give --password-file".to_owned())),
        };
        options = options.user_and_password(user.clone(), password);
    }
    if let Some(path) = &arguments.tls_ca {
        options = options.add_root_certificates(path.clone()).require_tls(true);
    }
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        options = options.add_client_certificate(certificate.clone(), key.clone()).require_tls(true);
    }
    if arguments.tls {
        options = options.require_tls(true);
    }
    let addresses: Vec<&str> = arguments.server.split(',').map(str::trim).collect();
    let hide = |text: String| without_secrets(&text, &arguments.server);
    let what = || hide(format!("server {}", arguments.server));
    let mut attempts = 0;
    loop {
        // Left to itself, the client would repeat a refused attempt for ever.
        let error = match options.clone().connect(&addresses[..]).await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        if is_refusal(&error) {
            return Err(wrong(&what(), hide(format!("{error}; tried {}", means(arguments)))));
        }
        if !is_patient {
            return Err(wrong(&what(), hide(error.to_string())));
        }
        if attempts == 0 {
            print_error_line(&hide(format!("{}: {error}; waits for it", what())));
        }
        attempts += 1;
        tokio::time::sleep(pause(attempts)).await;
    }
}

/// A text without the passwords and tokens that the `addresses` of servers may have in front of their names.
fn without_secrets(text: &str, addresses: &str) -> String {
    let mut text = text.to_owned();
    for address in addresses.split(',').map(str::trim) {
        let login_and_host = address.split_once("://").map_or(address, |(_, rest)| rest);
        // A password may have an `@` of its own, and a host has none.
        let Some((login, _)) = login_and_host.rsplit_once('@') else { continue };
        let hidden = match login.split_once(':') {
            Some((user, _)) => format!("{user}:***@"),
            // Without a colon it is a token.
            None => "***@".to_owned(),
        };
        text = text.replace(&format!("{login}@"), &hidden);
        // Messages of the client may have a part of the address only.
        let secret = login.split_once(':').map_or(login, |(_, password)| password);
        if secret.len() >= SHORTEST_SECRET {
            text = text.replace(secret, "***");
        }
    }
    text
}

/// Whether another attempt would end alike: the server refuses the credentials, or its certificate is not trusted.
fn is_refusal(error: &ConnectError) -> bool {
    match error.kind() {
        ConnectErrorKind::Io => {
            let causes = std::iter::successors(error.source(), |&cause| cause.source());
            // This is the error for a certificate that is not trusted, and for a server that does not speak NATS.
            causes
                .filter_map(|cause| cause.downcast_ref::<io::Error>())
                .any(|cause| cause.kind() == io::ErrorKind::InvalidData)
        }
        ConnectErrorKind::Dns | ConnectErrorKind::TimedOut | ConnectErrorKind::MaxReconnects => false,
        _ => true,
    }
}

/// The credentials and certificates that a connection is made with, as flags.
fn means(arguments: &ServerArgs) -> String {
    let ServerArgs { creds, nkey, user, password_file, token_file, tls_ca, tls_cert, tls_key, .. } =
        arguments;
    let mut credentials = Vec::from_iter(user.as_ref().map(|user| format!("--user={user}")));
    let mut certificates = Vec::new();
    let files =
        [("creds", creds), ("nkey", nkey), ("password-file", password_file), ("token-file", token_file)];
    let flag = |(name, path): (&str, &Option<PathBuf>)| {
        path.as_ref().map(|path| format!("--{name}={}", path.display()))
    };
    credentials.extend(files.into_iter().filter_map(flag));
    if credentials.is_empty() {
        credentials.push("no credentials".to_owned());
    }
    match tls_ca {
        Some(path) => certificates.push(format!("--tls-ca={}", path.display())),
        None => certificates.push("no --tls-ca".to_owned()),
    }
    certificates.extend([("tls-cert", tls_cert), ("tls-key", tls_key)].into_iter().filter_map(flag));
    [credentials, certificates].concat().join(", ")
}

/// The pause before an attempt to reach the server.
fn pause(attempts: usize) -> Duration {
    LONGEST_PAUSE.min(Duration::from_millis(50 * 2_u64.saturating_pow(attempts.min(20) as u32)))
}

fn secret(path: &Path) -> Result<String, FleetError> {
    fs::read_to_string(path).map_err(|error| file_error("read", path, error))
}

/// The jobs of the server.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Those that this program understands, in the order in which they are worked on.
    pub(crate) known: Vec<Job>,
    /// Those of another version, with its number.
    pub(crate) others: Vec<(String, u32)>,
    /// Records that cannot be used, and why.
    pub(crate) unreadable: Vec<(String, String)>,
}

/// Why a record cannot be used.
enum BadRecord {
    Version(u32),
    Unreadable(String),
}

/// Reads and checks the record of a job.
fn read_job(name: &str, bytes: &[u8]) -> Result<Job, BadRecord> {
    let unreadable = |reason: String| BadRecord::Unreadable(reason);
    let version: JobVersion = serde_json::from_slice(bytes).map_err(|error| unreadable(error.to_string()))?;
    if version.protocol != job::PROTOCOL {
        return Err(BadRecord::Version(version.protocol));
    }
    let job: Job = serde_json::from_slice(bytes).map_err(|error| unreadable(error.to_string()))?;
    job.check(name).map_err(unreadable)?;
    Ok(job)
}

/// All jobs.
///
/// # Errors
/// The server does not answer.
pub(crate) async fn jobs(context: &Context) -> Result<Jobs, FleetError> {
    let mut jobs = Jobs::default();
    for (name, bytes) in JOBS.list(context).await? {
        match read_job(&name, &bytes) {
            Ok(job) => jobs.known.push(job),
            Err(BadRecord::Version(version)) => jobs.others.push((name, version)),
            Err(BadRecord::Unreadable(reason)) => jobs.unreadable.push((name, reason)),
        }
    }
    jobs.known.sort_by(|a, b| {
        (Reverse(a.priority), a.created_s, &a.name).cmp(&(Reverse(b.priority), b.created_s, &b.name))
    });
    Ok(jobs)
}

/// A job by its name.
///
/// # Errors
/// The server does not answer, there is no such job, or its record cannot be used.
pub(crate) async fn job(context: &Context, name: &str) -> Result<Job, FleetError> {
    let bytes = JOBS.get(context, name).await?.ok_or_else(|| FleetError::NoJob(name.to_owned()))?;
    read_job(name, &bytes).map_err(|error| {
        FleetError::Refused(match error {
            BadRecord::Version(_) => {
                format!("the job `{name}` was submitted by another version of rukh-fleet")
            }
            BadRecord::Unreadable(reason) => {
                format!("the record of the job `{name}` cannot be used: {reason}")
            }
        })
    })
}

/// Stores the record of a job.
///
/// # Errors
/// The server does not store it.
pub(crate) async fn put_job(context: &Context, job: &Job) -> Result<(), FleetError> {
    JOBS.put(context, &job.name, serde_json::to_vec(job).unwrap_or_default().into()).await
}

/// Notes that the test of a job is decided, so that workers leave it alone. A job that is still being submitted stays as
/// it is, because its record is going to be written by `submit`.
///
/// # Errors
/// The server does not answer, or there is no such job.
pub(crate) async fn put_decided(context: &Context, decided: &Job) -> Result<(), FleetError> {
    let found = job(context, &decided.name).await?;
    match found.id == decided.id && found.pieces.is_some() && !found.is_decided {
        true => put_job(context, &Job { is_decided: true, ..found }).await,
        false => Ok(()),
    }
}

/// Where the pieces of a job are.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    /// Pieces that no worker has yet.
    pub(crate) waiting: u64,
    /// Pieces that workers have.
    pub(crate) held: u64,
    /// The stored results, with those of pieces that were done twice.
    pub(crate) results: u64,
    /// The results of pieces that were put aside.
    pub(crate) failed: u64,
}

/// Where the pieces of a job are.
///
/// # Errors
/// The server does not answer, or the streams of the job are gone.
pub(crate) async fn counts(context: &Context, job: &Job) -> Result<Counts, FleetError> {
    let name = &job.name;
    let failed = |error: String| server_error(format!("count the pieces of {name}"), error);
    let work = context.get_stream_no_info(job::work_stream(name)).await;
    let consumer = work.map_err(|error| failed(error.to_string()))?.consumer_info(&job.consumer()).await;
    let consumer = consumer.map_err(|error| failed(error.to_string()))?;
    let done = context.get_stream_no_info(job::done_stream(name)).await;
    let done = done.map_err(|error| failed(error.to_string()))?;
    let subjects = done.info_with_subjects(">").await.map_err(|error| failed(error.to_string()))?;
    let subjects: Vec<(String, usize)> =
        subjects.try_collect().await.map_err(|error| failed(error.to_string()))?;
    let of = |subject: String| {
        subjects.iter().find(|(name, _)| *name == subject).map_or(0, |(_, count)| *count as u64)
    };
    Ok(Counts {
        waiting: consumer.num_pending,
        held: consumer.num_ack_pending as u64,
        results: of(job::done_subject(name)),
        failed: of(job::failed_subject(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_of_addresses_are_hidden() {
        let hide = |server: &str| without_secrets(&format!("server {server}: refused"), server);
        assert_eq!(hide("nats://user:pa:ss@word@host:4222"), "server nats://user:***@host:4222: refused");
        assert_eq!(hide("nats://a-long-token@host"), "server nats://***@host: refused");
        assert_eq!(hide("user:x@[::1]:4222"), "server user:***@[::1]:4222: refused");
        assert_eq!(
            hide("nats://u:secret1@a, tls://u:secret2@b:1"),
            "server nats://u:***@a, tls://u:***@b:1: refused"
        );
        assert_eq!(hide("nats://127.0.0.1:4222"), "server nats://127.0.0.1:4222: refused");
        assert_eq!(without_secrets("no host `secret1`", "nats://u:secret1@"), "no host `***`");
    }

    /// The variable of the environment may have a password.
    #[test]
    fn the_help_shows_no_values_of_the_environment() {
        use clap::CommandFactory;
        let command = crate::args::Arguments::command();
        let server = command.get_arguments().find(|argument| argument.get_id() == "server");
        assert!(server.is_some_and(clap::Arg::is_hide_env_values_set));
    }
}
