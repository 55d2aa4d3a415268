//! Reads the openings from which the games begin: PGN games, or positions as EPD or FEN lines.

use rukh_base::decompress::decompressed;
use rukh_base::encoding::{decoded, without_mark};
use rukh_base::limited_lines::{LONGEST_LINE, next_line};
use rukh_base::os_error::in_words;
use rukh_chess::epd::Epd;
use rukh_chess::{Move, Position, PositionHistory};
use rukh_pgn::read::read_game;
use rukh_pgn::split::{GameText, Splitter};
use std::fs::File;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

/// The beginning of a game: a start position and the moves that are played without a search.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The start position; `None` means the standard one.
    pub fen: Option<String>,
    /// The moves of the opening.
    pub moves: Vec<Move>,
    /// The positions from the start position to the one after the last move.
    pub history: PositionHistory,
}

impl Opening {
    /// The standard start position, without moves.
    pub fn standard() -> Opening {
        Opening { fen: None, moves: Vec::new(), history: PositionHistory::new(Position::startpos()) }
    }

    /// The first `plies` moves of this opening.
    pub(super) fn first(&self, plies: usize) -> Opening {
        let mut opening = self.clone();
        opening.moves.truncate(plies);
        // The first position is the one before the first move.
        opening.history.truncate(opening.moves.len() + 1);
        opening
    }

    /// The game that began with this opening and has come through `history` by `moves`, with one more move.
    pub(super) fn continued(&self, history: &PositionHistory, moves: &[Move], m: Move) -> Opening {
        let mut history = history.clone();
        history.push(m);
        Opening { fen: self.fen.clone(), moves: [moves, &[m]].concat(), history }
    }

    fn from_fen(fen: &str) -> Result<Opening, String> {
        let position = Position::from_fen(fen).map_err(|error| error.to_string())?;
        Ok(Opening {
            fen: position.unusual_fen(),
            moves: Vec::new(),
            history: PositionHistory::new(position),
        })
    }
}

/// The content of a file of openings.
#[derive(Clone, Debug, Default)]
pub struct Openings {
    /// The openings, in the order of the file.
    pub openings: Vec<Opening>,
    /// Which games or lines are left out because they are wrong, and why.
    pub refused: Vec<String>,
}

/// The reason why openings cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OpeningsError {
    /// The system cannot read the file.
    #[error("cannot read openings from {}: {}", path.display(), in_words(reason))]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// There is nothing in the file.
    #[error("openings {}: there is neither a game nor a position in this file", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// All games and positions in the file are wrong.
    #[error("openings {}: none can be played; {first}", path.display())]
    AllRefused {
        /// The file.
        path: PathBuf,
        /// What is wrong with the first one.
        first: String,
    },
}

/// Reads a file of openings, which may be compressed by gzip or Zstandard. A file whose name has `.epd` or `.fen` holds
/// one position on each line; every other file is a PGN. A game or a position that is wrong is left out.
///
/// # Errors
/// The file cannot be read, or there is no opening in it.
pub fn read(path: &Path) -> Result<Openings, OpeningsError> {
    let file_error = |reason| OpeningsError::File { path: path.to_owned(), reason };
    let file = File::open(path).map_err(file_error)?;
    let name = path.to_string_lossy().to_ascii_lowercase();
    let stem = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let is_epd = stem.ends_with(".epd") || stem.ends_with(".fen");
    let reader = decompressed(file).and_then(without_mark).map_err(file_error)?;
    let read = if is_epd { read_positions(reader) } else { read_games(reader) };
    let mut read = read.map_err(file_error)?;
    for refused in &mut read.refused {
        *refused = format!("openings {}, {refused}", path.display());
    }
    match (read.openings.is_empty(), read.refused.first()) {
        (false, _) => Ok(read),
        (true, None) => Err(OpeningsError::Empty { path: path.to_owned() }),
        (true, Some(first)) => Err(OpeningsError::AllRefused { path: path.to_owned(), first: first.clone() }),
    }
}

/// Reads EPD or FEN lines. Empty lines and lines that begin with `#` are skipped.
fn read_positions(mut reader: impl BufRead) -> io::Result<Openings> {
    let (mut read, mut number) = (Openings::default(), 0);
    while let Some(line) = next_line(&mut reader, LONGEST_LINE)? {
        number += 1;
        let text = decoded(&line.bytes);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let opening = match line.fault() {
            Some(fault) => Err(fault),
            None => Epd::parse(text)
                .map_err(|error| error.to_string())
                .and_then(|epd| Opening::from_fen(&epd.fen)),
        };
        read.add(format!("line {number}"), opening);
    }
    Ok(read)
}

/// Reads the main lines of PGN games.
fn read_games(reader: impl BufRead) -> io::Result<Openings> {
    let (mut read, mut number) = (Openings::default(), 0);
    let mut games = Splitter::new(reader);
    while let Some(text) = games.next_game()? {
        number += 1;
        read.add(format!("game {number} in line {}", text.line), read_opening(text));
    }
    Ok(read)
}

fn read_opening(text: GameText) -> Result<Opening, String> {
    if let Some(fault) = text.fault {
        return Err(fault);
    }
    let game = read_game(&text.bytes)?;
    let fen = game.history.positions()[0].unusual_fen();
    let moves: Option<Vec<Move>> = game.moves.into_iter().collect();
    let moves = moves.ok_or("a null move cannot be played")?;
    Ok(Opening { fen, moves, history: game.history })
}

impl Openings {
    fn add(&mut self, place: String, opening: Result<Opening, String>) {
        match opening {
            Ok(opening) => self.openings.push(opening),
            Err(reason) => self.refused.push(format!("{place}: {reason}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn games(text: &str) -> Openings {
        read_games(text.as_bytes()).expect("a text in memory can be read")
    }

    #[test]
    fn games_are_read_without_comments_and_variations() {
        let read = games(
            "[Event \"a\"]\n\n1. e4 {good} e5 (1... c5 2. Nf3) 2. Nf3 $1 *\n\n\
             [FEN \"4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1\"]\n\n1. O-O Kd7 1-0\n",
        )
        .openings;
        assert_eq!(read.iter().map(|opening| opening.moves.len()).collect::<Vec<_>>(), [3, 2]);
        assert!(read[0].fen.is_none() && read[1].fen.is_some());
        assert_eq!(read[1].history.last().to_fen(), "8/3k4/8/8/8/8/8/R4RK1 w - - 2 2");
    }

    #[test]
    fn a_wrong_game_is_named_with_its_number_and_left_out() {
        let read = games(
            "1. d4 d5 2. Ng1-f3 Ng8-f6 3. e3 *\n\n1. e4 e5\n\n2. Ke3 *\n\n1. Sf3 Sf6 *\n\n1. d4 Qq5 *\n\n\
             1. e4 -- *\n\n1. c4 *\n",
        );
        assert_eq!(read.openings.iter().map(|opening| opening.moves.len()).collect::<Vec<_>>(), [5, 2, 1]);
        for (refused, reason) in read.refused.iter().zip([
            "game 2 in line 3: illegal move `Ke3` at move 2 of White",
            "game 4 in line 9: `Qq5` is not a move at move 1 of Black",
            "game 5 in line 11: a null move cannot be played",
        ]) {
            assert!(refused.starts_with(reason), "{refused}");
        }
        assert_eq!(read.refused.len(), 3);
    }

    #[test]
    fn a_wrong_line_is_named_and_left_out() {
        let text = "# a comment\n4k3/8/8/8/8/8/8/4K3 w\n8/8/8/8 w - -\n4k3/8/8/8/8/8/8/4K3 b - - 3 9 id \"M\u{fc}ller\";\n";
        let read = read_positions(text.as_bytes()).expect("a text in memory can be read");
        let fens: Vec<_> = read.openings.iter().filter_map(|opening| opening.fen.as_deref()).collect();
        assert_eq!(fens, ["4k3/8/8/8/8/8/8/4K3 w - - 0 1", "4k3/8/8/8/8/8/8/4K3 b - - 3 9"]);
        assert_eq!(read.refused.len(), 1);
        assert!(read.refused[0].starts_with("line 3: bad FEN board `8/8/8/8`"), "{:?}", read.refused);
    }
}
