//! Writes finished games as PGN.

use super::game::FinishedGame;
use super::score::GameScore;
use rukh_base::word_wrap::wrap_words;
use rukh_chess::Position;
use shakmaty::san::SanPlus;
use std::fmt::Write;

/// The longest line of the moves, in characters.
const LINE_LENGTH: usize = 80;

/// What a game says about a player.
#[derive(Clone, Debug)]
pub struct PgnPlayer {
    /// What the tags `White` and `Black` say.
    pub name: &'static str,
    /// The network without its folders, or the name of a backend without one.
    pub network: String,
    /// The limit of each search, in words; empty without any.
    pub limit: String,
}

/// The text of a game between player 1 and player 2, with an empty line at its end.
pub fn text(game: &FinishedGame, [player1, player2]: &[PgnPlayer; 2]) -> String {
    let [white, black] = if game.player1_is_black { [player2, player1] } else { [player1, player2] };
    let result = match game.score {
        GameScore::WhiteWon => "1-0",
        GameScore::Draw => "1/2-1/2",
        GameScore::BlackWon => "0-1",
    };
    let mut text = String::new();
    let mut tag = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[{name} \"{}\"]", value.replace('\\', "\\\\").replace('"', "\\\""));
    };
    tag("Event", "rukh selfplay");
    tag("Site", "?");
    tag("Date", "????.??.??");
    tag("Round", &(game.number + 1).to_string());
    tag("White", white.name);
    tag("Black", black.name);
    tag("Result", result);
    if let Some(fen) = &game.fen {
        tag("SetUp", "1");
        tag("FEN", fen);
    }
    for (color, player) in [("White", white), ("Black", black)] {
        tag(&format!("{color}Network"), &player.network);
        if !player.limit.is_empty() {
            tag(&format!("{color}Limit"), &player.limit);
        }
    }
    tag("PlyCount", &game.moves.len().to_string());
    tag("Termination", game.ending.text());
    text.push('\n');
    let words = words(game);
    text.push_str(&wrap_words(words.iter().map(String::as_str).chain([result]), LINE_LENGTH));
    text.push_str("\n\n");
    text
}

/// The moves with their numbers.
fn words(game: &FinishedGame) -> Vec<String> {
    let mut words = Vec::new();
    for (position, &m) in game.history.positions().iter().zip(&game.moves) {
        let number = position.game_ply() / 2 + 1;
        let is_white = position.side_to_move().is_white();
        if is_white {
            words.push(format!("{number}."));
        } else if words.is_empty() {
            words.push(format!("{number}..."));
        }
        words.push(san(position, m));
    }
    words
}

fn san(position: &Position, m: rukh_chess::Move) -> String {
    SanPlus::from_move(position.board().clone(), m).to_string()
}
