//! Makes the backend of a game: one that plays on after a fault of its device.
//!
//! After `auto` has lost a device, it uses no device for the rest of the session. A device that the user named is tried
//! again with every new game. In both cases the processor evaluates in the meantime.

use super::config::BackendConfig;
use super::create::{CreatedBackend, finish, make_splitting, splitting};
use super::kinds::BACKENDS;
use super::maker::{Maker, MissingDevices, is_device};
use rukh_backend::options_dict::ParsedOptions;
use rukh_backend::wrap::{Make, RecoveringBackend, RecoveryPlan};
use rukh_backend::{Backend, BackendError};
use rukh_cpu::{CpuBackend, CpuOptions, Precision};
use rukh_net::discover::{APPENDED, EMBEDDED, OWN_NETWORK, find_network};
use rukh_net::{HeadSelection, NetworkFile};
use rukh_options::BackendName;
use rukh_options::lc0::backend_in_place_of;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a session knows about faults of devices, and where it reports them.
#[derive(Clone)]
pub struct Recovery {
    report: Arc<dyn Fn(&str) + Send + Sync>,
    /// Whether a device that `auto` chose was lost.
    auto_lost_device: Arc<AtomicBool>,
}

impl Recovery {
    /// What a new session knows: no device was lost. `report` receives messages for the user, on any thread and at any
    /// time.
    pub fn new(report: impl Fn(&str) + Send + Sync + 'static) -> Recovery {
        Recovery { report: Arc::new(report), auto_lost_device: Arc::default() }
    }

    fn missing_devices(&self) -> MissingDevices {
        match self.auto_lost_device.load(Ordering::Relaxed) {
            true => MissingDevices::AvoidByAuto,
            false => MissingDevices::LeaveOut,
        }
    }
}

/// Does the same as [`create`](super::create()), for a game: a fault of a device, now or later, does not end the game.
///
/// # Errors
/// As for [`create`](super::create()), except that a missing device is only reported.
pub fn create_for_game(config: &BackendConfig, recovery: &Recovery) -> Result<CreatedBackend, BackendError> {
    let maker = Maker::new(config, BACKENDS, recovery.missing_devices());
    let made = make_splitting(config, &maker);
    let plan = || plan(config, &maker, recovery);
    let (backend, recovering, notice) = match made {
        Ok(device) if is_played_on(config, &maker.made()) => {
            let recovering = Arc::new(RecoveringBackend::new(device, plan()?));
            (Arc::clone(&recovering) as Arc<dyn Backend>, Some(recovering), None)
        }
        Ok(backend) => (backend, None, None),
        Err(error @ BackendError::Create { .. }) if maker.device_is_named() && plays_on(config) => {
            let notice = format!("error: {error}; the processor takes over until the next game");
            let recovering = Arc::new(RecoveringBackend::without_device(plan()?)?);
            (Arc::clone(&recovering) as Arc<dyn Backend>, Some(recovering), Some(notice))
        }
        Err(error) => return Err(error),
    };
    let mut findings = maker.into_findings();
    findings.notices.extend(notice);
    let created = finish(config, backend, findings);
    Ok(CreatedBackend { recovering, ..created })
}

/// Whether a fault of a device that is part of the chosen backend is survived. `check` and `recordreplay` are tools: a
/// fault is part of what they report.
fn plays_on(config: &BackendConfig) -> bool {
    use BackendName::{Auto, Demux, Multiplexing, RoundRobin};
    BackendName::from_name(&config.backend)
        .or_else(|| backend_in_place_of(&config.backend))
        .is_some_and(|name| is_device(name) || matches!(name, Auto | Demux | Multiplexing | RoundRobin))
}

fn is_played_on(config: &BackendConfig, made: &[BackendName]) -> bool {
    let is_tool = |name: &BackendName| matches!(name, BackendName::Check | BackendName::RecordReplay);
    plays_on(config) && made.iter().any(|&name| is_device(name)) && !made.iter().any(is_tool)
}

fn plan(
    config: &BackendConfig,
    maker: &Maker<'_>,
    recovery: &Recovery,
) -> Result<RecoveryPlan, BackendError> {
    let path = maker.network_path()?;
    let heads = maker.first_heads(ParsedOptions::parse(&config.options)?.root());
    let is_named = maker.device_is_named();
    // Backends that are made later load the file that was found now, even if autodiscovery would then find another.
    let network = path.to_str().map_or_else(|| config.network.clone(), str::to_owned);
    let config = BackendConfig { network, ..config.clone() };
    let again = (config.clone(), recovery.clone());
    let make_device: Make = Box::new(move || {
        let (config, recovery) = &again;
        let maker = Maker::new(config, BACKENDS, recovery.missing_devices());
        let device = make_splitting(config, &maker)?;
        Ok((device, maker.into_findings().notices))
    });
    let auto_lost_device = Arc::clone(&recovery.auto_lost_device);
    Ok(RecoveryPlan {
        make_spare: Box::new(move || Ok((make_spare(&config, &path, &heads)?, Vec::new()))),
        make_device: is_named.then_some(make_device),
        report: Arc::clone(&recovery.report),
        on_lost: Box::new(move || {
            if !is_named {
                auto_lost_device.store(true, Ordering::Relaxed);
            }
        }),
    })
}

/// Makes the evaluator that takes the place of a lost device: the same network on the processor.
fn make_spare(
    config: &BackendConfig,
    path: &Path,
    heads: &HeadSelection,
) -> Result<Arc<dyn Backend>, BackendError> {
    let inside = [EMBEDDED, APPENDED, OWN_NETWORK].into_iter().find(|name| path == Path::new(name));
    let file = inside.map_or_else(|| NetworkFile::open(path), |name| find_network(name, |_| {}));
    let network = file.and_then(|file| file.network(heads));
    let network = network.map_err(|error| BackendError::Network(error.to_string()))?;
    let backend = CpuBackend::new(
        Arc::new(network),
        Precision::Fp32,
        &CpuOptions::default(),
        config.policy_softmax_temperature,
        config.history_fill,
    )?;
    Ok(splitting(Arc::new(backend)))
}
