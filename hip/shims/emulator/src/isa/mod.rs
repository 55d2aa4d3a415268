//! The instruction set of gfx11 (RDNA 3, RDNA 3.5) in wave32: decoder, registers, and what each instruction does.
//!
//! Code is decoded once; an instruction then holds the address of its handler, which loops over 32 lanes.
//!
//! | module | what |
//! |---|---|
//! | [`decode`] | machine code to instructions |
//! | [`memory`] | loads, stores, atomics, exchanges between lanes |
//! | [`matrix`], [`packed`] | matrix products; two halves of a register at once |
//! | [`compare`], [`special`] | comparisons; carries, permutations, dual instructions |
//! | [`vector`] | one, two or three sources, the same in every lane |
//! | [`scalar`] | scalar arithmetic, jumps, waits |
//! | [`table`] | how the tables of instructions are written |
//! | [`wave`] | a wave's registers, and how an instruction reads and writes them |
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

/// Whether this machine has the instructions that the handlers are compiled for.
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
