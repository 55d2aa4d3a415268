//! What a user sees if ROCm is missing or fails: an error that says what was tried, the CPU instead with `auto`, and in
//! any case a best move.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::driver::rukh;
use crate::rocm::{libraries, nowhere};

pub(crate) const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");

/// Runs one search of micro-attn with ROCm's libraries from `folder`; `settings` are set in the environment.
pub(crate) fn search(folder: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    search_with(NETWORK, folder, arguments, settings)
}

/// Does the same as [`search`] with the network file `network`.
pub(crate) fn search_with(
    network: &str,
    folder: &Path,
    arguments: &[&str],
    settings: &[(&str, &str)],
) -> Output {
    let weights = format!("--weights={network}");
    let mut child = rukh(&[&[weights.as_str()], arguments].concat())
        .env("RUKH_ROCM_LIBRARY_PATH", folder)
        .envs(settings.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(b"isready\ngo nodes 12\nwait\nquit\n").expect("the engine reads");
    drop(stdin);
    child.wait_with_output().expect("the engine ends")
}

/// The library functions that were called, in order. `RUKH_EMULATOR_LOG=1` makes the emulator log them.
pub(crate) fn logged_calls(output: &Output) -> Vec<String> {
    logged(output, |line| line.split_once(" = ").map(|(function, _)| function))
}

/// The library functions that were called and returned success, in order.
fn successful_calls(output: &Output) -> Vec<String> {
    logged(output, |line| line.strip_suffix(" = 0"))
}

fn logged(output: &Output, function: impl Fn(&str) -> Option<&str>) -> Vec<String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let calls = stderr.lines().filter_map(|line| function(line.strip_prefix("rocm-emulator: ")?));
    calls.map(str::to_owned).collect()
}

/// The output of the engine, after a check that it exited successfully and gave a move.
pub(crate) fn stdout(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{:?}: {text}", output.status);
    assert!(text.contains("bestmove "), "{text}");
    text
}

#[test]
fn without_rocm_the_error_says_what_was_tried() {
    for backend in ["rocm", "rocm-fp16", "rocm-bf16", "rocm-int8", "rocm-fp8", "rocm-auto"] {
        let text = stdout(&search(nowhere(), &[&format!("--backend={backend}")], &[]));
        let error = format!("info string error: backend {backend}: amdhip64 is not in");
        let instead = "the processor takes over until the next game";
        assert!(text.contains(&format!("{error} /nonexistent/rocm; {instead}\n")), "{text}");
    }
    // A benchmark must not measure the processor instead.
    for mode in ["backendbench", "bench"] {
        let output = rukh(&[mode, "--backend=rocm", "-w", NETWORK])
            .env("RUKH_ROCM_LIBRARY_PATH", nowhere())
            .output()
            .expect("the binary starts");
        assert!(!output.status.success(), "{mode}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("amdhip64 is not in /nonexistent/rocm"), "{mode}: {stderr}");
    }
}

#[test]
fn without_rocm_auto_says_so_once_and_uses_the_cpu() {
    let text = stdout(&search(nowhere(), &[], &[]));
    let start = "info string no graphics card that Rukh can use; using the processor (";
    assert_eq!(text.lines().filter(|line| line.starts_with(start)).count(), 1, "{text}");
    assert!(!text.contains("rocm"), "{text}");
}

#[test]
fn a_missing_device_is_reported_as_such() {
    let folder = libraries();
    let text = stdout(&search(folder.path(), &["--backend=rocm"], &[("RUKH_EMULATOR_DEVICES", "0")]));
    assert!(text.contains("hipGetDeviceCount"), "{text}");
    let text = stdout(&search(folder.path(), &["--backend=rocm", "-o", "gpu=3"], &[]));
    assert!(text.contains("gpu=3, but HIP finds only 1"), "{text}");
    let arguments = ["--backend=rocm", "-o", "gpu=1,max_batch=4,warm_up=false"];
    let text = stdout(&search(folder.path(), &arguments, &[("RUKH_EMULATOR_DEVICES", "2")]));
    assert!(!text.contains("error"), "{text}");
}

#[test]
fn several_devices_share_the_work() {
    let folder = libraries();
    for backend in ["multiplexing", "demux", "roundrobin"] {
        let options = "backend=rocm,warm_up=false,max_batch=4,(gpu=0),(gpu=1)";
        let arguments = [&format!("--backend={backend}"), "-o", options];
        let text = stdout(&search(folder.path(), &arguments, &[("RUKH_EMULATOR_DEVICES", "2")]));
        assert!(!text.contains("error"), "{backend}: {text}");
    }
}

#[test]
fn an_architecture_without_kernels_is_an_error_that_names_it() {
    let folder = libraries();
    let cache = folder.path().to_string_lossy();
    let settings = [
        ("RUKH_EMULATOR_ARCH", "gfx803"),
        ("RUKH_EMULATOR_FAIL", "hiprtcCompileProgram:1"),
        ("XDG_CACHE_HOME", &*cache),
    ];
    let text = stdout(&search(folder.path(), &["--backend=rocm", "-o", "warm_up=false"], &settings));
    assert!(text.contains("no kernels for the architecture gfx803"), "{text}");
    assert!(text.contains("hiprtcCompileProgram(kernels.hip) failed"), "{text}");
}

/// In its steady state a slot launches one graph, copies back and waits. It allocates and frees nothing. Of the calls that
/// ask whether the batch is done, only the last one succeeds.
#[test]
fn a_batch_takes_four_library_calls() {
    let folder = libraries();
    let output = rukh(&["backendbench", "--backend=rocm-fp16", "-w", NETWORK, "--threads=1"])
        .args(["-o", "streams=1,max_batch=4,warm_up=false,wait=block", "--batches=20"])
        .args(["--start-batch-size=3", "--max-batch-size=3"])
        .env("RUKH_ROCM_LIBRARY_PATH", folder.path())
        .env("RUKH_EMULATOR_LOG", "1")
        .output()
        .expect("the binary starts");
    let calls = successful_calls(&output);
    let last = calls.iter().rposition(|call| call == "hipGraphLaunch").expect("a graph was launched");
    let steady: Vec<&String> = calls[..last + 4].iter().rev().take(4 * 10).rev().collect();
    let batch = ["hipGraphLaunch", "hipMemcpyAsync", "hipEventRecord", "hipEventQuery"];
    for calls in steady.chunks(4) {
        assert_eq!(calls, batch, "{steady:?}");
    }
}

/// Runs one search on gfx1151. Returns the library functions that were called, in order, and the output.
fn calls_of(folder: &Path, options: &str, settings: &[(&str, &str)]) -> (Vec<String>, String) {
    let arguments = ["--backend=rocm-fp16", "-o", options, "--threads=1"];
    let settings = [&[("RUKH_EMULATOR_ARCH", "gfx1151"), ("RUKH_EMULATOR_LOG", "1")], settings].concat();
    let output = search(folder, &arguments, &settings);
    let said = stdout(&output);
    (logged_calls(&output), said)
}

/// Each GEMM runs as its row in the table says. If that fails, the default takes its place.
#[test]
fn the_gemm_table_is_followed_unless_an_entry_fails() {
    let folder = libraries();
    let file = folder.path().join("gemms.csv");
    let options = format!(
        "gemm=library,max_batch=2,streams=1,graph=false,fuse=true,fork=0,few_rows=0,wait=block,tuning_file={}",
        file.display()
    );
    let (calls, said) = calls_of(folder.path(), &options, &[]);
    assert!(said.contains("info string tuning: ") && !said.contains("error"), "{said}");
    let of_a_batch = |calls: &[String], function: &str| {
        let copies = calls.iter().enumerate().filter(|(_, call)| *call == "hipMemcpyAsync");
        let [.., first, last] = copies.map(|(index, _)| index).collect::<Vec<_>>()[..] else {
            panic!("there was no batch")
        };
        calls[first..last].iter().filter(|&call| call == function).count()
    };
    let rocblas = "rocblas_gemm_ex";
    let hipblaslt = "hipblasLtMatmul";
    let all = of_a_batch(&calls, rocblas) + of_a_batch(&calls, hipblaslt);

    // First give all GEMMs to hipBLASLt's first proposal.
    let table = std::fs::read_to_string(&file).expect("the table is written");
    let rewritten = |library: &str, solution: &str| {
        rewritten(&table, |row| {
            // No library has an epilogue with mish.
            let epilogue = row["epilogue"].clone();
            if epilogue == "none" || library == "hipblaslt" && epilogue != "bias mish" {
                row.insert("libtype".to_owned(), library.to_owned());
                row.insert("solidx".to_owned(), solution.to_owned());
            }
        })
    };
    std::fs::write(&file, rewritten("hipblaslt", "-1")).expect("the folder can be written to");
    let (calls, said) = calls_of(folder.path(), &options, &[]);
    assert!(!said.contains("tuning") && !said.contains("error"), "{said}");
    assert_eq!((of_a_batch(&calls, rocblas), of_a_batch(&calls, hipblaslt)), (0, all));

    // Each entry of the table runs once before the slots are made, and the first of these runs is made to fail.
    let fail = format!("{hipblaslt}:1=7");
    let (calls, said) = calls_of(folder.path(), &options, &[("RUKH_EMULATOR_FAIL", &fail)]);
    assert!(said.contains("tuning: 1 GEMMs of the table cannot run here"), "{said}");
    assert!(!said.contains("error") && of_a_batch(&calls, hipblaslt) > 0, "{said}");

    std::fs::write(&file, rewritten("rocblas", "-1")).expect("the folder can be written to");
    let (calls, said) = calls_of(folder.path(), &options, &[]);
    assert!(!said.contains("error") && of_a_batch(&calls, rocblas) > of_a_batch(&calls, hipblaslt), "{said}");

    // A solution that the library does not propose is reported, and the GEMM is measured anew.
    std::fs::write(&file, rewritten("hipblaslt", "15")).expect("the folder can be written to");
    let (_, said) = calls_of(folder.path(), &options, &[]);
    assert!(!said.contains("error") && said.contains("GEMMs of the table cannot run here"), "{said}");
    assert!(said.contains("hipBLASLt does not offer algorithm 15"), "{said}");
    let measured = std::fs::read_to_string(&file).expect("the table is written");
    assert!(!measured.contains(",hipblaslt,15,"), "{measured}");
}

/// A GEMM table after `change` has changed its rows, of which each is given as its cells by column.
fn rewritten(table: &str, change: impl Fn(&mut BTreeMap<String, String>)) -> String {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&header).expect("memory can be written to");
    for row in reader.deserialize() {
        let mut row: BTreeMap<String, String> = row.expect("a row");
        change(&mut row);
        writer.write_record(header.iter().map(|name| &row[name])).expect("memory can be written to");
    }
    String::from_utf8(writer.into_inner().expect("memory can be written to")).expect("text")
}

#[test]
fn a_table_that_cannot_be_used_is_reported_and_not_overwritten() {
    let folder = libraries();
    let file = folder.path().join("gemms.csv");
    let options = format!(
        "max_batch=1,streams=1,graph=true,fuse=true,fork=0,few_rows=0,tuning_file={}",
        file.display()
    );
    let (_, said) = calls_of(folder.path(), &options, &[]);
    assert!(said.contains("info string tuning: "), "{said}");
    let good = std::fs::read_to_string(&file).expect("the table is written");
    let other_card = rewritten(&good, |row| *row.get_mut("cu_num").expect("a column") = "7".to_owned());
    let other_driver = rewritten(&good, |row| *row.get_mut("measured_with").expect("a column") += " or so");
    let damaged = good.replacen("torch.float16", "torch.float61", 1);
    for (text, reason) in [
        ("nonsense", "gemms.csv is ignored: it is not a table of tuned GEMMs"),
        (
            &other_card,
            "rows are for another device (line 2: `gfx1151 with 7 work-group processors`) left out",
        ),
        (&other_driver, "rows are measured with other versions (line 2: `"),
        (
            &damaged,
            "1 row is for GEMMs or kernels that Rukh does not have (line 2: `torch.float61`) left out",
        ),
    ] {
        std::fs::write(&file, text).expect("the folder can be written to");
        let (_, said) = calls_of(folder.path(), &options, &[]);
        assert!(said.contains("info string tuning file ") && said.contains(reason), "{said}");
        assert!(!said.contains("error"), "{said}");
        assert_eq!(std::fs::read_to_string(&file).expect("the table can be read"), text);
    }
}

/// Of two files of `RUKH_GEMM_CONFIG`, the later one counts, and both count more than the cache folder's.
#[test]
fn files_that_the_user_names_are_merged_with_the_measured_table() {
    let folder = libraries();
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let table = file("gemms.csv");
    let options = format!(
        "gemm=library,max_batch=1,streams=1,graph=false,fuse=true,fork=0,few_rows=0,wait=block,tuning_file={table}"
    );
    let (_, said) = calls_of(folder.path(), &options, &[]);
    assert!(said.contains("info string tuning: "), "{said}");
    let text = std::fs::read_to_string(&table).expect("the table is written");
    let by = |library: &str| {
        rewritten(&text, |row| {
            if row["epilogue"] == "none" {
                row.insert("libtype".to_owned(), library.to_owned());
                row.insert("solidx".to_owned(), "-1".to_owned());
            }
        })
    };
    std::fs::write(file("a.csv"), by("hipblaslt")).expect("the folder can be written to");
    std::fs::write(file("b.csv"), by("rocblas")).expect("the folder can be written to");
    let calls_with = |names: &[&str]| {
        let list = std::env::join_paths(names.iter().map(|name| file(name))).expect("ordinary names");
        let (calls, said) =
            calls_of(folder.path(), &options, &[("RUKH_GEMM_CONFIG", &list.to_string_lossy())]);
        assert!(!said.contains("error"), "{said}");
        (calls.iter().filter(|call| *call == "rocblas_gemm_ex").count(), said)
    };
    let (by_rocblas, said) = calls_with(&["a.csv", "b.csv"]);
    assert!(by_rocblas > 0 && !said.contains("tuning"), "{said}");
    let (by_rocblas, said) = calls_with(&["b.csv", "a.csv"]);
    assert!(by_rocblas == 0 && !said.contains("tuning"), "{said}");
    let (_, said) = calls_with(&["missing.csv"]);
    assert!(said.contains("RUKH_GEMM_CONFIG: ") && said.contains("missing.csv cannot be read: "), "{said}");
    assert_eq!(std::fs::read_to_string(&table).expect("the table can be read"), text);
}

/// Calls whose failure is not reported, because they release something or because there is an alternative.
const SILENT: [&str; 28] = [
    "hipFree",
    "hipHostFree",
    "hipStreamDestroy",
    "hipEventDestroy",
    "hipModuleUnload",
    "hipGraphDestroy",
    "hipGraphExecDestroy",
    "rocblas_destroy_handle",
    // The versions are only part of folder and file names.
    "hipRuntimeGetVersion",
    "hipDriverGetVersion",
    "hipblasLtGetVersion",
    "rocblas_get_version_string_size",
    "rocblas_get_version_string",
    "hipblasLtDestroy",
    "hipblasLtMatrixLayoutDestroy",
    "hipblasLtMatmulDescDestroy",
    "hipblasLtMatmulPreferenceDestroy",
    // The batches run step by step instead. Without a warm-up, there is no notice.
    "hipStreamBeginCapture",
    "hipStreamEndCapture",
    "hipGraphInstantiate",
    // rocBLAS computes the GEMM instead.
    "hipblasLtMatrixLayoutCreate",
    "hipblasLtMatrixLayoutSetAttribute",
    "hipblasLtMatmulDescCreate",
    "hipblasLtMatmulDescSetAttribute",
    "hipblasLtMatmulPreferenceCreate",
    "hipblasLtMatmulPreferenceSetAttribute",
    "hipblasLtMatmulAlgoGetHeuristic",
    // The first call makes the dispatcher's handle, which may fail; a slot's handle may not.
    "hipblasLtCreate",
];

/// Calls whose last use in [`FAILING_SEARCH`] is in a capture. If it fails, the batches run step by step instead.
const CAPTURED: [&str; 3] = ["hipModuleLaunchKernel", "hipblasLtMatmul", "hipStreamWaitEvent"];

/// The lookup of the kernel for attention. If it fails, the one without matrix instructions takes its place.
const ATTENTION_LOOKUP: &str = "hipModuleGetFunction:2";

/// The options of the search in which each call fails once. `few_rows=0` avoids the kernels that a library can replace,
/// because their absence is not an error.
pub(crate) const FAILING_SEARCH: &str = "max_batch=4,warm_up=false,streams=1,fork=4,few_rows=0,wait=block";

/// Each function fails once in its first call. The engine must always give a move.
#[test]
fn every_failing_call_is_reported_and_a_move_is_played() {
    fail_every_function(|_| BTreeSet::from([1]));
}

/// The same with the second and the last call of each function.
#[test]
#[ignore = "the step `long` of scripts/check.sh runs this"]
fn later_failing_calls_are_reported_and_a_move_is_played() {
    fail_every_function(|count| BTreeSet::from([2.min(count), count]));
}

/// For each function, runs a search for each failing call that `numbers` picks, given how often the function is called.
fn fail_every_function(numbers: impl Fn(usize) -> BTreeSet<usize>) {
    let folder = libraries();
    let arguments = ["--backend=rocm-fp16", "-o", FAILING_SEARCH, "--threads=1"];
    let architecture = ("RUKH_EMULATOR_ARCH", "gfx1151");
    let output = search(folder.path(), &arguments, &[architecture, ("RUKH_EMULATOR_LOG", "1")]);
    let fine = stdout(&output);
    assert!(!fine.contains("error"), "{fine}");
    let calls = successful_calls(&output);
    let functions: BTreeSet<&str> = calls.iter().map(String::as_str).collect();
    assert!(functions.len() > 25, "{functions:?}");
    let mut tried = 0;
    for function in functions {
        let count = calls.iter().filter(|&call| call == function).count();
        for number in numbers(count) {
            let fail = format!("{function}:{number}");
            let settings = [architecture, ("RUKH_EMULATOR_FAIL", fail.as_str())];
            let output = search(folder.path(), &arguments, &settings);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(stderr.contains(&format!("rocm-emulator injected {fail}=")), "{fail} did not happen");
            let text = stdout(&output);
            let is_reported =
                text.lines().any(|line| line.starts_with("info string error") && line.contains("rocm-fp16"));
            let is_captured = number == count && CAPTURED.contains(&function);
            assert!(
                is_reported || is_captured || fail == ATTENTION_LOOKUP || SILENT.contains(&function),
                "{fail} is not reported: {text}"
            );
            tried += 1;
        }
    }
    println!("{tried} failing calls");
}
