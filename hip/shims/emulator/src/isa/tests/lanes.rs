//! Exchanges between lanes, and instructions between the lanes and scalar registers.

use super::super::special::dpp_source;
use super::*;

#[test]
fn lanes_exchange_numbers() {
    let quad = [1, 0, 3, 2];
    type Source = Box<dyn Fn(usize) -> Option<usize>>;
    let in_row = |lane: usize, place: usize| (lane & 16) | place;
    let mut tested = 0;
    for (text, code) in instructions() {
        // `from` returns the lane that a lane reads, or `None` if the lane keeps its old value. `written` is the mask
        // of the lanes that are written.
        let (from, written): (Source, u32) = match text.as_str() {
            t if t.contains("quad_perm:[1,0,3,2]") => {
                (Box::new(move |lane| Some((lane & !3) | quad[lane & 3])), !0)
            }
            t if t.contains("row_shr:4") => (Box::new(|lane| (lane % 16 >= 4).then(|| lane - 4)), !0),
            t if t.contains("row_ror:3") => {
                (Box::new(move |lane| Some(in_row(lane, (lane + 13) % 16))), 0x0f0f_0f0f)
            }
            t if t.contains("row_mirror") => {
                (Box::new(move |lane| Some(in_row(lane, 15 - lane % 16))), 0x0000_ffff)
            }
            t if t.contains("row_half_mirror") => (Box::new(|lane| Some(lane ^ 7)), !0),
            t if t.contains("row_share:5") => (Box::new(move |lane| Some(in_row(lane, 5))), !0),
            t if t.contains("row_xmask:6") => (Box::new(|lane| Some(lane ^ 6)), !0),
            t if t.contains("dpp8:") => (Box::new(|lane| Some(lane ^ 7)), !0),
            t if t.starts_with("v_permlanex16") => (Box::new(|lane| Some(lane ^ 16)), !0),
            t if t.starts_with("v_permlane16") => (Box::new(Some), !0),
            _ => continue,
        };
        tested += 1;
        let ran = run(&code, 8, u32::MAX, |_| {});
        for lane in 0..WAVE {
            let old = ran.before.vector[3].0[lane];
            let moved = from(lane).filter(|_| (written >> lane) & 1 == 1);
            let expected = moved.map_or(old, |from| {
                let value = ran.before.vector[0].0[from];
                let other = ran.before.vector[1].0[lane];
                if text.starts_with("v_add_f32") { single(f(value) + f(other)) } else { value }
            });
            let found = ran.after.vector[3].0[lane];
            assert!(
                same(Kind::Single(0), found, expected, old),
                "{text}: lane {lane}: {found:#x}, not {expected:#x}"
            );
        }
        assert_eq!(ran.after.exec(), u32::MAX, "{text}");
    }
    assert_eq!(tested, 10 + 10 + 10 + 5 + 5);
    // Inactive lanes are not read. With `bound_ctrl`, zero takes the place of their values.
    let (text, code) = instructions().into_iter().find(|(text, _)| text.contains("row_shl:1")).unwrap();
    let ran = run(&code, 9, 0xffff_fff7, |_| {});
    for lane in (0..WAVE).filter(|&lane| lane != 3) {
        let value = if lane % 16 == 15 || lane == 2 { 0 } else { ran.before.vector[0].0[lane + 1] };
        let expected = single(f(value) + f(ran.before.vector[1].0[lane]));
        assert!(same(Kind::Single(0), ran.after.vector[3].0[lane], expected, 0), "{text}: lane {lane}");
    }
    assert_eq!(dpp_source(0x111, 0), None);
}

#[test]
fn scalar_registers_take_masks_carries_and_sums() {
    let mut tested = 0;
    let matrix = |text: &str| text.starts_with("v_wmma") || text.starts_with("v_mfma");
    for (text, code) in instructions().into_iter().filter(|(text, _)| !matrix(text)) {
        let exec = 0xffff_0ff0;
        let ran = run(&code, 11, exec, |_| {});
        let (before, after) = (&ran.before, &ran.after);
        let (a, b) = (&before.vector[0].0, &before.vector[1].0);
        let mask = |test: &dyn Fn(usize) -> bool| {
            (0..WAVE).fold(0, |mask, lane| mask | u32::from(test(lane)) << lane) & exec
        };
        let wide = |wave: &Wave, register: usize, lane: usize| {
            u64::from(wave.vector[register].0[lane]) | u64::from(wave.vector[register + 1].0[lane]) << 32
        };
        let active = |lane: &usize| (exec >> lane) & 1 == 1;
        let vcc = after.scalar[usize::from(VCC)];
        let (s6, s7) = (after.scalar[6], after.scalar[7]);
        let (p, q) = (S4 as i32, S5 as i32);
        match text.as_str() {
            "v_cmp_lt_f32 vcc_lo, v0, v1" => assert_eq!(vcc, mask(&|lane| f(a[lane]) < f(b[lane]))),
            "v_cmp_nge_f32 vcc_lo, v0, v1" => assert_eq!(vcc, mask(&|lane| !(f(a[lane]) >= f(b[lane])))),
            "v_cmp_eq_u32 s6, v0, v1" => assert_eq!(s6, mask(&|lane| a[lane] == b[lane])),
            "v_cmp_gt_i32 vcc_lo, v0, v1" => assert_eq!(vcc, mask(&|lane| a[lane] as i32 > b[lane] as i32)),
            "v_cmpx_le_u16 v0, v1" => {
                assert_eq!(after.exec(), mask(&|lane| a[lane] & 0xffff <= b[lane] & 0xffff));
            }
            "v_cmp_class_f32 vcc_lo, v0, v1" => {
                let class = |bits: u32| {
                    let value = f32::from_bits(bits);
                    let sign = |positive: u32, negative: u32| {
                        if value.is_sign_negative() { negative } else { positive }
                    };
                    match value.classify() {
                        std::num::FpCategory::Nan => u32::from(bits & 0x40_0000 != 0),
                        std::num::FpCategory::Infinite => sign(9, 2),
                        std::num::FpCategory::Normal => sign(8, 3),
                        std::num::FpCategory::Subnormal => sign(7, 4),
                        std::num::FpCategory::Zero => sign(6, 5),
                    }
                };
                assert_eq!(vcc, mask(&|lane| (b[lane] >> class(a[lane])) & 1 == 1));
            }
            "v_cndmask_b32 v3, v0, v1, vcc_lo" => {
                for lane in (0..WAVE).filter(active) {
                    let expected = if (CARRY >> lane) & 1 == 1 { b[lane] } else { a[lane] };
                    assert_eq!(after.vector[3].0[lane], expected);
                }
            }
            "v_mad_u64_u32 v[4:5], null, v0, v1, v[6:7]" => {
                for lane in (0..WAVE).filter(active) {
                    let product =
                        u128::from(a[lane]) * u128::from(b[lane]) + u128::from(wide(before, 6, lane));
                    assert_eq!(wide(after, 4, lane), product as u64);
                }
            }
            "v_lshlrev_b64 v[4:5], 7, v[6:7]" => {
                for lane in (0..WAVE).filter(active) {
                    assert_eq!(wide(after, 4, lane), wide(before, 6, lane) << 7);
                }
            }
            "v_add_co_u32 v3, vcc_lo, v0, v1" => {
                assert_eq!(vcc, mask(&|lane| u64::from(a[lane]) + u64::from(b[lane]) > u64::from(u32::MAX)));
            }
            "v_sub_co_ci_u32 v3, vcc_lo, v0, v1, vcc_lo" => {
                let borrow = |lane: usize| i64::from(b[lane]) + i64::from((CARRY >> lane) & 1);
                assert_eq!(vcc, mask(&|lane| i64::from(a[lane]) < borrow(lane)));
                for lane in (0..WAVE).filter(active) {
                    assert_eq!(after.vector[3].0[lane], (i64::from(a[lane]) - borrow(lane)) as u32);
                }
            }
            "v_readlane_b32 s6, v0, 17" => assert_eq!(s6, a[17]),
            "v_readfirstlane_b32 s6, v0" => assert_eq!(s6, a[4]),
            "v_writelane_b32 v3, s4, 5" => {
                assert_eq!(after.vector[3].0[5], S4);
                assert_eq!(after.vector[3].0[6], before.vector[3].0[6]);
            }
            "v_mbcnt_lo_u32_b32 v3, s4, v1" => {
                for lane in (0..WAVE).filter(active) {
                    let below = (0..lane).filter(|bit| (S4 >> bit) & 1 == 1).count() as u32;
                    assert_eq!(after.vector[3].0[lane], below.wrapping_add(b[lane]));
                }
            }
            "v_dual_mul_f32 v4, v1, v0 :: v_dual_add_f32 v5, v4, v3" => {
                for lane in (0..WAVE).filter(active) {
                    let at = |register: usize| f(before.vector[register].0[lane]);
                    assert!(same(Kind::Single(0), after.vector[4].0[lane], single(at(1) * at(0)), 0));
                    assert!(
                        same(Kind::Single(0), after.vector[5].0[lane], single(at(4) + at(3)), 0),
                        "the second part reads the old v4"
                    );
                }
            }
            "v_dual_fmac_f32 v4, v0, v1 :: v_dual_cndmask_b32 v5, v2, v3" => {
                for lane in (0..WAVE).filter(active) {
                    let at = |register: usize| before.vector[register].0[lane];
                    let sum = f32::from_bits(at(0)).mul_add(f32::from_bits(at(1)), f32::from_bits(at(4)));
                    assert!(same(Kind::Single(0), after.vector[4].0[lane], sum.to_bits(), 0));
                    assert_eq!(after.vector[5].0[lane], if (CARRY >> lane) & 1 == 1 { at(3) } else { at(2) });
                }
            }
            "s_add_u32 s6, s4, s5" => assert_eq!((s6, after.scc), S4.overflowing_add(S5)),
            "s_addc_u32 s6, s4, s5" => {
                let sum = u64::from(S4) + u64::from(S5) + 1;
                assert_eq!((s6, after.scc), (sum as u32, sum >> 32 == 1));
            }
            "s_sub_i32 s6, s4, s5" => assert_eq!((s6 as i32, after.scc), p.overflowing_sub(q)),
            "s_lshl_b64 s[6:7], s[4:5], 5" => {
                let shifted = (u64::from(S4) | u64::from(S5) << 32) << 5;
                assert_eq!(u64::from(s6) | u64::from(s7) << 32, shifted);
            }
            "s_bfe_u32 s6, s4, 0x70003" => assert_eq!(s6, (S4 / 8) % 128),
            "s_bfe_i32 s6, s4, 0x70003" => assert_eq!(s6 as i32, ((S4 / 8) % 128) as i32 - 128),
            "s_mul_hi_i32 s6, s4, s5" => assert_eq!(s6, ((i64::from(p) * i64::from(q)) >> 32) as u32),
            "s_ashr_i32 s6, s4, s5" => assert_eq!(s6 as i32, p >> (S5 % 32)),
            "s_and_not1_b32 s6, s4, s5" => assert_eq!((s6, after.scc), (S4 & !S5, S4 & !S5 != 0)),
            "s_cselect_b32 s6, s4, s5" => assert_eq!(s6, S4, "the condition code is set"),
            "s_pack_lh_b32_b16 s6, s4, s5" => assert_eq!(s6, 0xfedc_3210),
            "s_lshl3_add_u32 s6, s4, s5" => {
                let sum = u64::from(S4) * 8 + u64::from(S5);
                assert_eq!((s6, after.scc), (sum as u32, sum >> 32 != 0));
            }
            "s_min_i32 s6, s4, s5" => assert_eq!((s6 as i32, after.scc), (q, false)),
            "s_ctz_i32_b32 s6, s4" => assert_eq!(s6, 4),
            "s_bcnt1_i32_b32 s6, s4" => assert_eq!(s6, S4.count_ones()),
            "s_brev_b32 s6, s4" => assert_eq!(s6, S4.reverse_bits()),
            "s_movk_i32 s6, 0xff00" => assert_eq!(s6, 0xffff_ff00),
            "s_mov_b64 s[6:7], -1" => assert_eq!((s6, s7), (u32::MAX, u32::MAX)),
            "s_mov_b32 s6, 0x12345678" => assert_eq!(s6, 0x1234_5678),
            "s_cmp_lt_i32 s4, s5" => assert!(!after.scc),
            "s_cmp_gt_u32 s4, s5" => assert!(!after.scc),
            "s_cmpk_lt_i32 s4, 0xfff0" => assert!(!after.scc),
            "s_and_saveexec_b32 s6, s4" => assert_eq!((s6, after.exec(), after.scc), (exec, exec & S4, true)),
            _ => continue,
        }
        tested += 1;
    }
    assert_eq!(tested, 40 + 36 + 36 + 38 + 39, "an instruction of the fixture is not tested here");
}
