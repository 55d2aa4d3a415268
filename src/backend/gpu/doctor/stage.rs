//! The stages of an examination.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A part of the examination. Each runs in a process of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The libraries and the devices.
    Devices,
    /// Our kernels against loops in fp64.
    Kernels,
    /// The GEMMs of the network, by each library's algorithms and by our kernels.
    Gemms,
    /// Graphs and parallel branches against plain execution.
    Graphs,
    /// The network against the processor.
    Network,
    /// The costs of launches, copies and waits.
    Floors,
    /// The network's speed, and the best settings.
    Speed,
}

impl Stage {
    /// All stages, in the order in which they run.
    pub const ALL: [Stage; 7] = [
        Stage::Devices,
        Stage::Kernels,
        Stage::Gemms,
        Stage::Graphs,
        Stage::Network,
        Stage::Floors,
        Stage::Speed,
    ];

    /// The stage's name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Devices => "devices",
            Stage::Kernels => "kernels",
            Stage::Gemms => "gemms",
            Stage::Graphs => "graphs",
            Stage::Network => "network",
            Stage::Floors => "floors",
            Stage::Speed => "speed",
        }
    }

    /// The stage with this name.
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name)
    }

    /// What the stage examines.
    pub fn title(self) -> &'static str {
        match self {
            Stage::Devices => "libraries and devices",
            Stage::Kernels => "Rukh's kernels against loops in fp64",
            Stage::Gemms => "the network's GEMMs by each library and algorithm",
            Stage::Graphs => "graphs and parallel branches against single steps",
            Stage::Network => "the network's figures against those of the processor",
            Stage::Floors => "costs of launches, copies and waits",
            Stage::Speed => "the network's speed, and the fastest settings",
        }
    }

    /// The time after which the stage is ended, unless the user gives another.
    pub fn time_limit(self) -> Duration {
        Duration::from_secs(match self {
            Stage::Floors => 30,
            Stage::Devices | Stage::Graphs => 45,
            Stage::Kernels | Stage::Gemms | Stage::Network | Stage::Speed => 60,
        })
    }
}
