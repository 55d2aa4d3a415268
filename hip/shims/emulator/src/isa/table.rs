//! The macros that define tables of instructions. A row has an opcode, the assembler's name, the types of the operands,
//! and an expression for the result. The macro turns the expression into a loop over the lanes.

use super::wave::{Handler, Operand};

/// One instruction of an encoding.
pub(crate) struct Row {
    pub(crate) opcode: u16,
    pub(crate) name: &'static str,
    pub(crate) handler: Handler,
    pub(crate) operands: &'static [Operand],
    pub(crate) result: Operand,
    /// Whether the result is a float, to which output modifiers apply.
    pub(crate) float: bool,
}

impl Row {
    /// An instruction whose handler reads its operands itself.
    pub(crate) const fn whole(opcode: u16, name: &'static str, handler: Handler) -> Row {
        Row { opcode, name, handler, operands: &[], result: Operand::B32, float: false }
    }
}

/// Defines a handler. The handler is compiled for the vector instructions named here, so that a loop over 32 lanes
/// becomes four instructions, and `mul_add` becomes one. [`super::available`] tells whether the host has them.
macro_rules! handler {
    ($(#[$attribute:meta])* fn $name:ident($wave:ident, $instruction:ident) $body:block) => {
        $(#[$attribute])*
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"))]
        pub(crate) fn $name($wave: &mut Wave, $instruction: &Instruction) $body
    };
}

/// Defines the handler of a row. The handler writes the expression's value to each active lane.
macro_rules! lanes {
    ($name:ident () -> $result:ty = $body:expr) => {
        handler! { fn $name(wave, instruction) {
            let mut result = Lanes([<$result as Lane>::save($body); WAVE]);
            wave.finish::<$result>(instruction, &mut result);
        } }
    };
    ($name:ident ($a:ident: $ta:ty) -> $result:ty = $body:expr) => {
        handler! { fn $name(wave, instruction) {
            let mut space = Lanes::ZERO;
            let a = wave.operand::<$ta>(&instruction.sources[0], &mut space);
            let mut result = Lanes::ZERO;
            for lane in 0..WAVE {
                let $a = <$ta as Lane>::load(a.0[lane]);
                result.0[lane] = <$result as Lane>::save($body);
            }
            wave.finish::<$result>(instruction, &mut result);
        } }
    };
    ($name:ident ($a:ident: $ta:ty, $b:ident: $tb:ty) -> $result:ty = $body:expr) => {
        handler! { fn $name(wave, instruction) {
            let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
            let a = wave.operand::<$ta>(&instruction.sources[0], &mut space_a);
            let b = wave.operand::<$tb>(&instruction.sources[1], &mut space_b);
            let mut result = Lanes::ZERO;
            for lane in 0..WAVE {
                let $a = <$ta as Lane>::load(a.0[lane]);
                let $b = <$tb as Lane>::load(b.0[lane]);
                result.0[lane] = <$result as Lane>::save($body);
            }
            wave.finish::<$result>(instruction, &mut result);
        } }
    };
    ($name:ident ($a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty) -> $result:ty = $body:expr) => {
        handler! { fn $name(wave, instruction) {
            let (mut space_a, mut space_b, mut space_c) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
            let a = wave.operand::<$ta>(&instruction.sources[0], &mut space_a);
            let b = wave.operand::<$tb>(&instruction.sources[1], &mut space_b);
            let c = wave.operand::<$tc>(&instruction.sources[2], &mut space_c);
            let mut result = Lanes::ZERO;
            for lane in 0..WAVE {
                let $a = <$ta as Lane>::load(a.0[lane]);
                let $b = <$tb as Lane>::load(b.0[lane]);
                let $c = <$tc as Lane>::load(c.0[lane]);
                result.0[lane] = <$result as Lane>::save($body);
            }
            wave.finish::<$result>(instruction, &mut result);
        } }
    };
}

/// Defines a table and the handlers of its rows.
macro_rules! rows {
    ($(#[$attribute:meta])* $table:ident: $($opcode:literal $name:ident ($($argument:ident: $type:ty),*) -> $result:ty = $body:expr;)*) => {
        $(#[$attribute])*
        pub(crate) const $table: &[Row] = &[$(Row {
            opcode: $opcode,
            name: stringify!($name),
            handler: $name,
            operands: &[$(<$type as Lane>::OPERAND),*],
            result: <$result as Lane>::OPERAND,
            float: <$result as Lane>::FLOAT,
        }),*];
        $(lanes! { $name ($($argument: $type),*) -> $result = $body })*
    };
}

/// Defines a table whose handlers are defined elsewhere.
macro_rules! special_rows {
    ($(#[$attribute:meta])* $table:ident: $($opcode:literal $name:ident ($($operand:ident),*) -> $result:ident;)*) => {
        $(#[$attribute])*
        pub(crate) const $table: &[Row] = &[$(Row {
            opcode: $opcode,
            name: stringify!($name),
            handler: $name,
            operands: &[$(Operand::$operand),*],
            result: Operand::$result,
            float: false,
        }),*];
    };
}

pub(crate) use {handler, lanes, rows, special_rows};
