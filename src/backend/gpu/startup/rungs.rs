//! Makes slots whose figures are right: if they are not, it goes down a ladder until they are.
//!
//! Each rung below the first gives up something that may be at fault: weights of 8 bits, graphs, launches of several
//! steps, one BLAS library, or both libraries. Below the last rung is the processor. A rung that passed is kept in the
//! cache folder with everything that it depends on, so that the next start neither evaluates on the processor nor
//! checks.

use super::processor_figures::Question;
use super::self_check::Reference;
use crate::gemm::avoided::BlasLibrary;
use crate::gemm::gemms::Gemms;
use crate::options::GpuOptions;
use crate::pass::slot::{Slot, SlotMaker};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::precision::GpuPrecision;
use crate::runtime::shared_launches::SharedLaunches;
use crate::runtime::weight_bits::WeightBits;
use crate::tuning::settings::MeasuredSettings;
use rukh_backend::BackendError;
use rukh_base::cache_folder;
use rukh_net::Network;
use rukh_net::digest::Digest;
use std::fmt::Write;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

/// The first part of the names of the files that keep a rung.
const NAME: &str = "checked";

/// The largest batch that all slots evaluate at the same time in a check.
const TOGETHER: usize = 64;

/// A way to evaluate, from the fastest to the most careful.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rung {
    AsAsked,
    WithoutByteWeights,
    WithoutGraphs,
    WithoutSharedLaunches,
    WithoutHipblasLt,
    WithoutRocblas,
    WithoutLibraries,
}

impl Rung {
    const ALL: [Rung; 7] = [
        Rung::AsAsked,
        Rung::WithoutByteWeights,
        Rung::WithoutGraphs,
        Rung::WithoutSharedLaunches,
        Rung::WithoutHipblasLt,
        Rung::WithoutRocblas,
        Rung::WithoutLibraries,
    ];

    /// The rung's name in messages and in the cache folder.
    fn name(self) -> &'static str {
        match self {
            Rung::AsAsked => "with these options",
            Rung::WithoutByteWeights => "without weights of 8 bits",
            Rung::WithoutGraphs => "without graphs",
            Rung::WithoutSharedLaunches => "without launches that GEMMs share",
            Rung::WithoutHipblasLt => "without hipBLASLt",
            Rung::WithoutRocblas => "without rocBLAS",
            Rung::WithoutLibraries => "without a library for GEMMs",
        }
    }

    fn from_name(name: &str) -> Option<Rung> {
        Rung::ALL.into_iter().find(|rung| rung.name() == name)
    }

    /// The rung changes something for this maker.
    fn applies(self, maker: &SlotMaker<'_>) -> bool {
        let has = |library| maker.gemms.has(library);
        let has_both = has(BlasLibrary::Rocblas) && has(BlasLibrary::HipblasLt);
        let has_one = has(BlasLibrary::Rocblas) || has(BlasLibrary::HipblasLt);
        match self {
            Rung::AsAsked => true,
            Rung::WithoutByteWeights => maker.gemms.rounds_weights() && has(BlasLibrary::Own),
            Rung::WithoutGraphs => maker.has_graphs,
            Rung::WithoutSharedLaunches => {
                maker.shared_launches() != SharedLaunches::None && has(BlasLibrary::Own)
            }
            Rung::WithoutHipblasLt | Rung::WithoutRocblas => has_both,
            Rung::WithoutLibraries => has_one && has(BlasLibrary::Own),
        }
    }
}

/// The measured settings and the measured ladder.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) settings: MeasuredSettings,
    /// The ladder of batch sizes; empty for the usual one.
    pub(crate) ladder: Vec<usize>,
}

/// Gives the processor's figures, which a thread computes while the card is prepared.
type Pending = Box<dyn FnOnce() -> std::result::Result<Reference, BackendError>>;

/// What a check depends on, and what an earlier check said.
pub(crate) struct Check {
    /// Everything apart from what was measured and the GEMM table.
    key: String,
    question: Question,
    figures: Figures,
}

/// The processor's figures, or the result of an earlier check.
enum Figures {
    Pending(Pending),
    /// This rung passed an earlier check with the key `whole_key`.
    Known {
        whole_key: String,
        rung: Rung,
    },
}

impl Check {
    /// Prepares the check of a network's figures. If neither an earlier check is known nor the processor's figures, a
    /// thread evaluates some positions on the processor while the card is prepared. It owns a copy of the network. With
    /// `may_change` this start may still find other settings or sizes, so that an earlier check is not enough.
    pub(crate) fn new(
        network: &Network,
        inverse_temperature: f32,
        depends_on: &str,
        (measured, gemms): (&Measured, &Gemms),
        may_change: bool,
    ) -> Check {
        let mut key = format!("{depends_on},{:016x},{inverse_temperature}", fingerprint(network));
        for line in gemms.avoided().lines() {
            let _ = write!(key, ",{line}");
        }
        let temperature = 1.0 / inverse_temperature;
        let whole_key = whole_key(&key, measured, gemms);
        let known = kept(&whole_key);
        let question = match known {
            Some((_, digest)) => Question::with_digest(network, temperature, digest),
            None => Question::of(network, temperature),
        };
        let figures = match known.filter(|_| !may_change) {
            Some((rung, _)) => Figures::Known { whole_key, rung },
            None => Figures::Pending(pending(network, &question)),
        };
        Check { key, question, figures }
    }

    /// Waits for the processor's figures. Without figures to compare, returns the rung to run on; notices say why figures are
    /// not checked, or what the rung gives up. `whole_key` is the key after tuning.
    fn reference(self, whole_key: &str, notices: &mut Vec<String>) -> std::result::Result<Reference, Rung> {
        let kept_rung = || kept(whole_key).map(|(rung, _)| rung);
        let rung = match self.figures {
            Figures::Pending(figures) => match figures() {
                Ok(reference) => return Ok(reference),
                Err(error) => {
                    notices.push(format!("figures are not checked: {error}"));
                    kept_rung().unwrap_or(Rung::AsAsked)
                }
            },
            Figures::Known { whole_key: known, rung } if known == whole_key => rung,
            // Tuning has changed the table, so that other programs run than those that were checked.
            Figures::Known { rung, .. } => {
                if let Some(rung) = kept_rung() {
                    rung
                } else if let Some(reference) = Reference::kept(&self.question) {
                    return Ok(reference);
                } else {
                    notices.push("figures are not checked: the processor's are no longer kept".to_owned());
                    rung
                }
            }
        };
        if rung != Rung::AsAsked {
            notices.push(format!(
                "the card's figures were wrong at an earlier start, so Rukh runs {}",
                rung.name()
            ));
        }
        Err(rung)
    }
}

/// The figures that were kept, or those of a thread that computes them.
fn pending(network: &Network, question: &Question) -> Pending {
    if let Some(reference) = Reference::kept(question) {
        return Box::new(|| Ok(reference));
    }
    let (network, question) = (Arc::new(network.clone()), question.clone());
    let compute = {
        let (network, question) = (Arc::clone(&network), question.clone());
        move || Reference::computed(&question, network)
    };
    match thread::Builder::new().spawn(compute) {
        Ok(thread) => Box::new(|| thread.join().unwrap_or_else(|panic| resume_unwind(panic))),
        // The system has no more threads, so that the figures are computed when they are needed.
        Err(_) => Box::new(move || Reference::computed(&question, network)),
    }
}

/// Slots that passed, and notices for the user.
pub(crate) struct Checked {
    pub(crate) slots: Vec<Slot>,
    pub(crate) notices: Vec<String>,
}

/// Makes and warms up the slots of a maker, on the first rung whose figures are right. The maker has what was `measured`;
/// `is_settled` says that the GEMM table will be the same at the next start.
///
/// # Errors
/// A slot cannot be made, or the figures are wrong on every rung.
pub(crate) fn checked_slots(
    maker: &SlotMaker<'_>,
    options: &GpuOptions,
    check: Check,
    (measured, is_settled): (&Measured, bool),
) -> Result<Checked> {
    let key = whole_key(&check.key, measured, maker.gemms);
    let digest = check.question.digest;
    let mut notices = Vec::new();
    let reference = match check.reference(&key, &mut notices) {
        Ok(reference) => reference,
        Err(rung) => {
            let slots = slots_on(rung, maker, options, None)?.map_err(GpuError::Unsupported)?;
            notices.extend(slots.iter().find_map(Slot::notice));
            return Ok(Checked { slots, notices });
        }
    };
    let mut failed: Option<(Rung, String)> = None;
    for rung in Rung::ALL {
        if !rung.applies(maker) {
            continue;
        }
        if let Some((before, reason)) = &failed {
            notices.push(format!(
                "the card's figures are wrong {}: {reason}; trying {}",
                before.name(),
                rung.name()
            ));
        }
        match slots_on(rung, maker, options, Some(&reference)) {
            Ok(Ok(slots)) => {
                if rung != Rung::AsAsked {
                    notices.push(format!("the card's figures are right {}", rung.name()));
                }
                notices.extend(slots.iter().find_map(Slot::notice));
                if is_settled {
                    // Without a cache folder the next start checks again.
                    let _ = cache_folder::keep_line(NAME, &key, &kept_line(rung, digest));
                }
                return Ok(Checked { slots, notices });
            }
            Ok(Err(reason)) => failed = Some((rung, reason)),
            // Nothing can run on a device that hangs.
            Err(error @ GpuError::Hang(_)) => return Err(error),
            // Any other error on a lower rung is only one more reason to go on.
            Err(error) if failed.is_some() => failed = Some((rung, error.to_string())),
            Err(error) => return Err(error),
        }
    }
    let (rung, reason) = failed.unwrap_or((Rung::AsAsked, String::new()));
    Err(GpuError::Figures { reason: format!("wrong figures {}: {reason}", rung.name()), notices })
}

/// The slots of one rung, or the reason why their figures are wrong. Without a reference nothing is checked.
fn slots_on(
    rung: Rung,
    maker: &SlotMaker<'_>,
    options: &GpuOptions,
    reference: Option<&Reference>,
) -> Result<std::result::Result<Vec<Slot>, String>> {
    let left_out: &[BlasLibrary] = match rung {
        Rung::AsAsked | Rung::WithoutByteWeights | Rung::WithoutGraphs | Rung::WithoutSharedLaunches => &[],
        Rung::WithoutHipblasLt => &[BlasLibrary::HipblasLt],
        Rung::WithoutRocblas => &[BlasLibrary::Rocblas],
        Rung::WithoutLibraries => &[BlasLibrary::HipblasLt, BlasLibrary::Rocblas],
    };
    // Weights of 8 bits stay given up on all further rungs; graphs and shared launches come back on the next one.
    let weights = if rung == Rung::AsAsked { maker.gemms.weights() } else { WeightBits::Sixteen };
    let limited = (!left_out.is_empty() || weights != maker.gemms.weights())
        .then(|| -> Result<Gemms> {
            let gemms = Gemms::new(maker.gpu, maker.kernels, options.gemm)?.with_weights(weights);
            let gemms = left_out.iter().fold(gemms, |gemms, &library| gemms.without(library));
            gemms.avoid(maker.gemms.avoided());
            gemms.limit_to(maker.gemms.limits());
            gemms.set_table(maker.gemms.table());
            Ok(gemms)
        })
        .transpose()?;
    let maker = SlotMaker {
        gemms: limited.as_ref().unwrap_or(maker.gemms),
        has_graphs: maker.has_graphs && rung != Rung::WithoutGraphs,
        fuse: if rung == Rung::WithoutSharedLaunches { SharedLaunches::None } else { maker.fuse },
        ..*maker
    };
    let mut slots = (0..maker.streams).map(|_| maker.slot()).collect::<Result<Vec<_>>>()?;
    let mut sizes = maker.bucket_sizes();
    for (index, slot) in slots.iter_mut().enumerate() {
        slot.limit_to(sizes.len());
        slot.warm_up(index == 0, options.longest_batch)?;
        sizes.truncate(slot.bucket_sizes().len());
    }
    let Some(reference) = reference else {
        return Ok(Ok(slots));
    };
    for (index, slot) in slots.iter_mut().enumerate() {
        // All slots run the same programs, each with graphs of its own. Small batches show whether these work.
        let sizes = if index == 0 { &sizes[..] } else { &sizes[..sizes.len().min(3)] };
        let precision = maker.network.precision;
        if let Some(reason) = reference.difference(slot, sizes, (precision, maker.gemms.weights()))? {
            return Ok(Err(reason));
        }
    }
    let size = sizes.iter().rfind(|&&size| size <= TOGETHER).copied();
    let tolerance = (maker.network.precision, maker.gemms.weights());
    let reason = size.map(|size| difference_together(&mut slots, reference, size, tolerance)).transpose()?;
    Ok(reason.flatten().map_or(Ok(slots), Err))
}

/// Lets all slots evaluate a batch of `size` at the same time, as they do in play: a library may compute something else
/// then. Returns the first difference that is too large, in words.
///
/// # Errors
/// A batch fails.
fn difference_together(
    slots: &mut [Slot],
    reference: &Reference,
    size: usize,
    tolerance: (GpuPrecision, WeightBits),
) -> Result<Option<String>> {
    if slots.len() < 2 {
        return Ok(None);
    }
    let found = thread::scope(|scope| {
        let mut threads = Vec::new();
        for slot in slots {
            let evaluate = move || {
                slot.make_current()?;
                reference.difference(slot, &[size], tolerance)
            };
            // In play each slot has a thread, too: if the system has none left, the start fails soon after this.
            threads.extend(thread::Builder::new().spawn_scoped(scope, evaluate));
        }
        let join = |thread: ScopedJoinHandle<'_, Result<_>>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    Ok(found.into_iter().flatten().next().map(|reason| format!("{reason}, beside other batches")))
}

/// The key with what was measured and the GEMM table.
fn whole_key(key: &str, Measured { settings, ladder }: &Measured, gemms: &Gemms) -> String {
    let table = gemms.table();
    let choices: Vec<_> = table.iter().map(|(shape, measured)| (shape, measured.choice)).collect();
    format!("{key},{ladder:?},{settings},{:016x}", cache_folder::hash_of(&choices))
}

/// A number that differs between networks: it depends on the small heads' weights, which no two trainings share. All
/// weights of a large network would take too long at every start.
fn fingerprint(network: &Network) -> u64 {
    let Network { architecture, value, value_error, moves_left, .. } = network;
    let mut digest = Digest::new(architecture);
    digest.scalar_head(value);
    value_error.iter().for_each(|error| digest.value_error(error));
    moves_left.iter().for_each(|head| digest.scalar_head(head));
    digest.number()
}

/// The line that keeps a rung, with the number of the network.
fn kept_line(rung: Rung, digest: u64) -> String {
    format!("{}, network {digest:016x}", rung.name())
}

/// The rung that passed an earlier check with the same key, and the number of the network.
fn kept(whole_key: &str) -> Option<(Rung, u64)> {
    let line = cache_folder::kept_line(NAME, whole_key)?;
    let (rung, digest) = line.split_once(", network ")?;
    Some((Rung::from_name(rung)?, u64::from_str_radix(digest, 16).ok()?))
}
