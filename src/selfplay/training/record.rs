//! lc0's training record of version 6.

use rukh_net::InputFormat;
use rukh_net::policy_index::POLICY_SIZE;
use zerocopy::little_endian::{F32, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The size of a record in bytes.
pub const RECORD_BYTES: usize = 8356;
/// The version in each record.
pub const VERSION: u32 = 6;
/// The planes of a record: the boards of the history. The other eight planes have fields of their own.
pub const BOARD_PLANES: usize = 104;
/// The probability of an illegal move.
pub const ILLEGAL: f32 = -1.0;

/// The bits of [`Record::invariance_info`].
pub mod flags {
    /// In canonical formats: how the board was transformed (see [`rukh_net::policy_index`]).
    pub const TRANSFORM: u8 = 0b111;
    /// The best move has a proven result, and no other move can have a better one.
    pub const BEST_IS_PROVEN: u8 = 1 << 3;
    /// The game was ended for its length.
    pub const TOO_LONG: u8 = 1 << 4;
    /// The game did not end by the rules.
    pub const ADJUDICATED: u8 = 1 << 5;
    /// The rescorer wants the position removed.
    pub const TO_DELETE: u8 = 1 << 6;
    /// In canonical formats: Black is to move.
    pub const BLACK_TO_MOVE: u8 = 1 << 7;
}

/// One searched position. All numbers are little-endian and packed. Values are from the view of the side to move: q is
/// the probability of a win minus that of a loss, d that of a draw, and m the number of plies left.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Record {
    /// [`VERSION`].
    pub version: U32,
    /// The number of the input format ([`InputFormat`]).
    pub input_format: U32,
    /// By policy index: the share of the visits, or [`ILLEGAL`].
    pub probabilities: [F32; POLICY_SIZE],
    /// The planes of the boards. Bit `8 * rank + 7 - file` is the square, so that files are the other way round than in
    /// [`rukh_net::input::InputPlanes`].
    pub planes: [U64; BOARD_PLANES],
    /// Our right to castle to the a-side. Format 1: 1. Other formats: the bit of the rook's file. 0 without the right.
    pub castling_us_ooo: u8,
    /// Our right to castle to the h-side.
    pub castling_us_oo: u8,
    /// The opponent's right to castle to the a-side.
    pub castling_them_ooo: u8,
    /// The opponent's right to castle to the h-side.
    pub castling_them_oo: u8,
    /// Formats 1 and 2: 1 if Black is to move. Canonical formats: the bit of the file of the en passant square.
    pub side_to_move_or_enpassant: u8,
    /// The number of plies since the last capture or pawn move.
    pub rule50_count: u8,
    /// See [`flags`].
    pub invariance_info: u8,
    /// 0. Older versions have the result of the game here.
    pub dummy: u8,
    /// The mean of all visits.
    pub root_q: F32,
    /// The mean of the visits of the best move.
    pub best_q: F32,
    /// Like `root_q`.
    pub root_d: F32,
    /// Like `best_q`.
    pub best_d: F32,
    /// Like `root_q`.
    pub root_m: F32,
    /// Like `best_q`.
    pub best_m: F32,
    /// The plies to the end of the game, as far as it was played, and then as estimated by its last search.
    pub plies_left: F32,
    /// The result of the game: 1 for a win, 0 for a draw, -1 for a loss.
    pub result_q: F32,
    /// 1 if the game was drawn, and otherwise 0.
    pub result_d: F32,
    /// The mean of the visits of the move that was played.
    pub played_q: F32,
    /// Like `played_q`.
    pub played_d: F32,
    /// Like `played_q`.
    pub played_m: F32,
    /// The network's own value, or NaN if it is unknown.
    pub orig_q: F32,
    /// Like `orig_q`.
    pub orig_d: F32,
    /// Like `orig_q`.
    pub orig_m: F32,
    /// The visits of the position.
    pub visits: U32,
    /// The policy index of the move that was played.
    pub played_idx: U16,
    /// The policy index of the best move.
    pub best_idx: U16,
    /// The Kullback-Leibler divergence of the visits from the network's policy, in nats.
    pub policy_kld: F32,
    /// The standard deviation of q; 0 if it is unknown.
    pub q_st: F32,
}

const _: () = assert!(size_of::<Record>() == RECORD_BYTES, "the size is lc0's");

/// What is wrong with a record.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum RecordProblem {
    /// It has another version.
    #[error("its version is {0}, and only version {VERSION} can be read")]
    Version(u32),
    /// Nobody knows the input format.
    #[error("its input format {0} is unknown")]
    InputFormat(u32),
    /// A field is not in its range.
    #[error("{field} is {value}, and must be {expected}")]
    Value {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: f32,
        /// What would be right.
        expected: &'static str,
    },
}

impl Record {
    /// A record without a position: no move is legal, and everything else is 0.
    pub fn empty(format: InputFormat) -> Record {
        let mut record = Record::new_zeroed();
        record.version = VERSION.into();
        record.input_format = (format as u32).into();
        record.probabilities = [ILLEGAL.into(); POLICY_SIZE];
        record
    }

    /// The input format.
    ///
    /// # Errors
    /// Its number is unknown.
    pub fn format(&self) -> Result<InputFormat, RecordProblem> {
        let number = self.input_format.get();
        InputFormat::from_number(number).ok_or(RecordProblem::InputFormat(number))
    }

    /// Whether a trainer can use the record.
    ///
    /// # Errors
    /// A field has a value that no search gives.
    pub fn check(&self) -> Result<(), RecordProblem> {
        /// Rounding of sums and values.
        const TOLERANCE: f32 = 1e-3;
        if self.version.get() != VERSION {
            return Err(RecordProblem::Version(self.version.get()));
        }
        self.format()?;
        let wrong = |field, value, expected| Err(RecordProblem::Value { field, value, expected });
        let probabilities = self.probabilities.iter().map(|probability| probability.get());
        let mut sum = 0.0;
        for probability in probabilities.filter(|&probability| probability != ILLEGAL) {
            if !(0.0..=1.0).contains(&probability) {
                return wrong("a probability", probability, "-1 or from 0 to 1");
            }
            sum += probability;
        }
        if (sum - 1.0).abs() > TOLERANCE {
            return wrong("the sum of the probabilities", sum, "1");
        }
        for (field, index) in [("best_idx", self.best_idx), ("played_idx", self.played_idx)] {
            let legal =
                self.probabilities.get(usize::from(index.get())).is_some_and(|share| share.get() >= 0.0);
            if !legal {
                return wrong(field, f32::from(index.get()), "the index of a legal move");
            }
        }
        let unit = 1.0 + TOLERANCE;
        for (field, value) in [
            ("root_q", self.root_q),
            ("best_q", self.best_q),
            ("played_q", self.played_q),
            ("result_q", self.result_q),
        ] {
            if !(-unit..=unit).contains(&value.get()) {
                return wrong(field, value.get(), "from -1 to 1");
            }
        }
        for (field, value) in [
            ("root_d", self.root_d),
            ("best_d", self.best_d),
            ("played_d", self.played_d),
            ("result_d", self.result_d),
        ] {
            if !(-TOLERANCE..=unit).contains(&value.get()) {
                return wrong(field, value.get(), "from 0 to 1");
            }
        }
        for (field, value) in [
            ("root_m", self.root_m),
            ("best_m", self.best_m),
            ("played_m", self.played_m),
            ("plies_left", self.plies_left),
            ("policy_kld", self.policy_kld),
        ] {
            if !value.get().is_finite() {
                return wrong(field, value.get(), "finite");
            }
        }
        Ok(())
    }
}
