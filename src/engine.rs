//! One game: position, go, stop.
