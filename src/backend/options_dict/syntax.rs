//! The syntax of `BackendOptions`: parses the text into a tree of names, options and children, without interpreting
//! them.

use crate::BackendError;
use rukh_base::quote::quoted;

/// The maximum nesting depth. Backends are created recursively, so a limit protects the stack.
const MAXIMUM_DEPTH: usize = 8;

/// A backend in the text, with or without parentheses. The root is the whole text.
#[derive(Debug)]
pub(super) struct ParsedNode {
    /// The name before the parentheses; empty for a nameless child and for the root.
    pub(super) name: String,
    /// The index of the node around this one; `None` for the root.
    pub(super) parent: Option<usize>,
    /// Each `key=value`, in the order written.
    pub(super) entries: Vec<(String, String)>,
    /// The indices of the children, in the order written.
    pub(super) children: Vec<usize>,
}

/// Parses an option text; the root is node 0.
pub(super) fn parse(text: &str) -> Result<Vec<ParsedNode>, BackendError> {
    Parser::new(text).parse()
}

/// Makes an error about `option`, a part of the text.
pub(super) fn option_error(option: &str, reason: String) -> BackendError {
    BackendError::Option { option: option.to_owned(), reason }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    Open,
    Close,
    Comma,
    Equals,
    Text(&'a str),
    End,
}

/// Builds the tree without recursion: `open` is the node that items are added to.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    nodes: Vec<ParsedNode>,
    open: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parser<'a> {
        let root =
            ParsedNode { name: String::new(), parent: None, entries: Vec::new(), children: Vec::new() };
        Parser { text, at: 0, nodes: vec![root], open: 0, depth: 0 }
    }

    fn parse(mut self) -> Result<Vec<ParsedNode>, BackendError> {
        loop {
            // The list may be empty, and extra commas are allowed, so an item may be missing here.
            match self.next_token()? {
                Token::Text(word) => match self.next_token()? {
                    Token::Equals => {
                        let Token::Text(value) = self.next_token()? else {
                            return Err(self.error("expected a value after `=`"));
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
                Token::Equals => return Err(self.error("expected a name before `=`")),
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
        Ok(self.nodes)
    }

    /// Reads the closing parentheses after an item, and the comma or the end of the text after them. Returns true at
    /// the end of the text.
    fn end_of_item(&mut self, mut token: Token<'a>) -> Result<bool, BackendError> {
        while token == Token::Close {
            if self.depth == 0 {
                return Err(self.error("a `)` has no matching `(`"));
            }
            self.close_child();
            token = self.next_token()?;
        }
        match token {
            Token::Comma => Ok(false),
            Token::End if self.depth == 0 => Ok(true),
            Token::End => Err(self.error("a `(` has no matching `)`")),
            _ => Err(self.error("expected a comma")),
        }
    }

    fn open_child(&mut self, name: &str) -> Result<(), BackendError> {
        if self.depth == MAXIMUM_DEPTH {
            return Err(self.error(&format!("parentheses are nested more than {MAXIMUM_DEPTH} deep")));
        }
        let child = self.nodes.len();
        self.nodes[self.open].children.push(child);
        self.nodes.push(ParsedNode {
            name: name.to_owned(),
            parent: Some(self.open),
            entries: Vec::new(),
            children: Vec::new(),
        });
        self.open = child;
        self.depth += 1;
        Ok(())
    }

    fn close_child(&mut self) {
        // `open_child` opened this node, so it has a parent.
        self.open = self.nodes[self.open].parent.unwrap_or(0);
        self.depth -= 1;
    }

    fn add_entry(&mut self, key: &str, value: &str) -> Result<(), BackendError> {
        if self.nodes[self.open].entries.iter().any(|(known, _)| known == key) {
            return Err(self.error(&format!("{key} is given twice")));
        }
        self.nodes[self.open].entries.push((key.to_owned(), value.to_owned()));
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
                let end = inner.find(first).ok_or_else(|| self.error("a quotation mark is not closed"))?;
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

    /// An error that quotes the text up to the place where parsing stopped.
    fn error(&self, reason: &str) -> BackendError {
        option_error(self.text, format!("{reason}, after {}", quoted(&self.text[..self.at])))
    }
}
