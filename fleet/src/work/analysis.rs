//! The engine that analyses documents: a process of `rukh analyze --protocol json`, which works on many pieces at once.

use super::outcome::Outcome;
use crate::engine::{self, Mode, last_lines};
use crate::job::{EngineIdentity, Format, Piece, PieceDocument, PieceResult, Rejected};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The bytes at the end of stderr that are kept to say why the engine has ended.
const KEPT_STDERR: usize = 4096;

/// Requests are collected until they have so many bytes.
const LONG_WRITE: usize = 1 << 16;

/// A running engine. It ends when the last copy of this is dropped.
#[derive(Clone)]
pub(super) struct AnalysisEngine(Arc<Running>);

struct Running {
    identity: EngineIdentity,
    /// The searches that it runs at once.
    parallelism: usize,
    requests: mpsc::Sender<String>,
    waiting: Arc<Mutex<Waiting>>,
    reader: JoinHandle<()>,
}

/// The requests that have no answer yet.
#[derive(Default)]
struct Waiting {
    next_id: u64,
    answers: HashMap<u64, oneshot::Sender<Value>>,
    /// Why there will be no more answers.
    lost: Option<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The task owns the process, which is killed with it.
        self.reader.abort();
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    // The map is sound after a panic.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AnalysisEngine {
    /// Starts the engine and asks for its version.
    ///
    /// # Errors
    /// The engine cannot be started, or it ends at once; the text says why.
    pub(super) async fn start(
        program: &Path,
        format: Format,
        flags: &[String],
    ) -> Result<AnalysisEngine, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let mut command = engine::command(program, Mode::Analysis(format), flags);
        let mut child = command.arg(engine::END_WITH_STDIN).spawn().map_err(failed)?;
        let stdin = child.stdin.take();
        let waiting = Arc::<Mutex<Waiting>>::default();
        let (requests, queue) = mpsc::channel(64);
        if let Some(stdin) = stdin {
            tokio::spawn(write_requests(stdin, queue));
        }
        let reader = tokio::spawn(read_answers(child, Arc::clone(&waiting)));
        let identity = EngineIdentity { version: String::new(), network: None };
        let mut running = Running { identity, parallelism: 1, requests, waiting, reader };
        let answer = running.ask(json!({ "action": "query_version" })).await?;
        running.identity = engine::identity_of(&answer);
        running.parallelism = answer["parallelism"].as_u64().unwrap_or(1) as usize;
        Ok(AnalysisEngine(Arc::new(running)))
    }

    /// Kills the engine. All pieces that it has are lost for this reason.
    pub(super) fn end(&self, reason: &str) {
        self.0.reader.abort();
        lose(&self.0.waiting, reason.to_owned());
    }

    pub(super) fn identity(&self) -> &EngineIdentity {
        &self.0.identity
    }

    pub(super) fn parallelism(&self) -> usize {
        self.0.parallelism
    }

    /// Analyses the documents of a piece.
    pub(super) async fn run(&self, piece: &Piece) -> Outcome {
        let mut answers = Vec::new();
        for document in &piece.documents {
            let request = json!({
                "document": document.text,
                "documentFormat": document.format,
                "documentNumber": document.number,
            });
            match self.0.send(request).await {
                Ok(answer) => answers.push(answer),
                Err(reason) => return Outcome::EngineLost(reason),
            }
        }
        let mut result = PieceResult::new(&piece.job, piece.piece);
        for (document, answer) in piece.documents.iter().zip(answers) {
            let Ok(answer) = answer.await else { return Outcome::EngineLost(self.0.why_lost()) };
            if let Some(reason) = answer["error"].as_str() {
                return Outcome::Failed(format!("{}: {reason}", document.place));
            }
            add(&mut result, document, &answer);
        }
        Outcome::Done(result, Vec::new())
    }
}

/// Adds the answer about a document to the result of its piece.
fn add(result: &mut PieceResult, document: &PieceDocument, answer: &Value) {
    if let Some(reason) = answer["rejected"].as_str() {
        result.rejected.push(Rejected {
            place: document.place.clone(),
            reason: reason.to_owned(),
            format: document.format.clone(),
            text: document.text.clone(),
        });
        return;
    }
    result.output.push_str(answer["document"].as_str().unwrap_or_default());
    result.positions += answer["positions"].as_u64().unwrap_or_default();
}

impl Running {
    /// Sends a request. The answer comes later; it fails if the engine ends.
    async fn send(&self, mut request: Value) -> Result<oneshot::Receiver<Value>, String> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if let Some(reason) = &waiting.lost {
                return Err(reason.clone());
            }
            waiting.next_id += 1;
            request["id"] = json!(waiting.next_id);
            let id = waiting.next_id;
            waiting.answers.insert(id, sender);
        }
        match self.requests.send(format!("{request}\n")).await {
            Ok(()) => Ok(receiver),
            // The engine has closed its stdin; its end says why.
            Err(_) => Ok(receiver),
        }
    }

    async fn ask(&self, request: Value) -> Result<Value, String> {
        let answer = self.send(request).await?;
        answer.await.map_err(|_| self.why_lost())
    }

    fn why_lost(&self) -> String {
        lock(&self.waiting).lost.clone().unwrap_or_else(|| "the engine has ended".to_owned())
    }
}

async fn write_requests(mut stdin: ChildStdin, mut queue: mpsc::Receiver<String>) {
    while let Some(mut request) = queue.recv().await {
        // Many short requests cost much less in one piece.
        while request.len() < LONG_WRITE
            && let Ok(next) = queue.try_recv()
        {
            request.push_str(&next);
        }
        if stdin.write_all(request.as_bytes()).await.is_err() {
            // The reader sees the end of the engine. Requests must not wait for ever.
            while queue.recv().await.is_some() {}
            return;
        }
    }
}

/// Hands out answers until the engine ends, and then says why.
async fn read_answers(mut child: Child, waiting: Arc<Mutex<Waiting>>) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let kept = tokio::spawn(async move {
        let mut kept = Vec::new();
        if let Some(mut stderr) = stderr {
            let mut buffer = [0; 1024];
            while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
                kept.extend_from_slice(&buffer[..length]);
                kept.drain(..kept.len().saturating_sub(KEPT_STDERR));
            }
        }
        kept
    });
    if let Some(stdout) = stdout {
        let mut lines = BufReader::with_capacity(1 << 16, stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(answer) = serde_json::from_str::<Value>(&line) else { continue };
            let Some(id) = answer["id"].as_u64() else { continue };
            let sender = lock(&waiting).answers.remove(&id);
            if let Some(sender) = sender {
                // Nobody waits for the answer any more if its piece was given up.
                let _ = sender.send(answer);
            }
        }
    }
    let status = child.wait().await;
    let said = last_lines(&kept.await.unwrap_or_default());
    let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    lose(&waiting, format!("the engine has ended ({how}): {said}"));
}

/// Tells all who wait that there will be no answer.
fn lose(waiting: &Mutex<Waiting>, reason: String) {
    let mut waiting = lock(waiting);
    waiting.lost = Some(reason);
    // Dropping the senders wakes those who wait.
    waiting.answers.clear();
}
