//! The helper process: it asks the BLAS libraries for GEMMs and times them, so that a library that crashes or
//! hangs does not stop the engine. [`super::probe`] starts it.

use super::exchange::{read_request, write_event};
use super::report::{Report, Request};
use crate::gemm::gemms::Gemms;
use crate::measure::measurer::Measurer;
use crate::runtime::device::Gpu;
use crate::runtime::error;
use crate::runtime::kernels::Kernels;
use std::io::{self, Read, Write};

/// Reads a request, and writes one line for each event. The reader of these lines knows what the process was doing if
/// it ends early.
///
/// # Errors
/// The request cannot be read, or the lines cannot be written: the engine is gone.
pub fn serve_gemms(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let request = read_request(input)?;
    let mut written = Ok(());
    let mut write = |report: &Report| {
        let one = write_event(&mut output, report);
        if one.is_err() && written.is_ok() {
            written = one;
        }
        written.is_ok()
    };
    let last = match request.map(|request| measure(&request, &mut write)) {
        Ok(Ok(())) => Report::Done,
        Ok(Err(error)) => Report::Failed(error.to_string()),
        Err(reason) => Report::Failed(reason),
    };
    write(&last);
    written
}

fn measure(request: &Request, write: &mut impl FnMut(&Report) -> bool) -> error::Result<()> {
    let Request { gpu, sources, weights, element, effort, budget, timeout, avoided, wanted } = request;
    let gpu = Gpu::open(gpu, sources)?;
    gpu.device.set_patience(*timeout);
    let kernels = Kernels::of(&gpu, *element)?;
    let gemms = Gemms::new(&gpu, &kernels, sources.gemm)?.with_weights(*weights);
    gemms.avoid(avoided.clone());
    let mut measurer = Measurer::new(&gpu, &gemms, &kernels, *element, (wanted, *effort))?;
    write(&Report::Ready);
    measurer.measure(wanted, *budget, |event| write(&Report::of(&event)));
    kernels.module().keep();
    Ok(())
}
