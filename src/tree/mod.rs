//! The arena of search nodes.
