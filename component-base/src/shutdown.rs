//! Signals: the first one drains, the second one aborts.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code after a second signal: 128 + SIGINT, as a shell reports it.
const ABORTED: i32 = 130;

/// A token that is cancelled by the first SIGTERM or SIGINT. A second signal exits the process at
/// once.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn({
        let token = token.clone();
        async move {
            let first = next(&mut terminate, &mut interrupt).await;
            tracing::info!(signal = first, "signal received, draining");
            token.cancel();
            let second = next(&mut terminate, &mut interrupt).await;
            tracing::warn!(signal = second, "second signal received, aborting");
            std::process::exit(ABORTED);
        }
    });
    Ok(token)
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
