//! A server with encryption and credentials, as `serve` runs it: whoever has them is let in, and others are told what
//! they were refused with. The certificates are made by `openssl`.

use crate::harness::*;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Settings for `openssl`, so that those of the system do not matter.
const OPENSSL_SETTINGS: &str = "
[req]
distinguished_name = name
prompt = no
[name]
CN = rukh-fleet test
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[server]
basicConstraints = CA:FALSE
subjectAltName = IP:127.0.0.1
extendedKeyUsage = serverAuth
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
";

/// `rukh-fleet serve` with a certificate, in a folder with all files.
struct SecuredServer {
    folder: TempDir,
    address: String,
    server: Option<Child>,
}

impl Drop for SecuredServer {
    fn drop(&mut self) {
        // SIGTERM, so that `serve` ends the server, too. Nothing here may panic.
        let Some(mut server) = self.server.take() else { return };
        let asked = Command::new("kill").arg(server.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = server.kill();
        }
        let _ = server.wait();
    }
}

impl SecuredServer {
    /// Starts a server with more flags of `serve`, which may name files of the folder as `FOLDER/NAME`. Without the
    /// programs, it says so and returns `None`.
    fn start(authorization: &str, flags: &[&str]) -> Option<SecuredServer> {
        let nats_server = nats_server()?;
        if Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: there is no openssl, which is in Debian's package of this name");
            return None;
        }
        let mut secured =
            SecuredServer { folder: TempDir::new().unwrap(), address: free_address(), server: None };
        secured.file("openssl.cnf", OPENSSL_SETTINGS);
        secured.file("authorization.conf", authorization);
        for authority in ["authority", "stranger"] {
            secured.openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -keyout {authority}.key -out {authority}.pem -days 2 \
                 -config openssl.cnf -extensions authority"
            ));
        }
        secured.certificate("server");
        secured.certificate("client");
        let serve = [
            "serve",
            &format!("--listen={}", secured.address),
            "--store=FOLDER/store",
            &format!("--nats-server={}", nats_server.display()),
            "--serve-tls-cert=FOLDER/server.pem",
            "--serve-tls-key=FOLDER/server.key",
            "--include=FOLDER/authorization.conf",
        ];
        let mut command = secured.command(&[&serve, flags].concat());
        secured.server = Some(command.stderr(Stdio::null()).spawn().unwrap());
        Some(secured)
    }

    fn file(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let output = command.args(arguments.split_whitespace()).current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes a certificate of the authority, for the purpose of this name.
    fn certificate(&self, name: &str) {
        self.openssl(&format!(
            "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -config openssl.cnf"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA authority.pem -CAkey authority.key -CAcreateserial -out {name}.pem -days 2 \
             -extfile openssl.cnf -extensions {name}"
        ));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let folder = self.folder.path().display().to_string();
        let mut command = fleet_command(&self.address);
        command.args(arguments.iter().map(|argument| argument.replace("FOLDER", &folder)));
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command, which must end by itself.
    fn call(&self, arguments: &[&str], flags: &[&str]) -> Output {
        let mut command = self.command(&[arguments, flags].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > PATIENCE {
                child.kill().unwrap();
                let output = child.wait_with_output().unwrap();
                panic!("{arguments:?} does not end: {}", String::from_utf8_lossy(&output.stderr));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.wait_with_output().unwrap()
    }

    /// Waits for the server, and lets a worker with these flags do a job.
    fn lets_in(&self, flags: &[&str]) {
        let begun = Instant::now();
        loop {
            let status = self.call(&["status"], flags);
            if status.status.success() {
                break;
            }
            let reason = String::from_utf8_lossy(&status.stderr);
            assert!(begun.elapsed() < PATIENCE, "the server does not answer: {reason}");
            std::thread::sleep(Duration::from_millis(50));
        }
        for arguments in [&["submit", "test", "--job=t", "--pieces=20"][..], &["work", "--once"]] {
            let output = self.call(arguments, flags);
            let reason = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?}: {reason}");
        }
        let output = self.call(&["collect", "t", "--json", "--output=FOLDER/result"], flags);
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&figures["done"], &figures["missing"]), (&20.into(), &0.into()), "{figures}");
    }

    /// Checks that a worker and `status` end with an error that says all of this.
    fn refuses(&self, flags: &[&str], expected: &[&str]) {
        let folder = self.folder.path().display().to_string();
        for arguments in [&["work", "--once"][..], &["status"]] {
            let output = self.call(arguments, flags);
            let reason = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?} {flags:?}: {reason}");
            for text in [&[self.address.as_str()], expected].concat() {
                assert!(
                    reason.contains(&text.replace("FOLDER", &folder)),
                    "{flags:?}: {text} is not in {reason}"
                );
            }
            assert!(!reason.contains("secret"), "{reason}");
        }
    }
}

#[test]
fn a_worker_needs_the_password_and_the_authority_of_the_servers_certificate() {
    let authorization = "authorization { users = [ { user: worker, password: \"the secret one\" } ] }\n";
    let Some(server) = SecuredServer::start(authorization, &[]) else { return };
    server.file("right", "the secret one\n");
    server.file("wrong", "another secret one\n");
    let (user, authority) = ("--user=worker", "--tls-ca=FOLDER/authority.pem");
    let (right, wrong) = ("--password-file=FOLDER/right", "--password-file=FOLDER/wrong");
    server.lets_in(&[user, right, authority]);
    server.refuses(&[user, wrong, authority], &["authorization violation", user, wrong, authority]);
    server.refuses(&[authority], &["authorization violation", "no credentials", authority]);
    let address = format!("--server=nats://worker:wrong-secret@{}", server.address);
    server.refuses(&[&address, authority], &["authorization violation", "worker:***@"]);
    let stranger = "--tls-ca=FOLDER/stranger.pem";
    server.refuses(&[user, right, stranger], &["certificate", stranger]);
    // What the client says then depends on the authorities that the machine trusts.
    server.refuses(&[user, right], &["no --tls-ca"]);
}

#[test]
fn a_worker_needs_the_token_and_a_certificate_of_its_own_if_the_server_asks_for_them() {
    let authorization = "authorization { token: \"the secret one\" }\n";
    let flags = ["--serve-tls-ca=FOLDER/authority.pem"];
    let Some(server) = SecuredServer::start(authorization, &flags) else { return };
    server.file("right", "the secret one\n");
    server.file("wrong", "another secret one\n");
    let authority = "--tls-ca=FOLDER/authority.pem";
    let certificate = ["--tls-cert=FOLDER/client.pem", "--tls-key=FOLDER/client.key"];
    let (right, wrong) = ("--token-file=FOLDER/right", "--token-file=FOLDER/wrong");
    server.lets_in(&[&[right, authority][..], &certificate].concat());
    let tried = [&[wrong, authority][..], &certificate].concat();
    server.refuses(&tried, &[&["authorization violation"][..], &tried].concat());
    // The server closes the connection, which the client may notice before it reads why.
    let output = server.call(&["status"], &[right, authority]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The settings are those that the page shows.
#[test]
fn users_with_the_limits_of_the_page_can_do_their_part_and_no_more() {
    let page = include_str!("../../../docs/fleet.md");
    let settings = page.split("```conf\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let Some(server) = SecuredServer::start(settings, &[]) else { return };
    let authority = "--tls-ca=FOLDER/authority.pem";
    let user = |name: &str, password: &str| {
        server.file(name, password);
        [format!("--user={name}"), format!("--password-file=FOLDER/{name}"), authority.to_owned()]
    };
    let (owner, worker, reader) =
        (user("owner", "change this"), user("worker", "change that"), user("reader", "change both"));
    let flags = |user: &'_ [String; 3]| user.each_ref().map(|flag| flag.clone());
    let call = |arguments: &[&str], user: &[String; 3]| {
        let flags = flags(user);
        server.call(arguments, &flags.each_ref().map(String::as_str))
    };
    let begun = Instant::now();
    while !call(&["status"], &owner).status.success() {
        assert!(begun.elapsed() < PATIENCE, "the server does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The server does not answer what it does not allow, so these wait for some seconds, together.
    let call = &call;
    let all_refuse = |commands: &[&[&str]]| {
        std::thread::scope(|scope| {
            for user in [&worker, &reader] {
                for command in commands {
                    scope.spawn(move || {
                        assert_eq!(call(command, user).status.code(), Some(1), "{command:?} {user:?}")
                    });
                }
            }
        });
    };
    let submit = ["submit", "test", "--job=t", "--pieces=20"];
    assert!(call(&submit, &owner).status.success());
    let worked = call(&["work", "--once"], &worker);
    assert!(worked.status.success(), "{}", String::from_utf8_lossy(&worked.stderr));
    let collected = call(&["collect", "t", "--json", "--output=FOLDER/result"], &reader);
    let reason = String::from_utf8_lossy(&collected.stderr);
    assert!(collected.status.success(), "{reason}");
    all_refuse(&[&["remove", "t"], &["retry", "t"], &["submit", "test", "--job=u", "--pieces=20"]]);
}
