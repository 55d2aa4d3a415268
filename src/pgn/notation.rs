//! What the word for a move says.
//!
//! People write moves in many ways: `Nf3`, `Ng1-f3`, `g1f3`, `♘f3`, `Sf3`, `e:d5`, `ed5`, `exd6e.p.`, `b8=Q`, `b8Q`,
//! `b8(Q)`, `b8/Q`, `0-0`, `o-o`. A word is read without a position, and [`Pattern::find`] then finds the legal move.

use super::signs::{Signs, read_signs};
use rukh_chess::{Move, Position, Role, Square, uci_move};
use shakmaty::{CastlingSide, File, Rank};

/// The letters of the pieces in a language.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Language {
    pub(super) name: &'static str,
    letters: &'static [(char, Role)],
}

/// The language of the standard, in which a pawn has no letter.
pub(super) const ENGLISH: Language = Language {
    name: "English",
    letters: &[
        ('K', Role::King),
        ('Q', Role::Queen),
        ('R', Role::Rook),
        ('B', Role::Bishop),
        ('N', Role::Knight),
    ],
};

/// The other languages.
pub(super) const OTHERS: [Language; 5] = [
    Language {
        name: "English with a letter for pawns",
        letters: &[
            ('K', Role::King),
            ('Q', Role::Queen),
            ('R', Role::Rook),
            ('B', Role::Bishop),
            ('N', Role::Knight),
            ('P', Role::Pawn),
        ],
    },
    Language {
        name: "German",
        letters: &[
            ('K', Role::King),
            ('D', Role::Queen),
            ('T', Role::Rook),
            ('L', Role::Bishop),
            ('S', Role::Knight),
        ],
    },
    Language {
        name: "French",
        letters: &[
            ('R', Role::King),
            ('D', Role::Queen),
            ('T', Role::Rook),
            ('F', Role::Bishop),
            ('C', Role::Knight),
            ('P', Role::Pawn),
        ],
    },
    Language {
        name: "Spanish",
        letters: &[
            ('R', Role::King),
            ('D', Role::Queen),
            ('T', Role::Rook),
            ('A', Role::Bishop),
            ('C', Role::Knight),
            ('P', Role::Pawn),
        ],
    },
    Language {
        name: "Dutch",
        letters: &[
            ('K', Role::King),
            ('D', Role::Queen),
            ('T', Role::Rook),
            ('L', Role::Bishop),
            ('P', Role::Knight),
        ],
    },
];

/// The figurines of both colours, which are the same in every language.
const FIGURINES: [(char, char, Role); 6] = [
    ('♔', '♚', Role::King),
    ('♕', '♛', Role::Queen),
    ('♖', '♜', Role::Rook),
    ('♗', '♝', Role::Bishop),
    ('♘', '♞', Role::Knight),
    ('♙', '♟', Role::Pawn),
];

/// The null moves of ChessBase, Scid, UCI and older programs.
const NULL_MOVES: [&str; 6] = ["--", "––", "——", "Z0", uci_move::NULL_MOVE, "@@@@"];

impl Language {
    fn piece(&self, letter: char) -> Option<Role> {
        let of_language = self.letters.iter().find(|(own, _)| *own == letter).map(|(_, role)| *role);
        let figurine = FIGURINES.iter().find(|(white, black, _)| [*white, *black].contains(&letter));
        of_language.or(figurine.map(|(_, _, role)| *role))
    }
}

/// The move that a word describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pattern {
    Null,
    Castle(CastlingSide),
    Piece(PiecePattern),
}

/// A move of a piece, as far as its word says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PiecePattern {
    /// `None` if there is no letter. Then it is a pawn, or any piece if both squares are named.
    role: Option<Role>,
    from_file: Option<File>,
    from_rank: Option<Rank>,
    to: Square,
    promotion: Option<Role>,
    is_capture: bool,
}

/// Why a word has no legal move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoMove {
    Illegal,
    /// Several pieces can make the move.
    Ambiguous,
}

/// Reads a word without its move number: the move and the signs behind it. `None` if it is not a move in this language.
pub(super) fn read_move(word: &str, language: &Language) -> Option<(Pattern, Signs)> {
    // No move has more characters than that, so that a long word is refused at once.
    const LONGEST: usize = 60;
    if word.len() > LONGEST {
        return None;
    }
    if let Some(null) = NULL_MOVES.iter().find(|null| word.starts_with(**null))
        && let Some(signs) = read_signs(&word[null.len()..])
    {
        return Some((Pattern::Null, signs));
    }
    let letters: Vec<char> = word.chars().collect();
    let readings = castling(&letters).into_iter().chain(piece_moves(&letters, language));
    readings.into_iter().find_map(|(pattern, length)| {
        let rest: String = letters[length..].iter().collect();
        read_signs(&rest).map(|signs| (pattern, signs))
    })
}

fn is_dash(letter: char) -> bool {
    // Hyphen-minus, hyphen, non-breaking hyphen, figure dash, en dash, em dash, minus.
    matches!(letter, '-' | '\u{2010}'..='\u{2014}' | '\u{2212}')
}

fn is_capture_sign(letter: char) -> bool {
    matches!(letter, 'x' | 'X' | ':' | '×')
}

/// Castling at the beginning of a word, and its length; the longer one first.
fn castling(letters: &[char]) -> Vec<(Pattern, usize)> {
    let is_rook = |index: usize| letters.get(index).is_some_and(|letter| matches!(letter, 'O' | 'o' | '0'));
    let follows = |index: usize| letters.get(index).copied().is_some_and(is_dash) && is_rook(index + 1);
    match (is_rook(0) && follows(1), follows(3)) {
        (true, true) => {
            vec![(Pattern::Castle(CastlingSide::QueenSide), 5), (Pattern::Castle(CastlingSide::KingSide), 3)]
        }
        (true, false) => vec![(Pattern::Castle(CastlingSide::KingSide), 3)],
        (false, _) => Vec::new(),
    }
}

/// All ways to read a move of a piece at the beginning of a word, and their lengths. A way that uses more of the word
/// comes first.
fn piece_moves(letters: &[char], language: &Language) -> Vec<(Pattern, usize)> {
    let role = letters.first().and_then(|&letter| language.piece(letter));
    let start = usize::from(role.is_some());
    let file = |index: usize| letters.get(index).and_then(|&letter| File::from_char(letter));
    let rank = |index: usize| letters.get(index).and_then(|&letter| Rank::from_char(letter));
    let mut found = Vec::new();
    for (has_file, has_rank) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut at = start;
        let from_file = has_file.then(|| file(at));
        at += usize::from(has_file);
        let from_rank = has_rank.then(|| rank(at));
        at += usize::from(has_rank);
        if from_file == Some(None) || from_rank == Some(None) {
            continue;
        }
        let separator = letters.get(at).copied().filter(|&letter| is_dash(letter) || is_capture_sign(letter));
        at += usize::from(separator.is_some());
        let (Some(to_file), Some(to_rank)) = (file(at), rank(at + 1)) else { continue };
        at += 2;
        // A pawn's move begins with its file or its square, and a rank says nothing about it.
        let is_bare = role.is_none() && !has_file;
        if is_bare && (separator.is_some() || has_rank) {
            continue;
        }
        let is_pawn = matches!(role, None | Some(Role::Pawn));
        let mut pattern = PiecePattern {
            role,
            from_file: from_file.flatten(),
            from_rank: from_rank.flatten(),
            to: Square::from_coords(to_file, to_rank),
            promotion: None,
            is_capture: separator.is_some_and(is_capture_sign),
        };
        if is_pawn
            && matches!(to_rank, Rank::First | Rank::Eighth)
            && let Some((promotion, length)) = promotion(&letters[at..], language)
        {
            pattern.promotion = Some(promotion);
            found.push((Pattern::Piece(pattern), at + length));
            pattern.promotion = None;
        }
        found.push((Pattern::Piece(pattern), at));
    }
    found
}

/// The piece that a pawn becomes, and how many letters say it: `=Q`, `Q`, `/Q`, `(Q)`, `[Q]`, `=(Q)`.
fn promotion(letters: &[char], language: &Language) -> Option<(Role, usize)> {
    let sign = usize::from(matches!(letters.first(), Some('=' | '/')));
    let close = match letters.get(sign) {
        Some('(') => Some(')'),
        Some('[') => Some(']'),
        _ => None,
    };
    let at = sign + usize::from(close.is_some());
    let letter = *letters.get(at)?;
    let role = language.piece(letter).or_else(|| language.piece(letter.to_ascii_uppercase()))?;
    let is_closed = close.is_none_or(|close| letters.get(at + 1) == Some(&close));
    let is_allowed = !matches!(role, Role::Pawn | Role::King);
    (is_closed && is_allowed).then_some((role, at + 1 + usize::from(close.is_some())))
}

impl Pattern {
    /// The legal move of `position`. [`Pattern::Null`] has none.
    pub(super) fn find(self, position: &Position) -> Result<Move, NoMove> {
        match self {
            Pattern::Null => Err(NoMove::Illegal),
            Pattern::Castle(side) => {
                let mut moves = position.legal_moves().into_iter();
                moves.find(|m| m.castling_side() == Some(side)).ok_or(NoMove::Illegal)
            }
            Pattern::Piece(pattern) => pattern.find(position),
        }
    }
}

impl PiecePattern {
    fn find(self, position: &Position) -> Result<Move, NoMove> {
        let PiecePattern { role, from_file, from_rank, to, promotion, is_capture } = self;
        let is_meant = |m: &Move| !is_capture || m.is_capture();
        if let (Some(file), Some(rank)) = (from_file, from_rank) {
            let found = uci_move::find(position, Square::from_coords(file, rank), to, promotion);
            let found = found.filter(|m| is_meant(m) && role.is_none_or(|role| role == m.role()));
            return found.ok_or(NoMove::Illegal);
        }
        let is_meant = |m: &Move| {
            is_meant(m)
                && !m.is_castle()
                && m.role() == role.unwrap_or(Role::Pawn)
                && m.to() == to
                && m.promotion() == promotion
                && from_file.is_none_or(|file| m.from().is_some_and(|from| from.file() == file))
                && from_rank.is_none_or(|rank| m.from().is_some_and(|from| from.rank() == rank))
                // `d5` is not the capture that `ed5` is.
                && (role.is_some() || from_file.is_some() || !m.is_capture())
        };
        let moves = position.legal_moves();
        let mut meant = moves.iter().filter(|m| is_meant(m));
        match (meant.next(), meant.next()) {
            (Some(&m), None) => Ok(m),
            (None, _) => Err(NoMove::Illegal),
            (Some(_), Some(_)) => Err(NoMove::Ambiguous),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The UCI text of the move that a word means.
    fn found(fen: &str, word: &str, language: &Language) -> Option<String> {
        let position = Position::from_fen(fen).unwrap();
        let (pattern, _) = read_move(word, language)?;
        pattern.find(&position).ok().map(|m| uci_move::text(m, false))
    }

    const OPENING: &str = "r3k2r/pp2ppbp/2np1np1/q1pP4/4P3/2N2N2/PP2BPPP/R1BQK2R w KQkq c6 0 9";
    const PROMOTION: &str = "2r1k3/1P1P4/8/8/8/8/8/4K3 w - - 0 1";

    #[test]
    fn every_way_to_write_a_move_is_read() {
        for (fen, expected, words) in [
            (
                OPENING,
                "f3d4",
                &[
                    "Nd4", "Nf3-d4", "Nf3d4", "f3d4", "f3-d4", "N3d4", "Nfd4", "♘d4", "♞d4", "Nd4N", "Nd4□",
                    "Nd4!?", "Nd4+-", "N-d4", "Nf3—d4",
                ][..],
            ),
            (
                OPENING,
                "d5c6",
                &[
                    "dxc6", "d:c6", "dc6", "d5xc6", "d5c6", "dxc6e.p.", "dxc6ep", "dXc6", "d×c6", "♙dxc6",
                    "d-c6",
                ],
            ),
            (
                OPENING,
                "e1g1",
                &["O-O", "0-0", "o-o", "O–O", "0−0", "O-O!", "Ke1-g1", "e1g1", "Ke1g1", "e1h1", "Ke1xg1"]
                    [..10],
            ),
            (OPENING, "e4e5", &["e5", "e4-e5", "e4e5", "♙e5", "e5!", "e5="]),
            (
                PROMOTION,
                "b7b8q",
                &[
                    "b8=Q", "b8Q", "b8/Q", "b8(Q)", "b8[Q]", "b8=(Q)", "b8q", "b7b8q", "b7-b8=Q", "b8♕",
                    "b8=♛", "b8Q!", "b8=Q=",
                ],
            ),
            (PROMOTION, "b7c8n", &["bxc8=N", "bc8N", "b:c8N+", "bxc8(n)", "b7xc8/N"]),
            (PROMOTION, "d7c8r", &["dxc8=R+", "dc8R", "d7c8r"]),
            (PROMOTION, "d7d8b", &["d8=B", "d8B"]),
        ] {
            for word in words {
                assert_eq!(found(fen, word, &ENGLISH).as_deref(), Some(expected), "{word}");
            }
        }
    }

    #[test]
    fn what_is_no_move_or_says_something_else_is_refused() {
        for (fen, words) in [
            (
                OPENING,
                &[
                    "Qq5", "e9", "", "N", "Nf", "nd4", "Nxd4", "exe5", "c6", "xd4", "3d4", "O-O-O", "O-",
                    "OO", "Nd4x", "Nd4n", "Bf3", "Kg1", "d6", "bd4", "Pe5", "Sd4", "e4xe5",
                ][..],
            ),
            (PROMOTION, &["b8", "b8=", "b8=K", "b8=P", "c8=Q", "b8(Q", "d8(X)", "b8Z", "b7b8"]),
            // Both knights.
            ("4k3/8/8/8/8/2N5/8/4K1N1 w - - 0 1", &["Ne2", "N-e2"]),
        ] {
            for word in words {
                assert_eq!(found(fen, word, &ENGLISH), None, "{word}");
            }
        }
        assert_eq!(read_move(&"x".repeat(1000), &ENGLISH), None);
    }

    #[test]
    fn each_language_has_its_letters() {
        let names = |word: &str| -> Vec<&str> {
            let languages = [&ENGLISH].into_iter().chain(&OTHERS);
            languages
                .filter(|language| found(OPENING, word, language).is_some())
                .map(|language| language.name)
                .collect()
        };
        assert_eq!(names("Nd4"), ["English", "English with a letter for pawns"]);
        assert_eq!(names("Sd4"), ["German"]);
        assert_eq!(names("Cd4"), ["French", "Spanish"]);
        assert_eq!(names("Pd4"), ["Dutch"]);
        assert_eq!(names("Lb5"), ["German", "Dutch"]);
        assert_eq!(names("Fb5"), ["French"]);
        assert_eq!(names("Ab5"), ["Spanish"]);
        assert_eq!(names("Rf1"), ["English", "English with a letter for pawns", "French", "Spanish"]);
        assert_eq!(names("Db3"), ["German", "French", "Spanish", "Dutch"]);
    }

    #[test]
    fn null_moves_have_several_names() {
        for word in ["--", "Z0", "0000", "@@@@", "––", "--!"] {
            assert_eq!(read_move(word, &ENGLISH).map(|(pattern, _)| pattern), Some(Pattern::Null), "{word}");
        }
    }
}
