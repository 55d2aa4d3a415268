//! The one table of options.
