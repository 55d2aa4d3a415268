//! Evaluations by the network alone, in batches.

use crate::error::Error;
use crate::network::Network;
use crate::position::{Outcome, Position};
use rukh_backend::{Attributes, Backend, EvalRequest, Ticket, Value};
use rukh_chess::{Move, PackedMove};
use rukh_registry::{BackendConfig, create_for_file};
use std::collections::VecDeque;
use std::sync::Arc;

/// Positions in a batch, if the backend takes so many. Cards are slow with far fewer.
const BATCH: usize = 256;

/// Where and how a network is evaluated.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EvaluatorOptions {
    /// The backend by its name in Rukh or lc0, such as `cuda-fp16` or `cpu`. `auto`, the default, takes the fastest card,
    /// or else the processor in the fastest number format that is accurate enough.
    pub backend: String,
    /// Options of the backend, such as `threads=4` or `gpu=1` (`docs/gpu.md`).
    pub backend_options: String,
    /// The softmax temperature of the policy: with 1, the default, priors are the network's probabilities.
    pub policy_temperature: f32,
}

impl Default for EvaluatorOptions {
    fn default() -> EvaluatorOptions {
        EvaluatorOptions {
            backend: "auto".to_owned(),
            backend_options: String::new(),
            policy_temperature: 1.0,
        }
    }
}

impl EvaluatorOptions {
    /// The defaults with another backend.
    pub fn on(backend: &str) -> EvaluatorOptions {
        EvaluatorOptions { backend: backend.to_owned(), ..EvaluatorOptions::default() }
    }
}

/// What a network says of a position, from the view of the side to move.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The probability of a win, 0 to 1. If the network does not tell draws, win and loss alone give its
    /// expected score.
    pub win: f32,
    /// The probability of a draw.
    pub draw: f32,
    /// The probability of a loss.
    pub loss: f32,
    /// The expected number of plies to the end of the game, if the network tells.
    pub moves_left: Option<f32>,
    /// The legal moves with their probabilities, which sum to 1, the most probable first.
    pub priors: Vec<(Move, f32)>,
}

impl Evaluation {
    /// The expected score less that of the opponent, -1 to 1: lc0's q.
    pub fn q(&self) -> f32 {
        self.win - self.loss
    }

    /// That of a position without legal moves, which is certain.
    fn of_end(outcome: Outcome) -> Evaluation {
        let (draw, loss) = match outcome {
            Outcome::Checkmate => (0.0, 1.0),
            Outcome::Draw => (1.0, 0.0),
        };
        Evaluation { win: 0.0, draw, loss, moves_left: Some(0.0), priors: Vec::new() }
    }

    fn new(value: Value, priors: &[f32], moves: &[Move], attributes: &Attributes) -> Evaluation {
        let draw = if attributes.has_wdl { value.d } else { 0.0 };
        let mut priors: Vec<_> = moves.iter().copied().zip(priors.iter().copied()).collect();
        priors.sort_by(|a, b| b.1.total_cmp(&a.1));
        Evaluation {
            win: (1.0 + value.q - draw) / 2.0,
            draw,
            loss: (1.0 - value.q - draw) / 2.0,
            moves_left: attributes.has_mlh.then_some(value.m),
            priors,
        }
    }
}

/// Evaluates positions with a network. Threads may share it; each call takes its own batches.
#[derive(Clone)]
pub struct Evaluator {
    backend: Arc<dyn Backend>,
    notices: Arc<[String]>,
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator").field("name", &self.name()).finish()
    }
}

impl Evaluator {
    /// Prepares the network for a backend. The first time on a card or on a processor with 8-bit integers may take some
    /// seconds; what is measured then is kept in the user's cache folder.
    ///
    /// # Errors
    /// The backend is unknown or unavailable, an option is wrong, or the network does not fit.
    pub fn new(network: &Network, options: &EvaluatorOptions) -> Result<Evaluator, Error> {
        let config = BackendConfig {
            backend: options.backend.clone(),
            options: options.backend_options.clone(),
            network: network.path().display().to_string(),
            policy_softmax_temperature: options.policy_temperature,
            ..BackendConfig::default()
        };
        let created = create_for_file(&config, network.file().clone())?;
        Ok(Evaluator { backend: created.backend, notices: created.notices.into() })
    }

    /// The name of the backend with its instructions or card, such as `cpu-bf16 (AMX)`.
    pub fn name(&self) -> &str {
        &self.backend.attributes().name
    }

    /// Messages about the start: why `auto` passed over a card, what was measured, and which options of lc0 have no effect.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Evaluates positions, in batches of which several are under way. The results are in the order of the positions.
    /// Positions without legal moves are not asked of the network.
    ///
    /// # Errors
    /// [`Error::Evaluation`].
    pub fn evaluate(&self, positions: &[Position]) -> Result<Vec<Evaluation>, Error> {
        let attributes = self.backend.attributes();
        let size = attributes.maximum_batch_size.clamp(1, BATCH);
        let mut under_way = VecDeque::new();
        let mut evaluations = Vec::with_capacity(positions.len());
        for batch in positions.chunks(size) {
            if under_way.len() > attributes.suggested_threads.max(1) {
                evaluations.extend(under_way.pop_front().map(Pending::wait).transpose()?.unwrap_or_default());
            }
            under_way.push_back(self.submit(batch));
        }
        for pending in under_way {
            evaluations.extend(pending.wait()?);
        }
        Ok(evaluations)
    }

    /// Begins to evaluate positions, and returns at once. On the processor the work is done in [`Pending::wait`].
    pub fn submit(&self, positions: &[Position]) -> Pending {
        let mut parts = Vec::new();
        let mut packed = Vec::new();
        for part in positions.chunks(self.backend.attributes().maximum_batch_size.max(1)) {
            let mut batch = self.backend.new_batch();
            let mut ask = |position: &Position| {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    return Asked::Ended(position.outcome().unwrap_or(Outcome::Draw));
                }
                packed.clear();
                packed.extend(moves.iter().copied().map(PackedMove::new));
                // Without a cache, nothing is ready at once.
                batch.add(EvalRequest { history: position.history(), moves: &packed });
                Asked::Network(moves)
            };
            let asked: Vec<_> = part.iter().map(&mut ask).collect();
            parts.push((asked, batch.submit()));
        }
        Pending { parts, backend: Arc::clone(&self.backend) }
    }
}

/// What was asked about a position.
enum Asked {
    /// The network, with these legal moves.
    Network(Vec<Move>),
    Ended(Outcome),
}

/// Evaluations that are under way.
#[must_use = "the evaluations come from `wait`"]
pub struct Pending {
    parts: Vec<(Vec<Asked>, Box<dyn Ticket>)>,
    backend: Arc<dyn Backend>,
}

impl Pending {
    /// Waits for the evaluations, which are in the order of the positions.
    ///
    /// # Errors
    /// [`Error::Evaluation`].
    pub fn wait(self) -> Result<Vec<Evaluation>, Error> {
        let attributes = self.backend.attributes();
        let mut evaluations = Vec::new();
        for (asked, ticket) in self.parts {
            let results = ticket.wait()?;
            let mut results = results.iter();
            for asked in asked {
                evaluations.push(match asked {
                    Asked::Ended(outcome) => Evaluation::of_end(outcome),
                    Asked::Network(moves) => match results.next() {
                        Some((value, priors)) => Evaluation::new(value, priors, &moves, attributes),
                        None => {
                            let reason = "too few evaluations came back".to_owned();
                            return Err(Error::Evaluation { name: attributes.name.clone(), reason });
                        }
                    },
                });
            }
        }
        Ok(evaluations)
    }
}
