//! LayerNorm, combined with the residual connection before it.

use crate::simd::{Kernel, Simd};

/// Replaces each row of `data` with `LN(alpha * branch + data)`, or with `LN(data)` if there is no branch. A
/// row `v` has `gammas.len()` elements, and `LN(v) = gamma (v - mean) / sqrt(variance + epsilon) + beta`.
pub(crate) struct LayerNorm<'a> {
    /// The residual stream: a whole number of rows.
    pub data: &'a mut [f32],
    /// The output of the layers beside the residual connection, in the same layout as `data`.
    pub branch: Option<&'a [f32]>,
    /// The factor of the branch.
    pub alpha: f32,
    /// The scale of each column.
    pub gammas: &'a [f32],
    /// The shift of each column.
    pub betas: &'a [f32],
    pub epsilon: f32,
}

impl Kernel for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let width = self.gammas.len();
        assert_eq!(self.betas.len(), width, "one beta for each gamma");
        if width == 0 {
            return;
        }
        match self.branch {
            Some(branch) => {
                assert_eq!(branch.len(), self.data.len(), "branch and residual have the same rows");
                let alpha = simd.splat(self.alpha);
                for (row, branch) in self.data.chunks_exact_mut(width).zip(branch.chunks_exact(width)) {
                    let mean = sum_with_branch(simd, row, branch, alpha) / width as f32;
                    normalise(simd, row, mean, self.gammas, self.betas, self.epsilon);
                }
            }
            None => {
                for row in self.data.chunks_exact_mut(width) {
                    let mean = total(simd, row) / width as f32;
                    normalise(simd, row, mean, self.gammas, self.betas, self.epsilon);
                }
            }
        }
    }
}

/// Computes `row += alpha * branch` and returns the sum of the new row.
#[inline(always)]
fn sum_with_branch<S: Simd>(simd: S, row: &mut [f32], branch: &[f32], alpha: S::Vector) -> f32 {
    let mut sums = simd.splat(0.0);
    let mut rows = row.chunks_exact_mut(S::LANES);
    let mut branches = branch.chunks_exact(S::LANES);
    for (x, b) in (&mut rows).zip(&mut branches) {
        let v = simd.mul_add(simd.load(b), alpha, simd.load(x));
        simd.store(v, x);
        sums = simd.add(sums, v);
    }
    let (x, b) = (rows.into_remainder(), branches.remainder());
    if !x.is_empty() {
        let v = simd.mul_add(simd.load_some(b), alpha, simd.load_some(x));
        simd.store_some(v, x);
        sums = simd.add(sums, v);
    }
    simd.sum(sums)
}

#[inline(always)]
fn total<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let mut sums = simd.splat(0.0);
    let vectors = row.chunks_exact(S::LANES);
    let rest = vectors.remainder();
    for x in vectors {
        sums = simd.add(sums, simd.load(x));
    }
    simd.sum(simd.add(sums, simd.load_some(rest)))
}

#[inline(always)]
fn normalise<S: Simd>(simd: S, row: &mut [f32], mean: f32, gammas: &[f32], betas: &[f32], epsilon: f32) {
    // A second pass sums the squared differences from the mean. Computing the variance from the sum of the
    // squares in one pass would lose digits.
    let centre = simd.splat(mean);
    let mut squares = simd.splat(0.0);
    let vectors = row.chunks_exact(S::LANES);
    let rest = vectors.remainder();
    for x in vectors {
        let difference = simd.sub(simd.load(x), centre);
        squares = simd.mul_add(difference, difference, squares);
    }
    let mut sum = simd.sum(squares);
    for x in rest {
        sum += (x - mean) * (x - mean);
    }
    let scale = 1.0 / (sum / row.len() as f32 + epsilon).sqrt();

    let scales = simd.splat(scale);
    let mut vectors = row.chunks_exact_mut(S::LANES);
    let mut gamma = gammas.chunks_exact(S::LANES);
    let mut beta = betas.chunks_exact(S::LANES);
    for ((x, g), b) in (&mut vectors).zip(&mut gamma).zip(&mut beta) {
        let normal = simd.mul(simd.sub(simd.load(x), centre), scales);
        simd.store(simd.mul_add(normal, simd.load(g), simd.load(b)), x);
    }
    for ((x, g), b) in vectors.into_remainder().iter_mut().zip(gamma.remainder()).zip(beta.remainder()) {
        *x = (*x - mean) * scale * g + b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;

    #[test]
    fn ragged_rows_match_the_definition() {
        for isa in Isa::tested() {
            for width in [1, 2, 15, 16, 17, 63, 64, 65, 255] {
                let row = |seed: usize| -> Vec<f32> {
                    (0..3 * width).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
                };
                let (x, branch) = (row(1), row(2));
                let (gammas, betas) = (&row(3)[..width], &row(4)[..width]);
                let (alpha, epsilon) = (0.37_f32, 1e-3_f32);
                for with_branch in [false, true] {
                    let mut data = x.clone();
                    isa.run(LayerNorm {
                        data: &mut data,
                        branch: with_branch.then_some(&branch[..]),
                        alpha,
                        gammas,
                        betas,
                        epsilon,
                    });
                    for r in 0..3 {
                        let v: Vec<f64> = (0..width)
                            .map(|c| {
                                let i = r * width + c;
                                let branch = if with_branch { f64::from(alpha * branch[i]) } else { 0.0 };
                                f64::from(x[i]) + branch
                            })
                            .collect();
                        let mean = v.iter().sum::<f64>() / width as f64;
                        let variance = v.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
                        for c in 0..width {
                            let right = (v[c] - mean) / (variance + f64::from(epsilon)).sqrt()
                                * f64::from(gammas[c])
                                + f64::from(betas[c]);
                            let got = f64::from(data[r * width + c]);
                            assert!(
                                (got - right).abs() < 2e-5,
                                "{} width {width}: {got}, expected {right}",
                                isa.name()
                            );
                        }
                    }
                }
            }
        }
    }
}
