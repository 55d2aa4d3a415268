//! Rounds the dense layers of a network to 8 bits for a GPU, which multiplies bytes in the same way as the CPU.
//!
//! The positions by which weights are rounded are evaluated on the CPU, in fp32. What is rounded is kept in the cache
//! folder like the CPU's own weights ([`super::kept_rounding`]), but in a file of its own: a GPU rounds other layers, and
//! its queries are not multiplied by `1/sqrt(depth)`.

use super::kept_rounding::{KeptFile, identity_of_weights};
use super::kernels::matrix::Quantised;
use super::network::InstructionSet;
use super::rounder::Rounder;
use rukh_net::Network;
use rukh_net::weights::Dense;

/// The first words of the cached files' names.
const NAME: &str = "int8-weights-gpu";

/// Rounds layers, one after another.
pub struct DeviceRounder {
    rounder: Rounder,
    file: KeptFile,
}

impl DeviceRounder {
    /// Evaluates some positions, unless an earlier start has kept how the weights are rounded.
    pub fn new(network: &Network) -> DeviceRounder {
        let instructions = InstructionSet::best();
        let identity = format!("{}for a GPU\n", identity_of_weights(network, i8::MAX));
        let file = KeptFile::in_cache(NAME, instructions, &identity);
        DeviceRounder { rounder: file.rounder(network, instructions, i8::MAX), file }
    }

    /// The weights of a layer between -127 and 127. `number` counts the calls of [`LayerStore::dense`] before that of
    /// this layer.
    ///
    /// [`LayerStore::dense`]: rukh_net::prepare::LayerStore::dense
    pub fn round(&mut self, number: usize, layer: &Dense) -> Quantised {
        self.rounder.dense(number, &layer.weights, layer.inputs)
    }

    /// Keeps for the next start how the layers have been rounded. All of them must have been.
    pub fn keep(self) {
        self.file.keep(self.rounder);
    }
}
