//! Stage 6: what launches, copies and waits cost when there is nothing to compute.

use super::bench::Bench;
use super::reporter::Reporter;
use super::subject::Subject;
use crate::runtime::error::Result;
use crate::runtime::ffi::arguments::ActivationArguments;
use crate::runtime::ffi::copies::{Copies, Way};
use crate::runtime::ffi::exchange::Exchange;
use crate::runtime::ffi::hip::{Address, DeviceBuffer};
use crate::runtime::ffi::program::{MAIN_LANE, Program, Step};
use crate::runtime::ffi::stream::Stream;
use crate::runtime::ffi::wait::Waiting;
use crate::runtime::kernels::{Kernels, grid};
use crate::runtime::numbers::short;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// The lengths of the chains of kernels. A pass of a large network has some 230 steps.
const CHAINS: [usize; 3] = [1, 100, 230];

/// The kernels of an encoder in a forked chain.
const STEPS_OF_AN_ENCODER: usize = 15;
/// How many of them run on another lane.
const FORKED_STEPS: usize = 5;

/// The sizes of copies, in bytes.
const SIZES: [usize; 5] = [1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26];
const QUICK_SIZES: [usize; 2] = [1 << 10, 1 << 18];

/// The size of copies within the device's memory, which should not fit into its caches, in bytes.
const WITHIN_BYTES: usize = 256 << 20;
const QUICK_WITHIN_BYTES: usize = 1 << 18;

/// The width of the rows that the kernel for bandwidths copies.
pub(crate) const WIDTH: usize = 256;

const WAYS_TO_WAIT: [(&str, Waiting); 3] =
    [("spin", Waiting::Spin), ("yield", Waiting::Yield), ("block", Waiting::Block)];

/// The output of an empty batch, in bytes.
const OUTPUT_BYTES: usize = 64;

pub(super) fn run(subject: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    let mut floors = Floors {
        subject,
        bench: Bench::new(&subject.gpu, 1)?,
        memory: Arc::new(DeviceBuffer::zeroed(subject.gpu.device, 256, "empty kernels")?),
        repetitions: if subject.is_quick { 5 } else { 30 },
    };
    for count in CHAINS {
        // A single kernel cannot be forked.
        let all = [How::Launches, How::Graph, How::ForkedGraph];
        for how in all.into_iter().filter(|how| count > 1 || *how != How::ForkedGraph) {
            report.item(&format!("{count} kernels by {}", how.name()), |report| {
                let outcome = floors.chain(count, how, report);
                outcome.map_err(|error| floors.bench.examined(error))
            });
        }
    }
    for count in [CHAINS[0], CHAINS[2]] {
        for (name, waiting) in WAYS_TO_WAIT {
            report.item(&format!("a wait by {name} for {count} kernels"), |report| {
                let outcome = floors.wait(count, name, waiting, report);
                outcome.map_err(|error| floors.bench.examined(error))
            });
        }
    }
    let (sizes, within) =
        if subject.is_quick { (&QUICK_SIZES[..], QUICK_WITHIN_BYTES) } else { (&SIZES[..], WITHIN_BYTES) };
    for &bytes in sizes {
        for (name, transfer) in [
            ("host to device", Transfer::Copy(Way::ToDevice)),
            ("device to host", Transfer::Copy(Way::ToHost)),
            ("a kernel that reads the host's memory", Transfer::Kernel { reads_host: true }),
        ] {
            report
                .item(&format!("{name}, {bytes} bytes"), |report| floors.copy(name, transfer, bytes, report));
        }
    }
    for (name, transfer) in [
        ("within the device's memory", Transfer::Copy(Way::WithinDevice)),
        ("a kernel within the device's memory", Transfer::Kernel { reads_host: false }),
    ] {
        report.item(&format!("{name}, {within} bytes"), |report| floors.copy(name, transfer, within, report));
    }
    Ok(())
}

/// How a chain of kernels is launched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Launches,
    Graph,
    /// By a graph in which a third of the kernels runs beside the others.
    ForkedGraph,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            How::Launches => "launches",
            How::Graph => "graph",
            How::ForkedGraph => "forked graph",
        }
    }
}

/// What moves bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transfer {
    Copy(Way),
    Kernel { reads_host: bool },
}

struct Floors<'a> {
    subject: &'a Subject,
    bench: Bench,
    memory: Arc<DeviceBuffer>,
    repetitions: usize,
}

/// The shortest and the median time, in microseconds.
struct Times {
    shortest: f64,
    median: f64,
}

/// Times `run`, after two runs that are not timed.
fn times(repetitions: usize, mut run: impl FnMut() -> Result<()>) -> Result<Times> {
    run()?;
    run()?;
    let timed = (0..repetitions).map(|_| {
        let begin = Instant::now();
        run()?;
        Ok(begin.elapsed().as_secs_f64() * 1e6)
    });
    let mut times: Vec<f64> = timed.collect::<Result<_>>()?;
    times.sort_by(f64::total_cmp);
    Ok(Times {
        shortest: times.first().copied().unwrap_or(0.0),
        median: times.get(times.len() / 2).copied().unwrap_or(0.0),
    })
}

/// A kernel that copies `rows` rows of [`WIDTH`] elements from `input` to `output`; none if `rows` is 0.
pub(crate) fn copying_kernel(
    kernels: &Kernels,
    rows: usize,
    input: Address,
    output: Address,
) -> Result<Step> {
    let arguments = ActivationArguments {
        input,
        bias: Address::NULL,
        multiply: Address::NULL,
        add: Address::NULL,
        output,
        rows: rows as i32,
        width: WIDTH as i32,
        bias_rows: 1,
        activation: 0,
    };
    let function = kernels.function("activation", "")?;
    let blocks = (rows * WIDTH).div_ceil(2048).max(1);
    Ok(Step::kernel("a timed kernel".to_owned(), function, grid(blocks, 1, 256), arguments))
}

impl Floors<'_> {
    fn kernel(&self, rows: usize, input: Address, output: Address) -> Result<Step> {
        copying_kernel(&self.subject.kernels, rows, input, output)
    }

    /// A chain of kernels that have nothing to do.
    fn program(&self, count: usize, forks: bool) -> Result<Program> {
        let address = self.memory.address();
        let mut steps = Vec::new();
        let mut is_forked = false;
        for index in 0..count {
            let place = index % STEPS_OF_AN_ENCODER;
            let is_on_side = forks && place > 0 && place <= FORKED_STEPS;
            if is_on_side && !is_forked {
                steps.push(Step::wait_for(1, MAIN_LANE));
                is_forked = true;
            }
            steps.push(self.kernel(0, address, address)?.on(usize::from(is_on_side)));
            let is_end = place == STEPS_OF_AN_ENCODER - 1 || index + 1 == count;
            if is_forked && is_end {
                steps.push(Step::wait_for(MAIN_LANE, 1));
                is_forked = false;
            }
        }
        Ok(Program::new(steps, vec![Arc::clone(&self.memory)]))
    }

    fn chain(&mut self, count: usize, how: How, report: &mut Reporter<'_>) -> Result<()> {
        let program = self.program(count, how == How::ForkedGraph)?;
        let Bench { stream, lanes, .. } = &self.bench;
        let enqueue = || program.enqueue(stream, lanes);
        let graph = if how == How::Launches { None } else { Some(stream.capture(enqueue)?) };
        let launch = || match &graph {
            Some(graph) => graph.launch(stream),
            None => enqueue(),
        };
        let mut calls = Vec::new();
        let whole = times(self.repetitions, || {
            let begin = Instant::now();
            launch()?;
            calls.push(begin.elapsed().as_secs_f64() * 1e6);
            stream.wait(Waiting::Spin)
        })?;
        calls.sort_by(f64::total_cmp);
        let on_device = match how {
            How::Graph => short(self.bench.microseconds(&program, self.repetitions)?),
            _ => Value::Null,
        };
        let cells = [
            ("kernels", count.into()),
            ("by", how.name().into()),
            ("µs of calls", short(calls.get(calls.len() / 2).copied().unwrap_or(0.0))),
            ("µs on the device", on_device),
            ("µs in all", short(whole.shortest)),
            ("median", short(whole.median)),
            ("µs a kernel", short(whole.shortest / count as f64)),
        ];
        report.row("launches", cells);
        Ok(())
    }

    /// Times batches of empty kernels as a slot runs them, with a copy of the output and a wait.
    fn wait(&mut self, count: usize, name: &str, waiting: Waiting, report: &mut Reporter<'_>) -> Result<()> {
        let program = self.program(count, false)?;
        let mut exchange = Exchange::new(self.subject.gpu.device, OUTPUT_BYTES, OUTPUT_BYTES, waiting)?;
        let lanes = &self.bench.lanes;
        let graph = exchange.stream().capture(|| program.enqueue(exchange.stream(), lanes)).ok();
        let mut usual = None;
        let times = times(self.repetitions, || {
            let begin = Instant::now();
            exchange.start(OUTPUT_BYTES, |stream: &Stream| match &graph {
                Some(graph) => graph.launch(stream),
                None => program.enqueue(stream, lanes),
            })?;
            exchange.wait(usual)?;
            usual = Some(begin.elapsed());
            Ok(())
        })?;
        let cells = [
            ("wait", name.into()),
            ("kernels", count.into()),
            ("by", if graph.is_some() { How::Graph.name() } else { How::Launches.name() }.into()),
            ("µs", short(times.shortest)),
            ("median", short(times.median)),
        ];
        report.row("waits", cells);
        Ok(())
    }

    fn copy(
        &mut self,
        name: &str,
        transfer: Transfer,
        bytes: usize,
        report: &mut Reporter<'_>,
    ) -> Result<()> {
        let is_of_host =
            !matches!(transfer, Transfer::Copy(Way::WithinDevice) | Transfer::Kernel { reads_host: false });
        let copies = Copies::new(self.subject.gpu.device, if is_of_host { bytes } else { 256 }, bytes)?;
        let [host, from, to] = copies.addresses();
        let row_bytes = WIDTH * self.subject.element.bytes();
        let program = match transfer {
            Transfer::Copy(_) => Program::new(Vec::new(), Vec::new()),
            Transfer::Kernel { reads_host } => {
                let input = if reads_host { host } else { from };
                Program::new(vec![self.kernel(bytes / row_bytes, input, to)?], Vec::new())
            }
        };
        let times = times(self.repetitions, || {
            match transfer {
                Transfer::Copy(way) => copies.enqueue(way, bytes)?,
                Transfer::Kernel { .. } => program.enqueue(copies.stream(), &self.bench.lanes)?,
            }
            copies.stream().wait(Waiting::Spin)
        })?;
        let cells = [
            ("copy", name.into()),
            ("bytes", bytes.into()),
            ("µs", short(times.shortest)),
            ("median", short(times.median)),
            ("GB/s", short(bytes as f64 / times.shortest / 1e3)),
        ];
        report.row("copies", cells);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_and_the_median_time_are_found() {
        let mut runs = 0;
        let times = times(5, || {
            runs += 1;
            Ok(())
        });
        let times = times.expect("nothing fails");
        assert_eq!(runs, 7);
        assert!(times.shortest <= times.median);
    }
}
