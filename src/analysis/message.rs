//! Requests and answers in JSON, one on each line. They follow those of KataGo's analysis engine, with the names of
//! chess. `docs/analysis.schema.json` describes them.

use super::pool::Limits;
use super::report::{Analysis, LineScore, expected_score, san_of};
use rukh_base::quote::quoted;
use rukh_chess::{Color, Position};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// A request to search some positions of a game.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// The name that the answers carry.
    #[serde(default)]
    pub id: Value,
    /// What to do, if it is not a search. Only the protocol knows actions.
    pub action: Option<String>,
    /// The request that an action is about.
    pub terminate_id: Option<Value>,
    /// The first position of the game; the standard one if it is absent.
    pub fen: Option<String>,
    /// The moves from there, in UCI notation.
    #[serde(default)]
    pub moves: Vec<String>,
    /// The numbers of moves after which the position is searched; only the last position if it is absent.
    #[serde(default, deserialize_with = "whole_numbers")]
    pub analyze_turns: Option<Vec<usize>>,
    /// The visits of the root at which a search ends.
    #[serde(default, deserialize_with = "whole_number")]
    pub max_visits: Option<u64>,
    /// The seconds after which a search ends.
    pub max_time: Option<f64>,
    /// The number of best lines.
    #[serde(default, deserialize_with = "whole_number")]
    pub multi_pv: Option<usize>,
    /// Requests with a higher priority come first.
    #[serde(default, deserialize_with = "priority")]
    pub priority: i64,
    /// The least time between two partial reports, in seconds. Without it there are none.
    pub report_during_search_every: Option<f64>,
    /// Whether castling is written as king takes rook.
    #[serde(default)]
    pub chess960: bool,
    /// The text of a game or a line, which comes back analysed, instead of `fen` and `moves`.
    pub document: Option<String>,
    /// The format of `document`: `pgn`, `epd` or `jsonl`. Its first characters say it if this is absent.
    pub document_format: Option<String>,
    /// Whether the answer has the network's probabilities of all legal moves; the flag `--policy` says it if this is absent.
    pub include_policy: Option<bool>,
    /// The only moves that are searched in the positions themselves, in UCI notation; all if it is absent.
    pub allow_moves: Option<Vec<String>>,
    /// Moves that are not searched there.
    #[serde(default)]
    pub avoid_moves: Vec<String>,
    /// The number of the document, which rows and answers carry as `id`; 1 if it is absent.
    #[serde(default, deserialize_with = "whole_number")]
    pub document_number: Option<u64>,
}

/// A whole number of JSON, which may be written as `1000`, `1000.0` or `1e3`.
struct Whole<T>(T);

impl<'de, T: TryFrom<i128>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole<T>, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let exact = number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from));
        // Beyond 2^53 a number with a fraction or an exponent is not exact.
        let is_exact = |value: &f64| value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0;
        let whole = exact.or_else(|| number.as_f64().filter(is_exact).map(|value| value as i128));
        let wrong = || D::Error::custom(format!("{number} is not a whole number in the range of this field"));
        whole.and_then(|whole| T::try_from(whole).ok()).map(Whole).ok_or_else(wrong)
    }
}

fn whole_number<'de, T: TryFrom<i128>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Whole<T>>::deserialize(deserializer)?.map(|Whole(number)| number))
}

fn whole_numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<usize>>, D::Error> {
    let numbers = Option::<Vec<Whole<usize>>>::deserialize(deserializer)?;
    Ok(numbers.map(|numbers| numbers.into_iter().map(|Whole(number)| number).collect()))
}

fn priority<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Whole::deserialize(deserializer).map(|Whole(number)| number)
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is not JSON, a field has the wrong type, or it is unknown.
    pub fn parse(line: &str) -> Result<Request, String> {
        let request: Request = serde_json::from_str(line).map_err(|error| quoted(&error.to_string()))?;
        let is_time = |seconds: Option<f64>| seconds.is_none_or(|seconds| (0.0..=1e6).contains(&seconds));
        if !is_time(request.max_time) {
            return Err("maxTime is not a number of seconds from 0 to 1000000".to_owned());
        }
        if !is_time(request.report_during_search_every) {
            return Err("reportDuringSearchEvery is not a number of seconds from 0 to 1000000".to_owned());
        }
        if request.document.is_some()
            && (request.fen.is_some()
                || !request.moves.is_empty()
                || request.analyze_turns.is_some()
                || request.restricts_moves())
        {
            let fields = "fen, moves and analyzeTurns, and neither allowMoves nor avoidMoves";
            return Err(format!("a document has its own {fields}"));
        }
        Ok(request)
    }

    /// Whether some root moves are not searched.
    pub(super) fn restricts_moves(&self) -> bool {
        self.allow_moves.is_some() || !self.avoid_moves.is_empty()
    }

    /// When its searches end.
    pub(super) fn limits(&self) -> Limits {
        let milliseconds = |seconds: f64| (seconds * 1000.0).round().max(1.0) as u64;
        Limits { nodes: self.max_visits, movetime_ms: self.max_time.map(milliseconds) }
    }
}

/// What an answer says about the place of the position, beside its analysis.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The name of the request, or of the game.
    pub id: &'a Value,
    /// The number of moves before the position.
    pub turn: usize,
    /// The position.
    pub position: &'a Position,
}

/// The answer about a position. `is_partial` says that the search goes on.
pub fn answer(place: Place<'_>, analysis: &Analysis, is_partial: bool) -> Value {
    let Place { id, turn, position } = place;
    let lines = analysis.lines.iter().enumerate().map(|(order, line)| {
        let mut info = json!({ "order": order, "visits": line.visits });
        add_value(&mut info, line.score, line.wdl);
        info["move"] = line.pv.first().map_or(Value::Null, |text| json!(text));
        info["san"] = san_of(&line.pv, position, 1).first().map_or(Value::Null, |text| json!(text));
        if let Some(prior) = line.prior {
            info["prior"] = json!(rounded_prior(prior));
        }
        if let Some(moves_left) = line.moves_left {
            info["movesLeft"] = json!(moves_left);
        }
        info["pv"] = json!(line.pv);
        info
    });
    let mut root = json!({ "visits": analysis.nodes, "depth": analysis.depth });
    if let (Some(score), Some(wdl)) = (analysis.score(), analysis.wdl()) {
        add_value(&mut root, score, wdl);
    }
    if let Some(end) = analysis.end {
        root["end"] = json!(end);
    }
    let mut answer = json!({
        "id": id,
        "turnNumber": turn,
        "isDuringSearch": is_partial,
        "fen": position.to_fen(),
        "sideToMove": if position.side_to_move() == Color::White { "white" } else { "black" },
        "rootInfo": root,
        "moveInfos": lines.collect::<Vec<_>>(),
    });
    if !analysis.policy.is_empty() {
        let policy = analysis.policy.iter().map(|(m, prior)| (m.clone(), json!(rounded_prior(*prior))));
        answer["policy"] = Value::Object(Map::from_iter(policy));
    }
    if analysis.is_empty() {
        answer["noResults"] = json!(true);
    }
    answer
}

/// A probability, rounded to six decimals.
pub(super) fn rounded_prior(prior: f32) -> f64 {
    (f64::from(prior) * 1e6).round() / 1e6
}

/// Adds a score and probabilities, in the view of the side to move.
fn add_value(info: &mut Value, score: LineScore, wdl: [u16; 3]) {
    let [win, draw, loss] = wdl.map(|share| f64::from(share) / 1000.0);
    match score {
        LineScore::Cp(score) => info["scoreCp"] = json!(score),
        LineScore::Mate(moves) => info["scoreMate"] = json!(moves),
    }
    info["win"] = json!(win);
    info["draw"] = json!(draw);
    info["loss"] = json!(loss);
    info["expectedScore"] = json!(expected_score(wdl));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::report::Line;

    #[test]
    fn a_wrong_request_is_refused_with_its_field() {
        let error = Request::parse(r#"{"id":"a","maxVisit":5}"#).unwrap_err();
        assert!(error.contains("unknown field `maxVisit`"), "{error}");
        assert!(Request::parse(r#"{"id":"a","maxTime":-1}"#).unwrap_err().contains("maxTime"));
        let request =
            Request::parse(r#"{"id":7,"moves":["e2e4"],"analyzeTurns":[0,1],"multiPv":3}"#).unwrap();
        assert_eq!((request.id, request.multi_pv), (json!(7), Some(3)));
    }

    #[test]
    fn a_whole_number_may_have_an_exponent_or_a_fraction_of_zero() {
        let parse = |text: &str| Request::parse(text);
        let request = parse(
            r#"{"maxVisits":1e3,"multiPv":2.0,"analyzeTurns":[0,1E0],"priority":-1e1,"documentNumber":7,"maxTime":1e-1}"#,
        )
        .unwrap();
        assert_eq!((request.max_visits, request.multi_pv, request.priority), (Some(1000), Some(2), -10));
        assert_eq!((request.analyze_turns, request.document_number), (Some(vec![0, 1]), Some(7)));
        assert_eq!(request.max_time, Some(0.1));
        assert_eq!(parse(r#"{"maxVisits":null}"#).unwrap().max_visits, None);
        assert_eq!(parse(r#"{"maxVisits":18446744073709551615}"#).unwrap().max_visits, Some(u64::MAX));
        for number in ["1.5", "-1", "1e300", "-1e0", "1e16", "1e-3", "\"5\"", "18446744073709551616", "true"]
        {
            assert!(parse(&format!(r#"{{"maxVisits":{number}}}"#)).is_err(), "{number}");
        }
        assert!(parse(r#"{"maxVisits":1.5}"#).unwrap_err().contains("1.5 is not a whole number"));
    }

    #[test]
    fn an_answer_has_the_view_of_the_side_to_move() {
        let line = Line {
            score: LineScore::Mate(-3),
            wdl: [0, 100, 900],
            visits: 40,
            moves_left: None,
            pv: vec!["e2e4".to_owned(), "e7e5".to_owned()],
            prior: None,
        };
        let analysis = Analysis { nodes: 50, depth: 3, lines: vec![line], ..Analysis::default() };
        let (id, position) = (json!("x"), Position::startpos());
        let value = answer(Place { id: &id, turn: 0, position: &position }, &analysis, false);
        assert_eq!(value["moveInfos"][0]["san"], "e4");
        assert_eq!(value["rootInfo"]["scoreMate"], -3);
        assert_eq!(value["rootInfo"]["expectedScore"], 0.05);
        let empty = answer(Place { id: &id, turn: 0, position: &position }, &Analysis::default(), true);
        assert_eq!((&empty["noResults"], &empty["isDuringSearch"]), (&json!(true), &json!(true)));
    }
}
