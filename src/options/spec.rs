//! One row of the option table, and how text becomes a checked value.

use super::choices::{BackendName, ContemptMode, FpuStrategy, FpuStrategyAtRoot, HistoryFill, ScoreType};

/// What kind of value an option takes, with its range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// true or false.
    Check,
    /// A whole number.
    Spin {
        /// The lowest allowed.
        min: i64,
        /// The highest allowed.
        max: i64,
    },
    /// A number. UCI has no such type, so it is sent as `string`, as lc0 does.
    Float {
        /// The lowest allowed.
        min: f32,
        /// The highest allowed.
        max: f32,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// No value: setting it is the event.
    Button,
}

/// A value of some [`Kind`].
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// Of [`Kind::Text`] or [`Kind::Choice`].
    Text(String),
    /// Of [`Kind::Check`].
    Check(bool),
    /// Of [`Kind::Spin`].
    Spin(i64),
    /// Of [`Kind::Float`].
    Float(f32),
    /// Of [`Kind::Button`].
    Press,
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Setting::Text(text) => f.write_str(text),
            Setting::Check(value) => value.fmt(f),
            Setting::Spin(value) => value.fmt(f),
            Setting::Float(value) => value.fmt(f),
            Setting::Press => Ok(()),
        }
    }
}

impl Kind {
    /// Reads a value. `None`: it is not [`Kind::expected`].
    pub fn parse(self, text: &str) -> Option<Setting> {
        match self {
            // GUIs have no other way to say "no text".
            Kind::Text if text == "<empty>" => Some(Setting::Text(String::new())),
            Kind::Text => Some(Setting::Text(text.to_owned())),
            Kind::Check if text.eq_ignore_ascii_case("true") => Some(Setting::Check(true)),
            Kind::Check if text.eq_ignore_ascii_case("false") => Some(Setting::Check(false)),
            Kind::Check => None,
            Kind::Spin { min, max } => {
                let value = text.parse().ok().filter(|value| (min..=max).contains(value))?;
                Some(Setting::Spin(value))
            }
            Kind::Float { min, max } => {
                // `contains` is false for NaN.
                let value = text.parse().ok().filter(|value| (min..=max).contains(value))?;
                Some(Setting::Float(value))
            }
            Kind::Choice(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text))?;
                Some(Setting::Text((*word).to_owned()))
            }
            Kind::Button => Some(Setting::Press),
        }
    }

    /// The allowed values, as the end of "… is not".
    pub fn expected(self) -> String {
        match self {
            Kind::Text | Kind::Button => "a text".to_owned(),
            Kind::Check => "`true` or `false`".to_owned(),
            Kind::Spin { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Float { min, max } => format!("a number from {min} to {max}"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// Whether an option shows without `--show-hidden`. Hidden ones can be set all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visibility {
    /// Everybody sees it.
    Shown,
    /// For specialists.
    Hidden,
}

/// Whether setting an option changes anything here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It does.
    Full,
    /// It is understood, so that lc0's scripts and configurations work, but does nothing, for this reason.
    None(&'static str),
}

/// A row of the table, for a field of the struct `O`.
pub struct Row<O> {
    /// The field in [`Options`]; with `-` for `_` it is the long flag.
    pub field: &'static str,
    /// Heading under which help shows it.
    pub section: &'static str,
    /// What it does, in backticks and plain text; see [`Row::help`].
    pub(super) doc: &'static str,
    /// Its values.
    pub kind: Kind,
    /// Its UCI name; `None`: only a flag.
    pub uci_name: Option<&'static str>,
    /// Its short flag.
    pub short: Option<char>,
    /// Whether it has a long flag (else only a UCI name).
    pub has_flag: bool,
    /// See [`Visibility`].
    pub visibility: Visibility,
    /// See [`Effect`].
    pub effect: Effect,
    /// Reads the field.
    pub(super) get: fn(&O) -> Setting,
    /// Writes the field; `false`: the setting is of another kind than the field (a mistake in the table).
    pub(super) put: fn(&mut O, Setting) -> bool,
}

impl<O> Row<O> {
    /// A row of this kind; the table's macro fills in the rest.
    pub(super) const fn of(kind: Kind) -> Row<O> {
        Row {
            field: "",
            section: "",
            doc: "",
            kind,
            uci_name: None,
            short: None,
            has_flag: true,
            visibility: Visibility::Shown,
            effect: Effect::Full,
            get: |_| Setting::Press,
            put: |_, _| false,
        }
    }

    /// Gives it a UCI name.
    pub(super) const fn uci(mut self, name: &'static str) -> Row<O> {
        self.uci_name = Some(name);
        self
    }

    /// Gives it a short flag.
    pub(super) const fn short(mut self, flag: char) -> Row<O> {
        self.short = Some(flag);
        self
    }

    /// It can only be set over UCI.
    pub(super) const fn uci_only(mut self) -> Row<O> {
        self.has_flag = false;
        self
    }

    /// It needs `--show-hidden` to be seen.
    pub(super) const fn hidden(mut self) -> Row<O> {
        self.visibility = Visibility::Hidden;
        self
    }

    /// It is accepted and does nothing.
    pub(super) const fn no_effect(mut self, reason: &'static str) -> Row<O> {
        self.effect = Effect::None(reason);
        self
    }

    /// The long flag without its dashes, e.g. `minibatch-size`.
    pub fn flag(&self) -> Option<String> {
        self.has_flag.then(|| self.field.replace('_', "-"))
    }

    /// What users know it by: the UCI name, else the flag.
    pub fn name(&self) -> String {
        match self.uci_name {
            Some(name) => name.to_owned(),
            None => format!("--{}", self.field.replace('_', "-")),
        }
    }

    /// What it does, and why not where it does nothing.
    pub fn help(&self) -> String {
        let doc = self.doc.trim();
        match self.effect {
            Effect::Full => doc.to_owned(),
            Effect::None(reason) => format!("{doc} No effect here: {reason}."),
        }
    }

    /// Its value in `options`.
    pub fn value(&self, options: &O) -> Setting {
        (self.get)(options)
    }
}

// The kinds by the names that the table uses.

pub(super) const fn text<O>() -> Row<O> {
    Row::of(Kind::Text)
}

pub(super) const fn check<O>() -> Row<O> {
    Row::of(Kind::Check)
}

pub(super) const fn spin<O>(min: i64, max: i64) -> Row<O> {
    Row::of(Kind::Spin { min, max })
}

pub(super) const fn float<O>(min: f32, max: f32) -> Row<O> {
    Row::of(Kind::Float { min, max })
}

pub(super) const fn choice<O>(words: &'static [&'static str]) -> Row<O> {
    Row::of(Kind::Choice(words))
}

pub(super) const fn button<O>() -> Row<O> {
    Row::of(Kind::Button)
}

/// How often a button was pressed: whoever acts on it keeps the count it saw last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Presses(pub u32);

/// A type that a field may have.
pub(super) trait Field: Sized {
    /// The field's value as a setting.
    fn setting(&self) -> Setting;

    /// Takes a setting over; `false`: it is of another kind.
    fn put(&mut self, setting: Setting) -> bool;
}

impl Field for String {
    fn setting(&self) -> Setting {
        Setting::Text(self.clone())
    }

    fn put(&mut self, setting: Setting) -> bool {
        let Setting::Text(text) = setting else {
            return false;
        };
        *self = text;
        true
    }
}

impl Field for bool {
    fn setting(&self) -> Setting {
        Setting::Check(*self)
    }

    fn put(&mut self, setting: Setting) -> bool {
        let Setting::Check(value) = setting else {
            return false;
        };
        *self = value;
        true
    }
}

impl Field for f32 {
    fn setting(&self) -> Setting {
        Setting::Float(*self)
    }

    fn put(&mut self, setting: Setting) -> bool {
        let Setting::Float(value) = setting else {
            return false;
        };
        *self = value;
        true
    }
}

impl Field for Presses {
    fn setting(&self) -> Setting {
        Setting::Press
    }

    fn put(&mut self, setting: Setting) -> bool {
        self.0 = self.0.wrapping_add(1);
        setting == Setting::Press
    }
}

/// Whole numbers: the table's range lies within the type's, which a test checks.
macro_rules! spin_field {
    ($($number:ty)+) => {$(
        impl Field for $number {
            fn setting(&self) -> Setting {
                Setting::Spin(i64::from(*self))
            }

            fn put(&mut self, setting: Setting) -> bool {
                let Setting::Spin(value) = setting else { return false };
                <$number>::try_from(value).map(|value| *self = value).is_ok()
            }
        }
    )+};
}

spin_field!(u32 i32);

macro_rules! choice_field {
    ($($choice:ty)+) => {$(
        impl Field for $choice {
            fn setting(&self) -> Setting {
                Setting::Text(self.name().to_owned())
            }

            fn put(&mut self, setting: Setting) -> bool {
                let Setting::Text(word) = setting else { return false };
                <$choice>::from_name(&word).map(|choice| *self = choice).is_some()
            }
        }
    )+};
}

choice_field!(BackendName ScoreType FpuStrategy FpuStrategyAtRoot ContemptMode HistoryFill);
