//! The text of `BackendOptions` (`-o`): which children a backend has, and what each is told.
//!
//! ```text
//! threads=2                                     one option
//! backend=rocm,(gpu=0),(gpu=1)                  two nameless children that inherit `backend`
//! work(backend=cpu-bf16),truth(backend=cpu)     two named children
//! cpu,trivial                                   two children, each named like its backend
//! record_file="a, b.bin"                        quotes ('…' or "…") for text with , ( ) =
//! ```
//!
//! The syntax is lc0's, so that what users wrote for lc0 works. An option that a child does not have itself
//! is looked up in what encloses it. An option that nothing ever asked for is an error that names it
//! ([`OptionTree::check_all_used`]): a misspelt option silently ignored is the worst answer. A bare word is a
//! child without options; where a backend asks for a yes-or-no option of that name, the bare word means yes.
//!
//! Values stay text until a backend asks for them with a type, so that the error can say what was expected.

use super::BackendError;
use crate::quote::quoted;
use std::cell::Cell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Deeper nesting is refused: backends are made recursively.
const MAXIMUM_DEPTH: usize = 8;

/// A parsed option text. The root is node 0.
#[derive(Debug)]
pub struct OptionTree {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// Empty for a nameless child and for the root.
    name: String,
    parent: Option<usize>,
    entries: Vec<Entry>,
    children: Vec<usize>,
    /// A child that became a backend, or a bare word that was taken as "yes".
    used: Cell<bool>,
}

#[derive(Debug)]
struct Entry {
    key: String,
    value: String,
    used: Cell<bool>,
}

/// The options of one backend: its own, then those around it. A cheap handle.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    tree: &'a OptionTree,
    node: usize,
}

impl OptionTree {
    /// Parses an option text; empty text is fine.
    pub fn parse(text: &str) -> Result<OptionTree, BackendError> {
        Parser::new(text).parse()
    }

    /// The options of the backend that the user named.
    pub fn root(&self) -> Options<'_> {
        Options { tree: self, node: 0 }
    }

    /// An error that names the first option or child that nobody asked for.
    pub fn check_all_used(&self, backend: &str) -> Result<(), BackendError> {
        for node in &self.nodes {
            if let Some(entry) = node.entries.iter().find(|entry| !entry.used.get()) {
                return Err(option_error(
                    &format!("{}={}", entry.key, entry.value),
                    format!("backend {backend} has no option of this name"),
                ));
            }
            if !node.used.get() {
                return Err(option_error(
                    &node.name,
                    format!("backend {backend} has no option of this name, and takes no child backends"),
                ));
            }
        }
        Ok(())
    }
}

impl<'a> Options<'a> {
    /// The name before the parentheses; empty for the root and for nameless children.
    pub fn name(&self) -> &'a str {
        &self.tree.nodes[self.node].name
    }

    /// Its children, in the order written. Asking counts as use.
    pub fn children(&self) -> Vec<Options<'a>> {
        let nodes = &self.tree.nodes;
        let children = &nodes[self.node].children;
        children
            .iter()
            .map(|&node| {
                nodes[node].used.set(true);
                Options { tree: self.tree, node }
            })
            .collect()
    }

    /// The name of the backend that a child stands for: its own `backend=`, else its name if that is one,
    /// else the `backend=` of what encloses it, else its name.
    pub fn backend_name(&self, is_known: impl Fn(&str) -> bool) -> &'a str {
        let own = self.find_in(self.node, "backend");
        let named = Some(self.name()).filter(|name| is_known(name));
        own.or(named).or_else(|| self.inherited_backend()).unwrap_or(self.name())
    }

    /// `backend=` of an enclosing node. Only the root's `backend=` speaks of its children (the root itself is
    /// named by the option `Backend`); further in, it says what the node itself is.
    pub fn inherited_backend(&self) -> Option<&'a str> {
        self.find_in(0, "backend")
    }

    /// The text of an option, if it is given here or around.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        let mut node = Some(self.node);
        while let Some(at) = node {
            if let Some(value) = self.find_in(at, key) {
                return Some(value);
            }
            node = self.tree.nodes[at].parent;
        }
        None
    }

    /// A number within `range`, or `default` where it is not given.
    pub fn number<T>(&self, key: &str, default: T, range: RangeInclusive<T>) -> Result<T, BackendError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.text(key) else {
            return Ok(default);
        };
        match text.parse::<T>() {
            // A NaN is in no range.
            Ok(value) if range.contains(&value) => Ok(value),
            _ => Err(option_error(
                &format!("{key}={text}"),
                format!("expected a number from {} to {}", range.start(), range.end()),
            )),
        }
    }

    /// Yes or no: `key=true`, `key=false`, or just `key` for yes.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, BackendError> {
        match self.text(key) {
            None => Ok(self.take_bare_word(key) || default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(option_error(&format!("{key}={other}"), "expected true or false".to_owned())),
        }
    }

    /// One of `choices` (word, meaning); the first is the default.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, BackendError> {
        let text = self.text(key).unwrap_or(choices[0].0);
        choices.iter().find(|(word, _)| *word == text).map(|&(_, meaning)| meaning).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            option_error(&format!("{key}={text}"), format!("expected one of {}", words.join(", ")))
        })
    }

    /// Whether a bare word `key` stands among the children; it then counts as used.
    fn take_bare_word(&self, key: &str) -> bool {
        let nodes = &self.tree.nodes;
        let word = nodes[self.node]
            .children
            .iter()
            .map(|&child| &nodes[child])
            .find(|child| child.name == key && child.entries.is_empty() && child.children.is_empty());
        if let Some(word) = word {
            word.used.set(true);
        }
        word.is_some()
    }

    fn find_in(&self, node: usize, key: &str) -> Option<&'a str> {
        let entry = self.tree.nodes[node].entries.iter().find(|entry| entry.key == key)?;
        entry.used.set(true);
        Some(&entry.value)
    }
}

fn option_error(option: &str, reason: String) -> BackendError {
    BackendError::Option { option: option.to_owned(), reason }
}

/// One token: its kind and the byte range that it came from.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    Open,
    Close,
    Comma,
    Equals,
    Text(&'a str),
    End,
}

/// Builds the tree without recursion: `open` is the node being filled.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    nodes: Vec<Node>,
    open: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parser<'a> {
        let root = Node {
            name: String::new(),
            parent: None,
            entries: Vec::new(),
            children: Vec::new(),
            used: Cell::new(true),
        };
        Parser { text, at: 0, nodes: vec![root], open: 0, depth: 0 }
    }

    fn parse(mut self) -> Result<OptionTree, BackendError> {
        loop {
            // An item, or nothing (an empty list, or a comma too many, which harms nobody).
            match self.next_token()? {
                Token::Text(word) => match self.next_token()? {
                    Token::Equals => {
                        let Token::Text(value) = self.next_token()? else {
                            return Err(self.error("expected a value after the ="));
                        };
                        self.add_entry(word, value)?;
                    }
                    Token::Open => {
                        self.open_child(word)?;
                        continue;
                    }
                    after => {
                        self.open_child(word)?;
                        self.close_child();
                        if self.end_of_item(after)? {
                            break;
                        }
                        continue;
                    }
                },
                Token::Open => {
                    self.open_child("")?;
                    continue;
                }
                Token::Equals => return Err(self.error("expected a name before the =")),
                after => {
                    if self.end_of_item(after)? {
                        break;
                    }
                    continue;
                }
            }
            let after = self.next_token()?;
            if self.end_of_item(after)? {
                break;
            }
        }
        Ok(OptionTree { nodes: self.nodes })
    }

    /// Handles what may follow an item: commas and closing parentheses. True at the end of the text.
    fn end_of_item(&mut self, mut token: Token<'a>) -> Result<bool, BackendError> {
        while token == Token::Close {
            if self.depth == 0 {
                return Err(self.error("a ) without its ("));
            }
            self.close_child();
            token = self.next_token()?;
        }
        match token {
            Token::Comma => Ok(false),
            Token::End if self.depth == 0 => Ok(true),
            Token::End => Err(self.error("a ( without its )")),
            _ => Err(self.error("expected a comma")),
        }
    }

    fn open_child(&mut self, name: &str) -> Result<(), BackendError> {
        if self.depth == MAXIMUM_DEPTH {
            return Err(self.error(&format!("nested more than {MAXIMUM_DEPTH} deep")));
        }
        let siblings = &self.nodes[self.open].children;
        if !name.is_empty() && siblings.iter().any(|&sibling| self.nodes[sibling].name == name) {
            return Err(
                self.error(&format!("{name} is given twice; name the children a(backend=…),b(backend=…)"))
            );
        }
        let child = self.nodes.len();
        self.nodes[self.open].children.push(child);
        self.nodes.push(Node {
            name: name.to_owned(),
            parent: Some(self.open),
            entries: Vec::new(),
            children: Vec::new(),
            used: Cell::new(false),
        });
        self.open = child;
        self.depth += 1;
        Ok(())
    }

    fn close_child(&mut self) {
        // Only called for a node that `open_child` opened, so there is a parent.
        self.open = self.nodes[self.open].parent.unwrap_or(0);
        self.depth -= 1;
    }

    fn add_entry(&mut self, key: &str, value: &str) -> Result<(), BackendError> {
        if self.nodes[self.open].entries.iter().any(|entry| entry.key == key) {
            return Err(self.error(&format!("{key} is given twice")));
        }
        let entry = Entry { key: key.to_owned(), value: value.to_owned(), used: Cell::new(false) };
        self.nodes[self.open].entries.push(entry);
        Ok(())
    }

    fn next_token(&mut self) -> Result<Token<'a>, BackendError> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            '=' => (Token::Equals, 1),
            '\'' | '"' => {
                let inner = &rest[1..];
                let end = inner.find(first).ok_or_else(|| self.error("a quote is not closed"))?;
                (Token::Text(&inner[..end]), end + 2)
            }
            _ => {
                let end = rest.find(['(', ')', ',', '=']).unwrap_or(rest.len());
                (Token::Text(rest[..end].trim_end()), end)
            }
        };
        self.at += length;
        Ok(token)
    }

    /// An error that shows the text up to where parsing stopped.
    fn error(&self, reason: &str) -> BackendError {
        option_error(self.text, format!("{reason}, after {}", quoted(&self.text[..self.at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reason(text: &str) -> String {
        OptionTree::parse(text).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn reads_lc0_style_text() {
        let tree = OptionTree::parse(" backend=cpu , threads = 3,(gpu=0),second(gpu=1,delay=0.5), trivial,")
            .unwrap();
        let root = tree.root();
        let children = root.children();
        let names: Vec<&str> = children.iter().map(|child| child.name()).collect();
        assert_eq!(names, ["", "second", "trivial"]);
        assert_eq!(children[0].number("gpu", 9, 0..=9).unwrap(), 0);
        assert_eq!(children[1].number("gpu", 9, 0..=9).unwrap(), 1);
        assert_eq!(children[1].number("delay", 0.0, 0.0..=9.0).unwrap(), 0.5);
        // Inherited, defaulted.
        assert_eq!(children[2].number("threads", 1, 1..=64).unwrap(), 3);
        assert_eq!(children[2].number("gpu", 7, 0..=9).unwrap(), 7);
        let is_known = |name: &str| name == "cpu" || name == "trivial";
        let backends: Vec<&str> = children.iter().map(|child| child.backend_name(is_known)).collect();
        assert_eq!(backends, ["cpu", "cpu", "trivial"]);
        tree.check_all_used("test").unwrap();
    }

    #[test]
    fn values_may_be_quoted_paths_and_flags_bare() {
        let tree =
            OptionTree::parse(r#"record_file="C:\my games, (old)=1.bin",replay=C:\x y.bin,uniform"#).unwrap();
        let root = tree.root();
        assert_eq!(root.text("record_file"), Some(r"C:\my games, (old)=1.bin"));
        assert_eq!(root.text("replay"), Some(r"C:\x y.bin"));
        assert!(root.flag("uniform", false).unwrap());
        assert!(!root.flag("other", false).unwrap());
        tree.check_all_used("test").unwrap();
    }

    #[test]
    fn unknown_options_and_children_are_named() {
        let tree = OptionTree::parse("threads=2,treads=4").unwrap();
        tree.root().number("threads", 1, 1..=8).unwrap();
        let error = tree.check_all_used("cpu").unwrap_err().to_string();
        assert!(error.contains("treads=4") && error.contains("cpu"), "{error}");

        for (text, part) in [("child(x=1)", "x=1"), ("fast", "fast")] {
            let error = OptionTree::parse(text).unwrap().check_all_used("cpu").unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn wrong_values_say_what_was_expected() {
        let tree = OptionTree::parse("threads=many,batch=0,rtol=nan,uniform=maybe,mode=fast").unwrap();
        let root = tree.root();
        let errors = [
            root.number("threads", 1, 1..=8).unwrap_err().to_string(),
            root.number("batch", 1, 1..=1024).unwrap_err().to_string(),
            root.number("rtol", 0.1, 0.0..=1.0).unwrap_err().to_string(),
            root.flag("uniform", false).unwrap_err().to_string(),
            root.choice("mode", &[("check", 0), ("histo", 1)]).unwrap_err().to_string(),
        ];
        let expected = ["threads=many", "1 to 1024", "rtol=nan", "true or false", "check, histo"];
        for (error, part) in errors.iter().zip(expected) {
            assert!(error.contains(part), "{error} lacks {part}");
        }
    }

    #[test]
    fn broken_text_is_refused_with_a_reason() {
        assert!(reason("a(b=1").contains("without its )"));
        assert!(reason("a)").contains("without its ("));
        assert!(reason("=1").contains("before the ="));
        assert!(reason("a=,b=1").contains("after the ="));
        assert!(reason("a='x").contains("not closed"));
        assert!(reason("a=1 (b)").contains("comma"));
        assert!(reason("a,a").contains("twice"));
        assert!(reason("k=1,k=2").contains("twice"));
        assert!(reason(&"(".repeat(1000)).contains("nested"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-c=,() '\"é]{0,40}") {
            if let Ok(tree) = OptionTree::parse(&text) {
                let _ = tree.check_all_used("test");
            }
        }
    }
}
