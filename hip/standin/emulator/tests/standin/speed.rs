//! How fast the emulator is: printed, not judged.

use std::time::Instant;

use crate::{argument, libraries, noise};

#[test]
fn instructions_per_second() {
    let (lib, _turn) = libraries();
    let mut x = lib.upload(&noise(1, 256));
    let (mut a, mut b, mut steps) = (0.5f32, 0.25f32, 2000i32);
    let stream = lib.stream();
    let mut arguments = [argument(&mut x), argument(&mut a), argument(&mut b), argument(&mut steps)];
    for groups in [1, 16] {
        let (before, start) = (lib.instructions(), Instant::now());
        lib.launch(c"busy", (groups, 256), stream, &mut arguments);
        lib.check(lib.wait(stream));
        let rate = (lib.instructions() - before) as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("{groups} workgroups: {rate:.0} million wave instructions per second");
    }
}
