//! Every option of the engine, from one table.
//!
//! [`table`] has one row for each option. The rows define the struct [`Options`], the defaults, the UCI `option` lines
//! and `setoption` ([`Options::set`]), the command-line flags (`cli::flags` passes the rows to clap), the configuration
//! file ([`config`]), the help texts, and the table in `docs/options.md` ([`listing`]). To add an option, add a row.
//!
//! This module does not know what an option does. It checks only that a value has the right kind and is in range. A
//! path that does not exist is reported by the code that opens the file.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | reads the configuration file |
//! | [`listing`] | writes the options as UCI lines and as a Markdown table |
//! | [`error`] | the errors of setting an option |
//! | [`table`] | all options |
//! | [`lc0`] | lc0's names for what Rukh calls otherwise or does not have |
//! | [`spec`] | one row of the table, and how text becomes a checked value |
//! | [`choices`] | the values of options that take one of a few words |

mod choices;
pub mod config;
mod error;
pub mod lc0;
pub mod listing;
mod spec;
mod table;

pub use choices::{
    BackendName, ContemptMode, FpuStrategy, FpuStrategyAtRoot, HistoryFill, ScoreType, SearchName,
};
pub use error::OptionError;
pub use lc0::BackendChoice;
pub use spec::{Effect, Kind, Presses, Row, Setting, Visibility};
pub use table::{AUTODISCOVER, BACKEND_SECTION, ELO_RANGE, Options, Spec, TABLE};

impl Options {
    /// Sets an option by its UCI name, in any case. An error changes nothing.
    ///
    /// # Errors
    /// No option has this name, or the value is not allowed.
    pub fn set(&mut self, uci_name: &str, value: &str) -> Result<(), OptionError> {
        let spec = find_uci(uci_name).ok_or_else(|| OptionError::unknown_name(uci_name))?;
        self.assign(spec, value)
    }

    /// Sets an option by its row. An error changes nothing.
    ///
    /// # Errors
    /// The value is not allowed.
    pub fn assign(&mut self, spec: &Spec, value: &str) -> Result<(), OptionError> {
        let accepted = spec.parse(value).is_some_and(|setting| (spec.put)(self, setting));
        if !accepted {
            return Err(OptionError::wrong_value(spec, value));
        }
        self.keep_one_memory_limit(spec);
        Ok(())
    }

    /// `Hash` and `RamLimitMb` are two names of one setting. If both were set, the one that was set last counts. A 0
    /// does not undo the other, because some GUIs send the default of every option.
    fn keep_one_memory_limit(&mut self, set_last: &Spec) {
        match set_last.field {
            "hash" if self.hash > 0 => self.ramlimit_mb = 0,
            "ramlimit_mb" if self.ramlimit_mb > 0 => self.hash = 0,
            _ => {}
        }
    }
}

/// The row with this UCI name, in any case; `None` if there is no such option.
pub fn find_uci(name: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.uci_name.is_some_and(|known| known.eq_ignore_ascii_case(name)))
}

/// The row with this long flag (without dashes).
pub fn find_flag(flag: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.flag().is_some_and(|known| known == flag))
}

/// The row with this short flag.
pub fn find_short(flag: char) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.short == Some(flag))
}

#[cfg(test)]
mod tests;
