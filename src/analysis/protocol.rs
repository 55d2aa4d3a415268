//! The protocol of `--protocol json`: a request or an answer on each line, after KataGo's analysis engine.
//!
//! A thread reads the requests. Their positions wait in the queue of the pool, and each answer is written as soon as it is
//! known, in any order. `docs/analysis.md` describes the protocol.

use super::document::Document;
use super::message::{Place, Request, answer};
use super::pool::{Limits, Pool, PoolEvent, Task};
use super::report::Analysis;
use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

/// The longest request, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// The most positions that wait or are being searched. Then no more requests are read.
const MOST_TASKS: usize = 100_000;

/// What applies to requests that do not say it.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// When a search ends.
    pub limits: Limits,
    /// The number of best lines.
    pub multipv: usize,
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
    let (sender, lines) = bounded(64);
    Builder::new().name("requests".to_owned()).spawn(move || read_lines(input, &sender))?;
    let mut server = Server { pool, defaults, write, tasks: HashMap::new(), next_key: 0 };
    let mut is_at_end = false;
    while !(is_at_end && server.tasks.is_empty()) {
        let is_full = server.tasks.len() >= MOST_TASKS;
        let lines: Receiver<Vec<u8>> = if is_at_end || is_full { never() } else { lines.clone() };
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

/// Sends the lines of the input. A line that is too long comes in pieces, each of which is refused.
fn read_lines(input: impl Read, sender: &Sender<Vec<u8>>) {
    let mut input = io::BufReader::new(input);
    loop {
        let mut line = Vec::new();
        match input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(1..) if sender.send(line).is_ok() => {}
            // The input has ended or cannot be read, or nobody wants more.
            _ => return,
        }
    }
}

/// A position that waits or is being searched.
struct Pending {
    document: Arc<Document>,
    id: Value,
    turn: usize,
    is_cancelled: Arc<AtomicBool>,
}

struct Server<'a> {
    pool: &'a Pool,
    defaults: Defaults,
    write: &'a dyn Fn(&str),
    tasks: HashMap<u64, Pending>,
    next_key: u64,
}

impl Server<'_> {
    fn send(&self, value: &Value) {
        (self.write)(&value.to_string());
    }

    fn refuse(&self, id: &Value, error: &str) {
        self.send(&json!({ "id": id, "error": error }));
    }

    fn line(&mut self, line: &[u8]) {
        let text = match std::str::from_utf8(line.trim_ascii()) {
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
        for &turn in &document.wanted {
            let is_cancelled = Arc::new(AtomicBool::new(false));
            let key = self.next_key;
            self.next_key += 1;
            let pending = Pending {
                document: Arc::clone(&document),
                id: id.clone(),
                turn,
                is_cancelled: Arc::clone(&is_cancelled),
            };
            self.tasks.insert(key, pending);
            self.pool.submit(Task {
                key,
                history: Arc::clone(&document.history),
                ply: turn,
                limits,
                multipv: document.multipv.unwrap_or(self.defaults.multipv),
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
                reply["version"] = json!(env!("RUKH_VERSION"));
                reply["network"] = json!(self.pool.network());
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
            PoolEvent::Done(key, analysis) => {
                if let Some(pending) = self.tasks.remove(&key) {
                    self.answer(&pending, &analysis, false);
                }
            }
            PoolEvent::Failed(key, reason) => {
                if let Some(pending) = self.tasks.remove(&key) {
                    self.send(&json!({ "id": pending.id, "turnNumber": pending.turn, "error": reason }));
                }
            }
        }
    }

    fn answer(&self, pending: &Pending, analysis: &Analysis, is_partial: bool) {
        let position = pending.document.position(pending.turn);
        let place = Place { id: &pending.id, turn: pending.turn, position };
        self.send(&answer(place, analysis, is_partial));
    }
}
