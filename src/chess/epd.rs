//! Lines of EPD (Extended Position Description), and FENs.
//!
//! An EPD line has the first four fields of a FEN, and then operations: an opcode, its operands and a semicolon. The
//! standard is in section 16.2 of the PGN specification.

/// A line of EPD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Epd {
    /// The position as a FEN. Its counters come from the operations `hmvc` and `fmvn`, or from the fields 5 and 6 of a
    /// line that is a FEN.
    pub fen: String,
    /// The operations: opcode and operands, as they are in the line.
    pub operations: Vec<(String, String)>,
}

impl Epd {
    /// Splits a line. It is not checked that the position can be played.
    pub fn parse(line: &str) -> Epd {
        let (board, rest) = fields(line, 4);
        let (counters, after_counters) = fields(rest, 2);
        let counters: Vec<u32> = counters.iter().filter_map(|field| field.parse().ok()).collect();
        let is_fen = counters.len() == 2;
        let operations = operations(if is_fen { after_counters } else { rest });
        let operand = |name: &str| {
            let found = operations.iter().find(|(opcode, _)| opcode == name);
            found.and_then(|(_, operand)| operand.parse::<u32>().ok())
        };
        let (rule50, move_number) = match counters[..] {
            [rule50, move_number] => (rule50, move_number),
            _ => (operand("hmvc").unwrap_or(0), operand("fmvn").unwrap_or(1)),
        };
        Epd { fen: format!("{} {rule50} {move_number}", board.join(" ")), operations }
    }
}

/// The first `count` words of a text, and what follows them.
fn fields(text: &str, count: usize) -> (Vec<&str>, &str) {
    let (mut words, mut rest) = (Vec::new(), text.trim_start());
    while words.len() < count && !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    (words, rest)
}

/// The operations of a line. A semicolon in quotes ends none.
fn operations(text: &str) -> Vec<(String, String)> {
    let (mut operations, mut start, mut is_quoted) = (Vec::new(), 0, false);
    let ends = text.char_indices().filter(|&(_, character)| {
        is_quoted ^= character == '"';
        character == ';' && !is_quoted
    });
    let ends: Vec<usize> = ends.map(|(index, _)| index).chain([text.len()]).collect();
    for end in ends {
        let operation = text[start.min(end)..end].trim();
        start = end + 1;
        if let Some(opcode) = operation.split_whitespace().next() {
            operations.push((opcode.to_owned(), operation[opcode.len()..].trim_start().to_owned()));
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARD: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq -";

    #[test]
    fn counters_come_from_the_fields_or_from_the_operations() {
        assert_eq!(Epd::parse(&format!("{BOARD} 3 9")).fen, format!("{BOARD} 3 9"));
        assert_eq!(Epd::parse(&format!("{BOARD} hmvc 4; fmvn 7; id \"x\";")).fen, format!("{BOARD} 4 7"));
        assert_eq!(Epd::parse(BOARD).fen, format!("{BOARD} 0 1"));
    }

    #[test]
    fn operations_are_split_at_semicolons_outside_of_quotes() {
        let parsed = Epd::parse(&format!("{BOARD}  bm Nf3 e4; id \"a; b\"; noop"));
        let expected = [("bm", "Nf3 e4"), ("id", "\"a; b\""), ("noop", "")];
        let found: Vec<_> = parsed.operations.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, expected);
        let fen = Epd::parse(&format!("{BOARD} 0 1 bm e5;"));
        assert_eq!(fen.operations, [("bm".to_owned(), "e5".to_owned())]);
    }
}
