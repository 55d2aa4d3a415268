//! What `analyze`, its protocol and `selfplay` read: games as people and programs write them, and files that cannot be
//! read.

use crate::driver::{Driver, run, run_any};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::time::Duration;
use tempfile::TempDir;

const SETTINGS: [&str; 5] = ["analyze", "--backend=trivial", "--nodes=1", "--nncache=0", "--variations=none"];

/// The moves of the games that `analyze` writes, without evaluations, and what it says on stderr.
fn read(content: &[u8], more: &[&str]) -> (Vec<String>, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.pgn");
    fs::write(&path, content).unwrap();
    let output = run_any(&[&SETTINGS, more, &[&path.display().to_string()]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    (moves_of(&String::from_utf8_lossy(&output.stdout)), stderr)
}

/// The movetext of each game, in one line, without `%eval`.
fn moves_of(pgn: &str) -> Vec<String> {
    let mut games: Vec<String> = Vec::new();
    for line in pgn.lines() {
        match (line.is_empty() || line.starts_with('['), games.last_mut()) {
            (true, Some(last)) if !last.is_empty() => games.push(String::new()),
            (true, None) => games.push(String::new()),
            (true, Some(_)) => {}
            (false, Some(last)) => {
                last.push_str(line);
                last.push(' ');
            }
            (false, None) => games.push(format!("{line} ")),
        }
    }
    games.retain(|game| !game.is_empty());
    for game in &mut games {
        while let Some(start) = game.find("{[%eval") {
            let end = game[start..].find('}').map_or(game.len(), |end| start + end + 2);
            game.replace_range(start..end.min(game.len()), "");
        }
        // The number of a move of Black is written only behind a comment.
        let words = game.split_whitespace().filter(|word| !word.ends_with("..."));
        *game = words.collect::<Vec<_>>().join(" ");
    }
    games
}

#[test]
fn games_are_read_in_every_notation_and_written_in_that_of_the_standard() {
    for (text, expected) in [
        ("1. d4 d5 2. Ng1-f3 Ng8-f6 3. e3 e6 *", "1. d4 d5 2. Nf3 Nf6 3. e3 e6 *"),
        ("1. Sf3 Sf6 2. c4 c5 *", "1. Nf3 Nf6 2. c4 c5 *"),
        ("1. f4 e5 2. g4 Qh4++ 0-1", "1. f4 e5 2. g4 $4 Qh4# 0-1"),
        ("1. e4 d5 2. e:d5 Qxd5 3. Nc3N Qd8□ *", "1. e4 d5 2. exd5 Qxd5 3. Nc3 $146 Qd8 $7 *"),
        ("1. e4 e5 2. ♘f3 ♞c6 3. ♗c4 ♝c5 4. o-o *", "1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. O-O *"),
        ("1. e4 (1. Ng1-f3 d7-d5) e5 *", "1. e4 (1. Nf3 d5) e5 *"),
        ("1. e4 -- 2. d4 Z0 *", "1. e4 -- 2. d4 -- *"),
    ] {
        assert_eq!(read(text.as_bytes(), &[]).0, [expected], "{text}");
    }
}

#[test]
fn a_token_that_is_not_understood_is_named_and_its_game_is_kept_as_it_stands() {
    let folder = TempDir::new().unwrap();
    let broken = [
        "[White \"M\u{fc}ller\"]\n\n1. d4 d5   2. Qq5\n\n",
        "1. e4 (1. d4 Qq5 d5)\te5 *\n\n",
        "[Site \"b\"]\n\n1. e4 e5 2. Nf3 $999 *\r\n\r\n",
        "1. d4 d5 2. Pf3 Pf6 *\n\n",
    ];
    let sound = "[Event \"sound\"]\n\n1. e4 *\n\n";
    let input = folder.path().join("a.pgn").display().to_string();
    let output = folder.path().join("out.pgn").display().to_string();
    fs::write(&input, broken.iter().map(|game| format!("{sound}{game}")).collect::<String>()).unwrap();
    let finished = run_any(&[&SETTINGS[..], &[&input, "--output", &output]].concat());
    let stderr = String::from_utf8_lossy(&finished.stderr);
    assert!(finished.status.success(), "{stderr}");
    for reason in [
        "a.pgn line 5: `Qq5` is not a move at move 2 of White",
        "line 13: `Qq5` is not a move at move 1 of Black in a variation",
        "line 19: `$999` is not a glyph from $0 to $255 at move 2 of Black",
        "line 27: the moves are legal in two languages and not the same",
    ] {
        assert!(stderr.contains(reason), "{reason}: {stderr}");
    }
    let rejected = fs::read_to_string(format!("{output}.rejected")).unwrap();
    for game in broken {
        assert!(rejected.contains(game.trim_end()), "{game}: {rejected}");
    }
    assert_eq!(moves_of(&fs::read_to_string(&output).unwrap()), ["1. e4 *"; 4]);
}

#[test]
fn unusual_tags_and_encodings_lose_no_game() {
    let text = "[Event \"5th \"X\" Open 2026\"] ; a remark\n[Site \"C:\\games\\\"]\n[FEN 4k3/8/8/8/8/8/4P3/4K3 w - - 0 1]\n\n1. e4 {\n[Event \"no\"]\n} *\n\n\
                [White \"A\"][Black \"B\"] 1. d4 d5 * [White \"C\"] 1. c4 *\n";
    let utf16 = |order: fn(u16) -> [u8; 2]| {
        format!("\u{feff}{text}").encode_utf16().flat_map(order).collect::<Vec<u8>>()
    };
    for bytes in [
        text.as_bytes().to_vec(),
        format!("\u{feff}{text}").into_bytes(),
        utf16(u16::to_le_bytes),
        utf16(u16::to_be_bytes),
        text.replace('\n', "\r\n").into_bytes(),
    ] {
        let (games, stderr) = read(&bytes, &[]);
        assert!(!stderr.contains("could not be read"), "{stderr}");
        assert_eq!(games.last().map(String::as_str), Some("1. c4 *"), "{games:?}");
        assert!(games.iter().any(|game| game == "1. d4 d5 *"), "{games:?}");
        assert!(games[0].starts_with("{ a remark} 1. e4"), "{games:?}");
    }
    let latin = b"[White \"M\xfcller\"]\n\n1. e4 {sch\xf6n} e5\xb1 *\n";
    let output = {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.pgn");
        fs::write(&path, latin).unwrap();
        run_any(&[&SETTINGS[..], &[&path.display().to_string()]].concat()).stdout
    };
    let has = |part: &[u8]| output.windows(part.len()).any(|window| window == part);
    assert!(
        has(b"[White \"M\xfcller\"]") && has(b"sch\xf6n}") && has(b"e5 $16"),
        "{}",
        String::from_utf8_lossy(&output)
    );
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.pgn").display().to_string();
    fs::write(&path, b"\xff\xfe\0\0[\0\0\0").unwrap();
    let refused = run_any(&[&SETTINGS[..], &[&path]].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("its encoding is UTF-32"));
}

#[test]
fn a_limit_that_a_game_or_a_line_passes_is_named_and_the_next_one_is_read() {
    let next = "\n\n[Event \"next\"]\n\n1. d4 *\n";
    for (text, limit) in [
        (format!("1. e4 {{{}}} *{next}", "x".repeat(15_000_000)), "a comment is longer than 524288 bytes"),
        (format!("1. e4 {}{next}", "x".repeat(3_000_000)), "a line is longer than 1048576 bytes"),
        (
            format!("1. e4 {} *{next}", "{a comment}\n".repeat(400_000)),
            "the game is longer than 4194304 bytes",
        ),
    ] {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let (games, stderr) = read(&gzip.finish().unwrap(), &["--input-format=pgn"]);
        assert!(stderr.contains(&format!("a.pgn line 1: {limit}; only its first ")), "{stderr}");
        assert_eq!(games, ["1. d4 *"]);
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.epd").display().to_string();
    fs::write(&path, format!("{}\n4k3/8/8/8/8/8/4P3/4K3 w\n", "x".repeat(3_000_000))).unwrap();
    let output = run_any(&[&SETTINGS[..], &[&path]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("line 1: the line is longer than 1048576 bytes").count(), 1, "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.starts_with("4k3/8/8/8/8/8/4P3/4K3 w - - acd"), "{stdout}");
}

#[test]
fn documents_of_the_protocol_are_read_like_files_and_numbers_may_have_exponents() {
    let mut client = Driver::start(&["analyze", "--protocol=json", "--backend=trivial", "--variations=none"]);
    let mut ask = |request: String| -> Value {
        client.send(&request);
        let line = client.next_line_within(Duration::from_secs(30)).expect("an answer");
        serde_json::from_str(&line).unwrap()
    };
    let mut document = |text: &str| {
        ask(json!({ "id": 1, "document": text, "documentFormat": "pgn", "maxVisits": 1 }).to_string())
    };
    let read = document("1. Ng1-f3 Ng8-f6 *");
    assert_eq!(moves_of(read["document"].as_str().unwrap()), ["1. Nf3 Nf6 *"]);
    let refused = document("1. d4 d5 2. Qq5");
    assert_eq!(refused["rejected"], "`Qq5` is not a move at move 2 of White");
    let long = document(&format!("1. e4 {{{}}} *", "x".repeat(600_000)));
    assert_eq!(long["rejected"], "a comment is longer than 524288 bytes");
    let answer = ask(r#"{"id":"a","maxVisits":1e1,"multiPv":2.0,"analyzeTurns":[0e0]}"#.to_owned());
    assert_eq!(answer["moveInfos"].as_array().unwrap().len(), 2, "{answer}");
    let wrong = ask(r#"{"id":"a","maxVisits":1.5}"#.to_owned());
    assert!(wrong["error"].as_str().unwrap().contains("1.5 is not a whole number"), "{wrong}");
    let too_long = ask(format!("{{\"id\":\"a\",\"x\":\"{}\"}}", "x".repeat(3_000_000)));
    assert_eq!(too_long["error"], "the line is longer than 1048576 bytes");
    assert_eq!(ask(r#"{"id":"b","maxVisits":1}"#.to_owned())["id"], "b");
}

#[test]
fn a_position_of_uci_may_have_operations_of_epd() {
    let mut engine = Driver::start(&["--backend=trivial"]);
    engine.send("position fen 4k3/8/8/8/8/8/4P3/4K3 w - - hmvc 3; id \"the moves are few\"; moves e2e4 e8d7");
    engine.send("go nodes 1 searchmoves e1d2");
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.starts_with("bestmove")) {
        lines.push(engine.next_line_within(Duration::from_secs(30)).expect("a line"));
    }
    assert!(!lines.iter().any(|line| line.contains("error")), "{lines:?}");
    assert!(lines.last().unwrap().starts_with("bestmove e1d2"), "{lines:?}");
}

#[test]
fn a_wrong_opening_is_named_with_its_number_and_the_others_are_played() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("openings.pgn").display().to_string();
    let pgn = folder.path().join("played.pgn").display().to_string();
    let games = "1. d4 d5\n\n2. Ng1-f3 *\n\n1. e4 e5 2. Ke3 *\n\n1. d4 Qq5 *\n\n1. Sf3 Sf6 *\n";
    fs::write(&path, games).unwrap();
    let openings = format!("--openings-pgn={path}");
    let play = |more: &[&str]| {
        run_any(&[&["selfplay", "--backend=trivial", "--visits=1", "--games=-2", &openings], more].concat())
    };
    let output = play(&[&format!("--pgn={pgn}")]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("openings.pgn, game 2 in line 5: illegal move `Ke3` at move 2 of White"),
        "{stderr}"
    );
    assert!(
        stderr.contains("openings.pgn, game 3 in line 7: `Qq5` is not a move at move 1 of Black"),
        "{stderr}"
    );
    let played = fs::read_to_string(&pgn).unwrap();
    assert_eq!(played.matches("[Event ").count(), 2, "{played}");
    let moves = played.replace('\n', " ");
    let [first, second] = ["1. d4 {book} 1... d5 {book} 2. Nf3 {book}", "1. Nf3 {book} 1... Nf6 {book}"];
    assert!(moves.contains(first) && moves.contains(second), "{played}");
    fs::write(&path, "1. e5 *\n").unwrap();
    let refused = play(&[]);
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("none can be played") && stderr.contains("game 1 in line 1"), "{stderr}");
}

#[test]
fn a_best_move_of_an_epd_is_written_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.epd").display().to_string();
    let board = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -";
    let stalemate = "7k/5Q2/6K1/8/8/8/8/8 b - - pv Kg8; pm Kg8;";
    fs::write(&path, format!("{board} 0 bm d4; id \"a\";\n{board} 0 1; BM d4;\n{stalemate}\n")).unwrap();
    let lines = run(&[&SETTINGS[..], &[&path]].concat());
    let lines: Vec<&str> = lines.lines().collect();
    for line in &lines[..2] {
        assert_eq!(line.to_ascii_lowercase().matches(" bm ").count(), 1, "{line}");
        assert!(line.contains(" bm d4;"), "{line}");
    }
    assert!(!lines[2].contains("pv") && !lines[2].contains("Kg8"), "{}", lines[2]);
}
