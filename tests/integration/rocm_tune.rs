//! `rukh tune` on an emulated card: what it measures is kept, an interrupt loses little, and the next start uses the
//! table as it is.

use crate::driver::rukh;
use crate::rocm_doctor::NETWORK;
use crate::rocm_startup::Machine;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
#[cfg(unix)]
use std::process::Stdio;
use std::process::{Command, Output};

/// The settings are those of the user, so that only GEMMs and batch sizes are measured.
const OPTIONS: &str =
    "gemm=library,max_batch=2,streams=1,wait=block,fork=0,few_rows=0,fuse=false,graph=true,attention=matrix";

/// A run of `tune` on gfx1151.
fn tune(machine: &Machine, arguments: &[&str]) -> Command {
    let weights = format!("--weights={NETWORK}");
    let mut command =
        rukh(&[&["tune", "--json", "--backend=rocm-fp16", weights.as_str()], arguments].concat());
    command
        .env("RUKH_ROCM_LIBRARY_PATH", machine.libraries.path())
        .env("XDG_CACHE_HOME", machine.cache.path())
        .env("RUKH_EMULATOR_ARCH", "gfx1151");
    command
}

/// The table in the cache folder.
fn table_file(machine: &Machine) -> PathBuf {
    machine.kept("gemms-").pop().expect("there is a table")
}

/// The rows of the table, each with its cells by column.
fn rows(machine: &Machine) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(table_file(machine)).expect("the table can be read");
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

/// The JSON that a run of `tune` has printed.
fn result(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn a_tuned_start_measures_nothing() {
    let machine = Machine::new();
    let first = result(&tune(&machine, &["-o", OPTIONS]).output().expect("the binary starts"));
    let gemms = number(&first, "gemms");
    assert!(gemms >= 20 && number(&first, "measured") >= gemms, "{first}");
    assert_eq!((number(&first, "left"), &first["interrupted"]), (0, &Value::Bool(false)), "{first}");
    assert_eq!(first["table"].as_str().map(PathBuf::from), Some(table_file(&machine)));
    assert!(rows(&machine).iter().any(|row| row["effort"] != "quick" && row["libtype"] == "hipblaslt"));

    // Two batch sizes can be buckets: 1 and 2. The larger one always is.
    let ladder: Vec<u64> = serde_json::from_value(first["ladder"].clone()).expect("numbers");
    assert!([&[2][..], &[1, 2]].contains(&&ladder[..]), "{first}");
    assert_eq!(first["passes"].as_array().map(Vec::len), Some(2), "{first}");
    assert_eq!(first["settings"], "", "the user has chosen all settings: {first}");
    assert_eq!(number(&first, "batch"), 2, "{first}");
    assert!(first["padding"].as_f64().is_some_and(|padding| padding <= 0.1), "{first}");

    let table = fs::read(table_file(&machine)).expect("the table can be read");
    let second = result(&tune(&machine, &["-o", OPTIONS]).output().expect("the binary starts"));
    assert_eq!((number(&second, "measured"), number(&second, "gemms")), (0, gemms), "{second}");
    let said = machine.search(&["--backend=rocm-fp16", "-o", OPTIONS], &[]);
    assert!(said.contains("bestmove ") && !said.contains("tuning") && !said.contains("error"), "{said}");
    assert_eq!(fs::read(table_file(&machine)).expect("the table can be read"), table);
}

#[test]
fn tuning_goes_on_where_its_time_or_ctrl_c_ended_it() {
    let machine = Machine::new();
    let options = "gemm=library,max_batch=256,streams=1,wait=block";
    let first = result(&tune(&machine, &["-o", options, "--seconds=1"]).output().expect("the binary starts"));
    let (measured, left) = (number(&first, "measured"), number(&first, "left"));
    assert!(measured > 0 && left > 0, "{first}");
    let timed = |machine: &Machine| -> Vec<BTreeMap<String, String>> {
        rows(machine).into_iter().filter(|row| row["us"] != "inf").collect()
    };
    let before = timed(&machine);

    #[cfg(unix)]
    {
        let mut command = tune(&machine, &["-o", options]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        // The table is written every three seconds.
        let begin = std::time::Instant::now();
        while timed(&machine).len() == before.len() {
            assert!(begin.elapsed().as_secs() < 120, "the table does not grow");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.expect("kill starts").success());
        let second = result(&child.wait_with_output().expect("it ends"));
        assert_eq!(second["interrupted"], Value::Bool(true), "{second}");
        assert!(number(&second, "measured") > 0 && number(&second, "left") > 0, "{second}");
        assert!(timed(&machine).len() > before.len());
    }
    let rows = rows(&machine);
    // A short time may end before the fastest ones of a GEMM's ways are compared, which is then done later.
    let mut whole = before.iter().filter(|row| row["effort"] == "full");
    assert!(whole.all(|row| rows.contains(row)), "what was measured is not measured again");
}

#[test]
fn tuning_refuses_a_library_with_wrong_gemms_and_a_damaged_table() {
    let machine = Machine::new();
    let mut command = tune(&machine, &["-o", OPTIONS]);
    let first = result(&command.env("RUKH_EMULATOR_WRONG", "hipblaslt").output().expect("the binary starts"));
    let notices = first["notices"].to_string();
    assert!(notices.contains("hipBLASLt has wrong algorithms for the GEMM m="), "{first}");
    assert_eq!(number(&first["fastest"], "hipBLASLt"), 0, "{first}");

    let table = fs::read_to_string(table_file(&machine)).expect("the table can be read");
    fs::write(table_file(&machine), table.replacen("bias mish", "bias fish", 1))
        .expect("the table can be written");
    let second = result(&tune(&machine, &["-o", OPTIONS]).output().expect("the binary starts"));
    assert!(second["notices"].to_string().contains("`bias fish`) left out"), "{second}");
    assert!(number(&second, "measured") > 0 && number(&second, "left") == 0, "{second}");
    assert_eq!(
        fs::read_to_string(table_file(&machine)).expect("the table can be read").lines().count(),
        table.lines().count()
    );
}

/// rocBLAS's own choice is slow on this emulated card, and its kernels 11 and 12 compute something else, as those for
/// transposed weights do.
#[test]
fn tuning_finds_the_fastest_right_kernel_of_rocblas() {
    let machine = Machine::new();
    let options = "gemm=rocblas,max_batch=1,streams=1,wait=block";
    let mut command = tune(&machine, &["-o", options]);
    command
        .env("RUKH_EMULATOR_SLOW_ROCBLAS", "2")
        .env("RUKH_EMULATOR_WRONG", "rocblas 11,rocblas 12,rocblas N");
    let first = result(&command.output().expect("the binary starts"));
    let notices = first["notices"].to_string();
    assert!(notices.contains("rocBLAS has wrong algorithms for the GEMM m="), "{first}");
    let rows = rows(&machine);
    let plain: Vec<_> = rows.iter().filter(|row| row["epilogue"] == "none").collect();
    assert!(!plain.is_empty() && plain.iter().all(|row| row["solidx"] == "2003"), "{rows:?}");

    // The next start runs the kernels that the table names, here a wrong one.
    let file = table_file(&machine);
    let table = fs::read_to_string(&file).expect("the table can be read");
    fs::write(&file, table.replace(",rocblas,2003,", ",rocblas,11,")).expect("the table can be written");
    let options = "gemm=rocblas,max_batch=1,streams=1,wait=block";
    let said =
        machine.search(&["--backend=rocm-fp16", "-o", options], &[("RUKH_EMULATOR_WRONG", "rocblas 11")]);
    assert!(said.contains("error") || said.contains("wrong"), "{said}");
}

/// The solutions of rocBLAS that Rukh chooses are faster than rocBLAS's own choice alone, and slower after a kernel. The
/// comparison reads the host's clock, so that the emulated card sleeps.
#[test]
fn gemms_that_are_slower_in_whole_evaluations_are_left_to_the_default() {
    let machine = Machine::new();
    let options = OPTIONS.replace("gemm=library", "gemm=rocblas");
    let run = |slow_after_kernel: &str| {
        let mut command = tune(&machine, &["-o", &options]);
        command.env("RUKH_EMULATOR_SLOW_ROCBLAS", "3");
        command.env("RUKH_EMULATOR_SLOW_AFTER_KERNEL", slow_after_kernel);
        result(&command.output().expect("the binary starts"))
    };
    let chosen = |machine: &Machine| {
        let solutions = rows(machine).into_iter().filter(|row| row["epilogue"] == "none");
        solutions.filter(|row| row["solidx"] != "-1").count()
    };
    let sizes = |value: &Value| -> Vec<u64> {
        serde_json::from_value(value.clone()).unwrap_or_else(|_| panic!("{value} are no sizes"))
    };
    let first = run("0");
    assert_eq!(sizes(&first["kept_default"]), [0; 0], "{first}");
    let solutions = chosen(&machine);
    assert!(solutions >= 4, "{:?}", rows(&machine));
    let compared = rows(&machine).into_iter().filter(|row| row["effort"] == "passes");
    assert!(compared.count() >= 4, "{:?}", rows(&machine));

    // A run that did not come to the comparison makes it up, and measures no GEMM again. The measured ladder here
    // lacks a batch size that a start without it has.
    machine.kept("defaults-").iter().for_each(|file| fs::remove_file(file).expect("it can be removed"));
    let ladder = machine.kept("ladder-").pop().expect("the ladder is kept");
    let text = fs::read_to_string(&ladder).expect("the ladder can be read");
    let (_, key) = text.split_once('\n').expect("a line and a key");
    fs::write(&ladder, format!("2\n{key}")).expect("the ladder can be written");
    let second = run("9");
    assert_eq!((number(&second, "measured"), sizes(&second["kept_default"])), (0, vec![1, 2]), "{second}");
    assert_eq!(sizes(&second["ladder"]), [1, 2], "{second}");
    assert!(chosen(&machine) < solutions, "{:?}", rows(&machine));
    let table = fs::read(table_file(&machine)).expect("the table can be read");
    let third = run("9");
    assert_eq!((number(&third, "measured"), sizes(&third["kept_default"])), (0, vec![1, 2]), "{third}");
    assert_eq!(sizes(&third["ladder"]), [1, 2], "{third}");
    let said = machine.search(&["--backend=rocm-fp16", "-o", &options], &[]);
    assert!(said.contains("bestmove ") && !said.contains("tuning") && !said.contains("error"), "{said}");
    assert_eq!(fs::read(table_file(&machine)).expect("the table can be read"), table);
}

/// Our own kernels alone, of which the default chooses preshuffled weights for some GEMMs, too. What the comparison
/// leaves to the default, it leaves with the weights that it has timed, and it refuses no batch size.
#[test]
fn the_layouts_that_were_timed_are_those_of_the_next_start() {
    let machine = Machine::new();
    let options = &OWN.replace("max_batch=2", "max_batch=4");
    let run = || {
        let mut command = tune(&machine, &["-o", options]);
        result(&command.env("RUKH_EMULATOR_CLOCK", "lines").output().expect("the binary starts"))
    };
    let first = run();
    assert!(first["kept_default"].is_array(), "{first}");
    let used = number(&first["preshuffled"], "used");
    let settled = rows(&machine).into_iter().filter(|row| row["effort"] == "passes");
    let settled: Vec<_> = settled.collect();
    assert!(settled.len() >= 4 && settled.iter().any(|row| row["bpreshuffle"] == "True"), "{settled:?}");
    let second = run();
    assert_eq!((number(&second, "measured"), number(&second["preshuffled"], "used")), (0, used), "{second}");
    assert_eq!(second["kept_default"], first["kept_default"], "{second}");
    let said = machine.search(&["--backend=rocm-fp16", "-o", options], &[]);
    assert!(said.contains("bestmove ") && !said.contains("tuning") && !said.contains("error"), "{said}");
}

/// A run of `tune` with 8-bit numbers, on the clock on which only loads take time.
fn tune_bytes(machine: &Machine, (backend, architecture): (&str, &str), settings: &[(&str, &str)]) -> Value {
    let backend = format!("--backend={backend}");
    let mut command = tune(machine, &[&*backend, "-o", OWN]);
    command.env("RUKH_EMULATOR_ARCH", architecture).env("RUKH_EMULATOR_CLOCK", "lines");
    result(&command.envs(settings.iter().copied()).output().expect("the binary starts"))
}

/// The rows of the table whose factors have 8 bits.
fn of_bytes(machine: &Machine) -> Vec<BTreeMap<String, String>> {
    rows(machine).into_iter().filter(|row| row["scaleAB"] == "True").collect()
}

#[test]
fn gemms_of_8_bit_numbers_are_tuned_and_run_by_their_tiles() {
    for (backend, architecture, name, kernel) in [
        ("rocm-int8", "gfx1100", "torch.int8", "gemm_bytes_f16_"),
        ("rocm-fp8", "gfx1200", "torch.float8_e4m3fn", "gemm_fp8_f16_"),
    ] {
        let machine = Machine::new();
        let first = tune_bytes(&machine, (backend, architecture), &[]);
        assert!(!first["notices"].to_string().contains("wrong"), "{first}");
        let rows = of_bytes(&machine);
        assert!(rows.len() >= 4, "{first}");
        for row in &rows {
            let is_right =
                row["dtype"] == name && row["outdtype"] == "torch.float16" && row["libtype"] == "own";
            assert!(is_right && row["kernelName"].starts_with(kernel), "{row:?}");
            let number = |column: &str| row[column].parse::<f64>().expect("a number");
            assert!(number("us") > 0.0 && number("err_ratio") < 0.02, "{row:?}");
        }

        // The next start measures nothing, and runs the tile that the table names, which is the other one now.
        let file = table_file(&machine);
        let table = fs::read_to_string(&file).expect("the table can be read");
        // A row names its tile by the number and by the kernel.
        let tile = |line: &str, from: (u32, &str), to: (u32, &str)| {
            let number = |number: u32| format!(",own,{number},");
            line.replace(&number(from.0), &number(to.0)).replace(from.1, to.1)
        };
        let (large, larger, small) = ((1, "_128x128_128,"), (0, "_128x128_256,"), (2, "_64x64_128,"));
        let other = |line: &str| match line.contains(",True,False,own,") {
            true if line.contains(",own,2,") => tile(line, small, larger),
            true => tile(&tile(line, larger, small), large, small),
            false => line.to_owned(),
        };
        let changed: Vec<String> = table.lines().map(other).collect();
        let profile = |table: &str| -> Vec<String> {
            fs::write(&file, table).expect("the table can be written");
            let weights = format!("--weights={NETWORK}");
            let backend = format!("--backend={backend}");
            let arguments = ["profile", "--json", "--batch=2", "--passes=1", &backend, &weights, "-o", OWN];
            let mut command = rukh(&arguments);
            command.env("RUKH_ROCM_LIBRARY_PATH", machine.libraries.path());
            command.env("XDG_CACHE_HOME", machine.cache.path()).env("RUKH_EMULATOR_ARCH", architecture);
            let found = result(&command.env("RUKH_EMULATOR_CLOCK", "lines").output().expect("it starts"));
            let steps = found["steps"].as_array().expect("steps").iter();
            let kernels =
                steps.filter_map(|step| step["kernel"].as_str()).filter(|name| name.starts_with(kernel));
            kernels.map(str::to_owned).collect()
        };
        let [before, after] = [table.clone(), changed.join("\n") + "\n"].map(|table| profile(&table));
        assert!(!before.is_empty() && before.len() == after.len(), "{before:?} {after:?}");
        assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?} {after:?}");
    }
}

/// A kernel that does nothing loses, whatever its time is.
#[test]
fn tiles_with_wrong_gemms_of_8_bit_numbers_are_refused() {
    let machine = Machine::new();
    let wrong = [("RUKH_EMULATOR_WRONG", "gemm_bytes_f16_64x64_64,gemm_bytes_f16_64x64_128")];
    let first = tune_bytes(&machine, ("rocm-int8", "gfx1100"), &wrong);
    assert!(first["notices"].to_string().contains("wrong algorithms for the GEMM m="), "{first}");
    let rows = of_bytes(&machine);
    assert!(!rows.is_empty() && rows.iter().all(|row| !row["kernelName"].contains("_64x64_")), "{rows:?}");
}

/// With `weight_bits=8` the GEMMs of encoders and of smolgen with few rows have only such tiles to choose from, and
/// with `weight_bits=auto` also the usual ones.
#[test]
fn gemms_with_weights_of_8_bits_are_tuned_where_the_user_allows_them() {
    let machine = Machine::new();
    let options = |bits: &str| format!("{OWN},weight_bits={bits}");
    let tuned = |weights: &str| {
        let output = tune(&machine, &["-o", &options(weights)]).output().expect("the binary starts");
        let outcome = result(&output);
        assert!(!outcome["notices"].to_string().contains("wrong"), "{outcome}");
        outcome
    };
    let first = tuned("8");
    let rounds = |row: &&BTreeMap<String, String>| row["w_may_round"] == "True";
    let of_8_bits: Vec<BTreeMap<String, String>> =
        rows(&machine).into_iter().filter(|row| rounds(&row)).collect();
    assert!(of_8_bits.len() >= 4, "{first}");
    for row in &of_8_bits {
        let is_right = row["w_8bit"] == "True" && row["libtype"] == "own" && row["dtype"] == "torch.float16";
        assert!(is_right && row["kernelName"].starts_with("gemm_byte_weights_f16_"), "{row:?}");
        let number = |column: &str| row[column].parse::<f64>().expect("a number");
        assert!(number("us") > 0.0 && number("err_ratio") < 0.002 && number("M") <= 512.0, "{row:?}");
    }
    assert!(number(&first, "byte_weights") >= 4, "{first}");
    assert!(rows(&machine).iter().any(|row| !rounds(&row) && row["w_8bit"] == "False"));
    // The table is used as it is.
    let said = machine.search(&["--backend=rocm-fp16", "-o", &options("8")], &[]);
    assert!(said.contains("bestmove ") && !said.contains("tuning") && !said.contains("wrong"), "{said}");

    // Other weights have a table of their own.
    assert_eq!(machine.kept("gemms-").len(), 1);
    let auto = tuned("auto");
    assert_eq!((number(&auto, "left"), machine.kept("gemms-").len()), (0, 2), "{auto}");
    let usual = tuned("16");
    assert_eq!((number(&usual, "byte_weights"), machine.kept("gemms-").len()), (0, 3), "{usual}");
    let said = machine.search(&["--backend=rocm-fp16", "-o", OWN], &[]);
    assert!(said.contains("bestmove ") && !said.contains("tuning") && !said.contains("weights"), "{said}");
}

#[test]
fn without_a_card_tune_says_so() {
    let machine = Machine::new();
    let mut command = tune(&machine, &["-o", OPTIONS]);
    let output = command.env("RUKH_EMULATOR_DEVICES", "0").output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rukh: ") && said.contains("hipErrorNoDevice"), "{said}");
}

/// The next start lays its passes out for the batch sizes of the ladder, and for no others.
#[test]
fn a_start_uses_the_measured_batch_sizes() {
    let machine = Machine::new();
    let options = &OPTIONS.replace("max_batch=2", "max_batch=12");
    let first = result(&tune(&machine, &["-o", options]).output().expect("the binary starts"));
    assert_eq!(first["passes"].as_array().map(Vec::len), Some(12), "{first}");
    let file = machine.kept("ladder-").pop().expect("the ladder is kept");
    let text = fs::read_to_string(&file).expect("the ladder can be read");
    let (_, key) = text.split_once('\n').expect("a line and a key");
    let graphs = |line: &str| {
        fs::write(&file, format!("{line}\n{key}")).expect("the ladder can be written");
        let settings = [("RUKH_EMULATOR_BAD_CAPTURE", "begin")];
        machine.search(&["--backend=rocm-fp16", "-o", options], &settings)
    };
    let said = graphs("3 7 12");
    assert!(
        said.contains("graphs: 3 of 3 batch sizes run step by step") && !said.contains("tuning"),
        "{said}"
    );
    // Without the ladder there are 1, 2, 4, 8 and 12.
    let said = graphs("3 7 seven");
    assert!(said.contains("graphs: 5 of 5 batch sizes run step by step"), "{said}");
    assert!(said.contains("info string the kept batch sizes `3 7 seven` are ignored"), "{said}");
}

/// The next start uses the settings that were found, except those that the user has chosen.
#[test]
fn a_start_uses_the_measured_settings() {
    let machine = Machine::new();
    let options = "gemm=library,max_batch=2";
    let first = result(&tune(&machine, &["-o", options]).output().expect("the binary starts"));
    assert!(first["settings"].is_string(), "{first}");
    let file = machine.kept("settings-").pop().expect("the settings are kept");
    let text = fs::read_to_string(&file).expect("the settings can be read");
    let (line, key) = text.split_once('\n').expect("a line and a key");
    assert_eq!(line, first["settings"].as_str().expect("a text"));

    // A start that captures graphs says so where that fails, and each batch in flight is a thread of the search.
    let search = |line: &str, options: &str| {
        fs::write(&file, format!("{line}\n{key}")).expect("the settings can be written");
        let settings = [("RUKH_EMULATOR_BAD_CAPTURE", "begin")];
        machine.search(&["--backend=rocm-fp16", "-o", options], &settings)
    };
    let said = search("", options);
    assert!(said.contains("run step by step") && !said.contains("tuning"), "{said}");
    let said = search("streams=2,graph=false", options);
    assert!(!said.contains("run step by step") && said.contains("bestmove "), "{said}");
    let said = search("streams=two", options);
    assert!(said.contains("info string the kept settings `streams=two` are ignored"), "{said}");
    assert!(said.contains("run step by step"), "{said}");
}

/// Our own GEMMs alone, so that a choice must be one of their tiles.
const OWN: &str =
    "gemm=own,max_batch=2,streams=1,wait=block,fork=0,few_rows=0,fuse=false,graph=true,attention=matrix";

/// The rows of the table that have preshuffled weights.
fn preshuffled(machine: &Machine) -> usize {
    rows(machine).iter().filter(|row| row["bpreshuffle"] == "True").count()
}

/// On a card whose time is that of its loads' cache lines, most GEMMs are faster with preshuffled weights: a step takes
/// 64 bytes of each row, which are half a line of plain weights.
#[test]
fn preshuffled_weights_that_are_faster_are_used_at_the_next_start() {
    let machine = Machine::new();
    let lines = |arguments: &[&str]| {
        let mut command = tune(&machine, arguments);
        result(&command.env("RUKH_EMULATOR_CLOCK", "lines").output().expect("the binary starts"))
    };
    let first = lines(&["-o", OWN]);
    let (faster, used) = (number(&first["preshuffled"], "faster"), number(&first["preshuffled"], "used"));
    assert!(faster >= 4 && used >= 4, "{first}");
    assert!(preshuffled(&machine) as u64 >= faster, "{first}");
    assert!(rows(&machine).iter().any(|row| row["bpreshuffle"] == "False"));
    assert_eq!(first["notices"].to_string().matches("wrong").count(), 0, "{first}");

    // The next start measures nothing, and its figures, which it compares with the processor's, are right. That it reads
    // preshuffled weights shows where the kernel that makes them does nothing.
    let start = |options: &str, settings: &[(&str, &str)]| {
        machine.search(&["--backend=rocm-fp16", "-o", options], settings)
    };
    for options in [OWN.to_owned(), OWN.replace("fuse=false", "fuse=true")] {
        let said = start(&options, &[]);
        assert!(said.contains("bestmove ") && !said.contains("tuning"), "{said}");
        assert!(!said.contains("error") && !said.contains("wrong"), "{said}");
    }
    let other = OWN.replace("streams=1", "streams=2");
    let said = start(&other, &[("RUKH_EMULATOR_WRONG", "preshuffle")]);
    assert!(said.contains("wrong figures"), "{said}");

    // Damaged rows are left out and measured anew.
    let file = table_file(&machine);
    let table = fs::read_to_string(&file).expect("the table can be read");
    fs::write(&file, table.replacen("False,True,own", "False,Perhaps,own", 1)).expect("it can be written");
    let second = lines(&["-o", OWN]);
    assert!(second["notices"].to_string().contains("1 row is damaged (line "), "{second}");
    assert!(second["notices"].to_string().contains("`Perhaps`) left out"), "{second}");
    assert!(number(&second, "measured") > 0 && number(&second, "left") == 0, "{second}");
    assert_eq!(fs::read_to_string(&file).expect("it can be read").lines().count(), table.lines().count());
}

/// The kernel that makes preshuffled weights does nothing, so that GEMMs with them are wrong.
#[test]
fn gemms_with_wrong_preshuffled_weights_are_refused() {
    let machine = Machine::new();
    let mut command = tune(&machine, &["-o", OWN]);
    command.env("RUKH_EMULATOR_CLOCK", "lines").env("RUKH_EMULATOR_WRONG", "preshuffle");
    let first = result(&command.output().expect("the binary starts"));
    let notices = first["notices"].to_string();
    assert!(notices.contains("wrong algorithms for the GEMM m="), "{first}");
    assert_eq!((preshuffled(&machine), number(&first["preshuffled"], "used")), (0, 0), "{first}");
}

/// On this clock, GEMMs of the libraries take a millisecond, and half of that with transposed weights. All else
/// takes no time, so that the fastest choice does not depend on the machine.
const TRANSPOSED_IS_FASTER: [(&str, &str); 2] =
    [("RUKH_EMULATOR_CLOCK", "lines"), ("RUKH_EMULATOR_GEMM_TIME", "T=1000,N=500")];

/// The settings of a user who wants one library.
fn only(library: &str) -> String {
    OPTIONS.replace("gemm=library", &format!("gemm={library}"))
}

/// The rows of the table that a library computes fastest with transposed weights.
fn transposed(machine: &Machine, library: &str) -> Vec<BTreeMap<String, String>> {
    let rows = rows(machine).into_iter();
    rows.filter(|row| row["libtype"] == library && row["w_transposed"] == "True").collect()
}

/// The score and the moves of the last line of a search, and its best move.
fn figures(said: &str) -> [String; 3] {
    let last = |start: &str| said.lines().rfind(|line| line.starts_with(start)).unwrap_or_default();
    let line = last("info depth ");
    let after = |word: &str| line.split_once(word).map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let score = after(" score cp ").split(' ').next().unwrap_or_default().to_owned();
    [score, after(" pv "), last("bestmove ").to_owned()]
}

#[test]
fn transposed_weights_that_are_faster_are_used_at_the_next_start() {
    for (library, solution) in [("rocblas", ["-1", "13", "2004"]), ("hipblaslt", ["2", "3", "2"])] {
        let machine = Machine::new();
        let options = only(library);
        let run = || {
            let mut command = tune(&machine, &["-o", &options]);
            result(&command.envs(TRANSPOSED_IS_FASTER).output().expect("the binary starts"))
        };
        let first = run();
        let faster = transposed(&machine, library);
        assert!(number(&first, "transposed") >= 4 && faster.len() >= 4, "{first}");
        assert!(faster.iter().all(|row| solution.contains(&&*row["solidx"])), "{faster:?}");
        assert!(
            faster.iter().all(|row| row["bpreshuffle"] == "False" && row["us"].starts_with("500.")),
            "{faster:?}"
        );
        // The plain GEMMs that the library computes are slower. What it cannot compute is not transposed.
        let others = rows(&machine).into_iter().filter(|row| row["w_transposed"] == "False");
        let slower = |row: &BTreeMap<String, String>| {
            row["us"].parse::<f32>().is_ok_and(|us| !(0.0..500.0).contains(&us))
        };
        assert!(others.clone().all(|row| slower(&row)), "{:?}", others.collect::<Vec<_>>());
        assert!(!first["notices"].to_string().contains("wrong"), "{first}");

        // The next start measures nothing, compares its figures with the processor's, and they are right. That it reads
        // transposed weights shows where GEMMs with these are wrong.
        let start = |options: &str, settings: &[(&str, &str)]| {
            machine.search(&["--backend=rocm-fp16", "-o", options], settings)
        };
        let said = start(&options, &[]);
        assert!(said.contains("bestmove ") && !said.contains("tuning"), "{said}");
        assert!(!said.contains("error") && !said.contains("wrong"), "{said}");
        let other = options.replace("streams=1", "streams=2");
        let wrong = format!("{library} N");
        let said = start(&other, &[("RUKH_EMULATOR_WRONG", &wrong)]);
        assert!(said.contains("wrong figures"), "{said}");

        // Whole searches give the same figures as with plain weights.
        let plain = Machine::new();
        let untuned = format!("{options},tune=off");
        let expected = figures(&plain.search(&["--backend=rocm-fp16", "-o", &untuned], &[]));
        assert!(expected.iter().all(|figure| !figure.is_empty()), "{expected:?}");
        assert_eq!(figures(&start(&options, &[])), expected);

        // Damaged rows are left out and measured anew.
        let file = table_file(&machine);
        let table = fs::read_to_string(&file).expect("the table can be read");
        let with = |word: &str| {
            let changed = table.replace(",True,full,", &format!(",{word},full,"));
            changed.replace(",True,passes,", &format!(",{word},passes,"))
        };
        fs::write(&file, with("Perhaps")).expect("it can be written");
        let second = run();
        assert!(second["notices"].to_string().contains("`Perhaps`) left out"), "{second}");
        assert!(number(&second, "measured") > 0 && number(&second, "left") == 0, "{second}");
        // The comparison with the default reads the host's clock, on which this card is as fast with either layout.
        assert!(number(&second, "transposed") >= 4 && transposed(&machine, library).len() >= 4, "{second}");

        // A table of the user's counts more than the one in the cache, of which the choices are the other ones here.
        let named = machine.cache.path().join("named.csv");
        fs::write(&named, &table).expect("it can be written");
        fs::write(&file, with("False")).expect("it can be written");
        let merged = [("RUKH_GEMM_CONFIG", &*named.to_string_lossy()), ("RUKH_EMULATOR_WRONG", &*wrong)];
        let said = start(&options.replace("streams=1", "streams=3"), &merged);
        assert!(said.contains("wrong figures"), "{said}");
    }
}

/// With transposed weights the libraries are faster here and compute something else.
#[test]
fn gemms_with_wrong_transposed_weights_are_refused() {
    for library in ["rocblas", "hipblaslt"] {
        let machine = Machine::new();
        let mut command = tune(&machine, &["-o", &only(library)]);
        command.envs(TRANSPOSED_IS_FASTER).env("RUKH_EMULATOR_WRONG", format!("{library} N"));
        let first = result(&command.output().expect("the binary starts"));
        let notices = first["notices"].to_string();
        assert!(notices.contains("with transposed weights has wrong algorithms for the GEMM m="), "{first}");
        assert_eq!((transposed(&machine, library).len(), number(&first, "transposed")), (0, 0), "{first}");
    }
}

/// The first start tries transposed weights for GEMMs that it has measured with plain ones, in the time that is
/// left.
#[test]
fn the_first_start_tries_transposed_weights_last() {
    let machine = Machine::new();
    let options = only("hipblaslt").replace("max_batch=2", "max_batch=1");
    let said = machine.search(&["--backend=rocm-fp16", "-o", &options], &TRANSPOSED_IS_FASTER);
    assert!(said.contains("info string tuning: ") && !said.contains("wrong"), "{said}");
    let rows = rows(&machine);
    assert!(rows.iter().all(|row| row["effort"] == "quick"), "{rows:?}");
    // A slow machine may have no time left for any of them, but then some GEMMs have no time either, or it says so.
    let faster = transposed(&machine, "hipblaslt");
    let has_time = !said.contains("more at the next start");
    assert!(!has_time || faster.len() >= 4, "{said}\n{rows:?}");
    assert!(faster.iter().all(|row| row["us"].starts_with("500.")), "{faster:?}");
}

/// Without the kernel with matrix instructions, which does nothing here, the figures are right only with the other one.
#[test]
fn a_start_uses_the_chosen_and_the_measured_kernel_for_attention() {
    let machine = Machine::new();
    let options = "gemm=library,max_batch=1,streams=1,wait=block,fork=0,few_rows=0,fuse=false,graph=true";
    let settings = [("RUKH_EMULATOR_WRONG", "attention_f16_d8")];
    let start = |options: &str| machine.search(&["--backend=rocm-fp16", "-o", options], &settings);
    for (attention, is_right) in [("auto", false), ("matrix", false), ("any", true)] {
        let said = start(&format!("{options},attention={attention},tune=off"));
        assert_eq!(!said.contains("wrong figures"), is_right, "{attention}: {said}");
    }

    let first = result(&tune(&machine, &["-o", options]).output().expect("the binary starts"));
    assert!(first["settings"].is_string(), "{first}");
    let file = machine.kept("settings-").pop().expect("the settings are kept");
    let text = fs::read_to_string(&file).expect("the settings can be read");
    let (_, key) = text.split_once('\n').expect("a line and a key");
    fs::write(&file, format!("attention=any\n{key}")).expect("the settings can be written");
    let said = start(options);
    assert!(said.contains("bestmove ") && !said.contains("wrong figures"), "{said}");
    let said = start(&format!("{options},attention=matrix"));
    assert!(said.contains("wrong figures"), "the user's choice counts: {said}");
}

/// The figures are compared before anything is timed, so the result does not depend on the speed of this machine.
#[test]
fn tuning_refuses_a_kernel_for_attention_with_wrong_figures() {
    let machine = Machine::new();
    let options = "gemm=library,max_batch=4,streams=1,wait=block,fork=0,few_rows=0,fuse=false,graph=false";
    let mut command = tune(&machine, &["-o", options, "--seconds=600"]);
    let first =
        result(&command.env("RUKH_EMULATOR_WRONG", "attention_any_f16").output().expect("the binary starts"));
    let notice = "tuning: attention=any gives other figures, so it is not used";
    assert!(first["notices"].to_string().contains(notice), "{first}");
    assert!(!first["settings"].to_string().contains("attention"), "{first}");
}
