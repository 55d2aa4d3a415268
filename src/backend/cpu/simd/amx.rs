//! AMX, the matrix extension of Intel's server processors since Sapphire Rapids: products of tiles of 16 rows and 64
//! bytes.
//!
//! A tile register holds 16 rows of 16 words. An instruction multiplies a tile of A with a tile of B and adds the result
//! to a tile of C, which has 16 x 16 sums. The rows of A's tile are rows of A. The rows of B's tile are steps: a row has
//! one word (two bf16 or four bytes) of each of 16 columns, which is how a panel is stored ([`super::tile`]).
//!
//! ```text
//!                         B: 16 steps x 32 columns
//!                         tmm6      tmm7
//!   A: 32 rows    tmm4    tmm0      tmm1       sums of rows 0 to 15
//!      x 16 steps tmm5    tmm2      tmm3       sums of rows 16 to 31
//! ```
//!
//! Each tile that is loaded is used twice, so the processor computes (16 cycles an instruction) twice as long as it
//! loads (8 cycles a tile).
//!
//! The registers are 8 kB of state, which Linux saves only for processes that have asked for it ([`Amx::detect`]). The
//! intrinsics of the standard library are not stable yet, so this module has the instructions as assembly. Source: Intel
//! 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.

use super::vector::Word;
use std::arch::asm;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// The number of steps of one instruction, in words.
pub(crate) const STEPS: usize = 16;
/// The number of rows of a block of C.
pub(crate) const ROWS: usize = 32;
/// The number of columns of a block of C, and of a panel.
pub(crate) const COLUMNS: usize = 32;

/// A proof that the processor has AMX with bf16 and 8-bit products, and that the system lets this process use it: only
/// [`Amx::detect`] makes a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amx(());

impl Amx {
    /// Returns a value if the processor has the extension and the system allows its use.
    pub(super) fn detect() -> Option<Amx> {
        static ALLOWED: OnceLock<bool> = OnceLock::new();
        ALLOWED.get_or_init(|| processor_has_amx() && system_allows_amx()).then_some(Amx(()))
    }

    /// Prepares this thread's tile registers.
    pub(crate) fn tiles(self) -> Tiles {
        /// The layout of LDTILECFG: palette 1, and for all eight registers 16 rows of 64 bytes.
        #[repr(C, align(64))]
        struct Configuration {
            palette: u8,
            start_row: u8,
            reserved: [u8; 14],
            row_bytes: [u16; 16],
            rows: [u8; 16],
        }
        static CONFIGURATION: Configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        // SAFETY: `self` proves that the processor has the instruction and that the system allows it. It reads the 64
        // bytes of the configuration, which is valid, so it does not fault.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack, readonly, preserves_flags));
        }
        Tiles(PhantomData)
    }
}

/// Whether the processor has AMX-TILE, AMX-INT8 and AMX-BF16, and the system saves the tiles.
fn processor_has_amx() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    #[target_feature(enable = "xsave")]
    fn saved_state() -> u64 {
        // SAFETY: register 0 exists on every processor with XSAVE.
        unsafe { _xgetbv(0) }
    }
    const BF16_TILE_INT8: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    const OSXSAVE: u32 = 1 << 27;
    const TILE_STATE: u64 = 1 << 17 | 1 << 18;
    let features = |leaf| if __cpuid(0).eax >= leaf { Some(__cpuid_count(leaf, 0)) } else { None };
    let has_instructions = features(7).is_some_and(|leaf| leaf.edx & BF16_TILE_INT8 == BF16_TILE_INT8);
    let has_xsave = features(1).is_some_and(|leaf| leaf.ecx & OSXSAVE != 0);
    // SAFETY: the processor has XSAVE, and the system uses it.
    has_instructions && has_xsave && unsafe { saved_state() } & TILE_STATE == TILE_STATE
}

/// Asks the system to save the tiles of this process's threads.
#[cfg(target_os = "linux")]
fn system_allows_amx() -> bool {
    const SYS_ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let status: i64;
    // SAFETY: the call reads and writes no memory of the process. It changes only how the kernel saves the registers.
    // The instruction overwrites rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") SYS_ARCH_PRCTL => status,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    status == 0
}

/// Only Linux is asked. Without permission the first instruction would end the process.
#[cfg(not(target_os = "linux"))]
fn system_allows_amx() -> bool {
    false
}

/// The tile registers of one thread, configured for this module. They are released when the value is dropped, so that
/// the system has less to save.
pub(crate) struct Tiles(PhantomData<*const ()>);

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: a value exists only where the processor has the instruction and the system allows it.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) }
    }
}

/// The factors of a block of C: up to [`ROWS`] rows of A, and one panel of B.
#[derive(Clone, Copy)]
pub(crate) struct BlockFactors<'a> {
    /// The rows of A. There is memory for a whole number of 16 rows; the values beyond the last row of the product do
    /// not matter.
    pub a: &'a [Word],
    /// Words from the start of one row of A to the start of the next.
    pub a_stride: usize,
    /// `[steps][COLUMNS]`
    pub panel: &'a [Word],
    /// The number of steps: a multiple of [`STEPS`], and of 3 [`STEPS`] for [`Tiles::multiply_split`].
    pub steps: usize,
    /// The number of rows, 1 to [`ROWS`].
    pub rows: usize,
}

/// A block of C: [`COLUMNS`] fp32 numbers or 32-bit integers in each row.
pub(crate) struct Block<'a, T> {
    /// There is memory for a whole number of 16 rows. Rows beyond the last row of the product get unspecified values.
    pub c: &'a mut [T],
    /// Elements from the start of one row to the start of the next.
    pub stride: usize,
    /// Whether the product is added to the block's old contents.
    pub accumulate: bool,
}

/// Checks the sizes of a product whose loop reads `steps` steps at a time. Returns whether the rows need two tiles.
fn check<T>(factors: &BlockFactors<'_>, steps: usize, block: &Block<'_, T>) -> bool {
    let extent =
        |rows: usize, stride: usize, width: usize| (rows - 1).saturating_mul(stride).saturating_add(width);
    assert!((1..=ROWS).contains(&factors.rows), "a block has 1 to {ROWS} rows");
    assert!(factors.steps > 0 && factors.steps.is_multiple_of(steps), "whole tiles of steps");
    let rows = factors.rows.next_multiple_of(16);
    assert!(factors.a.len() >= extent(rows, factors.a_stride, factors.steps), "A is too short");
    assert!(factors.panel.len() >= factors.steps.saturating_mul(COLUMNS), "the panel is too short");
    assert!(
        block.stride >= COLUMNS && block.c.len() >= extent(rows, block.stride, COLUMNS),
        "C is too short"
    );
    rows > 16
}

/// The assembly that loads or stores the tiles of C, for one or two tiles of rows.
macro_rules! tiles_of_c {
    (zero) => {
        "tilezero tmm0\ntilezero tmm1\ntilezero tmm2\ntilezero tmm3"
    };
    (load, 1) => {
        "tileloadd tmm0, [{c} + {c_stride}]\ntileloadd tmm1, [{c} + {c_stride} + 64]"
    };
    (load, 2) => {
        concat!(
            tiles_of_c!(load, 1),
            "\ntileloadd tmm2, [{second_c} + {c_stride}]\ntileloadd tmm3, [{second_c} + {c_stride} + 64]"
        )
    };
    (store, 1) => {
        "tilestored [{c} + {c_stride}], tmm0 /* one tile of rows leaves {second_c} alone */\ntilestored [{c} + {c_stride} + 64], tmm1"
    };
    (store, 2) => {
        concat!(
            tiles_of_c!(store, 1),
            "\ntilestored [{second_c} + {c_stride}], tmm2\ntilestored [{second_c} + {c_stride} + 64], tmm3"
        )
    };
}

/// The assembly that multiplies tiles of A, at byte `$a` of each row, with tiles of B, at byte `$b` of the panel's part.
/// Without `$b` it takes the tiles of B that are loaded already.
macro_rules! dots {
    ($tiles:tt, $dot:literal, $a:literal, $b:literal) => {
        concat!(
            "tileloadd tmm6, [{b} + {b_stride} + ",
            $b,
            "]\n",
            "tileloadd tmm7, [{b} + {b_stride} + ",
            $b,
            " + 64]\n",
            dots!($tiles, $dot, $a)
        )
    };
    (1, $dot:literal, $a:literal) => {
        concat!(
            "tileloadd tmm4, [{a} + {a_stride} + ",
            $a,
            "]\n",
            $dot,
            " tmm0, tmm4, tmm6\n",
            $dot,
            " tmm1, tmm4, tmm7\n",
        )
    };
    (2, $dot:literal, $a:literal) => {
        concat!(
            dots!(1, $dot, $a),
            "tileloadd tmm5, [{second} + {a_stride} + ",
            $a,
            "]\n",
            $dot,
            " tmm2, tmm5, tmm6\n",
            $dot,
            " tmm3, tmm5, tmm7\n",
        )
    };
}

/// Multiplies one or two tiles of rows. `$body` multiplies `$parts` tiles of steps.
macro_rules! multiply {
    ($tiles:tt, $parts:literal, $factors:expr, $block:expr, $start:expr, $body:expr) => {{
        let (factors, c, stride) = (&$factors, $block.c.as_mut_ptr(), $block.stride);
        asm!(
            $start,
            "2:",
            $body,
            concat!("add {a}, 64 * ", $parts),
            concat!("add {second}, 64 * ", $parts),
            concat!("add {b}, 2048 * ", $parts),
            "dec {count}",
            "jnz 2b",
            tiles_of_c!(store, $tiles),
            a = inout(reg) factors.a.as_ptr() => _,
            second = inout(reg) factors.a.as_ptr().wrapping_add(16 * factors.a_stride) => _,
            a_stride = in(reg) factors.a_stride * size_of::<Word>(),
            b = inout(reg) factors.panel.as_ptr() => _,
            b_stride = in(reg) COLUMNS * size_of::<Word>(),
            count = inout(reg) factors.steps / (STEPS * $parts) => _,
            c = in(reg) c,
            second_c = in(reg) c.wrapping_add(16 * stride),
            c_stride = in(reg) stride * size_of::<Word>(),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    }};
}

/// Chooses the version for the number of tiles of rows, and for the start of the sums.
macro_rules! versions {
    ($parts:literal, $factors:expr, $block:expr, $body:ident) => {{
        let two_tiles = check(&$factors, $parts * STEPS, &$block);
        // SAFETY: `Tiles` proves that this thread's tiles are configured. `check` has compared the lengths of A, of the
        // panel and of C with what the loop reads and writes.
        unsafe {
            match (two_tiles, $block.accumulate) {
                (false, false) => multiply!(1, $parts, $factors, $block, tiles_of_c!(zero), $body!(1)),
                (false, true) => multiply!(1, $parts, $factors, $block, tiles_of_c!(load, 1), $body!(1)),
                (true, false) => multiply!(2, $parts, $factors, $block, tiles_of_c!(zero), $body!(2)),
                (true, true) => multiply!(2, $parts, $factors, $block, tiles_of_c!(load, 2), $body!(2)),
            }
        }
    }};
}

impl Tiles {
    /// Computes `C = A B` with unsigned bytes of A and signed bytes of B, in 32-bit integers.
    #[inline]
    pub(crate) fn multiply_bytes(&self, factors: BlockFactors<'_>, block: Block<'_, Word>) {
        macro_rules! body {
            ($tiles:tt) => {
                dots!($tiles, "tdpbusd", 0, 0)
            };
        }
        versions!(1, factors, block, body)
    }

    /// Computes `C = A B` with pairs of bf16, in fp32. Subnormal numbers count as zero.
    #[inline]
    pub(crate) fn multiply_bf16(&self, factors: BlockFactors<'_>, block: Block<'_, f32>) {
        macro_rules! body {
            ($tiles:tt) => {
                dots!($tiles, "tdpbf16ps", 0, 0)
            };
        }
        versions!(1, factors, block, body)
    }

    /// Computes `C = A B` with fp32 numbers that are each the sum of three bf16 numbers. [`STEPS`] steps of the first
    /// terms are followed by those of the second and of the third terms, in A and in the panel. Of the nine products of
    /// terms, the three smallest are left out; they are below 2^-22 of the product of the numbers. Source: Henry, Tang,
    /// Heinecke, *Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations* (2019).
    #[inline]
    pub(crate) fn multiply_split(&self, factors: BlockFactors<'_>, block: Block<'_, f32>) {
        /// Terms of A times terms of B: 2 x 2, 1 x 2, 1 x 3, 1 x 1, 2 x 1, 3 x 1.
        macro_rules! body {
            ($tiles:tt) => {
                concat!(
                    dots!($tiles, "tdpbf16ps", 64, 2048),
                    dots!($tiles, "tdpbf16ps", 0),
                    dots!($tiles, "tdpbf16ps", 0, 4096),
                    dots!($tiles, "tdpbf16ps", 0, 0),
                    dots!($tiles, "tdpbf16ps", 64),
                    dots!($tiles, "tdpbf16ps", 128),
                )
            };
        }
        versions!(3, factors, block, body)
    }
}
