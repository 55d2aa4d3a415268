//! The text that the engine and its helper process exchange: a request on the helper's standard input, and one line
//! for each event on its standard output.

use crate::gemm::avoided::{Asked, Avoided};
use crate::gemm::gemms::{Effort, Measured};
use crate::gemm::shape_text;
use crate::measure::measurer::{Event, Wanted};
use crate::runtime::choice::GpuChoice;
use crate::runtime::ffi::gemm::{ElementType, GemmShape};
use crate::runtime::libraries::GemmLibrary;
use crate::runtime::weight_bits::WeightBits;
use crate::table::{cells, row};
use std::fmt::Write;
use std::time::Duration;

/// The first line of a request.
const TITLE: &str = "rukh GEMMs 6";

/// The GEMMs that the helper shall measure, and where.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Request {
    pub(crate) gpu: GpuChoice,
    pub(crate) library: GemmLibrary,
    pub(crate) weights: WeightBits,
    pub(crate) element: ElementType,
    pub(crate) effort: Effort,
    /// The time for the timing. The libraries are asked for every GEMM in any case.
    pub(crate) budget: Duration,
    /// [`GpuOptions::timeout`](crate::options::GpuOptions::timeout)
    pub(crate) timeout: Duration,
    pub(crate) avoided: Avoided,
    pub(crate) wanted: Vec<Wanted>,
}

impl Request {
    pub(crate) fn text(&self) -> String {
        let Request { gpu, library, weights, element, effort, budget, timeout, avoided, wanted } = self;
        let mut text = format!(
            "{TITLE}\ngpu,{gpu}\nlibraries,{},{},{},{},{},{}\n",
            library.key(),
            weights.key(),
            element.name(),
            effort.key(),
            budget.as_millis(),
            timeout.as_millis()
        );
        for line in avoided.lines() {
            let _ = writeln!(text, "avoid,{line}");
        }
        for Wanted { shape, layers } in wanted {
            let _ = writeln!(text, "gemm,{layers},{}", shape_text::text(shape));
        }
        text
    }

    /// Parses a request.
    ///
    /// # Errors
    /// The line that is not understood.
    pub(crate) fn parse(text: &str) -> Result<Request, String> {
        let mut lines = text.lines();
        let damaged = |line: &str| format!("the request has a line that is not understood: {line}");
        let title = lines.next().unwrap_or_default();
        if title != TITLE {
            return Err(damaged(title));
        }
        let gpu = lines.next().unwrap_or_default();
        let choice = gpu.strip_prefix("gpu,").map(GpuChoice::from_text).ok_or_else(|| damaged(gpu))?;
        let libraries = lines.next().unwrap_or_default();
        let mut request = parse_libraries(choice, libraries).ok_or_else(|| damaged(libraries))?;
        for line in lines {
            let parsed = match line.split_once(',') {
                Some(("avoid", rest)) => request.avoided.insert_line(rest),
                Some(("gemm", rest)) => parse_gemm(rest).map(|gemm| request.wanted.push(gemm)),
                _ => None,
            };
            parsed.ok_or_else(|| damaged(line))?;
        }
        Ok(request)
    }
}

fn parse_libraries(gpu: GpuChoice, line: &str) -> Option<Request> {
    let cells: Vec<&str> = line.split(',').collect();
    let &["libraries", library, weights, element, effort, budget, timeout] = cells.as_slice() else {
        return None;
    };
    Some(Request {
        gpu,
        library: GemmLibrary::from_key(library)?,
        weights: WeightBits::from_key(weights)?,
        element: shape_text::element(element)?,
        effort: Effort::from_key(effort)?,
        budget: Duration::from_millis(budget.parse().ok()?),
        timeout: Duration::from_millis(timeout.parse().ok()?),
        avoided: Avoided::default(),
        wanted: Vec::new(),
    })
}

fn parse_gemm(text: &str) -> Option<Wanted> {
    let (layers, shape) = text.split_once(',')?;
    let cells: Vec<&str> = shape.split(',').collect();
    Some(Wanted { shape: shape_text::parse(&cells)?, layers: layers.parse().ok()? })
}

/// Formats a row of the table.
fn row_text(shape: &GemmShape, measured: &Measured) -> String {
    let Measured { choice, microseconds, error, effort } = measured;
    let choice = row::choice_cells(*choice).join(",");
    format!("{choice},{microseconds},{error},{},{}", effort.key(), shape_text::text(shape))
}

fn parse_row(text: &str) -> Option<(GemmShape, Measured)> {
    let cells: Vec<&str> = text.split(',').collect();
    let &[library, solution, splits, layout, microseconds, error, effort, ref shape @ ..] = cells.as_slice()
    else {
        return None;
    };
    let measured = Measured {
        choice: row::choice([library, solution, splits, layout])?,
        microseconds: cells::number(microseconds)?,
        error: cells::number(error)?,
        effort: Effort::from_key(effort)?,
    };
    Some((shape_text::parse(shape)?, measured))
}

/// Who is asked, and the shape that follows.
fn parse_question(text: &str) -> Option<(Asked, GemmShape)> {
    let (asked, shape) = text.split_once(',')?;
    let cells: Vec<&str> = shape.split(',').collect();
    Some((Asked::from_key(asked)?, shape_text::parse(&cells)?))
}

/// A line of the helper.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Report {
    /// The device and its libraries are open.
    Ready,
    /// The library is about to be asked for the GEMM, or to run it.
    Begin(Asked, GemmShape),
    /// An algorithm of the library computes something else, as the text says.
    Wrong(Asked, GemmShape, String),
    /// A row of the table.
    Row(GemmShape, Measured),
    /// The helper cannot work, for this reason.
    Failed(String),
    /// The helper has done what its time allowed.
    Done,
}

impl Report {
    /// The line for an event.
    pub(crate) fn of(event: &Event<'_>) -> Report {
        match event {
            Event::Begin(asked, shape) => Report::Begin(*asked, **shape),
            Event::Wrong(asked, shape, how) => Report::Wrong(*asked, **shape, (*how).to_owned()),
            Event::Row(shape, measured) => Report::Row(**shape, **measured),
        }
    }

    /// The line, without its end.
    pub(crate) fn text(&self) -> String {
        match self {
            Report::Ready => "ready".to_owned(),
            Report::Begin(asked, shape) => format!("begin,{},{}", asked.key(), shape_text::text(shape)),
            Report::Wrong(asked, shape, how) => {
                let how = how.replace([',', '\n', '\r'], ";");
                format!("wrong,{how},{},{}", asked.key(), shape_text::text(shape))
            }
            Report::Row(shape, measured) => format!("row,{}", row_text(shape, measured)),
            Report::Failed(reason) => format!("failed,{}", reason.replace(['\n', '\r'], " ")),
            Report::Done => "done".to_owned(),
        }
    }

    /// Parses a line; `None` for a line that a library printed.
    pub(crate) fn parse(line: &str) -> Option<Report> {
        match line.split_once(',').unwrap_or((line, "")) {
            ("ready", "") => Some(Report::Ready),
            ("done", "") => Some(Report::Done),
            ("failed", reason) => Some(Report::Failed(reason.to_owned())),
            ("row", row) => parse_row(row).map(|(shape, measured)| Report::Row(shape, measured)),
            ("begin", rest) => parse_question(rest).map(|(asked, shape)| Report::Begin(asked, shape)),
            ("wrong", rest) => {
                let (how, rest) = rest.split_once(',')?;
                parse_question(rest).map(|(asked, shape)| Report::Wrong(asked, shape, how.to_owned()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::avoided::BlasLibrary;
    use crate::gemm::gemms::GemmChoice;
    use crate::runtime::ffi::gemm::WeightLayout;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let shape = GemmShape::plain(64, 32, 16, ElementType::Fp16);
        let mut avoided = Avoided::default();
        avoided.insert(Asked::plain(BlasLibrary::HipblasLt), Some(shape), "signal: 11 (SIGSEGV)");
        let request = Request {
            gpu: GpuChoice::Number(1),
            library: GemmLibrary::Auto,
            weights: WeightBits::Eight,
            element: ElementType::Bf16,
            effort: Effort::Full,
            budget: Duration::from_secs(10),
            timeout: Duration::from_millis(200),
            avoided,
            wanted: vec![Wanted { shape, layers: 15 }],
        };
        let text = request.text();
        assert_eq!(Request::parse(&text), Ok(request));
        for damaged in [
            "",
            "rukh GEMMs 2\n",
            &text.replace("bf16", "int8"),
            &text.replace("gemm,", "x,"),
            &text.replace(",auto,8,", ",auto,4,"),
        ] {
            assert!(Request::parse(damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let shape = GemmShape::plain(64, 32, 16, ElementType::Fp16);
        let [plain, _, transposed, _] = WeightLayout::ALL;
        let choice = GemmChoice::HipblasLt { solution: Some(2), layout: transposed };
        let with = |microseconds| Measured { choice, microseconds, error: 1e-3, effort: Effort::Quick };
        let reports = [
            Report::Ready,
            Report::Begin(Asked::new(BlasLibrary::Rocblas, plain), shape),
            Report::Begin(Asked::new(BlasLibrary::Rocblas, transposed), shape),
            Report::Wrong(
                Asked::new(BlasLibrary::HipblasLt, transposed),
                shape,
                "row 3 is 1 instead of 2".to_owned(),
            ),
            Report::Row(shape, with(2.5)),
            Report::Row(shape, with(Measured::NOT_YET)),
            Report::Failed("hipMalloc failed, it says".to_owned()),
            Report::Done,
        ];
        for report in reports {
            assert_eq!(Report::parse(&report.text()), Some(report));
        }
        assert_eq!(Report::parse("rocBLAS warning: something"), None);
    }
}
