//! Evaluations in the order of a program's list, after positions have been read in another one.

use crate::evaluate::Evaluations;
use crate::share::share;

/// The fewest positions for which another thread is worth it.
const FEWEST: usize = 2048;

/// A part of the arrays of [`Evaluations`].
struct Part<'a> {
    wdl: &'a mut [f32],
    moves_left: &'a mut [f32],
    moves: &'a mut [u16],
    indices: &'a mut [u16],
    priors: &'a mut [f32],
}

/// Puts evaluations into the order of the list: the one at place `i` belongs to the list's position `order[i]`. The
/// card is idle meanwhile, so several threads do it.
pub(crate) fn sorted(found: Evaluations, order: &[usize], threads: usize) -> Evaluations {
    if order.is_sorted() {
        return found;
    }
    let mut places = vec![0; order.len()];
    for (place, &number) in order.iter().enumerate() {
        places[number] = place;
    }
    let mut end = 0;
    let ends = places.iter().map(|&place| {
        end += found.offsets[place + 1] - found.offsets[place];
        end
    });
    let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
    let (mut wdl, mut moves_left) = (vec![0.0; found.wdl.len()], vec![0.0; places.len()]);
    let (mut moves, mut indices) = (vec![0; found.moves.len()], vec![0; found.moves.len()]);
    let mut priors = vec![0.0; found.moves.len()];
    let mut rest = Part {
        wdl: &mut wdl,
        moves_left: &mut moves_left,
        moves: &mut moves,
        indices: &mut indices,
        priors: &mut priors,
    };
    let length = places.len().div_ceil(threads).max(FEWEST);
    let mut parts = Vec::new();
    for (places, first) in places.chunks(length).zip((0..).step_by(length)) {
        let count = (offsets[first + places.len()] - offsets[first]) as usize;
        let (part, others) = rest.split(places.len(), count);
        rest = others;
        parts.push((part, places));
    }
    share(parts, |(part, places)| part.fill(&found, places));
    Evaluations { wdl, moves_left, offsets, moves, indices, priors }
}

impl<'a> Part<'a> {
    /// The first positions with their moves, and the rest.
    fn split(self, positions: usize, moves: usize) -> (Part<'a>, Part<'a>) {
        let (wdl, other_wdl) = self.wdl.split_at_mut(3 * positions);
        let (moves_left, other_moves_left) = self.moves_left.split_at_mut(positions);
        let (first_moves, other_moves) = self.moves.split_at_mut(moves);
        let (indices, other_indices) = self.indices.split_at_mut(moves);
        let (priors, other_priors) = self.priors.split_at_mut(moves);
        let others = Part {
            wdl: other_wdl,
            moves_left: other_moves_left,
            moves: other_moves,
            indices: other_indices,
            priors: other_priors,
        };
        (Part { wdl, moves_left, moves: first_moves, indices, priors }, others)
    }

    /// Copies the evaluations at these places into the part.
    fn fill(self, found: &Evaluations, places: &[usize]) {
        let mut start = 0;
        for (i, &place) in places.iter().enumerate() {
            let range = found.offsets[place] as usize..found.offsets[place + 1] as usize;
            let end = start + range.len();
            self.wdl[3 * i..][..3].copy_from_slice(&found.wdl[3 * place..][..3]);
            self.moves_left[i] = found.moves_left[place];
            self.moves[start..end].copy_from_slice(&found.moves[range.clone()]);
            self.indices[start..end].copy_from_slice(&found.indices[range.clone()]);
            self.priors[start..end].copy_from_slice(&found.priors[range]);
            start = end;
        }
    }
}
