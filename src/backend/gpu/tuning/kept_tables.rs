//! The tables of tuned GEMMs that are at hand when a backend is made: that of an earlier start, and the user's own.

use crate::gemm::avoided::Avoided;
use crate::gemm::gemms::{GemmTable, Gemms};
use crate::options::GpuOptions;
use crate::runtime::device::Gpu;
use crate::runtime::ffi::gemm::GemmShape;
use crate::runtime::ffi::hip::Versioned;
use crate::runtime::ffi::rocblas;
use crate::runtime::weight_bits::WeightBits;
use crate::table::file::{self, Parsed};
use crate::table::row::{Origin, Row};
use rukh_base::cache_folder;
use rukh_base::os_error::in_words;
use rukh_base::regular_file;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The device, the library versions and the kernels that a table is valid for.
pub(crate) fn origin(gpu: &Gpu, gemms: &Gemms) -> Origin {
    let hip = gpu.device.version(Versioned::Runtime).unwrap_or(0);
    let driver = gpu.device.version(Versioned::Driver).unwrap_or(0);
    let rocblas = gpu.rocblas.and_then(|library| rocblas::version(library).ok()).unwrap_or_default();
    let hipblaslt = gemms.hipblaslt_version().unwrap_or(0);
    let (name, architecture, units) = (&gpu.name, &gpu.architecture, gpu.multiprocessors);
    let own = gpu.code.digest();
    let versions = format!(
        "{name},{architecture},{units} units,driver {driver},HIP {hip},rocBLAS {rocblas},{} {hipblaslt},kernels {own:016x}",
        gpu.maker.blaslt()
    );
    // With other weights, other choices are measured.
    let weights = match gemms.weights() {
        WeightBits::Sixteen => String::new(),
        others => format!(",weights {}", others.key()),
    };
    let versions = (versions + &weights).replace(['\n', '\r'], " ");
    Origin { architecture: architecture.clone(), multiprocessors: units, versions }
}

/// What earlier tunings and the user know about GEMMs.
#[derive(Default)]
pub(crate) struct KeptTable {
    /// The table in the cache folder or in the file of the option `tuning_file`.
    pub(crate) table: GemmTable,
    /// The rows of the files that `RUKH_GEMM_CONFIG` names. They have precedence.
    pub(crate) named: BTreeMap<GemmShape, Row>,
    pub(crate) path: Option<PathBuf>,
    pub(crate) may_write: bool,
    pub(crate) notices: Vec<String>,
}

/// The environment variable with the user's files of GEMMs, in a list that is written as `PATH` is. Of several rows
/// for a GEMM, the last one counts.
const NAMED_FILES: &str = "RUKH_GEMM_CONFIG";

/// The most bytes of a file of GEMMs. A network has some thousand GEMMs in all batch sizes.
const MOST_FILE_BYTES: u64 = 64 << 20;

/// Reads a file of GEMMs that the user named.
///
/// # Errors
/// The file does not exist, is no regular file, or is too large.
fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    Ok(regular_file::read(path, MOST_FILE_BYTES)?)
}

/// Understands the content of a file of GEMMs, and adds what is wrong with it to `notices`. `None` if it is of no use.
fn parse(path: &Path, bytes: &[u8], origin: &Origin, notices: &mut Vec<String>) -> Option<Parsed> {
    // Bytes that are no text damage the cells that hold them.
    match file::parse(origin, &String::from_utf8_lossy(bytes)) {
        Ok(parsed) => {
            if !parsed.left_out.is_empty() {
                notices.push(format!("tuning file {}: {} left out", path.display(), parsed.left_out));
            }
            Some(parsed)
        }
        Err(reason) => {
            notices.push(format!("tuning file {} is ignored: {reason}", path.display()));
            None
        }
    }
}

/// Reads the tables for the device and the libraries of `origin`.
fn read_tables(options: &GpuOptions, origin: &Origin) -> KeptTable {
    let in_cache = || cache_folder::file(&format!("gemms-{}", origin.architecture), &origin.versions, "csv");
    let path = options.tuning_file.clone().or_else(in_cache);
    let mut notices = Vec::new();
    let (mut table, mut may_write) = (GemmTable::new(), true);
    if let Some(path) = &path {
        let read = if options.tuning_file.is_some() { read_named(path) } else { cache_folder::read(path) };
        let is_sound = match read {
            Ok(bytes) => match parse(path, &bytes, origin, &mut notices) {
                Some(Parsed { rows, left_out }) => {
                    table.extend(rows.into_iter().map(|(shape, row)| (shape, row.measured)));
                    left_out.is_empty()
                }
                None => false,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => {
                notices.push(format!("tuning file {} cannot be read: {}", path.display(), in_words(&error)));
                false
            }
        };
        // The table in the cache folder may be overwritten, but not a file that the user named.
        may_write = is_sound || options.tuning_file.is_none();
    }
    let mut named = BTreeMap::new();
    let list = std::env::var_os(NAMED_FILES).unwrap_or_default();
    for path in std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()) {
        match read_named(&path) {
            Ok(bytes) => named.extend(parse(&path, &bytes, origin, &mut notices).unwrap_or_default().rows),
            Err(error) => {
                let file = path.display();
                notices.push(format!("{NAMED_FILES}: {file} cannot be read: {}", in_words(&error)));
            }
        }
    }
    named.retain(|_, row| row.measured.microseconds.is_finite());
    KeptTable { table, named, path, may_write, notices }
}

/// Tells the dispatcher what earlier starts have learned for `origin`: which GEMMs ended a process and, if `tunes`
/// is set, which choices are fastest. Returns the tables, to which tuning adds what is missing.
pub(crate) fn recall(
    gpu: &Gpu,
    gemms: &Gemms,
    options: &GpuOptions,
    origin: &Origin,
    tunes: bool,
) -> Option<KeptTable> {
    gemms.avoid(Avoided::read(&gpu.architecture, &origin.versions));
    let kept = tunes.then(|| read_tables(options, origin))?;
    gemms.set_table(kept.whole());
    Some(kept)
}

impl KeptTable {
    /// The rows of both sources.
    fn whole(&self) -> GemmTable {
        let mut table = self.table.clone();
        table.extend(self.named.iter().map(|(shape, row)| (*shape, row.measured)));
        table
    }
}
