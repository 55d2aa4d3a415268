//! The choice of heads.

/// The heads to use, by their names in lc0's backend options `policy_head` and `value_head`.
#[derive(Clone, PartialEq, Debug)]
pub struct HeadSelection {
    /// `vanilla`, `optimistic`, `soft` or `opponent`; a file with one head calls it `vanilla`.
    pub policy: String,
    /// `winner`, `q` or `st`; a file with one head calls it `winner`.
    pub value: String,
    /// Share of the `optimistic` policy head's logits in the policy, 0 … 1.
    pub policy_optimism: f32,
    /// Whether the head that tells the value's error is wanted, where there is one.
    pub value_error: bool,
}

impl Default for HeadSelection {
    fn default() -> Self {
        Self {
            policy: "vanilla".to_owned(),
            value: "winner".to_owned(),
            policy_optimism: 0.0,
            value_error: false,
        }
    }
}
