//! Parses the text of `BackendOptions` (`-o`): the options of a backend and of its child backends.
//!
//! ```text
//! threads=2                                     one option
//! backend=rocm,(gpu=0),(gpu=1)                  two nameless children that inherit `backend`
//! work(backend=cpu-bf16),truth(backend=cpu)     two named children
//! cpu,trivial                                   two children, each named like its backend
//! rocm(gpu=0),rocm(gpu=1)                       the same; a name may occur several times
//! record_file="a, b.bin"                        quotes ('…' or "…") around text with , ( ) =
//! ```
//!
//! The syntax is lc0's, so that text written for lc0 works here, and a little wider. If a child does not have an
//! option, it inherits the value of the nearest level around it that has the option. A bare word is a child without
//! options; if a backend asks for a flag of that name, the bare word sets the flag. An option that no backend asks for
//! is an error unless the caller knows it ([`ParsedOptions::check_all_used`]), so that a misspelt option is never
//! ignored silently.
//!
//! Values stay text until a backend asks for them with a type, so that the error can name the expected type and range.

mod syntax;

use self::syntax::{ParsedNode, option_error};
use crate::BackendError;
use rukh_net::HeadSelection;
use std::cell::Cell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The options by which the user chooses among the heads of a network.
pub const HEAD_OPTIONS: [&str; 2] = ["policy_head", "value_head"];

/// A parsed option text. The root is node 0.
#[derive(Debug)]
pub struct ParsedOptions {
    nodes: Vec<Node>,
}

/// A node of the text, with marks on the parts that a backend has read.
#[derive(Debug)]
struct Node {
    name: String,
    parent: Option<usize>,
    entries: Vec<Entry>,
    children: Vec<usize>,
    /// Set for a child that became a backend, and for a bare word that was read as a flag.
    used: Cell<bool>,
}

#[derive(Debug)]
struct Entry {
    key: String,
    value: String,
    used: Cell<bool>,
}

impl From<ParsedNode> for Node {
    fn from(parsed: ParsedNode) -> Node {
        let ParsedNode { name, parent, entries, children } = parsed;
        let entries =
            entries.into_iter().map(|(key, value)| Entry { key, value, used: Cell::new(false) }).collect();
        Node { name, parent, entries, children, used: Cell::new(parent.is_none()) }
    }
}

/// The options of one backend, including the options that it inherits from the nodes around it. This is a cheap handle
/// to a node of [`ParsedOptions`].
#[derive(Clone, Copy, Debug)]
pub struct OptionsDict<'a> {
    tree: &'a ParsedOptions,
    node: usize,
    /// The only options that the backend is given; `None` gives it all.
    only: Option<&'static [&'static str]>,
    /// The options that the backend lists as its own, if that is known.
    listed: Option<&'static [&'static [&'static str]]>,
}

impl ParsedOptions {
    /// Parses an option text, which may be empty.
    ///
    /// # Errors
    /// [`BackendError::Option`], which quotes the text up to the first syntax error.
    pub fn parse(text: &str) -> Result<ParsedOptions, BackendError> {
        Ok(ParsedOptions { nodes: syntax::parse(text)?.into_iter().map(Node::from).collect() })
    }

    /// The options of the outermost backend.
    pub fn root(&self) -> OptionsDict<'_> {
        OptionsDict { tree: self, node: 0, only: None, listed: None }
    }

    /// Checks that every option and child was read, except for those that may be passed over. Returns the names of
    /// those that were passed over. `backend` is the name for the error message, and `own` are the options of this
    /// backend.
    ///
    /// # Errors
    /// [`BackendError::Option`] with the first other option or child that no backend asked for.
    pub fn check_all_used(
        &self,
        backend: &str,
        own: &[&[&str]],
        may_be_passed_over: fn(&str) -> bool,
    ) -> Result<Vec<&str>, BackendError> {
        let own = match own.concat() {
            own if own.is_empty() => String::new(),
            own => format!("; its own are {}", own.join(", ")),
        };
        let mut passed_over = Vec::new();
        for node in &self.nodes {
            for entry in node.entries.iter().filter(|entry| !entry.used.get()) {
                if may_be_passed_over(&entry.key) {
                    passed_over.push(entry.key.as_str());
                    continue;
                }
                return Err(option_error(
                    &format!("{}={}", entry.key, entry.value),
                    format!("the backend {backend} has no such option{own}"),
                ));
            }
            if !node.used.get() {
                if may_be_passed_over(&node.name) && node.entries.is_empty() && node.children.is_empty() {
                    passed_over.push(node.name.as_str());
                    continue;
                }
                return Err(option_error(
                    &node.name,
                    format!("the backend {backend} has no such option and takes no child backends{own}"),
                ));
            }
        }
        passed_over.sort_unstable();
        passed_over.dedup();
        Ok(passed_over)
    }
}

impl<'a> OptionsDict<'a> {
    /// The same options, of which the backend is given only those named in `keys`.
    pub fn only(self, keys: &'static [&'static str]) -> OptionsDict<'a> {
        OptionsDict { only: Some(keys), ..self }
    }

    /// The same options, for a backend that reads no others than those of `lists`. With debug
    /// assertions, reading another one panics: nobody else would notice that the lists lack it.
    pub fn listed_in(self, lists: &'static [&'static [&'static str]]) -> OptionsDict<'a> {
        OptionsDict { listed: Some(lists), ..self }
    }

    /// The same options, for a child without a name, which inherits them all.
    pub fn for_child(self) -> OptionsDict<'a> {
        OptionsDict { listed: None, ..self }
    }

    fn gives(&self, key: &str) -> bool {
        let is_listed = |lists: &[&[&str]]| lists.iter().any(|list| list.contains(&key));
        debug_assert!(self.listed.is_none_or(is_listed), "{key} is not among the backend's own options");
        self.only.is_none_or(|keys| keys.contains(&key))
    }

    /// The name before the parentheses. It is empty for the root and for nameless children.
    pub fn name(&self) -> &'a str {
        &self.tree.nodes[self.node].name
    }

    /// Returns the children, in the order written, and marks them as used.
    pub fn children(&self) -> Vec<OptionsDict<'a>> {
        let nodes = &self.tree.nodes;
        let children = &nodes[self.node].children;
        children
            .iter()
            .map(|&node| {
                nodes[node].used.set(true);
                OptionsDict { tree: self.tree, node, only: None, listed: None }
            })
            .collect()
    }

    /// The name of the backend that this child asks for: its own `backend=`; else the child's name if `is_known`
    /// accepts it; else the inherited `backend=`; else the child's name.
    pub fn backend_name(&self, is_known: impl Fn(&str) -> bool) -> &'a str {
        let own = self.find_in(self.node, "backend");
        let named = Some(self.name()).filter(|name| is_known(name));
        own.or(named).or_else(|| self.inherited_backend()).unwrap_or(self.name())
    }

    /// The `backend=` that children inherit. Only the root can have one, because the option `Backend` names the root's
    /// own backend. In every other node, `backend=` names the node's own backend.
    pub fn inherited_backend(&self) -> Option<&'a str> {
        self.find_in(0, "backend")
    }

    /// `heads` with the heads that the options `policy_head` and `value_head` name.
    pub fn heads(self, mut heads: HeadSelection) -> HeadSelection {
        let [policy, value] = HEAD_OPTIONS.map(|key| self.text(key).map(str::to_owned));
        heads.policy = policy.unwrap_or(heads.policy);
        heads.value = value.unwrap_or(heads.value);
        heads
    }

    /// The text of an option, from this node or the nearest one around it that has the option.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        if !self.gives(key) {
            return None;
        }
        let mut node = Some(self.node);
        while let Some(at) = node {
            if let Some(value) = self.find_in(at, key) {
                return Some(value);
            }
            node = self.tree.nodes[at].parent;
        }
        None
    }

    /// A number within `range`, or `default` if the option is not given.
    ///
    /// # Errors
    /// [`BackendError::Option`] if the text is not a number of this range.
    pub fn number<T>(&self, key: &str, default: T, range: RangeInclusive<T>) -> Result<T, BackendError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.text(key) else {
            return Ok(default);
        };
        match text.parse::<T>() {
            // `contains` is false for NaN.
            Ok(value) if range.contains(&value) => Ok(value),
            _ => Err(option_error(
                &format!("{key}={text}"),
                format!("expected a number from {} to {}", range.start(), range.end()),
            )),
        }
    }

    /// A flag: `key=true`, `key=false`, or the bare word `key` for true.
    ///
    /// # Errors
    /// [`BackendError::Option`] if the value is not `true` or `false`.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, BackendError> {
        match self.text(key) {
            None => Ok((self.gives(key) && self.take_bare_word(key)) || default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(option_error(&format!("{key}={other}"), "expected true or false".to_owned())),
        }
    }

    /// Looks up the option's text in `choices`, which are pairs of a word and its meaning. The first choice is the
    /// default.
    ///
    /// # Errors
    /// [`BackendError::Option`] if the text is not one of the words.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, BackendError> {
        let text = self.text(key).unwrap_or(choices[0].0);
        choices.iter().find(|(word, _)| *word == text).map(|&(_, meaning)| meaning).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            option_error(&format!("{key}={text}"), format!("expected one of {}", words.join(", ")))
        })
    }

    /// Whether the children include a bare word `key`. Marks the word as used.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reason(text: &str) -> String {
        ParsedOptions::parse(text).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn reads_lc0_style_text() {
        let tree =
            ParsedOptions::parse(" backend=cpu , threads = 3,(gpu=0),second(gpu=1,delay=0.5), trivial,")
                .unwrap();
        let root = tree.root();
        let children = root.children();
        let names: Vec<&str> = children.iter().map(|child| child.name()).collect();
        assert_eq!(names, ["", "second", "trivial"]);
        assert_eq!(children[0].number("gpu", 9, 0..=9).unwrap(), 0);
        assert_eq!(children[1].number("gpu", 9, 0..=9).unwrap(), 1);
        assert_eq!(children[1].number("delay", 0.0, 0.0..=9.0).unwrap(), 0.5);
        // `threads` is inherited from the root. `gpu` is not given here, so the default applies.
        assert_eq!(children[2].number("threads", 1, 1..=64).unwrap(), 3);
        assert_eq!(children[2].number("gpu", 7, 0..=9).unwrap(), 7);
        let is_known = |name: &str| name == "cpu" || name == "trivial";
        let backends: Vec<&str> = children.iter().map(|child| child.backend_name(is_known)).collect();
        assert_eq!(backends, ["cpu", "cpu", "trivial"]);
        tree.check_all_used("test", &[], |_| false).unwrap();
    }

    #[test]
    fn values_may_be_quoted_and_flags_may_be_bare_words() {
        let tree =
            ParsedOptions::parse(r#"record_file="C:\my games, (old)=1.bin",replay=C:\x y.bin,uniform"#)
                .unwrap();
        let root = tree.root();
        assert_eq!(root.text("record_file"), Some(r"C:\my games, (old)=1.bin"));
        assert_eq!(root.text("replay"), Some(r"C:\x y.bin"));
        assert!(root.flag("uniform", false).unwrap());
        assert!(!root.flag("other", false).unwrap());
        tree.check_all_used("test", &[], |_| false).unwrap();
    }

    #[test]
    fn unknown_options_and_children_are_named() {
        let tree = ParsedOptions::parse("threads=2,treads=4").unwrap();
        tree.root().number("threads", 1, 1..=8).unwrap();
        let error = tree.check_all_used("cpu", &[&["threads"], &["isa"]], |_| false).unwrap_err().to_string();
        for part in ["treads=4", "cpu", "threads, isa"] {
            assert!(error.contains(part), "{error}");
        }

        for (text, part) in [("child(x=1)", "x=1"), ("fast", "fast")] {
            let error = ParsedOptions::parse(text)
                .unwrap()
                .check_all_used("cpu", &[], |_| false)
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn wrong_values_say_what_was_expected() {
        let tree = ParsedOptions::parse("threads=many,batch=0,rtol=nan,uniform=maybe,mode=fast").unwrap();
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
    fn malformed_text_is_refused_with_a_reason() {
        assert!(reason("a(b=1").contains("no matching `)`"));
        assert!(reason("a)").contains("no matching `(`"));
        assert!(reason("=1").contains("before `=`"));
        assert!(reason("a=,b=1").contains("after `=`"));
        assert!(reason("a='x").contains("not closed"));
        assert!(reason("a=1 (b)").contains("comma"));
        assert!(reason("k=1,k=2").contains("twice"));
        assert!(reason(&"(".repeat(1000)).contains("nested"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-c=,() '\"é]{0,40}") {
            if let Ok(tree) = ParsedOptions::parse(&text) {
                let _ = tree.check_all_used("test", &[], |key| key == "a");
            }
        }
    }
}
