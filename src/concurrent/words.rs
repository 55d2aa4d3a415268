//! How the outputs of tools name a network and the limits of a search.

use std::path::Path;

/// A network's file without its folders, which are no concern of those who read the output; what is no path stays as it
/// is.
pub(crate) fn network(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Limits with their units, such as `400 nodes or 1000 ms`; empty if none is set.
pub(crate) fn limits(limits: &[(Option<u64>, &str)]) -> String {
    let words = limits.iter().filter_map(|(limit, unit)| Some(format!("{} {unit}", (*limit)?)));
    words.collect::<Vec<_>>().join(" or ")
}
