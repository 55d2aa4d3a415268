//! The weights of 3x3 convolutions, transformed to the components of [`rukh_backend::winograd`].

use rukh_backend::winograd::{COMPONENTS, WeightsTransform};
use rukh_net::weights::Convolution;

/// `[outputs][inputs][3][3]` -> `[36][outputs][inputs]`
pub(crate) fn transform_weights(layer: &Convolution) -> Vec<f32> {
    let transform = WeightsTransform::new();
    let kernels = layer.weights.as_chunks::<9>().0;
    (0..COMPONENTS)
        .flat_map(|component| kernels.iter().map(move |kernel| (component, kernel)))
        .map(|(component, kernel)| transform.component(kernel, component))
        .collect()
}
