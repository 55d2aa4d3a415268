//! Syzygy tablebases: our results compared with those of python-chess on the same files.

use rukh::chess::tablebase::{TablebaseError, Tablebases};
use rukh::chess::{Position, PositionHistory};
use std::io::Read;
use std::path::PathBuf;

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
        assert_eq!(result, Some(rukh::chess::GameResult::Won(winner)), "{fen}");
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
    assert!(matches!(&missing, TablebaseError::Directory { .. }));
    assert!(missing.to_string().contains("/no/such/directory"), "{missing}");
    let empty = Tablebases::open(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).expect_err("src has no tables");
    assert!(empty.to_string().contains("no tables"), "{empty}");
}
