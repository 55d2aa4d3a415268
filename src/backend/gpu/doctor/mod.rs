//! Examines a card that the authors have never seen, stage by stage. `rukh doctor` starts a process for each stage.
//!
//! Any call of a card's libraries may end its process or never return, so a stage says what it begins before it begins
//! it. If the process ends early, another one goes on without the item that ended it.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`devices`] | stage 1: libraries, devices, code objects |
//! | [`kernels`] | stage 2: our kernels against loops in fp64 |
//! | [`gemms`] | stage 3: the network's GEMMs by each library's algorithms and by our kernels |
//! | [`graphs`] | stage 4: graphs and branches against single steps |
//! | [`network`] | stage 5: the network against the processor |
//! | [`floors`] | stage 6: the costs of launches, copies and waits |
//! | [`speed`] | stage 7: the network's speed by batch size and setting |
//! | [`bench`] | a stream for single launches |
//! | [`subject`] | what a stage examines |
//! | [`reporter`] | tells the parent process what a stage does and finds |
//! | [`exchange`] | what the two processes exchange |
//! | [`stage`] | the stages' names and time limits |

mod bench;
mod devices;
mod exchange;
pub(crate) mod floors;
mod gemms;
mod graphs;
mod kernels;
mod network;
mod reporter;
mod speed;
mod stage;
pub(crate) mod subject;

use crate::helper::exchange::{read_request, write_event};
use crate::runtime::error;
use reporter::Reporter;
use std::io::{self, Read, Write};
use subject::Subject;

pub use exchange::{Cells, Line, Request};
pub use stage::Stage;

/// The argument with which this program becomes the process of a stage.
pub const STAGE_ARGUMENT: &str = "rocm-doctor";

/// Reads a request, runs its stage, and writes one line for each event.
///
/// # Errors
/// The request cannot be read, or the lines cannot be written: the parent process is gone.
pub fn serve_stage(input: impl Read, mut output: impl Write) -> io::Result<()> {
    match read_request::<Request>(input)? {
        Ok(request) => {
            let mut reporter = Reporter::new(&mut output, request.done.iter().cloned(), &request.killers);
            let outcome = run(&request, &mut reporter);
            reporter.finish(outcome)
        }
        Err(reason) => write_event(&mut output, &Line::Failed(reason)),
    }
}

fn run(request: &Request, report: &mut Reporter<'_>) -> error::Result<()> {
    let subject = || Subject::open(request);
    match request.stage {
        Stage::Devices => devices::run(request, report),
        Stage::Kernels => kernels::run(&subject()?, report),
        Stage::Gemms => gemms::run(&subject()?, report),
        Stage::Graphs => graphs::run(&subject()?, report),
        Stage::Network => network::run(&subject()?, report),
        Stage::Floors => floors::run(&subject()?, report),
        Stage::Speed => speed::run(&subject()?, report),
    }
}
