//! How the work on a piece has ended.

use crate::job::PieceResult;
use bytes::Bytes;

/// How a piece has ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With a result, and with the training data of the games.
    Done(PieceResult, Vec<Bytes>),
    /// With an error that is the piece's own.
    Failed(String),
    /// The engine has ended while it worked on this piece and perhaps on others.
    EngineLost(String),
}
