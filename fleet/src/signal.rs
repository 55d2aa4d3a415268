//! The signals that ask the process to end.

/// Waits for such a signal.
#[cfg(unix)]
pub(crate) async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

/// Waits for such a signal.
#[cfg(not(unix))]
pub(crate) async fn signal() {
    let _ = tokio::signal::ctrl_c().await;
}
