//! The instruction set of gfx11 (RDNA 3 and 3.5) with waves of 32 lanes: decoder, registers, and a handler for each
//! instruction.
//!
//! Code is decoded once. A decoded instruction holds the address of its handler, which loops over the lanes.
//!
//! | module | what |
//! |---|---|
//! | [`decode`] | decodes machine code into instructions |
//! | [`memory`] | loads, stores, atomics, exchanges between lanes |
//! | [`matrix`], [`packed`] | matrix products; operations on both halves of a register |
//! | [`compare`], [`special`] | comparisons; carries, divisions, permutations, dual instructions |
//! | [`vector`] | vector instructions that treat each lane by itself |
//! | [`scalar`] | scalar arithmetic, branches, the state of the wave |
//! | [`table`] | the macros that define tables of instructions |
//! | [`wave`] | a wave's registers, decoded instructions, operands |
//! | [`float`] | conversions between float formats |

mod compare;
pub(crate) mod decode;
pub(crate) mod float;
mod matrix;
mod memory;
mod packed;
mod scalar;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod vector;
pub(crate) mod wave;

/// Whether the host has the vector instructions that the handlers are compiled for.
pub(crate) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        ["avx2", "fma", "f16c", "bmi1", "bmi2", "lzcnt", "popcnt"].iter().all(|&name| match name {
            "avx2" => std::is_x86_feature_detected!("avx2"),
            "fma" => std::is_x86_feature_detected!("fma"),
            "f16c" => std::is_x86_feature_detected!("f16c"),
            "bmi1" => std::is_x86_feature_detected!("bmi1"),
            "bmi2" => std::is_x86_feature_detected!("bmi2"),
            "lzcnt" => std::is_x86_feature_detected!("lzcnt"),
            _ => std::is_x86_feature_detected!("popcnt"),
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    true
}
