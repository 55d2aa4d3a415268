//! What every run of the tests checks of the GPU backend, even if nothing of it has changed.

use super::{FP16, check_set, goldens, on_emulator, options};
use rukh_gpu::GpuPrecision;

/// Networks of three kinds: an attention body with smolgen, a convolutional body, and a file with several heads.
const NETWORKS: [&str; 3] = ["micro-smolgen", "micro-se-conv", "micro-multihead"];

#[test]
fn three_networks_stay_near_lc0_in_fp16() {
    on_emulator("smoke::three_networks_stay_near_lc0_in_fp16", &[], || {
        let sets = goldens::committed().into_iter().filter(|set| NETWORKS.contains(&set.name.as_str()));
        let checked = sets.map(|set| check_set(&set, GpuPrecision::Fp16, &options(16), &FP16)).count();
        assert_eq!(checked, NETWORKS.len());
    });
}
