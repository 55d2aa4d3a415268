//! What commands do to files: an output is never an input, what another process uses is not taken away, and a file that is
//! no regular file, too large or changed is an error.

#[cfg(unix)]
use crate::driver::Driver;
use crate::driver::{rukh, run, run_any};
use std::fs;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const GAME: &str = "[Event \"first\"]\n\n1. e4 e5 *\n\n";

/// With these settings a position takes a few milliseconds.
const DELAYED: [&str; 6] =
    ["analyze", "--backend=random", "--backend-opts=delay=3", "--nodes=12", "--nncache=0", "--parallelism=2"];

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).unwrap();
        self.name(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names of all files.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn games(count: usize) -> String {
    (0..count).map(|number| format!("[Event \"game {number}\"]\n\n1. Nf3 Nf6 2. Ng1 Ng8 *\n\n")).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command that must be refused, with this text on stderr.
fn refused(arguments: &[&str], shown: &str) {
    let begun = Instant::now();
    let output = run_any(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(shown), "{arguments:?}: {}", stderr(&output));
    assert!(begun.elapsed() < Duration::from_secs(20), "{arguments:?}: {:?}", begun.elapsed());
}

/// Waits until a journal says that a document is in the output.
fn wait_for_document(journal: &Path) {
    let begun = Instant::now();
    while !fs::read_to_string(journal).is_ok_and(|text| text.contains("{\"written\":")) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} says nothing", journal.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Begins an analysis into `out.pgn`, and waits until a game is done.
fn begin(folder: &Folder, arguments: &[&str]) -> Child {
    let mut command = rukh(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let process = command.spawn().unwrap();
    wait_for_document(&folder.path("out.pgn.journal"));
    process
}

#[test]
fn an_output_is_never_another_file_of_the_command() {
    let folder = Folder::new();
    let game = folder.file("x.pgn", GAME);
    fs::hard_link(folder.path("x.pgn"), folder.path("linked.pgn")).unwrap();
    let linked = folder.name("linked.pgn");
    let journal_of = folder.file("y.pgn.journal", GAME);
    let [new, output] = ["new.svg", "y.pgn"].map(|name| folder.name(name));
    let before = folder.names();
    let analyze = |more: &[&str]| {
        refused(&[&["analyze", "--backend=trivial", "--nodes=5"], more].concat(), "is the same file as");
    };
    for other in [&game, &linked] {
        analyze(&[&game, "--svg", other]);
        analyze(&[&game, "--output", other, "--overwrite"]);
        analyze(&[&game, "--rejected", other, "--overwrite"]);
        refused(
            &["bench", "--backend=trivial", "--nodes=5", "-w", &game, "--svg", other],
            "is the same file as",
        );
    }
    analyze(&[&game, "--svg", &new, "--output", &new]);
    analyze(&[&game, "--output", &new, "--rejected", &new]);
    analyze(&[&journal_of, "--input-format=pgn", "--output", &output, "--overwrite"]);
    analyze(&[&game, "--svg", &new, "--logfile", &new]);
    let openings = ["selfplay", "--backend=trivial", "--games=1", "--visits=2", "--openings-pgn", &game];
    for flag in ["--pgn", "--tournament-results-file"] {
        refused(&[&openings[..], &[flag, &linked]].concat(), "is the same file as");
    }
    refused(
        &[&openings[..], &["--pgn", &new, "--tournament-results-file", &new]].concat(),
        "is the same file as",
    );
    assert_eq!((folder.text("x.pgn"), folder.text("y.pgn.journal")), (GAME.to_owned(), GAME.to_owned()));
    assert_eq!(folder.names(), before, "nothing was made");
}

/// The second game's picture has a name that the command line does not have.
#[test]
fn a_picture_of_a_later_game_takes_no_place_of_an_input() {
    let folder = Folder::new();
    let input = folder.file("x-2.pgn", games(3));
    let output =
        run_any(&["analyze", "--backend=trivial", "--nodes=5", &input, "--svg", &folder.name("x.pgn")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is the same file as the input"), "{}", stderr(&output));
    assert_eq!(folder.text("x-2.pgn"), games(3));
    assert!(folder.text("x-3.pgn").starts_with("<svg"));
}

#[test]
fn a_running_analysis_keeps_its_files() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", games(1000));
    let output = folder.name("out.pgn");
    let arguments = [&DELAYED[..], &[&input, "--output", &output]].concat();
    let mut process = begin(&folder, &arguments);
    let before = folder.text("out.pgn");
    for more in [&["--overwrite"][..], &[]] {
        refused(&[&arguments[..], more].concat(), "is in use by another process");
    }
    assert!(process.try_wait().unwrap().is_none(), "it is done already");
    assert!(folder.text("out.pgn").starts_with(&before) && folder.path("out.pgn.journal").exists());
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn files_that_no_journal_belongs_to_stay_as_they_are() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", GAME);
    let output = folder.name("o.pgn");
    let arguments = ["analyze", "--backend=trivial", "--nodes=5", &input, "--output", &output];
    folder.file("o.pgn.journal", "my diary\n");
    for more in [&[][..], &["--overwrite"]] {
        refused(&[&arguments[..], more].concat(), "o.pgn.journal is no journal of an analysis");
    }
    assert_eq!(folder.text("o.pgn.journal"), "my diary\n");
    // Neither an empty journal nor one of no use entitles to cut off what is there.
    folder.file("o.pgn.journal", "");
    folder.file("o.pgn", "precious");
    refused(&arguments, "o.pgn exists; --overwrite");
    fs::remove_file(folder.path("o.pgn")).unwrap();
    folder.file("o.pgn.rejected", "precious too");
    refused(&arguments, "o.pgn.rejected exists; --overwrite");
    assert_eq!(folder.text("o.pgn.rejected"), "precious too");
    run(&[&arguments[..], &["--overwrite"]].concat());
    assert_eq!(folder.names(), ["a.pgn", "o.pgn"]);
}

#[test]
fn an_analysis_goes_on_only_with_the_same_content() {
    let folder = Folder::new();
    let (input, output) = (folder.file("a.pgn", games(40)), folder.name("out.pgn"));
    let arguments = [&DELAYED[..], &[&input, "--output", &output]].concat();
    let mut process = begin(&folder, &arguments);
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(folder.path("out.pgn.journal").exists(), "it is done already");
    let written = folder.text("out.pgn");
    // Other games in as many bytes.
    folder.file("a.pgn", games(40).replace("Nf3", "Nh3"));
    refused(&arguments, "belongs to an analysis with other files, settings or another version");
    assert_eq!(folder.text("out.pgn"), written);
    folder.file("a.pgn", games(40));
    // What is complete was cut off by another program.
    folder.file("out.pgn", &written[..10]);
    refused(&arguments, "out.pgn has been changed");
    folder.file("out.pgn", &written);
    run(&arguments);
    assert_eq!(folder.text("out.pgn").matches("[Event ").count(), 40);
}

#[test]
fn an_input_that_is_emptied_meanwhile_is_an_error() {
    let folder = Folder::new();
    // Many times more than is read at once.
    let long = games(200).replace("Nf3 Nf6", &format!("Nf3 {{{}}} Nf6", "long ".repeat(600)));
    let (input, output) = (folder.file("a.pgn", long), folder.name("out.pgn"));
    let arguments = [
        "analyze",
        "--backend=random",
        "--backend-opts=delay=3",
        "--nodes=2",
        "--parallelism=1",
        &input,
        "--output",
        &output,
    ];
    let process = begin(&folder, &arguments);
    fs::File::options().write(true).open(folder.path("a.pgn")).unwrap().set_len(0).unwrap();
    let finished = process.wait_with_output().unwrap();
    let shown = stderr(&finished);
    assert_eq!(finished.status.code(), Some(1), "{shown}");
    assert!(shown.contains("a.pgn has been changed since the analysis began"), "{shown}");
    assert!(folder.text("out.pgn").matches("[Event ").count() < 200);
}

/// Makes a named pipe.
#[cfg(unix)]
fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn configurations_networks_and_models_are_regular_files() {
    let folder = Folder::new();
    pipe(&folder.path("pipe"));
    let (pipe, output) = (folder.name("pipe"), folder.name("out.pb.gz"));
    for path in ["/dev/zero", "/dev/null", &pipe] {
        let shown = format!("{path}: it is not a regular file");
        let configured = run_any(&["bench", "--backend=trivial", "--nodes=5", "--config", path]);
        assert!(!configured.status.success());
        assert!(stderr(&configured).contains(&shown), "{}", stderr(&configured));
        refused(&["onnx2leela", "-i", path, "-o", &output], &shown);
        refused(&["describenet", "-w", path], &shown);
        refused(&["backendbench", "--backend=cpu", "-w", path], &shown);
        let replay = format!("--backend-opts=replay_file={path}");
        refused(&["backendbench", "--backend=recordreplay", &replay], "it is not a regular file");
    }
    let large = folder.file("large.config", vec![b'\n'; (1 << 20) + 1]);
    let configured = run_any(&["bench", "--backend=trivial", "--nodes=5", "--config", &large]);
    assert!(stderr(&configured).contains("more than 1048576 bytes"), "{}", stderr(&configured));
    assert!(!folder.path("out.pb.gz").exists());
}

/// What the first start has kept is replaced by pipes, which must not be waited for, and is written anew.
#[cfg(unix)]
#[test]
fn a_pipe_in_the_cache_folder_hangs_no_start() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let cache = folder.name("cache");
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-smolgen.pb.gz");
    let start = || {
        let arguments = ["--backend=cpu-int8", "-w", network];
        let mut engine = Driver::start_with(&arguments, &[("XDG_CACHE_HOME", &cache)]);
        engine.send("isready");
        engine.until("readyok");
        engine.send("quit");
        assert!(engine.ends_within(Duration::from_secs(60)).success());
    };
    start();
    let kept = folder.path("cache/rukh");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&kept), 0o700);
    let files: Vec<PathBuf> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    let contents: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!files.is_empty());
    for path in &files {
        assert_eq!(mode(path), 0o600, "{}", path.display());
        fs::remove_file(path).unwrap();
        pipe(path);
    }
    start();
    let again: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(again == contents);
}

/// The address space is limited, so that the cache of the default size cannot be had, but more than half of its
/// memory can.
#[cfg(target_os = "linux")]
#[test]
fn an_engine_with_little_address_space_searches_with_a_smaller_cache() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -v 600000; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_rukh"),
        "--config=",
        "--backend=trivial",
    ]);
    let mut engine = Driver::spawn(command);
    engine.send("position startpos moves e2e4");
    let said = engine.search("go nodes 300");
    let nodes =
        said.iter().filter_map(|line| line.split_once(" nodes ")?.1.split(' ').next()?.parse::<u64>().ok());
    assert!(nodes.max().is_some_and(|nodes| nodes >= 150), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("the memory suffices for a cache of ")), "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("error")), "{said:#?}");
}
