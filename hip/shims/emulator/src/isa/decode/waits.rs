//! Finds uses of loaded data that no wait precedes.
//!
//! On a card a load returns later, and the program waits until no more than N loads of a kind are under way ("RDNA3
//! Instruction Set Architecture", chapter "Program Flow Control", "Manually Inserted Wait States (S_WAITCNT)"). The
//! emulator's loads return at once, so that a missing wait would change nothing. This module therefore follows every
//! path through the code and counts the loads. Where an instruction reads a register that a load may not have written
//! yet, it puts a fault in the instruction's place.
//!
//! It does not find all such uses: of operands with several registers, it knows the first ones; it knows no order
//! between loads and stores; and it does not follow jumps to addresses in registers.

use std::collections::BTreeSet;

use super::family::{Family, Generation};
use crate::isa::table::handler;
use crate::isa::wave::{Instruction, Kind, NULL, Source, Wave};

handler! {
    /// Stops the wave where a wait is missing. The inner instruction is the load, and the immediate is the register.
    fn missing_wait(wave, instruction) {
        let Some([load]) = instruction.inner.as_deref() else { return };
        let register = instruction.immediate as u16;
        let name = if register < SCALAR { format!("v{register}") } else { format!("s{}", register - SCALAR) };
        wave.fail(format!("{name} is read without a wait for {} at {:#x}", load.name, load.pc));
    }
}

/// The loads that a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counter {
    /// Global, flat and buffer memory.
    Vector,
    Lds,
    Scalar,
}

/// The first number of a scalar register. Below are the vector registers.
const SCALAR: u16 = 512;

/// A register that a load may not have written yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pending {
    register: u16,
    counter: Counter,
    /// The smallest number, over all paths, of later operations of the same counter.
    later: u16,
    /// The index of the load.
    load: u32,
}

/// The registers that are pending at a place in the code, in the order of their numbers.
type State = Vec<Pending>;

/// The waits of an instruction: how many operations of a counter may still be under way.
fn waits(generation: Generation, instruction: &Instruction) -> [Option<u16>; 3] {
    let code = instruction.immediate as u16;
    let field = |low: u32, bits: u32| Some((code >> low) & ((1 << bits) - 1));
    match (instruction.name, generation) {
        ("s_waitcnt", Generation::Gfx10) => {
            let vector = (code & 15) | (code >> 14) << 4;
            [Some(vector), field(8, 6), field(8, 6)]
        }
        ("s_waitcnt", _) => [field(10, 6), field(4, 6), field(4, 6)],
        ("s_waitcnt_vmcnt", _) => [field(0, 6), None, None],
        ("s_waitcnt_lgkmcnt", _) => [None, field(0, 6), field(0, 6)],
        ("s_wait_loadcnt", _) => [field(0, 6), None, None],
        ("s_wait_dscnt" | "s_wait_storecnt_dscnt", _) => [None, field(0, 6), None],
        ("s_wait_kmcnt", _) => [None, None, field(0, 5)],
        ("s_wait_loadcnt_dscnt", _) => [field(8, 6), field(0, 6), None],
        _ => [None; 3],
    }
}

/// The counter of a memory instruction, and whether the instruction returns data.
fn counter(instruction: &Instruction) -> Option<(Counter, bool)> {
    let name = instruction.name;
    if let Some(rest) =
        name.strip_prefix("global_").or(name.strip_prefix("flat_")).or(name.strip_prefix("buffer_"))
    {
        let returns = rest.starts_with("load") || rest.starts_with("atomic") && instruction.high;
        return (!rest.starts_with("store")).then_some((Counter::Vector, returns));
    }
    if let Some(rest) = name.strip_prefix("ds_") {
        let returns =
            ["load", "read", "swizzle", "bpermute", "permute"].iter().any(|start| rest.starts_with(start));
        return Some((Counter::Lds, returns || rest.contains("_rtn_")));
    }
    name.starts_with("s_load").then_some((Counter::Scalar, true))
}

/// The number of registers that a load or a store moves, from its name.
fn words(name: &str) -> u16 {
    let sizes = [
        ("_b512", 16),
        ("_b256", 8),
        ("_b128", 4),
        ("_b96", 3),
        ("_b64", 2),
        ("x16", 16),
        ("x8", 8),
        ("x4", 4),
        ("x3", 3),
        ("x2", 2),
    ];
    let single = sizes.iter().find(|(end, _)| name.ends_with(end)).map_or(1, |(_, count)| *count);
    let pair = ["_load_2addr", "_read2"].iter().any(|part| name.contains(part));
    if pair { 2 * single } else { single }
}

/// The registers that a source names, from the first one on.
fn registers(source: &Source, count: u16) -> impl Iterator<Item = u16> {
    let (first, count) = match source.kind {
        Kind::Vector if source.index < 256 => (source.index, count),
        Kind::Scalar if source.index != u16::from(NULL) => (SCALAR + source.index, count),
        _ => (0, 0),
    };
    first..first + count
}

/// The registers that an instruction is known to read.
fn reads(instruction: &Instruction) -> Vec<u16> {
    let name = instruction.name;
    let [first, second, third] = &instruction.sources;
    let mut found = Vec::new();
    match counter_or_store(name) {
        Some(Counter::Vector) if name.starts_with("buffer_") => {}
        Some(Counter::Vector) => {
            let base = second.index != u16::from(NULL);
            found.extend(registers(first, if base { 1 } else { 2 }));
            found.extend(registers(second, 2));
            if !name.contains("_load_") {
                found.extend(registers(third, words(name)));
            }
        }
        Some(Counter::Lds) => {
            found.extend(registers(first, 1));
            if name.contains("_store_") || name.contains("_write") {
                found.extend(registers(second, words(name)));
                if name.contains("2addr") || name.contains("write2") {
                    found.extend(registers(third, words(name)));
                }
            } else if name.contains("permute") || name.contains("_rtn_") {
                found.extend(registers(second, 1));
            }
        }
        Some(Counter::Scalar) => {
            found.extend(registers(first, 2));
            found.extend(registers(second, 1));
        }
        None => {
            let inner = instruction.inner.as_deref().unwrap_or_default();
            for part in std::iter::once(instruction).chain(inner) {
                let count = if name.starts_with("v_wmma") { 4 } else { 1 };
                found.extend(part.sources.iter().flat_map(|source| registers(source, count)));
            }
        }
    }
    found
}

/// The kind of memory that an instruction uses.
fn counter_or_store(name: &str) -> Option<Counter> {
    if name.starts_with("global_") || name.starts_with("flat_") || name.starts_with("buffer_") {
        return Some(Counter::Vector);
    }
    if name.starts_with("ds_") {
        return Some(Counter::Lds);
    }
    name.starts_with("s_load").then_some(Counter::Scalar)
}

/// Whether both counters are one on this generation. Before gfx12, LDS and scalar loads share one.
fn same(generation: Generation, a: Counter, b: Counter) -> bool {
    a == b || generation != Generation::Gfx12 && a != Counter::Vector && b != Counter::Vector
}

/// Changes the state as an instruction does.
fn step(generation: Generation, state: &mut State, number: usize, instruction: &Instruction) {
    if state.is_empty() && counter(instruction).is_none() {
        return;
    }
    let [vector, lds, scalar] = waits(generation, instruction);
    state.retain(|pending| match pending.counter {
        Counter::Vector => vector.is_none_or(|most| most > pending.later),
        Counter::Lds => lds.is_none_or(|most| most > pending.later),
        // Scalar loads return in any order.
        Counter::Scalar => scalar != Some(0),
    });
    let name = instruction.name;
    if name == "s_swappc_b64" {
        // What the called function waits for is not known here.
        state.clear();
    }
    let written = match counter(instruction) {
        Some((kind, returns)) => {
            for pending in state.iter_mut().filter(|pending| same(generation, pending.counter, kind)) {
                pending.later = pending.later.saturating_add(1);
            }
            let first = if kind == Counter::Scalar {
                SCALAR + u16::from(instruction.scalar)
            } else {
                instruction.destination
            };
            let count = if returns { words(name) } else { 0 };
            for register in first..first + count {
                state.retain(|pending| pending.register != register);
                state.push(Pending { register, counter: kind, later: 0, load: number as u32 });
            }
            return;
        }
        None if name.starts_with("v_") => {
            vec![instruction.destination, SCALAR + u16::from(instruction.scalar)]
        }
        None if name.starts_with("s_") => vec![SCALAR + u16::from(instruction.scalar)],
        None => return,
    };
    let inner = instruction.inner.as_deref().unwrap_or_default();
    let by_inner = |register: u16| inner.iter().any(|part| part.destination == register);
    state.retain(|pending| !written.contains(&pending.register) && !by_inner(pending.register));
}

/// Adds another path's pending registers. Returns whether that changes the state.
fn join(state: &mut State, other: &State) -> bool {
    let mut changed = false;
    for pending in other {
        match state
            .iter_mut()
            .find(|known| (known.register, known.counter) == (pending.register, pending.counter))
        {
            Some(known) if known.later <= pending.later => {}
            Some(known) => {
                *known = *pending;
                changed = true;
            }
            None => {
                state.push(*pending);
                changed = true;
            }
        }
    }
    changed
}

fn is_branch(name: &str) -> bool {
    name == "s_branch" || name.starts_with("s_cbranch")
}

/// Whether the next instruction is reached only by a jump.
fn ends(name: &str) -> bool {
    matches!(name, "s_branch" | "s_endpgm" | "s_setpc_b64" | "unknown")
}

/// Puts a fault in the place of every instruction that reads a register without waiting for the load. `branches` are
/// set already: an index beyond the end is no instruction.
pub(super) fn check(family: &Family, instructions: &mut [Instruction]) {
    let generation = family.generation;
    let mut leads = vec![false; instructions.len() + 1];
    leads[0] = true;
    for (number, instruction) in instructions.iter().enumerate() {
        if is_branch(instruction.name) {
            leads[instruction.target as usize] = true;
            leads[number + 1] = true;
        } else if ends(instruction.name) {
            leads[number + 1] = true;
        }
    }
    let mut states: Vec<Option<State>> = leads.iter().map(|&lead| lead.then(State::new)).collect();
    // The first place in the code comes first, so that most places are visited once or twice.
    let mut work: BTreeSet<usize> = (0..instructions.len()).filter(|&number| leads[number]).collect();
    while let Some(start) = work.pop_first() {
        let mut state = states[start].clone().unwrap_or_default();
        let mut number = start;
        while let Some(instruction) = instructions.get(number) {
            step(generation, &mut state, number, instruction);
            let next = (!ends(instruction.name) && leads[number + 1]).then_some(number + 1);
            let target = is_branch(instruction.name).then_some(instruction.target as usize);
            for place in [next, target].into_iter().flatten() {
                if states[place].as_mut().is_some_and(|known| join(known, &state)) {
                    work.insert(place);
                }
            }
            number += 1;
            if leads[number] {
                break;
            }
        }
    }
    let mut faults = Vec::new();
    let mut state = State::new();
    for (number, instruction) in instructions.iter().enumerate() {
        if let Some(known) = &states[number] {
            state.clone_from(known);
        }
        if !state.is_empty() {
            let read = reads(instruction);
            faults.extend(
                state.iter().find(|pending| read.contains(&pending.register)).map(|found| (number, *found)),
            );
        }
        step(generation, &mut state, number, instruction);
    }
    for (number, found) in faults {
        let load = instructions[found.load as usize].clone();
        let place = &mut instructions[number];
        place.execute = missing_wait;
        place.immediate = i64::from(found.register);
        place.inner = Some(Box::new([load]));
    }
}

/// The addresses of the instructions that [`check`] has replaced.
#[cfg(test)]
pub(super) fn missing(instructions: &[Instruction]) -> Vec<u32> {
    let handler = missing_wait as crate::isa::wave::Handler;
    let replaced = |instruction: &&Instruction| std::ptr::fn_addr_eq(instruction.execute, handler);
    instructions.iter().filter(replaced).map(|instruction| instruction.pc).collect()
}
