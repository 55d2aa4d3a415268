//! Memory accesses of one lane. They check the address range, and move data between memory and registers.

use crate::isa::wave::{Instruction, REGISTER_MASK, Wave};

/// Defines a table of instructions whose handlers call a function with constants. An instruction's name is the prefix
/// and the handler's name.
macro_rules! accesses {
    ($(#[$attribute:meta])* $table:ident, $prefix:literal: $($opcode:literal $name:ident = $function:ident($($argument:expr),*);)*) => {
        $(#[$attribute])*
        pub(crate) const $table: &[Row] = &[$(Row::whole($opcode, concat!($prefix, stringify!($name)), $name)),*];
        $(handler! { fn $name(wave, instruction) { $function(wave, instruction $(, $argument)*); } })*
    };
}
pub(super) use accesses;

/// The size of the data that a load or store moves, and the data's position in a register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// This many whole registers.
    Words(usize),
    /// One or two bytes, zero-extended to 32 bits.
    Unsigned(usize),
    /// One or two bytes, sign-extended to 32 bits.
    Signed(usize),
    /// One or two bytes, extended to 16 bits, in the lower half (`Low`) or the upper half (`High`) of a register. The
    /// other half keeps its value.
    LowUnsigned(usize),
    LowSigned(usize),
    HighUnsigned(usize),
    HighSigned(usize),
}

impl Form {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Words(count) => 4 * count,
            Self::Unsigned(bytes)
            | Self::Signed(bytes)
            | Self::LowUnsigned(bytes)
            | Self::LowSigned(bytes)
            | Self::HighUnsigned(bytes)
            | Self::HighSigned(bytes) => bytes,
        }
    }
}

/// Reads 1, 2 or 4 bytes.
///
/// # Safety
/// This many bytes at the address are valid. Other threads change them only where the emulated program itself allows
/// it.
#[inline(always)]
pub(super) unsafe fn read(address: *const u8, bytes: usize) -> u32 {
    // SAFETY: the caller has checked the range.
    unsafe {
        match bytes {
            1 => u32::from(address.read()),
            2 => u32::from(address.cast::<u16>().read_unaligned()),
            _ => address.cast::<u32>().read_unaligned(),
        }
    }
}

/// Writes 1, 2 or 4 bytes.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub(super) unsafe fn write(address: *mut u8, bytes: usize, value: u32) {
    // SAFETY: the caller has checked the range.
    unsafe {
        match bytes {
            1 => address.write(value as u8),
            2 => address.cast::<u16>().write_unaligned(value as u16),
            _ => address.cast::<u32>().write_unaligned(value),
        }
    }
}

impl Wave {
    /// Whether the kernel may touch these bytes. Stops the wave with a fault if it may not.
    #[inline(always)]
    pub(super) fn allowed(
        &mut self,
        instruction: &Instruction,
        lane: usize,
        address: u64,
        bytes: usize,
        store: bool,
    ) -> bool {
        let end = address.wrapping_add(bytes as u64);
        if address >= self.recent.0 && end <= self.recent.1 && address < end {
            return true;
        }
        // SAFETY: a launch keeps its regions until all of its waves are done.
        match unsafe { &*self.regions }.find(address, bytes) {
            Some(region) => {
                self.recent = region;
                true
            }
            None => {
                self.fail_out_of_bounds(instruction, lane, address, bytes, store);
                false
            }
        }
    }

    #[cold]
    fn fail_out_of_bounds(
        &mut self,
        instruction: &Instruction,
        lane: usize,
        address: u64,
        bytes: usize,
        store: bool,
    ) {
        let action = if store { "writes" } else { "reads" };
        // SAFETY: a launch keeps its regions until all of its waves are done.
        let near = unsafe { &*self.regions }.describe(address);
        let message = format!(
            "{} of lane {} {action} {bytes} bytes at {address:#x}: {near}",
            instruction.name,
            lane + self.first_lane
        );
        self.fail(message);
    }

    /// Whether these bytes are inside LDS. Stops the wave with a fault if they are not.
    #[inline(always)]
    pub(super) fn allowed_lds(
        &mut self,
        instruction: &Instruction,
        lane: usize,
        offset: u64,
        bytes: usize,
    ) -> bool {
        if offset + bytes as u64 <= u64::from(self.lds_bytes) {
            return true;
        }
        let size = self.lds_bytes;
        self.fail(format!(
            "{} of lane {} accesses {bytes} bytes at {offset:#x}, outside the {size:#x} bytes of LDS",
            instruction.name,
            lane + self.first_lane
        ));
        false
    }
}

/// Loads one lane's data into registers, beginning with `destination`.
///
/// # Safety
/// `form.bytes()` bytes are valid at the address.
#[inline(always)]
pub(super) unsafe fn load_lane(
    wave: &mut Wave,
    destination: u16,
    lane: usize,
    address: *const u8,
    form: Form,
) {
    let register = usize::from(destination);
    if let Form::Words(count) = form {
        for word in 0..count {
            // SAFETY: the access lies within the form's bytes.
            wave.vector[(register + word) & REGISTER_MASK].0[lane] =
                unsafe { read(address.add(4 * word), 4) };
        }
        return;
    }
    // SAFETY: the access covers exactly the form's bytes.
    let bits = unsafe { read(address, form.bytes()) };
    let extended = match form {
        Form::Signed(1) | Form::LowSigned(1) | Form::HighSigned(1) => i32::from(bits as i8) as u32,
        Form::Signed(_) | Form::LowSigned(_) | Form::HighSigned(_) => i32::from(bits as i16) as u32,
        _ => bits,
    };
    let out = &mut wave.vector[register & REGISTER_MASK].0[lane];
    *out = match form {
        Form::LowUnsigned(_) | Form::LowSigned(_) => (*out & 0xffff_0000) | (extended & 0xffff),
        Form::HighUnsigned(_) | Form::HighSigned(_) => (*out & 0xffff) | extended << 16,
        _ => extended,
    };
}

/// Stores one lane's data from registers, beginning with `source`.
///
/// # Safety
/// As for [`load_lane`].
#[inline(always)]
pub(super) unsafe fn store_lane(wave: &Wave, source: u16, lane: usize, address: *mut u8, form: Form) {
    let register = usize::from(source);
    match form {
        Form::Words(count) => {
            for word in 0..count {
                // SAFETY: the access lies within the form's bytes.
                unsafe {
                    write(address.add(4 * word), 4, wave.vector[(register + word) & REGISTER_MASK].0[lane])
                };
            }
        }
        Form::HighUnsigned(bytes) | Form::HighSigned(bytes) => {
            // SAFETY: the access covers exactly the form's bytes.
            unsafe { write(address, bytes, wave.vector[register & REGISTER_MASK].0[lane] >> 16) };
        }
        // SAFETY: the access covers exactly the form's bytes.
        _ => unsafe { write(address, form.bytes(), wave.vector[register & REGISTER_MASK].0[lane]) },
    }
}
