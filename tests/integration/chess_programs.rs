//! What chess programs expect beyond the UCI protocol. `docs/programs.md` names the programs that were tried.

use crate::driver::Driver;
use std::io::Write;
use std::process::{Command, Stdio};

/// XBoard takes these words, anywhere in a line, as a sign that the engine could not be started.
const XBOARD_GIVES_UP: [&str; 6] =
    ["unknown host", "No remote directory", "not found", "No such file", "can't alloc", "Permission denied"];

/// A missing file is an everyday thing: XBoard itself sends a SyzygyPath that seldom exists. The default backend says
/// that a machine has no graphics card.
#[test]
fn no_message_makes_xboard_give_up() {
    let network = concat!("--weights=", env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
    let nowhere = [("RUKH_ROCM_LIBRARY_PATH", "/nonexistent/rocm")];
    let mut engine = Driver::start_with(&[network, "--threads=1"], &nowhere);
    for (setting, begins) in [
        ("MultiPV value 2", "info string no graphics card that Rukh can use; "),
        ("SyzygyPath value /EGT/Syzygy", "info string error: SyzygyPath: cannot read /EGT/Syzygy: "),
        ("LogFile value /no/such/folder/log", "info string error: LogFile: cannot write "),
        ("WeightsFile value /no/such/network", "info string error: cannot load network /no/such/network: "),
    ] {
        let mut lines = engine.ask(&format!("setoption name {setting}"));
        lines.extend(engine.search("go nodes 1"));
        assert!(lines.iter().any(|line| line.starts_with(begins)), "after {setting}: {lines:#?}");
        for line in &lines {
            let phrase = XBOARD_GIVES_UP.iter().find(|phrase| line.contains(**phrase));
            assert_eq!(phrase, None, "after {setting}: {line}");
        }
    }
}

/// Nibbler looks for `Lc0` in the name, and shows lc0's statistics if it finds it.
#[test]
fn a_binary_called_lc0_says_that_it_is_in_place_of_lc0() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lc0 = folder.path().join("Lc0.exe");
    let rukh = env!("CARGO_BIN_EXE_rukh");
    #[cfg(unix)]
    std::os::unix::fs::symlink(rukh, &lc0).expect("the link is made");
    #[cfg(not(unix))]
    std::fs::copy(rukh, &lc0).expect("the file is copied");
    let mut child = Command::new(&lc0)
        .env("XDG_CONFIG_HOME", "/dev/null/none")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    child.stdin.take().expect("stdin is piped").write_all(b"uci\nquit\n").expect("the engine reads");
    let output = child.wait_with_output().expect("the engine ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let name = text.lines().next().unwrap_or_default();
    assert!(name.starts_with("id name Rukh ") && name.ends_with(" (in place of Lc0)"), "{text}");

    // Cute Chess and python-chess refuse a `Backend` that is not listed, and lichess-bot then does not start.
    let names = "cuda-auto cuda cuda-fp16 cudnn cudnn-fp16 opencl dx12 metal onnx-trt blas eigen";
    let backend =
        |lines: &str| lines.lines().find(|line| line.starts_with("option name Backend ")).map(str::to_owned);
    let listed = backend(&text).unwrap_or_default();
    for name in names.split(' ') {
        assert!(listed.split(" var ").any(|choice| choice == name), "{name} is not in {listed}");
    }
    let mut engine = Driver::start(&["--backend=trivial", "--threads=1"]);
    let listed = backend(&engine.ask("uci").join("\n")).unwrap_or_default();
    assert!(!listed.contains("cudnn"), "{listed}");
}
