//! What a user of lc0 brings along: `lc0.config`, the names of lc0's backends and their options, its flags and modes.

use crate::driver::{Driver, rukh_at, run_any};
use std::fs;
use std::path::{Path, PathBuf};

/// A small network.
const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");

/// A folder with the binary, which is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let folder = Folder(path);
        let original = env!("CARGO_BIN_EXE_rukh");
        // A link saves a copy of a large file, where both places are on one file system.
        if fs::hard_link(original, folder.binary()).is_err() {
            fs::copy(original, folder.binary()).unwrap();
        }
        folder
    }

    fn binary(&self) -> PathBuf {
        self.0.join(format!("rukh{}", std::env::consts::EXE_SUFFIX))
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    /// Starts the binary of the folder as a UCI engine.
    fn start(&self, arguments: &[&str]) -> Driver {
        Driver::spawn(rukh_at(&self.binary(), arguments))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How many of `lines` contain `part`.
fn count(lines: &[String], part: &str) -> usize {
    lines.iter().filter(|line| line.contains(part)).count()
}

fn assert_once(lines: &[String], part: &str) {
    assert_eq!(count(lines, part), 1, "`{part}` in {lines:#?}");
}

#[test]
fn lc0_config_beside_the_binary_is_read_and_its_wrong_lines_are_named() {
    let folder = Folder::new("lc0-config");
    folder.write(
        "lc0.config",
        &format!(
            "# made for lc0\n--threads=1\nweights={NETWORK}\nbackend=cudnn-fp16\nnonsense=3\ntask-workers=0\n\
             slowmover=1.2\nbackend-opts=gpu=0,multi_stream=true\nmultipv=2\n"
        ),
    );
    let mut engine = folder.start(&[]);
    let lines = engine.ask("uci");
    assert_once(&lines, "info string using lc0's configuration file ");
    assert_once(&lines, "lc0.config, line 5: unknown flag `--nonsense`; the line is passed over");
    assert_once(&lines, "lc0.config, line 6: TaskWorkers has no effect here: ");
    assert_once(&lines, "lc0.config, line 7: `--slowmover` is an option of lc0 that Rukh does not have: ");
    assert_eq!(count(&lines, "info string error: "), 2, "{lines:#?}");
    assert_once(&lines, "option name MultiPV type spin default 2 ");
    assert_once(&lines, "option name Backend type combo default cuda-fp16 ");
    assert_once(&lines, "info string cuda-fp16 takes the place of lc0's backend `cudnn-fp16`");
    let found = engine.search("go nodes 5");
    assert!(count(&found, " multipv 2 ") > 0 && count(&found, "error") == 0, "{found:#?}");
    drop(engine);

    // The file with the engine's own name comes first.
    folder.write("rukh.config", "backend=trivial\n");
    let mut engine = folder.start(&[]);
    let lines = engine.ask("uci");
    assert_once(&lines, "option name Backend type combo default trivial ");
    assert_eq!(count(&lines, "lc0"), 0, "{lines:#?}");
}

/// A distribution's lc0, or one that several users share, keeps its files apart from the binary.
#[cfg(unix)]
#[test]
fn lc0s_folders_for_configuration_and_networks_are_searched() {
    let folder = Folder::new("lc0-folders");
    let put = |place: &str, file: &str, bytes: &[u8]| {
        fs::create_dir_all(folder.0.join(place)).unwrap();
        fs::write(folder.0.join(place).join(file), bytes).unwrap();
    };
    let (configuration, networks) = if cfg!(target_os = "macos") {
        ("Library/Preferences/lc0", "Library/lc0/networks")
    } else {
        (".config/lc0", ".local/share/lc0/networks")
    };
    put(configuration, "lc0.config", b"backend=trivial\nthreads=1\n");
    put(networks, "mine.pb.gz", &fs::read(NETWORK).unwrap());
    let start = |settings: &[(&str, &str)]| {
        let mut command = rukh_at(&folder.binary(), &["-b", "cpu"]);
        command.env("HOME", &folder.0).current_dir(&folder.0);
        command.envs(settings.iter().map(|(name, place)| (name, folder.0.join(place))));
        Driver::spawn(command)
    };
    let mut engine = start(&[]);
    let lines = engine.ask("uci");
    assert_once(&lines, &format!("{configuration}/lc0.config"));
    assert_once(&lines, &format!("{networks}/mine.pb.gz"));
    drop(engine);
    if cfg!(target_os = "macos") {
        return;
    }

    // The user's folders come before those of the system, and other folders can be named.
    put("system/lc0", "lc0.config", b"threads=1\n");
    put("elsewhere/lc0", "lc0.config", b"threads=1\n");
    let mut engine = start(&[("XDG_CONFIG_DIRS", "system")]);
    assert_once(&engine.ask("uci"), &format!("{configuration}/lc0.config"));
    let mut engine = start(&[("XDG_CONFIG_HOME", "elsewhere"), ("XDG_CONFIG_DIRS", "system")]);
    assert_once(&engine.ask("uci"), "elsewhere/lc0/lc0.config");
    fs::remove_dir_all(folder.0.join(configuration)).unwrap();
    let mut engine = start(&[("XDG_CONFIG_DIRS", "system")]);
    assert_once(&engine.ask("uci"), "system/lc0/lc0.config");

    // The file beside the binary comes first.
    folder.write("lc0.config", "multipv=2\n");
    let mut engine = start(&[("XDG_CONFIG_DIRS", "system")]);
    assert_once(&engine.ask("uci"), "option name MultiPV type spin default 2 ");
}

#[test]
fn lc0s_backends_and_their_options_are_accepted_in_every_place() {
    let mut engine =
        Driver::start(&["--threads=1", "-w", NETWORK, "-b", "blas", "-o", "threads=1,blas_cores=2"]);
    let lines = engine.search("go nodes 5");
    assert_once(&lines, "info string cpu takes the place of lc0's backend `blas`");
    assert_once(&lines, "are passed over: blas_cores, threads");
    assert_eq!(count(&lines, "error"), 0, "{lines:#?}");

    engine.send("setoption name Backend value CUDA-FP16");
    let lines = engine
        .ask("setoption name BackendOptions value gpu=0,min_batch=8,max_batch=2048,res_block_fusing=true");
    assert_once(&lines, "info string backend cuda-fp16: NVIDIA's display driver cannot be used: ");
    assert_once(&lines, "are passed over: min_batch, res_block_fusing");

    engine.send("setoption name Backend value multiplexing");
    let lines =
        engine.ask("setoption name BackendOptions value threads=2,cuda-auto(gpu=0),cuda-auto(gpu=1),eigen");
    assert_once(&lines, "info string backend cuda-auto: NVIDIA's display driver cannot be used: ");
    assert_once(&lines, "info string cpu takes the place of lc0's backend `eigen`");
    assert_once(&lines, "are passed over: threads");
    let lines = engine.search("go nodes 5");
    assert_eq!(count(&lines, "error"), 0, "{lines:#?}");

    let lines = engine.ask("setoption name Backend value nope");
    assert_once(&lines, "info string error: option Backend: `nope` is not one of auto, ");
}

/// A misspelt option must not be taken for one of lc0's.
#[test]
fn an_unknown_option_of_a_backend_is_an_error_with_lc0s_names_too() {
    let output = run_any(&["backendbench", "-w", NETWORK, "-b", "eigen", "-o", "batch_sise=4"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("batch_sise=4"), "{stderr}");
}

#[test]
fn flags_that_only_lc0_has_are_passed_over() {
    let mut engine = Driver::start(&["--backend=trivial", "--slowmover=1.1", "--threads=1"]);
    let lines = engine.ask("uci");
    assert_once(
        &lines,
        "--slowmover is a flag of lc0 that Rukh does not have, and is passed over: use the option",
    );
    let lines = engine.ask("setoption name Slowmover value 1.1");
    assert_once(
        &lines,
        "info string error: `Slowmover` is an option of lc0 that Rukh does not have: use the option",
    );
}

#[test]
fn modes_that_only_lc0_has_say_what_to_use() {
    for (mode, instead) in [("policyhead", "go nodes 1"), ("valuehead", "go nodes")] {
        let output = run_any(&[mode, "--weights=net.pb.gz", "--games=2"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("{mode} is a mode of lc0")) && stderr.contains(instead), "{stderr}");
    }
    for (mode, search) in [("classic", "classic"), ("dag-preview", "default")] {
        let mut engine = Driver::start(&[mode, "--backend=trivial", "--threads=1"]);
        let options = engine.ask("uci");
        let shown = format!("option name Search type combo default {search} ");
        assert!(options.iter().any(|line| line.starts_with(&shown)), "{mode}: {options:#?}");
        assert_eq!(engine.ask("ucinewgame"), [""; 0], "{mode}");
    }
}

/// lc0's way to put a network into a binary: its file, its length and `Lc0!` at the end.
fn append(binary: &Path, network: &[u8]) {
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_rukh")).unwrap();
    bytes.extend_from_slice(network);
    bytes.extend_from_slice(&u32::try_from(network.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(b"Lc0!");
    // The folder holds a link to the original, which must stay as it is.
    let permissions = fs::metadata(binary).unwrap().permissions();
    fs::remove_file(binary).unwrap();
    fs::write(binary, bytes).unwrap();
    fs::set_permissions(binary, permissions).unwrap();
}

#[test]
fn a_network_that_is_appended_to_the_binary_plays() {
    const APPENDED: &str = "network <embedded, appended to the binary>";
    let folder = Folder::new("appended");
    append(&folder.binary(), &fs::read(NETWORK).unwrap());
    for weights in ["<autodiscover>", "<embedded>", "<built in>"] {
        let output = rukh_at(&folder.binary(), &["describenet", "-w", weights]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.contains(APPENDED), "{weights}: {stderr}");
        let described = run_any(&["describenet", "-w", NETWORK]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&described.stdout));
    }
    let mut engine = folder.start(&["--threads=1"]);
    let lines = engine.search("go nodes 5");
    assert_once(&lines, &format!("info string {APPENDED}"));
    assert_eq!(count(&lines, "error"), 0, "{lines:#?}");
    drop(engine);

    append(&folder.binary(), b"this is no network");
    let mut engine = folder.start(&["--threads=1"]);
    let lines = engine.search("go nodes 5");
    assert_once(&lines, "error: cannot load network <embedded, appended to the binary>: it is not a Leela");
    assert_once(&lines, "; it is passed over");
    assert_once(&lines, "info string network ");
}
