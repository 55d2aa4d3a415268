//! The values of the option `fuse`.

/// Which GEMMs of our own share a launch with the LayerNorm or the GEMMs that follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedLaunches {
    /// None.
    None,
    /// Those of smolgen's hidden layers, which are small: their launches take longer than their products.
    Smolgen,
    /// All that can, and whole convolutions.
    All,
}
