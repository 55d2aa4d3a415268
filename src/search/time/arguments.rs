//! Reads `name(key=value,group(key=value),...)`, the form of the option `TimeManager`.
//!
//! All values are numbers. The key of a parameter in a group is the group's name, a dot, and the parameter's own key.
//! A manager takes each of its parameters once, with a default and a range. A parameter that remains at the end is
//! unknown, or was given twice.

use std::ops::RangeInclusive;

/// The reason why a description of a time manager was rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TimeManagerError {
    /// Brackets, commas or equal signs are in the wrong places.
    #[error("time manager '{text}': expected name(key=value,...)")]
    Malformed {
        /// The whole description.
        text: String,
    },
    /// No manager has this name.
    #[error("unknown time manager '{name}': expected legacy, smooth, alphazero or simple")]
    UnknownName {
        /// The unknown name.
        name: String,
    },
    /// The manager has no such parameter, or the parameter is given twice.
    #[error("time manager: unknown parameter '{key}'")]
    UnknownParameter {
        /// The parameter's key.
        key: String,
    },
    /// A value is not a number.
    #[error("time manager: {key}: '{value}' is not a number")]
    NotANumber {
        /// The parameter's key.
        key: String,
        /// The text in place of a number.
        value: String,
    },
    /// A value is out of its range.
    #[error("time manager: {key}={value}: expected {low} to {high}")]
    OutOfRange {
        /// The parameter's key.
        key: String,
        /// The value that was given.
        value: f64,
        /// The smallest allowed value.
        low: f64,
        /// The largest allowed value.
        high: f64,
    },
}

/// The parameters that were given and have not been taken yet.
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

    /// Takes the value of a parameter, or `default` if the parameter is not given. An error means that the value is not
    /// in `range`.
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

    /// Rejects a parameter that remains.
    pub(super) fn finish(mut self) -> Result<(), TimeManagerError> {
        match self.given.pop() {
            Some((key, _)) => Err(TimeManagerError::UnknownParameter { key }),
            None => Ok(()),
        }
    }
}

/// Splits `name(inside)`. A `name` without brackets has nothing inside.
fn split_call(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let (name, inside) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.strip_suffix(')')?),
        None => (text, ""),
    };
    (!name.is_empty() && !name.contains([',', '=', ')'])).then_some((name, inside))
}

/// Splits a list at the commas that are not in brackets. Blank text is an empty list.
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

/// Splits `key=value`.
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
    fn a_parameter_given_twice_is_rejected() {
        let (_, mut arguments) = Arguments::parse("x(a=1,a=2)").unwrap();
        arguments.take("a", 0.0, 0.0..=9.0).unwrap();
        assert!(arguments.finish().is_err());
    }

    #[test]
    fn broken_forms_are_rejected() {
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
        fn no_text_makes_the_parser_panic(text in "[a-z(),=0-9. é-]{0,40}") {
            let _ = Arguments::parse(&text);
        }
    }
}
