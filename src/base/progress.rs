//! What the user is told while a backend is prepared, when that takes long.

use std::sync::OnceLock;

type Listener = dyn Fn(&str) + Send + Sync;

static LISTENER: OnceLock<Box<Listener>> = OnceLock::new();

/// Calls `listener` with each message from now on, on any thread. Only the first listener gets messages.
pub fn tell_progress_to(listener: impl Fn(&str) + Send + Sync + 'static) {
    let _ = LISTENER.set(Box::new(listener));
}

/// Passes a message to the listener, if there is one.
pub fn tell(text: &str) {
    if let Some(listener) = LISTENER.get() {
        listener(text);
    }
}
