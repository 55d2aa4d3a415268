//! The rows of a file of tuned GEMMs that cannot be used, and why.

use rukh_base::quote::quoted;
use std::collections::BTreeMap;
use std::fmt;

/// Why a row is left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    /// A cell is missing or cannot be read.
    Damaged,
    /// It was measured on another device.
    Foreign,
    /// It was measured with other versions.
    Stale,
    /// It names a kernel or a kind of GEMM that this engine does not have.
    Unknown,
}

impl Fault {
    fn words(self) -> &'static str {
        match self {
            Fault::Damaged => "damaged",
            Fault::Foreign => "for another device",
            Fault::Stale => "measured with other versions",
            Fault::Unknown => "for GEMMs or kernels that Rukh does not have",
        }
    }
}

/// The rows of a file that were left out: for each fault their number, and the first line with the text at fault.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct LeftOut(BTreeMap<Fault, (usize, u64, String)>);

impl LeftOut {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, fault: Fault, line: u64, text: &str) {
        self.0.entry(fault).or_insert_with(|| (0, line, quoted(text))).0 += 1;
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.0.iter().map(|(fault, (count, line, text))| {
            let rows = if *count == 1 { "1 row is" } else { &format!("{count} rows are") };
            format!("{rows} {} (line {line}: {text})", fault.words())
        });
        f.write_str(&faults.collect::<Vec<_>>().join(", "))
    }
}
