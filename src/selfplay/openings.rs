//! Reads the openings from which the games begin: PGN games, or positions as EPD or FEN lines.

use crate::chess::epd::Epd;
use crate::chess::{Move, Position, PositionHistory};
use crate::decompress::decompressed;
use crate::os_error::in_words;
use crate::quote::quoted;
use pgn_reader::{RawTag, Reader, SanPlus, Visitor};
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::ops::ControlFlow;
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
            fen: Some(position.to_fen()),
            moves: Vec::new(),
            history: PositionHistory::new(position),
        })
    }
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
    /// A line or a game is wrong.
    #[error("openings {}, {place}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The line or the game, as in `line 3`.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing in the file.
    #[error("openings {}: there is neither a game nor a position in this file", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a file of openings, which may be compressed by gzip or Zstandard. A file whose name has `.epd` or `.fen` holds
/// one position on each line; every other file is a PGN.
///
/// # Errors
/// The file cannot be read, it is empty, or a game or a position in it is wrong.
pub fn read(path: &Path) -> Result<Vec<Opening>, OpeningsError> {
    let file_error = |reason| OpeningsError::File { path: path.to_owned(), reason };
    let file = File::open(path).map_err(file_error)?;
    let name = path.to_string_lossy().to_ascii_lowercase();
    let stem = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let is_epd = stem.ends_with(".epd") || stem.ends_with(".fen");
    let reader = decompressed(file).map_err(file_error)?;
    let read = if is_epd { read_positions(reader) } else { read_games(reader) };
    let openings = read.map_err(|error| match error {
        Wrong::Io(reason) => file_error(reason),
        Wrong::Content { place, reason } => OpeningsError::Content { path: path.to_owned(), place, reason },
    })?;
    match openings.is_empty() {
        true => Err(OpeningsError::Empty { path: path.to_owned() }),
        false => Ok(openings),
    }
}

enum Wrong {
    Io(io::Error),
    Content { place: String, reason: String },
}

/// Reads EPD or FEN lines. Empty lines and lines that begin with `#` are skipped.
fn read_positions(reader: impl BufRead) -> Result<Vec<Opening>, Wrong> {
    let mut openings = Vec::new();
    for (number, line) in reader.lines().enumerate() {
        let line = line.map_err(Wrong::Io)?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let wrong = |reason| Wrong::Content { place: format!("line {}", number + 1), reason };
        openings.push(Opening::from_fen(&Epd::parse(text).fen).map_err(wrong)?);
    }
    Ok(openings)
}

/// Reads the main lines of PGN games.
fn read_games(reader: impl Read) -> Result<Vec<Opening>, Wrong> {
    let mut reader = Reader::new(reader);
    let mut openings: Vec<Opening> = Vec::new();
    loop {
        let wrong = |reason| Wrong::Content { place: format!("game {}", openings.len() + 1), reason };
        match reader.read_game(&mut GameVisitor).map_err(Wrong::Io)? {
            None => return Ok(openings),
            Some(Err(reason)) => return Err(wrong(reason)),
            Some(Ok(opening)) => openings.push(opening),
        }
    }
}

struct GameVisitor;

impl Visitor for GameVisitor {
    type Tags = Opening;
    type Movetext = Opening;
    type Output = Result<Opening, String>;

    fn begin_tags(&mut self) -> ControlFlow<Self::Output, Opening> {
        ControlFlow::Continue(Opening::standard())
    }

    fn tag(&mut self, tags: &mut Opening, name: &[u8], value: RawTag<'_>) -> ControlFlow<Self::Output> {
        if name.eq_ignore_ascii_case(b"FEN") {
            match Opening::from_fen(&value.decode_utf8_lossy()) {
                Ok(opening) => *tags = opening,
                Err(reason) => return ControlFlow::Break(Err(reason)),
            }
        }
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, tags: Opening) -> ControlFlow<Self::Output, Opening> {
        ControlFlow::Continue(tags)
    }

    fn san(&mut self, opening: &mut Opening, san_plus: SanPlus) -> ControlFlow<Self::Output> {
        let position = opening.history.last();
        let Ok(m) = san_plus.san.to_move(position.board()) else {
            let reason = format!("illegal move {} in {}", quoted(&san_plus.to_string()), position.to_fen());
            return ControlFlow::Break(Err(reason));
        };
        opening.history.push(m);
        opening.moves.push(m);
        ControlFlow::Continue(())
    }

    fn end_game(&mut self, opening: Opening) -> Self::Output {
        Ok(opening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn games(text: &str) -> Result<Vec<Opening>, String> {
        read_games(text.as_bytes()).map_err(|wrong| match wrong {
            Wrong::Io(error) => error.to_string(),
            Wrong::Content { place, reason } => format!("{place}: {reason}"),
        })
    }

    #[test]
    fn games_are_read_without_comments_and_variations() {
        let read = games(
            "[Event \"a\"]\n\n1. e4 {good} e5 (1... c5 2. Nf3) 2. Nf3 $1 *\n\n\
             [FEN \"4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1\"]\n\n1. O-O Kd7 1-0\n",
        )
        .unwrap();
        assert_eq!(read.iter().map(|opening| opening.moves.len()).collect::<Vec<_>>(), [3, 2]);
        assert!(read[0].fen.is_none() && read[1].fen.is_some());
        assert_eq!(read[1].history.last().to_fen(), "8/3k4/8/8/8/8/8/R4RK1 w - - 2 2");
    }

    #[test]
    fn an_illegal_move_is_named_with_its_game() {
        let error = games("1. e4 e5 *\n\n1. e4 e5 2. Ke3 *\n").unwrap_err();
        assert!(error.starts_with("game 2: illegal move `Ke3`"), "{error}");
    }
}
