//! Reads a line from the GUI into a [`Command`].
//!
//! [`parse`] is a pure function of the line. It knows the protocol's grammar, but not the rules of chess or the
//! options. Where the protocol leaves a choice, it follows lc0. Any white space separates words. If an argument is
//! repeated, the last value counts.
//!
//! A GUI may wait for the answer to a line that is not quite right, so words too many after a command, and wrong
//! parameters of `go`, are errors beside the command. Any other wrong word makes the whole line an error.

use super::error::UciError;
use super::parse_go;
use rukh_base::quote::quoted;
use rukh_chess::perft::MOST_PLIES;
use rukh_search::limits::{GoParams, PositionCommand, StartPosition};
use std::str::SplitWhitespace;

/// What a line says. A blank line says nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parsed {
    /// The command; `None` if the line has none.
    pub(crate) command: Option<Command>,
    /// What is wrong with the line.
    pub(crate) errors: Vec<UciError>,
}

/// A command from the GUI.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    /// `uci`
    Uci,
    /// `debug on` or `debug off`: whether to tell details about the backend.
    Debug(bool),
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
    /// A `position` that cannot be read.
    UnreadablePosition,
    /// `go …`
    Go(GoParams),
    /// `stop`
    Stop,
    /// `ponderhit`
    PonderHit,
    /// `wait`: read no further command until the search has ended, or for a while until `go perft` has.
    Wait,
    /// `xyzzy`, an easter egg of lc0
    Xyzzy,
    /// A command that only people type.
    Console(ConsoleCommand),
    /// `quit`
    Quit,
}

/// A command that no chess program sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConsoleCommand {
    /// `d`: show the position.
    Diagram,
    /// `eval`: evaluate the position.
    Evaluate,
    /// `help`: list what people can type.
    Help,
    /// `bench`: measure the speed of the search.
    Bench,
    /// `go perft N`: count the sequences of N moves.
    Perft(u32),
}

impl ConsoleCommand {
    /// How the command begins.
    pub(super) fn name(self) -> &'static str {
        match self {
            ConsoleCommand::Diagram => "d",
            ConsoleCommand::Evaluate => "eval",
            ConsoleCommand::Help => "help",
            ConsoleCommand::Bench => "bench",
            ConsoleCommand::Perft(_) => "go perft",
        }
    }
}

/// Reads a line.
pub(crate) fn parse(line: &str) -> Parsed {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else {
        return Parsed::default();
    };
    match first {
        "uci" => alone("uci", words, Command::Uci),
        "isready" => alone("isready", words, Command::IsReady),
        "ucinewgame" => alone("ucinewgame", words, Command::UciNewGame),
        "stop" => alone("stop", words, Command::Stop),
        "ponderhit" => alone("ponderhit", words, Command::PonderHit),
        "wait" => alone("wait", words, Command::Wait),
        "xyzzy" => alone("xyzzy", words, Command::Xyzzy),
        "d" => alone("d", words, Command::Console(ConsoleCommand::Diagram)),
        "eval" => alone("eval", words, Command::Console(ConsoleCommand::Evaluate)),
        "help" => alone("help", words, Command::Console(ConsoleCommand::Help)),
        "bench" => alone("bench", words, Command::Console(ConsoleCommand::Bench)),
        QUIT => alone(QUIT, words, Command::Quit),
        "debug" => debug(words),
        "setoption" => either(set_option(line.trim_start()), None),
        "position" => either(position(words).map(Command::Position), Some(Command::UnreadablePosition)),
        "go" if words.clone().next() == Some("perft") => perft(words),
        "go" => {
            let mut errors = Vec::new();
            let command = Some(Command::Go(parse_go::go(words, &mut errors)));
            Parsed { command, errors }
        }
        _ => either(Err(UciError::UnknownCommand(quoted(line.trim()))), None),
    }
}

const QUIT: &str = "quit";

/// Whether [`parse`] reads the line as [`Command::Quit`].
pub(crate) fn is_quit(line: &str) -> bool {
    line.split_whitespace().next() == Some(QUIT)
}

/// The command, or the error and the command that takes its place.
fn either(read: Result<Command, UciError>, otherwise: Option<Command>) -> Parsed {
    match read {
        Ok(command) => Parsed { command: Some(command), errors: Vec::new() },
        Err(error) => Parsed { command: otherwise, errors: vec![error] },
    }
}

/// Returns `command`, which takes no words.
fn alone(name: &'static str, mut words: SplitWhitespace<'_>, command: Command) -> Parsed {
    let unexpected = words.next().map(|word| UciError::UnexpectedWord { word: quoted(word), after: name });
    Parsed { command: Some(command), errors: unexpected.into_iter().collect() }
}

/// `go perft N` expects no `bestmove`, so a wrong depth gets only an error, and nothing runs.
fn perft(mut words: SplitWhitespace<'_>) -> Parsed {
    const NAME: &str = "go perft";
    words.next();
    let Some(word) = words.next() else {
        return either(Err(UciError::Missing { after: NAME, expected: "a whole number" }), None);
    };
    match word.parse().ok().filter(|&depth: &u32| depth <= MOST_PLIES) {
        Some(depth) => alone(NAME, words, Command::Console(ConsoleCommand::Perft(depth))),
        None => {
            let expected = format!("a whole number from 0 to {MOST_PLIES}");
            let (term, word) = (NAME, quoted(word));
            either(Err(UciError::NotANumber { term, word, expected, taken_as: None }), None)
        }
    }
}

fn debug(mut words: SplitWhitespace<'_>) -> Parsed {
    match words.next() {
        Some(word @ ("on" | "off")) => alone("debug", words, Command::Debug(word == "on")),
        Some(word) => either(Err(UciError::UnexpectedWord { word: quoted(word), after: "debug" }), None),
        None => either(Err(UciError::Missing { after: "debug", expected: "`on` or `off`" }), None),
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
            // The operations of EPD have strings, in which a word has no meaning.
            let mut is_quoted = false;
            for word in words.by_ref() {
                is_quoted ^= word.matches('"').count() % 2 == 1;
                if word == "moves" && !is_quoted {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Command {
        let Parsed { command, errors } = parse(line);
        assert_eq!(errors, [], "{line}");
        command.unwrap()
    }

    /// The only error of a line, and the command that is executed nevertheless.
    fn error(line: &str) -> (String, Option<Command>) {
        let Parsed { command, errors } = parse(line);
        assert_eq!(errors.len(), 1, "{line}");
        (errors[0].to_string(), command)
    }

    #[test]
    fn blank_lines_are_no_commands() {
        for line in ["", "   ", "\t\r"] {
            assert_eq!(parse(line), Parsed::default());
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
    fn errors_show_the_word_and_what_was_expected() {
        for (line, expected) in [
            ("Uci", "unknown command `Uci`"),
            ("fen", "unknown command `fen`"),
            ("setoption", "setoption needs `name` and the name of the option"),
            ("setoption Threads 2", "unexpected `Threads` after setoption"),
            ("setoption name value 2", "setoption name needs the name of the option"),
            ("debug maybe", "unexpected `maybe` after debug"),
            ("\u{1b}[2J", "unknown command `\\u{1b}[2J`"),
        ] {
            assert_eq!(error(line), (expected.to_owned(), None));
        }
        for (line, expected) in [
            ("position", "position needs `startpos`, or `fen` and a FEN"),
            ("position fen moves e2e4", "position fen needs a FEN"),
            ("position startpos e2e4", "unexpected `e2e4` after startpos"),
        ] {
            assert_eq!(error(line), (expected.to_owned(), Some(Command::UnreadablePosition)));
        }
    }

    #[test]
    fn words_too_many_do_not_keep_a_command_from_its_answer() {
        for (line, expected) in [
            ("isready now", Command::IsReady),
            ("stop now", Command::Stop),
            ("quit please", Command::Quit),
            ("go now", Command::Go(GoParams { nodes: Some(0), ..GoParams::default() })),
        ] {
            let (error, command) = error(line);
            assert!(error.starts_with("unexpected `"), "{error}");
            assert_eq!(command, Some(expected));
            assert_eq!(is_quit(line), line.starts_with("quit"));
        }
    }
}
