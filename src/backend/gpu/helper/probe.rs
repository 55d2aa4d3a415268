//! Starts a helper process that asks the BLAS libraries for GEMMs, and finds out what it died of.
//!
//! AMD's libraries have ended processes while they looked for an algorithm, and have hung. The helper says what it is
//! about to do before it does it. If it dies or falls silent, the GEMM that it named last is left out, and another
//! helper goes on with the rest.

use super::child::{ChildProcess, Heard, silence};
use super::report::{Report, Request};
use crate::gemm::avoided::Asked;
use crate::gemm::gemms::GemmTable;
use crate::runtime::ffi::gemm::GemmShape;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The argument with which this program becomes a helper.
pub const HELPER_ARGUMENT: &str = "rocm-gemms";

/// A library with this many GEMMs that killed a helper is no longer asked for any GEMM.
const MOST_DEATHS: usize = 4;

static HELPER: OnceLock<PathBuf> = OnceLock::new();

/// Sets the program that is started as the helper. With the argument [`HELPER_ARGUMENT`] it must call
/// [`super::serve::serve_gemms`]. Where no helper is set, the engine's own process asks the libraries.
pub fn set_helper(program: PathBuf) {
    // The first call counts.
    let _ = HELPER.set(program);
}

/// The program of [`set_helper`].
pub(crate) fn helper() -> Option<PathBuf> {
    HELPER.get().cloned()
}

/// What the helpers found.
#[derive(Default)]
pub(crate) struct Found {
    /// The GEMMs' rows for the table of tuned GEMMs.
    pub(crate) rows: GemmTable,
    /// The algorithms that compute something else.
    pub(crate) wrong: Vec<WrongGemm>,
    /// What was added to the request's list of avoided GEMMs.
    pub(crate) killers: Vec<Killer>,
    /// Why the helpers stopped early.
    pub(crate) failure: Option<String>,
}

/// A GEMM that an algorithm of a library computes wrong.
pub(crate) struct WrongGemm {
    pub(crate) asked: Asked,
    pub(crate) shape: GemmShape,
    /// The first wrong element, in words.
    pub(crate) how: String,
}

/// A GEMM that ended a helper.
pub(crate) struct Killer {
    pub(crate) asked: Asked,
    pub(crate) shape: GemmShape,
    /// How the helper ended, such as "signal: 11 (SIGSEGV)".
    pub(crate) how: String,
}

/// The time between two calls of a listener while a helper says nothing.
const LISTENER_INTERVAL: Duration = Duration::from_millis(100);

/// Measures the GEMMs of `request` in helpers, and adds what kills them to `request.avoided`. A helper that says
/// nothing for `patience` is killed. `tell` gets the rows that were found so far, again and again; if it returns false,
/// the helper is ended and what was found is returned. Returns `None` if no helper can be started.
pub(crate) fn probe(
    program: &Path,
    request: &mut Request,
    patience: Duration,
    tell: &mut dyn FnMut(&GemmTable) -> bool,
) -> Option<Found> {
    let begin = Instant::now();
    let budget = request.budget;
    let mut found = Found::default();
    loop {
        request.budget = budget.saturating_sub(begin.elapsed());
        request
            .wanted
            .retain(|gemm| found.rows.get(&gemm.shape).is_none_or(|row| !row.microseconds.is_finite()));
        let mut helper = Helper::start(program, request)?;
        let Ended::Died(last, how) = helper.listen(patience, &mut found, tell) else {
            return Some(found);
        };
        // Ctrl-C in a terminal ends this process's helpers, too, perhaps before this process has heard of it.
        std::thread::sleep(LISTENER_INTERVAL);
        if !tell(&found.rows) {
            return Some(found);
        }
        let Some((asked, shape)) = last else {
            found.failure = Some(format!("the helper process ended before its work was done ({how})"));
            return Some(found);
        };
        request.avoided.insert(asked, Some(shape), &how);
        // What was measured with plain weights counts without transposed ones, too.
        if !asked.is_transposed {
            found.rows.remove(&shape);
        }
        found.killers.push(Killer { asked, shape, how: how.clone() });
        if request.avoided.shapes(asked) >= MOST_DEATHS {
            let kills = request.avoided.contains_all(asked);
            request.avoided.insert(asked, None, &how);
            // The library was avoided as a whole already and still killed the helper. Another helper would end in the
            // same way.
            if kills {
                found.failure = Some(format!("the helper process ends again and again ({how})"));
                return Some(found);
            }
        }
    }
}

/// How a helper fared that only opens the device.
pub(crate) enum Opening {
    /// The helper has opened the device.
    Survived,
    /// The helper reported an error, which this process will meet too, or it could not work at all.
    Unknown,
    /// The helper died or fell silent, as this text says.
    Died(String),
}

/// Lets a helper open the device and its libraries, and nothing more. `request` has no GEMMs. A helper that says
/// nothing for `patience` is killed.
pub(crate) fn open_in_helper(program: &Path, request: &Request, patience: Duration) -> Opening {
    let Some(mut helper) = Helper::start(program, request) else { return Opening::Unknown };
    let mut found = Found::default();
    match helper.listen(patience, &mut found, &mut |_| true) {
        Ended::Done if found.failure.is_none() => Opening::Survived,
        Ended::Done => Opening::Unknown,
        // A program that ends as if all were well is no helper.
        Ended::Died(..) if helper.0.has_succeeded() => Opening::Unknown,
        Ended::Died(_, how) => Opening::Died(how),
    }
}

/// How a helper ended.
enum Ended {
    /// It is done, or nobody listens any longer.
    Done,
    /// It died or fell silent: what it was about to do, and how it ended.
    Died(Option<(Asked, GemmShape)>, String),
}

/// A running helper. Dropping it kills it.
struct Helper(ChildProcess);

impl Helper {
    fn start(program: &Path, request: &Request) -> Option<Helper> {
        let mut process = ChildProcess::start(program, HELPER_ARGUMENT, Stdio::null()).ok()?;
        process.ask(request);
        Some(Helper(process))
    }

    /// Reads the reports until the helper ends or `tell` returns false.
    fn listen(
        &mut self,
        patience: Duration,
        found: &mut Found,
        tell: &mut dyn FnMut(&GemmTable) -> bool,
    ) -> Ended {
        let mut last = None;
        let mut deadline = Instant::now() + patience;
        loop {
            if !tell(&found.rows) {
                return Ended::Done;
            }
            match self.0.hear(deadline.min(Instant::now() + LISTENER_INTERVAL)) {
                Heard::Event(Report::Done) => return Ended::Done,
                Heard::Event(Report::Failed(reason)) => {
                    found.failure = Some(reason);
                    return Ended::Done;
                }
                Heard::Event(Report::Ready) => last = None,
                Heard::Event(Report::Begin(asked, shape)) => last = Some((asked, shape)),
                Heard::Event(Report::Wrong(asked, shape, how)) => {
                    found.wrong.push(WrongGemm { asked, shape, how });
                }
                Heard::Event(Report::Row(shape, measured)) => {
                    // A helper asks for a plain GEMM too if the library cannot add the epilogue. An earlier helper
                    // may have timed that GEMM, and an untimed row must not replace the timed one.
                    let known = found.rows.get(&shape).is_some_and(|row| row.microseconds.is_finite());
                    if measured.microseconds.is_finite() || !known {
                        found.rows.insert(shape, measured);
                    }
                    last = None;
                }
                Heard::Nothing if Instant::now() < deadline => continue,
                Heard::Nothing => return Ended::Died(last, silence(patience)),
                Heard::End(how) => return Ended::Died(last, how),
            }
            deadline = Instant::now() + patience;
        }
    }
}
