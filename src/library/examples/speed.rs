//! Prints how many positions of random games are evaluated in a second, to compare with `rukh backendbench`.
//!
//! usage: speed NETWORK [BACKEND] [SECONDS]

use librukh::{Error, Evaluator, EvaluatorOptions, Network, Position};
use std::time::{Duration, Instant};

/// Positions of random games, each with the moves before it.
fn positions(count: usize) -> Result<Vec<Position>, Error> {
    let mut positions = Vec::new();
    let mut game = Position::start();
    for step in 0..count {
        let moves = game.legal_moves();
        if moves.is_empty() || step % 120 == 119 {
            game = Position::start();
        } else {
            game.play_move(moves[step.wrapping_mul(0x9e37_79b9) % moves.len()])?;
        }
        positions.push(game.clone());
    }
    Ok(positions)
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let network = Network::open(arguments.next().expect("a network file"))?;
    let options = EvaluatorOptions::on(&arguments.next().unwrap_or_else(|| "auto".to_owned()));
    let seconds = arguments.next().map_or(10.0, |seconds| seconds.parse().expect("seconds"));
    let evaluator = Evaluator::new(&network, &options)?;
    let positions = positions(4096)?;
    evaluator.evaluate(&positions[..512])?;
    let (begin, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut evaluated = 0;
    while begin.elapsed() < limit {
        let part = evaluated % positions.len();
        evaluated += evaluator.evaluate(&positions[part..positions.len().min(part + 1024)])?.len();
    }
    println!("{}: {:.0} positions/s", evaluator.name(), evaluated as f64 / begin.elapsed().as_secs_f64());
    Ok(())
}
