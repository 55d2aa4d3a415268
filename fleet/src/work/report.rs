//! Says how the worker is: on stderr when something is wrong, and to the server every few seconds.

use crate::error::{print_error_line, printable};
use crate::job::checked_name;
use crate::server::WORKERS;
use async_nats::jetstream::context::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How often the worker tells the server how it is, if there are no news.
const INTERVAL: Duration = Duration::from_secs(10);

/// The most jobs that a report names as left alone.
const MOST_REFUSED: usize = 100;

/// How a worker is.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) name: String,
    /// The job that it works on.
    pub(crate) job: Option<String>,
    /// The engine with its network.
    pub(crate) engine: Option<String>,
    /// The pieces that it works on.
    pub(crate) running: usize,
    /// The pieces whose results it has stored, and the positions in them.
    pub(crate) pieces: u64,
    pub(crate) positions: u64,
    /// The tries of pieces that have failed.
    pub(crate) failures: u64,
    /// The last failure.
    pub(crate) last_failure: Option<String>,
    /// The jobs that it leaves alone, and why.
    pub(crate) refused: BTreeMap<String, String>,
}

impl Report {
    /// A report that was stored under the name of a worker.
    ///
    /// # Errors
    /// It is none, or one of another worker.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<Report, String> {
        let report: Report = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        checked_name(name)?;
        match report.name == name {
            true => Ok(report),
            false => Err(format!("it is that of the worker `{}`", report.name)),
        }
    }
}

/// Keeps a report.
#[derive(Clone)]
pub(super) struct Reporter {
    report: Arc<Mutex<Report>>,
    /// Told when the server should know something at once.
    news: Arc<Notify>,
}

impl Reporter {
    pub(super) fn new(name: &str) -> Reporter {
        let report = Report { name: name.to_owned(), ..Report::default() };
        Reporter { report: Arc::new(Mutex::new(report)), news: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Report> {
        // The report is plain data, which is sound after a panic.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the server every few seconds.
    pub(super) async fn publish_forever(self, context: Context) {
        let name = self.lock().name.clone();
        loop {
            let bytes = serde_json::to_vec(&*self.lock()).unwrap_or_default();
            // The next report comes soon.
            let _ = WORKERS.put(&context, &name, bytes.into()).await;
            let _ = tokio::time::timeout(INTERVAL, self.news.notified()).await;
        }
    }

    pub(super) fn set_job(&self, job: Option<&str>) {
        self.lock().job = job.map(str::to_owned);
    }

    pub(super) fn set_engine(&self, engine: String) {
        self.lock().engine = Some(engine);
    }

    pub(super) fn set_running(&self, running: usize) {
        self.lock().running = running;
    }

    pub(super) fn done(&self, positions: u64) {
        let mut report = self.lock();
        report.pieces += 1;
        report.positions += positions;
    }

    pub(super) fn failed(&self, text: &str) {
        print_error_line(text);
        let mut report = self.lock();
        report.failures += 1;
        report.last_failure = Some(printable(text));
        self.news.notify_one();
    }

    /// Notes that the worker leaves a job alone.
    pub(super) fn refuse(&self, job: &str, reason: &str) {
        let reason: &str = &printable(reason);
        let mut report = self.lock();
        // Others may store any number of jobs, and the report has to fit into a message.
        if report.refused.len() >= MOST_REFUSED && !report.refused.contains_key(job) {
            return;
        }
        if report.refused.insert(job.to_owned(), reason.to_owned()).as_deref() != Some(reason) {
            self.news.notify_one();
        }
    }

    /// Notes that the worker works on a job.
    pub(super) fn accept(&self, job: &str) {
        let mut report = self.lock();
        report.refused.remove(job);
        if report.job.as_deref() != Some(job) {
            report.job = Some(job.to_owned());
            self.news.notify_one();
        }
    }
}
