//! One row of the option table, and the conversion of text to a checked value.

use super::choices::{ContemptMode, FpuStrategy, FpuStrategyAtRoot, HistoryFill, ScoreType, SearchName};

/// The kind of an option's value, with its range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Check,
    /// A whole number.
    Spin {
        /// The lowest allowed value.
        min: i64,
        /// The highest allowed value.
        max: i64,
    },
    /// A number. UCI has no such type, so the option is a `string` there, as in lc0.
    Float {
        /// The lowest allowed value.
        min: f32,
        /// The highest allowed value.
        max: f32,
    },
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// No value. Setting the option triggers its action.
    Button,
}

/// A value of some [`Kind`].
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// The value of a [`Kind::Text`] or [`Kind::Choice`].
    Text(String),
    /// The value of a [`Kind::Check`].
    Check(bool),
    /// The value of a [`Kind::Spin`].
    Spin(i64),
    /// The value of a [`Kind::Float`].
    Float(f32),
    /// A press of a [`Kind::Button`].
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
    /// Reads a value. `None` if the value is not allowed.
    pub fn parse(self, text: &str) -> Option<Setting> {
        match self {
            // GUIs send this word for an empty text.
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

    /// The allowed values, worded to follow "is not" in an error message.
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

/// Whether an option is listed without `--show-hidden`. Hidden options can always be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visibility {
    /// Always listed.
    Shown,
    /// Listed only with `--show-hidden`, because it is for specialists.
    Hidden,
}

/// Whether an option has an effect in this engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It has an effect.
    Full,
    /// It has no effect, for this reason. It is accepted so that scripts and configurations made for lc0 work.
    None(&'static str),
}

/// A row of the table, for a field of the struct `O`.
pub struct Row<O> {
    /// The name of the field in `O`. With `-` in place of `_` it is also the long flag.
    pub field: &'static str,
    /// The heading above the option in the help.
    pub section: &'static str,
    /// The help text, in plain text with backticks. [`Row::help`] adds the reason if the option has no effect.
    pub(super) doc: &'static str,
    /// The kind of the option's value.
    pub kind: Kind,
    /// Whether a text that is not of this kind is a value all the same. The field stores what it means.
    pub(super) also: fn(&str) -> bool,
    /// The UCI name; `None` if the option has only a flag.
    pub uci_name: Option<&'static str>,
    /// The short flag, without its dash.
    pub short: Option<char>,
    /// Whether the option has a long flag. If not, it has only a UCI name.
    pub has_flag: bool,
    /// Whether the option is listed without `--show-hidden`.
    pub visibility: Visibility,
    /// Whether the option has an effect.
    pub effect: Effect,
    /// Reads the field of `O`.
    pub(super) get: fn(&O) -> Setting,
    /// Writes the field. `false` means that the field cannot hold the setting, an error in the table.
    pub(super) put: fn(&mut O, Setting) -> bool,
}

impl<O> Row<O> {
    /// A row of this kind. The table's macro fills in the names and the field.
    pub(super) const fn of(kind: Kind) -> Row<O> {
        Row {
            field: "",
            section: "",
            doc: "",
            kind,
            also: |_| false,
            uci_name: None,
            short: None,
            has_flag: true,
            visibility: Visibility::Shown,
            effect: Effect::Full,
            get: |_| Setting::Press,
            put: |_, _| false,
        }
    }

    pub(super) const fn uci(mut self, name: &'static str) -> Row<O> {
        self.uci_name = Some(name);
        self
    }

    /// Allows other texts too.
    pub(super) const fn or(mut self, also: fn(&str) -> bool) -> Row<O> {
        self.also = also;
        self
    }

    pub(super) const fn short(mut self, flag: char) -> Row<O> {
        self.short = Some(flag);
        self
    }

    /// Removes the long flag, so that the option can only be set over UCI.
    pub(super) const fn uci_only(mut self) -> Row<O> {
        self.has_flag = false;
        self
    }

    /// Lists the option only with `--show-hidden`.
    pub(super) const fn hidden(mut self) -> Row<O> {
        self.visibility = Visibility::Hidden;
        self
    }

    /// Marks the option as accepted without effect, for this reason.
    pub(super) const fn no_effect(mut self, reason: &'static str) -> Row<O> {
        self.effect = Effect::None(reason);
        self
    }

    /// Reads a value. `None` if the value is not allowed.
    pub fn parse(&self, text: &str) -> Option<Setting> {
        self.kind.parse(text).or_else(|| (self.also)(text).then(|| Setting::Text(text.to_owned())))
    }

    /// The long flag without its dashes, e.g. `minibatch-size`.
    pub fn flag(&self) -> Option<String> {
        self.has_flag.then(|| self.field.replace('_', "-"))
    }

    /// The option's name in messages: the UCI name or, if there is none, the flag.
    pub fn name(&self) -> String {
        match self.uci_name {
            Some(name) => name.to_owned(),
            None => format!("--{}", self.field.replace('_', "-")),
        }
    }

    /// The help text. If the option has no effect, the text says so; whoever sets the option is told the reason.
    pub fn help(&self) -> String {
        let doc = self.doc.trim();
        match self.effect {
            Effect::Full => doc.to_owned(),
            Effect::None(_) => format!("{doc} No effect here."),
        }
    }

    /// The option's value in `options`.
    pub fn value(&self, options: &O) -> Setting {
        (self.get)(options)
    }
}

// Short names of the kinds, for the table.

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

/// The number of times that a button was pressed. The code that acts on presses compares this count with the last count
/// that it saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Presses(pub u32);

/// A type that a field of the options may have.
pub(super) trait Field: Sized {
    /// The field's value as a setting.
    fn setting(&self) -> Setting;

    /// Stores a setting. `false` if the setting is of another kind, or if its value does not fit the field's type.
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

/// Implements [`Field`] for whole numbers. A test checks that the table's range fits the type.
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

choice_field!(ScoreType FpuStrategy FpuStrategyAtRoot ContemptMode HistoryFill SearchName);
