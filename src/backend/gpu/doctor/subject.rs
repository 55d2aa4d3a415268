//! What a stage examines: the device, the libraries, our kernels and the network, as the engine would use them.

use super::exchange::Request;
use crate::gemm::gemms::Gemms;
use crate::network::device_network::DeviceNetwork;
use crate::options::{GivenOptions, GpuOptions, Tuning};
use crate::pass::slot::SlotMaker;
use crate::runtime::device::Gpu;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::kernels::Kernels;
use crate::runtime::precision::GpuPrecision;
use crate::startup::prepare::{MAXIMUM_BATCH, fitting_batch, slot_maker};
use crate::tuning::choices;
use crate::tuning::kept_settings::{self, Kept};
use crate::tuning::kept_tables;
use crate::tuning::passes;
use rukh_net::{HeadSelection, Network, find_network};
use std::cell::OnceCell;
use std::sync::Arc;

/// The largest batch of a quick examination, in positions, if the user gives no limit.
const MAXIMUM_QUICK_BATCH: usize = 64;

/// The device and the libraries that a stage examines, and the network if the stage asks for it.
pub(crate) struct Subject {
    pub(crate) options: GpuOptions,
    /// The user's text of the options.
    pub(super) options_text: String,
    /// The number format of the backend that the user has chosen.
    pub(crate) precision: GpuPrecision,
    /// The type of activations in this format.
    pub(crate) element: ElementType,
    /// Whether to take fewer shapes, batch sizes and repetitions.
    pub(super) is_quick: bool,
    pub(crate) gpu: Gpu,
    /// The kernels of [`Subject::element`].
    pub(crate) kernels: Kernels,
    /// The libraries' GEMMs. Nothing is avoided or tuned before [`Subject::tune`].
    pub(crate) gemms: Gemms,
    /// The largest batch, in positions, if memory allows.
    maximum_batch: usize,
    weights: String,
    heads: HeadSelection,
    network: OnceCell<Arc<DeviceNetwork>>,
}

/// Reads the options of a request, as an error of this module.
pub(super) fn given(request: &Request) -> Result<GivenOptions> {
    GivenOptions::read(request.maker, &request.options)
        .map_err(|error| GpuError::Unsupported(error.to_string()))
}

impl Subject {
    /// Opens the device and its libraries.
    ///
    /// # Errors
    /// The options are invalid, the driver or the device is missing, or a call fails.
    pub(crate) fn open(request: &Request) -> Result<Subject> {
        let GivenOptions { options, heads } = given(request)?;
        let gpu = Gpu::open(&options.gpu, &options.sources())?;
        let precision = request.precision.on(&gpu)?;
        let element = precision.element();
        gpu.device.set_patience(options.timeout);
        let kernels = Kernels::of(&gpu, element)?;
        let gemms = Gemms::new(&gpu, &kernels, options.gemm)?.with_weights(options.weight_bits);
        let by_default = if request.is_quick { MAXIMUM_QUICK_BATCH } else { MAXIMUM_BATCH };
        Ok(Subject {
            precision,
            element,
            is_quick: request.is_quick,
            gpu,
            kernels,
            gemms,
            maximum_batch: options.maximum_batch.unwrap_or(by_default),
            options,
            options_text: request.options.clone(),
            weights: request.weights.clone(),
            heads,
            network: OnceCell::new(),
        })
    }

    /// Our kernels for another element type.
    pub(super) fn kernels_of(&self, element: ElementType) -> Result<Kernels> {
        Kernels::of(&self.gpu, element)
    }

    /// Reads the network's file.
    pub(super) fn host_network(&self) -> Result<Network> {
        let read = find_network(&self.weights, |_| {}).and_then(|file| file.network(&self.heads));
        read.map_err(|error| GpuError::Unsupported(error.to_string()))
    }

    /// The network in the device's memory.
    pub(super) fn network(&self) -> Result<&Arc<DeviceNetwork>> {
        if self.network.get().is_none() {
            let made = DeviceNetwork::new(&self.gpu, self.host_network()?, self.precision)?;
            // The cell is empty, as the test above shows.
            let _ = self.network.set(Arc::new(made));
        }
        self.network.get().ok_or_else(|| GpuError::Unsupported("the network is not loaded".to_owned()))
    }

    /// A maker of slots with the user's options, and with the settings that `rukh tune` has measured. The caller may
    /// change the maker. Its largest batch fits into the memory.
    pub(crate) fn maker(&self) -> Result<SlotMaker<'_>> {
        let Subject { options, gpu, kernels, gemms, maximum_batch, .. } = self;
        let maker = slot_maker(gpu, self.network()?, kernels, gemms, options);
        let measured = self.kept_settings()?.settings;
        let maker = measured.applied(maker, |option| options.leaves(option));
        let mut maker = SlotMaker { maximum_batch: *maximum_batch, ..maker };
        maker.maximum_batch = fitting_batch(&maker, options.longest_batch)?;
        Ok(maker)
    }

    /// What starts or `rukh tune` have measured and kept for the network, unless the user wants none of it.
    pub(crate) fn kept_settings(&self) -> Result<Kept> {
        let kept = match self.options.tuning {
            Tuning::Off => None,
            _ => kept_settings::kept(&self.passes_key()?).ok().flatten(),
        };
        Ok(kept.unwrap_or_else(Kept::nothing))
    }

    /// The measured ladder of batch sizes of the network; empty if there is none.
    pub(crate) fn ladder(&self) -> Result<Vec<usize>> {
        Ok(passes::kept(&self.passes_key()?).unwrap_or_default())
    }

    /// The key of what was measured of the network's passes.
    fn passes_key(&self) -> Result<String> {
        let origin = kept_tables::origin(&self.gpu, &self.gemms);
        Ok(passes::key(&origin.versions, self.precision, &self.network()?.layers.architecture))
    }

    /// Does what the engine does before its first slot: leaves out the GEMMs that ended a process at an earlier
    /// start, and measures what has not been measured yet in a helper process. Returns the messages for the user.
    pub(crate) fn tune(&self) -> Result<Vec<String>> {
        let origin = kept_tables::origin(&self.gpu, &self.gemms);
        let tunes = self.options.tuning != Tuning::Off;
        match kept_tables::recall(&self.gpu, &self.gemms, &self.options, &origin, tunes) {
            Some(kept) => Ok(choices::tune(
                &self.maker()?,
                &self.options,
                &origin,
                kept,
                &mut self.options.tuning.control(&self.gpu, &mut |_, _| true),
            )?
            .notices),
            None => Ok(Vec::new()),
        }
    }
}
