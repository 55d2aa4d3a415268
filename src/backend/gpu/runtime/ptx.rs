//! Our kernels for NVIDIA cards: PTX, of which the driver translates a kernel when it is first looked up.
//!
//! A network needs a quarter of the kernels, and the driver takes some 0.1 seconds for each. So every kernel is a module of
//! its own: the text's head and the kernel's entry. The machine code is kept in the user's cache folder, in one file for
//! each architecture, version of CUDA and set of kernels, so that the next start translates nothing.

use super::error::{GpuError, Result};
use rukh_base::{cache_folder, progress};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// How the line that begins a kernel begins. The kernel's name and a parenthesis follow. A kernel lasts until the next one
/// begins.
const ENTRY: &str = ".visible .entry ";

/// The texts of the kernels that a card can run, and the machine code of those that have been looked up.
pub(crate) struct Ptx {
    architecture: String,
    /// A hash of the texts.
    digest: u64,
    texts: Vec<Text>,
    /// Where the machine code is kept, if the user has a cache folder.
    path: Option<PathBuf>,
    code: Mutex<Compiled>,
}

/// The kernels of one target.
struct Text {
    /// What precedes the first kernel.
    head: String,
    kernels: HashMap<String, String>,
}

/// Machine code by the kernel's name.
#[derive(Default)]
struct Compiled {
    code: HashMap<String, Vec<u8>>,
    /// When the file was written that has been read.
    read: Option<SystemTime>,
    /// Whether there is code that the file lacks.
    is_new: bool,
    /// Whether the message that the driver compiles has been sent.
    is_told: bool,
}

impl Compiled {
    /// Adds what the file has, if it has been written since it was read: by a helper process, for example.
    fn read(&mut self, path: &Path) {
        let written = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        if written.is_none() || written == self.read {
            return;
        }
        self.read = written;
        for (name, code) in cache_folder::read(path).ok().and_then(|bytes| unpack(&bytes)).unwrap_or_default()
        {
            self.code.entry(name).or_insert(code);
        }
    }
}

impl Ptx {
    /// The kernels of `texts` for a card of this architecture. If two texts have the same kernel, that of the first is used.
    /// `driver` is the version of the driver that translates them.
    pub(crate) fn new(architecture: &str, driver: i32, texts: &[String]) -> Ptx {
        let digest = cache_folder::hash_of(texts);
        let key = format!("{driver},{digest:016x}");
        let path = cache_folder::file(&format!("kernels-{architecture}"), &key, "cubins");
        Ptx {
            architecture: architecture.to_owned(),
            digest,
            texts: texts.iter().map(|text| Text::new(text)).collect(),
            path,
            code: Mutex::default(),
        }
    }

    /// The same kernels for a short trial: nobody is told that they are compiled, and nothing of them is kept.
    pub(crate) fn for_trial(mut self) -> Ptx {
        self.path = None;
        self.compiled().is_told = true;
        self
    }

    /// A number that differs for different kernels.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Whether the card has a kernel with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.texts.iter().any(|text| text.kernels.contains_key(name))
    }

    /// The number of kernels.
    pub(crate) fn len(&self) -> usize {
        self.texts.iter().map(|text| text.kernels.len()).sum()
    }

    /// The length of all texts in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let of_text = |text: &Text| {
            text.head.len() + text.kernels.values().map(|part| ENTRY.len() + part.len()).sum::<usize>()
        };
        self.texts.iter().map(of_text).sum()
    }

    /// The machine code of a kernel for the calling thread's device. `None` if the card has no such kernel.
    ///
    /// # Errors
    /// The driver cannot translate the kernel.
    pub(crate) fn code(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if let Some(code) = self.known(name) {
            return Ok(Some(code));
        }
        let Some(module) = self.texts.iter().find_map(|text| text.module(name)) else { return Ok(None) };
        if !std::mem::replace(&mut self.compiled().is_told, true) {
            progress::tell(
                "NVIDIA's driver compiles Rukh's kernels for the card, which takes some seconds at the first start",
            );
        }
        let code = hip_on_cuda::compile(&module).map_err(|reason| {
            let driver = hip_on_cuda::driver_version().unwrap_or(0);
            let (major, minor) = (driver / 1000, driver % 1000 / 10);
            GpuError::Call {
                call: format!("compilation of {name} for {}", self.architecture),
                reason: format!(
                    "{reason} (the driver is made for CUDA {major}.{minor}; a newer one may help)"
                ),
            }
        })?;
        let mut compiled = self.compiled();
        compiled.is_new = true;
        compiled.code.insert(name.to_owned(), code.clone());
        Ok(Some(code))
    }

    fn known(&self, name: &str) -> Option<Vec<u8>> {
        let mut compiled = self.compiled();
        if let Some(path) = self.path.as_ref().filter(|_| !compiled.code.contains_key(name)) {
            compiled.read(path);
        }
        compiled.code.get(name).cloned()
    }

    fn compiled(&self) -> MutexGuard<'_, Compiled> {
        self.code.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the machine code for the next start. If it cannot be kept, it is only compiled again.
    pub(crate) fn keep(&self) {
        let mut compiled = self.compiled();
        let Some(path) = self.path.as_ref().filter(|_| compiled.is_new) else { return };
        // Another process may have kept other kernels meanwhile.
        compiled.read(path);
        compiled.is_new = cache_folder::keep(path, &pack(&compiled.code)).is_err();
    }
}

impl Drop for Ptx {
    fn drop(&mut self) {
        self.keep();
    }
}

impl Text {
    fn new(text: &str) -> Text {
        let mut parts = text.split(ENTRY);
        let head = parts.next().unwrap_or_default().to_owned();
        let kernels =
            parts.filter_map(|part| Some((part.split('(').next()?.trim().to_owned(), part.to_owned())));
        Text { head, kernels: kernels.collect() }
    }

    /// The text with this kernel and no other.
    fn module(&self, name: &str) -> Option<String> {
        Some(format!("{}{ENTRY}{}", self.head, self.kernels.get(name)?))
    }
}

/// The file's content: for each kernel a line with its name and the number of bytes, the bytes, and a line's end; then
/// the hash of all that, because the driver may end the process that loads damaged code.
fn pack(code: &HashMap<String, Vec<u8>>) -> Vec<u8> {
    let mut names: Vec<&String> = code.keys().collect();
    names.sort_unstable();
    let mut packed = Vec::new();
    for name in names {
        let bytes = &code[name];
        packed.extend_from_slice(format!("{name} {}\n", bytes.len()).as_bytes());
        packed.extend_from_slice(bytes);
        packed.push(b'\n');
    }
    let hash = cache_folder::hash_of(packed.as_slice());
    packed.extend_from_slice(&hash.to_le_bytes());
    packed
}

/// The kernels of a file that [`pack`] made; `None` for any other file.
fn unpack(packed: &[u8]) -> Option<HashMap<String, Vec<u8>>> {
    let (mut packed, hash) = packed.split_last_chunk()?;
    if cache_folder::hash_of(packed) != u64::from_le_bytes(*hash) {
        return None;
    }
    let mut code = HashMap::new();
    while !packed.is_empty() {
        let end = packed.iter().position(|&byte| byte == b'\n')?;
        let (name, bytes) = std::str::from_utf8(&packed[..end]).ok()?.split_once(' ')?;
        let (length, rest): (usize, _) = (bytes.parse().ok()?, &packed[end + 1..]);
        let (bytes, rest) = rest.split_at_checked(length)?;
        code.insert(name.to_owned(), bytes.to_vec());
        packed = rest.strip_prefix(b"\n")?;
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 7.0\n.target sm_80\n.visible .entry one(\n.param .b64 a)\n{\nret;\n}\n\
                        .visible .entry two_f16(\n.param .b64 a)\n{\nexit;\n}\n";

    #[test]
    fn a_kernels_module_has_the_head_and_no_other_kernel() {
        let text = Text::new(TEXT);
        let module = text.module("two_f16").unwrap();
        assert!(module.starts_with(".version 7.0\n.target sm_80\n.visible .entry two_f16(\n"), "{module}");
        assert!(module.ends_with("exit;\n}\n") && !module.contains("ret;"), "{module}");
        assert_eq!(text.module("two"), None);
        assert_eq!(text.kernels.len(), 2);
    }

    #[test]
    fn kept_code_is_what_it_was_and_anything_else_is_not_believed() {
        let code = HashMap::from([("a".to_owned(), vec![0, 10, 13]), ("b_f16".to_owned(), Vec::new())]);
        let packed = pack(&code);
        assert_eq!(unpack(&packed), Some(code));
        for at in 0..packed.len() {
            assert_eq!(unpack(&packed[..at]), None, "{at} of {} bytes", packed.len());
            let mut damaged = packed.clone();
            damaged[at] ^= 4;
            assert_eq!(unpack(&damaged), None, "byte {at}");
        }
        let mut long = b"a 99999999999999999999\n".to_vec();
        let hash = cache_folder::hash_of(long.as_slice());
        long.extend_from_slice(&hash.to_le_bytes());
        assert_eq!(unpack(&long), None);
    }
}
