//! Finds uses of loaded data that no wait precedes.
//!
//! On a card a load ends later, and the program waits until no more than N operations of a counter are under way
//! ("RDNA3 Instruction Set Architecture", chapter "Program Flow Control", "Manually Inserted Wait States (S_WAITCNT)").
//! The emulator's loads end at once, so that a missing wait would change nothing. This module therefore follows all
//! paths through a kernel, and counts as the hardware does. It is an error if an instruction reads a register while a
//! load to that register may still be under way on some path. A calculation that writes such a register does not end the
//! load, which may overwrite the result later.
//!
//! The following is not decided:
//! - kernels with jumps to addresses in registers, whose paths are not known: they are not checked;
//! - whether a path can be taken: every branch counts as possible in both directions;
//! - operands that an instruction does not name (EXEC, M0, the old value of a half register);
//! - anything about stores, and delays between instructions other than these counters.

use std::collections::BTreeSet;

use super::effects::{Effect, LDS, REGISTERS, Registers, SCALAR, SCALAR_MEMORY, VECTOR_MEMORY};
use super::family::Family;
use crate::isa::wave::Instruction;

const COUNTERS: [usize; 3] = [VECTOR_MEMORY, LDS, SCALAR_MEMORY];

/// Describes the first use of loaded data in a kernel that no wait precedes, if there is one. The kernel begins at the
/// instruction `entry`.
pub(super) fn missing(family: &Family, instructions: &[Instruction], entry: u32) -> Option<String> {
    let blocks = blocks(family, instructions, entry)?;
    let number_of = |start: u32| blocks.binary_search_by_key(&start, |block| block.start).ok();
    let mut before: Vec<Option<State>> = vec![None; blocks.len()];
    // The number of the blocks that are to be visited. The order of addresses is nearly that of the execution.
    let mut work = BTreeSet::new();
    let first = number_of(entry)?;
    before[first] = Some(State::default());
    work.insert(first);
    while let Some(number) = work.pop_first() {
        let mut state = before[number].clone().unwrap_or_default();
        for (at, effect) in &blocks[number].effects {
            if let Err(found) = state.step(*at, effect) {
                return Some(found.describe(family, instructions));
            }
        }
        for next in blocks[number].next.into_iter().flatten().filter_map(number_of) {
            let changed = match &mut before[next] {
                Some(known) => known.join(&state),
                empty => {
                    *empty = Some(state.clone());
                    true
                }
            };
            if changed {
                work.insert(next);
            }
        }
    }
    None
}

/// Instructions that are always executed one after the other.
struct Block {
    /// The index of the first instruction.
    start: u32,
    /// The instructions that mean something for the waits, with their indices.
    effects: Vec<(u32, Effect)>,
    /// The blocks that may follow, by their first instructions.
    next: [Option<u32>; 2],
}

/// Where the wave may go after an instruction.
enum After {
    Next,
    End,
    Jump(u32),
    Branch(u32),
    /// To an address in a register.
    Anywhere,
}

impl After {
    fn of(instruction: &Instruction) -> Self {
        match instruction.name {
            "s_endpgm" | "unknown" => Self::End,
            "s_branch" => Self::Jump(instruction.target),
            "s_setpc_b64" | "s_swappc_b64" => Self::Anywhere,
            name if name.starts_with("s_cbranch") => Self::Branch(instruction.target),
            _ => Self::Next,
        }
    }
}

/// The blocks that can be reached from a kernel's first instruction, by their addresses; `None` if they are not known.
fn blocks(family: &Family, instructions: &[Instruction], entry: u32) -> Option<Vec<Block>> {
    let mut starts = BTreeSet::from([entry]);
    let mut visited = vec![false; instructions.len()];
    let mut open = vec![entry];
    while let Some(start) = open.pop() {
        let mut at = start;
        while let Some(seen) = visited.get_mut(at as usize)
            && !std::mem::replace(seen, true)
        {
            let (target, follows) = match After::of(&instructions[at as usize]) {
                After::Next => {
                    at += 1;
                    continue;
                }
                After::End => (None, None),
                After::Jump(target) => (Some(target), None),
                After::Branch(target) => (Some(target), Some(at + 1)),
                After::Anywhere => return None,
            };
            open.extend([target, follows].into_iter().flatten().filter(|&start| starts.insert(start)));
            break;
        }
    }
    let block = |&start: &u32| {
        let mut block = Block { start, effects: Vec::new(), next: [None; 2] };
        let mut at = start;
        while let Some(instruction) = instructions.get(at as usize) {
            let effect = Effect::of(family, instruction);
            if !effect.is_empty() {
                block.effects.push((at, effect));
            }
            at += 1;
            block.next = match After::of(instruction) {
                After::Next if !starts.contains(&at) => continue,
                After::Next => [Some(at), None],
                After::Jump(target) => [Some(target), None],
                After::Branch(target) => [Some(target), Some(at)],
                After::End | After::Anywhere => [None; 2],
            };
            break;
        }
        block
    };
    Some(starts.iter().map(block).collect())
}

/// A load that may be under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Load {
    /// The index of the instruction.
    at: u32,
    counter: usize,
    ordered: bool,
    /// The smallest number, over all paths, of later ordered operations of the same counter.
    later: u16,
    first: u16,
    count: u16,
}

/// What may be under way at a place in the code.
#[derive(Clone, Default)]
struct State {
    loads: Vec<Load>,
    /// The registers that these loads write.
    registers: Set,
}

/// A read of a register while a load to it may be under way.
struct Missing {
    register: u16,
    at: u32,
    load: Load,
}

impl Missing {
    fn describe(&self, family: &Family, instructions: &[Instruction]) -> String {
        let (user, load) = (&instructions[self.at as usize], &instructions[self.load.at as usize]);
        let (kind, number) =
            if self.register < SCALAR { ('v', self.register) } else { ('s', self.register - SCALAR) };
        let counter = family.counting.names[self.load.counter];
        format!(
            "at {:#x} ({}): {kind}{number} is read without a wait for {counter} after {} at {:#x}",
            user.pc, user.name, load.name, load.pc
        )
    }
}

impl State {
    /// Changes the state as an instruction does. It is an error if the instruction reads a register too early.
    fn step(&mut self, at: u32, effect: &Effect) -> Result<(), Missing> {
        if !self.loads.is_empty() {
            for read in &effect.reads {
                let Some(register) = self.registers.first_of(read) else { continue };
                let writes = |load: &&Load| (load.first..load.first + load.count).contains(&register);
                if let Some(&load) = self.loads.iter().find(writes) {
                    return Err(Missing { register, at, load });
                }
            }
            if effect.waits != [None; 3] {
                // An unordered load is known to have ended only when nothing is under way.
                self.loads.retain(|load| effect.waits[load.counter].is_none_or(|most| most > load.later));
                self.registers = Set::default();
                for load in &self.loads {
                    self.registers.add(load.first, load.count);
                }
            }
        }
        let Some(operation) = effect.operation else { return Ok(()) };
        for counter in COUNTERS.into_iter().filter(|&counter| operation.counters[counter]) {
            self.loads.retain(|load| (load.at, load.counter) != (at, counter));
            if operation.ordered {
                for load in self.loads.iter_mut().filter(|load| load.counter == counter && load.ordered) {
                    load.later = load.later.saturating_add(1);
                }
            }
            let Registers { first, count } = operation.data;
            if count > 0 {
                self.loads.push(Load { at, counter, ordered: operation.ordered, later: 0, first, count });
                self.registers.add(first, count);
            }
        }
        Ok(())
    }

    /// Adds what may be under way on another path. Returns whether that changes the state.
    fn join(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for load in &other.loads {
            match self.loads.iter_mut().find(|known| (known.at, known.counter) == (load.at, load.counter)) {
                Some(known) if known.later <= load.later => {}
                Some(known) => {
                    known.later = load.later;
                    changed = true;
                }
                None => {
                    self.loads.push(*load);
                    self.registers.add(load.first, load.count);
                    changed = true;
                }
            }
        }
        changed
    }
}

/// A set of registers.
#[derive(Clone, Default)]
struct Set([u64; REGISTERS as usize / 64]);

impl Set {
    fn add(&mut self, first: u16, count: u16) {
        for register in usize::from(first)..usize::from(first + count) {
            self.0[register / 64] |= 1 << (register % 64);
        }
    }

    /// The first of these registers that is in the set.
    fn first_of(&self, registers: &Registers) -> Option<u16> {
        let has = |&register: &u16| {
            let register = usize::from(register);
            self.0[register / 64] >> (register % 64) & 1 == 1
        };
        (registers.first..registers.first + registers.count).find(has)
    }
}
