//! `merge` with the parts that `rukh` writes. They need no server.

use crate::harness::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder, and the engine.
struct Parts {
    folder: TempDir,
    engine: PathBuf,
}

impl Parts {
    fn new() -> Option<Parts> {
        Some(Parts { folder: TempDir::new().unwrap(), engine: engine()? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn engine(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.engine);
        command.args(arguments).current_dir(&self.folder).env("XDG_CONFIG_HOME", NO_FOLDER).output().unwrap()
    }

    /// Analyses `games.pgn` in parts, into `PREFIX-I.ENDING`, and as a whole into `whole.ENDING`.
    fn analyze(&self, prefix: &str, count: u32, ending: &str, flags: &[&str]) -> Vec<String> {
        let settings = [&["analyze", "games.pgn"], &SETTINGS[..], flags].concat();
        let whole = format!("--output=whole.{ending}");
        assert!(self.engine(&[&settings[..], &[&whole, "--overwrite"]].concat()).status.success());
        let part = |number: u32| {
            let name = format!("{prefix}-{number}.{ending}");
            let (shard, output) = (format!("--shard={number}/{count}"), format!("--output={name}"));
            let done = self.engine(&[&settings[..], &[&shard, &output, "--overwrite"]].concat());
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            name
        };
        (1..=count).map(part).collect()
    }

    fn merge(&self, parts: &[&str], more: &[&str]) -> Output {
        let mut command = fleet_command("127.0.0.1:1");
        command.arg("merge").args(parts).args(more).current_dir(&self.folder).output().unwrap()
    }

    /// Checks that the parts are refused for this reason, and that nothing is written.
    #[track_caller]
    fn refuses(&self, parts: &[&str], reason: &str) {
        let refused = self.merge(parts, &["--output=refused"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{parts:?}: {said}");
        assert!(said.contains(reason), "{parts:?}: {said}");
        assert!(!self.path("refused").exists());
    }
}

fn names(parts: &[String]) -> Vec<&str> {
    parts.iter().map(String::as_str).collect()
}

/// Two games cannot be read, so that the parts do not have equally many.
fn write_games(folder: &Path) {
    let bad = "[Event \"bad\"]\n\n1. e4 e4 *\n\n";
    fs::write(folder.join("games.pgn"), format!("{}{bad}{}{bad}{}", games(4), games(3), games(5))).unwrap();
}

#[test]
fn parts_of_every_format_make_the_whole_and_what_is_wrong_with_them_is_an_error() {
    let Some(parts) = Parts::new() else { return };
    write_games(parts.folder.path());
    for ending in ["pgn", "jsonl", "csv"] {
        let made = parts.analyze("part", 4, ending, &[]);
        let made = names(&made);
        let merged = format!("merged.{ending}");
        let output = format!("--output={merged}");
        // The order on the command line does not matter.
        let shuffled = [made[2], made[0], made[3], made[1]];
        let done = parts.merge(&shuffled, &[&output]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let read = |name: &str| fs::read_to_string(parts.path(name)).unwrap();
        assert_eq!(read(&merged), read(&format!("whole.{ending}")));
        // Missing, also the last one.
        parts.refuses(&made[..3], "of 4 parts these are missing: 4");
        parts.refuses(&[made[0], made[2]], "of 4 parts these are missing: 2, 4");
        // Repeated, by its name or as a copy.
        parts.refuses(&[made[0], made[1], made[2], made[3], made[1]], "given twice");
        let copy = format!("copy.{ending}");
        for end in ["", ".shard"] {
            fs::copy(parts.path(&format!("{}{end}", made[1])), parts.path(&format!("{copy}{end}"))).unwrap();
        }
        parts.refuses(&[made[0], made[1], made[2], &copy], "part 2 of 4 is given twice");
        // Cut, at any place.
        let text = read(made[1]);
        for length in [text.len() - 1, text.len() / 2, 0] {
            fs::write(parts.path(made[1]), &text[..length]).unwrap();
            parts.refuses(&made, "when it was complete");
        }
        fs::write(parts.path(made[1]), &text).unwrap();
        fs::write(parts.path(&format!("{}.journal", made[1])), "").unwrap();
        parts.refuses(&made, "not complete");
        fs::remove_file(parts.path(&format!("{}.journal", made[1]))).unwrap();
        // Mixed with parts of another number, of another analysis, and of another kind.
        let three = parts.analyze("three", 3, ending, &[]);
        parts.refuses(&[made[0], made[1], made[2], &three[2]], "another analysis");
        for flag in ["--nodes=61", "--cpuct=2", "--backend=random"] {
            let others = parts.analyze("other", 4, ending, &[flag]);
            parts.refuses(&[made[0], made[1], made[2], &others[3]], "another analysis");
        }
        parts.refuses(&[made[0], made[1], made[2], made[3], "games.epd"], "games.epd");
        fs::remove_file(parts.path(&format!("{}.shard", made[2]))).unwrap();
        parts.refuses(&made, "has no record");
    }
}

#[test]
fn an_output_that_is_a_part_is_an_error_by_whatever_name() {
    let Some(parts) = Parts::new() else { return };
    for (name, text) in [("part1.pgn", games(2)), ("part2.pgn", games(1))] {
        fs::write(parts.path(name), text).unwrap();
    }
    let read = |name: &str| fs::read_to_string(parts.path(name)).unwrap();
    let before = read("part1.pgn");
    fs::hard_link(parts.path("part1.pgn"), parts.path("hard.pgn")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("part1.pgn", parts.path("soft.pgn")).unwrap();
    for output in ["part1.pgn", "./part1.pgn", "hard.pgn", "soft.pgn"] {
        let refused = parts.merge(&["part1.pgn", "part2.pgn"], &[&format!("--output={output}")]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{output}: {said}");
        assert!(said.contains("the output"), "{output}: {said}");
        assert_eq!(read("part1.pgn"), before);
    }
    // The same pattern a second time matches the output of the first.
    for name in ["hard.pgn", "soft.pgn"] {
        fs::remove_file(parts.path(name)).unwrap();
    }
    assert!(parts.merge(&["part1.pgn", "part2.pgn"], &["--output=all.pgn"]).status.success());
    let all = read("all.pgn");
    assert_eq!(all.matches("[Event ").count(), 3);
    let refused = parts.merge(&["all.pgn", "part1.pgn", "part2.pgn"], &["--output=all.pgn"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(read("all.pgn"), all);
    // So does the output of a shell.
    let stdout = fs::File::options().append(true).open(parts.path("all.pgn")).unwrap();
    let mut command = fleet_command("127.0.0.1:1");
    command.args(["merge", "all.pgn", "part1.pgn"]).current_dir(&parts.folder).stdout(stdout);
    assert_eq!(command.output().unwrap().status.code(), Some(1));
    assert_eq!(read("all.pgn"), all);
    assert_eq!(fs::read_dir(&parts.folder).unwrap().count(), 3, "a temporary file is left");
}

#[test]
fn the_scores_of_a_tournament_need_all_its_parts() {
    let Some(parts) = Parts::new() else { return };
    let settings = ["selfplay", "--json", "--backend=trivial", "--visits=4", "--games=8", "--temperature=1"];
    let play = |name: &str, flags: &[&str]| {
        let done = parts.engine(&[&settings[..], flags].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        fs::write(parts.path(name), done.stdout).unwrap();
    };
    for number in 1..=3 {
        play(&format!("{number}.json"), &[&format!("--shard={number}/3")]);
    }
    play("two.json", &["--shard=1/2"]);
    let done = parts.merge(&["1.json", "2.json", "3.json"], &[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(figures["games"], 8);
    parts.refuses(&["1.json", "2.json"], "of 3 parts these are missing: 3");
    fs::copy(parts.path("2.json"), parts.path("copy.json")).unwrap();
    parts.refuses(&["1.json", "2.json", "copy.json"], "part 2 of 3 is given twice");
    parts.refuses(&["two.json", "2.json", "3.json"], "is not one of");
    let text = fs::read(parts.path("2.json")).unwrap();
    fs::write(parts.path("2.json"), &text[..text.len() / 2]).unwrap();
    parts.refuses(&["1.json", "2.json", "3.json"], "not all of it");
}
