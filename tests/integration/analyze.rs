//! `analyze` through the real binary: formats, order, shards, bad input, and an analysis that goes on after it was killed.

use crate::driver::{PATIENCE, rukh, run, run_any};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const GAME: &str = "[Event \"a \\\"b\\\"\"]\n[White \"W\"]\n\n{start} 1. e4 {[%clk 0:01:00] fine} e5 $1 2. Qh5 (2. Nf3 Nc6 (2... d6 ; solid\n 3. d4) 3. Bb5) \
                    2... Ke7 3. Qxe5# 1-0\n\n";

/// Without a cache, the result of a position does not depend on the searches beside it.
const SETTINGS: [&str; 4] = ["analyze", "--backend=trivial", "--nodes=30", "--nncache=0"];

/// With these settings a position takes a few milliseconds.
const DELAYED: [&str; 6] =
    ["analyze", "--backend=random", "--backend-opts=delay=3", "--nodes=12", "--nncache=0", "--parallelism=4"];

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
}

fn analyze(more: &[&str]) -> String {
    run(&[&SETTINGS, more].concat())
}

fn analyze_any(more: &[&str]) -> (Output, String) {
    let output = run_any(&[&SETTINGS, more].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, stderr)
}

/// Games of different lengths, so that they are not done in their order.
fn games(count: usize) -> String {
    let moves = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nc3 Nc6 4. Nb1 Nb8 5. e4 e5 6. Ke2 Ke7";
    let words: Vec<&str> = moves.split(' ').collect();
    let game = |number: usize| {
        let length = if number.is_multiple_of(3) { words.len() } else { 2 + number % 7 };
        format!("[Event \"game {number}\"]\n\n{} *\n\n", words[..length].join(" "))
    };
    (0..count).map(game).collect()
}

/// The names of the games in a PGN, in order.
fn events(pgn: &str) -> Vec<&str> {
    pgn.lines().filter_map(|line| line.strip_prefix("[Event \"")?.strip_suffix("\"]")).collect()
}

#[test]
fn a_game_comes_back_annotated_with_all_that_it_had() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", GAME);
    let written = analyze(&[&input]);
    for kept in [
        "[Event \"a \\\"b\\\"\"]",
        "{start}",
        "[%clk 0:01:00] fine}",
        "$1",
        "Nc6 (2... d6 { solid} 3. d4)",
        "3. Qxe5# 1-0",
    ] {
        assert!(written.replace('\n', " ").contains(kept), "{kept}: {written}");
    }
    // Every move has an evaluation, except the one that mates.
    let flat = written.replace('\n', " ");
    for word in
        ["1. e4 {[%eval ", "1... e5 $1 {[%eval ", "2. Qh5 {[%eval ", "Ke7 $4 {[%eval #1]}", "3. Qxe5# 1-0"]
    {
        assert!(flat.contains(word), "{word}: {written}");
    }
    assert!(written.contains("[Annotator \"Rukh "), "{written}");
    // White has played as well as the search knows. Black's second move loses the game.
    let tag = |name: &str| -> f64 {
        let (_, rest) =
            written.split_once(&format!("[{name} \"")).unwrap_or_else(|| panic!("{name}: {written}"));
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    let accuracies = [tag("WhiteAccuracy"), tag("BlackAccuracy")];
    assert!(accuracies[0] > accuracies[1] && accuracies[0] <= 100.0, "{written}");
    assert!(tag("BlackAverageLoss") > 10.0 && tag("WhiteAverageLoss") < tag("BlackAverageLoss"), "{written}");
    let (_, stderr) = analyze_any(&[&input]);
    let line = format!("accuracy of White {:.1} % (loses {:.1} %", accuracies[0], tag("WhiteAverageLoss"));
    assert!(stderr.contains(&line), "{line}: {stderr}");
    let figures =
        run_json(&["analyze", "--nodes=100", "--threads=1", &input, "--output", &folder.name("c.pgn")]);
    let percent = figures["white"]["accuracy_percent"].as_f64().unwrap();
    assert!((0.0..=100.0).contains(&percent) && figures["black"]["loss_percent"].is_number(), "{figures}");
    // What was written can be read again.
    assert_eq!(events(&analyze(&[&folder.file("b.pgn", &written)])), events(&written));
}

#[test]
fn compressed_files_and_stdin_are_read() {
    let folder = Folder::new();
    let plain = analyze(&[&folder.file("a.pgn", GAME)]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(GAME.as_bytes()).unwrap();
    assert_eq!(analyze(&[&folder.file("a.pgn.gz", gzip.finish().unwrap())]), plain);
    let mut process =
        rukh(&SETTINGS).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(GAME.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap(), plain);
}

#[test]
fn every_input_has_every_output() {
    let folder = Folder::new();
    let board = "r1bqkb1r/pppp1ppp/2n2n2/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq -";
    let epd = folder.file("a.epd", format!("{board} bm Qxf7#; id \"scholar\";\n"));
    let fen = folder.file("a.fen", format!("{board} 4 4\n\n"));
    let json = folder.file(
        "a.jsonl",
        "{\"id\":\"q\",\"moves\":[\"e2e4\",\"e7e5\",\"f1c4\",\"b8c6\",\"d1h5\",\"g8f6\"],\"multiPv\":2}\n",
    );
    let pgn = folder.file("a.pgn", "1. e4 e5 2. Bc4 Nc6 3. Qh5 Nf6 *\n");
    for input in [&epd, &fen, &json, &pgn] {
        let annotated = analyze(&[input, "--format=pgn"]);
        assert!(annotated.contains("[%eval #1]"), "{annotated}");
        let lines = analyze(&[input, "--format=epd"]);
        let last = lines.lines().last().unwrap();
        assert!(last.starts_with(board) && last.contains("bm Qxf7#;") && last.contains("dm 1;"), "{last}");
        let answers = analyze(&[input, "--format=jsonl"]);
        let answer: Value = serde_json::from_str(answers.lines().last().unwrap()).unwrap();
        assert_eq!(answer["moveInfos"][0]["move"], "h5f7");
        assert_eq!(answer["rootInfo"]["scoreMate"], 1);
        assert_eq!(answer["rootInfo"]["expectedScore"], 1.0);
        let table = analyze(&[input, "--format=csv"]);
        assert!(table.starts_with("id,turn,fen,"), "{table}");
        assert!(table.lines().last().unwrap().contains(",h5f7,,1,1,0,0,1,"), "{table}");
    }
    // The name of the output says its format as well.
    let output = folder.name("out.csv");
    analyze(&[&epd, &format!("--output={output}")]);
    assert!(folder.text("out.csv").contains("scholar,0,"), "{}", folder.text("out.csv"));
}

/// A draw by the rules ends a game as mate does, whatever a search of its last position would find.
#[test]
fn the_last_move_of_a_drawn_game_is_judged_by_the_draw() {
    let folder = Folder::new();
    let repeated =
        "[FEN \"6k1/8/8/8/8/6Q1/8/K7 b - - 0 1\"]\n\n1... Kf8 2. Qc3 Kg8 3. Qd3 Kf8 4. Qc3 Kf7 5. Qg3 Kf8";
    let input = folder.file("a.pgn", format!("{repeated} 6. Qc3 1/2-1/2\n\n{repeated} 6. Qd3 *\n"));
    let written = analyze(&[&input]).replace('\n', " ");
    assert!(written.contains("6. Qc3 $4 {[%eval 0.00]}"), "{written}");
    assert!(!written.contains("6. Qd3 $"), "{written}");
    let rows = analyze(&[&input, "--format=jsonl"]);
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows[10]["rootInfo"]["end"], "draw");
    assert!(rows[10]["moveInfos"].as_array().unwrap().is_empty(), "{}", rows[10]);
    // Kings alone, and a hundred plies without a capture or pawn move.
    for (fen, move_, result) in [
        ("8/8/8/8/8/1k6/1P6/3K4 b - - 0 1", "1... Kxb2", "1/2-1/2"),
        ("8/8/8/8/8/2k5/8/K6R w - - 99 90", "90. Rh2", "1/2-1/2"),
    ] {
        let input = folder.file("b.pgn", format!("[FEN \"{fen}\"]\n\n{move_} {result}\n"));
        let written = analyze(&[&input, "--format=jsonl"]);
        let last: Value = serde_json::from_str(written.lines().last().unwrap()).unwrap();
        assert_eq!(last["rootInfo"]["end"], "draw", "{fen}");
    }
    let won = folder.file("c.pgn", format!("{repeated} 6. Qc3 1-0\n"));
    assert!(!analyze(&[&won]).contains("6. Qc3 $"), "nobody has claimed the draw");
}

#[test]
fn tablebases_give_the_results_of_positions() {
    let folder = Folder::new();
    let input = folder.file(
        "a.epd",
        "8/1kQK4/8/8/8/8/8/8 b - - 0 1\n8/8/8/8/2r5/k2K4/8/8 b - - 0 50\n8/8/8/8/1k6/1p6/8/1K6 w - - 0 1\n",
    );
    let tables = concat!("--syzygy-paths=", env!("CARGO_MANIFEST_DIR"), "/tests/data/syzygy");
    let written = analyze(&[&input, tables, "--format=csv"]);
    let mut rows = written.lines();
    let names: Vec<&str> = rows.next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|&own| own == name).unwrap();
    let found: Vec<(&str, &str)> = rows
        .map(|row| row.split(',').collect::<Vec<_>>())
        .map(|row| (row[column("score_cp")], row[column("expected_score")]))
        .collect();
    assert_eq!(found, [("-12800", "0"), ("12800", "1"), ("0", "0.5")]);
}

#[test]
fn ranges_and_sides_choose_the_moves() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 *\n");
    let turns = |more: &[&str]| -> Vec<u64> {
        let lines = analyze(&[&[input.as_str(), "--format=jsonl"], more].concat());
        lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["turnNumber"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(turns(&["--moves=2"]), [2, 3, 4]);
    assert_eq!(turns(&["--moves=3-", "--side=black"]), [5, 6]);
    let pgn = analyze(&[&input, "--moves=2", "--side=white", "--variations=none"]);
    assert_eq!(pgn.matches("[%eval").count(), 1, "{pgn}");
}

#[test]
fn the_order_is_that_of_the_input_and_shards_share_the_games() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", games(40));
    let all = analyze(&[&input, "--parallelism=3"]);
    let names: Vec<String> = (0..40).map(|number| format!("game {number}")).collect();
    assert_eq!(events(&all), names);
    let unordered = analyze(&[&input, "--parallelism=3", "--unordered"]);
    let mut sorted = events(&unordered);
    sorted.sort_by_key(|name| name[5..].parse::<u32>().unwrap());
    assert_eq!(sorted, names);
    let mut parts = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        parts.push(analyze(&[&input, &format!("--shard={shard}")]));
    }
    let part = |text: &str| -> Vec<String> { text.split_inclusive("*\n\n").map(str::to_owned).collect() };
    let parts: Vec<Vec<String>> = parts.iter().map(|text| part(text)).collect();
    let merged: Vec<String> = (0..40).map(|number| parts[number % 3][number / 3].clone()).collect();
    assert_eq!(merged, part(&all));
}

#[test]
fn each_game_has_a_picture_with_its_mistakes() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", format!("{GAME}[White \"<W>\"]\n\n1. d4 *\n"));
    analyze(&[&input, "--svg", &folder.name("game.svg")]);
    let picture = folder.text("game.svg");
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains(">W – Black</text>"), "{picture}");
    // Black is mated after 2... Ke7, so that White's expected score is 100 %.
    assert!(picture.contains("<title>100 percent for white, 2... Ke7??</title>"), "{picture}");
    assert!(folder.text("game-2.svg").contains("&lt;W&gt; – Black"));
    let (refused, stderr) = analyze_any(&[&input, "--svg=/nonexistent/a.svg"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr.contains("cannot write the picture /nonexistent/a.svg"), "{stderr}");
    assert!(!refused.stdout.is_empty());
}

#[test]
fn a_game_that_breaks_is_named_and_kept_aside() {
    let folder = Folder::new();
    let broken = "[Event \"bad\"]\n\n1. e4 e5 2. Ke3 *\n";
    let open = "[Event \"open\"]\n\n1. e4 {no end\n\n";
    let last = "[Event \"last\"]\n\n1. d4 *\n";
    let input = folder.file("a.pgn", format!("{GAME}{broken}\n{open}{last}"));
    let output = folder.name("out.pgn");
    let (finished, stderr) = analyze_any(&[&input, &format!("--output={output}")]);
    assert!(finished.status.success(), "{stderr}");
    assert!(stderr.contains("a.pgn line 7: illegal move `Ke3`"), "{stderr}");
    assert!(stderr.contains("a.pgn line 11: a comment has no end"), "{stderr}");
    assert!(stderr.contains("2 could not be read"), "{stderr}");
    assert_eq!(events(&folder.text("out.pgn")), ["a \\\"b\\\"", "last"]);
    let rejected = folder.text("out.pgn.rejected");
    assert!(rejected.contains(broken) && rejected.contains(open), "{rejected}");
    assert!(!folder.path("out.pgn.journal").exists());
}

#[test]
fn wrong_arguments_and_files_have_clear_messages() {
    let folder = Folder::new();
    let game = folder.file("a.pgn", GAME);
    let old = folder.file("old.pgn", "something");
    let damaged = folder.file("b.pgn.zst", b"\x28\xb5\x2f\xfd\xff\xff\xff");
    let network = folder.file("net.pb.gz", "no network");
    for (arguments, code, shown) in [
        (vec!["analyze", "--backend=trivial", "--nodes=1", &folder.name("")], 1, ": it is a folder"),
        (vec!["analyze", "--backend=trivial", &game], 2, "say when a search ends: --nodes or --movetime"),
        (
            vec!["analyze", "--nodes=5", "/nonexistent/a.pgn"],
            1,
            "cannot read /nonexistent/a.pgn: it does not exist",
        ),
        (vec!["analyze", "--nodes=5", "--backend=cpu", "-w", &network, &game], 1, "net.pb.gz"),
        (
            vec!["analyze", "--nodes=5", "--backend=trivial", &game, "--shard=4/3"],
            2,
            "not a number from 1 to n",
        ),
        (
            vec!["analyze", "--nodes=5", "--backend=trivial", &game, "--output", &old],
            1,
            "old.pgn exists; --overwrite",
        ),
        (vec!["analyze", "--nodes=5", "--backend=trivial", &game, "--output=a.pgn.gz"], 2, "not compressed"),
        (
            vec!["analyze", "--nodes=5", "--backend=trivial", &game, "--output", &game, "--overwrite"],
            1,
            "is the same file as the input",
        ),
        (vec!["analyze", "--nodes=5", "--backend=trivial", &damaged], 1, "could not be read to its end"),
        (vec!["analyze", "--nodes=5", "--backend=trivial", &damaged], 1, "the Zstandard file is damaged"),
    ] {
        let output = run_any(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(shown), "{arguments:?}: {stderr}");
    }
    assert_eq!(folder.text("old.pgn"), "something");
    assert_eq!(folder.text("a.pgn"), GAME);
}

/// `/dev/full` refuses every byte, as a full disk does.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named() {
    let folder = Folder::new();
    let (output, stderr) = analyze_any(&[&folder.file("a.pgn", GAME), "--output=/dev/full"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("cannot write /dev/full: "), "{stderr}");
}

/// Limits the size of files, as a disk does that becomes full, in the middle of the results. Then the limit is gone, and
/// the same command goes on.
#[cfg(target_os = "linux")]
#[test]
fn an_analysis_goes_on_after_a_full_disk() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", games(60));
    let [whole, cut] = ["whole.pgn", "cut.pgn"].map(|name| folder.name(name));
    analyze(&[&input, "--output", &whole]);
    let arguments = [&SETTINGS[..], &[&input, "--output", &cut]].concat();
    let mut limited = Command::new("sh");
    // Blocks have 512 bytes. Without the trap, the signal would end the process.
    limited.args([
        "-c",
        "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_rukh"),
        "--config=",
    ]);
    let output = limited.args(&arguments).stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write ") && !stderr.contains("panicked"), "{stderr}");
    run(&arguments);
    assert_eq!(folder.text("cut.pgn"), folder.text("whole.pgn"));
}

/// Ctrl-C ends the analysis, and the same command goes on.
#[cfg(unix)]
#[test]
fn an_interrupted_analysis_goes_on() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", games(20));
    let output = folder.name("out.pgn");
    let arguments = [&DELAYED[..], &[&input, "--output", &output]].concat();
    let mut process = rukh(&arguments).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_growth(&folder.path("out.pgn.journal"), 0, &mut process);
    let begun = Instant::now();
    Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    let interrupted = process.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&interrupted.stderr);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(interrupted.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the same command goes on from here"), "{stderr}");
    run(&arguments);
    assert_eq!(events(&folder.text("out.pgn")).len(), 20);
    assert!(!folder.path("out.pgn.journal").exists());
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", games(20));
    let arguments = [&DELAYED[..], &[&input]].concat();
    let mut process =
        rukh(&arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// With a visit for each position, the positions themselves fill the batches, although each line has only one.
#[test]
fn the_network_alone_evaluates_full_batches() {
    let folder = Folder::new();
    let row = |piece: &str, file: usize| {
        let blank = |count: usize| if count > 0 { count.to_string() } else { String::new() };
        format!("{}{piece}{}", blank(file), blank(7 - file))
    };
    let line = |number: usize| {
        let [black, white, own, other] = [number % 8, number / 8 % 8, number / 64 % 8, number / 512];
        let (black, white) = (row("p", black), row("P", white));
        format!("{}/8/{black}/8/8/{white}/8/{} w - -\n", row("k", other), row("K", own))
    };
    let lines: String = (0..4096).map(line).collect();
    let input = folder.file("a.epd", lines);
    let output = folder.name("o.jsonl");
    let device = ["analyze", "--backend=random", "--backend-opts=delay=200", "--history-fill=no"];
    let flags = ["--nodes=1", "--policy", "--json", &input, "--output", &output];
    let figures = run_json(&[&device[..], &flags].concat());
    let mean = figures["evaluations"].as_f64().unwrap() / figures["batches"].as_f64().unwrap();
    assert_eq!(figures["positions"], 4096);
    assert!(mean > 130.0, "{figures}");
    let answers = folder.text("o.jsonl");
    let answer: Value = serde_json::from_str(answers.lines().next().unwrap()).unwrap();
    let policy = answer["policy"].as_object().unwrap();
    let sum: f64 = policy.values().filter_map(Value::as_f64).sum();
    assert!((sum - 1.0).abs() < 1e-3 && answer["moveInfos"][0]["prior"].is_number(), "{answer}");
}

#[test]
fn a_time_limit_ends_searches() {
    let folder = Folder::new();
    let input = folder.file("a.epd", "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1\n6k1/8/8/8/8/8/4P3/4K3 w - - 0 1\n");
    let lines = run(&["analyze", "--backend=trivial", "--movetime=50", &input]);
    assert_eq!(lines.matches(" pv ").count(), 2, "{lines}");
}

/// Kills the analysis again and again. In the end every game is there once, as if nothing had happened, and no position
/// was searched twice.
#[test]
fn a_killed_analysis_goes_on_where_it_was() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", format!("{}[Event \"bad\"]\n\n1. e5 *\n\n{}", games(40), games(5)));
    let undisturbed = folder.name("undisturbed.pgn");
    let one_run = run_json(&[&DELAYED[..], &[&input, "--output", &undisturbed]].concat());
    for (name, order) in [("ordered.pgn", "--parallelism=4"), ("unordered.pgn", "--unordered")] {
        let output = folder.name(name);
        let arguments = [&DELAYED[..], &[&input, "--output", &output, "--json", order]].concat();
        let (journal, mut kills, mut length) = (folder.path(&format!("{name}.journal")), 0, 0);
        // On a busy machine the kill comes late. The analysis, whose journal has more than 60,000 bytes, must not be done
        // by then.
        while kills < 5 && length < 20_000 {
            let mut command = rukh(&arguments);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = command.spawn().unwrap();
            wait_for_growth(&journal, length, &mut process);
            process.kill().unwrap();
            process.wait().unwrap();
            kills += 1;
            length = fs::metadata(&journal).expect("the analysis is not done").len();
        }
        let noted = fs::read_to_string(&journal).unwrap().matches("{\"result\":").count() as u64;
        let last_run: Value = serde_json::from_str(&run(&arguments)).unwrap();
        let sorted = |name: &str| {
            let text = folder.text(name);
            let mut games: Vec<String> = text.split_inclusive("*\n\n").map(str::to_owned).collect();
            if order == "--unordered" {
                games.sort();
            }
            games
        };
        assert!(sorted(name) == sorted("undisturbed.pgn"), "{order}: {}", folder.text(name));
        assert_eq!(folder.text(&format!("{name}.rejected")).matches("1. e5").count(), 1);
        assert!(!journal.exists());
        let all = one_run["positions"].as_u64().unwrap();
        assert_eq!(noted + last_run["positions"].as_u64().unwrap(), all, "{order}, after {kills} kills");
        assert!(kills >= 2 && noted > 0, "{kills} kills, {noted} positions");
    }
}

#[test]
fn a_journal_with_other_settings_is_refused() {
    let folder = Folder::new();
    let input = folder.file("a.pgn", GAME);
    let output = folder.name("out.pgn");
    folder.file("out.pgn.journal", "{\"settings\":\"other\"}\n");
    let (refused, stderr) = analyze_any(&[&input, "--output", &output]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr.contains("out.pgn.journal belongs to an analysis with other"), "{stderr}");
    analyze(&[&input, "--output", &output, "--overwrite"]);
    assert_eq!(events(&folder.text("out.pgn")).len(), 1);
}

fn run_json(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(&[arguments, &["--json"]].concat())).unwrap()
}

/// Waits until a file is longer than `length` by a few results, or until the process that writes it has ended.
fn wait_for_growth(path: &Path, length: u64, process: &mut Child) {
    let begun = Instant::now();
    while fs::metadata(path).map_or(0, |metadata| metadata.len()) <= length + 2000
        && process.try_wait().unwrap().is_none()
    {
        assert!(begun.elapsed() < PATIENCE, "{} does not grow", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}
