//! The score of a match in words and as JSON, for everything that reports one.

use super::elo::{self, Sprt, Verdict};
use super::score::Score;
use serde_json::{Value, json};

/// Why a tournament ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// All games were played.
    AllGames,
    /// The sequential test has its answer.
    TestEnded,
    /// The user has interrupted it.
    Interrupted,
}

/// How a match has ended after so many games. `total` is the number of games that it was to have.
pub fn games_in_words(games: u32, total: Option<u64>, finish: Finish) -> String {
    let total = total.map_or_else(String::new, |total| format!(" of {total}"));
    match finish {
        Finish::AllGames => format!("{games} games"),
        Finish::TestEnded => format!("{games} games{total}, until the test was decided"),
        Finish::Interrupted => format!("interrupted after {games} games{total}"),
    }
}

/// The score of a match in words, with its Elo difference and what the test says.
pub fn score_in_words(score: &Score, sprt: Option<Sprt>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(share) = score.share() {
        lines.push(format!(
            "player 1: {} wins, {} draws, {} losses: {:.2} %",
            score.wins(),
            score.draws(),
            score.losses(),
            100.0 * share
        ));
    }
    lines.extend(pairs_in_words(score));
    lines.extend(elo::elo(score).map(elo_in_words));
    lines.extend(sprt.map(|sprt| sprt_in_words(sprt, score)));
    lines
}

/// The pairs of games by their points; `None` without pairs.
fn pairs_in_words(score: &Score) -> Option<String> {
    let [lost, lost_one, even, won_one, won] = score.pairs;
    let has_pairs = score.pairs.iter().any(|&count| count > 0);
    has_pairs
        .then(|| format!("pairs with 0, 0.5, 1, 1.5 and 2 points: {lost} {lost_one} {even} {won_one} {won}"))
}

/// The Elo difference with its 95 % interval, as [`elo::elo`] returns them.
fn elo_in_words([elo, low, high]: [f64; 3]) -> String {
    if !elo.is_finite() {
        return "Elo difference: unknown, because one player has all points".to_owned();
    }
    if low == f64::NEG_INFINITY && high == f64::INFINITY {
        return format!("Elo difference: {elo:.1}, with too few games for an interval");
    }
    format!("Elo difference: {elo:.1} (95 %: {low:.1} to {high:.1})")
}

/// What the test says.
fn sprt_in_words(sprt: Sprt, score: &Score) -> String {
    let verdict = match sprt.verdict(score) {
        Verdict::Open => "undecided".to_owned(),
        Verdict::H0 => format!("{} Elo accepted", sprt.elo0),
        Verdict::H1 => format!("{} Elo accepted", sprt.elo1),
    };
    format!(
        "SPRT of {} and {} Elo: LLR {:.2} (bounds {:.2} and {:.2}), {verdict}",
        sprt.elo0,
        sprt.elo1,
        sprt.log_likelihood_ratio(score),
        -Sprt::bound(),
        Sprt::bound()
    )
}

/// How a match has ended, as JSON has it.
pub fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::AllGames => "all games",
        Finish::TestEnded => "test ended",
        Finish::Interrupted => "interrupted",
    }
}

/// What the test says as a JSON object.
pub fn sprt_figures(sprt: Sprt, score: &Score) -> Value {
    json!({
        "elo0": sprt.elo0,
        "elo1": sprt.elo1,
        "llr": sprt.log_likelihood_ratio(score),
        "bound": Sprt::bound(),
        "verdict": match sprt.verdict(score) {
            Verdict::Open => "undecided",
            Verdict::H0 => "elo0",
            Verdict::H1 => "elo1",
        },
    })
}

/// The score as a JSON object. An Elo difference without a bound is `null`.
pub fn figures(score: &Score) -> Value {
    let [elo, low, high] = elo::elo(score).unwrap_or([f64::NAN; 3]);
    json!({
        "games": score.games(),
        "wins": score.wins(),
        "draws": score.draws(),
        "losses": score.losses(),
        "pairs": score.pairs,
        "elo": elo,
        "elo_low": low,
        "elo_high": high,
    })
}
