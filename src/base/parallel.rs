//! Large arrays that several threads fill.

use std::num::NonZero;
use std::thread;

/// A thread that fills less than this many bytes costs more than it gains.
const LEAST_BYTES: usize = 1 << 20;

/// More threads than this wait for the memory.
const MOST_THREADS: usize = 8;

/// Calls `fill` with pieces of `values` that are all of it together, and with the place where each begins. Every piece
/// begins at a multiple of `unit` elements. A large array is filled by several threads.
///
/// # Errors
/// The error of the first piece that has one.
pub fn fill<T: Send, E: Send>(
    values: &mut [T],
    unit: usize,
    fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let bytes = size_of_val(values);
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let pieces = threads.min(bytes / LEAST_BYTES).max(1);
    let unit = unit.max(1);
    let length = values.len().div_ceil(unit).div_ceil(pieces).max(1) * unit;
    let fill = &fill;
    let mut pieces = values.chunks_mut(length).enumerate().map(|(index, piece)| (index * length, piece));
    let Some((_, first)) = pieces.next() else { return Ok(()) };
    thread::scope(|scope| {
        let threads: Vec<_> = pieces.map(|(start, piece)| scope.spawn(move || fill(start, piece))).collect();
        let first = fill(0, first);
        let others = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        first.and(others.fold(Ok(()), Result::and))
    })
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
