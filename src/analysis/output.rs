//! Writes analysed documents.

use super::annotate::{Analyst, Style, annotated, epd_id, loss};
use super::document::{Document, Origin};
use super::input::InputFormat;
use super::message::{Place, answer, rounded_prior};
use super::report::{Analysis, LineScore, Results, expected_score, san_of};
use rukh_pgn::write::text as pgn_text;
use serde_json::{Value, json};
use std::fmt::Write;

/// The format of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputFormat {
    /// Annotated games.
    Pgn,
    /// A line of EPD for each position.
    Epd,
    /// An answer in JSON for each position.
    Jsonl,
    /// A row for each position, in the columns of [`CSV_HEADER`].
    Csv,
}

impl OutputFormat {
    /// The format of the results, if nothing says another one.
    pub fn of_input(format: InputFormat) -> OutputFormat {
        match format {
            InputFormat::Pgn => OutputFormat::Pgn,
            InputFormat::Epd => OutputFormat::Epd,
            InputFormat::Jsonl => OutputFormat::Jsonl,
        }
    }
}

/// The columns of CSV. Scores and probabilities are in the view of the side to move.
///
/// In `lines` and `policy`, words such as `e2e4:0.65` are divided by spaces: the first moves of the best lines with the
/// expected scores, and the legal moves with the network's probabilities.
pub const CSV_HEADER: &str = "id,turn,fen,played,best,score_cp,score_mate,win,draw,loss,expected_score,lost_by_played,visits,pv,prior,lines,policy,network,limit\n";

/// The text of a document. `number` counts the documents of all files from 1.
pub(super) fn text(
    format: OutputFormat,
    document: &Document,
    results: &Results,
    number: u64,
    style: &Style,
    analyst: Analyst<'_>,
) -> Vec<u8> {
    if format == OutputFormat::Pgn {
        return pgn_text(&annotated(document, results, style, analyst));
    }
    let id = match &document.origin {
        Origin::Request(request) if !request.id.is_null() => request.id.clone(),
        Origin::Epd(epd) => epd_id(epd).map_or_else(|| json!(number), |id| json!(id)),
        _ => json!(number),
    };
    let mut text = String::new();
    if format == OutputFormat::Epd
        && results.is_empty()
        && let Origin::Epd(epd) = &document.origin
    {
        // A position that is not selected stays in the file.
        text.push_str(&epd_line(
            document,
            &Row { index: 0, id: &id, analysis: None, loss: None },
            &epd.operations,
        ));
    }
    for (&index, analysis) in results {
        let row = Row { index, id: &id, analysis: Some(analysis), loss: loss(document, results, index) };
        match format {
            OutputFormat::Csv => text.push_str(&csv_row(document, &row, analysis, analyst)),
            OutputFormat::Epd => {
                let operations = match &document.origin {
                    Origin::Epd(epd) => epd.operations.as_slice(),
                    _ => &[],
                };
                text.push_str(&epd_line(document, &row, operations));
            }
            OutputFormat::Pgn | OutputFormat::Jsonl => {
                let place = Place { id: &id, turn: index, position: document.position(index) };
                let mut value = answer(place, analysis, false);
                if let Some(played) = document.played(index) {
                    value["played"] = json!(played);
                }
                if let Some(loss) = row.loss {
                    value["lostByPlayed"] = json!(rounded(loss));
                }
                value["network"] = json!(analyst.network());
                value["limit"] = json!(analyst.limit());
                text.push_str(&value.to_string());
                text.push('\n');
            }
        }
    }
    text.into_bytes()
}

/// A position of a document with its result.
struct Row<'a> {
    index: usize,
    id: &'a Value,
    analysis: Option<&'a Analysis>,
    /// The loss of expected score by the move of the game.
    loss: Option<f64>,
}

/// Probabilities have three decimals, so a difference has no more than that.
fn rounded(loss: f64) -> f64 {
    (loss * 1e4).round() / 1e4
}

fn csv_row(document: &Document, row: &Row<'_>, analysis: &Analysis, analyst: Analyst<'_>) -> String {
    let best = analysis.lines.first();
    let (mut cp, mut mate) = (String::new(), String::new());
    match analysis.score() {
        Some(LineScore::Cp(score)) => cp = score.to_string(),
        Some(LineScore::Mate(moves)) => mate = moves.to_string(),
        None => {}
    }
    let shares = analysis.wdl().map(|wdl| wdl.map(|share| (f64::from(share) / 1000.0).to_string()));
    let [win, draw, lost] = shares.unwrap_or_default();
    let id = row.id.as_str().map_or_else(|| row.id.to_string(), str::to_owned);
    let fields = [
        id,
        row.index.to_string(),
        document.position(row.index).to_fen(),
        document.played(row.index).unwrap_or_default(),
        best.and_then(|line| line.pv.first()).cloned().unwrap_or_default(),
        cp,
        mate,
        win,
        draw,
        lost,
        analysis.expected_score().map(|score| rounded(score).to_string()).unwrap_or_default(),
        row.loss.map(|loss| rounded(loss).to_string()).unwrap_or_default(),
        analysis.nodes.to_string(),
        best.map(|line| line.pv.join(" ")).unwrap_or_default(),
        best.and_then(|line| line.prior).map(|prior| rounded_prior(prior).to_string()).unwrap_or_default(),
        words(
            analysis
                .lines
                .iter()
                .filter_map(|line| Some((line.pv.first()?, rounded(expected_score(line.wdl))))),
        ),
        words(analysis.policy.iter().map(|(m, prior)| (m, rounded_prior(*prior)))),
        analyst.network(),
        analyst.limit(),
    ];
    let mut line = fields.map(|field| csv_field(&field)).join(",");
    line.push('\n');
    line
}

/// Moves with numbers, as in `e2e4:0.65 d2d4:0.6`.
fn words<'a>(moves: impl Iterator<Item = (&'a String, f64)>) -> String {
    moves.map(|(m, number)| format!("{m}:{number}")).collect::<Vec<_>>().join(" ")
}

/// A field of CSV, in quotes if it needs them (RFC 4180).
fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// A line of EPD. The operations of the input are kept, except those that the analysis writes itself. What the input
/// says about the best move stays.
fn epd_line(document: &Document, row: &Row<'_>, kept: &[(String, String)]) -> String {
    let position = document.position(row.index);
    let fen = position.to_fen();
    let mut fields = fen.split(' ');
    let board: Vec<&str> = fields.by_ref().take(4).collect();
    let mut operations: Vec<(String, String)> = Vec::new();
    if let Some(analysis) = row.analysis {
        let mut add = |opcode: &str, operand: String| operations.push((opcode.to_owned(), operand));
        add("acd", analysis.depth.to_string());
        add("acn", analysis.nodes.to_string());
        match analysis.score() {
            Some(LineScore::Cp(score)) => add("ce", score.to_string()),
            Some(LineScore::Mate(moves)) => add("dm", moves.to_string()),
            None => {}
        }
        if let Some(best) = analysis.lines.first() {
            let pv = san_of(&best.pv, position, usize::MAX);
            let first = pv.first().cloned().unwrap_or_default();
            add("bm", first.clone());
            add("pm", first);
            add("pv", pv.join(" "));
        }
        if let Some(&Some(m)) = document.moves.get(row.index) {
            add("sm", position.san(m).to_string());
        }
    }
    for (opcode, counter) in ["hmvc", "fmvn"].iter().zip(fields) {
        operations.push(((*opcode).to_owned(), counter.to_owned()));
    }
    if !kept.iter().any(|(opcode, _)| opcode.eq_ignore_ascii_case("id")) {
        let id = row.id.as_str().map_or_else(|| row.id.to_string(), str::to_owned).replace('"', "'");
        let turn = if document.moves.is_empty() { String::new() } else { format!(" turn {}", row.index) };
        operations.push(("id".to_owned(), format!("\"{id}{turn}\"")));
    }
    // What an older analysis says is replaced, even if this one has none of it: a score is in one of two forms, and a
    // position without a move has no best line.
    const REPLACED: [&str; 6] = ["acd", "acn", "ce", "dm", "pm", "pv"];
    for (opcode, operand) in kept {
        let name = opcode.to_ascii_lowercase();
        match operations.iter_mut().find(|(ours, _)| *ours == name) {
            Some(ours) if name == "bm" && !operand.is_empty() => ours.1.clone_from(operand),
            Some(_) => {}
            None if row.analysis.is_some() && REPLACED.contains(&name.as_str()) => {}
            None => operations.push((opcode.clone(), operand.clone())),
        }
    }
    operations.sort();
    let mut line = board.join(" ");
    for (opcode, operand) in operations {
        let space = if operand.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(line, " {opcode}{space}{operand};");
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::super::document::Selection;
    use super::super::pool::Limits;
    use super::super::report::Line;
    use super::*;
    use std::collections::BTreeMap;

    fn analysis() -> Analysis {
        let line = Line {
            score: LineScore::Cp(35),
            wdl: [400, 500, 100],
            visits: 60,
            moves_left: Some(40),
            pv: vec!["e2e4".to_owned(), "e7e5".to_owned()],
            prior: Some(0.25),
        };
        let policy = vec![("d2d4".to_owned(), 0.75), ("e2e4".to_owned(), 0.25)];
        Analysis { nodes: 100, depth: 4, lines: vec![line], end: None, policy }
    }

    fn written(format: OutputFormat, document: &Document, results: &Results) -> String {
        let analyst = Analyst { network: "net", limits: Limits::default() };
        String::from_utf8(text(format, document, results, 3, &Style::default(), analyst)).unwrap()
    }

    #[test]
    fn a_line_of_epd_keeps_its_operations_and_its_best_move() {
        let board = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -";
        let line = format!("{board} bm d4; ce 99; id \"a; b\"; c0 \"x\";");
        let document = Document::of_epd(&line, &Selection::default()).unwrap();
        let results = BTreeMap::from([(0, analysis())]);
        assert_eq!(
            written(OutputFormat::Epd, &document, &results),
            format!(
                "{board} acd 4; acn 100; bm d4; c0 \"x\"; ce 35; fmvn 1; hmvc 0; id \"a; b\"; pm e4; pv e4 e5;\n"
            )
        );
        let kept = written(OutputFormat::Epd, &document, &BTreeMap::new());
        assert!(kept.contains("bm d4;") && kept.contains("ce 99;"), "{kept}");
    }

    #[test]
    fn a_best_move_of_the_input_is_the_only_one_however_its_line_is_written() {
        let board = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -";
        let results = BTreeMap::from([(0, analysis())]);
        for rest in
            ["bm d4;", "BM d4;", "0 bm d4;", "0 1 bm d4;", "0 1; bm d4;", "- - bm d4;", "hmvc 0; bm d4"]
        {
            let document = Document::of_epd(&format!("{board} {rest}"), &Selection::default()).unwrap();
            let line = written(OutputFormat::Epd, &document, &results);
            assert_eq!(line.to_ascii_lowercase().matches("bm ").count(), 1, "{rest}: {line}");
            assert!(line.contains(" bm d4;") && line.contains(" pm e4;"), "{rest}: {line}");
        }
        let document = Document::of_epd(&format!("{board} bm;"), &Selection::default()).unwrap();
        assert!(written(OutputFormat::Epd, &document, &results).contains(" bm e4;"));
        assert!(Document::of_epd(&format!("{board} 0 1 7 bm d4;"), &Selection::default()).is_err());
    }

    #[test]
    fn a_position_without_a_move_loses_the_line_of_an_older_analysis() {
        let line = "7k/5Q2/6K1/8/8/8/8/8 b - - acd 9; ce -900; pm Kg8; pv Kg8; bm Kg8; c0 \"x\";";
        let document = Document::of_epd(line, &Selection::default()).unwrap();
        let end = Analysis::of_end(&document.history, false).unwrap();
        let line = written(OutputFormat::Epd, &document, &BTreeMap::from([(0, end)]));
        assert_eq!(
            line,
            "7k/5Q2/6K1/8/8/8/8/8 b - - acd 0; acn 0; bm Kg8; c0 \"x\"; ce 0; fmvn 1; hmvc 0; id \"3\";\n"
        );
    }

    #[test]
    fn rows_of_a_game_have_the_move_that_was_played() {
        let document = Document::of_game(b"1. d4 d5 *", &Selection::default()).unwrap();
        let results = BTreeMap::from([(0, analysis()), (1, analysis())]);
        let csv = written(OutputFormat::Csv, &document, &results);
        let first = csv.lines().next().unwrap();
        assert_eq!(first.split(',').count(), CSV_HEADER.split(',').count(), "{first}");
        assert!(
            first.starts_with("3,0,rnbqkbnr/") && first.contains(",d2d4,e2e4,35,,0.4,0.5,0.1,0.65,0.3,100,")
        );
        assert!(first.contains(",0.25,e2e4:0.65,d2d4:0.75 e2e4:0.25,net,"), "{first}");
        let json: Value =
            serde_json::from_str(written(OutputFormat::Jsonl, &document, &results).lines().next().unwrap())
                .unwrap();
        assert_eq!(
            (&json["id"], &json["played"], &json["lostByPlayed"]),
            (&json!(3), &json!("d2d4"), &json!(0.3))
        );
        assert!(
            written(OutputFormat::Epd, &document, &results)
                .contains("id \"3 turn 0\"; pm e4; pv e4 e5; sm d4;")
        );
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
