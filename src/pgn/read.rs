//! Reads the text of a game in the language that it is written in.
//!
//! Everything in the text is understood, or the game is refused with the token and the move at which that happened. A
//! game is in one language: in English if that gives legal moves only, and otherwise in the only language that does.

use super::game::Game;
use super::limits::{MOST_BYTES, too_long};
use super::notation::{ENGLISH, Language, OTHERS};
use super::reading::{Reading, Wrong};
use super::tokens::Lexer;

/// Reads a game.
///
/// # Errors
/// What is wrong with the game, in words: a token that is not understood, an illegal move, a start position that cannot
/// be played, a variant that is not chess, a brace or parenthesis without its partner, or a limit that is passed.
pub fn read_game(text: &[u8]) -> Result<Game, String> {
    if text.len() > MOST_BYTES {
        return Err(too_long());
    }
    let english = match read_in(text, &ENGLISH) {
        Ok(game) => return Ok(game),
        Err(failure) if !failure.is_move => return Err(failure.reason),
        Err(failure) => failure,
    };
    let mut readings: Vec<(&Language, Game)> = Vec::new();
    let mut furthest = (&ENGLISH, english);
    for language in &OTHERS {
        match read_in(text, language) {
            Ok(game) => {
                let other = readings.iter().find(|(_, other)| other.line != game.line);
                if let Some((first, _)) = other {
                    return Err(format!(
                        "the moves are legal in two languages and not the same: {} and {}",
                        first.name, language.name
                    ));
                }
                readings.push((language, game));
            }
            Err(failure) if failure.at > furthest.1.at => furthest = (language, failure),
            Err(_) => {}
        }
    }
    let (language, failure) = furthest;
    readings.into_iter().next().map(|(_, game)| game).ok_or_else(|| match language == &ENGLISH {
        true => failure.reason,
        false => format!("{} (read as {})", failure.reason, language.name),
    })
}

/// Why a game cannot be read in a language.
struct Failure {
    reason: String,
    /// Whether the word is not a legal move in this language, and may be one in another.
    is_move: bool,
    /// Where the token ends, in bytes.
    at: usize,
}

fn read_in(text: &[u8], language: &Language) -> Result<Game, Failure> {
    let (mut lexer, mut at) = (Lexer::default(), 0);
    let mut reading = Reading::new(language);
    while let Some(token) = lexer.next(text, &mut at) {
        reading.take(token).map_err(|wrong| {
            let (reason, is_move) = match wrong {
                Wrong::Move(reason) => (reason, true),
                Wrong::Other(reason) => (reason, false),
            };
            Failure { reason, is_move, at }
        })?;
    }
    reading.finish().map_err(|reason| Failure { reason, is_move: false, at })
}

#[cfg(test)]
mod tests {
    use super::super::limits::MOST_PLIES;
    use super::super::write::text as written;
    use super::*;

    /// The moves of the main line as the standard writes them.
    fn moves(text: &str) -> Result<String, String> {
        let game = read_game(text.as_bytes())?;
        Ok(game.line.plies.iter().map(|ply| ply.san.to_string()).collect::<Vec<_>>().join(" "))
    }

    fn error(text: &str) -> String {
        read_game(text.as_bytes()).expect_err(text)
    }

    #[test]
    fn a_game_that_breaks_has_a_reason() {
        for (text, reason) in [
            ("1. e4 e5 2. Ke3 *", "illegal move `Ke3` at move 2 of White, in rnbqkbnr/"),
            ("1. e4 {open", "a comment has no end at move 1 of Black"),
            ("garbage ][", "`garbage` is not a move at move 1 of White"),
            ("1. e4 ][", "`][` is not a move at move 1 of Black"),
            ("", "there is neither a tag nor a move"),
            ("1. e4 (1. d4 d5 *", "a variation has no end"),
            ("1. e4 ) e5 *", "a variation ends that has not begun"),
            ("(1. e4) d4 *", "a variation stands before"),
            ("1. e4 * 1. d4 *", "the move `d4` follows the result"),
            ("1. e4 1-0 0-1", "the result 0-1 follows the result 1-0"),
            ("[Variant \"Atomic\"]\n\n1. e4 *", "the variant `Atomic` is not chess"),
            ("[FEN \"nonsense\"]\n\n*", "nonsense"),
            ("[FEN nonsense]\n\n*", "nonsense"),
            ("[%clk 1] e4", "`[%clk 1] e4` is not a tag"),
            ("1. d4 d5 2. Qq5", "`Qq5` is not a move at move 2 of White"),
            ("1. d4 (1. e4 Qq5) *", "`Qq5` is not a move at move 1 of Black in a variation"),
            ("1. e4 } e5", "`}` is not a move at move 1 of Black"),
            ("1. e4 <x> e5", "`<x>` is not a move"),
            ("1. e4 $ e5", "`$` is not a glyph"),
            ("1. e4 $256 e5", "`$256` is not a glyph"),
            ("1. e4 e5 2. Nf3 3", "`3` is not a move at move 2 of Black"),
            ("e4 e5 Nf3 6 Nc6", "`6` is not a move at move 2 of Black"),
            ("1. e4 e5 2. Nf3 ch", "`ch` is not a move, and there is no check at move 2 of Black"),
            ("1. e4 e5 2. Nf3 2 *", "no move follows the number `2`"),
            ("1. e4 e5 2. Nf3 Nc6 3", "no move follows the number `3`"),
            ("1. c4 2. d5", "`2.` is the number of a move of White: a move of Black is missing"),
            ("1. c4 e5 2... d5", "`2...` is the number of a move of Black"),
            ("+ 1. e4", "`+` stands before the first move"),
            ("1. e4 e5 2. d4 exd4ep", "`exd4ep` says en passant of another move"),
            ("1. e4 e5 2. d4 exd4 e.p.", "`e.p.` says en passant of another move"),
            ("1. e4 e5 2. Nf3 Nc6 3. Nd2", "illegal move `Nd2`"),
            ("[FEN \"4k3/8/8/8/8/2N5/8/4K1N1 w - - 0 1\"]\n\n1. Ne2", "ambiguous move `Ne2`"),
            ("[FEN \"4k3/8/8/8/8/8/4R3/4K3 b - - 0 1\"]\n\n1... --", "the null move `--` while in check"),
            ("99999999999999999999. e4", "is not a move number"),
        ] {
            let error = error(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        let deep = format!("1. e4 {}", "(1. d4 ".repeat(1000));
        assert!(error(&deep).contains("inside each other"));
        let long = format!("{} *", "1. Nf3 Nf6 2. Ng1 Ng8 ".repeat(MOST_PLIES / 4 + 1));
        assert!(error(&long).contains("more than 20000 moves"));
    }

    #[test]
    fn moves_are_read_as_people_write_them() {
        for (text, expected) in [
            ("1. d4 d5 2. Ng1-f3 Ng8-f6 3. e3 e6 *", "d4 d5 Nf3 Nf6 e3 e6"),
            ("1.d4 d5 2.c4 d:c4 3.e2-e3 b7b5", "d4 d5 c4 dxc4 e3 b5"),
            ("1. f4 e5 2. g4 Qh4++", "f4 e5 g4 Qh4#"),
            ("1. f4 e5 2. g4 Qh4 mate 0-1", "f4 e5 g4 Qh4#"),
            ("1 e4 e5 2 Nf3 Nc6 3 Bb5", "e4 e5 Nf3 Nc6 Bb5"),
            ("1.e4 e5 2.Nf3N Nc6□ 3.Bb5!? a6 +=", "e4 e5 Nf3 Nc6 Bb5 a6"),
            ("1. e4 e5 2. ♘f3 ♞c6 3. ♗c4 ♝c5 4. 0-0", "e4 e5 Nf3 Nc6 Bc4 Bc5 O-O"),
            ("1. e4 Nf6 2. e5 d5 3. exd6 e.p. *", "e4 Nf6 e5 d5 exd6"),
            ("1. e4 … e5", "e4 e5"),
            ("1. e4 1… e5", "e4 e5"),
            ("1. e4 1. e5 2. Nf3", "e4 e5 Nf3"),
            ("1. e4 ... e5 2. Nf3", "e4 e5 Nf3"),
            ("1. e4 f5 2. Qh5 dbl ch. g6", "e4 f5 Qh5+ g6"),
            ("[FEN \"4k3/8/8/8/8/8/4P3/4K3 b - - 0 20\"]\n\n1... Kd7 2. e4 Kd6", "Kd7 e4 Kd6"),
            ("[FEN \"4k3/8/8/8/8/8/4P3/4K3 b - - 0 20\"]\n\n1. Kd7 e4 2. Kd6", "Kd7 e4 Kd6"),
            ("1. e4 e5 2.", "e4 e5"),
            ("\u{feff}1. e4\u{a0}e5", "e4 e5"),
        ] {
            assert_eq!(moves(text).as_deref(), Ok(expected), "{text}");
        }
        assert!(error("1.d2-d4 d7-d5 2.c2xc4").contains("illegal move `2.c2xc4`"));
    }

    #[test]
    fn a_game_is_in_one_language() {
        let ruy = "e4 e5 Nf3 Nc6 Bb5 a6 O-O Qe7 Re1";
        for text in [
            "1. e4 e5 2. Sf3 Sc6 3. Lb5 a6 4. 0-0 De7 5. Te1 *",
            "1. e4 e5 2. Cf3 Cc6 3. Fb5 a6 4. 0-0 De7 5. Te1 *",
            "1. e4 e5 2. Cf3 Cc6 3. Ab5 a6 4. 0-0 De7 5. Te1 *",
            "1. e4 e5 2. Pf3 Pc6 3. Lb5 a6 4. 0-0 De7 5. Te1 *",
            "1. Pe4 Pe5 2. Nf3 Nc6 3. Bb5 Pa6 4. O-O Qe7 5. Re1 *",
        ] {
            assert_eq!(moves(text).as_deref(), Ok(ruy), "{text}");
        }
        // Queens and rooks have the same letters in four languages, so the reading is the same.
        assert_eq!(moves("1. d4 d5 2. Dd3 Dd6").as_deref(), Ok("d4 d5 Qd3 Qd6"));
        // Pawns in English with a letter for them, and knights in Dutch.
        let two = "the moves are legal in two languages and not the same: English with a letter for pawns and Dutch";
        assert_eq!(error("1. d4 d5 2. Pf3 Pf6"), two);
        // A king in French and Spanish, a rook in English, which comes first.
        assert_eq!(moves("[FEN \"4k3/8/8/8/8/8/8/4K2R w - - 0 1\"]\n\n1. Rf1").as_deref(), Ok("Rf1"));
        assert!(
            error("1. Sf3 Nf6 2. c4 c5").contains("`Nf6` is not a move at move 1 of Black (read as German)")
        );
        assert!(error("1. Sf3 Sf6 2. Sf5").ends_with("(read as German)"), "{}", error("1. Sf3 Sf6 2. Sf5"));
        let variation = "1. e4 (1. Sf3 Sf6) 1... e5 2. Sf3 *";
        let game = String::from_utf8(written(&read_game(variation.as_bytes()).unwrap())).unwrap();
        assert_eq!(game, "1. e4 (1. Nf3 Nf6) 1... e5 2. Nf3 *\n\n");
    }

    #[test]
    fn null_moves_pass_in_the_main_line_and_in_variations() {
        let game = read_game(b"1. e4 -- 2. d4 Z0 (2... 0000 3. Bf4) 3. Nf3 @@@@ *").unwrap();
        assert_eq!(game.moves.iter().filter(|m| m.is_none()).count(), 3);
        assert_eq!(
            game.history.last().to_fen(),
            "rnbqkbnr/pppppppp/8/8/3PP3/5N2/PPP2PPP/RNBQKB1R w KQkq - 3 4"
        );
        let text = String::from_utf8(written(&game)).unwrap();
        assert_eq!(text, "1. e4 -- 2. d4 -- (2... -- 3. Bf4) 3. Nf3 -- *\n\n");
    }

    #[test]
    fn chess960_is_read_by_its_tags() {
        let game = read_game(
            b"[Variant \"chess 960\"]\n[FEN \"4k3/8/8/8/8/8/8/1R3K1R w HB - 0 1\"]\n\n1. O-O Kd7 *",
        )
        .unwrap();
        assert!(game.chess960);
        assert!(game.history.last().to_fen().starts_with("8/3k4/8/8/8/8/8/1R3RK1 w"));
    }

    #[test]
    fn tags_are_read_with_any_writing_of_quotes_and_in_any_encoding() {
        let game = read_game(
            b"[Event \"5th \"X\" Open\"] [White \"M\xfcller\"]\n[Site \"C:\\games\\\"]\n\n1. e4 {\xe4} *",
        )
        .unwrap();
        assert_eq!(game.tag("event").as_deref(), Some("5th \"X\" Open"));
        assert_eq!(game.tag("White").as_deref(), Some("Müller"));
        assert_eq!(game.tag("Site").as_deref(), Some("C:\\games\\"));
        assert_eq!(game.moves.len(), 1);
        let text = written(&game);
        assert!(text.starts_with(
            b"[Event \"5th \\\"X\\\" Open\"]\n[White \"M\xfcller\"]\n[Site \"C:\\games\\\\\"]\n"
        ));
        assert_eq!(read_game(&text).unwrap().tags, game.tags);
    }
}
