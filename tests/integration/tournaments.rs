//! `selfplay` through the real binary: counts, files, flags, interruption, and batches that the games share.

use crate::driver::{run, run_any};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

const OPENINGS: &str = concat!("--openings-pgn=", env!("CARGO_MANIFEST_DIR"), "/tests/data/openings.epd");

/// A tournament with the `trivial` backend and mirrored openings.
pub(crate) fn trivial<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["selfplay", "--backend=trivial", OPENINGS, "--mirror-openings"], more].concat()
}

/// The games of a PGN file, by their number, without comments and times.
fn games_of(pgn: &str) -> Vec<String> {
    let timeless = |game: &str| {
        let game = game.split_once("[Round ").unwrap().1;
        let lines: Vec<&str> = game.lines().filter(|line| !line.starts_with("[UTCTime ")).collect();
        let text = lines.join(" ");
        let parts = text.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
        parts.collect::<String>()
    };
    let mut games: Vec<String> = pgn.split("[Event ").skip(1).map(timeless).collect();
    games.sort_by_key(|game| game.split('"').nth(1).unwrap().parse::<u32>().unwrap());
    games
}

fn play_as_json(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(&[arguments, &["--json"]].concat())).unwrap()
}

#[test]
fn a_short_tournament_ends_with_the_right_counts() {
    let folder = TempDir::new().unwrap();
    let [pgn, results] =
        ["games.pgn", "results.txt"].map(|name| folder.path().join(name).display().to_string());
    let (pgn_flag, results_flag) = (format!("--pgn={pgn}"), format!("--tournament-results-file={results}"));
    let output = run(&trivial(&["--games=6", "--visits=20", "--player2.visits=5", &pgn_flag, &results_flag]));
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("gameready gameid ")).count(), 6, "{output}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("tournamentstatus P1: +")).count(), 6);
    assert!(lines.contains(&"6 games"), "{output}");
    let last = lines.iter().find_map(|line| line.strip_prefix("tournamentstatus final P1: ")).unwrap();
    let counts = |text: &str| -> Vec<u32> {
        text.split_whitespace().take(3).map(|count| count[1..].parse().unwrap()).collect()
    };
    let all = counts(last);
    let with_white = counts(last.split_once("P1-W: ").unwrap().1);
    let with_black = counts(last.split_once("P1-B: ").unwrap().1);
    assert_eq!(all.iter().sum::<u32>(), 6);
    assert_eq!(with_white.iter().sum::<u32>(), 3);
    assert_eq!((0..3).map(|i| with_white[i] + with_black[i]).collect::<Vec<_>>(), all);
    let pairs = lines.iter().find(|line| line.starts_with("pairs with")).unwrap();
    let pairs: u32 =
        pairs.split_once(": ").unwrap().1.split(' ').map(|pair| pair.parse::<u32>().unwrap()).sum();
    assert_eq!(pairs, 3);
    assert_eq!(fs::read_to_string(&results).unwrap().matches("[Results ").count(), 2);

    // The written games are openings themselves, so their moves are legal, and they are over.
    assert_eq!(games_of(&fs::read_to_string(&pgn).unwrap()).len(), 6);
    let replayed =
        run(&["selfplay", "--backend=trivial", "--visits=2", "--games=-2", &format!("--openings-pgn={pgn}")]);
    assert!(replayed.contains("6 games"), "{replayed}");
}

/// Four games of one opening, between players that choose nothing at random, are two.
#[test]
fn identical_games_are_told_and_players_are_named() {
    let folder = TempDir::new().unwrap();
    let pgn = folder.path().join("games.pgn").display().to_string();
    let opening = folder.path().join("one.epd");
    fs::write(&opening, "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2\n").unwrap();
    let settings = [
        "selfplay",
        "--backend=trivial",
        &format!("--openings-pgn={}", opening.display()),
        "--mirror-openings",
        "--games=4",
        "--visits=20",
        "--player2.cpuct=3",
        "--player2.visits=5",
    ];
    let output = run(&[&settings[..], &[&format!("--pgn={pgn}")]].concat());
    assert!(output.contains("distinct games: 2 of 4; the others repeat them"), "{output}");
    assert_eq!(play_as_json(&settings)["distinct_games"], 2);
    let written = fs::read_to_string(&pgn).unwrap();
    let first = written.split("[Event ").find(|game| game.contains("[Round \"1\"]")).unwrap();
    let tag = |name: &str| first.split_once(&format!("[{name} \"")).unwrap().1.split('"').next().unwrap();
    assert_eq!((tag("White"), tag("Black")), ("trivial CPuct=1.745 20 visits", "trivial CPuct=3 5 visits"));
    let date: Vec<u32> = tag("Date").split('.').map(|part| part.parse().unwrap()).collect();
    assert!(date[0] >= 2026 && (1..=12).contains(&date[1]) && (1..=31).contains(&date[2]), "{date:?}");
    // Each move has a score of the mover, the depth and the time.
    let moves: String = first.split_once("\n\n").unwrap().1.replace('\n', " ");
    let comments: Vec<&str> = moves.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
    assert_eq!(comments.len(), tag("PlyCount").parse::<usize>().unwrap(), "{moves}");
    for comment in comments {
        let (score, time) = comment.split_once(' ').unwrap();
        let (score, depth) = score.split_once('/').unwrap();
        assert!(score.trim_start_matches(['+', '-', 'M']).parse::<f64>().is_ok(), "{comment}");
        assert!(depth.parse::<u32>().unwrap() > 0 && time.ends_with('s'), "{comment}");
    }
}

#[test]
fn shards_play_the_games_of_one_tournament() {
    let folder = TempDir::new().unwrap();
    let whole = folder.path().join("whole.pgn").display().to_string();
    let settings = [
        "--games=11",
        "--visits=8",
        "--player2.visits=3",
        "--openings-mode=random",
        "--resign-playthrough=50",
    ];
    let all = play_as_json(&trivial(&[&settings[..], &[&format!("--pgn={whole}")]].concat()));
    let parts = folder.path().join("parts.pgn").display().to_string();
    let (mut games, mut wins, mut pairs) = (0, 0, 0);
    for number in 1..=4 {
        let shard = [format!("--shard={number}/4"), format!("--pgn={parts}")];
        let part = play_as_json(&trivial(&[&settings[..], &[&shard[0], &shard[1]]].concat()));
        games += part["games"].as_u64().unwrap();
        wins += part["wins"].as_u64().unwrap();
        pairs += part["pairs"].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    }
    assert_eq!((games, wins, pairs), (11, all["wins"].as_u64().unwrap(), 5));
    let read = |path: &str| games_of(&fs::read_to_string(path).unwrap());
    assert_eq!(read(&parts), read(&whole));
}

#[test]
fn equal_players_score_half_and_games_do_not_depend_on_their_neighbours() {
    let folder = TempDir::new().unwrap();
    let mut games = Vec::new();
    for (number, (parallelism, backend)) in
        [("1", "--backend-opts="), ("5", "--backend-opts="), ("5", "--backend-opts=delay=0.05")]
            .iter()
            .enumerate()
    {
        let pgn = folder.path().join(format!("{number}.pgn"));
        let pgn_flag = format!("--pgn={}", pgn.display());
        let parallelism = format!("--parallelism={parallelism}");
        let result = play_as_json(&[
            "selfplay",
            "--backend=random",
            backend,
            OPENINGS,
            "--mirror-openings",
            "--games=8",
            "--visits=12",
            "--nncache=20000",
            &parallelism,
            &pgn_flag,
        ]);
        assert_eq!(result["pairs"], serde_json::json!([0, 0, 4, 0, 0]), "{result}");
        assert_eq!(result["elo"], 0.0);
        assert_eq!(result["wins"], result["losses"]);
        games.push(games_of(&fs::read_to_string(pgn).unwrap()));
    }
    assert_eq!(games[0], games[1]);
    assert_eq!(games[0], games[2]);
}

#[test]
fn games_share_batches() {
    // A simulated device: a batch takes ten milliseconds, whatever its size.
    let result = play_as_json(&[
        "selfplay",
        "--backend=random",
        "--backend-opts=delay=10",
        OPENINGS,
        "--games=24",
        "--parallelism=24",
        "--visits=12",
        "--minibatch-size=8",
    ]);
    let (positions, batches) = (result["evaluations"].as_f64().unwrap(), result["batches"].as_f64().unwrap());
    // One game asks for eight at a time, and for fewer on average.
    assert!(positions / batches > 12.0, "{result}");
}

#[test]
fn the_test_ends_the_tournament_when_it_is_decided() {
    let result =
        play_as_json(&trivial(&["--games=2000", "--visits=1", "--player1.visits=150", "--sprt=0,50"]));
    assert_eq!(
        (&result["finish"], &result["sprt"]["verdict"]),
        (&"test ended".into(), &"elo1".into()),
        "{result}"
    );
    assert!(result["games"].as_u64().unwrap() < 1000, "{result}");
}

#[test]
fn wrong_flags_have_clear_messages() {
    for (flags, code, shown) in [
        (&["--games=2"][..], 2, "say when a search ends: --visits, --playouts or --movetime"),
        (&["--visits=5", "--player1.games=3"], 2, "'--player1.games'"),
        (&["--visits=5", "--player2.cpukt=3"], 2, "--cpuct"),
        (
            &["--visits=5", "--player1.white.cpuct=3"],
            2,
            "a player has the same settings with white and with black",
        ),
        (&["--visits=5", "--sprt=5,0"], 2, "the smaller one first"),
        (&["--visits=5", "--resign-percentage=101"], 2, "not a number from 0 to 100"),
        (
            &["--visits=5", "--openings-pgn=/nonexistent/a.pgn"],
            1,
            "cannot read openings from /nonexistent/a.pgn",
        ),
        (&["--visits=5", "--share-trees", "--player1.cpuct=3"], 2, "their options differ"),
        (
            &["--visits=5", "--player1.weights=/nonexistent/a.pb.gz", "--player1.backend=cpu"],
            1,
            "/nonexistent/a.pb.gz",
        ),
        (&["--visits=5", "--pgn=/nonexistent/a.pgn"], 1, "cannot write /nonexistent/a.pgn"),
        (&["--visits=5", "--syzygy-paths=/nonexistent"], 1, "/nonexistent"),
        (&["--policy-mode-size=2", "--value-mode-size=2"], 2, "exclude each other"),
        (&["--policy-mode-size=2", "--visits=1"], 2, "leave out --visits, --playouts and --movetime"),
        (&["--policy-mode-size=2", "--games=2"], 2, "an opening always gives the same game"),
        (&["--value-mode-size=2", "--games=-2", OPENINGS], 2, "an opening always gives the same game"),
        (&["--value-mode-size=2", OPENINGS, "--mirror-openings", "--games=3"], 2, "an even number up to"),
        (
            &["--value-mode-size=2", OPENINGS, "--mirror-openings", "--games=-2", "--training"],
            2,
            "need searches",
        ),
    ] {
        let output = run_any(&[&["selfplay", "--backend=trivial"], flags].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {stderr}");
        assert!(stderr.contains(shown), "{flags:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{flags:?}");
    }
}

/// A search of one visit plays the move that the policy prefers as well.
#[test]
fn games_by_the_policy_are_those_of_one_visit() {
    let folder = TempDir::new().unwrap();
    let play = |name: &str, more: &[&str]| {
        let pgn = folder.path().join(name);
        let flag = format!("--pgn={}", pgn.display());
        let common = [
            "selfplay",
            "--backend=random",
            OPENINGS,
            "--mirror-openings",
            "--games=12",
            "--nncache=0",
            &flag,
        ];
        let result = play_as_json(&[&common[..], more].concat());
        (result, games_of(&fs::read_to_string(pgn).unwrap()))
    };
    let (result, games) = play("policy.pgn", &["--policy-mode-size=4", "--parallelism=2"]);
    assert_eq!(result["pairs"], serde_json::json!([0, 0, 6, 0, 0]), "equal players: {result}");
    assert_eq!(result["nodes"], result["moves"], "one evaluation for each move");
    let (_, searched) = play("visits.pgn", &["--visits=1", "--no-reuse-tree"]);
    let limits = ["White", "Black"].map(|color| format!("[{color}Limit \"1 visits\"] "));
    let without_limits = |game: String| limits.iter().fold(game, |game, limit| game.replace(limit, ""));
    assert_eq!(games, searched.into_iter().map(without_limits).collect::<Vec<_>>());
    let (result, by_value) = play("value.pgn", &["--value-mode-size=3"]);
    assert!(result["nodes"].as_u64() > result["moves"].as_u64().map(|moves| 5 * moves), "{result}");
    assert_ne!(by_value, games);
    assert_eq!(by_value, play("again.pgn", &["--value-mode-size=1"]).1);
}

#[test]
fn flags_of_lc0_that_are_absent_are_passed_over() {
    let output = run_any(&trivial(&["--games=1", "--visits=2", "--no-share-trees", "--move-thinking=false"]));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("--move-thinking is a flag of lc0 that Rukh does not have"), "{stderr}");
    assert!(!stderr.contains("share-trees"), "{stderr}");
}

#[test]
fn a_player_resigns_and_a_shared_tree_plays() {
    let output = run(&trivial(&[
        "--games=4",
        "--visits=30",
        "--share-trees",
        "--resign-percentage=20",
        "--resign-playthrough=50",
    ]));
    assert!(output.contains("4 games"), "{output}");
}
