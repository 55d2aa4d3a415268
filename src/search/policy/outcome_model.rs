//! The model behind contempt and scores: a game's outcome is a random walk whose end has a logistic distribution.
//! An end above 1 is a win, one below -1 a loss.

/// The distribution of a game's end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OutcomeModel {
    /// Where the walk ends on average.
    pub(crate) mean: f32,
    /// How far its ends are spread.
    pub(crate) scale: f32,
}

impl OutcomeModel {
    /// The distribution with these shares, win minus loss and draw. `None` where one of the three shares is next to
    /// nothing: the model says nothing then.
    pub(crate) fn of_shares(wl: f32, d: f32) -> Option<OutcomeModel> {
        /// lc0's.
        const NEXT_TO_NOTHING: f32 = 0.0001;
        let (win, loss) = ((1.0 + wl - d) / 2.0, (1.0 - wl - d) / 2.0);
        let usable = |share: f32| share > NEXT_TO_NOTHING && share < 1.0 - NEXT_TO_NOTHING;
        if !(usable(win) && usable(d) && usable(loss)) {
            return None;
        }
        // From the two tails: loss = logistic((-1 - mean) / scale), win = logistic((-1 + mean) / scale).
        let (a, b) = ((1.0 / loss - 1.0).ln(), (1.0 / win - 1.0).ln());
        Some(OutcomeModel { mean: (a - b) / (a + b), scale: 2.0 / (a + b) })
    }

    /// Win minus loss, and draw.
    pub(crate) fn shares(self) -> (f32, f32) {
        let win = logistic((-1.0 + self.mean) / self.scale);
        let loss = logistic((-1.0 - self.mean) / self.scale);
        (win - loss, (1.0 - win - loss).max(0.0))
    }
}

fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
