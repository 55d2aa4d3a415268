//! Kernels that scale and shift whole boards: the last step of squeeze-and-excitation, and the gates of an
//! embedding.

use super::SQUARES;
use super::elementary::{activate_slice, floor_and_rest};
use crate::simd::{Kernel, Simd};
use rukh_net::architecture::Activation;

/// The last step of squeeze-and-excitation: `residual = act(sigmoid(scale) y + shift + residual)`.
pub(crate) struct ScaleAndAdd<'a> {
    /// `[position][64][channels]`
    pub y: &'a [f32],
    /// `[position][2 * channels]`: the scales before the sigmoid, and then the shifts. The kernel overwrites the
    /// scales.
    pub excitation: &'a mut [f32],
    /// `[position][64][channels]`: the residual, which the kernel replaces with the result.
    pub residual: &'a mut [f32],
    pub channels: usize,
    /// The function `act`.
    pub activation: Activation,
}

impl Kernel for ScaleAndAdd<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let channels = self.channels.max(1);
        let (lowest, after) = floor_and_rest(self.activation);
        let floor = simd.splat(lowest);
        for (position, y) in self.y.chunks_exact(SQUARES * channels).enumerate() {
            let residual = &mut self.residual[position * SQUARES * channels..][..SQUARES * channels];
            let excitation = &mut self.excitation[position * 2 * channels..][..2 * channels];
            let (scales, shifts) = excitation.split_at_mut(channels);
            activate_slice(simd, Activation::Sigmoid, scales);
            let whole = channels / S::LANES * S::LANES;
            for channel in (0..whole).step_by(S::LANES) {
                let scale = simd.load(&scales[channel..]);
                let shift = simd.load(&shifts[channel..]);
                for square in 0..SQUARES {
                    let at = square * channels + channel;
                    let place = &mut residual[at..];
                    let scaled = simd.mul_add(simd.load(&y[at..]), scale, shift);
                    simd.store(simd.max(floor, simd.add(scaled, simd.load(place))), place);
                }
            }
            for channel in whole..channels {
                for square in 0..SQUARES {
                    let at = square * channels + channel;
                    let value = y[at] * scales[channel] + shifts[channel] + residual[at];
                    residual[at] = if value < lowest { lowest } else { value };
                }
            }
            activate_slice(simd, after, residual);
        }
    }
}

/// The gates of an embedding: `data = data * multiply + add` for each position.
pub(crate) struct Gate<'a> {
    /// `[position][64][width]`
    pub data: &'a mut [f32],
    /// `[64][width]`
    pub multiply: &'a [f32],
    /// `[64][width]`
    pub add: &'a [f32],
}

impl Kernel for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for board in self.data.chunks_exact_mut(self.multiply.len().max(1)) {
            // A board has 64 * width elements, which is a multiple of every vector length.
            let gates = self.multiply.chunks_exact(S::LANES).zip(self.add.chunks_exact(S::LANES));
            for (x, (multiply, add)) in board.chunks_exact_mut(S::LANES).zip(gates) {
                simd.store(simd.mul_add(simd.load(x), simd.load(multiply), simd.load(add)), x);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matrix::tests::noise;
    use crate::simd::Isa;

    #[test]
    fn scale_and_add_matches_the_definition() {
        for isa in Isa::tested() {
            for channels in [1, 15, 16, 33, 64] {
                let y = noise(2 * 64 * channels, 1);
                let residual = noise(2 * 64 * channels, 2);
                let excitation = noise(2 * 2 * channels, 3);
                let mut out = residual.clone();
                isa.run(ScaleAndAdd {
                    y: &y,
                    excitation: &mut excitation.clone(),
                    residual: &mut out,
                    channels,
                    activation: Activation::Relu,
                });
                for (i, got) in out.iter().enumerate() {
                    let (position, channel) = (i / (64 * channels), i % channels);
                    let scale = f64::from(excitation[position * 2 * channels + channel]);
                    let shift = f64::from(excitation[position * 2 * channels + channels + channel]);
                    let right = f64::from(y[i]) / (1.0 + (-scale).exp()) + shift + f64::from(residual[i]);
                    assert!((f64::from(*got) - right.max(0.0)).abs() < 1e-6, "{}", isa.name());
                }
            }
        }
    }

    #[test]
    fn gates_scale_and_shift_each_square() {
        for isa in Isa::tested() {
            for width in [1, 15, 16, 33] {
                let (data, multiply, add) =
                    (noise(2 * 64 * width, 1), noise(64 * width, 2), noise(64 * width, 3));
                let mut out = data.clone();
                isa.run(Gate { data: &mut out, multiply: &multiply, add: &add });
                for (i, got) in out.iter().enumerate() {
                    let gate = i % (64 * width);
                    let right = data[i] * multiply[gate] + add[gate];
                    assert!((got - right).abs() < 1e-6, "{} width {width}", isa.name());
                }
            }
        }
    }
}
