//! The model behind contempt and scores: a game's outcome is a random walk whose end has a logistic distribution. An
//! end above 1 is a win, an end below -1 is a loss.

/// The logistic distribution of the end of a game's random walk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OutcomeModel {
    pub(crate) mean: f32,
    pub(crate) scale: f32,
}

impl OutcomeModel {
    /// The distribution that gives the probabilities `wl` (win minus loss) and `d` (draw). `None` if the probability of
    /// a win, a draw or a loss is close to 0 or 1, where the model does not apply.
    pub(crate) fn of_shares(wl: f32, d: f32) -> Option<OutcomeModel> {
        /// lc0 uses the same limit.
        const LEAST_SHARE: f32 = 0.0001;
        let (win, loss) = ((1.0 + wl - d) / 2.0, (1.0 - wl - d) / 2.0);
        let usable = |share: f32| share > LEAST_SHARE && share < 1.0 - LEAST_SHARE;
        if !(usable(win) && usable(d) && usable(loss)) {
            return None;
        }
        // From the two tails: loss = logistic((-1 - mean) / scale), win = logistic((-1 + mean) / scale).
        let (a, b) = ((1.0 / loss - 1.0).ln(), (1.0 / win - 1.0).ln());
        Some(OutcomeModel { mean: (a - b) / (a + b), scale: 2.0 / (a + b) })
    }

    /// The probabilities `(wl, d)`: win minus loss, and draw.
    pub(crate) fn shares(self) -> (f32, f32) {
        let win = logistic((-1.0 + self.mean) / self.scale);
        let loss = logistic((-1.0 - self.mean) / self.scale);
        (win - loss, (1.0 - win - loss).max(0.0))
    }
}

fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
