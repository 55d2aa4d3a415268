//! Reads `name(key=value,group(key=value),...)`, the form of the option `TimeManager`.
//!
//! Values are numbers. A key inside a group gets the group's name in front, with a dot. Each parameter is taken
//! out once with its default and range; whatever is left at the end was not a parameter.

use std::ops::RangeInclusive;

/// Why a description of a time manager was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TimeManagerError {
    /// Brackets, commas or equal signs are not where they belong.
    #[error("time manager '{text}': expected name(key=value,...)")]
    Malformed {
        /// All of it.
        text: String,
    },
    /// No manager has this name.
    #[error("unknown time manager '{name}': expected legacy, smooth, alphazero or simple")]
    UnknownName {
        /// The name given.
        name: String,
    },
    /// The manager has no such parameter, or it is given twice.
    #[error("time manager: unknown parameter '{key}'")]
    UnknownParameter {
        /// The name given.
        key: String,
    },
    /// A value is not a number.
    #[error("time manager: {key}: '{value}' is not a number")]
    NotANumber {
        /// The parameter.
        key: String,
        /// The value given.
        value: String,
    },
    /// A value is out of its range.
    #[error("time manager: {key}={value}: expected {low} to {high}")]
    OutOfRange {
        /// The parameter.
        key: String,
        /// The value given.
        value: f64,
        /// The lowest that is allowed.
        low: f64,
        /// The highest that is allowed.
        high: f64,
    },
}

/// The parameters that were given and not yet taken.
#[derive(Debug)]
pub(super) struct Arguments {
    given: Vec<(String, f64)>,
}

impl Arguments {
    /// Splits a description into the manager's name and its parameters.
    pub(super) fn parse(text: &str) -> Result<(&str, Arguments), TimeManagerError> {
        let malformed = || TimeManagerError::Malformed { text: text.to_owned() };
        let (name, inside) = split_call(text).ok_or_else(malformed)?;
        let mut given = Vec::new();
        for item in split_list(inside).ok_or_else(malformed)? {
            if let Some((group, inside)) = split_call(item).filter(|_| item.ends_with(')')) {
                for pair in split_list(inside).ok_or_else(malformed)? {
                    let (key, value) = split_pair(pair).ok_or_else(malformed)?;
                    given.push((format!("{group}.{key}"), number(key, value)?));
                }
            } else {
                let (key, value) = split_pair(item).ok_or_else(malformed)?;
                given.push((key.to_owned(), number(key, value)?));
            }
        }
        Ok((name, Arguments { given }))
    }

    /// Takes a parameter out, or its default.
    pub(super) fn take(
        &mut self,
        key: &str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, TimeManagerError> {
        let Some(index) = self.given.iter().position(|(given, _)| given == key) else {
            return Ok(default);
        };
        let (key, value) = self.given.swap_remove(index);
        if range.contains(&value) {
            Ok(value)
        } else {
            let (low, high) = range.into_inner();
            Err(TimeManagerError::OutOfRange { key, value, low, high })
        }
    }

    /// Refuses what nobody took.
    pub(super) fn finish(mut self) -> Result<(), TimeManagerError> {
        match self.given.pop() {
            Some((key, _)) => Err(TimeManagerError::UnknownParameter { key }),
            None => Ok(()),
        }
    }
}

/// `name(inside)` or just `name`, which has nothing inside.
fn split_call(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let (name, inside) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.strip_suffix(')')?),
        None => (text, ""),
    };
    (!name.is_empty() && !name.contains([',', '=', ')'])).then_some((name, inside))
}

/// Splits at commas that are not in brackets. Blank text is an empty list.
fn split_list(text: &str) -> Option<Vec<&str>> {
    let mut items = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                items.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        items.push(text[start..].trim());
    }
    (depth == 0).then_some(items)
}

/// `key=value`.
fn split_pair(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    (!key.is_empty() && !value.is_empty() && !key.contains(['(', ')'])).then_some((key, value))
}

fn number(key: &str, value: &str) -> Result<f64, TimeManagerError> {
    value
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| TimeManagerError::NotANumber { key: key.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_names_numbers_and_groups() {
        let (name, mut arguments) =
            Arguments::parse(" smooth ( a=1.5, mle-legacy( midpoint = 20 , steepness=-2e1), b=3 )").unwrap();
        assert_eq!(name, "smooth");
        let mut take = |key| arguments.take(key, 0.0, -100.0..=100.0).unwrap();
        assert_eq!([take("a"), take("b"), take("c")], [1.5, 3.0, 0.0]);
        assert_eq!([take("mle-legacy.midpoint"), take("mle-legacy.steepness")], [20.0, -20.0]);
        assert_eq!(arguments.finish(), Ok(()));
    }

    #[test]
    fn a_parameter_given_twice_is_one_too_many() {
        let (_, mut arguments) = Arguments::parse("x(a=1,a=2)").unwrap();
        arguments.take("a", 0.0, 0.0..=9.0).unwrap();
        assert!(arguments.finish().is_err());
    }

    #[test]
    fn broken_forms_are_refused() {
        for text in [
            "",
            " ",
            "(a=1)",
            "x(a=1",
            "x a=1)",
            "x(a=1))",
            "x(a)",
            "x(=1)",
            "x(a=)",
            "x(a=1,,b=2)",
            "x,y",
            "x=1",
            "x(a=1)y",
            "x(a=1,)",
            "x((a=1))",
            "x(g(h(a=1)))",
        ] {
            assert!(
                matches!(Arguments::parse(text), Err(TimeManagerError::Malformed { .. })),
                "{text:?}: {:?}",
                Arguments::parse(text)
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer_and_no_panic(text in "[a-z(),=0-9. é-]{0,40}") {
            let _ = Arguments::parse(&text);
        }
    }
}
