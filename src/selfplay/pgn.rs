//! Writes finished games as PGN.

use super::game::{FinishedGame, Thought};
use super::score::GameScore;
use rukh_chess::{Position, PositionHistory};
use rukh_pgn::game::{Game, Line, Note, Ply};
use rukh_pgn::write;
use rukh_search::Score;
use shakmaty::{CastlingMode, EnPassantMode, Position as _};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a game says about a player.
#[derive(Clone, Debug)]
pub struct PgnPlayer {
    /// What the tags `White` and `Black` say.
    pub name: String,
    /// The network without its folders, or the name of a backend without one.
    pub network: String,
    /// The limit of each search, in words; empty without any.
    pub limit: String,
}

/// The text of a game between player 1 and player 2, with an empty line at its end. Comments are as cutechess writes
/// them: score and depth from the mover's view, and the time, as in `{+0.35/12 0.52s}`, or `{book}`.
pub fn text(game: &FinishedGame, [player1, player2]: &[PgnPlayer; 2]) -> Vec<u8> {
    let [white, black] = if game.player1_is_black { [player2, player1] } else { [player1, player2] };
    let result = match game.score {
        GameScore::WhiteWon => "1-0",
        GameScore::Draw => "1/2-1/2",
        GameScore::BlackWon => "0-1",
    };
    let start = game.history.positions().first().cloned().unwrap_or_else(Position::startpos);
    let is_chess960 = CastlingMode::detect(&start.board().to_setup(EnPassantMode::Legal)).is_chess960();
    let mut pgn = Game {
        tags: Vec::new(),
        line: Line { before: Vec::new(), plies: plies(game) },
        history: PositionHistory::new(start),
        moves: Vec::new(),
        result: Some(result),
        chess960: is_chess960,
    };
    let (date, time) = date_and_time(game.began);
    pgn.add_tag("Event", "rukh selfplay");
    pgn.add_tag("Site", "?");
    pgn.add_tag("Date", &date);
    pgn.add_tag("Round", &(game.number + 1).to_string());
    pgn.add_tag("White", &white.name);
    pgn.add_tag("Black", &black.name);
    pgn.add_tag("Result", result);
    pgn.add_start_tags();
    for (color, player) in [("White", white), ("Black", black)] {
        pgn.add_tag(&format!("{color}Network"), &player.network);
        if !player.limit.is_empty() {
            pgn.add_tag(&format!("{color}Limit"), &player.limit);
        }
    }
    pgn.add_tag("UTCTime", &time);
    pgn.add_tag("PlyCount", &game.moves.len().to_string());
    pgn.add_tag("Termination", game.ending.text());
    write::text(&pgn)
}

/// The moves with their comments.
fn plies(game: &FinishedGame) -> Vec<Ply> {
    let made = game.history.positions().iter().zip(&game.moves).enumerate();
    let ply = |(index, (position, &m)): (usize, (&Position, _))| {
        let thought = index.checked_sub(game.opening_plies).and_then(|index| game.thoughts.get(index));
        let comment = thought.map_or_else(|| "book".to_owned(), comment);
        Ply { san: position.san(m), notes: vec![Note::Comment(comment.into_bytes())] }
    };
    made.map(ply).collect()
}

/// Score, depth and time. A mate has its distance in plies.
fn comment(thought: &Thought) -> String {
    let seconds = thought.time.as_secs_f64();
    let decimals = [0.1, 1.0, 10.0].iter().filter(|&&limit| seconds < limit).count();
    let time = format!("{seconds:.decimals$}s");
    match thought.report {
        None => time,
        Some((Score::Cp(0), depth)) => format!("0.00/{depth} {time}"),
        Some((Score::Cp(score), depth)) => format!("{:+.2}/{depth} {time}", f64::from(score) / 100.0),
        Some((Score::Mate(moves), depth)) => {
            let (sign, plies) = if moves > 0 { ('+', 2 * moves - 1) } else { ('-', -2 * moves) };
            format!("{sign}M{plies}/{depth} {time}")
        }
    }
}

/// The date and the time of day in UTC, as in `2026.11.28` and `09:05:00`.
fn date_and_time(time: SystemTime) -> (String, String) {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's `civil_from_days`: years begin in March, so that a leap day ends one.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    (
        format!("{:04}.{month:02}.{day:02}", era * 400 + year),
        format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_date_is_that_of_the_calendar() {
        let of = |seconds| date_and_time(UNIX_EPOCH + Duration::from_secs(seconds));
        for (seconds, date, time) in [
            (0, "1970.01.01", "00:00:00"),
            (951_782_399, "2000.02.28", "23:59:59"),
            (951_782_400, "2000.02.29", "00:00:00"),
            (951_868_800, "2000.03.01", "00:00:00"),
            (1_795_865_100, "2026.11.28", "11:25:00"),
            (4_107_542_400, "2100.03.01", "00:00:00"),
        ] {
            assert_eq!(of(seconds), (date.to_owned(), time.to_owned()));
        }
    }

    #[test]
    fn comments_are_as_cutechess_writes_them() {
        let of =
            |report, milliseconds| comment(&Thought { report, time: Duration::from_millis(milliseconds) });
        assert_eq!(of(Some((Score::Cp(35), 12)), 520), "+0.35/12 0.52s");
        assert_eq!(of(Some((Score::Cp(-1204), 3)), 12), "-12.04/3 0.012s");
        assert_eq!(of(Some((Score::Cp(0), 1)), 3456), "0.00/1 3.5s");
        assert_eq!(of(Some((Score::Mate(3), 5)), 12_345), "+M5/5 12s");
        assert_eq!(of(Some((Score::Mate(-2), 5)), 0), "-M4/5 0.000s");
        assert_eq!(of(None, 250), "0.25s");
    }
}
