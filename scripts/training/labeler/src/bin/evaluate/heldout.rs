//! The held-out positions against which networks are measured.

use anyhow::{Context as _, Result, anyhow};
use labeler::record::Record;
use rukh_chess::Position;
use rukh_net::policy_index::POLICY_SIZE;
use shakmaty::EnPassantMode;
use shakmaty::fen::Fen;

/// A position and its labels. The side to move is White, because records show positions from its side.
pub(crate) struct Heldout {
    pub(crate) position: Position,
    /// Policy indices of the legal moves.
    pub(crate) legal: Vec<u16>,
    /// Policy index of the best labelled move.
    pub(crate) best: u16,
    /// Stockfish's probabilities of a win, a draw and a loss.
    pub(crate) wdl: [f64; 3],
    /// Plies to the end of the game, if the game was played to its end.
    pub(crate) plies_left: Option<u16>,
}

impl Heldout {
    /// Reads a record.
    ///
    /// # Errors
    /// If the record's position is impossible, or its label is not legal.
    pub(crate) fn from_record(record: &Record) -> Result<Heldout> {
        let chess = record.board().map_err(|error| anyhow!(error))?;
        let fen = Fen::from_position(&chess, EnPassantMode::Legal).to_string();
        let label = record.label().map_err(|error| anyhow!("{fen}: {error}"))?;
        let [win, loss] = [label.win, label.loss].map(|permille| f64::from(permille) / 1000.0);
        Ok(Heldout {
            position: Position::from_fen(&fen).with_context(|| fen.clone())?,
            legal: (0..POLICY_SIZE as u16).filter(|&index| record.allows(index)).collect(),
            best: label.moves[0].0,
            wdl: [win, 1.0 - win - loss, loss],
            plies_left: record.plies_to_end().filter(|&plies| plies > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use labeler::layout::RECORD_BYTES;
    use labeler::record::{Label, Outcome};
    use shakmaty::Position as _;

    /// The starting position, with 1. e4 labelled.
    fn start() -> Record {
        let mut record = Record::of_position(&Position::startpos(), false);
        record.set_label(&Label { score: 30, win: 100, loss: 50, moves: vec![(322, 30)] });
        record.set_end(Outcome::Unknown, Some(90));
        record
    }

    #[test]
    fn a_record_is_read_as_its_position_and_labels() {
        let heldout = Heldout::from_record(&start()).expect("a good record");
        assert_eq!(heldout.position.to_fen(), Position::startpos().to_fen());
        assert_eq!((heldout.best, heldout.legal.len()), (322, 20));
        assert!(heldout.legal.contains(&322));
        assert_eq!(heldout.plies_left, Some(90));
        assert!((heldout.wdl[1] - 0.85).abs() < 1e-9);
    }

    #[test]
    fn a_chess960_position_keeps_its_castling_rights() {
        let fen = "1rk1r3/8/8/8/8/8/8/R1K1R3 w EAeb - 3 30";
        let mut record = Record::of_position(&Position::from_fen(fen).expect("a position"), true);
        let legal = (0..POLICY_SIZE as u16).find(|&index| record.allows(index)).expect("a legal move");
        record.set_label(&Label { score: 0, win: 0, loss: 0, moves: vec![(legal, 0)] });
        let heldout = Heldout::from_record(&record).expect("a good record");
        let castles = |position: &Position| position.board().castles().castling_rights();
        assert_eq!(castles(&heldout.position), castles(&Position::from_fen(fen).expect("a position")));
        assert_eq!(heldout.plies_left, None);
    }

    #[test]
    fn a_record_without_a_legal_label_is_refused() {
        let mut bytes: [u8; RECORD_BYTES] = *start().bytes();
        bytes[46] = 0;
        assert!(Heldout::from_record(&Record::from_bytes(bytes)).is_err());
    }
}
