//! Missing waits between a load and the first use of its data.

use super::*;

/// The fault of each instruction that follows too soon after a load, in the order of the code.
fn faults(architecture: &'static str, words: &[u32]) -> Vec<String> {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let program = Code { architecture, bytes }.decode();
    let replaced = program.instructions.iter().filter(|instruction| instruction.inner.is_some());
    let fault = |instruction: &crate::isa::wave::Instruction| {
        let mut wave = start(1, u32::MAX);
        // SAFETY: only the instruction that reports a missing wait has an inner one here.
        unsafe { (instruction.execute)(&mut wave, instruction) };
        assert!(wave.stop == Stop::Fault);
        format!("{}: {}", instruction.name, wave.fault)
    };
    replaced.map(fault).collect()
}

// On gfx1100: global_load_b32 v1 and v4; v_add_f32 v2, v1, v1; a store of v1; s_waitcnt vmcnt(0), vmcnt(1).
const LOAD: [u32; 2] = [0xdc52_0000, 0x0102_0000];
const OTHER_LOAD: [u32; 2] = [0xdc52_0000, 0x0402_0000];
const ADD: u32 = 0x0604_0301;
const STORE: [u32; 2] = [0xdc6a_0000, 0x0002_0100];
const WAIT: u32 = 0xbf89_03f7;
const WAIT_FOR_ALL_BUT_ONE: u32 = 0xbf89_07f7;
const END: u32 = 0xbfb0_0000;

#[test]
fn a_use_of_loaded_data_without_a_wait_is_a_fault() {
    let [a, b] = LOAD;
    let [c, d] = OTHER_LOAD;
    let [e, f] = STORE;
    let told = "v_add_f32: v1 is read without a wait for global_load_b32 at 0x0";
    assert_eq!(faults("gfx1100", &[a, b, ADD]), [told]);
    assert!(faults("gfx1100", &[a, b, WAIT, ADD]).is_empty());
    // Loads return in order: to wait for all but one is enough only for the first of two.
    assert!(faults("gfx1100", &[a, b, c, d, WAIT_FOR_ALL_BUT_ONE, ADD]).is_empty());
    assert_eq!(faults("gfx1100", &[c, d, a, b, WAIT_FOR_ALL_BUT_ONE, ADD]).len(), 1);
    // A store is not counted together with the loads, and reads its data.
    let told = "global_store_b32: v1 is read without a wait for global_load_b32 at 0x0";
    assert_eq!(faults("gfx1100", &[a, b, e, f]), [told]);
    // ds_load_b64 v[6:7]; v_mov_b32 v2, v7; s_waitcnt lgkmcnt(0)
    assert_eq!(faults("gfx1100", &[0xd9d8_0000, 0x0600_0000, 0x7e04_0307]).len(), 1);
    assert!(faults("gfx1100", &[0xd9d8_0000, 0x0600_0000, 0xbf89_fc07, 0x7e04_0307]).is_empty());
    // s_load_b64 s[8:9]; s_add_u32 s4, s9, s9; s_waitcnt lgkmcnt(1) and lgkmcnt(0). Scalar loads return in any order.
    let (low, high, add) = (0xf404_0201, 0xf800_0000, 0x8004_0909);
    let told = "s_add_u32: s9 is read without a wait for s_load_b64 at 0x0";
    assert_eq!(faults("gfx1100", &[low, high, 0xbf89_fc17, add]), [told]);
    assert!(faults("gfx1100", &[low, high, 0xbf89_fc07, add]).is_empty());
}

#[test]
fn every_path_to_a_use_needs_its_wait() {
    let [a, b] = LOAD;
    // A loop: the use of the next round comes after the load. (s_cbranch_scc0 to the use)
    assert_eq!(faults("gfx1100", &[ADD, a, b, 0xbfa1_fffc, END]).len(), 1);
    assert!(faults("gfx1100", &[ADD, a, b, WAIT, 0xbfa1_fffb, END]).is_empty());
    // A branch around the wait.
    assert_eq!(faults("gfx1100", &[a, b, 0xbfa1_0001, WAIT, ADD]).len(), 1);
    // Code after the end is not reached with the loads before it.
    assert!(faults("gfx1100", &[a, b, END, ADD]).is_empty());
}

#[test]
fn gfx12_waits_for_each_counter_by_itself() {
    let load = [0xee05_0002, 1, 0];
    // s_wait_loadcnt 0, s_wait_dscnt 0, s_wait_loadcnt_dscnt 0
    for (wait, missing) in [(0xbfc0_0000, 0), (0xbfc6_0000, 1), (0xbfc8_0000, 0)] {
        let words = [load.as_slice(), &[wait, ADD]].concat();
        assert_eq!(faults("gfx1200", &words).len(), missing, "{wait:#x}");
    }
    // s_load_b96 s[8:10]; s_wait_dscnt 0 or s_wait_kmcnt 0; s_mov_b32 s4, s10
    for (wait, missing) in [(0xbfc6_0000, 1), (0xbfc7_0000, 0)] {
        let words = [0xf400_a201, 0xf800_0000, wait, 0xbe84_000a];
        assert_eq!(faults("gfx1200", &words).len(), missing, "{wait:#x}");
    }
}
