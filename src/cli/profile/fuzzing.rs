//! What the fuzz target of the readers needs from inside this module.

use super::baseline;
use super::rocprof::{self, FILES};
use std::path::Path;

/// Reads a file of the profiler: the first byte says which of its kinds, the others are its content. `folder` is an empty
/// folder, and is empty again afterwards. Returns the notes and the names of the kernels, or why there are none.
pub(crate) fn read_trace(bytes: &[u8], folder: &Path) -> Result<Vec<String>, String> {
    let Some((&kind, content)) = bytes.split_first() else { return Ok(Vec::new()) };
    let kind = usize::from(kind);
    let mut files = vec![(FILES[kind % FILES.len()], content)];
    // The other files say nothing without a kernel.
    const KERNEL: &[u8] = b"Name,Calls,TotalDurationNs\nattention,1,1000\n";
    if kind % FILES.len() > 1 {
        files.push((FILES[1], KERNEL));
    }
    let paths: Vec<_> = files.iter().map(|(name, _)| folder.join(name)).collect();
    for (path, (_, content)) in paths.iter().zip(&files) {
        if let Err(error) = std::fs::write(path, content) {
            panic!("{}: {error}", path.display());
        }
    }
    let lines = rocprof::read(folder).map(|trace| {
        let steps = trace.measured(folder).profile.steps;
        trace.notes().into_iter().chain(steps.into_iter().map(|step| step.operation)).collect()
    });
    for path in paths {
        // A file that stays is written anew.
        let _ = std::fs::remove_file(path);
    }
    lines.map_err(|error| error.to_string())
}

/// Reads a baseline. Returns the lines of its comparison with itself, or why it is none.
pub(crate) fn read_baseline(bytes: &[u8]) -> Result<Vec<String>, String> {
    baseline::reread(&String::from_utf8_lossy(bytes))
}
