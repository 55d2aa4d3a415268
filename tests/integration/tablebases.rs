//! Syzygy tablebases: our results compared with those of python-chess on the same files.

use crate::driver::{Driver, best_move};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rukh_chess::tablebase::{TablebaseError, Tablebases};
use rukh_chess::{Position, PositionHistory};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The tables with three pieces, which are small enough for git.
const THREE_PIECES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/syzygy");

/// Each line has the WDL, the DTZ and the FEN of a position. `scripts/fixtures/make_syzygy_goldens.py` wrote them.
const GOLDENS: &[u8] = include_bytes!("../data/syzygy.txt.gz");

/// The directory of the three- and four-piece tables, which are too large for git. `None` if it does not exist.
pub(crate) fn directory() -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/syzygy");
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: the three- and four-piece Syzygy tables are not in ../shared/syzygy");
    None
}

fn tables() -> Option<Tablebases> {
    let directory = directory()?;
    Some(Tablebases::open(directory.to_str().expect("a readable path")).expect("tables open"))
}

struct Golden {
    wdl: i8,
    dtz: i32,
    position: Position,
}

fn goldens() -> Vec<Golden> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(GOLDENS).read_to_string(&mut text).expect("the file is gzipped text");
    let line = |line: &str| {
        let mut fields = line.splitn(3, ' ');
        let mut field = || fields.next().expect("three fields");
        let (wdl, dtz) = (field().parse().expect("WDL"), field().parse().expect("DTZ"));
        Golden { wdl, dtz, position: Position::from_fen(field()).expect("a valid FEN") }
    };
    text.lines().map(line).collect()
}

#[test]
fn results_and_distances_agree_with_python_chess() {
    let Some(tables) = tables() else { return };
    assert_eq!((tables.files(), tables.max_pieces()), (70, 4));
    let goldens = goldens();
    assert!(goldens.len() >= 2000);
    for Golden { wdl, dtz, position } in goldens {
        let fen = position.to_fen();
        assert_eq!(tables.result_after_zeroing(&position), Some(wdl.signum()), "{fen}");
        assert_eq!(tables.distance_to_zeroing(&position), Some(dtz), "{fen}");
    }
}

#[test]
fn the_best_root_moves_keep_the_result() {
    let Some(tables) = tables() else { return };
    for Golden { wdl, position, .. } in goldens() {
        let fen = position.to_fen();
        let history = PositionHistory::new(position);
        let Some(root) = tables.root_moves(&history, false) else {
            assert!(history.last().legal_moves().is_empty(), "{fen}: the tables do not know it");
            continue;
        };
        assert!(root.by_distance && !root.best.is_empty(), "{fen}");
        for m in root.best {
            let next = history.last().play(m.unpack(history.last()));
            // Take the opponent's result from DTZ, because WDL needs a fifty-move counter of zero.
            let kept = if next.legal_moves().is_empty() {
                i32::from(next.is_check())
            } else {
                -tables.distance_to_zeroing(&next).expect("the tables still cover it").signum()
            };
            assert_eq!(kept, i32::from(wdl.signum()), "{fen}: {m:?}");
        }
    }
}

#[test]
fn won_endgames_are_won_before_the_fifty_move_rule() {
    let Some(tables) = tables() else { return };
    let won = goldens().into_iter().filter(|golden| golden.wdl == 2).step_by(23);
    for Golden { position, .. } in won {
        let fen = position.to_fen();
        let winner = position.side_to_move();
        let mut history = PositionHistory::new(position);
        while history.result().is_none() {
            let root = tables.root_moves(&history, true).expect("the tables cover the whole game");
            let m = root.best[0].unpack(history.last());
            history.push(m);
        }
        let result = history.result();
        assert_eq!(result, Some(rukh_chess::GameResult::Won(winner)), "{fen}");
    }
}

#[test]
fn the_fifty_move_counter_narrows_the_choice() {
    let Some(tables) = tables() else { return };
    // King and rook against king: most moves win while the counter is low, and only the fastest when it is high.
    let count = |rule50: u32| {
        let fen = format!("8/8/8/8/3k4/8/8/R3K3 w - - {rule50} 80");
        let history = PositionHistory::new(Position::from_fen(&fen).expect("a valid FEN"));
        tables.root_moves(&history, false).expect("the tables cover it").best.len()
    };
    assert!(count(0) > count(72), "{} and {}", count(0), count(72));
    assert!(count(72) >= 1);
}

/// The pieces have wandered back and forth, as they do for players without tables.
#[test]
fn a_win_is_not_given_away_by_a_third_occurrence() {
    let own = "8/8/8/8/2r5/k2K4/8/8 b - - 0 50 moves a3b3 d3e2 b3a3 e2d3 a3b3 d3e2 b3a3 e2d3";
    let replied = "8/3K1R2/8/8/7k/8/8/8 w - - 0 60 moves f7h7 h4g3 h7f7 g3h4 f7h7 h4g3";
    let mut engine = Driver::start(&["--backend=trivial", "-s", THREE_PIECES]);
    // The move that wins fastest is the third occurrence itself, or lets the reply be one.
    for (game, drawn) in [(own, "a3b3"), (replied, "h7f7")] {
        for fast in [false, true] {
            engine.ask(&format!("setoption name SyzygyFastPlay value {fast}"));
            engine.ask("ucinewgame");
            engine.ask(&format!("position fen {game}"));
            let lines = engine.search("go nodes 100");
            assert_ne!(best_move(&lines), drawn);
            assert!(last_info(&lines).contains(" score cp 12800 "), "{lines:?}");
        }
    }
}

/// The only move that wins before the fifty-move rule applies is a third occurrence.
#[test]
fn a_win_that_comes_too_late_is_no_win() {
    let mut engine = Driver::start(&["--backend=trivial", "-s", THREE_PIECES]);
    engine.ask("position fen 8/3K1R2/8/8/8/6k1/8/8 b - - 69 60 moves g3h4 f7h7 h4g3 h7f7 g3h4 f7h7 h4g3");
    let lines = engine.search("go nodes 100");
    assert_ne!(best_move(&lines), "h7f7");
    assert!(!last_info(&lines).contains(" score cp 12800 "), "{lines:?}");
}

#[test]
fn a_third_occurrence_saves_the_loser() {
    let mut engine = Driver::start(&["--backend=trivial", "-s", THREE_PIECES, "--show-wdl"]);
    engine.ask("position fen 4K3/8/8/7k/8/8/8/5R2 w - - 60 50 moves f1g1 h5h6 g1f1 h6h5 f1g1 h5h6 g1f1");
    let lines = engine.search("go nodes 100");
    assert_eq!(best_move(&lines), "h6h5");
    assert!(last_info(&lines).contains(" score cp 0 wdl 0 1000 0 "), "{lines:?}");
}

fn last_info(lines: &[String]) -> &str {
    lines.iter().rfind(|line| line.contains(" score ")).expect("an info line")
}

#[test]
fn a_position_that_no_table_covers_is_unknown() {
    let Some(tables) = tables() else { return };
    for fen in [
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        // Tables do not cover castling rights.
        "4k3/8/8/8/8/8/8/R3K3 w Q - 0 1",
        // It has five pieces.
        "4k3/8/8/8/8/8/PPP5/4K3 w - - 0 1",
    ] {
        let history = PositionHistory::new(Position::from_fen(fen).expect("a valid FEN"));
        assert_eq!(tables.result_after_zeroing(history.last()), None, "{fen}");
        assert_eq!(tables.root_moves(&history, false), None, "{fen}");
    }
}

#[test]
fn errors_name_the_wrong_path() {
    let missing = Tablebases::open("/no/such/directory").expect_err("the directory does not exist");
    assert!(matches!(&missing, TablebaseError::Unusable { .. }));
    assert!(missing.to_string().contains("/no/such/directory"), "{missing}");
    let empty = Tablebases::open(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).expect_err("src has no tables");
    assert!(empty.to_string().contains("no tables"), "{empty}");
}

/// A path on Windows has a colon after the letter of the drive, and a line from a chess program ends with two characters
/// there.
#[test]
fn folders_are_separated_as_in_path() {
    let separator = if cfg!(windows) { ';' } else { ':' };
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::fs::copy(Path::new(THREE_PIECES).join("KRvK.rtbw"), folder.path().join("KRvK.rtbw"))
        .expect("a table can be copied");
    let list = format!("{THREE_PIECES}{separator}{separator}{}", folder.path().display());
    let first = Tablebases::open(THREE_PIECES).expect("the tables can be opened");
    let both = Tablebases::open(&list).expect("the tables in both folders can be opened");
    assert_eq!(both.files(), first.files(), "a table in two folders counts once");
    let mut engine = Driver::start(&["--backend=trivial"]);
    engine.send_bytes(format!("setoption name SyzygyPath value {list}\r\n").as_bytes());
    engine.ask("position fen 8/8/8/8/3k4/8/8/R3K3 w - - 0 1\r");
    let said = engine.search("go nodes 10\r");
    assert!(!said.iter().any(|line| line.contains("error")), "{said:#?}");
    assert!(said.iter().any(|line| line.contains(" tbhits ") && !line.contains(" tbhits 0")), "{said:#?}");
}

/// A FEN may let the side that just moved be in check. The tables know no such position, and to ask for one is a panic in
/// the crate that reads them.
#[test]
fn a_king_that_can_be_taken_is_no_question_for_the_tables() {
    let tables = Tablebases::open(THREE_PIECES).expect("tables open");
    for fen in
        ["4k3/8/8/8/8/8/4R3/4K3 w - - 0 1", "4k3/8/8/8/8/8/4r3/4K3 b - - 0 1", "8/3k4/4P3/8/8/8/8/4K3 w - -"]
    {
        let history = PositionHistory::new(Position::from_fen(fen).expect("a valid FEN"));
        let position = history.last();
        assert_eq!(tables.result_after_zeroing(position), None, "{fen}");
        assert_eq!(tables.distance_to_zeroing(position), None, "{fen}");
        assert_eq!(tables.root_moves(&history, false), None, "{fen}");
        for &m in &position.legal_moves() {
            tables.result_after_zeroing(&position.play(m));
            tables.distance_to_zeroing(&position.play(m));
        }
        assert_eq!(tables.faults(0), [] as [String; 0], "{fen}");
    }
    let mut engine = Driver::start(&["--backend=trivial", "-s", THREE_PIECES]);
    engine.ask("position fen 4k3/8/8/8/8/8/4R3/4K3 w - - 0 1");
    let said = engine.search("go nodes 10");
    assert!(said.iter().any(|line| line.starts_with("bestmove e")), "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("error")), "{said:#?}");
}

/// Copies the tables with three pieces to `directory`, with some bytes of each changed at random.
fn damage(directory: &Path, dice: &mut StdRng) {
    for file in std::fs::read_dir(THREE_PIECES).expect("the tables are there") {
        let file = file.expect("a directory can be read");
        let mut bytes = std::fs::read(file.path()).expect("a table can be read");
        for _ in 0..dice.random_range(1..20) {
            // The header is at the beginning, and there most changes matter.
            let end = if dice.random_bool(0.7) { bytes.len().min(100) } else { bytes.len() };
            bytes[dice.random_range(4..end)] = dice.random();
        }
        std::fs::write(directory.join(file.file_name()), bytes).expect("the copy can be written");
    }
}

/// The crate that reads the tables trusts them in places, and panics.
#[test]
fn damaged_tables_give_any_answer_but_no_panic() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut dice = StdRng::seed_from_u64(1);
    let mut faults = 0;
    for _ in 0..60 {
        damage(directory.path(), &mut dice);
        let tables =
            Tablebases::open(directory.path().to_str().expect("a readable path")).expect("tables open");
        for board in
            ["8/8/8/8/3k4/8/8/R3K3", "8/8/8/8/3k4/8/8/Q3K3", "8/8/8/8/3k4/8/4P3/4K3", "8/3q4/8/3k4/8/8/8/4K3"]
        {
            for turn in ["w", "b"] {
                let position = Position::from_fen(&format!("{board} {turn} - - 0 1")).expect("a valid FEN");
                tables.result_after_zeroing(&position);
                tables.distance_to_zeroing(&position);
                tables.root_moves(&PositionHistory::new(position), false);
            }
        }
        faults += usize::from(!tables.faults(0).is_empty());
    }
    assert!(faults > 30, "only {faults} of 60 directories had a table that could not be read");
}

/// A folder whose tables of king and rook are damaged.
fn folder_of_damaged_rooks() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for file in ["KRvK.rtbw", "KRvK.rtbz"] {
        let mut bytes = std::fs::read(Path::new(THREE_PIECES).join(file)).expect("a table can be read");
        bytes[4..].fill(0xff);
        std::fs::write(directory.path().join(file), bytes).expect("the copy can be written");
    }
    directory
}

const ROOK: &str = "8/8/8/8/3k4/8/8/R3K3 w - - 0 1";
const QUEEN: &str = "8/8/8/8/3k4/8/8/1Q2K3 w - - 0 1";

fn position(fen: &str) -> Position {
    Position::from_fen(fen).expect("a valid FEN")
}

#[test]
fn a_damaged_table_is_left_out_and_the_others_are_used() {
    let damaged = folder_of_damaged_rooks();
    for file in ["KQvK.rtbw", "KQvK.rtbz"] {
        std::fs::copy(Path::new(THREE_PIECES).join(file), damaged.path().join(file)).expect("a copy");
    }
    // No table has such a size.
    std::fs::write(damaged.path().join("KBvK.rtbw"), "short").expect("the file can be written");
    let tables = Tablebases::open(damaged.path().to_str().expect("a readable path")).expect("tables open");
    assert_eq!(tables.result_after_zeroing(&position(ROOK)), None);
    assert_eq!(tables.distance_to_zeroing(&position(ROOK)), None);
    assert_eq!(tables.result_after_zeroing(&position(QUEEN)), Some(1));
    assert!(tables.distance_to_zeroing(&position(QUEEN)).is_some_and(|distance| distance > 0));
    let faults = tables.faults(0);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].ends_with("KBvK.rtbw is damaged: no table has its size; it is left out"), "{faults:?}");
    assert!(faults[1].ends_with("KRvK.rtbw is damaged; it is left out"), "{faults:?}");
}

#[test]
fn a_sound_table_in_another_folder_takes_the_place_of_a_damaged_one() {
    let damaged = folder_of_damaged_rooks();
    let paths = |first: &Path, second: &Path| {
        let paths = std::env::join_paths([first, second]).expect("paths without a separator");
        paths.into_string().expect("readable paths")
    };
    let (sound, missing) = (Path::new(THREE_PIECES), Path::new("/no/such/directory"));
    for (path, faults) in [
        (paths(damaged.path(), sound), vec!["KRvK.rtbw is damaged; ", "KRvK.rtbz is damaged; "]),
        (paths(sound, damaged.path()), vec![]),
        (paths(missing, sound), vec!["cannot read /no/such/directory: it does not exist"]),
        (paths(sound, sound), vec![]),
    ] {
        let tables = Tablebases::open(&path).expect("tables open");
        assert_eq!(tables.files(), Tablebases::open(THREE_PIECES).expect("tables open").files());
        assert_eq!(tables.result_after_zeroing(&position(ROOK)), Some(1), "{path}");
        assert!(tables.distance_to_zeroing(&position(ROOK)).is_some_and(|distance| distance > 0), "{path}");
        let found = tables.faults(0);
        assert_eq!(found.len(), faults.len(), "{path}: {found:?}");
        assert!(found.iter().zip(&faults).all(|(found, fault)| found.contains(fault)), "{path}: {found:?}");
    }
    let mut engine = Driver::start(&["--backend=trivial", "-s", &paths(damaged.path(), sound)]);
    engine.ask(&format!("position fen {ROOK}"));
    let said = engine.search("go nodes 10");
    assert!(said.iter().any(|line| line.contains(" tbhits 1")), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("KRvK.rtbw takes its place")), "{said:#?}");
}

/// A search whose tables are damaged says so once, and goes on without them.
#[test]
fn a_damaged_table_is_reported_and_does_not_end_the_game() {
    let directory = folder_of_damaged_rooks();
    let path = directory.path().to_str().expect("a readable path");
    let mut engine = Driver::start(&["--backend=trivial", "-s", path]);
    engine.ask("position fen 8/8/8/8/3k4/8/8/R3K3 w - - 0 1");
    let errors = |said: &[String]| said.iter().filter(|line| line.contains("error: SyzygyPath")).count();
    let said = engine.search("go nodes 10");
    assert_eq!(errors(&said), 1, "{said:#?}");
    let whole = |line: &String| {
        line.starts_with("info string error: SyzygyPath: ")
            && line.ends_with("KRvK.rtbw is damaged; it is left out")
    };
    assert!(said.iter().any(whole), "{said:#?}");
    let said = engine.search("go nodes 20");
    assert_eq!(errors(&said), 0, "{said:#?}");
    assert!(said.iter().any(|line| line.starts_with("bestmove ") && line != "bestmove 0000"), "{said:#?}");
}
