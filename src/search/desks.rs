//! Who works on the tree, so that a search can let go of it while its workers still wait for an evaluation.
//!
//! A worker is *here* while it gathers and backs up, which takes a millisecond. While its batch is evaluated, which
//! may take a second, it is *away*: the tree's side of the minibatch lies on its desk. Whoever ends the search
//! waits for those who are here, and takes back what those who are away had claimed. They find their desks taken
//! when they return, and leave without touching the tree: it is quiet long before their threads end.
//!
//! ```text
//!   Away (not begun) ──> Here <──> Away (evaluating) ──> Gone (the search let go of the tree)
//!                         └──────────────────────────────^   (or the worker is done)
//! ```

use super::minibatch::Gathered;
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One worker, as the tree sees it.
enum Desk {
    /// It reads and changes the tree.
    Here,
    /// It evaluates, and claims and announced visits stand in the tree meanwhile: these.
    Away(Gathered),
    /// It will not touch the tree any more.
    Gone,
}

/// All workers of a search.
pub(super) struct Desks {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    desks: Vec<Desk>,
    /// A worker panicked while it was here: what it left half done is not known.
    is_broken: bool,
    /// A worker has the tree for itself, or waits to.
    is_paused: bool,
}

impl Desks {
    /// Desks of workers that have not begun yet.
    pub(super) fn new(count: usize) -> Desks {
        let desks = (0..count).map(|_| Desk::Away(Gathered::default())).collect();
        Desks {
            state: Mutex::new(State { desks, is_broken: false, is_paused: false }),
            changed: Condvar::new(),
        }
    }

    /// The worker goes to evaluate. To be followed by [`Desks::come_back`].
    pub(super) fn go_away(&self, index: usize, gathered: Gathered) {
        self.set(index, Desk::Away(gathered));
    }

    /// The worker comes back, and gets what it left. `None`: the search has let go of the tree, hands off.
    pub(super) fn come_back(&self, index: usize) -> Option<Gathered> {
        let mut state = self.state();
        while state.is_paused {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match std::mem::replace(&mut state.desks[index], Desk::Here) {
            Desk::Away(gathered) => Some(gathered),
            Desk::Here => Some(Gathered::default()),
            Desk::Gone => {
                state.desks[index] = Desk::Gone;
                None
            }
        }
    }

    /// Runs `work` while no other worker is here. It gets what lies on the desks of those away; they wait until it is
    /// done before they come back. Another worker that wants the same is not run, but waited for. `None`: the search
    /// has let go of the tree, hands off.
    pub(super) fn alone(
        &self,
        index: usize,
        work: impl FnOnce(&mut dyn Iterator<Item = &Gathered>),
    ) -> Option<()> {
        let mut state = self.state();
        if matches!(state.desks[index], Desk::Gone) {
            return None;
        }
        state.desks[index] = Desk::Away(Gathered::default());
        self.changed.notify_all();
        if !state.is_paused {
            state.is_paused = true;
            while state.desks.iter().any(|desk| matches!(desk, Desk::Here)) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !matches!(state.desks[index], Desk::Gone) {
                // Should it panic, the tree is broken: as if it were here.
                state.desks[index] = Desk::Here;
                let away = state.desks.iter().filter_map(|desk| match desk {
                    Desk::Away(gathered) => Some(gathered),
                    Desk::Here | Desk::Gone => None,
                });
                work(&mut { away });
                state.desks[index] = Desk::Away(Gathered::default());
            }
            state.is_paused = false;
            self.changed.notify_all();
        }
        drop(state);
        self.come_back(index).map(drop)
    }

    /// To be called where a worker holds nothing: lets another one be alone that waits for it. `None`: the search has
    /// let go of the tree, hands off.
    pub(super) fn give_way(&self, index: usize) -> Option<()> {
        let is_paused = self.state().is_paused;
        if is_paused {
            self.go_away(index, Gathered::default());
            self.come_back(index)?;
        }
        Some(())
    }

    /// The worker is done.
    pub(super) fn leave(&self, index: usize) {
        self.set(index, Desk::Gone);
    }

    /// The worker has panicked. Away, it holds nothing but what lies on its desk, which `cancel` takes back; here,
    /// the tree is broken. Returns whether anybody still waits for its work.
    pub(super) fn leave_in_panic(&self, index: usize, cancel: impl FnOnce(&Gathered)) -> bool {
        let mut state = self.state();
        let was = std::mem::replace(&mut state.desks[index], Desk::Gone);
        match &was {
            Desk::Away(gathered) => cancel(gathered),
            Desk::Here => {
                state.is_broken = true;
                // No other worker can be here meanwhile if it was alone, and nobody waits for it else.
                state.is_paused = false;
            }
            Desk::Gone => {}
        }
        self.changed.notify_all();
        !matches!(was, Desk::Gone)
    }

    /// Lets go of the tree: waits for who is here, and lets `cancel` take back what those away have claimed.
    /// Afterwards no worker touches the tree. The stop flag must be set. Returns whether the tree is sound.
    pub(super) fn clear(&self, cancel: impl Fn(&Gathered)) -> bool {
        let mut state = self.state();
        loop {
            for desk in &mut state.desks {
                if let Desk::Away(gathered) = desk {
                    cancel(gathered);
                    *desk = Desk::Gone;
                }
            }
            if state.desks.iter().all(|desk| matches!(desk, Desk::Gone)) {
                return !state.is_broken;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn set(&self, index: usize, desk: Desk) {
        self.state().desks[index] = desk;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_a_desk_is_taken_back_once() {
        let desks = Desks::new(2);
        assert!(desks.come_back(0).is_some());
        desks.go_away(0, Gathered { out_of_order: 7, ..Gathered::default() });
        let found = std::cell::RefCell::new(Vec::new());
        assert!(desks.clear(|gathered| found.borrow_mut().push(gathered.out_of_order)));
        assert_eq!(found.into_inner(), [7, 0]);
        assert!(desks.come_back(0).is_none() && desks.come_back(1).is_none());
        assert!(desks.clear(|_| panic!("all are gone")));
    }

    #[test]
    fn who_is_alone_sees_what_lies_on_the_desks() {
        let desks = Desks::new(3);
        assert!(desks.come_back(0).is_some() && desks.come_back(1).is_some());
        std::thread::scope(|scope| {
            let mut seen = Vec::new();
            let other = scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                desks.go_away(1, Gathered { out_of_order: 7, ..Gathered::default() });
                desks.come_back(1).map(|gathered| gathered.out_of_order)
            });
            let done = desks.alone(0, |away| seen.extend(away.map(|gathered| gathered.out_of_order)));
            assert_eq!((done, seen), (Some(()), vec![7, 0]));
            assert_eq!(other.join().expect("no thread panics"), Some(7));
        });
        desks.leave(0);
        desks.leave(1);
        assert!(desks.clear(|_| ()));
        assert!(desks.alone(1, |_| panic!("the tree is gone")).is_none());
    }

    #[test]
    fn a_panic_breaks_the_tree_only_for_who_is_here() {
        let desks = Desks::new(2);
        assert!(desks.leave_in_panic(0, |_| ()));
        assert!(desks.clear(|_| ()));
        let desks = Desks::new(1);
        assert!(desks.come_back(0).is_some());
        assert!(desks.leave_in_panic(0, |_| panic!("nothing lies there")));
        assert!(!desks.clear(|_| ()));
    }
}
