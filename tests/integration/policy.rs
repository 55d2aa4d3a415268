//! The policy index: it agrees with lc0's, and it is a bijection.

use crate::{games, planes};
use proptest::prelude::*;
use rukh_chess::{Color, PackedMove, Role, uci_move};
use rukh_net::policy_index::{
    ATTENTION_LOGITS, CONVOLUTION_PLANES, POLICY_SIZE, attention_index, convolution_index, index_of, move_at,
};
use std::collections::HashMap;

#[test]
fn the_index_of_every_legal_move_is_lc0s() {
    let mut transforms = [0; 8];
    for golden in planes::goldens() {
        let last = golden.history.last();
        assert!(!golden.policies.is_empty(), "{}", golden.id);
        for (transform, moves) in &golden.policies {
            transforms[usize::from(*transform)] += 1;
            assert_eq!(last.legal_moves().len(), moves.len(), "{}", golden.id);
            for (text, expected) in moves {
                let m = uci_move::parse(last, text).expect(text);
                let index = index_of(PackedMove::new(m), last.side_to_move(), *transform);
                assert_eq!(index, *expected, "{} in {} under transform {transform}", text, golden.id);
            }
        }
    }
    assert!(transforms.iter().filter(|&&count| count > 0).count() >= 7, "{transforms:?}");
}

#[test]
fn index_of_inverts_move_at_under_every_transform() {
    for side in Color::ALL {
        for transform in 0..8 {
            for index in 0..POLICY_SIZE as u16 {
                let m = move_at(index, side, transform);
                assert_eq!(index_of(m, side, transform), index, "{m:?} for {side} under {transform}");
            }
        }
    }
}

#[test]
fn knight_promotions_share_the_plain_index() {
    let squares = (shakmaty::Square::A7, shakmaty::Square::B8);
    let plain = PackedMove::from_squares(squares.0, squares.1, None);
    let knight = PackedMove::from_squares(squares.0, squares.1, Some(Role::Knight));
    assert_eq!(index_of(plain, Color::White, 0), index_of(knight, Color::White, 0));
    let queen = PackedMove::from_squares(squares.0, squares.1, Some(Role::Queen));
    assert_eq!(index_of(queen, Color::White, 0), 1795);
}

#[test]
fn attention_logits_reach_every_index_once() {
    let mut seen = vec![0; POLICY_SIZE];
    for logit in 0..ATTENTION_LOGITS {
        if let Some(index) = attention_index(logit) {
            seen[usize::from(index)] += 1;
            let m = move_at(index, Color::White, 0);
            if logit < 4096 {
                assert_eq!(m.from() as usize * 64 + m.to() as usize, logit);
            } else {
                let piece = [Role::Queen, Role::Rook, Role::Bishop][(logit - 4096) % 3];
                assert_eq!(m.promotion(), Some(piece));
                let (from, to) = (m.from() as usize, m.to() as usize);
                assert_eq!(4096 + 24 * (from % 8) + 3 * (to % 8) + (logit - 4096) % 3, logit);
            }
        }
    }
    assert!(seen.iter().all(|&times| times == 1));
    assert_eq!(attention_index(ATTENTION_LOGITS), None);
}

#[test]
fn convolution_planes_reach_every_index_once() {
    let mut seen = vec![0; POLICY_SIZE];
    for output in 0..80 * 64 {
        if let Some(index) = convolution_index(output) {
            assert!(output < CONVOLUTION_PLANES * 64);
            seen[usize::from(index)] += 1;
            let m = move_at(index, Color::White, 0);
            assert_eq!(m.from() as usize, output % 64, "output {output}");
        }
    }
    assert!(seen.iter().all(|&times| times == 1));
    // Three outputs checked by hand: plane 1 moves two squares straight ahead, plane 63 is the last of the eight
    // knight's moves, and plane 70 captures to the right and promotes to a rook.
    let at = |plane: usize, square: shakmaty::Square| convolution_index(plane * 64 + square as usize);
    let index = |from, to, role| Some(index_of(PackedMove::from_squares(from, to, role), Color::White, 0));
    use shakmaty::Square::{A7, B8, E2, E4, F3, G1};
    assert_eq!(at(1, E2), index(E2, E4, None));
    assert_eq!(at(63, G1), index(G1, F3, None));
    assert_eq!(at(70, A7), index(A7, B8, Some(Role::Rook)));
}

proptest! {
    #[test]
    fn legal_moves_have_different_indices_under_every_transform(game in games::games()) {
        let history = game.play();
        let position = history.last();
        let side = position.side_to_move();
        for transform in 0..8 {
            let mut taken = HashMap::new();
            for &m in &position.legal_moves() {
                let packed = PackedMove::new(m);
                let index = index_of(packed, side, transform);
                prop_assert!(usize::from(index) < POLICY_SIZE);
                prop_assert_eq!(taken.insert(index, m), None);
                let back = move_at(index, side, transform);
                if packed.promotion() != Some(Role::Knight) {
                    prop_assert_eq!(back, packed);
                } else if transform < 2 {
                    prop_assert_eq!((back.from(), back.to()), (packed.from(), packed.to()));
                }
            }
        }
    }
}
