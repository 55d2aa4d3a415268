//! Reads the words after `go`.
//!
//! A GUI waits for the move of every `go`, whatever it sends with it. A number that is out of range counts as the nearest
//! one that is allowed, and what cannot be understood is left out. If that leaves a search without an end, although the
//! GUI seems to have asked for one, the search is as short as possible.

use super::error::UciError;
use rukh_base::quote::quoted;
use rukh_search::limits::GoParams;
use std::iter::Peekable;
use std::str::SplitWhitespace;

type Words<'a> = Peekable<SplitWhitespace<'a>>;

/// The latest time that a clock can show, in milliseconds.
const LONGEST_TIME_MS: u64 = i64::MAX.unsigned_abs();

/// The parameters of `go`. Appends to `errors` what was not as it should be.
pub(super) fn go(words: SplitWhitespace<'_>, errors: &mut Vec<UciError>) -> GoParams {
    let mut words = words.peekable();
    let mut go = GoParams::default();
    let mut limit_was_lost = false;
    while let Some(word) = words.next() {
        let before = errors.len();
        match word {
            "infinite" => go.infinite = true,
            "ponder" => go.ponder = true,
            "wtime" => read(&mut go.wtime, milliseconds("wtime", &mut words, errors)),
            "btime" => read(&mut go.btime, milliseconds("btime", &mut words, errors)),
            "winc" => read(&mut go.winc, milliseconds("winc", &mut words, errors)),
            "binc" => read(&mut go.binc, milliseconds("binc", &mut words, errors)),
            "movetime" => read(&mut go.movetime, milliseconds("movetime", &mut words, errors)),
            "movestogo" => read(&mut go.movestogo, count("movestogo", &mut words, errors)),
            "depth" => read(&mut go.depth, count("depth", &mut words, errors)),
            "mate" => read(&mut go.mate, count("mate", &mut words, errors)),
            "nodes" => read(&mut go.nodes, whole_number("nodes", &mut words, u64::MAX, errors)),
            "searchmoves" => search_moves(&mut go.searchmoves, &mut words, errors),
            _ => errors.push(unexpected(word, &mut words)),
        }
        limit_was_lost |= errors[before..].iter().any(loses_a_limit);
    }
    let has_end = go.nodes.is_some()
        || go.depth.is_some()
        || go.movetime.is_some()
        || (go.wtime.is_some() && go.btime.is_some());
    if limit_was_lost && !has_end && !go.infinite {
        go.nodes = Some(0);
    }
    go
}

/// Whether the GUI may have asked for an end of the search by the words that caused the error.
fn loses_a_limit(error: &UciError) -> bool {
    match error {
        UciError::Missing { after, .. } => *after != "searchmoves",
        UciError::NotANumber { taken_as, .. } => taken_as.is_none(),
        _ => true,
    }
}

/// The last value that can be read counts.
fn read<T>(parameter: &mut Option<T>, value: Option<T>) {
    *parameter = value.or(parameter.take());
}

fn search_moves(moves: &mut Vec<String>, words: &mut Words<'_>, errors: &mut Vec<UciError>) {
    let mut named = Vec::new();
    while let Some(word) = words.next_if(|word| !is_go_term(word)) {
        named.push(word.to_owned());
    }
    match named.is_empty() {
        true => errors.push(UciError::Missing { after: "searchmoves", expected: "a move" }),
        false => *moves = named,
    }
}

/// The error for `first` and the words up to the next term.
fn unexpected(first: &str, words: &mut Words<'_>) -> UciError {
    let mut unknown = first.to_owned();
    while let Some(word) = words.next_if(|word| !is_go_term(word)) {
        unknown.push(' ');
        unknown.push_str(word);
    }
    UciError::UnexpectedWord { word: quoted(&unknown), after: "go" }
}

fn is_go_term(word: &str) -> bool {
    matches!(
        word,
        "infinite"
            | "ponder"
            | "wtime"
            | "btime"
            | "winc"
            | "binc"
            | "movetime"
            | "movestogo"
            | "depth"
            | "mate"
            | "nodes"
            | "searchmoves"
    )
}

/// Reads a time. GUIs send negative clocks, if a game continues after a time forfeit, and fractions of milliseconds.
fn milliseconds(term: &'static str, words: &mut Words<'_>, errors: &mut Vec<UciError>) -> Option<u64> {
    const EXPECTED: &str = "a time in milliseconds";
    let Some(word) = words.next_if(|word| !is_go_term(word)) else {
        errors.push(UciError::Missing { after: term, expected: EXPECTED });
        return None;
    };
    let whole = match word.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => whole,
        _ => word,
    };
    if let Ok(milliseconds) = whole.parse::<i64>() {
        return Some(milliseconds.max(0).unsigned_abs());
    }
    let taken_as = nearest(word, LONGEST_TIME_MS);
    errors.push(UciError::NotANumber { term, word: quoted(word), expected: EXPECTED.to_owned(), taken_as });
    taken_as
}

fn count(term: &'static str, words: &mut Words<'_>, errors: &mut Vec<UciError>) -> Option<u32> {
    // The number is at most `u32::MAX`, so nothing is lost.
    whole_number(term, words, u32::MAX.into(), errors).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// Reads a whole number from 0 to `highest`.
fn whole_number(
    term: &'static str,
    words: &mut Words<'_>,
    highest: u64,
    errors: &mut Vec<UciError>,
) -> Option<u64> {
    let Some(word) = words.next_if(|word| !is_go_term(word)) else {
        errors.push(UciError::Missing { after: term, expected: "a whole number" });
        return None;
    };
    if let Some(number) = word.parse().ok().filter(|&number: &u64| number <= highest) {
        return Some(number);
    }
    let taken_as = nearest(word, highest);
    let expected = format!("a whole number from 0 to {highest}");
    errors.push(UciError::NotANumber { term, word: quoted(word), expected, taken_as });
    taken_as
}

/// The whole number from 0 to `highest` that is nearest to the one that `word` means, such as `-1`, `1e6`, `2.5` or a
/// number of thirty digits.
fn nearest(word: &str, highest: u64) -> Option<u64> {
    let looks_like_a_number = word.contains(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E'));
    let number: f64 = word.parse().ok().filter(|_| looks_like_a_number)?;
    // The conversion rounds down and keeps to the range of the type.
    Some((number as u64).min(highest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_go(line: &str) -> (GoParams, Vec<String>) {
        let mut errors = Vec::new();
        let go = go(line.split_whitespace(), &mut errors);
        (go, errors.iter().map(ToString::to_string).collect())
    }

    fn none() -> GoParams {
        GoParams::default()
    }

    #[test]
    fn reads_every_term_of_go() {
        let all = "infinite ponder wtime 1 btime 2 winc 3 binc 4 movestogo 5 depth 6 mate 7 nodes 8 \
                   movetime 9 searchmoves e2e4 d2d4";
        let expected = GoParams {
            infinite: true,
            ponder: true,
            wtime: Some(1),
            btime: Some(2),
            winc: Some(3),
            binc: Some(4),
            movestogo: Some(5),
            depth: Some(6),
            mate: Some(7),
            nodes: Some(8),
            movetime: Some(9),
            searchmoves: vec!["e2e4".to_owned(), "d2d4".to_owned()],
        };
        assert_eq!(read_go(all), (expected, vec![]));
        assert_eq!(read_go(""), (none(), vec![]));
        let (go, errors) = read_go("searchmoves e2e4 nodes 5 nodes 6");
        assert_eq!((go.searchmoves.len(), go.nodes, errors.len()), (1, Some(6), 0));
    }

    #[test]
    fn negative_clocks_and_fractions_are_read_without_an_error() {
        let (go, errors) = read_go("wtime -57 btime 1000.75 winc 0 binc -1 movetime -5");
        assert_eq!((go.wtime, go.btime, go.winc, go.binc), (Some(0), Some(1000), Some(0), Some(0)));
        assert_eq!((go.movetime, errors.len()), (Some(0), 0));
    }

    #[test]
    fn a_number_that_is_not_allowed_counts_as_the_nearest_one() {
        for (line, expected, error) in [
            (
                "movestogo -1 nodes 9",
                GoParams { movestogo: Some(0), nodes: Some(9), ..none() },
                "movestogo: `-1` is not a whole number from 0 to 4294967295, so it is taken as 0",
            ),
            (
                "nodes 1e6",
                GoParams { nodes: Some(1_000_000), ..none() },
                "nodes: `1e6` is not a whole number from 0 to 18446744073709551615, so it is taken as 1000000",
            ),
            (
                "depth 99999999999",
                GoParams { depth: Some(u32::MAX), ..none() },
                "depth: `99999999999` is not a whole number from 0 to 4294967295, so it is taken as 4294967295",
            ),
            (
                "wtime 1e5 btime 1",
                GoParams { wtime: Some(100_000), btime: Some(1), ..none() },
                "wtime: `1e5` is not a time in milliseconds, so it is taken as 100000",
            ),
        ] {
            assert_eq!(read_go(line), (expected, vec![error.to_owned()]), "{line}");
        }
        let taken = |word: &str| read_go(&format!("nodes {word}")).0.nodes;
        assert_eq!(taken("18446744073709551616"), Some(u64::MAX));
        assert_eq!(taken(&"9".repeat(400)), Some(u64::MAX));
        assert_eq!(["-1", "-1e9", "2.9", "1e-9"].map(taken), [Some(0), Some(0), Some(2), Some(0)]);
        let time = |word: &str| read_go(&format!("movetime {word}")).0.movetime;
        assert_eq!(time("99999999999999999999"), Some(LONGEST_TIME_MS));
        assert_eq!(time("-99999999999999999999"), Some(0));
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        let clocks = GoParams { wtime: Some(60_000), btime: Some(60_000), ..none() };
        for (words, error) in [
            ("foo 7", "unexpected `foo 7` after go"),
            ("nodes", "nodes needs a whole number"),
            (
                "nodes abc",
                "nodes: `abc` is not a whole number from 0 to 18446744073709551615, so it is left out",
            ),
            ("movetime 12x", "movetime: `12x` is not a time in milliseconds, so it is left out"),
            ("depth inf", "depth: `inf` is not a whole number from 0 to 4294967295, so it is left out"),
            ("searchmoves", "searchmoves needs a move"),
        ] {
            let before = format!("{words} wtime 60000 btime 60000");
            assert_eq!(read_go(&before), (clocks.clone(), vec![error.to_owned()]), "{before}");
            let after = format!("wtime 60000 btime 60000 {words}");
            assert_eq!(read_go(&after), (clocks.clone(), vec![error.to_owned()]), "{after}");
        }
        assert_eq!(read_go("depth nodes 5").0, GoParams { nodes: Some(5), ..none() });
        // The earlier value is still the last that can be read.
        assert_eq!(read_go("nodes 5 nodes x").0.nodes, Some(5));
    }

    #[test]
    fn a_lost_limit_never_makes_a_search_endless() {
        for line in ["nodes x", "depth", "foo", "mate x", "wtime x btime 100", "ponder movetime x"] {
            assert_eq!(read_go(line).0.nodes, Some(0), "{line}");
        }
        for line in ["infinite foo", "searchmoves", "depth 4 nodes x", "wtime 1 btime 1 movetime"] {
            assert_eq!(read_go(line).0.nodes, None, "{line}");
        }
    }
}
