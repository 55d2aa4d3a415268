//! Puts evaluations, glyphs and variations into a game.
//!
//! The loss of a move is the expected score of the position before it less that of the position after it, both in the
//! view of the side that moves. The best move of the search loses nothing.

use super::accuracy::{Accuracy, Judged, accuracies};
use super::document::{Document, Origin};
use super::later_mates::reply_is_mated;
use super::pool::Limits;
use super::report::{Analysis, LineScore, Results, san_of};
use crate::concurrent::words;
use rukh_chess::epd::Epd;
use rukh_chess::{Color, Position, PositionHistory};
use rukh_pgn::game::{Game, Line as GameLine, Note, Ply};
use shakmaty::san::{San, SanPlus};
use std::ops::Range;

/// For which moves variations are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Variations {
    /// For none.
    None,
    /// For moves that get a glyph.
    #[default]
    Mistakes,
    /// For all moves.
    All,
}

/// How a game is annotated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Style {
    /// The losses of expected score (0 … 1) from which a move gets the glyph `?!`, `?` or `??`, in ascending order.
    pub thresholds: [f64; 3],
    /// For which moves variations are added.
    pub variations: Variations,
    /// The most moves of a variation.
    pub line_plies: usize,
}

impl Default for Style {
    fn default() -> Style {
        Style { thresholds: [0.05, 0.1, 0.15], variations: Variations::Mistakes, line_plies: 10 }
    }
}

/// What has searched the positions of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Analyst<'a> {
    /// The path of the network, or the name of a backend without one.
    pub(super) network: &'a str,
    /// When each search ended.
    pub(super) limits: Limits,
}

impl Analyst<'_> {
    /// The network without its folders.
    pub(super) fn network(&self) -> String {
        words::network(self.network)
    }

    /// The limits in words, such as `400 nodes`.
    pub(super) fn limit(&self) -> String {
        words::limits(&[(self.limits.nodes, "nodes"), (self.limits.movetime_ms, "ms")])
    }
}

/// The numbers of the glyphs `?!`, `?` and `??`.
const GLYPHS: [u8; 3] = [6, 2, 4];

/// The numbers of the glyphs that judge a move.
const JUDGEMENTS: std::ops::RangeInclusive<u8> = 1..=6;

impl Style {
    /// The glyph for a loss of expected score: 0 for `?!`, 1 for `?`, 2 for `??`.
    pub fn severity(&self, loss: f64) -> Option<usize> {
        self.thresholds.iter().rposition(|&threshold| loss >= threshold)
    }
}

/// The loss of expected score by the move at `index`, at least 0. `None` if a position around it was not searched, or for
/// a null move, which nobody has played.
pub(super) fn loss(document: &Document, results: &Results, index: usize) -> Option<f64> {
    let before = results.get(&index)?;
    let expected = before.expected_score()?;
    document.moves.get(index).copied().flatten()?;
    let played = document.played(index)?;
    if before.lines.first()?.pv.first() == Some(&played) {
        return Some(0.0);
    }
    let reply = match reply_is_mated(document, results, index + 1) {
        true => 0.0,
        false => results.get(&(index + 1))?.expected_score()?,
    };
    Some((expected + reply - 1.0).max(0.0))
}

/// How well White and Black have played the moves that are annotated; `None` without one.
pub(super) fn players(document: &Document, results: &Results) -> [Option<Accuracy>; 2] {
    let scored = results.iter().filter_map(|(&index, analysis)| {
        Some((index, of_white(analysis.expected_score()?, document.position(index).side_to_move())))
    });
    let (indices, white): (Vec<usize>, Vec<f64>) = scored.unzip();
    let judged = document.annotated.iter().filter_map(|&index| {
        let after = indices.binary_search(&(index + 1)).ok()?;
        let side = document.position(index).side_to_move();
        Some(Judged { side, after, loss: loss(document, results, index)? })
    });
    accuracies(&white, &judged.collect::<Vec<_>>())
}

/// The expected score of White, for that of `side`.
fn of_white(expected: f64, side: Color) -> f64 {
    if side == Color::White { expected } else { 1.0 - expected }
}

/// The score as pawns in White's view, or as moves to mate: `0.35`, `#-4`. `None` after mate, where it says nothing.
pub(super) fn eval_text(analysis: &Analysis, side: Color) -> Option<String> {
    analysis.score().and_then(|score| score_text(score, side))
}

fn score_text(score: LineScore, side: Color) -> Option<String> {
    match if side == Color::White { score } else { score.reversed() } {
        LineScore::Mate(0) => None,
        LineScore::Mate(moves) => Some(format!("#{moves}")),
        LineScore::Cp(score) => Some(format!("{:.2}", f64::from(score) / 100.0)),
    }
}

/// A position of a game, for a picture.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphPoint {
    /// The number of whole and half moves from the beginning of the game, by the move numbers.
    pub moves: f64,
    /// The last move before it with its number, as in `12... Nf6`. Empty at the start of the game.
    pub played: String,
    /// White's expected score, 0 … 1.
    pub white: f64,
    /// How bad the last move is: 0 for `?!`, 1 for `?`, 2 for `??`.
    pub severity: Option<usize>,
}

/// The positions of a document that were searched.
pub(super) fn graph(document: &Document, results: &Results, style: &Style) -> Vec<GraphPoint> {
    let points = results.iter().filter_map(|(&ply, analysis)| {
        let white = of_white(analysis.expected_score()?, document.position(ply).side_to_move());
        let last = ply.checked_sub(1);
        let played = last.map_or_else(String::new, |last| {
            let position = document.position(last);
            let dots = if position.side_to_move() == Color::White { "." } else { "..." };
            let san = document.moves[last].map_or_else(|| "--".to_owned(), |m| position.san(m).to_string());
            format!("{}{dots} {san}", position.game_ply() / 2 + 1)
        });
        let lost = last
            .filter(|last| document.annotated.contains(last))
            .and_then(|last| loss(document, results, last));
        let severity = lost.and_then(|lost| style.severity(lost));
        let moves = f64::from(document.position(ply).game_ply()) / 2.0;
        Some(GraphPoint { moves, played, white, severity })
    });
    points.collect()
}

/// The players of a game, and event, date and result as far as they are known. A position has the name that its line
/// gives it.
pub(super) fn title(document: &Document) -> (String, Vec<String>) {
    let game = match &document.origin {
        Origin::Game(game) => game,
        Origin::Epd(epd) => return (document.position(0).to_fen(), epd_id(epd).into_iter().collect()),
        Origin::Request(request) => return (request.id.to_string(), Vec::new()),
    };
    let tag = |name: &str| game.tag(name).filter(|value| !value.is_empty() && !value.starts_with('?'));
    let player = |name: &str| tag(name).unwrap_or_else(|| name.to_owned());
    let facts = ["Event", "Date", "Result"].into_iter().filter_map(tag);
    (format!("{} – {}", player("White"), player("Black")), facts.collect())
}

/// The name of a line of EPD.
pub(super) fn epd_id(epd: &Epd) -> Option<String> {
    let id = epd.operations.iter().find(|(opcode, _)| opcode.eq_ignore_ascii_case("id"));
    id.map(|(_, id)| id.trim_matches('"').to_owned())
}

/// The document as a game with annotations by the analyst. A position becomes a game from this position, whose moves are
/// the best line.
pub(super) fn annotated(document: &Document, results: &Results, style: &Style, analyst: Analyst<'_>) -> Game {
    let mut game = match &document.origin {
        Origin::Game(game) => Game::clone(game),
        Origin::Epd(epd) => {
            let mut game = bare_game(document);
            if let Some(id) = epd_id(epd) {
                game.add_tag("Event", &id);
            }
            game
        }
        Origin::Request(request) => {
            let mut game = bare_game(document);
            game.add_tag("Event", request.id.as_str().unwrap_or(&request.id.to_string()));
            game
        }
    };
    for &index in &document.annotated {
        annotate_move(document, results, style, index, &mut game.line);
    }
    if !matches!(document.origin, Origin::Game(_)) {
        for (&index, analysis) in results {
            annotate_position(document, analysis, style, index, &mut game.line);
        }
    }
    for (color, player) in ["White", "Black"].iter().zip(players(document, results)) {
        if let Some(Accuracy { accuracy, loss }) = player {
            game.set_tag(&format!("{color}Accuracy"), &format!("{accuracy:.1}"));
            game.set_tag(&format!("{color}AverageLoss"), &format!("{loss:.1}"));
        }
    }
    if !results.is_empty() {
        let (network, limit) = (analyst.network(), analyst.limit());
        game.add_tag("Annotator", &format!("Rukh {}, {network}, {limit}", rukh_base::version::version()));
    }
    game
}

/// A game with the moves of a document that is none.
fn bare_game(document: &Document) -> Game {
    let start = document.position(0);
    let positions = document.history.positions();
    let plies = positions.iter().zip(&document.moves).map(|(position, &m)| Ply {
        san: match m {
            Some(m) => position.san(m),
            None => SanPlus { san: San::Null, suffix: None },
        },
        notes: Vec::new(),
    });
    let mut game = Game {
        tags: Vec::new(),
        line: GameLine { before: Vec::new(), plies: plies.collect() },
        history: PositionHistory::new(start.clone()),
        moves: Vec::new(),
        result: Some("*"),
        chess960: document.chess960,
    };
    game.add_start_tags();
    game
}

/// Annotates the move at `index`, between two positions that were searched.
fn annotate_move(document: &Document, results: &Results, style: &Style, index: usize, line: &mut GameLine) {
    let Some(ply) = line.plies.get_mut(index) else { return };
    let severity = loss(document, results, index).and_then(|loss| style.severity(loss));
    // What the game says about a move stays, and a second judgement would contradict it.
    let is_judged =
        ply.notes.iter().any(|note| matches!(note, Note::Glyph(number) if JUDGEMENTS.contains(number)));
    if let Some(severity) = severity.filter(|_| !is_judged) {
        ply.notes.insert(0, Note::Glyph(GLYPHS[severity]));
    }
    if let Some(after) = results.get(&(index + 1)) {
        set_eval(&mut ply.notes, after, document.position(index + 1).side_to_move());
    }
    let wants_lines = match style.variations {
        Variations::None => false,
        Variations::Mistakes => severity.is_some(),
        Variations::All => true,
    };
    let is_played = document.moves.get(index).is_some_and(Option::is_some);
    if let Some(before) = results.get(&index).filter(|_| wants_lines && is_played) {
        let played = document.played(index);
        let others = before.lines.iter().filter(|line| line.pv.first() != played.as_ref());
        for other in others {
            ply.notes.extend(variation(&other.pv, other.score, document.position(index), style));
        }
    }
}

/// Writes the evaluation of the position at `index` after the move that leads to it. After the last move, the best line
/// continues the game, and the other lines are variations.
fn annotate_position(
    document: &Document,
    analysis: &Analysis,
    style: &Style,
    index: usize,
    line: &mut GameLine,
) {
    let position = document.position(index);
    let side = position.side_to_move();
    let notes = match index.checked_sub(1) {
        Some(last) => match line.plies.get_mut(last) {
            Some(ply) => &mut ply.notes,
            None => return,
        },
        None => &mut line.before,
    };
    set_eval(notes, analysis, side);
    let mut lines = analysis.lines.iter();
    if index == document.moves.len()
        && let Some(best) = lines.next()
    {
        let start = line.plies.len();
        line.plies.extend(plies(&best.pv, position, style.line_plies.max(1)));
        if let Some(first) = line.plies.get_mut(start) {
            for other in lines {
                first.notes.extend(variation(&other.pv, other.score, position, style));
            }
        }
    }
}

/// Puts the command `%eval` in the place of the first `%eval` in the comments of a move, and deletes the others, with
/// comments that become empty. If there is none, it goes into the first comment before any variation, or into a new one.
fn set_eval(notes: &mut Vec<Note>, analysis: &Analysis, side: Color) {
    let Some(text) = eval_text(analysis, side) else { return };
    let command = format!("[%eval {text}]").into_bytes();
    let mut is_set = false;
    notes.retain_mut(|note| {
        let Note::Comment(comment) = note else { return true };
        let (mut from, mut is_cut) = (0, false);
        while let Some(range) = eval_in(comment, from) {
            let new: &[u8] = if is_set { b"" } else { &command };
            from = range.start + new.len();
            comment.splice(range, new.iter().copied());
            is_cut |= is_set;
            if is_set && comment.get(from).is_some_and(u8::is_ascii_whitespace) {
                comment.remove(from);
            }
            is_set = true;
        }
        if is_cut {
            comment.truncate(comment.trim_ascii_end().len());
        }
        !(is_cut && comment.is_empty())
    });
    if is_set {
        return;
    }
    // The first comment after a move, before any variation, has the commands of other programs, such as `%clk`.
    let first_variation = notes.iter().position(|note| matches!(note, Note::Variation(_)));
    let end = first_variation.unwrap_or(notes.len());
    match notes[..end].iter_mut().find_map(|note| match note {
        Note::Comment(comment) => Some(comment),
        _ => None,
    }) {
        Some(comment) => {
            let separator: &[u8] =
                if comment.first().is_some_and(u8::is_ascii_whitespace) { b"" } else { b" " };
            comment.splice(0..0, [command.as_slice(), separator].concat());
        }
        None => notes.insert(end, Note::Comment(command)),
    }
}

/// The place of the first command `%eval` in a comment from byte `from` on.
fn eval_in(comment: &[u8], from: usize) -> Option<Range<usize>> {
    const COMMAND: &[u8] = b"[%eval ";
    let start = from + comment[from..].windows(COMMAND.len()).position(|window| window == COMMAND)?;
    let end = comment[start..].iter().position(|&byte| byte == b']').map(|end| start + end + 1);
    Some(start..end.unwrap_or(comment.len()))
}

/// A line of moves as a variation, with its score after the first move.
fn variation(pv: &[String], score: LineScore, position: &Position, style: &Style) -> Option<Note> {
    let mut plies = plies(pv, position, style.line_plies);
    let text = score_text(score, position.side_to_move())?;
    plies.first_mut()?.notes.push(Note::Comment(format!("[%eval {text}]").into_bytes()));
    Some(Note::Variation(GameLine { before: Vec::new(), plies }))
}

fn plies(pv: &[String], position: &Position, most: usize) -> Vec<Ply> {
    let moves = san_of(pv, position, most);
    let parsed = moves.iter().filter_map(|san| SanPlus::from_ascii(san.as_bytes()).ok());
    parsed.map(|san| Ply { san, notes: Vec::new() }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::document::Selection;
    use super::super::report::Line;
    use super::*;

    const ANALYST: Analyst<'_> =
        Analyst { network: "/home/me/maia.pb.gz", limits: Limits { nodes: Some(9), movetime_ms: Some(5) } };
    use rukh_pgn::write::text;

    fn result(cp: i32, win: u16, pvs: &[&str]) -> Analysis {
        let line = |pv: &&str| Line {
            score: LineScore::Cp(cp),
            wdl: [win, 0, 1000 - win],
            visits: 1,
            moves_left: None,
            pv: pv.split(' ').map(str::to_owned).collect(),
            prior: None,
        };
        Analysis { nodes: 9, depth: 2, lines: pvs.iter().map(line).collect(), ..Analysis::default() }
    }

    /// White loses 0.4 with 1. g4, and Black nothing with the best answer.
    fn results() -> Results {
        Results::from([
            (0, result(30, 600, &["e2e4 e7e5 g1f3", "d2d4"])),
            (1, result(150, 800, &["e7e5"])),
            (2, result(-150, 200, &["d2d4"])),
        ])
    }

    fn annotate(game: &str, style: &Style) -> String {
        let document = Document::of_game(game.as_bytes(), &Selection::default()).unwrap();
        let annotated = annotated(&document, &results(), style, ANALYST);
        String::from_utf8(text(&annotated)).unwrap().replace('\n', " ")
    }

    #[test]
    fn a_mistake_gets_a_glyph_an_evaluation_and_the_better_lines() {
        let style = Style { line_plies: 2, ..Style::default() };
        let written = annotate("1. g4 e5 *", &style);
        let moves = written.split("\"]  ").last().unwrap();
        assert_eq!(
            moves,
            "1. g4 $4 {[%eval -1.50]} (1. e4 {[%eval 0.30]} 1... e5) (1. d4 {[%eval 0.30]}) \
             1... e5 {[%eval -1.50]} *  "
        );
        let none = annotate("1. g4 e5 *", &Style { variations: Variations::None, ..style });
        assert!(!none.contains('('), "{none}");
        let all = annotate("1. g4 e5 *", &Style { variations: Variations::All, ..style });
        assert_eq!(all.matches('(').count(), 2, "{all}");
    }

    #[test]
    fn a_null_move_is_not_judged() {
        let written = annotate("1. -- e5 *", &Style { variations: Variations::All, ..Style::default() });
        let moves = written.split("\"]  ").last().unwrap();
        assert_eq!(moves, "1. -- {[%eval -1.50]} 1... e5 {[%eval -1.50]} *  ");
    }

    #[test]
    fn what_the_game_says_is_kept_and_an_old_evaluation_is_replaced() {
        let game = "1. g4 $5 { [%clk 1:00] fun } (1. a4 {old}) e5 {good [%eval 9.9] [%clk 2:00]} *";
        let written = annotate(game, &Style { variations: Variations::None, ..Style::default() });
        let moves = written.split("\"]  ").last().unwrap();
        assert_eq!(
            moves,
            "1. g4 $5 {[%eval -1.50] [%clk 1:00] fun } (1. a4 {old}) 1... e5 {good [%eval -1.50] [%clk 2:00]} *  "
        );
    }

    #[test]
    fn a_position_becomes_a_game_of_its_best_line() {
        let document =
            Document::of_epd("4k3/8/8/8/8/8/4P3/4K3 w - - id \"pawn\";", &Selection::default()).unwrap();
        let results = Results::from([(0, result(200, 900, &["e2e4 e8d7", "e1d2"]))]);
        let game =
            String::from_utf8(text(&annotated(&document, &results, &Style::default(), ANALYST))).unwrap();
        assert!(game.contains("[Event \"pawn\"]"), "{game}");
        assert!(game.contains(", maia.pb.gz, 9 nodes or 5 ms\"]"), "{game}");
        let moves = "{[%eval 2.00]} 1. e4 (1. Kd2 {[%eval 2.00]}) 1... Kd7 *";
        assert!(game.replace('\n', " ").contains(moves), "{game}");
    }

    #[test]
    fn the_best_move_loses_nothing() {
        let document = Document::of_game(b"1. e4 e5 *", &Selection::default()).unwrap();
        assert_eq!(loss(&document, &results(), 0), Some(0.0));
        assert_eq!(loss(&document, &results(), 7), None);
        let style = Style::default();
        assert_eq!(
            [0.01, 0.05, 0.1, 0.3].map(|loss| style.severity(loss)),
            [None, Some(0), Some(1), Some(2)]
        );
        let mated = Analysis { end: Some(super::super::report::End::Checkmate), ..Analysis::default() };
        assert_eq!(eval_text(&mated, Color::White), None);
    }
}
