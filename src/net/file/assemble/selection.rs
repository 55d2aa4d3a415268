//! The choice of heads.

/// The heads to use, by their names in lc0's backend options `policy_head` and `value_head`.
#[derive(Clone, PartialEq, Debug)]
pub struct HeadSelection {
    /// `vanilla`, `optimistic`, `soft` or `opponent`. The only head of a file is called `vanilla`.
    pub policy: String,
    /// `winner`, `q` or `st`. The only head of a file is called `winner`.
    pub value: String,
    /// The share of the `optimistic` policy head's logits in the policy, 0 to 1.
    pub policy_optimism: f32,
    /// Whether to load the value-error head if the file has one.
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
