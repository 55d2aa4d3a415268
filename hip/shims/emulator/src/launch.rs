//! Launches kernels. The workgroups of a grid run in parallel. The waves of a workgroup take turns: each runs until the
//! next barrier.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::code_object::{Kernel, Module};
use crate::isa::decode::Program;
use crate::isa::wave::{EXEC, GROUP_X, GROUP_YZ, Registers, Stop, WAVE, Wave};
use crate::memory::{POISON, Regions};

/// The most LDS that a workgroup can have, in bytes.
pub(crate) const MAX_LDS_BYTES: u32 = 65_536;
/// The emulator assumes that a wave which has executed this many instructions is in an endless loop.
const MAX_INSTRUCTIONS: u64 = 1 << 31;

static INSTRUCTIONS: AtomicU64 = AtomicU64::new(0);

/// The number of wave instructions that kernels have executed in this process.
pub(crate) fn instructions_executed() -> u64 {
    INSTRUCTIONS.load(Ordering::Relaxed)
}

static LINES: AtomicU64 = AtomicU64::new(0);

/// The number of lines of 128 bytes that loads have touched in this process, each counted once for every load of a wave.
/// They are counted only with the clock that needs them.
pub(crate) fn lines_loaded() -> u64 {
    LINES.load(Ordering::Relaxed)
}

/// A kernel with its grid and its arguments.
pub(crate) struct Launch {
    pub(crate) module: Arc<Module>,
    pub(crate) kernel: Arc<Kernel>,
    /// The number of workgroups in x, y and z.
    pub(crate) grid: [u32; 3],
    /// The number of work items of a workgroup in x, y and z.
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_lds_bytes: u32,
    /// The argument segment, which includes the hidden arguments.
    pub(crate) arguments: Arc<[u64]>,
    pub(crate) device: i32,
}

thread_local! {
    /// The waves and the LDS of the workgroup that this thread runs. The next workgroup reuses them.
    static SPACE: RefCell<Space> = const { RefCell::new(Space { waves: Vec::new(), lds: Vec::new() }) };
}

struct Space {
    waves: Vec<Box<Wave>>,
    lds: Vec<u32>,
}

impl Launch {
    /// Runs all workgroups. An error names the kernel, the instruction and its address.
    pub(crate) fn run(&self) -> Result<(), String> {
        self.module.check_waits(&self.kernel)?;
        let start = self.arguments.as_ptr().expose_provenance() as u64;
        let regions = Regions::of(self.device, (start, start + 8 * self.arguments.len() as u64));
        let [x, y, z] = self.grid.map(u64::from);
        let groups = x * y * z;
        let run = |number: u64| {
            let group = [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32];
            // While a thread waits for other threads' workgroups, it may run a workgroup of another launch. Then the
            // thread's space is already in use.
            SPACE.with(|space| match space.try_borrow_mut() {
                Ok(mut space) => self.group(group, &regions, &mut space),
                Err(_) => self.group(group, &regions, &mut Space { waves: Vec::new(), lds: Vec::new() }),
            })
        };
        if groups <= 1 {
            (0..groups).try_for_each(run)
        } else {
            (0..groups).into_par_iter().try_for_each(run)
        }
    }

    /// Runs the waves of one workgroup from barrier to barrier, until all have ended.
    fn group(&self, group: [u32; 3], regions: &Regions, space: &mut Space) -> Result<(), String> {
        let items = self.block.iter().product::<u32>();
        let lanes = self.module.family.lanes;
        let count = (items as usize).div_ceil(lanes);
        let lds_bytes = self.kernel.lds_bytes + self.dynamic_lds_bytes;
        space.lds.clear();
        space.lds.resize(lds_bytes.div_ceil(4) as usize, POISON);
        while space.waves.len() < count {
            space.waves.push(Wave::new());
        }
        let lds = space.lds.as_mut_ptr().cast::<u8>();
        let waves = &mut space.waves[..count];
        let registers = Registers {
            lanes,
            vector: self.kernel.vector_registers.next_multiple_of(8),
            accumulators: self.kernel.accumulators.next_multiple_of(8),
        };
        for (number, wave) in waves.iter_mut().enumerate() {
            wave.start(self.kernel.entry, &registers);
            wave.lds = lds;
            wave.lds_bytes = lds_bytes;
            wave.regions = regions;
            self.set_registers(wave, number as u32, group, items);
        }
        // Every other workgroup runs its waves in the opposite order, so that a missing barrier shows in one of the two
        // orders.
        let backwards = group.iter().sum::<u32>() % 2 == 1;
        let mut executed = 0;
        let result = loop {
            let mut run_wave = |number: usize| {
                let wave = &mut waves[if backwards { count - 1 - number } else { number }];
                if wave.stop != Stop::End {
                    wave.stop = Stop::Running;
                    executed += advance(wave, &self.module.program);
                }
                match wave.stop {
                    Stop::Fault => Err(self.describe(wave, group)),
                    stop => Ok(stop),
                }
            };
            let stops: Result<Vec<Stop>, String> = (0..count).map(&mut run_wave).collect();
            match stops {
                Err(message) => break Err(message),
                Ok(stops) if stops.iter().all(|&stop| stop == Stop::End) => break Ok(()),
                Ok(_) => {}
            }
        };
        INSTRUCTIONS.fetch_add(executed, Ordering::Relaxed);
        LINES.fetch_add(waves.iter().map(|wave| wave.lines).sum(), Ordering::Relaxed);
        result
    }

    /// Sets the registers that have a value when a wave starts. All others stay poisoned.
    fn set_registers(&self, wave: &mut Wave, number: u32, group: [u32; 3], items: u32) {
        let registers = self.kernel.registers;
        // A kernel can request several values in its first registers. The loader refuses all but the arguments' address
        // and pointers to scratch memory, one of which has four registers before the arguments' address.
        if self.kernel.properties & 8 != 0 {
            let first = 4 * (self.kernel.properties & 1) as u8;
            wave.set_scalar64(first, self.arguments.as_ptr() as u64);
        }
        let mut next = (registers >> 1 & 31) as u8;
        let [x, y, z] = group;
        if self.module.family.group_in_trap_registers {
            wave.set_scalar(GROUP_X, x);
            wave.set_scalar(GROUP_YZ, y | z << 16);
        }
        // Elsewhere a kernel asks for the numbers that it needs, in its first registers.
        let requests = if self.module.family.group_in_trap_registers { 0 } else { registers };
        for (dimension, place) in group.into_iter().enumerate() {
            if requests >> (7 + dimension) & 1 == 1 {
                wave.set_scalar(next, place);
                next += 1;
            }
        }
        let lanes = self.module.family.lanes as u32;
        let mut active: u64 = 0;
        for lane in 0..lanes {
            let item = number * lanes + lane;
            if item < items {
                active |= 1 << lane;
            }
            let [x, y, _] = self.block;
            let place = [item % x, item / x % y, item / x / y];
            if self.module.family.packed_items {
                *wave.lane64(0, lane as usize) = place[0] | place[1] << 10 | place[2] << 20;
            } else {
                for (register, number) in (0..).zip(place) {
                    *wave.lane64(register, lane as usize) = number;
                }
            }
        }
        wave.set_scalar(EXEC, active as u32);
        if lanes as usize > WAVE {
            wave.set_scalar(EXEC + 1, (active >> WAVE) as u32);
        }
    }

    fn describe(&self, wave: &Wave, group: [u32; 3]) -> String {
        let instruction = &self.module.program.instructions[wave.next.saturating_sub(1) as usize];
        format!(
            "kernel {} at {:#x} ({}), workgroup {group:?}: {}",
            self.kernel.name, instruction.pc, instruction.name, wave.fault
        )
    }
}

/// Runs a wave until it stops. Returns the number of instructions that it has executed.
fn advance(wave: &mut Wave, program: &Program) -> u64 {
    let mut count = 0;
    loop {
        while wave.stop == Stop::Running {
            // The sentinel after the last instruction stops the wave, so `next` is always in range.
            let instruction = &program.instructions[wave.next as usize];
            wave.next += 1;
            count += 1;
            // SAFETY: a module is loaded only if the host has the instruction sets that the handlers are compiled for.
            unsafe { (instruction.execute)(wave, instruction) };
            if count >= MAX_INSTRUCTIONS {
                wave.fail(format!("the wave still runs after {count} instructions"));
            }
        }
        let Stop::Jump(address) = wave.stop else { break };
        match program.at_address(address) {
            Some(next) => (wave.next, wave.stop) = (next, Stop::Running),
            None => wave.fail(format!("a jump to {address:#x}, where no instruction begins")),
        }
    }
    count
}
