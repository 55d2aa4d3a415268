//! What may stand behind a move: signs of check and mate, remarks such as `e.p.`, and signs that judge.
//!
//! The numbers of the glyphs are in section 10 of the PGN specification. A few above 139 are in use by ChessBase, Scid
//! and python-chess.

use rukh_chess::Color;

/// What a sign means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    /// Check or mate, which the move itself says.
    Check,
    /// The move captures en passant.
    EnPassant,
    /// A numeric annotation glyph.
    Glyph(u8),
    /// A glyph that has one number for each side.
    OfSide(u8, u8),
}

use Meaning::{Check, EnPassant, Glyph, OfSide};

/// All signs. `+-+` is a check and the sign `-+`, because no check follows a judgement.
const SIGNS: [(&str, Meaning); 54] = [
    ("!", Glyph(1)),
    ("?", Glyph(2)),
    ("!!", Glyph(3)),
    ("‼", Glyph(3)),
    ("??", Glyph(4)),
    ("⁇", Glyph(4)),
    ("!?", Glyph(5)),
    ("⁉", Glyph(5)),
    ("?!", Glyph(6)),
    ("⁈", Glyph(6)),
    ("□", Glyph(7)),
    ("=", Glyph(10)),
    ("∞", Glyph(13)),
    ("+=", Glyph(14)),
    ("+/=", Glyph(14)),
    ("⩲", Glyph(14)),
    ("=+", Glyph(15)),
    ("=/+", Glyph(15)),
    ("⩱", Glyph(15)),
    ("+/-", Glyph(16)),
    ("±", Glyph(16)),
    ("-/+", Glyph(17)),
    ("∓", Glyph(17)),
    ("+-", Glyph(18)),
    ("+−", Glyph(18)),
    ("+–", Glyph(18)),
    ("-+", Glyph(19)),
    ("−+", Glyph(19)),
    ("–+", Glyph(19)),
    ("+-+", Glyph(19)),
    ("⨀", OfSide(22, 23)),
    ("⟳", OfSide(32, 33)),
    ("↑", OfSide(36, 37)),
    ("→", OfSide(40, 41)),
    ("=/∞", OfSide(44, 45)),
    ("=∞", OfSide(44, 45)),
    ("⇆", OfSide(132, 133)),
    ("⊕", OfSide(138, 139)),
    ("∆", Glyph(140)),
    ("△", Glyph(140)),
    ("⌓", Glyph(142)),
    ("N", Glyph(146)),
    ("+", Check),
    ("#", Check),
    ("†", Check),
    ("‡", Check),
    ("ch", Check),
    ("check", Check),
    ("dbl", Check),
    ("dis", Check),
    ("mate", Check),
    ("ep", EnPassant),
    ("e.p", EnPassant),
    (".", Check),
];

/// The signs behind a move.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Signs {
    glyphs: Vec<(u8, u8)>,
    /// Whether they say that the move captures en passant.
    pub(super) is_en_passant: bool,
    /// Whether they say something about a move, so that they cannot stand alone.
    pub(super) needs_move: bool,
    /// Whether a word such as `ch` says that the move gives check.
    pub(super) says_check: bool,
}

impl Signs {
    /// The numbers of the glyphs after a move of `side`.
    pub(super) fn glyphs(&self, side: Color) -> impl Iterator<Item = u8> {
        self.glyphs.iter().map(move |&(white, black)| if side == Color::White { white } else { black })
    }
}

/// Reads `text`, which is all that stands behind a move. `None` if a part of it is not a sign.
pub(super) fn read_signs(text: &str) -> Option<Signs> {
    let mut signs = Signs::default();
    // A dot ends an abbreviation only.
    (!text.starts_with('.') && read_rest(text, &mut signs)).then_some(signs)
}

/// Reads the longest sign first, and a shorter one if the rest has no meaning then.
fn read_rest(text: &str, signs: &mut Signs) -> bool {
    // No move has more signs than that, so that a long word is refused at once.
    const LONGEST: usize = 40;
    if text.is_empty() || text.len() > LONGEST {
        return text.is_empty();
    }
    let mut begins: Vec<(usize, Meaning)> = SIGNS
        .iter()
        .filter(|(sign, _)| text.get(..sign.len()).is_some_and(|head| head.eq_ignore_ascii_case(sign)))
        .filter(|(sign, _)| *sign != "N" || text.starts_with('N'))
        .map(|&(sign, meaning)| (sign.len(), meaning))
        .collect();
    begins.sort_by_key(|&(length, _)| std::cmp::Reverse(length));
    begins.into_iter().any(|(length, meaning)| {
        let mut longer = signs.clone();
        match meaning {
            Check => {
                longer.needs_move = true;
                longer.says_check |= text.starts_with(|first: char| first.is_ascii_alphabetic());
            }
            EnPassant => (longer.needs_move, longer.is_en_passant) = (true, true),
            Glyph(number) => longer.glyphs.push((number, number)),
            OfSide(white, black) => longer.glyphs.push((white, black)),
        }
        let is_read = read_rest(&text[length..], &mut longer);
        if is_read {
            *signs = longer;
        }
        is_read
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_read_one_after_another() {
        let glyphs =
            |text: &str| read_signs(text).map(|signs| signs.glyphs(Color::Black).collect::<Vec<_>>());
        for (text, expected) in [
            ("", &[][..]),
            ("+", &[]),
            ("++", &[]),
            ("+#", &[]),
            ("mate", &[]),
            ("dbl.ch.", &[]),
            ("e.p.", &[]),
            ("!?", &[5]),
            ("+!", &[1]),
            ("+-", &[18]),
            ("++-", &[18]),
            ("+-+", &[19]),
            ("-+", &[19]),
            ("++/=", &[14]),
            ("#+−", &[18]),
            ("N", &[146]),
            ("N!", &[146, 1]),
            ("!□", &[1, 7]),
            ("→", &[41]),
            ("!!!", &[3, 1]),
        ] {
            assert_eq!(glyphs(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["n", "x", "-", "--", ".", "+x", "(", "e.", "epx", &"+".repeat(50)] {
            assert_eq!(glyphs(text), None, "{text}");
        }
        assert!(read_signs("e.p.+").unwrap().is_en_passant);
        assert!(read_signs("dbl.ch.").unwrap().says_check && !read_signs("+").unwrap().says_check);
        assert!(!read_signs("!").unwrap().needs_move && read_signs("+").unwrap().needs_move);
    }
}
