//! What chess programs expect beyond the UCI protocol. `docs/programs.md` names the programs that were tried.

use crate::driver::Driver;

/// XBoard takes these words, anywhere in a line, as a sign that the engine could not be started.
const XBOARD_GIVES_UP: [&str; 6] =
    ["unknown host", "No remote directory", "not found", "No such file", "can't alloc", "Permission denied"];

/// A missing file is an everyday thing: XBoard itself sends a SyzygyPath that seldom exists. The default backend says
/// that a machine has no ROCm.
#[test]
fn no_message_makes_xboard_give_up() {
    let network = concat!("--weights=", env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
    let nowhere = [("RUKH_ROCM_LIBRARY_PATH", "/nonexistent/rocm")];
    let mut engine = Driver::start_with(&[network, "--threads=1"], &nowhere);
    for (setting, begins) in [
        ("MultiPV value 2", "info string backend rocm-auto: "),
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
