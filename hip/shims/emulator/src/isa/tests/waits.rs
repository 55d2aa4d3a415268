//! Missing waits between a load and the first use of its data. The comments at the codes are LLVM's assembly.

use super::*;

/// What is wrong with a kernel of these words, or an empty text.
fn missing(architecture: &'static str, words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let program = Code { architecture, bytes }.decode();
    program.missing_wait(Family::of(architecture).unwrap(), 0).unwrap_or_default()
}

/// Checks that a kernel for gfx1100 is right, and that it would be wrong without its only wait.
fn needed(parts: &[&[u32]], wait: u32) {
    let mut words = parts.concat();
    assert_eq!(missing("gfx1100", &words), "", "{words:x?}");
    let place = words.iter().position(|&word| word == wait).unwrap();
    words[place] = NOTHING;
    assert_ne!(missing("gfx1100", &words), "", "{words:x?}");
}

// The following codes are gfx1100's.
const NOTHING: u32 = 0xbf80_0000; // s_nop 0
const LOAD: &[u32] = &[0xdc52_0000, 0x017c_001e]; // global_load_b32 v1, v[30:31], off
const OTHER_LOAD: &[u32] = &[0xdc52_0000, 0x047c_001e]; // global_load_b32 v4, v[30:31], off
const WIDE_LOAD: &[u32] = &[0xdc5e_0000, 0x047c_0000]; // global_load_b128 v[4:7], v[0:1], off
const FLAT_LOAD: &[u32] = &[0xdc50_0000, 0x017c_0000]; // flat_load_b32 v1, v[0:1]
const STORE: &[u32] = &[0xdc6a_0000, 0x007c_0100]; // global_store_b32 v[0:1], v1, off
const LDS_LOAD: &[u32] = &[0xd9d8_0000, 0x0600_0000]; // ds_load_b64 v[6:7], v0
const LDS_LOAD_PAIR: &[u32] = &[0xd9dc_0100, 0x0600_0000]; // ds_load_2addr_b64 v[6:9], v0 offset1:1
const LDS_STORE_OF_V0: &[u32] = &[0xd834_0000, 0x0000_0000]; // ds_store_b32 v0, v0
const LDS_STORE: &[u32] = &[0xd934_0000, 0x0000_0600]; // ds_store_b64 v0, v[6:7]
const SCALAR_LOAD: &[u32] = &[0xf404_0201, 0xf800_0000]; // s_load_b64 s[8:9], s[2:3], 0x0
const ADD: &[u32] = &[0x0604_0301]; // v_add_f32 v2, v1, v1
const MOVE_TO_V1: &[u32] = &[0x7e02_0280]; // v_mov_b32 v1, 0
const MOVE_V7: &[u32] = &[0x7e04_0307]; // v_mov_b32 v2, v7
const MOVE_V9: &[u32] = &[0x7e04_0309]; // v_mov_b32 v2, v9
const DUAL_MOVE: &[u32] = &[0xca10_0107, 0x0202_0101]; // v_dual_mov_b32 v2, v7 :: v_dual_mov_b32 v3, v1
const SHIFT_BY_V6: &[u32] = &[0xd73c_0002, 0x0002_1506]; // v_lshlrev_b64 v[2:3], v6, v[10:11]
const SHIFT_OF_V6: &[u32] = &[0xd73c_0002, 0x0002_0d0a]; // v_lshlrev_b64 v[2:3], v10, v[6:7]
const MATRIX: &[u32] = &[0xcc40_4010, 0x1c42_1100]; // v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23]
const SCALAR_ADD: &[u32] = &[0x8004_0909]; // s_add_u32 s4, s9, s9
const SCALAR_AND: &[u32] = &[0x8b84_0808]; // s_and_b64 s[4:5], s[8:9], s[8:9]
const JUMP_TO_REGISTER: &[u32] = &[0xbe80_4800]; // s_setpc_b64 s[0:1]
const END: &[u32] = &[0xbfb0_0000]; // s_endpgm
const WAIT: u32 = 0xbf89_03f7; // s_waitcnt vmcnt(0)
const WAIT_BUT_ONE: u32 = 0xbf89_07f7; // s_waitcnt vmcnt(1)
const WAIT_LDS: u32 = 0xbf89_fc07; // s_waitcnt lgkmcnt(0)
const WAIT_LDS_BUT_ONE: u32 = 0xbf89_fc17; // s_waitcnt lgkmcnt(1)
const WAIT_BOTH: u32 = 0xbf89_0007; // s_waitcnt vmcnt(0) lgkmcnt(0)

/// s_cbranch_scc0, over this number of words.
fn branch(words: i16) -> u32 {
    0xbfa1_0000 | u32::from(words as u16)
}

#[test]
fn every_family_needs_a_wait_between_a_load_and_the_use_of_its_data() {
    // A load of v1, its wait, and v_add_f32 v2, v1, v1; then ds_load v1, its wait, and the same sum.
    let gfx10: [&[u32]; 2] =
        [&[0xdc30_8000, 0x017d_0000, 0xbf8c_3f70], &[0xd8d8_0000, 0x0100_0000, 0xbf8c_c07f]];
    let gfx11: [&[u32]; 2] = [&[LOAD[0], LOAD[1], WAIT], &[0xd8d8_0000, 0x0100_0000, WAIT_LDS]];
    let gfx12: [&[u32]; 2] = [&[0xee05_007c, 1, 0, 0xbfc0_0000], &[0xd8d8_0000, 0x0100_0000, 0xbfc6_0000]];
    for (architecture, words, told) in [
        (
            "gfx1030",
            gfx10[0],
            "at 0xc (v_add_f32): v1 is read without a wait for vmcnt after global_load_dword at 0x0",
        ),
        (
            "gfx1030",
            gfx10[1],
            "at 0xc (v_add_f32): v1 is read without a wait for lgkmcnt after ds_read_b32 at 0x0",
        ),
        (
            "gfx1100",
            gfx11[0],
            "at 0xc (v_add_f32): v1 is read without a wait for vmcnt after global_load_b32 at 0x0",
        ),
        (
            "gfx1100",
            gfx11[1],
            "at 0xc (v_add_f32): v1 is read without a wait for lgkmcnt after ds_load_b32 at 0x0",
        ),
        (
            "gfx1200",
            gfx12[0],
            "at 0x10 (v_add_f32): v1 is read without a wait for loadcnt after global_load_b32 at 0x0",
        ),
        (
            "gfx1200",
            gfx12[1],
            "at 0xc (v_add_f32): v1 is read without a wait for dscnt after ds_load_b32 at 0x0",
        ),
    ] {
        let (_, load) = words.split_last().unwrap();
        assert_eq!(missing(architecture, &[words, ADD].concat()), "");
        assert_eq!(missing(architecture, &[load, &[NOTHING], ADD].concat()), told);
    }
}

#[test]
fn operations_are_counted_as_the_hardware_counts_them() {
    // Loads end in order: to wait for all but one is enough only for the first of two.
    needed(&[LOAD, OTHER_LOAD, &[WAIT_BUT_ONE], ADD], WAIT_BUT_ONE);
    assert_ne!(missing("gfx1100", &[OTHER_LOAD, LOAD, &[WAIT_BUT_ONE], ADD].concat()), "");
    // A store has another counter than the loads.
    assert_ne!(missing("gfx1100", &[LOAD, STORE, &[WAIT_BUT_ONE], ADD].concat()), "");
    // The same counter counts LDS and scalar loads, but scalar loads may end first.
    needed(&[LDS_LOAD, LDS_STORE_OF_V0, &[WAIT_LDS_BUT_ONE], MOVE_V7], WAIT_LDS_BUT_ONE);
    assert_ne!(missing("gfx1100", &[LDS_LOAD, SCALAR_LOAD, &[WAIT_LDS_BUT_ONE], MOVE_V7].concat()), "");
    needed(&[SCALAR_LOAD, &[WAIT_LDS], SCALAR_ADD], WAIT_LDS);
    assert_ne!(missing("gfx1100", &[SCALAR_LOAD, LDS_STORE, &[WAIT_LDS_BUT_ONE], SCALAR_ADD].concat()), "");
    // A flat address may mean LDS or global memory, so that the load needs both waits.
    needed(&[FLAT_LOAD, &[WAIT_BOTH], ADD], WAIT_BOTH);
    for wait in [WAIT, WAIT_LDS] {
        assert_ne!(missing("gfx1100", &[FLAT_LOAD, &[wait], ADD].concat()), "");
    }
    // gfx12: the load of v1 and s_wait_dscnt 0, s_wait_loadcnt_dscnt 0
    for (wait, right) in [(0xbfc6_0000, false), (0xbfc8_0000, true)] {
        assert_eq!(missing("gfx1200", &[&[0xee05_007c, 1, 0, wait], ADD].concat()).is_empty(), right);
    }
    // gfx12: s_load_b96 s[8:10], s[2:3], 0x0; s_wait_dscnt 0 or s_wait_kmcnt 0; s_mov_b32 s4, s10
    for (wait, right) in [(0xbfc6_0000, false), (0xbfc7_0000, true)] {
        assert_eq!(missing("gfx1200", &[0xf400_a201, 0xf800_0000, wait, 0xbe84_000a]).is_empty(), right);
    }
    // gfx10's count of vector memory has two parts: s_waitcnt vmcnt(20)
    let many = [0xdc30_8000, 0x047d_001e].repeat(20);
    assert_eq!(missing("gfx1030", &[&[0xdc30_8000, 0x017d_0000], &*many, &[0xbf8c_7f74], ADD].concat()), "");
    assert_ne!(
        missing("gfx1030", &[&[0xdc30_8000, 0x017d_0000], &many[2..], &[0xbf8c_7f74], ADD].concat()),
        ""
    );
}

#[test]
fn all_registers_of_a_load_and_of_an_operand_count() {
    needed(&[WIDE_LOAD, &[WAIT], MOVE_V7], WAIT);
    assert_eq!(missing("gfx1100", &[WIDE_LOAD, ADD].concat()), "");
    needed(&[LDS_LOAD_PAIR, &[WAIT_LDS], MOVE_V9], WAIT_LDS);
    needed(&[LDS_LOAD, &[WAIT_LDS], DUAL_MOVE], WAIT_LDS);
    needed(&[LDS_LOAD, &[WAIT_LDS], LDS_STORE], WAIT_LDS);
    needed(&[WIDE_LOAD, &[WAIT], LDS_STORE], WAIT);
    needed(&[LDS_LOAD, &[WAIT_LDS], MATRIX], WAIT_LDS);
    needed(&[SCALAR_LOAD, &[WAIT_LDS], SCALAR_AND], WAIT_LDS);
    needed(&[LOAD, &[WAIT], STORE], WAIT);
    // The address of another load.
    needed(&[LOAD, &[WAIT], WIDE_LOAD], WAIT);
    // The shift's count is one register, and its other operand two.
    needed(&[LDS_LOAD, &[WAIT_LDS], SHIFT_BY_V6], WAIT_LDS);
    needed(&[&[0xd8d8_0000, 0x0700_0000], &[WAIT_LDS], SHIFT_OF_V6], WAIT_LDS);
    assert_eq!(missing("gfx1100", &[&[0xd8d8_0000, 0x0700_0000], SHIFT_BY_V6].concat()), "");
    // The load may end after a calculation that writes its register.
    needed(&[LOAD, &[WAIT], MOVE_TO_V1, ADD], WAIT);
}

#[test]
fn every_path_to_a_use_needs_its_wait() {
    // A loop: the use in the next round comes after the load.
    needed(&[ADD, LOAD, &[WAIT, branch(-5)], END], WAIT);
    // The second-last load of the round before has ended, and the last one has not.
    needed(&[&[WAIT_BUT_ONE], ADD, LOAD, OTHER_LOAD, &[branch(-7)], END], WAIT_BUT_ONE);
    assert_ne!(
        missing("gfx1100", &[&[WAIT_BUT_ONE], ADD, OTHER_LOAD, LOAD, &[branch(-7)], END].concat()),
        ""
    );
    // A branch around the wait.
    assert_ne!(missing("gfx1100", &[LOAD, &[branch(1), WAIT], ADD, END].concat()), "");
    needed(&[LOAD, &[branch(0), WAIT], ADD, END], WAIT);
    // Code after the end is not reached with the loads before it.
    assert_eq!(missing("gfx1100", &[LOAD, END, ADD].concat()), "");
    // A second path to the same place has fewer later loads.
    let paths = |around: i16| [LOAD, &[branch(around)], OTHER_LOAD, &[WAIT_BUT_ONE], ADD, END].concat();
    assert_eq!(missing("gfx1100", &paths(0)), "");
    assert_ne!(missing("gfx1100", &paths(2)), "");
    // The paths of a kernel with jumps to addresses in registers are not known.
    assert_eq!(missing("gfx1100", &[LOAD, ADD, JUMP_TO_REGISTER].concat()), "");
}
