//! Games whose moves are written in many ways: the reader must find exactly the game from which the text was made.

use super::game::{Game, Note};
use super::read::read_game;
use proptest::prelude::*;
use rukh_chess::{Move, Position, Role, uci_move};
use shakmaty::san::{San, SanPlus};
use shakmaty::{CastlingSide, Rank};

/// The letters of king, queen, rook, bishop and knight.
const ALPHABETS: [&str; 5] = ["KQRBN", "KDTLS", "RDTFC", "RDTAC", "KDTLP"];
const FIGURINES: &str = "♔♕♖♗♘";

fn letter(role: Role, alphabet: &str) -> String {
    let index =
        [Role::King, Role::Queen, Role::Rook, Role::Bishop, Role::Knight].iter().position(|&r| r == role);
    index.and_then(|index| alphabet.chars().nth(index)).map(String::from).unwrap_or_default()
}

/// The word for a move in one of many styles.
fn word(position: &Position, m: Move, alphabet: &str, choice: &mut dyn FnMut(usize) -> usize) -> String {
    let san = SanPlus::from_move(position.board().clone(), m);
    if let Some(side) = m.castling_side() {
        let style = ["O-O", "0-0", "o-o", "O–O", "0−0"][choice(5)];
        let second: String = style.chars().skip(1).collect();
        let long = if side == CastlingSide::QueenSide { second.as_str() } else { "" };
        return match choice(4) {
            0 => uci_move::text(m, false),
            _ => format!("{style}{long}"),
        };
    }
    let (Some(from), to) = (m.from(), m.to()) else { return san.to_string() };
    let alphabet = if choice(6) == 0 { FIGURINES } else { alphabet };
    let piece = letter(m.role(), alphabet);
    let promoted = m.promotion().map(|role| letter(role, alphabet)).unwrap_or_default();
    let promotion = match (m.promotion(), choice(6)) {
        (None, _) => String::new(),
        (_, 0) => promoted,
        (_, 1) => format!("/{promoted}"),
        (_, 2) => format!("({promoted})"),
        (_, 3) => format!("=({promoted})"),
        _ => format!("={promoted}"),
    };
    let sign = match (m.is_capture(), choice(3)) {
        (true, 0) => "x",
        (true, 1) => ":",
        (true, _) => "×",
        (false, _) => "",
    };
    let squares = |separator: &str| format!("{from}{separator}{to}");
    let capture_or_dash = if m.is_capture() { sign } else { ["-", "–"][choice(2)] };
    let short = || match san.san {
        San::Normal { file, rank, .. } => {
            let file = file.map(|file| file.char().to_string()).unwrap_or_default();
            let rank = rank.map(|rank| rank.char().to_string()).unwrap_or_default();
            let sign = if choice_of_pawn_capture(m, &file) { "" } else { sign };
            format!("{piece}{file}{rank}{sign}{to}")
        }
        _ => san.san.to_string(),
    };
    let body = match choice(6) {
        0 => format!("{piece}{}", squares(capture_or_dash)),
        1 => format!("{piece}{}", squares("")),
        2 => squares(capture_or_dash),
        3 => squares(""),
        _ => short(),
    };
    let remark = if m.is_en_passant() { ["", "e.p.", "ep"][choice(3)] } else { "" };
    let check = san.suffix.map_or("", |_| ["+", "++", "#", "", "+#"][choice(5)]);
    // Without a letter for the piece, an `N` on the last rank is a promotion.
    let new = if to.rank() == Rank::First || to.rank() == Rank::Eighth { "" } else { "N" };
    let judged = ["", "!", "?!", "±", new, "□", "!!"][choice(7)];
    format!("{body}{promotion}{remark}{check}{judged}")
}

/// `ed5` says what `exd5` says.
fn choice_of_pawn_capture(m: Move, file: &str) -> bool {
    m.role() == Role::Pawn && !file.is_empty() && m.to().rank() == Rank::Fifth
}

/// A game by numbers, as words and as moves.
fn game(choices: &[u8], start: &Position, alphabet: &str) -> (Vec<String>, Vec<Move>) {
    let mut next = 0;
    let mut choice = |count: usize| {
        next += 1;
        choices.get(next).map_or(0, |&byte| usize::from(byte) % count)
    };
    let (mut position, mut words, mut played) = (start.clone(), Vec::new(), Vec::new());
    for _ in 0..choices.len() / 12 {
        let moves = position.legal_moves();
        if moves.is_empty() {
            break;
        }
        // Captures and promotions are rare otherwise.
        let rare: Vec<Move> =
            moves.iter().copied().filter(|m| m.is_promotion() || m.is_capture() || m.is_castle()).collect();
        let m = if rare.is_empty() || choice(2) == 0 {
            moves[choice(moves.len())]
        } else {
            rare[choice(rare.len())]
        };
        words.push(word(&position, m, alphabet, &mut choice));
        played.push(m);
        position = position.play(m);
    }
    (words, played)
}

fn text(start: &Position, words: &[String], numbers: usize) -> String {
    let mut text = format!("[FEN \"{}\"]\n\n", start.to_fen());
    for (index, word) in words.iter().enumerate() {
        let ply = start.game_ply() as usize + index;
        let number = ply / 2 + 1;
        match (ply % 2, numbers % 4) {
            (0, 0) => text.push_str(&format!("{number}. {word} ")),
            (0, 1) => text.push_str(&format!("{number}.{word}\n")),
            (0, 2) => text.push_str(&format!("{number} {word} ")),
            (1, 3) => text.push_str(&format!("{number}... {word} ")),
            _ => text.push_str(&format!("{word} ")),
        }
    }
    text + "*\n"
}

fn moves(game: &Game) -> Vec<Move> {
    game.moves.iter().copied().flatten().collect()
}

const STARTS: [&str; 4] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1",
    "rnb1kbnr/ppp1pppp/8/2qpP3/8/2N5/PPPP1PPP/R1BQKBNR w KQkq d6 0 4",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn a_game_is_the_same_however_its_moves_are_written(
        choices in proptest::collection::vec(any::<u8>(), 0..300),
        start in 0..STARTS.len(),
        alphabet in 0..ALPHABETS.len(),
        numbers in 0..4_usize,
    ) {
        let start = Position::from_fen(STARTS[start]).unwrap();
        let (words, played) = game(&choices, &start, ALPHABETS[alphabet]);
        // A king in French and Spanish may be a rook in English, which comes first.
        let letters: String = words.concat().chars().filter(|letter| letter.is_ascii_uppercase()).collect();
        prop_assume!(!ALPHABETS[alphabet].starts_with('R') || letters.contains(['D', 'T', 'F', 'C', 'A']) || !letters.contains('R'));
        let text = text(&start, &words, numbers);
        match read_game(text.as_bytes()) {
            Ok(game) => prop_assert_eq!(moves(&game), played, "{}", text),
            // A letter that is a knight in Dutch and a pawn in English may leave two readings of a short game.
            Err(error) => prop_assert!(error.contains("in two languages and not the same"), "{}: {}", error, text),
        }
    }

    /// A character that is lost, doubled or replaced in one word gives a refusal, or one move for each word.
    #[test]
    fn no_damaged_word_is_passed_over(
        choices in proptest::collection::vec(any::<u8>(), 30..200),
        start in 0..STARTS.len(),
        place in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        kind in 0..3,
        other in prop::sample::select("abcdefgh12345678KQRBNxO0+#=?.-&~@".chars().collect::<Vec<_>>()),
        inside_variation in any::<bool>(),
    ) {
        let start = Position::from_fen(STARTS[start]).unwrap();
        let (mut words, played) = game(&choices, &start, ALPHABETS[0]);
        prop_assume!(!words.is_empty());
        let index = place.index(words.len());
        let mut letters: Vec<char> = words[index].chars().collect();
        let position = at.index(letters.len());
        match kind {
            0 => _ = letters.remove(position),
            1 => letters.insert(position, other),
            _ => letters[position] = other,
        }
        words[index] = letters.into_iter().collect();
        prop_assume!(!words[index].is_empty());
        let mut text = text(&start, &words, 0);
        if inside_variation {
            // The first move again, and then the damaged game as its variation.
            let moves = text.split_once("\n\n").map(|(_, moves)| moves.trim_end_matches("*\n").to_owned()).unwrap_or_default();
            let first = uci_move::text(played[0], true);
            text = format!("[FEN \"{}\"]\n\n{first} ({moves}) *", start.to_fen());
        }
        let Ok(game) = read_game(text.as_bytes()) else { return Ok(()) };
        let plies = match (inside_variation, game.line.plies.first().map(|ply| ply.notes.as_slice())) {
            (true, Some([.., Note::Variation(line)])) => &line.plies,
            (true, _) => panic!("the variation is lost: {text}"),
            (false, _) => &game.line.plies,
        };
        // A word may have become a sign of the move before it, or a move number.
        let is_other = words[index].chars().all(|letter| "+#=?!N±□.0123456789-".contains(letter)) || words[index] == "*";
        let expected = words.len() - usize::from(is_other && plies.len() < words.len());
        prop_assert_eq!(plies.len(), expected, "{}", text);
        // The words that were not damaged lead to the squares that they name.
        for (index_of_ply, (ply, m)) in plies.iter().zip(&played).enumerate() {
            let is_sound = index_of_ply != index && plies.len() == words.len();
            if let San::Normal { to, .. } = ply.san.san
                && is_sound
            {
                prop_assert_eq!(to, m.to(), "{}", text);
            }
        }
    }
}

#[test]
fn a_word_that_nobody_understands_refuses_the_game_wherever_it_stands() {
    for junk in
        ["Qq5", "xyz", "]", "<1>", "e9", "N", "novelty", "...e", "&", "\u{fffd}", "1-1", "--x", "e4e", "9"]
    {
        for text in [
            format!("{junk}x 1. e4 e5 *"),
            format!("1. e4 {junk}x e5 *"),
            format!("1. e4 (1. d4 {junk}x d5) e5 *"),
            format!("1. e4 e5 {junk}x"),
            format!("1. e4 e5 {junk}x *"),
        ] {
            let error = read_game(text.as_bytes()).expect_err(&text);
            assert!(error.contains(&format!("{junk}x")), "{text}: {error}");
        }
    }
}
