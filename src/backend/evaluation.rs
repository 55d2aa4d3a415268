//! What a backend returns.

/// Value of a position, from the side to move's view.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Value {
    /// Win minus loss probability, -1…1.
    pub q: f32,
    /// Draw probability, 0…1.
    pub d: f32,
    /// Moves (plies) left in the game.
    pub m: f32,
}

/// One position's evaluation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Evaluation {
    /// Its value.
    pub value: Value,
    /// One prior per legal move, in the order of the request; they sum to 1.
    pub priors: Box<[f32]>,
}

/// A batch's evaluations, in the order queued.
#[derive(Clone, Debug, Default)]
pub struct Evaluations {
    values: Vec<Value>,
    priors: Vec<f32>,
    /// `ends[i]`: where evaluation i's priors end.
    ends: Vec<u32>,
}

impl Evaluations {
    /// Empty, with room for `positions`.
    pub fn with_capacity(positions: usize) -> Evaluations {
        Evaluations {
            values: Vec::with_capacity(positions),
            priors: Vec::with_capacity(positions * 40),
            ends: Vec::with_capacity(positions),
        }
    }

    /// Appends one.
    pub fn push(&mut self, value: Value, priors: impl IntoIterator<Item = f32>) {
        self.values.push(value);
        self.priors.extend(priors);
        self.ends.push(self.priors.len() as u32);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value and the priors of evaluation `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Evaluations::len`].
    pub fn get(&self, index: usize) -> (Value, &[f32]) {
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1] as usize
        };
        (self.values[index], &self.priors[start..self.ends[index] as usize])
    }
}
