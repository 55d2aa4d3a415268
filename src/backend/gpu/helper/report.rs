//! What the engine and its helper process tell each other.

use crate::gemm::avoided::{Asked, Avoided};
use crate::gemm::gemms::{Effort, Measured};
use crate::measure::measurer::{Event, Wanted};
use crate::runtime::choice::GpuChoice;
use crate::runtime::ffi::gemm::{ElementType, GemmShape};
use crate::runtime::libraries::Sources;
use crate::runtime::weight_bits::WeightBits;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The GEMMs that the helper shall measure, and where.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) gpu: GpuChoice,
    /// The libraries to load.
    pub(crate) sources: Sources,
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

/// An event of the helper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The device and its libraries are open.
    Ready,
    /// The library is about to be asked for the GEMM, or to run it.
    Begin(Asked, GemmShape),
    /// An algorithm has computed a wrong result. The text names the first wrong element.
    Wrong(Asked, GemmShape, String),
    /// A row of the table.
    Row(GemmShape, Measured),
    /// The helper cannot work, for this reason.
    Failed(String),
    /// The helper has done what its time allowed.
    Done,
}

impl Report {
    /// The report of an event of the measurement.
    pub(crate) fn of(event: &Event<'_>) -> Report {
        match event {
            Event::Begin(asked, shape) => Report::Begin(*asked, **shape),
            Event::Wrong(asked, shape, how) => Report::Wrong(*asked, **shape, (*how).to_owned()),
            Event::Row(shape, measured) => Report::Row(**shape, **measured),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exchange::{parse_event, read_request, request_text, write_event};
    use super::*;
    use crate::gemm::avoided::BlasLibrary;
    use crate::gemm::gemms::GemmChoice;
    use crate::runtime::ffi::gemm::WeightLayout;
    use crate::runtime::libraries::GemmLibrary;
    use crate::runtime::maker::Maker;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let shape = GemmShape::plain(64, 32, 16, ElementType::Fp16);
        let mut avoided = Avoided::default();
        avoided.insert(Asked::plain(BlasLibrary::HipblasLt), Some(shape), "signal: 11 (SIGSEGV)");
        let request = Request {
            gpu: GpuChoice::Number(1),
            sources: Sources { maker: Maker::Amd, gemm: GemmLibrary::Auto, folder: None, target: None },
            weights: WeightBits::Eight,
            element: ElementType::Bf16,
            effort: Effort::Full,
            budget: Duration::from_secs(10),
            timeout: Duration::from_millis(200),
            avoided,
            wanted: vec![Wanted { shape, layers: 15 }],
        };
        let text = request_text(&request);
        let parsed = |text: &str| read_request::<Request>(text.as_bytes()).expect("memory can be read");
        assert_eq!(parsed(&text), Ok(request));
        for damaged in ["", "{}", &text.replace("Bf16", "Int3"), &text[..text.len() - 1]] {
            assert!(parsed(damaged).is_err(), "{damaged}");
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
            let mut line = Vec::new();
            write_event(&mut line, &report).expect("memory can be written");
            assert_eq!(parse_event(&String::from_utf8_lossy(&line)), Some(report));
        }
    }
}
