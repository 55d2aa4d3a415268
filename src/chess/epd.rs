//! Lines of EPD (Extended Position Description), and FENs.
//!
//! An EPD line has the first four fields of a FEN, and then operations: an opcode, its operands and a semicolon. The
//! standard is in section 16.2 of the PGN specification.

use rukh_base::quote::quoted;

/// A line of EPD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Epd {
    /// The position as a FEN. Its counters come from the operations `hmvc` and `fmvn`, or from the fields 5 and 6 of a
    /// line that is a FEN. A line that has fewer than four fields has no more here.
    pub fen: String,
    /// The operations: opcode and operands, as they are in the line.
    pub operations: Vec<(String, String)>,
}

/// What is wrong with the operations of a line. The text is already quoted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("bad EPD operation {0}: expected a name of letters and digits, operands and a semicolon")]
pub struct EpdError(String);

impl Epd {
    /// Splits a line. It is not checked that the position can be played.
    ///
    /// # Errors
    /// The name of an operation is no name.
    pub fn parse(line: &str) -> Result<Epd, EpdError> {
        let (fields, rest) = fields(line);
        let operations = operations(rest)?;
        let operand = |name: &str| {
            let found = operations.iter().find(|(opcode, _)| opcode.eq_ignore_ascii_case(name));
            found.map(|(_, operand)| operand.as_str())
        };
        let mut fen = fields.join(" ");
        let counters = [("hmvc", "0"), ("fmvn", "1")];
        for (name, default) in
            counters.iter().skip(fields.len().saturating_sub(4)).take_while(|_| fields.len() >= 4)
        {
            fen.push(' ');
            fen.push_str(operand(name).unwrap_or(default));
        }
        Ok(Epd { fen, operations })
    }
}

/// The fields of a FEN at the beginning of a text, and what follows them. After the fourth one only numbers and dashes
/// are fields. Some programs write a semicolon after the last one.
fn fields(text: &str) -> (Vec<&str>, &str) {
    let (mut fields, mut rest) = (Vec::new(), text.trim_start());
    while fields.len() < 6 && !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (field, is_last) = match rest[..end].strip_suffix(';') {
            Some(field) => (field, true),
            None => (&rest[..end], false),
        };
        let is_counter = field == "-" || !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
        if fields.len() >= 4 && !is_counter {
            break;
        }
        fields.push(field);
        rest = rest[end..].trim_start();
        if is_last {
            break;
        }
    }
    (fields, rest)
}

/// The operations of a line. A semicolon in quotes ends none.
fn operations(text: &str) -> Result<Vec<(String, String)>, EpdError> {
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
            let is_name = opcode.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name || !opcode.starts_with(|first: char| first.is_ascii_alphabetic()) {
                return Err(EpdError(quoted(operation)));
            }
            operations.push((opcode.to_owned(), operation[opcode.len()..].trim_start().to_owned()));
        }
    }
    Ok(operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARD: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq -";

    #[test]
    fn counters_come_from_the_fields_or_from_the_operations() {
        for (rest, counters) in [
            ("3 9", "3 9"),
            ("3 9; bm e5;", "3 9"),
            ("3", "3 1"),
            ("3 bm e5; fmvn 5;", "3 5"),
            ("- -", "- -"),
            ("hmvc 4; fmvn 7; id \"x\";", "4 7"),
            ("fmvn 7", "0 7"),
            ("", "0 1"),
        ] {
            let parsed = Epd::parse(&format!("{BOARD} {rest}")).unwrap();
            assert_eq!(parsed.fen, format!("{BOARD} {counters}"), "{rest}");
        }
        for few in ["8/8/8/8/8/8/8/8", "8/8/8/8/8/8/8/8 w", "8/8/8/8/8/8/8/8 w -"] {
            assert_eq!(Epd::parse(few), Ok(Epd { fen: few.to_owned(), operations: Vec::new() }));
        }
    }

    #[test]
    fn what_is_no_operation_is_named() {
        for (rest, named) in [
            ("3 9 7", "`7`"),
            ("0 1 -3 bm e5;", "`-3 bm e5`"),
            ("? x;", "`? x`"),
            ("bm e5; \"x\" y;", "`\"x\" y`"),
        ] {
            let error = Epd::parse(&format!("{BOARD} {rest}")).unwrap_err().to_string();
            assert!(error.contains(&format!("bad EPD operation {named}")), "{error}");
        }
    }

    #[test]
    fn operations_are_split_at_semicolons_outside_of_quotes() {
        let parsed = Epd::parse(&format!("{BOARD}  bm Nf3 e4; id \"a; b\"; noop")).unwrap();
        let expected = [("bm", "Nf3 e4"), ("id", "\"a; b\""), ("noop", "")];
        let found: Vec<_> = parsed.operations.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, expected);
        let fen = Epd::parse(&format!("{BOARD} 0 1 bm e5;")).unwrap();
        assert_eq!(fen.operations, [("bm".to_owned(), "e5".to_owned())]);
    }
}
