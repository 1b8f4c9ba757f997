//! The first signal drains, the second aborts.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code of a process that was told twice to stop: 128 + SIGINT, as a shell would report it.
const ABORTED: i32 = 130;

/// A token that is cancelled by the first SIGTERM or SIGINT. The second ends the process without more ado.
///
/// # Errors
/// When the signals cannot be listened for.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn({
        let token = token.clone();
        async move {
            let first = next(&mut terminate, &mut interrupt).await;
            tracing::info!(signal = first, "stopping");
            token.cancel();
            let second = next(&mut terminate, &mut interrupt).await;
            tracing::warn!(signal = second, "stopping at once");
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
