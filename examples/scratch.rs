use rukh::backend::*;
use rukh::chess::*;
use std::time::Instant;
fn main() {
    let fens = [
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "r1bq1rk1/pp2bppp/2n2n2/2pp4/3P4/2NBPN2/PPQ2PPP/R1B2RK1 w - - 0 9",
        "8/5pk1/6p1/8/4P3/3K2P1/r7/5R2 b - - 0 50",
    ];
    let data: Vec<_> = fens
        .iter()
        .map(|f| {
            let h = PositionHistory::new(Position::from_fen(f).unwrap());
            let m: Vec<PackedMove> = h.last().legal_moves().into_iter().map(PackedMove::new).collect();
            (h, m)
        })
        .collect();
    let backends: Vec<(&str, Box<dyn Backend>)> = vec![
        ("trivial", Box::new(trivial::TrivialBackend::new())),
        ("random", Box::new(random::RandomBackend::new(Default::default()))),
        (
            "cache hit",
            Box::new(
                cache::CachingBackend::new(std::sync::Arc::new(trivial::TrivialBackend::new()), 200000, 0)
                    .unwrap(),
            ),
        ),
        (
            "cache(7) hit",
            Box::new(
                cache::CachingBackend::new(std::sync::Arc::new(trivial::TrivialBackend::new()), 200000, 7)
                    .unwrap(),
            ),
        ),
    ];
    for (name, b) in &backends {
        for (h, m) in &data {
            let mut best = f64::MAX;
            for _ in 0..300 {
                let t = Instant::now();
                for _ in 0..4 {
                    let mut batch = b.new_batch();
                    for _ in 0..256 {
                        batch.add(EvalRequest { history: h, moves: m });
                    }
                    std::hint::black_box(batch.submit().wait().unwrap());
                }
                best = best.min(t.elapsed().as_nanos() as f64 / (4 * 256) as f64);
            }
            println!("{name} {} moves: {best:.1} ns", m.len());
        }
    }
}
