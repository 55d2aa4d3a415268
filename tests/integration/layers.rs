//! Modules use only what is below them: lib.rs lists them from the top down, and inside them no files use each other in
//! a cycle.

#[path = "layers/source_graph.rs"]
mod source_graph;

use source_graph::SourceGraph;
use std::fs;
use std::path::{Path, PathBuf};

/// All Rust files below a directory.
pub(crate) fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => rust_files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The modules that a file names after `crate::`; links in comments do not count.
fn used_modules(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names = code.flat_map(|line| {
        line.match_indices("crate::").map(|(start, found)| {
            let rest = &line[start + found.len()..];
            let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
            rest[..end].to_owned()
        })
    });
    names.collect()
}

#[test]
fn layers_only_look_down() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(source.join("lib.rs")).unwrap();
    let layers: Vec<&str> =
        lib.lines().filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';')).collect();
    assert!(layers.len() >= 9, "lib.rs lists the modules: {layers:?}");

    let mut uses = 0;
    for file in rust_files(&source) {
        let inside = file.strip_prefix(&source).unwrap();
        let module = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some(layer) = layers.iter().position(|&name| name == module) else {
            assert!(matches!(module, "lib" | "main"), "{module} is not in lib.rs");
            continue;
        };
        for used in used_modules(&fs::read_to_string(&file).unwrap()) {
            let Some(below) = layers.iter().position(|&name| name == used) else {
                continue;
            };
            assert!(below >= layer, "{}: {module} uses {used}, which is above it", inside.display());
            uses += 1;
        }
    }
    assert!(uses > 20, "only {uses} uses found: does this test still look at the right thing?");
}

/// No files or folders inside `folder` use each other in a cycle, and where a `mod.rs` lists its modules in a table,
/// none uses one that stands above it.
fn assert_in_order(source: &str, folder: &str, least_arrows: usize) {
    let graph = SourceGraph::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(source));
    let found = graph.arrow_count();
    assert!(
        found >= least_arrows,
        "{source}: only {found} arrows found: does this test still look at the right thing?"
    );
    let cycles = graph.cycles(Path::new(folder));
    assert!(cycles.is_empty(), "files that use each other in a cycle, in {source}:\n{}", cycles.join("\n"));
    let upward = graph.upward_arrows(Path::new(folder));
    assert!(
        upward.is_empty(),
        "against the order of a table of modules, in {source}:\n{}",
        upward.join("\n")
    );
}

#[test]
fn the_search_only_looks_down() {
    assert_in_order("src", "search", 300);
}

#[test]
fn the_tree_only_looks_down() {
    assert_in_order("src", "tree", 300);
}

#[test]
fn the_backends_only_look_down() {
    assert_in_order("src", "backend", 300);
}

#[test]
fn networks_only_look_down() {
    assert_in_order("src", "net", 300);
}

#[test]
fn all_other_modules_only_look_down() {
    for folder in ["chess", "options", "engine", "analysis", "concurrent", "selfplay", "uci", "cli"] {
        assert_in_order("src", folder, 300);
    }
}

#[test]
fn the_shims_only_look_down() {
    assert_in_order("hip/shims/emulator/src", "", 50);
    assert_in_order("hip/shims/cuda/src", "", 10);
}

#[test]
fn the_fleet_only_looks_down() {
    assert_in_order("fleet/src", "", 100);
}
