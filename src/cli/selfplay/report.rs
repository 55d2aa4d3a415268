//! What `selfplay` prints: lc0's lines after each game, and the result at the end.

use crate::selfplay::elo::{self, Sprt};
use crate::selfplay::score::{GameScore, Score};
use crate::selfplay::summary::{figures, finish_word, games_in_words, score_in_words, sprt_figures};
use crate::selfplay::{Finish, FinishedGame, Progress};
use rukh_chess::uci_move;
use std::fmt::Write;
use std::path::Path;

/// lc0's lines about a finished game, whose training data are in `training_file`.
pub(super) fn game_lines(game: &FinishedGame, training_file: Option<&Path>, chess960: bool) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(
        game.false_positive_threshold.map(|threshold| format!("resign_report fp_threshold {threshold:.6}")),
    );
    let color = if game.player1_is_black { "black" } else { "white" };
    let result = match game.score {
        GameScore::WhiteWon => "whitewon",
        GameScore::Draw => "draw",
        GameScore::BlackWon => "blackwon",
    };
    let file = training_file.map_or_else(String::new, |path| format!(" trainingfile {}", path.display()));
    let mut line = format!(
        "gameready{file} gameid {} play_start_ply {} player1 {color} result {result}",
        game.number, game.opening_plies
    );
    if !game.moves.is_empty() {
        line.push_str(" moves");
    }
    for &m in &game.moves {
        // Writing to a string cannot fail.
        let _ = write!(line, " {}", uci_move::text(m, chess960));
    }
    if let Some(fen) = &game.fen {
        let _ = write!(line, " from_fen {fen}");
    }
    lines.push(line);
    lines
}

/// lc0's line about the tournament.
pub(super) fn status_line(progress: &Progress, is_final: bool) -> String {
    let score = &progress.score;
    let [wins, draws, losses] = score.results;
    let mut line = String::from("tournamentstatus");
    if is_final {
        line.push_str(" final");
    }
    let _ = write!(line, " P1: +{} -{} ={}", score.wins(), score.losses(), score.draws());
    if let Some(share) = score.share() {
        if share > 0.0 {
            let _ = write!(line, " Win: {:5.2}%", 100.0 * share);
        }
        if share > 0.0 && share < 1.0 {
            let _ = write!(line, " Elo: {:5.2}", elo::elo_of_share(share));
        }
    }
    if let Some(probability) = elo::likelihood_of_superiority(score) {
        let _ = write!(line, " LOS: {:5.2}%", 100.0 * probability);
    }
    for (index, color) in ["W", "B"].into_iter().enumerate() {
        let _ = write!(line, " P1-{color}: +{} -{} ={}", wins[index], losses[index], draws[index]);
    }
    let per_move = progress.nodes as f64 / progress.moves.max(1) as f64;
    let _ = write!(line, " npm {per_move:.6} nodes {} moves {}", progress.nodes, progress.moves);
    line
}

/// The result in words.
pub(super) fn result_lines(progress: &Progress, finish: Finish, sprt: Option<Sprt>) -> Vec<String> {
    let score = &progress.score;
    let mut lines = vec![games_in_words(score.games(), progress.total, finish)];
    lines.extend(score_in_words(score, sprt));
    lines.push(distinct_in_words(progress));
    let seconds = progress.elapsed.as_secs_f64().max(1e-3);
    let mut speed = format!(
        "speed: {:.1} s, {:.2} games/s, {:.0} nodes/s",
        seconds,
        f64::from(score.games()) / seconds,
        progress.nodes as f64 / seconds
    );
    if let Some(evaluated) = progress.evaluated {
        let _ = write!(
            speed,
            ", {:.0} evaluations/s in batches of {:.1} positions",
            evaluated.positions as f64 / seconds,
            evaluated.positions as f64 / evaluated.batches.max(1) as f64
        );
    }
    lines.push(speed);
    lines
}

/// How many games were no repetition of another.
fn distinct_in_words(progress: &Progress) -> String {
    let Progress { score, distinct_games, .. } = progress;
    match score.games() > *distinct_games {
        false => format!("distinct games: {distinct_games}"),
        true => format!(
            "distinct games: {distinct_games} of {}; the others repeat them and say nothing new, but interval, test and \
             LOS count them",
            score.games()
        ),
    }
}

/// The result as JSON: the [`figures`] of the score, and more.
/// `networks` and `limits` are those of player 1 and player 2. `shard` has the number of the shard, from 0, and the number
/// of shards.
pub(super) fn json(
    progress: &Progress,
    finish: Finish,
    sprt: Option<Sprt>,
    [networks, limits]: [[&str; 2]; 2],
    shard: (u64, u64),
) -> String {
    let score = &progress.score;
    let seconds = progress.elapsed.as_secs_f64();
    let mut result = figures(score);
    let more = serde_json::json!({
        "finish": finish_word(finish),
        "networks": networks,
        "limits": limits,
        "shard": (shard.1 > 1).then(|| serde_json::json!({ "number": shard.0 + 1, "of": shard.1 })),
        "with_white": { "wins": score.results[0][0], "draws": score.results[1][0], "losses": score.results[2][0] },
        "with_black": { "wins": score.results[0][1], "draws": score.results[1][1], "losses": score.results[2][1] },
        "sprt": sprt.map(|sprt| sprt_figures(sprt, score)),
        "distinct_games": progress.distinct_games,
        "moves": progress.moves,
        "nodes": progress.nodes,
        "seconds": seconds,
        "evaluations": progress.evaluated.map(|evaluated| evaluated.positions),
        "batches": progress.evaluated.map(|evaluated| evaluated.batches),
    });
    if let (Some(result), serde_json::Value::Object(more)) = (result.as_object_mut(), more) {
        result.extend(more);
    }
    result.to_string()
}

/// The result in the format of lc0's results file. `names` are those of player 1 and player 2.
pub(super) fn results_file_entry(score: &Score, names: [&str; 2]) -> String {
    let [first, second] = names;
    let [wins, draws, losses] = score.results;
    format!(
        "\n[White \"{first}\"]\n[Black \"{second}\"]\n[Results \"{} {} {}\"]\n\n\
         [White \"{second}\"]\n[Black \"{first}\"]\n[Results \"{} {} {}\"]\n",
        wins[0], losses[0], draws[0], losses[1], wins[1], draws[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The format is lc0's.
    #[test]
    fn the_status_line_has_lc0s_format() {
        let mut score = Score { results: [[3, 2], [4, 5], [1, 1]], ..Score::default() };
        let progress = |score: &Score| Progress {
            score: score.clone(),
            distinct_games: score.games(),
            moves: 10,
            nodes: 8000,
            total: None,
            elapsed: Duration::from_secs(1),
            evaluated: None,
        };
        assert_eq!(
            status_line(&progress(&score), true),
            "tournamentstatus final P1: +5 -2 =9 Win: 59.38% Elo: 65.92 LOS: 87.16% P1-W: +3 -1 =4 P1-B: +2 -1 =5 \
             npm 800.000000 nodes 8000 moves 10"
        );
        score.results = [[0, 0], [0, 0], [1, 0]];
        assert_eq!(
            status_line(&progress(&score), false),
            "tournamentstatus P1: +0 -1 =0 LOS: 15.87% P1-W: +0 -1 =0 P1-B: +0 -0 =0 npm 800.000000 nodes 8000 moves 10"
        );
    }

    #[test]
    fn the_results_file_has_lc0s_format() {
        let score = Score { results: [[3, 2], [4, 5], [1, 0]], ..Score::default() };
        assert_eq!(
            results_file_entry(&score, ["a", "b"]),
            "\n[White \"a\"]\n[Black \"b\"]\n[Results \"3 1 4\"]\n\n[White \"b\"]\n[Black \"a\"]\n[Results \"0 2 5\"]\n"
        );
    }
}
