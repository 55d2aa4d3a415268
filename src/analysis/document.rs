//! A game or a position that is analysed, and which of its positions are searched.

use super::message::Request;
use super::pool::Limits;
use rukh_base::quote::quoted;
use rukh_chess::epd::Epd;
use rukh_chess::{Color, Move, PackedMove, Position, PositionHistory, uci_move};
use rukh_pgn::game::Game;
use rukh_pgn::limits::MOST_PLIES;
use rukh_pgn::read::read_game;
use std::collections::{BTreeMap, BTreeSet, HashSet};
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
    /// Whether the answers have the policy, if the document says it.
    pub(super) includes_policy: Option<bool>,
    /// The root moves that are searched, by the index of the position; all in the other positions.
    pub(super) searchmoves: BTreeMap<usize, Vec<PackedMove>>,
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
        Ok(Document { wanted, annotated, chess960, ..Document::whole(origin, history, moves) })
    }

    /// Reads a line of EPD, or a FEN.
    ///
    /// # Errors
    /// An operation is malformed, or the position cannot be played.
    pub(super) fn of_epd(line: &str, selection: &Selection) -> Result<Document, String> {
        let epd = Epd::parse(line).map_err(|error| error.to_string())?;
        let position = Position::from_fen(&epd.fen).map_err(|error| error.to_string())?;
        let wanted = selection.includes(&position).then_some(0).into_iter().collect();
        let history = Arc::new(PositionHistory::new(position));
        Ok(Document { wanted, ..Document::whole(Origin::Epd(epd), history, Vec::new()) })
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
        let (limits, wanted) = (request.limits(), turns.into_iter().collect());
        let searchmoves = match request.restricts_moves() {
            true => searchmoves(&request, &history, &wanted)?,
            false => BTreeMap::new(),
        };
        let Request { multi_pv, include_policy, chess960, .. } = request;
        Ok(Document {
            wanted,
            limits: (limits != Limits::default()).then_some(limits),
            multipv: multi_pv,
            includes_policy: include_policy,
            searchmoves,
            chess960,
            ..Document::whole(Origin::Request(Box::new(request)), Arc::new(history), moves)
        })
    }

    /// A document of which nothing is searched yet.
    fn whole(origin: Origin, history: Arc<PositionHistory>, moves: Vec<Option<Move>>) -> Document {
        Document {
            origin,
            history,
            moves,
            wanted: BTreeSet::new(),
            annotated: Vec::new(),
            limits: None,
            multipv: None,
            includes_policy: None,
            searchmoves: BTreeMap::new(),
            chess960: false,
        }
    }

    /// The move at an index, in UCI notation. `None` after the last one.
    pub(super) fn played(&self, index: usize) -> Option<String> {
        let m = self.moves.get(index)?;
        Some(m.map_or_else(|| uci_move::NULL_MOVE.to_owned(), |m| uci_move::text(m, self.chess960)))
    }

    /// Whether the position at `index` is the last one of a game that nobody has won.
    pub(super) fn ends_at(&self, index: usize) -> bool {
        let Origin::Game(game) = &self.origin else { return false };
        index > 0 && index == self.moves.len() && !matches!(game.result, Some("1-0" | "0-1"))
    }

    /// The position at an index of `wanted`.
    pub(super) fn position(&self, index: usize) -> &Position {
        &self.history.positions()[index]
    }
}

/// The root moves that `allowMoves` and `avoidMoves` leave in each position that is searched.
///
/// # Errors
/// They leave none, or one of them is legal nowhere.
fn searchmoves(
    request: &Request,
    history: &PositionHistory,
    wanted: &BTreeSet<usize>,
) -> Result<BTreeMap<usize, Vec<PackedMove>>, String> {
    let words = |moves: &[String]| moves.iter().map(|text| text.to_ascii_lowercase()).collect();
    let allowed: Option<HashSet<String>> = request.allow_moves.as_deref().map(words);
    let avoided: HashSet<String> = words(&request.avoid_moves);
    let mut unknown: HashSet<&String> = allowed.iter().flatten().chain(&avoided).collect();
    let mut left = BTreeMap::new();
    for &turn in wanted {
        let legal = history.positions()[turn].legal_moves();
        let mut searched = Vec::new();
        for &m in &legal {
            // Castling is written in two ways.
            let texts = [false, true].map(|chess960| uci_move::text(m, chess960));
            texts.iter().for_each(|text| {
                unknown.remove(text);
            });
            let is_in = |words: &HashSet<String>| texts.iter().any(|text| words.contains(text));
            if allowed.as_ref().is_none_or(is_in) && !is_in(&avoided) {
                searched.push(PackedMove::new(m));
            }
        }
        if searched.is_empty() && !legal.is_empty() {
            return Err(format!("allowMoves and avoidMoves leave no move after {turn} moves"));
        }
        left.insert(turn, searched);
    }
    match unknown.into_iter().min() {
        Some(text) => Err(format!("allowMoves and avoidMoves: {} is legal nowhere", quoted(text))),
        None => Ok(left),
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
