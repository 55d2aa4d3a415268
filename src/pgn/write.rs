//! Writes a game, with everything that was read.

use super::game::{Game, Line, Note};
use rukh_chess::Color;

/// The longest line of the moves, in bytes. A comment is never broken.
const LINE_LENGTH: usize = 80;

/// The text of a game, with an empty line at its end.
pub fn text(game: &Game) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in &game.tags {
        for part in [b"[".as_slice(), name, b" \"", value, b"\"]\n"] {
            text.extend_from_slice(part);
        }
    }
    if !game.tags.is_empty() {
        text.push(b'\n');
    }
    let start = game.history.positions().first().map_or(0, |position| {
        let is_black = position.side_to_move() == Color::Black;
        u64::from(position.game_ply() / 2) * 2 + u64::from(is_black)
    });
    let mut words = Words { text, column: 0, has_open_bracket: false };
    words.line(&game.line, start);
    // The standard asks for a result, and without one the next game would seem to belong to this one.
    words.word(game.result.unwrap_or("*").as_bytes());
    words.text.extend_from_slice(b"\n\n");
    words.text
}

struct Words {
    text: Vec<u8>,
    column: usize,
    /// Whether the next word begins with a parenthesis.
    has_open_bracket: bool,
}

impl Words {
    fn word(&mut self, word: &[u8]) {
        let bracket: &[u8] = if std::mem::take(&mut self.has_open_bracket) { b"(" } else { b"" };
        let length = bracket.len() + word.len();
        if self.column > 0 && self.column + 1 + length > LINE_LENGTH {
            self.text.push(b'\n');
            self.column = 0;
        } else if self.column > 0 {
            self.text.push(b' ');
            self.column += 1;
        }
        self.text.extend_from_slice(bracket);
        self.text.extend_from_slice(word);
        self.column += length;
    }

    /// Writes a line whose first move is made after `ply` plies.
    fn line(&mut self, line: &Line, ply: u64) {
        self.notes(&line.before, ply);
        let mut needs_number = true;
        for (ply, played) in (ply..).zip(&line.plies) {
            let is_white = ply % 2 == 0;
            if is_white || needs_number {
                let dots = if is_white { "." } else { "..." };
                self.word(format!("{}{dots}", ply / 2 + 1).as_bytes());
            }
            self.word(played.san.to_string().as_bytes());
            self.notes(&played.notes, ply);
            needs_number = played.notes.iter().any(|note| !matches!(note, Note::Glyph(_)));
        }
    }

    /// Writes what follows the move that is made after `ply` plies.
    fn notes(&mut self, notes: &[Note], ply: u64) {
        for note in notes {
            match note {
                Note::Glyph(number) => self.word(format!("${number}").as_bytes()),
                Note::Comment(text) => self.word(&[b"{", text.as_slice(), b"}"].concat()),
                Note::Variation(line) => {
                    self.has_open_bracket = true;
                    self.line(line, ply);
                    // A variation without moves has had no word.
                    if self.has_open_bracket {
                        self.word(b"");
                    }
                    self.text.push(b')');
                    self.column += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read_game;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_game_is_written_as_it_was_read() {
        let text_of = |read: &str| String::from_utf8(text(&read_game(read.as_bytes()).unwrap())).unwrap();
        let same = "[Event \"a \\\"b\\\"\"]\n[Site \"?\"]\n\n{start} 1. e4 $1 $14 {good} (1. d4 {or} 1... d5 (1... Nf6 $6) 2. c4) \
                    1... e5 2. Nf3 1-0\n\n";
        let written = text_of(same);
        assert_eq!(written.replace('\n', " "), same.replace('\n', " "));
        assert!(written.lines().all(|line| line.len() <= LINE_LENGTH));
        assert_eq!(text_of(&written), written);
        // Comments to the end of a line, glyphs of signs, empty lines and null moves.
        assert_eq!(
            text_of("1. e4! ; to {the} end\n\n% escaped\n1... e5 (1... Z0 2. d4) 2. Nf3?? *\n")
                .replace('\n', " "),
            "1. e4 $1 { to {the) end} 1... e5 (1... -- 2. d4) 2. Nf3 $4 *  "
        );
    }

    #[test]
    fn the_highest_move_numbers_are_written_for_the_right_side() {
        for (side, number) in [("w", "2147483648."), ("b", "2147483648...")] {
            let start = format!("[FEN \"4k3/8/8/8/8/8/4P3/4K3 {side} - - 0 4294967295\"]\n\n");
            let king = if side == "w" { "Kd2 Kd8 Ke3" } else { "Kd8 Kd2 Ke7" };
            let written = text(&read_game(format!("{start}{king} *").as_bytes()).unwrap());
            let shown = String::from_utf8_lossy(&written).into_owned();
            assert!(shown.contains(&format!("{number} K")), "{shown}");
            assert_eq!(text(&read_game(&written).unwrap()), written);
        }
    }

    /// Random games: a list of numbers chooses the moves and what stands between them.
    fn line(choices: &mut dyn Iterator<Item = u8>, start: &rukh_chess::Position, depth: u32) -> Line {
        let mut position = start.clone();
        let mut made = Line::default();
        for _ in 0..12 {
            let moves = position.legal_moves();
            let Some(choice) = choices.next() else { break };
            if moves.is_empty() || choice > 240 {
                break;
            }
            let m = moves[usize::from(choice) % moves.len()];
            let mut notes = Vec::new();
            for _ in 0..choices.next().unwrap_or(0) % 4 {
                let choice = choices.next().unwrap_or(0);
                notes.push(match choice % 3 {
                    0 => Note::Glyph(choice),
                    1 => Note::Comment(match choice % 5 {
                        0 => b"[%clk 1:02:03] a (b) $1 1-0 ;x".to_vec(),
                        1 => Vec::new(),
                        2 => b"two\n\nlines [\n[Site \"x\"]".to_vec(),
                        3 => b"latin-1: \xe4\xf6".to_vec(),
                        _ => vec![b'x'; 3000],
                    }),
                    _ if depth == 0 => Note::Glyph(choice),
                    _ => Note::Variation(line(choices, &position, depth - 1)),
                });
            }
            made.plies.push(Ply { san: position.san(m), notes });
            position = position.play(m);
        }
        made
    }

    use super::super::game::Ply;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn games_with_comments_glyphs_and_variations_survive(
            choices in proptest::collection::vec(any::<u8>(), 0..200),
            tags in proptest::collection::vec(("[A-Z][a-z]{1,8}[0-9]", "[a-zA-Z0-9 ,.äß(){};%]{0,20}"), 0..4),
        ) {
            let mut game = read_game(b"*").unwrap();
            for (name, value) in &tags {
                game.add_tag(name, value);
            }
            game.line = line(&mut choices.into_iter(), &rukh_chess::Position::startpos(), 3);
            let written = text(&game);
            let read = read_game(&written).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&read.line, &game.line);
            prop_assert_eq!(&read.tags, &game.tags);
            prop_assert_eq!(read.result, game.result);
            prop_assert_eq!(text(&read), written);
        }
    }
}
