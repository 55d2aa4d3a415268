//! Checks the Markdown pages: each link has a target, each path exists, an item that a page names beside a source file is
//! defined in that file, and the table of architectures is complete.

use std::fs;
use std::path::{Path, PathBuf};

/// The README is the page that every visitor reads, so it stays short.
const README_BYTES: u64 = 8 * 1024;

/// The pages of `docs/` say what is, and how it came to be known is in git's history.
const DOCS_WORDS: usize = 20_000;

/// A backticked word that begins with one of these is a path from the top of the repository.
const TOP_FOLDERS: [&str; 8] =
    ["src/", "hip/", "tests/", "scripts/", "docs/", "weights/", ".github/", ".ci/"];

/// Folders that a tool makes, so that a checkout lacks them.
const MADE_BY_TOOLS: [&str; 1] = ["tests/fuzz/corpus"];

/// The keywords of Rust that precede the name of an item in its definition.
const DEFINITIONS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules!"];

struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    /// The page's lines outside of fenced code, with their numbers from 1.
    fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().filter(|(_, _, is_code)| !is_code).map(|(number, line, _)| (number, line))
    }

    /// Each line with its number, counted from 1, and whether it is fenced code.
    fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let mut in_fence = false;
        self.text.lines().enumerate().map(move |(index, line)| {
            let is_fence = line.trim_start().starts_with("```");
            in_fence ^= is_fence;
            (index + 1, line, in_fence || is_fence)
        })
    }

    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.strip_prefix(root()).unwrap_or(&self.path).display())
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page of the repository, except those in `target` folders and in hidden folders.
fn pages() -> Vec<Page> {
    fn collect(folder: &Path, pages: &mut Vec<Page>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if entry.file_type().unwrap().is_dir() {
                if name != "target" && !name.starts_with('.') {
                    collect(&path, pages);
                }
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path).unwrap();
                pages.push(Page { path, text });
            }
        }
    }
    let mut pages = Vec::new();
    collect(root(), &mut pages);
    assert!(pages.len() > 10, "only {} pages were found", pages.len());
    pages
}

/// The texts between backticks in a line.
fn code_spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// The targets of the links in a line: `page.md#heading` of `[text](page.md#heading)`.
fn link_targets(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|&c| c.is_alphanumeric() || [' ', '-', '_'].contains(&c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_heading(page: &Path, wanted: &str) -> bool {
    let page = Page { path: page.to_owned(), text: fs::read_to_string(page).unwrap() };
    page.prose().any(|(_, line)| line.starts_with('#') && anchor(line.trim_start_matches('#')) == wanted)
}

/// The path from the repository's top that a word of a page names. The path ends before a placeholder (`FOLDER`) or a
/// pattern (`*`). Returns `None` if the word names no path.
fn repository_path(word: &str) -> Option<String> {
    let word = word.trim_end_matches(['.', ',', ':', ';', ')']);
    TOP_FOLDERS.iter().find(|folder| word.starts_with(**folder))?;
    let is_placeholder = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default();
        let is_upper = stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        part.contains(['*', '…', '<', '{']) || is_upper && part != "README.md" && part != "RESOURCES.md"
    };
    let parts: Vec<&str> = word.split('/').take_while(|part| !is_placeholder(part)).collect();
    Some(parts.join("/"))
}

#[test]
fn the_readme_is_short() {
    let bytes = fs::metadata(root().join("README.md")).unwrap().len();
    assert!(bytes <= README_BYTES, "README.md has {bytes} bytes; move something to docs/");
}

#[test]
fn the_pages_of_docs_have_at_most_20_000_words() {
    let folder = root().join("docs");
    let mut words: Vec<(usize, String)> = Vec::new();
    for page in pages().iter().filter(|page| page.path.parent() == Some(&*folder)) {
        words.push((page.text.split_whitespace().count(), page.at(1)));
    }
    words.sort_unstable();
    let sum: usize = words.iter().map(|(count, _)| count).sum();
    assert!(sum <= DOCS_WORDS, "docs/*.md has {sum} words; shorten a page: {words:?}");
}

#[test]
fn links_in_pages_lead_somewhere() {
    let mut dead = Vec::new();
    for page in pages() {
        for (number, line) in page.prose() {
            for target in link_targets(line).into_iter().filter(|target| !target.contains("://")) {
                let (file, heading) = target.split_once('#').unwrap_or((target, ""));
                let path = match file {
                    "" => page.path.clone(),
                    file => page.path.parent().unwrap().join(file),
                };
                let is_there = path.exists() && (heading.is_empty() || has_heading(&path, heading));
                if !is_there {
                    dead.push(format!("{}: {target}", page.at(number)));
                }
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn paths_in_pages_exist() {
    let mut missing = Vec::new();
    for page in pages() {
        for (number, line, is_code) in page.lines() {
            let spans = if is_code { vec![line] } else { code_spans(line) };
            let words = spans.into_iter().flat_map(|span| span.split([' ', '\'', '"', '=', '(']));
            for path in words.filter_map(repository_path) {
                let is_made = MADE_BY_TOOLS.iter().any(|folder| path.starts_with(folder));
                if !is_made && !root().join(&path).exists() {
                    missing.push(format!("{}: {path}", page.at(number)));
                }
            }
        }
    }
    assert!(missing.is_empty(), "paths that are not in the repository:\n{}", missing.join("\n"));
}

/// Whether `source` defines an item of this name. For `Type::method`, it must define `method` and contain `Type`.
fn defines(source: &str, item: &str) -> bool {
    let mut names: Vec<&str> = item.trim_end_matches("()").split("::").collect();
    let Some(last) = names.pop() else {
        return false;
    };
    let ends_name = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let is_defined = DEFINITIONS.iter().any(|word| {
        let definition = format!("{word} {last}");
        source.match_indices(&definition).any(|(place, found)| ends_name(&source[place + found.len()..]))
    });
    is_defined && names.iter().all(|name| source.contains(name))
}

/// A page names a function as "`src/file.rs` `function`", or several with commas between them.
#[test]
fn items_beside_a_file_are_defined_there() {
    let (mut missing, mut checked) = (Vec::new(), 0);
    for page in pages() {
        let mut source = None;
        let mut after_source = String::new();
        for (number, line) in page.prose() {
            for (index, piece) in line.split('`').enumerate() {
                if index % 2 == 0 {
                    after_source += piece;
                } else if TOP_FOLDERS.iter().any(|folder| piece.starts_with(folder)) {
                    let path = root().join(piece);
                    source = piece.ends_with(".rs").then(|| fs::read_to_string(path).ok()).flatten();
                    after_source.clear();
                } else if let Some(text) =
                    source.as_ref().filter(|_| ["", ","].contains(&after_source.trim()))
                {
                    checked += 1;
                    if !defines(text, piece) {
                        missing.push(format!("{}: {piece}", page.at(number)));
                    }
                    after_source.clear();
                } else {
                    source = None;
                }
            }
            after_source.push(' ');
        }
    }
    assert!(missing.is_empty(), "items that are not in the file beside them:\n{}", missing.join("\n"));
    assert!(
        checked > 30,
        "only {checked} items found beside a file: does this test still look at the right thing?"
    );
}

/// A target that nobody runs finds nothing.
#[test]
fn every_fuzz_target_runs_in_ci() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let (workflow, manifest) = (read(".github/workflows/ci.yml"), read("tests/fuzz/Cargo.toml"));
    let listed = workflow.lines().filter_map(|line| line.strip_prefix("          - "));
    let listed: Vec<&str> = listed.filter(|line| !line.contains(' ')).collect();
    for entry in fs::read_dir(root().join("tests/fuzz/fuzz_targets")).unwrap() {
        let path = entry.unwrap().path();
        let target = path.file_stem().unwrap().to_str().unwrap();
        assert!(listed.contains(&target), "{target} is not in .github/workflows/ci.yml");
        assert!(
            manifest.contains(&format!("name = \"{target}\"")),
            "{target} is not in tests/fuzz/Cargo.toml"
        );
    }
}

#[test]
fn each_stored_architecture_has_a_row_in_the_table_of_proofs() {
    let page = fs::read_to_string(root().join("docs/gpu.md")).unwrap();
    let mut rows = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| gfx")) {
        let first = line.split('|').nth(1).unwrap().trim();
        match first.split_once(" to ") {
            Some((from, to)) => {
                let number = |name: &str| name.trim_start_matches("gfx").parse::<u32>().unwrap();
                rows.extend((number(from)..=number(to)).map(|number| format!("gfx{number}")));
            }
            None => rows.extend(first.split(", ").map(str::to_owned)),
        }
    }
    let objects = root().join("hip/kernels/objects");
    let mut stored: Vec<String> = fs::read_dir(&objects)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".co.gz").map(str::to_owned))
        .collect();
    let same_code = fs::read_to_string(objects.join("same_code.txt")).unwrap();
    let renamed = same_code.lines().filter_map(|line| line.split_whitespace().next());
    stored.extend(renamed.filter(|name| name.starts_with("gfx")).map(str::to_owned));
    assert_eq!(stored.len(), 20);
    for architecture in stored {
        assert_eq!(rows.iter().filter(|&row| *row == architecture).count(), 1, "{architecture}");
    }
}

#[test]
fn paths_and_items_are_recognised() {
    assert_eq!(repository_path("scripts/check.sh,").as_deref(), Some("scripts/check.sh"));
    assert_eq!(
        repository_path("hip/kernels/objects/ARCHITECTURE.co.gz").as_deref(),
        Some("hip/kernels/objects")
    );
    assert_eq!(repository_path("tests/data/micro-*.pb.gz").as_deref(), Some("tests/data"));
    assert_eq!(repository_path("hip/kernels/README.md").as_deref(), Some("hip/kernels/README.md"));
    assert_eq!(repository_path("target/release/rukh"), None);
    assert_eq!(anchor(" What `rukh perft` does, and why"), "what-rukh-perft-does-and-why");
    assert_eq!(code_spans("the `a` and `b c`"), ["a", "b c"]);
    assert_eq!(link_targets("[x](y.md#z), [v](http://w)"), ["y.md#z", "http://w"]);
    let source = "impl Engine {\n    pub fn go(&mut self) {}\n    fn goes() {}\n}";
    assert!(defines(source, "Engine::go") && defines(source, "go()") && !defines(source, "Tree::go"));
    assert!(!defines(source, "g"));
}
