//! Reads a line from the GUI into a [`Command`].
//!
//! [`parse`] is a pure function of the line. It knows the protocol's grammar, but not the rules of chess or the
//! options. Where the protocol leaves a choice, it follows lc0. Any white space separates words. If an argument is
//! repeated, the last value counts. One wrong word makes the whole line an error.

use crate::quote::quoted;
use crate::search::limits::{GoParams, PositionCommand, StartPosition};
use std::str::{FromStr, SplitWhitespace};

/// A command from the GUI.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    /// `uci`
    Uci,
    /// `debug on` or `debug off`. It has no effect.
    Debug,
    /// `isready`
    IsReady,
    /// `setoption name … value …`
    SetOption {
        /// The option's name, which may contain spaces.
        name: String,
        /// The value without the white space around it; empty for buttons.
        value: String,
    },
    /// `ucinewgame`
    UciNewGame,
    /// `position …`
    Position(PositionCommand),
    /// `go …`
    Go(GoParams),
    /// `stop`
    Stop,
    /// `ponderhit`
    PonderHit,
    /// `wait`: read no further command until the search has ended.
    Wait,
    /// `xyzzy`, an easter egg of lc0
    Xyzzy,
    /// `quit`
    Quit,
}

/// The reason why a line is not a command. The texts are already quoted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum UciError {
    /// The first word is not a command.
    #[error("unknown command {0}")]
    UnknownCommand(String),
    /// A word is in the wrong place.
    #[error("unexpected {word} after {after}")]
    UnexpectedWord {
        /// The unexpected word.
        word: String,
        /// The command or term before the word.
        after: &'static str,
    },
    /// The line ends too early.
    #[error("{after} needs {expected}")]
    Missing {
        /// The command or term at the end of the line.
        after: &'static str,
        /// A description of the missing words.
        expected: &'static str,
    },
    /// A word is not a number, or is out of range.
    #[error("{term}: {word} is not {expected}")]
    NotANumber {
        /// The term before the number.
        term: &'static str,
        /// The word in place of the number.
        word: String,
        /// The allowed numbers.
        expected: String,
    },
}

/// Reads a line. Returns `None` if it is blank.
///
/// # Errors
/// The line is not a command.
pub(crate) fn parse(line: &str) -> Result<Option<Command>, UciError> {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else {
        return Ok(None);
    };
    let command = match first {
        "uci" => alone("uci", words, Command::Uci)?,
        "isready" => alone("isready", words, Command::IsReady)?,
        "ucinewgame" => alone("ucinewgame", words, Command::UciNewGame)?,
        "stop" => alone("stop", words, Command::Stop)?,
        "ponderhit" => alone("ponderhit", words, Command::PonderHit)?,
        "wait" => alone("wait", words, Command::Wait)?,
        "xyzzy" => alone("xyzzy", words, Command::Xyzzy)?,
        "quit" => alone("quit", words, Command::Quit)?,
        "debug" => debug(words)?,
        "setoption" => set_option(line.trim_start())?,
        "position" => Command::Position(position(words)?),
        "go" => Command::Go(go(words)?),
        _ => return Err(UciError::UnknownCommand(quoted(line.trim()))),
    };
    Ok(Some(command))
}

/// Returns `command`, which takes no words.
fn alone(name: &'static str, mut words: SplitWhitespace<'_>, command: Command) -> Result<Command, UciError> {
    match words.next() {
        None => Ok(command),
        Some(word) => Err(UciError::UnexpectedWord { word: quoted(word), after: name }),
    }
}

fn debug(mut words: SplitWhitespace<'_>) -> Result<Command, UciError> {
    match words.next() {
        Some("on" | "off") => alone("debug", words, Command::Debug),
        Some(word) => Err(UciError::UnexpectedWord { word: quoted(word), after: "debug" }),
        None => Err(UciError::Missing { after: "debug", expected: "`on` or `off`" }),
    }
}

/// Names and values may contain spaces. The white space inside a value is kept, because the value may be a path.
fn set_option(line: &str) -> Result<Command, UciError> {
    let rest = line.strip_prefix("setoption").unwrap_or(line).trim();
    let Some(rest) = strip_word(rest, "name") else {
        return Err(match rest.split_whitespace().next() {
            Some(word) => UciError::UnexpectedWord { word: quoted(word), after: "setoption" },
            None => UciError::Missing { after: "setoption", expected: "`name` and the name of the option" },
        });
    };
    let (name, value) = match find_word(rest, "value") {
        Some(start) => (&rest[..start], &rest[start + "value".len()..]),
        None => (rest, ""),
    };
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return Err(UciError::Missing { after: "setoption name", expected: "the name of the option" });
    }
    Ok(Command::SetOption { name: name.to_owned(), value: value.to_owned() })
}

/// The rest of `text` after `word`, if `text` begins with this word.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(rest)
}

/// The position of the first `word` in `text` that is not part of a longer word.
fn find_word(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(start, _)| start).find(|&start| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        before.is_none_or(char::is_whitespace) && after.is_none_or(char::is_whitespace)
    })
}

fn position(mut words: SplitWhitespace<'_>) -> Result<PositionCommand, UciError> {
    const EXPECTED: &str = "`startpos`, or `fen` and a FEN";
    let mut moves_follow = false;
    let start = match words.next() {
        Some("startpos") => match words.next() {
            None => StartPosition::Standard,
            Some("moves") => {
                moves_follow = true;
                StartPosition::Standard
            }
            Some(word) => {
                return Err(UciError::UnexpectedWord { word: quoted(word), after: "startpos" });
            }
        },
        Some("fen") => {
            let mut fen = String::new();
            for word in words.by_ref() {
                if word == "moves" {
                    moves_follow = true;
                    break;
                }
                if !fen.is_empty() {
                    fen.push(' ');
                }
                fen.push_str(word);
            }
            if fen.is_empty() {
                return Err(UciError::Missing { after: "position fen", expected: "a FEN" });
            }
            StartPosition::Fen(fen)
        }
        Some(word) => {
            return Err(UciError::UnexpectedWord { word: quoted(word), after: "position" });
        }
        None => {
            return Err(UciError::Missing { after: "position", expected: EXPECTED });
        }
    };
    let moves = if moves_follow { words.map(str::to_owned).collect() } else { Vec::new() };
    Ok(PositionCommand { start, moves })
}

fn go(words: SplitWhitespace<'_>) -> Result<GoParams, UciError> {
    let mut words = words.peekable();
    let mut go = GoParams::default();
    while let Some(word) = words.next() {
        match word {
            "infinite" => go.infinite = true,
            "ponder" => go.ponder = true,
            "wtime" => go.wtime = Some(milliseconds("wtime", words.next())?),
            "btime" => go.btime = Some(milliseconds("btime", words.next())?),
            "winc" => go.winc = Some(milliseconds("winc", words.next())?),
            "binc" => go.binc = Some(milliseconds("binc", words.next())?),
            "movetime" => go.movetime = Some(milliseconds("movetime", words.next())?),
            "movestogo" => go.movestogo = Some(count("movestogo", words.next())?),
            "depth" => go.depth = Some(count("depth", words.next())?),
            "mate" => go.mate = Some(count("mate", words.next())?),
            "nodes" => go.nodes = Some(count("nodes", words.next())?),
            "searchmoves" => {
                go.searchmoves.clear();
                while let Some(word) = words.next_if(|word| !is_go_term(word)) {
                    go.searchmoves.push(word.to_owned());
                }
                if go.searchmoves.is_empty() {
                    return Err(UciError::Missing { after: "searchmoves", expected: "a move" });
                }
            }
            _ => {
                return Err(UciError::UnexpectedWord { word: quoted(word), after: "go" });
            }
        }
    }
    Ok(go)
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
fn milliseconds(term: &'static str, word: Option<&str>) -> Result<u64, UciError> {
    let word = word.ok_or(UciError::Missing { after: term, expected: "a time in milliseconds" })?;
    let whole = match word.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => whole,
        _ => word,
    };
    match whole.parse::<i64>() {
        Ok(milliseconds) => Ok(milliseconds.max(0).unsigned_abs()),
        Err(_) => Err(UciError::NotANumber {
            term,
            word: quoted(word),
            expected: "a time in milliseconds".to_owned(),
        }),
    }
}

/// Reads a whole number from 0 to the highest value of its type.
fn count<T: FromStr + Limits>(term: &'static str, word: Option<&str>) -> Result<T, UciError> {
    let word = word.ok_or(UciError::Missing { after: term, expected: "a whole number" })?;
    word.parse().map_err(|_| UciError::NotANumber {
        term,
        word: quoted(word),
        expected: format!("a whole number from 0 to {}", T::HIGHEST),
    })
}

/// The highest value of a number type, for messages.
trait Limits {
    const HIGHEST: u64;
}

impl Limits for u32 {
    const HIGHEST: u64 = u32::MAX as u64;
}

impl Limits for u64 {
    const HIGHEST: u64 = u64::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Command {
        parse(line).unwrap().unwrap()
    }

    fn error(line: &str) -> String {
        parse(line).unwrap_err().to_string()
    }

    #[test]
    fn blank_lines_are_no_commands() {
        for line in ["", "   ", "\t\r"] {
            assert_eq!(parse(line), Ok(None));
        }
    }

    #[test]
    fn any_white_space_separates_words() {
        assert_eq!(command("  \tisready \r"), Command::IsReady);
        assert_eq!(
            command("go  nodes\t10"),
            Command::Go(GoParams { nodes: Some(10), ..GoParams::default() })
        );
    }

    #[test]
    fn reads_options() {
        let option =
            |name: &str, value: &str| Command::SetOption { name: name.to_owned(), value: value.to_owned() };
        assert_eq!(command("setoption name Threads value 2"), option("Threads", "2"));
        assert_eq!(command("setoption name ClearTree"), option("ClearTree", ""));
        assert_eq!(command("setoption name Clear Hash"), option("Clear Hash", ""));
        assert_eq!(command("setoption name SyzygyPath value"), option("SyzygyPath", ""));
        assert_eq!(
            command("setoption  name  WeightsFile  value  /a  path/with value in it.pb.gz "),
            option("WeightsFile", "/a  path/with value in it.pb.gz")
        );
        // `value` counts only as a whole word.
        assert_eq!(command("setoption name Myvalue value 1"), option("Myvalue", "1"));
    }

    #[test]
    fn reads_positions() {
        let position = |start, moves: &[&str]| {
            let moves = moves.iter().map(|&m| m.to_owned()).collect();
            Command::Position(PositionCommand { start, moves })
        };
        assert_eq!(command("position startpos"), position(StartPosition::Standard, &[]));
        assert_eq!(command("position startpos moves"), position(StartPosition::Standard, &[]));
        assert_eq!(
            command("position startpos moves e2e4 e7e5"),
            position(StartPosition::Standard, &["e2e4", "e7e5"])
        );
        let fen = "8/8/8/8/8/4k3/4p3/4K3 w - - 0 1";
        assert_eq!(
            command(&format!("position fen  {fen} moves e1d1")),
            position(StartPosition::Fen(fen.to_owned()), &["e1d1"])
        );
    }

    #[test]
    fn reads_every_term_of_go() {
        assert_eq!(command("go"), Command::Go(GoParams::default()));
        let all = "go infinite ponder wtime 1 btime 2 winc 3 binc 4 movestogo 5 depth 6 mate 7 nodes 8 \
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
        assert_eq!(command(all), Command::Go(expected));
        let Command::Go(go) = command("go searchmoves e2e4 nodes 5") else { panic!("not a go") };
        assert_eq!((go.searchmoves.len(), go.nodes), (1, Some(5)));
    }

    #[test]
    fn negative_clocks_count_as_zero() {
        let Command::Go(go) = command("go wtime -57 btime 1000.75 winc 0") else { panic!("not a go") };
        assert_eq!((go.wtime, go.btime, go.winc), (Some(0), Some(1000), Some(0)));
    }

    #[test]
    fn errors_show_the_word_and_what_was_expected() {
        assert_eq!(error("Uci"), "unknown command `Uci`");
        assert_eq!(error("fen"), "unknown command `fen`");
        assert_eq!(error("stop now"), "unexpected `now` after stop");
        assert_eq!(error("setoption"), "setoption needs `name` and the name of the option");
        assert_eq!(error("setoption Threads 2"), "unexpected `Threads` after setoption");
        assert_eq!(error("setoption name value 2"), "setoption name needs the name of the option");
        assert_eq!(error("position"), "position needs `startpos`, or `fen` and a FEN");
        assert_eq!(error("position fen moves e2e4"), "position fen needs a FEN");
        assert_eq!(error("position startpos e2e4"), "unexpected `e2e4` after startpos");
        assert_eq!(error("go nodes"), "nodes needs a whole number");
        assert_eq!(error("go depth x"), "depth: `x` is not a whole number from 0 to 4294967295");
        assert_eq!(error("go nodes -1"), "nodes: `-1` is not a whole number from 0 to 18446744073709551615");
        assert_eq!(error("go wtime 1e5"), "wtime: `1e5` is not a time in milliseconds");
        assert_eq!(
            error("go wtime 99999999999999999999"),
            "wtime: `99999999999999999999` is not a time in milliseconds"
        );
        assert_eq!(error("go fast"), "unexpected `fast` after go");
        assert_eq!(error("go searchmoves nodes 3"), "searchmoves needs a move");
        assert_eq!(error("\u{1b}[2J"), "unknown command `\\u{1b}[2J`");
    }
}
