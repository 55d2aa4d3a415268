//! Large arrays that several threads fill.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A thread that fills less than this many bytes costs more than it gains.
const LEAST_BYTES: usize = 1 << 20;

/// With more threads than this, the memory is the limit.
const MOST_THREADS: usize = 8;

/// Splits `values` into pieces, and calls `fill` with the place where each begins and with the piece. Every piece begins at
/// a multiple of `unit` elements. Several threads fill a large array, or one if the system has no more.
///
/// # Errors
/// The error of the first piece that has one.
pub fn fill<T: Send, E: Send>(
    values: &mut [T],
    unit: usize,
    fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let worthwhile = size_of_val(values) / LEAST_BYTES;
    if worthwhile < 2 {
        return fill(0, values);
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS).min(worthwhile);
    let unit = unit.max(1);
    let length = values.len().div_ceil(unit).div_ceil(threads) * unit;
    let pieces = Mutex::new(values.chunks_mut(length).enumerate());
    // Pieces are taken in order, so that every piece before one with an error is filled, too.
    let take_pieces = || {
        loop {
            let (index, piece) = pieces.lock().unwrap_or_else(PoisonError::into_inner).next()?;
            if let Err(error) = fill(index * length, piece) {
                return Some((index, error));
            }
        }
    };
    let errors = thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, take_pieces).ok();
        let others: Vec<_> = (1..threads).map_while(start).collect();
        let own = take_pieces();
        let joined = others
            .into_iter()
            .filter_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        own.into_iter().chain(joined).collect::<Vec<_>>()
    });
    errors.into_iter().min_by_key(|(index, _)| *index).map_or(Ok(()), |(_, error)| Err(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_filled_once_and_pieces_begin_at_whole_units() {
        for length in [0, 1, 7, 3_000_000] {
            let mut values = vec![0_u32; length];
            let filled: Result<(), ()> = fill(&mut values, 6, |start, piece| {
                assert_eq!(start % 6, 0);
                piece.iter_mut().enumerate().for_each(|(i, value)| *value += (start + i) as u32 + 1);
                Ok(())
            });
            assert_eq!(filled, Ok(()));
            assert!(values.iter().enumerate().all(|(i, &value)| value as usize == i + 1), "{length}");
        }
    }

    #[test]
    fn the_first_error_is_that_of_the_first_piece() {
        let mut values = vec![0_u64; 1 << 20];
        let failed = fill(&mut values, 1, |start, _| if start == 0 { Ok(()) } else { Err(start) });
        // On one thread there is only the first piece.
        assert!(
            failed == Ok(()) || failed.is_err_and(|start| start > 0 && start <= values.len() / 2),
            "{failed:?}"
        );
        assert_eq!(fill(&mut values, 1, |start, _| Err::<(), _>(start)), Err(0));
    }
}
