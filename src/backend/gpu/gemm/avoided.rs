//! The GEMMs that ended a process, or that a process never came back from, when a BLAS library was asked for them.
//!
//! A helper process asks the libraries first (see [`crate::helper::probe`]). What killed it is kept in the cache
//! folder, for the device and the library versions that it was seen with, and that library is not asked for that GEMM
//! again.

use super::shape_text;
use crate::runtime::ffi::gemm::{GemmShape, WeightLayout};
use crate::runtime::maker::Maker;
use rukh_base::cache_folder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;

/// Who computes a GEMM: one of the two BLAS libraries, or our own kernels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum BlasLibrary {
    Rocblas,
    HipblasLt,
    Own,
}

impl BlasLibrary {
    pub(crate) const ALL: [BlasLibrary; 3] = [BlasLibrary::Rocblas, BlasLibrary::HipblasLt, BlasLibrary::Own];

    /// The library's name in files and options.
    pub(crate) fn key(self) -> &'static str {
        match self {
            BlasLibrary::Rocblas => "rocblas",
            BlasLibrary::HipblasLt => "hipblaslt",
            BlasLibrary::Own => "own",
        }
    }

    /// The library's name in messages about a card of this maker.
    pub(crate) fn name(self, maker: Maker) -> &'static str {
        match self {
            BlasLibrary::Rocblas => "rocBLAS",
            BlasLibrary::HipblasLt => maker.blaslt(),
            BlasLibrary::Own => "Rukh's own kernel",
        }
    }

    /// The library with this [`BlasLibrary::key`].
    pub(crate) fn from_key(key: &str) -> Option<BlasLibrary> {
        BlasLibrary::ALL.into_iter().find(|library| library.key() == key)
    }
}

/// Who is asked for a GEMM, and with which layout of the weights. A library that ends a process with transposed
/// weights may still be asked for the GEMM with plain ones. Our own kernels are one and the same for all layouts
/// here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) library: BlasLibrary,
    pub(crate) is_transposed: bool,
}

/// What follows the key and the name of a library that is asked for transposed weights.
const TRANSPOSED_KEY: &str = " transposed";
const TRANSPOSED_NAME: &str = " with transposed weights";

impl Asked {
    /// The library with weights of this layout.
    pub(crate) fn new(library: BlasLibrary, layout: WeightLayout) -> Asked {
        Asked { library, is_transposed: layout == WeightLayout::Transposed }
    }

    /// The library with plain weights.
    pub(crate) fn plain(library: BlasLibrary) -> Asked {
        Asked { library, is_transposed: false }
    }

    /// The text in files.
    pub(crate) fn key(self) -> String {
        let layout = if self.is_transposed { TRANSPOSED_KEY } else { "" };
        format!("{}{layout}", self.library.key())
    }

    /// The text in messages about a card of this maker.
    pub(crate) fn name(self, maker: Maker) -> String {
        let layout = if self.is_transposed { TRANSPOSED_NAME } else { "" };
        format!("{}{layout}", self.library.name(maker))
    }

    /// Who has this [`Asked::key`].
    pub(crate) fn from_key(key: &str) -> Option<Asked> {
        let (library, is_transposed) = match key.strip_suffix(TRANSPOSED_KEY) {
            Some(library) => (library, true),
            None => (key, false),
        };
        Some(Asked { library: BlasLibrary::from_key(library)?, is_transposed })
    }
}

/// The beginning of the file's first line.
const TITLE: &str = "# rukh's avoided GEMMs, 1";

/// The cell that stands for every shape.
const EVERY_SHAPE: &str = "*";

/// Who is not asked for which GEMM, and how the process ended.
type Entry = (Asked, Option<GemmShape>, String);

/// GEMMs that a library is not asked for. `None` instead of a shape stands for every GEMM. The text says how the
/// process ended.
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Entry>", into = "Vec<Entry>")]
pub(crate) struct Avoided(BTreeMap<(Asked, Option<GemmShape>), String>);

impl From<Vec<Entry>> for Avoided {
    fn from(entries: Vec<Entry>) -> Avoided {
        Avoided(entries.into_iter().map(|(asked, shape, how)| ((asked, shape), how)).collect())
    }
}

impl From<Avoided> for Vec<Entry> {
    fn from(avoided: Avoided) -> Vec<Entry> {
        avoided.0.into_iter().map(|((asked, shape), how)| (asked, shape, how)).collect()
    }
}

impl Avoided {
    /// Whether nobody must be asked for `shape` so. Where a GEMM is avoided with plain weights, it is with others,
    /// too.
    pub(crate) fn contains(&self, asked: Asked, shape: &GemmShape) -> bool {
        let all = [asked, Asked::plain(asked.library)];
        all.iter().any(|&one| self.0.contains_key(&(one, None)) || self.0.contains_key(&(one, Some(*shape))))
    }

    /// Adds a GEMM, or every GEMM.
    pub(crate) fn insert(&mut self, asked: Asked, shape: Option<GemmShape>, how: &str) {
        self.0.insert((asked, shape), how.replace([',', '\n', '\r'], " "));
    }

    /// Whether nobody must be asked for any GEMM so.
    pub(crate) fn contains_all(&self, asked: Asked) -> bool {
        [asked, Asked::plain(asked.library)].iter().any(|&one| self.0.contains_key(&(one, None)))
    }

    /// The number of single GEMMs that are avoided so.
    pub(crate) fn shapes(&self, asked: Asked) -> usize {
        self.0.keys().filter(|(other, shape)| *other == asked && shape.is_some()).count()
    }

    /// One line for each entry: who was asked, the shape, how the process ended.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|((asked, shape), how)| {
            let shape = shape.as_ref().map_or_else(|| EVERY_SHAPE.to_owned(), shape_text::text);
            format!("{},{shape},{how}", asked.key())
        })
    }

    /// Adds the entry of one of [`Avoided::lines`]. Returns `None` if the line is damaged.
    pub(crate) fn insert_line(&mut self, line: &str) -> Option<()> {
        let cells: Vec<&str> = line.split(',').collect();
        let &[asked, ref shape @ .., how] = cells.as_slice() else {
            return None;
        };
        let shape = if *shape == [EVERY_SHAPE] { None } else { Some(shape_text::parse(shape)?) };
        self.insert(Asked::from_key(asked)?, shape, how);
        Some(())
    }

    /// Reads the entries that were kept for the device and the libraries in `key`. A damaged line is left out.
    pub(crate) fn read(architecture: &str, key: &str) -> Avoided {
        let mut avoided = Avoided::default();
        let bytes =
            path(architecture, key).and_then(|path| cache_folder::read(&path).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        if lines.next() == Some(&format!("{TITLE},{key}")) {
            lines.for_each(|line| avoided.insert_line(line).unwrap_or_default());
        }
        avoided
    }

    /// Keeps the entries for the next start.
    ///
    /// # Errors
    /// There is no cache folder, or it cannot be written.
    pub(crate) fn keep(&self, architecture: &str, key: &str) -> io::Result<()> {
        let path = path(architecture, key).ok_or_else(cache_folder::no_folder)?;
        let mut text = format!("{TITLE},{key}\n");
        for line in self.lines() {
            let _ = writeln!(text, "{line}");
        }
        cache_folder::keep(&path, text.as_bytes())
    }
}

fn path(architecture: &str, key: &str) -> Option<PathBuf> {
    cache_folder::file(&format!("avoided-{architecture}"), key, "csv")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ffi::gemm::ElementType;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let shape = GemmShape::plain(64, 32, 16, ElementType::Bf16);
        let mut avoided = Avoided::default();
        let [hipblaslt, rocblas] = [BlasLibrary::HipblasLt, BlasLibrary::Rocblas].map(Asked::plain);
        let turned = Asked { is_transposed: true, ..hipblaslt };
        avoided.insert(hipblaslt, Some(shape), "signal: 11 (SIGSEGV), core dumped");
        avoided.insert(rocblas, None, "no answer for 30 s");
        let wide = GemmShape { outputs: 96, ..shape };
        avoided.insert(turned, Some(wide), "signal: 6 (SIGABRT)");
        let mut again = Avoided::default();
        for line in avoided.lines() {
            again.insert_line(&line).unwrap();
        }
        assert_eq!(again, avoided);
        assert!(again.contains(hipblaslt, &shape) && again.contains(turned, &shape));
        assert!(!again.contains(hipblaslt, &wide) && again.contains(turned, &wide));
        assert!(!again.contains(hipblaslt, &GemmShape { rows: 128, ..shape }));
        assert!(again.contains(rocblas, &GemmShape { rows: 128, ..shape }));
        assert_eq!(again.insert_line("hipblaslt,1,2,damaged"), None);
    }
}
