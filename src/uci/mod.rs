//! The UCI protocol on stdin and stdout.
