//! The protocol of `--protocol json`: a request or an answer on each line, after KataGo's analysis engine.
//!
//! A thread reads the requests. Their positions wait in the queue of the pool, and each answer is written as soon as it is
//! known, in any order. `docs/analysis.md` describes the protocol.

use super::annotate::{Analyst, Style};
use super::document::{Document, Selection};
use super::input::{InputFormat, RawDocument};
use super::later_mates::with_later_mates;
use super::message::{Place, Request, answer};
use super::output::{OutputFormat, text};
use super::pool::{Limits, Pool, PoolEvent, Task};
use super::report::{Analysis, Results};
use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use rukh_base::limited_lines::{LONGEST_LINE, LimitedLine, next_line};
use rukh_base::sync::start_system_thread;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most requests that are read ahead.
const REQUESTS_AHEAD: usize = 16;

/// The most positions that wait or are being searched. Then no more requests are read.
const MOST_TASKS: usize = 100_000;

/// The most bytes of documents that wait or are being searched. Then no more requests are read.
const MOST_DOCUMENT_BYTES: usize = 16 << 20;

/// What applies to requests that do not say it.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// When a search ends.
    pub limits: Limits,
    /// The number of best lines.
    pub multipv: usize,
    /// Whether answers have the policy.
    pub includes_policy: bool,
    /// Which positions of a document are searched.
    pub selection: Selection,
    /// How games are annotated.
    pub style: Style,
    /// The format in which documents come back; `None` means that of the document.
    pub format: Option<OutputFormat>,
}

/// Answers requests until the input ends and all answers are written. `write` writes a line.
///
/// # Errors
/// The thread that reads cannot be started.
pub fn serve(
    input: impl Read + Send + 'static,
    pool: &Pool,
    defaults: Defaults,
    write: &dyn Fn(&str),
) -> io::Result<()> {
    let (sender, lines) = bounded(REQUESTS_AHEAD);
    start_system_thread("requests", move || read_lines(input, &sender))?;
    let mut server = Server {
        pool,
        defaults,
        write,
        tasks: HashMap::new(),
        whole: HashMap::new(),
        document_bytes: 0,
        next_key: 0,
    };
    let mut is_at_end = false;
    while !(is_at_end && server.tasks.is_empty()) {
        let is_full = server.tasks.len() >= MOST_TASKS || server.document_bytes >= MOST_DOCUMENT_BYTES;
        let lines: Receiver<LimitedLine> = if is_at_end || is_full { never() } else { lines.clone() };
        select! {
            recv(lines) -> line => match line {
                Ok(line) => server.line(&line),
                Err(_) => is_at_end = true,
            },
            recv(pool.events()) -> event => if let Ok(event) = event {
                server.event(event);
            },
        }
    }
    Ok(())
}

/// Sends the lines of the input.
fn read_lines(input: impl Read, sender: &Sender<LimitedLine>) {
    let mut input = io::BufReader::new(input);
    // The input ends or cannot be read, or nobody wants more.
    while let Ok(Some(line)) = next_line(&mut input, LONGEST_LINE)
        && sender.send(line).is_ok()
    {}
}

/// A position that waits or is being searched.
struct Pending {
    document: Arc<Document>,
    id: Value,
    turn: usize,
    /// The key in `Server::whole`, if the document comes back as a whole.
    whole: Option<u64>,
    is_cancelled: Arc<AtomicBool>,
}

/// A document that comes back as a whole when all its positions are done.
struct Whole {
    document: Arc<Document>,
    id: Value,
    number: u64,
    format: OutputFormat,
    results: Results,
    /// The positions that are not done.
    missing: usize,
    /// Why a position has no result.
    failure: Option<String>,
    /// The length of its text.
    bytes: usize,
}

struct Server<'a> {
    pool: &'a Pool,
    defaults: Defaults,
    write: &'a dyn Fn(&str),
    tasks: HashMap<u64, Pending>,
    whole: HashMap<u64, Whole>,
    /// The bytes of the documents in `whole`.
    document_bytes: usize,
    next_key: u64,
}

impl Server<'_> {
    fn send(&self, value: &Value) {
        (self.write)(&value.to_string());
    }

    fn refuse(&self, id: &Value, error: &str) {
        self.send(&json!({ "id": id, "error": error }));
    }

    fn line(&mut self, line: &LimitedLine) {
        if let Some(fault) = line.fault() {
            return self.refuse(&Value::Null, &fault);
        }
        let text = match std::str::from_utf8(line.bytes.trim_ascii()) {
            Ok("") => return,
            Ok(text) => text,
            Err(_) => return self.refuse(&Value::Null, "the line is not UTF-8"),
        };
        match Request::parse(text) {
            Err(error) => {
                // The name may be readable although another field is wrong.
                let id = serde_json::from_str::<Value>(text).map(|value| value["id"].clone());
                self.refuse(&id.unwrap_or_default(), &error);
            }
            Ok(request) => match request.action.as_deref() {
                None if request.document.is_some() => self.search_document(request),
                None => self.search(request),
                Some(action) => self.act(action, &request),
            },
        }
    }

    fn search(&mut self, request: Request) {
        let (id, priority) = (request.id.clone(), request.priority);
        let report_every = request.report_during_search_every.map(Duration::from_secs_f64);
        let document = match Document::of_request(request) {
            Ok(document) => Arc::new(document),
            Err(error) => return self.refuse(&id, &error),
        };
        let limits = document.limits.unwrap_or(self.defaults.limits);
        if limits == Limits::default() {
            return self.refuse(&id, "say when the search ends: maxVisits or maxTime");
        }
        self.submit(&document, &id, priority, report_every, None);
    }

    /// Searches the positions of a document that comes back as a whole. If its text is wrong, the answer says so in
    /// `rejected`.
    fn search_document(&mut self, request: Request) {
        let (asked, id) = (request.limits(), request.id);
        let bytes = request.document.unwrap_or_default().into_bytes();
        let format = match request.document_format.as_deref() {
            None => InputFormat::of_content(&bytes),
            Some(word) => match InputFormat::of_word(word) {
                Some(format) => format,
                None => return self.refuse(&id, "documentFormat is none of pgn, epd and jsonl"),
            },
        };
        let raw = RawDocument { bytes, fault: None, place: String::new(), format };
        let mut document = match raw.parse(&self.defaults.selection) {
            Ok(document) => document,
            Err(reason) => return self.send(&json!({ "id": id, "rejected": reason })),
        };
        document.limits = document.limits.or((asked != Limits::default()).then_some(asked));
        document.multipv = document.multipv.or(request.multi_pv);
        document.includes_policy = document.includes_policy.or(request.include_policy);
        if document.limits.unwrap_or(self.defaults.limits) == Limits::default() {
            return self.refuse(&id, "say when the search ends: maxVisits or maxTime");
        }
        let document = Arc::new(document);
        let key = self.next_key;
        self.next_key += 1;
        let whole = Whole {
            document: Arc::clone(&document),
            id: id.clone(),
            number: request.document_number.unwrap_or(1),
            format: self.defaults.format.unwrap_or(OutputFormat::of_input(format)),
            results: Results::new(),
            missing: document.wanted.len(),
            failure: None,
            bytes: raw.bytes.len(),
        };
        match whole.missing {
            0 => self.answer_whole(&whole),
            _ => {
                self.document_bytes += whole.bytes;
                self.whole.insert(key, whole);
                self.submit(&document, &id, request.priority, None, Some(key));
            }
        }
    }

    /// Lets the positions of a document wait for their searches.
    fn submit(
        &mut self,
        document: &Arc<Document>,
        id: &Value,
        priority: i64,
        report_every: Option<Duration>,
        whole: Option<u64>,
    ) {
        let limits = document.limits.unwrap_or(self.defaults.limits);
        for &turn in &document.wanted {
            let is_cancelled = Arc::new(AtomicBool::new(false));
            let key = self.next_key;
            self.next_key += 1;
            let pending = Pending {
                document: Arc::clone(document),
                id: id.clone(),
                turn,
                whole,
                is_cancelled: Arc::clone(&is_cancelled),
            };
            self.tasks.insert(key, pending);
            self.pool.submit(Task {
                key,
                history: Arc::clone(&document.history),
                ply: turn,
                limits,
                multipv: document.multipv.unwrap_or(self.defaults.multipv),
                includes_policy: document.includes_policy.unwrap_or(self.defaults.includes_policy),
                ends_game: document.ends_at(turn),
                searchmoves: document.searchmoves.get(&turn).cloned().unwrap_or_default(),
                chess960: document.chess960,
                priority,
                report_every,
                is_cancelled,
            });
        }
    }

    fn act(&self, action: &str, request: &Request) {
        let mut reply = json!({ "id": request.id, "action": action });
        match action {
            "query_version" => {
                reply["version"] = json!(rukh_base::version::version());
                reply["network"] = json!(self.pool.network());
                reply["parallelism"] = json!(self.pool.parallelism());
            }
            "clear_cache" => self.pool.clear_cache(),
            "terminate" => match &request.terminate_id {
                None => return self.refuse(&request.id, "terminate needs terminateId"),
                Some(id) => {
                    reply["terminateId"] = id.clone();
                    reply["positions"] = json!(self.cancel(|pending| pending.id == *id));
                }
            },
            "terminate_all" => reply["positions"] = json!(self.cancel(|_| true)),
            _ => {
                let known = "query_version, clear_cache, terminate and terminate_all";
                return self.refuse(&request.id, &format!("unknown action; the actions are {known}"));
            }
        }
        self.send(&reply);
    }

    /// Ends the searches that `is_meant` chooses. Each gives an answer with what it has found. Returns their number.
    fn cancel(&self, is_meant: impl Fn(&Pending) -> bool) -> usize {
        let meant = self.tasks.values().filter(|pending| is_meant(pending));
        meant.inspect(|pending| pending.is_cancelled.store(true, Ordering::Relaxed)).count()
    }

    fn event(&mut self, event: PoolEvent) {
        match event {
            PoolEvent::Partial(key, analysis) => {
                if let Some(pending) = self.tasks.get(&key) {
                    self.answer(pending, &analysis, true);
                }
            }
            PoolEvent::Done(key, analysis) => match self.tasks.remove(&key) {
                Some(Pending { whole: Some(whole), turn, .. }) => {
                    self.add_to_whole(whole, turn, Ok(analysis))
                }
                Some(pending) => self.answer(&pending, &analysis, false),
                None => {}
            },
            PoolEvent::Failed(key, reason) => match self.tasks.remove(&key) {
                Some(Pending { whole: Some(whole), turn, .. }) => self.add_to_whole(whole, turn, Err(reason)),
                Some(pending) => {
                    self.send(&json!({ "id": pending.id, "turnNumber": pending.turn, "error": reason }));
                }
                None => {}
            },
        }
    }

    /// Adds the result of a position to its document, and answers if it was the last one.
    fn add_to_whole(&mut self, key: u64, turn: usize, outcome: Result<Analysis, String>) {
        let Some(whole) = self.whole.get_mut(&key) else { return };
        match outcome {
            Ok(analysis) if !analysis.is_empty() => {
                whole.results.insert(turn, analysis);
            }
            Ok(_) => whole.failure = Some("it was ended before it had a result".to_owned()),
            Err(reason) => whole.failure = Some(reason),
        }
        whole.missing -= 1;
        if whole.missing == 0
            && let Some(whole) = self.whole.remove(&key)
        {
            self.document_bytes -= whole.bytes;
            self.answer_whole(&whole);
        }
    }

    fn answer_whole(&self, whole: &Whole) {
        let Whole { document, id, number, format, results, failure, .. } = whole;
        if let Some(reason) = failure {
            return self.refuse(id, &format!("a search failed: {reason}"));
        }
        let limits = document.limits.unwrap_or(self.defaults.limits);
        let analyst = Analyst { network: self.pool.network(), limits };
        let results = &*with_later_mates(document, results);
        let text = text(*format, document, results, *number, &self.defaults.style, analyst);
        let text = String::from_utf8_lossy(&text);
        self.send(&json!({ "id": id, "document": text, "positions": results.len() }));
    }

    fn answer(&self, pending: &Pending, analysis: &Analysis, is_partial: bool) {
        let position = pending.document.position(pending.turn);
        let place = Place { id: &pending.id, turn: pending.turn, position };
        self.send(&answer(place, analysis, is_partial));
    }
}
