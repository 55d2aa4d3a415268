//! Text broken into lines.

/// `words` with spaces between them, in lines of at most `width` characters. A longer word has a line of its own.
pub fn wrap_words<'a>(words: impl IntoIterator<Item = &'a str>, width: usize) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in words {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_before_the_word_that_is_too_much() {
        assert_eq!(wrap_words("a bc def äöü g".split(' '), 8), "a bc def\näöü g");
        assert_eq!(wrap_words(["overlong", "x"], 4), "overlong\nx");
    }
}
