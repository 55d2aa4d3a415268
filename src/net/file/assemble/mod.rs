//! Builds a checked [`Network`] from a decoded file.
//!
//! The header says which parts there are, the layers' own lengths say how large they are, and each layer must
//! fit the one before it. If a layer does not fit, the error names it.
//!
//! | module | what it holds |
//! |---|---|
//! | `body` | the residual tower or the encoder stack |
//! | `heads` | the selected policy, value, value-error and moves-left heads |
//! | `optimism` | the blend of two policy heads |
//! | `encoder` | one encoder, of the body or of a policy head |
//! | `kinds` | the meaning of a header's numbers |
//! | `selection` | the choice of heads |

mod body;
mod encoder;
mod heads;
mod kinds;
mod optimism;
mod selection;

use super::proto::{NetworkFormat, Weights};
use crate::architecture::Architecture;
use crate::error::Reason;
use crate::network::Network;
use body::AssembledBody;
use kinds::Kinds;

pub(super) use heads::{policy_head_names, policy_layers, value_head_names};
pub use selection::HeadSelection;

/// Builds the network from an upgraded header and the weights.
pub(super) fn assemble(
    format: &NetworkFormat,
    weights: &Weights,
    selection: &HeadSelection,
) -> Result<Network, Reason> {
    let kinds = Kinds::of(format)?;
    let AssembledBody { body, kind, channels, smolgen_global } = body::assemble(&kinds, weights)?;
    let policy = heads::policy(&kinds, weights, selection, &kind, channels)?;
    let value = heads::value(&kinds, weights, &selection.value, channels)?;
    let value_error = match selection.value_error {
        true => heads::value_error(&kinds, weights, &selection.value, channels, &value)?,
        false => None,
    };
    let moves_left = kinds.moves_left.then(|| heads::moves_left(&kinds, weights, channels)).transpose()?;
    Ok(Network {
        architecture: Architecture {
            input_format: kinds.input_format,
            default_activation: kinds.default_activation,
            body: kind,
            wdl: kinds.wdl,
            moves_left: kinds.moves_left,
        },
        body,
        smolgen_global,
        policy,
        value,
        value_error,
        moves_left,
    })
}
