//! Every option of the engine, from one table.
//!
//! [`table`] has one row per option. From the rows come the typed struct [`Options`], the defaults, the UCI
//! `option` lines and `setoption` ([`Options::set`]), the command-line flags (`cli::flags` hands the rows to
//! clap), the configuration file ([`config`]), the help texts, and the table in docs/options.md ([`listing`]). To add
//! an option, add a row.
//!
//! Not here: what an option *does*. Values are checked against their kind and range and no further; a path
//! that does not exist is found out by whoever opens it.

mod choices;
pub(crate) mod config;
mod error;
pub mod listing;
mod spec;
mod table;

pub use choices::{BackendName, ContemptMode, FpuStrategy, FpuStrategyAtRoot, HistoryFill, ScoreType};
pub use error::OptionError;
pub use spec::{Effect, Kind, Presses, Row, Setting, Visibility};
pub use table::{AUTODISCOVER, Options, Spec, TABLE};

impl Options {
    /// Sets an option by its UCI name, in any case. On an error nothing has changed.
    ///
    /// # Errors
    /// No option has this name, or the value is not one of those allowed.
    pub fn set(&mut self, uci_name: &str, value: &str) -> Result<(), OptionError> {
        let spec = find_uci(uci_name).ok_or_else(|| OptionError::unknown_name(uci_name))?;
        self.assign(spec, value)
    }

    /// Sets an option by its row. On an error nothing has changed.
    ///
    /// # Errors
    /// The value is not one of those allowed.
    pub fn assign(&mut self, spec: &Spec, value: &str) -> Result<(), OptionError> {
        let accepted = spec.kind.parse(value).is_some_and(|setting| (spec.put)(self, setting));
        if accepted { Ok(()) } else { Err(OptionError::wrong_value(spec, value)) }
    }
}

/// The row with this UCI name, in any case.
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
