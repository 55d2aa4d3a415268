//! Products against loops.
