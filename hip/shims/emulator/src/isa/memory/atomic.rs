//! The operations of atomic instructions, in LDS and in global memory.

/// The operation of an atomic instruction on the old value and its operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Atomic {
    Swap,
    Compare,
    Add,
    Sub,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    Increment,
    Decrement,
    AddFloat,
    MinFloat,
    MaxFloat,
}

impl Atomic {
    /// The value that the instruction writes. `compare` is the second operand of [`Atomic::Compare`], and is otherwise
    /// unused.
    pub(super) fn apply(self, old: u32, operand: u32, compare: u32) -> u32 {
        let float = |f: fn(f32, f32) -> f32| f(f32::from_bits(old), f32::from_bits(operand)).to_bits();
        match self {
            Self::Swap => operand,
            Self::Compare => {
                if old == compare {
                    operand
                } else {
                    old
                }
            }
            Self::Add => old.wrapping_add(operand),
            Self::Sub => old.wrapping_sub(operand),
            Self::MinSigned => (old as i32).min(operand as i32) as u32,
            Self::MinUnsigned => old.min(operand),
            Self::MaxSigned => (old as i32).max(operand as i32) as u32,
            Self::MaxUnsigned => old.max(operand),
            Self::And => old & operand,
            Self::Or => old | operand,
            Self::Xor => old ^ operand,
            Self::Increment => {
                if old >= operand {
                    0
                } else {
                    old + 1
                }
            }
            Self::Decrement => {
                if old == 0 || old > operand {
                    operand
                } else {
                    old - 1
                }
            }
            Self::AddFloat => float(|a, b| a + b),
            Self::MinFloat => float(f32::min),
            Self::MaxFloat => float(f32::max),
        }
    }
}
