//! A game or a position that is analysed, and which of its positions are searched.

use super::message::Request;
use super::pool::Limits;
use rukh_chess::epd::Epd;
use rukh_chess::{Color, Move, Position, PositionHistory, uci_move};
use rukh_pgn::game::Game;
use rukh_pgn::limits::MOST_PLIES;
use rukh_pgn::read::read_game;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which moves of a game are analysed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// The first and the last move number; `None` means all moves.
    pub moves: Option<(u32, u32)>,
    /// The side whose moves are analysed; `None` means both.
    pub side: Option<Color>,
}

impl Selection {
    /// Whether the move that is made in `position` is analysed.
    fn includes(&self, position: &Position) -> bool {
        let number = position.game_ply() / 2 + 1;
        self.moves.is_none_or(|(first, last)| (first..=last).contains(&number))
            && self.side.is_none_or(|side| side == position.side_to_move())
    }
}

/// Where a document comes from.
pub(super) enum Origin {
    Game(Box<Game>),
    Epd(Epd),
    Request(Box<Request>),
}

/// A document that was read.
pub(super) struct Document {
    pub(super) origin: Origin,
    /// The positions of the main line, and the moves between them; `None` is a null move.
    pub(super) history: Arc<PositionHistory>,
    pub(super) moves: Vec<Option<Move>>,
    /// The indices of the positions to search.
    pub(super) wanted: BTreeSet<usize>,
    /// The indices of the moves to annotate. The positions before and after each are searched.
    pub(super) annotated: Vec<usize>,
    /// The limits of the searches, if the document has its own.
    pub(super) limits: Option<Limits>,
    /// The number of best lines, if the document has its own.
    pub(super) multipv: Option<usize>,
    /// Whether castling is written as king takes rook.
    pub(super) chess960: bool,
}

impl Document {
    /// Reads the text of a game.
    ///
    /// # Errors
    /// What is wrong with the game.
    pub(super) fn of_game(text: &[u8], selection: &Selection) -> Result<Document, String> {
        let mut game = Box::new(read_game(text)?);
        // The searches share the history. The game needs only its start.
        let history = Arc::new(game.history.clone());
        game.history.truncate(1);
        let moves = std::mem::take(&mut game.moves);
        let annotated: Vec<usize> =
            (0..moves.len()).filter(|&index| selection.includes(&history.positions()[index])).collect();
        let mut wanted: BTreeSet<usize> = annotated.iter().flat_map(|&index| [index, index + 1]).collect();
        if moves.is_empty() && selection.includes(history.last()) {
            wanted.insert(0);
        }
        let chess960 = game.chess960;
        let origin = Origin::Game(game);
        Ok(Document { origin, history, moves, wanted, annotated, limits: None, multipv: None, chess960 })
    }

    /// Reads a line of EPD, or a FEN.
    ///
    /// # Errors
    /// An operation is malformed, or the position cannot be played.
    pub(super) fn of_epd(line: &str, selection: &Selection) -> Result<Document, String> {
        let epd = Epd::parse(line).map_err(|error| error.to_string())?;
        let position = Position::from_fen(&epd.fen).map_err(|error| error.to_string())?;
        let wanted = selection.includes(&position).then_some(0).into_iter().collect();
        Ok(Document {
            origin: Origin::Epd(epd),
            history: Arc::new(PositionHistory::new(position)),
            moves: Vec::new(),
            wanted,
            annotated: Vec::new(),
            limits: None,
            multipv: None,
            chess960: false,
        })
    }

    /// Reads a request. The selection does not apply to requests, because they say themselves which positions they mean.
    ///
    /// # Errors
    /// The request is wrong, or its game cannot be played.
    pub(super) fn of_request(request: Request) -> Result<Document, String> {
        let start = match &request.fen {
            Some(fen) => Position::from_fen(fen).map_err(|error| error.to_string())?,
            None => Position::startpos(),
        };
        if request.moves.len() > MOST_PLIES {
            return Err(format!("there are more than {MOST_PLIES} moves"));
        }
        let (mut history, mut moves) = (PositionHistory::new(start), Vec::new());
        for text in &request.moves {
            let m = uci_move::parse(history.last(), text).map_err(|error| error.to_string())?;
            history.push(m);
            moves.push(Some(m));
        }
        let turns = request.analyze_turns.clone().unwrap_or_else(|| vec![moves.len()]);
        if let Some(turn) = turns.iter().find(|&&turn| turn > moves.len()) {
            return Err(format!("analyzeTurns: there are {} moves and no turn {turn}", moves.len()));
        }
        let limits = request.limits();
        Ok(Document {
            history: Arc::new(history),
            moves,
            wanted: turns.into_iter().collect(),
            annotated: Vec::new(),
            limits: (limits != Limits::default()).then_some(limits),
            multipv: request.multi_pv,
            chess960: request.chess960,
            origin: Origin::Request(Box::new(request)),
        })
    }

    /// The move at an index, in UCI notation. `None` after the last one.
    pub(super) fn played(&self, index: usize) -> Option<String> {
        let m = self.moves.get(index)?;
        Some(m.map_or_else(|| uci_move::NULL_MOVE.to_owned(), |m| uci_move::text(m, self.chess960)))
    }

    /// The position at an index of `wanted`.
    pub(super) fn position(&self, index: usize) -> &Position {
        &self.history.positions()[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_positions_around_each_selected_move_are_searched() {
        let wanted = |selection: Selection| {
            let document = Document::of_game(b"1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 *", &selection).unwrap();
            document.wanted.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(wanted(Selection::default()), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(wanted(Selection { moves: Some((2, 2)), side: None }), [2, 3, 4]);
        assert_eq!(wanted(Selection { moves: Some((3, 9)), side: Some(Color::Black) }), [5, 6]);
    }

    #[test]
    fn a_request_names_its_turns() {
        let of = |text: &str| Document::of_request(Request::parse(text).unwrap());
        let last = of(r#"{"moves":["e2e4","e7e5"]}"#).unwrap();
        assert!(last.wanted.into_iter().eq([2]));
        assert!(
            of(r#"{"moves":["e2e4"],"analyzeTurns":[2]}"#).is_err_and(|error| error.contains("no turn 2"))
        );
        assert!(of(r#"{"moves":["e2e5"]}"#).is_err_and(|error| error.contains("illegal move `e2e5`")));
    }
}
