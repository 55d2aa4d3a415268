//! The instruction sets of gfx103x, gfx11 and gfx12 (RDNA 2 to 4) with waves of 32 lanes, and of gfx906, gfx908, gfx90a
//! and gfx942 (Vega and CDNA) with waves of 64 lanes: decoder, registers, and a handler for each instruction.
//!
//! Code is decoded once. A decoded instruction holds the address of its handler, which loops over the lanes.
//!
//! | module | what |
//! |---|---|
//! | [`decode`] | decodes machine code into instructions |
//! | [`memory`] | loads, stores, atomics, exchanges between lanes |
//! | [`matrix_gfx12`], [`matrix_gfx9`] | matrix products of gfx12; of gfx908, gfx90a and gfx942 |
//! | [`halves`], [`wave64`] | waves of 64 lanes: instructions by halves; instructions for all lanes |
//! | [`matrix`], [`packed`] | matrix products of gfx11; operations on both halves of a register |
//! | [`pairs`] | two fp32 numbers at once, 64-bit sums: vector instructions that only CDNA has |
//! | [`compare`], [`special`] | comparisons; carries, divisions, permutations, dual instructions |
//! | [`subword`] | instructions that select bytes or halves of their operands |
//! | [`vector`] | vector instructions that treat each lane by itself |
//! | [`scalar_gfx12`] | scalar instructions that only gfx12 has |
//! | [`scalar`] | scalar arithmetic, branches, the state of the wave |
//! | [`table`] | the macros that define tables of instructions |
//! | [`wave`] | a wave's registers, decoded instructions, operands |
//! | [`float`] | conversions between float formats |

mod compare;
pub(crate) mod decode;
pub(crate) mod float;
pub(crate) mod fp8;
mod halves;
mod matrix;
mod matrix_gfx12;
mod matrix_gfx9;
mod memory;
mod packed;
mod pairs;
mod scalar;
mod scalar_gfx12;
mod special;
mod subword;
mod table;
#[cfg(test)]
mod tests;
mod vector;
pub(crate) mod wave;
mod wave64;

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
