//! A graph of the source files of a crate: an arrow leads from a file to each file whose items it uses.
//!
//! The arrows are found by a search of the text, which is less exact than a compiler. The search understands `use`
//! trees, paths, re-exports (an arrow leads to the file that defines an item, not to the `mod.rs` that re-exports it),
//! and methods that are not in the same file as their type, if no other function of the crate has the same name. It
//! ignores tests, comments and strings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The names of the modules from the crate's root down to a module.
type ModulePath = Vec<String>;

/// One source file.
struct Source {
    /// Relative to the crate's `src`.
    file: PathBuf,
    /// The text without comments, strings, `use` declarations and test modules.
    code: String,
    /// The names that its `use` declarations bring in.
    imports: Vec<Import>,
    /// The items that it defines at its top level.
    items: BTreeSet<String>,
    /// The modules in the table of its documentation, each with its row.
    table: BTreeMap<String, usize>,
}

struct Import {
    /// The name in this file, or `*`.
    name: String,
    /// The path from the crate's root.
    path: ModulePath,
    /// Whether the declaration is a `pub use`.
    is_reexport: bool,
}

/// All files of a crate and the arrows between them.
pub(super) struct SourceGraph {
    sources: BTreeMap<ModulePath, Source>,
    /// The arrows, each with the name of an item that the first file uses and the second file defines.
    arrows: BTreeMap<(PathBuf, PathBuf), String>,
}

impl SourceGraph {
    /// Reads every file below `source`, a crate's `src`.
    pub(super) fn read(source: &Path) -> SourceGraph {
        let files = super::package_files(source);
        let mut texts = BTreeMap::new();
        let mut test_only = BTreeSet::new();
        for path in files {
            let file = path.strip_prefix(source).unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let table = module_table(&text);
            let text = without_comments_and_strings(&text);
            let module = module_path(&file);
            for (name, is_test) in declared_modules(&text) {
                if is_test {
                    test_only.insert([module.clone(), vec![name]].concat());
                }
            }
            texts.insert(module, (file, text, table));
        }
        let is_test = |module: &ModulePath| (0..=module.len()).any(|end| test_only.contains(&module[..end]));
        let sources = texts
            .into_iter()
            .filter(|(module, _)| !is_test(module))
            .map(|(module, (file, text, table))| {
                let source = Source { table, ..Source::new(&module, file, &text) };
                (module, source)
            })
            .collect();
        let mut graph = SourceGraph { sources, arrows: BTreeMap::new() };
        graph.find_arrows();
        graph
    }

    /// The number of arrows.
    pub(super) fn arrow_count(&self) -> usize {
        self.arrows.len()
    }

    /// Finds the cycles among the entries (files and subfolders) of each folder at or below `folder`. Returns one text
    /// for each cycle.
    pub(super) fn cycles(&self, folder: &Path) -> Vec<String> {
        let mut folders: BTreeSet<&Path> = BTreeSet::new();
        for source in self.sources.values() {
            folders.extend(source.file.ancestors().skip(1).filter(|at| at.starts_with(folder)));
        }
        folders.into_iter().flat_map(|folder| self.cycles_between_entries(folder)).collect()
    }

    /// The arrows that lead upward in the table of modules of a `mod.rs` at or below `folder`. A row may use only
    /// itself and the rows below it.
    pub(super) fn upward_arrows(&self, folder: &Path) -> Vec<String> {
        let mut upward = Vec::new();
        for (module, source) in self.sources.iter().filter(|(_, source)| source.file.starts_with(folder)) {
            let row = |file: &Path| -> Option<usize> {
                let other = module_path(file);
                (other.len() > module.len() && other.starts_with(module))
                    .then(|| source.table.get(&other[module.len()]).copied())
                    .flatten()
            };
            for ((from, to), name) in &self.arrows {
                if row(from).zip(row(to)).is_some_and(|(from, to)| to < from) {
                    let table = source.file.display();
                    upward.push(format!("{table}: {} uses {name} of {}", from.display(), to.display()));
                }
            }
        }
        upward
    }

    fn cycles_between_entries(&self, folder: &Path) -> Vec<String> {
        let entry = |file: &Path| -> Option<String> {
            let inside = file.strip_prefix(folder).ok()?;
            let name = inside.iter().next()?.to_str()?;
            Some(name.trim_end_matches(".rs").to_owned())
        };
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut reasons: BTreeMap<(String, String), String> = BTreeMap::new();
        for ((from, to), name) in &self.arrows {
            let (Some(a), Some(b)) = (entry(from), entry(to)) else { continue };
            if a != b {
                arrows.entry(a.clone()).or_default().insert(b.clone());
                reasons
                    .entry((a, b))
                    .or_insert_with(|| format!("{} uses {name} of {}", from.display(), to.display()));
            }
        }
        let reach = |start: &String| -> BTreeSet<String> {
            let mut reached = BTreeSet::new();
            let mut next = vec![start];
            while let Some(at) = next.pop() {
                for to in arrows.get(at).into_iter().flatten() {
                    if reached.insert(to.clone()) {
                        next.push(to);
                    }
                }
            }
            reached
        };
        let reached: BTreeMap<&String, BTreeSet<String>> =
            arrows.keys().map(|entry| (entry, reach(entry))).collect();
        let mut cycles = BTreeSet::new();
        for (entry, to) in reached.iter().filter(|(entry, to)| to.contains(**entry)) {
            let cycle: Vec<String> = (to.iter())
                .filter(|other| reached.get(other).is_some_and(|back| back.contains(*entry)))
                .cloned()
                .collect();
            cycles.insert(cycle);
        }
        (cycles.into_iter())
            .map(|cycle| {
                let mut line = format!("{}: {}", folder.display(), cycle.join(" - "));
                for ((a, b), reason) in &reasons {
                    if cycle.contains(a) && cycle.contains(b) {
                        line += &format!("\n    {reason}");
                    }
                }
                line
            })
            .collect()
    }

    fn find_arrows(&mut self) {
        let methods = self.extension_methods();
        let mut arrows = BTreeMap::new();
        for (module, source) in &self.sources {
            let mut add = |to: Option<&Source>, name: &str| {
                if let Some(to) = to.filter(|to| to.file != source.file) {
                    arrows.entry((source.file.clone(), to.file.clone())).or_insert_with(|| name.to_owned());
                }
            };
            let words: BTreeSet<&str> = words(&source.code).collect();
            for import in &source.imports {
                // A re-export is an arrow only if the file itself uses the name. An imported module adds no arrow here,
                // because the paths that begin with the module's name do.
                if !import.is_reexport || words.contains(import.name.as_str()) {
                    add(self.definition(&import.path, 0), &import.name);
                }
            }
            for path in paths(&source.code) {
                let full = source.full_path(module, &path, &self.sources);
                if let Some(full) = full {
                    add(self.definition(&full, 0), path.last().unwrap());
                }
            }
            for (method, file) in &methods {
                if words.contains(method.as_str()) && source.calls(method) {
                    add(self.sources.values().find(|other| other.file == *file), method);
                }
            }
        }
        self.arrows = arrows;
    }

    /// The file that defines the item that `path` names. Returns `None` for a module, and for an item of another crate.
    /// If the item is not found in the module that `path` names, that module's file counts as its definition.
    fn definition(&self, path: &[String], depth: usize) -> Option<&Source> {
        let mut module: ModulePath = Vec::new();
        for (index, name) in path.iter().enumerate() {
            let source = self.sources.get(&module)?;
            let inner = [module.clone(), vec![name.clone()]].concat();
            if self.sources.contains_key(&inner) {
                module = inner;
                continue;
            }
            if source.items.contains(name) {
                return Some(source);
            }
            // The depth is limited because two modules may import everything (`*`) from each other.
            if depth < 8 {
                let reexport = source
                    .imports
                    .iter()
                    .find(|import| import.name == *name && import.path != path[..=index]);
                if let Some(import) = reexport {
                    let rest = [import.path.clone(), path[index + 1..].to_vec()].concat();
                    return self.definition(&rest, depth + 1);
                }
                for import in source.imports.iter().filter(|import| import.name == "*") {
                    let through = [import.path.clone(), path[index..].to_vec()].concat();
                    if let Some(found) = self.definition(&through, depth + 1) {
                        return Some(found);
                    }
                }
            }
            return (!name.is_empty()).then_some(source).filter(|_| index > 0);
        }
        None
    }

    /// The methods whose type is defined in another file, each with the method's file. A method is left out if another
    /// function of the crate has the same name.
    fn extension_methods(&self) -> Vec<(String, PathBuf)> {
        let mut functions: BTreeMap<&str, usize> = BTreeMap::new();
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
        for (module, source) in &self.sources {
            let mut is_extension = false;
            for line in source.code.lines() {
                if let Some(header) = line.strip_prefix("impl") {
                    is_extension = !header.contains(" for ")
                        && words(header.trim_start_matches(|c| c != ' ').trim()).next().is_some_and(|name| {
                            let path =
                                source.full_path(module, &[name.to_owned(), String::new()], &self.sources);
                            !source.items.contains(name)
                                && (path.is_some() || source.imports.iter().any(|import| import.name == name))
                        });
                }
                if let Some(name) = function_name(line) {
                    *functions.entry(name).or_default() += 1;
                    if is_extension && line.starts_with("    ") && !line.starts_with("     ") {
                        found.insert(name.to_owned(), source.file.clone());
                    }
                }
            }
        }
        found.into_iter().filter(|(name, _)| functions.get(name.as_str()) == Some(&1)).collect()
    }
}

impl Source {
    fn new(module: &ModulePath, file: PathBuf, text: &str) -> Source {
        let text = without_test_modules(text);
        let (code, uses) = separate_uses(&text);
        let children: BTreeSet<String> = declared_modules(&text).into_iter().map(|(name, _)| name).collect();
        let mut imports = Vec::new();
        for (is_reexport, tree) in uses {
            for (name, path) in use_tree(&tree) {
                if let Some(path) = absolute(module, &path, &children) {
                    imports.push(Import { name, path, is_reexport });
                }
            }
        }
        let items = code.lines().filter_map(item_name).map(str::to_owned).collect();
        Source { file, code, imports, items, table: BTreeMap::new() }
    }

    /// Turns a path in this file's code into a path from the crate's root. Returns `None` if it does not lead into the
    /// crate's modules.
    fn full_path(
        &self,
        module: &ModulePath,
        path: &[String],
        sources: &BTreeMap<ModulePath, Source>,
    ) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" | "super" | "self" => absolute(module, path, &BTreeSet::new()),
            _ => {
                let child = [module.clone(), vec![first.clone()]].concat();
                if sources.contains_key(&child) {
                    return Some([child, rest.to_vec()].concat());
                }
                let import = self.imports.iter().find(|import| import.name == *first)?;
                Some([import.path.clone(), rest.to_vec()].concat())
            }
        }
    }

    fn calls(&self, method: &str) -> bool {
        [".", "::"].iter().any(|before| self.code.contains(&format!("{before}{method}(")))
    }
}

/// The module of a file: `search/mod.rs` is `search`, and `search/select.rs` is `search::select`.
fn module_path(file: &Path) -> ModulePath {
    let mut path: ModulePath =
        file.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    path
}

/// The modules that a file declares, each with whether it is compiled only for tests.
fn declared_modules(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut before = "";
    for line in text.lines() {
        let declaration = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        let declaration = declaration.trim_start_matches("pub ");
        if let Some(name) = declaration.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            found.push((name.to_owned(), before.starts_with("#[cfg(") && before.contains("test")));
        }
        before = line;
    }
    found
}

/// The modules that the table of a file's documentation links to in its first column, each with its row. Only a table
/// whose heading is `module` or `modules` counts.
fn module_table(text: &str) -> BTreeMap<String, usize> {
    let mut rows = BTreeMap::new();
    let mut is_table = false;
    for (row, line) in text.lines().enumerate() {
        let Some(cells) = line.strip_prefix("//! |") else {
            is_table = false;
            continue;
        };
        let first = cells.split('|').next().unwrap_or_default();
        is_table |= first.trim().starts_with("module");
        for name in words(first).filter(|_| is_table && first.contains("[`")) {
            rows.entry(name.to_owned()).or_insert(row);
        }
    }
    rows
}

/// The text without `//` comments and without the contents of strings and of character literals. Block comments and
/// escaped character literals, such as `'\n'`, stay.
fn without_comments_and_strings(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        code += before;
        if from.starts_with("//") {
            rest = &from[from.find('\n').unwrap_or(from.len())..];
        } else if from.starts_with('"') {
            let is_raw = before.ends_with("r#");
            let end = match is_raw {
                true => from.find("\"#").map(|end| end + 1),
                false => end_of_string(from),
            };
            code += "\"\"";
            rest = &from[end.unwrap_or(from.len())..];
        } else if from.starts_with('\'') && from.len() > 2 && from[1..].chars().nth(1) == Some('\'') {
            // A character literal, which may contain a quote. A lifetime has no second quote.
            rest = &from[from[1..].find('\'').map_or(1, |end| end + 2).max(3).min(from.len())..];
        } else {
            code += &from[..1];
            rest = &from[1..];
        }
    }
    code + rest
}

/// The offset after the closing quote of the string literal at the beginning of `text`.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// The text without the items whose `#[cfg(...)]` contains `test`, unless it contains `not(test`. The text must be
/// formatted by rustfmt.
fn without_test_modules(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test") {
            let head = lines.next().unwrap_or_default();
            if !head.ends_with(';') && !head.ends_with('}') {
                lines.by_ref().find(|line| line.starts_with('}'));
            }
            continue;
        }
        kept += line;
        kept.push('\n');
    }
    kept
}

/// Separates the `use` declarations from the other code. Returns the other code, and for each declaration whether it is
/// a re-export, and its tree.
fn separate_uses(text: &str) -> (String, Vec<(bool, String)>) {
    let mut code = String::new();
    let mut uses = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        let is_reexport = trimmed.starts_with("pub") && trimmed.contains(" use ") && !trimmed.contains("fn ");
        if !is_reexport && !trimmed.starts_with("use ") {
            code += line;
            code.push('\n');
            continue;
        }
        let mut tree = trimmed[trimmed.find("use ").unwrap() + 4..].to_owned();
        while !tree.ends_with(';') {
            let Some(more) = lines.next() else { break };
            tree += more.trim();
        }
        uses.push((is_reexport, tree.trim_end_matches(';').to_owned()));
    }
    (code, uses)
}

/// The names that a `use` tree brings in, each with its path.
fn use_tree(tree: &str) -> Vec<(String, Vec<String>)> {
    let tree = tree.trim();
    if let Some((prefix, inner)) = tree.split_once('{') {
        let prefix: Vec<String> = segments(prefix);
        let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
        return split_list(inner)
            .into_iter()
            .flat_map(|part| use_tree(&part))
            .map(|(name, path)| match (name.as_str(), path.as_slice()) {
                ("self", _) => (prefix.last().cloned().unwrap_or_default(), prefix.clone()),
                _ => (name, [prefix.clone(), path].concat()),
            })
            .collect();
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut path = segments(path);
    let name = alias.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
    if name == "*" {
        path.pop();
    }
    if name.is_empty() { Vec::new() } else { vec![(name, path)] }
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Splits at the commas outside braces.
fn split_list(text: &str) -> Vec<String> {
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
    }
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// Turns a path that `module` uses into a path from the crate's root. `children` are the modules that `module`
/// declares. Returns `None` for a path into another crate.
fn absolute(module: &ModulePath, path: &[String], children: &BTreeSet<String>) -> Option<ModulePath> {
    let mut at = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            at.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while let Some("super") = rest.first().map(String::as_str) {
                at.pop();
                rest = &rest[1..];
            }
        }
        first if children.contains(first) => {}
        _ => return None,
    }
    Some([at, rest.to_vec()].concat())
}

/// The words of a text that can be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c != '_' && !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// All paths (`a::b`) in code.
fn paths(code: &str) -> Vec<Vec<String>> {
    let is_path = |c: char| c == '_' || c == ':' || c.is_alphanumeric();
    code.split(|c: char| !is_path(c))
        .filter(|word| word.contains("::"))
        .map(segments)
        .filter(|path| path.len() > 1)
        .collect()
}

/// The name of the item that begins on this line, if the line is at the top level of its file.
fn item_name(line: &str) -> Option<&str> {
    if line.starts_with([' ', '}', '#']) {
        return None;
    }
    let mut words = words(line);
    let keywords = ["fn", "struct", "enum", "trait", "type", "static", "union", "macro_rules"];
    loop {
        match words.next()? {
            "const" => match words.next()? {
                "fn" | "unsafe" | "extern" => return function_name(line),
                name => return Some(name),
            },
            keyword if keywords.contains(&keyword) => return words.next(),
            "impl" | "mod" => return None,
            _ => {}
        }
    }
}

/// The name of the function that a line declares.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_declaration = words(before).all(|word| {
        ["pub", "crate", "super", "in", "const", "unsafe", "extern", "async", "search", "C"].contains(&word)
    });
    is_declaration.then(|| words(after).next()).flatten()
}
