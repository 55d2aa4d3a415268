//! The start on a card whose libraries misbehave: a library ends the process or hangs while it looks for an algorithm,
//! or reports success and computes something else. The engine must start, and play the move of the CPU backend.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::driver::NO_FOLDER;
use crate::rocm::{ABORTED, libraries, nowhere};
use crate::rocm_doctor::{NETWORK, doctor_with};
use crate::rocm_errors::{search, stdout};

/// The options of a search with few batch sizes, and with settings that no start measures.
const OPTIONS: &str = "gemm=library,max_batch=2,streams=1,wait=block,fuse=true,fork=0,graph=true,few_rows=0";

/// A folder with the emulator's libraries, and a cache folder.
pub(crate) struct Machine {
    pub(crate) libraries: tempfile::TempDir,
    pub(crate) cache: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine { libraries: libraries(), cache: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Runs one search on gfx1151, which prefers hipBLASLt, and returns what the engine says.
    pub(crate) fn search(&self, arguments: &[&str], settings: &[(&str, &str)]) -> String {
        let cache = self.cache.path().to_string_lossy();
        let ours = [("RUKH_EMULATOR_ARCH", "gfx1151"), ("XDG_CACHE_HOME", &*cache)];
        let arguments = [&["--threads=1"], arguments].concat();
        stdout(&search(self.libraries.path(), &arguments, &[&ours, settings].concat()))
    }

    /// The files in the cache folder whose names begin with `prefix`.
    pub(crate) fn kept(&self, prefix: &str) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(self.cache.path().join("rukh")).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
            .collect()
    }
}

/// The move that the processor plays.
fn move_of_the_processor() -> String {
    best_move(&stdout(&search(nowhere(), &["--backend=cpu", "--threads=1"], &[])))
}

fn best_move(said: &str) -> String {
    said.lines().find(|line| line.starts_with("bestmove ")).expect("a move is played").to_owned()
}

/// Checks that the engine started without an error and played the processor's move.
fn is_correct(said: &str) {
    assert!(!said.contains("info string error"), "{said}");
    assert_eq!(best_move(said), move_of_the_processor(), "{said}");
}

/// A GEMM that hipBLASLt is asked for, as the emulator's settings name it: m x n x k.
fn some_gemm(machine: &Machine) -> String {
    let file = machine.cache.path().join("gemms.csv");
    let options = format!("{OPTIONS},tuning_file={}", file.display());
    is_correct(&machine.search(&["--backend=rocm-fp16", "-o", &options], &[]));
    let table = fs::read_to_string(&file).expect("the table is written");
    let row = table.lines().find(|line| line.contains(",hipblaslt,")).expect("hipBLASLt computes a GEMM");
    let cells: Vec<&str> = row.split(',').collect();
    // The table's M are BLAS's n, and the other way round.
    [cells[3], cells[2], cells[4]].join("x")
}

/// lc0's backends for AMD's cards have ours in their place, and `auto` where there is no card.
#[test]
fn lc0s_hip_backends_mean_auto_without_a_card() {
    for (theirs, ours) in [("hip", "rocm"), ("hip-fp16", "rocm-fp16"), ("Hip-Auto", "rocm-auto")] {
        let text = stdout(&search(nowhere(), &[&format!("--backend={theirs}")], &[]));
        let replaced = format!("info string {ours} takes the place of lc0's backend `{theirs}`\n");
        let missing = format!("info string backend {ours}: amdhip64 is not in ");
        assert!(text.contains(&replaced) && text.contains(&missing), "{theirs}: {text}");
        assert!(text.contains("; using auto instead\n") && !text.contains("error"), "{theirs}: {text}");
    }
}

#[test]
fn a_crash_of_a_heuristic_ends_a_helper_and_is_remembered() {
    let machine = Machine::new();
    let gemm = some_gemm(&machine);
    let crash = format!("crash:{gemm}");
    let settings = [("RUKH_EMULATOR_HEURISTIC", crash.as_str())];
    let arguments = ["--backend=rocm-fp16", "-o", OPTIONS];
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    let sizes: Vec<&str> = gemm.split('x').collect();
    let named = format!("m={} n={} k={}", sizes[0], sizes[1], sizes[2]);
    let died = "info string hipBLASLt ends a process that asks for the GEMM ";
    assert!(said.contains(&format!("{died}{named}")) && said.contains(ABORTED), "{said}");
    assert!(said.contains("info string tuning: "), "{said}");

    // The second start knows the table. It starts no helper and says nothing.
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    assert!(!said.contains(died) && !said.contains("tuning"), "{said}");

    // Without the table everything is measured again, except for what ended a process.
    machine.kept("gemms-").iter().for_each(|path| fs::remove_file(path).expect("the table can be removed"));
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    assert!(!said.contains(died) && said.contains("info string tuning: "), "{said}");

    // Without tuning, the engine itself asks the library, but not for what ended a process.
    let said = machine.search(&["--backend=rocm-fp16", "-o", &format!("{OPTIONS},tune=off")], &settings);
    is_correct(&said);
    assert!(!said.contains(died) && !said.contains("tuning"), "{said}");
}

#[test]
fn a_heuristic_that_hangs_is_ended_and_remembered() {
    let machine = Machine::new();
    let hang = format!("hang:{}", some_gemm(&machine));
    let settings = [("RUKH_EMULATOR_HEURISTIC", hang.as_str())];
    let options = format!("{OPTIONS},helper_patience=4");
    let arguments = ["--backend=rocm-fp16", "-o", &options];
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    assert!(
        said.contains("info string hipBLASLt ends a process") && said.contains("no answer for 4 s"),
        "{said}"
    );
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    assert!(!said.contains("ends a process") && !said.contains("tuning"), "{said}");
}

const NOT_OPENED: &str = "rocm-auto: a process that opens the card ends (";

/// A start of `auto` whose helper has so many seconds.
fn start(machine: &Machine, patience: u32, failure: Option<&str>) -> String {
    let settings: Vec<_> = failure.map(|failure| ("RUKH_EMULATOR_FAIL", failure)).into_iter().collect();
    let said = machine.search(&["-o", &format!("{OPTIONS},helper_patience={patience}")], &settings);
    is_correct(&said);
    said
}

/// Checks that a start says why the card is not used, and which file remembers it, and that the card is used without it.
fn is_remembered(machine: &Machine, patience: u32, how: &str) {
    // The card may be well by now, but the file is still there.
    let said = start(machine, patience, None);
    assert!(said.contains(NOT_OPENED) && said.contains(how), "{said}");
    let kept = machine.kept("opened-");
    assert!(said.contains(&*kept[0].to_string_lossy()), "{said}");

    fs::remove_file(&kept[0]).expect("the file can be removed");
    let said = start(machine, patience, None);
    assert!(!said.contains("using cpu-auto instead") && said.contains("info string tuning: "), "{said}");
}

#[test]
fn a_card_that_ends_a_process_is_not_opened_again() {
    let machine = Machine::new();
    let said = start(&machine, 4, Some("hipMalloc:1=crash"));
    assert!(said.contains(NOT_OPENED) && said.contains(ABORTED), "{said}");
    assert!(said.contains("using cpu-auto instead"), "{said}");
    is_remembered(&machine, 4, ABORTED);
}

/// On a slow disk, the libraries may take longer than the usual time at the first start.
#[test]
fn a_card_that_hangs_a_process_gets_one_more_and_longer_try() {
    let hang = Some("hipModuleLoadData:1=hang");
    let machine = Machine::new();
    let said = start(&machine, 3, hang);
    assert!(
        said.contains(NOT_OPENED) && said.contains("no answer for 3 s), so the card is not used"),
        "{said}"
    );
    assert!(said.contains("; the next start waits longer; using cpu-auto instead"), "{said}");
    let said = start(&machine, 3, None);
    assert!(!said.contains(NOT_OPENED) && said.contains("info string tuning: "), "{said}");

    let machine = Machine::new();
    start(&machine, 3, hang);
    let said = start(&machine, 3, hang);
    assert!(said.contains("no answer for 12 s") && said.contains("; to try again, delete "), "{said}");
    is_remembered(&machine, 3, "no answer for 12 s");
}

/// The second start asks no helper, so that the crash happens in the engine.
#[test]
fn a_card_that_was_opened_once_is_opened_at_once() {
    let machine = Machine::new();
    is_correct(&machine.search(&["--backend=rocm-fp16", "-o", OPTIONS], &[]));
    let cache = machine.cache.path().to_string_lossy();
    let settings = [
        ("RUKH_EMULATOR_ARCH", "gfx1151"),
        ("XDG_CACHE_HOME", &*cache),
        ("RUKH_EMULATOR_FAIL", "hipMalloc:1=crash"),
    ];
    let arguments = ["--threads=1", "--backend=rocm-fp16", "-o", OPTIONS];
    let output = search(machine.libraries.path(), &arguments, &settings);
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn a_library_that_always_crashes_is_not_used() {
    let machine = Machine::new();
    let settings = [("RUKH_EMULATOR_HEURISTIC", "crash:*x*x*")];
    let arguments = ["--backend=rocm-fp16", "-o", OPTIONS];
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    assert!(
        said.contains("info string hipBLASLt ends a process") && said.contains("it is not used"),
        "{said}"
    );
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    assert!(!said.contains("ends a process"), "{said}");
}

#[test]
fn without_a_cache_folder_the_engine_starts_all_the_same() {
    let machine = Machine::new();
    let settings = [("RUKH_EMULATOR_HEURISTIC", "crash:*x*x*"), ("XDG_CACHE_HOME", NO_FOLDER)];
    let said = machine.search(&["--backend=rocm-fp16", "-o", OPTIONS], &settings);
    is_correct(&said);
    assert!(said.contains("cannot be kept for the next start"), "{said}");
}

/// A first start measures the settings of an AMD card, and uses and keeps what is much faster.
#[test]
fn a_first_start_measures_settings() {
    let machine = Machine::new();
    let slow = [("RUKH_EMULATOR_SLOW_ROCBLAS", "20"), ("RUKH_EMULATOR_ARCH", "gfx1100")];
    let search = |options: &str| {
        let said = machine.search(&["--backend=rocm-fp16", "-o", options], &slow);
        assert!(!said.contains("error") && !said.contains("wrong"), "{said}");
        let kept = machine.kept("settings-");
        let lines = kept.iter().map(|path| fs::read_to_string(path).expect("the settings can be read"));
        lines.map(|text| text.lines().next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    // All GEMMs of one position have few rows.
    let options = "gemm=rocblas,max_batch=1,streams=1,wait=block";
    // What the user has chosen is left for later starts, and so is the recommended batch, which is larger.
    let found = search(&format!("{options},fuse=false,graph=true,fork=0,few_rows=0"));
    assert_eq!(found, [";left=fuse,graph,fork,few_rows,streams,batch"]);
    let found = search(&format!("{options},fuse=false,graph=true,fork=0"));
    let expected = ["few_rows=64;left=fuse,graph,fork,streams,batch"];
    assert_eq!(found, expected, "rocBLAS is slow, so that our own kernel is faster");
    let kept = machine.kept("checked-");
    assert_eq!(search(&format!("{options},fuse=false,graph=true,fork=0")), found);
    assert_eq!(machine.kept("checked-"), kept, "nothing is checked again");

    // The doctor names them.
    let cache = machine.cache.path().to_string_lossy();
    let options = format!("{options},fuse=false,graph=true,fork=0");
    let arguments = ["--stage=speed", "--backend=rocm-fp16", "-o", &options];
    let settings = [&slow[..], &[("XDG_CACHE_HOME", &*cache)]].concat();
    let report = doctor_with(machine.libraries.path(), NETWORK, &arguments, &settings);
    let named = "kept settings: few_rows=64; batch sizes: the usual ones; not measured yet: fuse, graph, fork, streams, batch";
    assert!(report.text.contains(named), "{}", report.text);
}

/// What the first start has no time for is left to the next one, which checks the figures of what it finds.
#[test]
fn first_starts_measure_batch_sizes() {
    let machine = Machine::new();
    let options = OPTIONS.replace("gemm=library,max_batch=2", "gemm=own,max_batch=12,tune=full");
    let line = |prefix: &str| {
        let text =
            fs::read_to_string(machine.kept(prefix).pop().expect("it is kept")).expect("it can be read");
        text.lines().next().unwrap_or_default().to_owned()
    };
    let mut starts = 0;
    while machine.kept("ladder-").is_empty() {
        is_correct(&machine.search(&["--backend=rocm-fp16", "-o", &options], &[]));
        starts += 1;
        assert!(starts < 9, "{}", line("settings-"));
    }
    assert!(
        line("settings-").ends_with(";left=fuse,graph,fork,few_rows,streams,batch"),
        "{}",
        line("settings-")
    );
    assert!(line("ladder-").ends_with("12"), "{}", line("ladder-"));
    let kept = machine.kept("checked-");
    is_correct(&machine.search(&["--backend=rocm-fp16", "-o", &options], &[]));
    assert_eq!(machine.kept("checked-"), kept, "nothing is checked again");
}

/// Windows resets a card that takes two seconds.
#[test]
fn batches_that_take_too_long_are_left_out() {
    let machine = Machine::new();
    let options = format!("{OPTIONS},tune=off,longest_batch=0.001");
    let said = machine.search(&["--backend=rocm-fp16", "-o", &options], &[]);
    assert!(said.contains("positions: the card takes more than 0.001 s for more"), "{said}");
}

#[test]
fn a_helper_that_cannot_work_leaves_the_gemms_to_rocblas() {
    let machine = Machine::new();
    // The program of the tests finds no test of the helper's name, and ends without a word that the engine knows.
    let program = std::env::current_exe().expect("the test's own path");
    let options = format!("{OPTIONS},helper={}", program.display());
    let settings = [("RUKH_EMULATOR_HEURISTIC", "crash:*x*x*")];
    let said = machine.search(&["--backend=rocm-fp16", "-o", &options], &settings);
    is_correct(&said);
    assert!(said.contains("info string tuning: the helper process ended before its work was done"), "{said}");
    // A program that does not exist cannot ask, so this process does.
    let options = format!("{OPTIONS},helper={}", nowhere().display());
    let said = machine.search(&["--backend=rocm-fp16", "-o", &options], &[]);
    is_correct(&said);
    assert!(said.contains("info string tuning: ") && said.contains(" GEMMs in "), "{said}");
}

/// Starts twice on a machine whose `wrong` parts compute wrong figures. The first start must find out that the figures
/// are right on `rung`, such as "without graphs", and the second must know that.
fn finds_the_rung(options: &str, architecture: &str, wrong: &str, rung: &str) {
    let machine = Machine::new();
    let settings = [("RUKH_EMULATOR_WRONG", wrong), ("RUKH_EMULATOR_ARCH", architecture)];
    let arguments = ["--backend=rocm-fp16", "-o", options];
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    assert!(
        said.contains("info string the card's figures are wrong with these options: in a batch of "),
        "{said}"
    );
    assert!(said.contains(&format!("info string the card's figures are right {rung}")), "{said}");
    let said = machine.search(&arguments, &settings);
    is_correct(&said);
    let known = format!("the card's figures were wrong at an earlier start, so Rukh runs {rung}");
    assert!(said.contains(&known) && !said.contains("trying"), "{said}");
}

#[test]
fn graphs_that_compute_something_else_are_given_up() {
    finds_the_rung(OPTIONS, "gfx1151", "graph", "without graphs");
}

#[test]
fn launches_of_several_gemms_that_compute_something_else_are_given_up() {
    let kernels =
        ["64x64_128", "64x32_128", "64x128_128", "128x128_256"].map(|tile| format!("gemm_chain_f16_{tile}"));
    let options = "max_batch=2,streams=1,wait=block,tune=off,gemm=own";
    finds_the_rung(options, "gfx1100", &kernels.join(","), "without launches that GEMMs share");
}

#[test]
fn a_library_that_computes_something_else_is_given_up() {
    let options = format!("{OPTIONS},tune=off");
    finds_the_rung(&options, "gfx1151", "hipblaslt", "without hipBLASLt");
    finds_the_rung(&options, "gfx1100", "rocblas", "without rocBLAS");
}

#[test]
fn a_library_that_computes_something_else_on_several_streams_is_given_up() {
    let options = format!("{},tune=off", OPTIONS.replace("streams=1", "streams=2"));
    finds_the_rung(&options, "gfx1151", "hipblaslt together", "without hipBLASLt");
}

#[test]
fn tuning_refuses_a_library_whose_gemms_are_wrong() {
    for (architecture, wrong, name) in
        [("gfx1151", "hipblaslt", "hipBLASLt"), ("gfx1100", "rocblas", "rocBLAS")]
    {
        let machine = Machine::new();
        let settings = [("RUKH_EMULATOR_WRONG", wrong), ("RUKH_EMULATOR_ARCH", architecture)];
        let arguments = ["--backend=rocm-fp16", "-o", OPTIONS];
        let said = machine.search(&arguments, &settings);
        is_correct(&said);
        let refused = format!("info string tuning: {name} has wrong algorithms for the GEMM m=");
        assert!(said.contains(&refused) && said.contains(" instead of "), "{said}");
        assert!(!said.contains("the card's figures are wrong"), "{said}");
        let table = fs::read_to_string(&machine.kept("gemms-")[0]).expect("the table is written");
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        for row in reader.deserialize() {
            let row: BTreeMap<String, String> = row.expect("a row");
            let microseconds: f32 = row["us"].parse().expect("a time");
            // A GEMM with an epilogue that says rocBLAS is a plain one by whoever is right, and then a kernel.
            let is_wrong = row["libtype"] == wrong && (wrong == "hipblaslt" || row["bias"] == "False");
            assert!(!is_wrong || !microseconds.is_finite(), "{row:?}");
            let error: f32 = row["err_ratio"].parse().expect("an error");
            assert!(error < 2e-3, "{row:?}");
        }
        let said = machine.search(&arguments, &settings);
        is_correct(&said);
        assert!(!said.contains("wrong") && !said.contains("tuning"), "{said}");
    }
}

#[test]
fn a_card_that_computes_something_else_is_replaced_by_the_processor() {
    let machine = Machine::new();
    let settings = [("RUKH_EMULATOR_WRONG", "rocblas,hipblaslt")];
    for backend in ["rocm-fp16", "rocm", "auto"] {
        let said = machine.search(&[&format!("--backend={backend}"), "-o", OPTIONS], &settings);
        is_correct(&said);
        let wrong = said.lines().find(|line| line.contains("wrong figures without rocBLAS: in a batch of "));
        assert!(wrong.is_some_and(|line| line.ends_with("; using cpu instead")), "{said}");
        let tried = said.lines().filter(|line| line.contains("; trying ")).count();
        assert_eq!(tried, 3, "{said}");
    }
    assert!(machine.kept("checked-").is_empty(), "only figures that are right are remembered");
}

#[test]
fn libraries_that_compute_something_else_are_replaced_by_our_own_kernels() {
    let machine = Machine::new();
    let settings = [("RUKH_EMULATOR_WRONG", "rocblas,hipblaslt")];
    let options = "max_batch=2,streams=1,wait=block,tune=off";
    let said = machine.search(&["--backend=rocm-fp16", "-o", options], &settings);
    is_correct(&said);
    assert!(said.contains("info string the card's figures are right without a library for GEMMs"), "{said}");
}

/// The check is part of the first start only, and no part of a start without a warm-up.
#[test]
fn figures_are_checked_once() {
    let machine = Machine::new();
    is_correct(&machine.search(&["--backend=rocm-fp16", "-o", OPTIONS], &[]));
    let kept = machine.kept("checked-");
    assert_eq!(kept.len(), 1, "{kept:?}");
    let figures = machine.kept("processor-");
    assert_eq!(figures.len(), 1, "{figures:?}");
    let right = fs::read_to_string(&figures[0]).expect("the processor's figures are kept");
    is_correct(&machine.search(&["--backend=rocm-fp16", "-o", OPTIONS], &[]));
    assert_eq!(machine.kept("checked-"), kept);
    // Another format is another check, with figures that are computed again if they are damaged. In bf16 the best move
    // may be another one.
    fs::write(&figures[0], right.replace("0.0", "0.9")).expect("the figures can be written");
    let said = machine.search(&["--backend=rocm-bf16", "-o", OPTIONS], &[]);
    assert!(!said.contains("info string error") && !said.contains("wrong"), "{said}");
    assert_eq!(machine.kept("checked-").len(), 2);
    assert_eq!(machine.kept("processor-"), figures);
    assert_eq!(fs::read_to_string(&figures[0]).ok(), Some(right));
    // Another card of the same kind is checked, too.
    let second = format!("{OPTIONS},gpu=1");
    is_correct(&machine.search(&["--backend=rocm-fp16", "-o", &second], &[("RUKH_EMULATOR_DEVICES", "2")]));
    assert_eq!(machine.kept("checked-").len(), 3);
    let cold = Machine::new();
    is_correct(&cold.search(&["--backend=rocm-fp16", "-o", &format!("{OPTIONS},warm_up=false")], &[]));
    assert!(!Path::new(&cold.cache.path().join("rukh")).exists());
}

/// A GEMM of the table that does not run any more is measured anew. What takes its place has not been checked, although
/// the start began with a table that was.
#[test]
fn gemms_that_are_measured_anew_are_checked() {
    let machine = Machine::new();
    let arguments = ["--backend=rocm-fp16", "-o", OPTIONS];
    is_correct(&machine.search(&arguments, &[("RUKH_EMULATOR_GEMM_TIME", "N=1000")]));
    let said = machine.search(
        &arguments,
        &[
            ("RUKH_EMULATOR_FAIL", "hipblasLtMatmul:1"),
            ("RUKH_EMULATOR_WRONG", "graph"),
            // So the weights have another layout now.
            ("RUKH_EMULATOR_GEMM_TIME", "T=1000"),
        ],
    );
    is_correct(&said);
    assert!(said.contains("info string tuning: 1 GEMMs of the table cannot run here"), "{said}");
    assert!(said.contains("info string the card's figures are right without graphs"), "{said}");
}
