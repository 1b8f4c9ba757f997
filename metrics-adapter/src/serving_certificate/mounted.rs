//! A serving certificate that somebody else makes and renews (cert-manager, say), mounted as files.
//!
//! Read again every few seconds, because the kubelet replaces files under a running process; content that makes no sense changes nothing.
//! Who makes it keeps the caBundle of the APIService true as well: we do not know its CA.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntGauge;
use runtime::readiness::ReadinessLatch;

use super::Certificates;
use super::material::{CERTIFICATE, KEY, MaterialError, certified_key, end_of};

/// How often to look. Certificates are replaced days before their end.
const EVERY: Duration = Duration::from_secs(10);

/// Why the files are not used.
#[derive(Debug, thiserror::Error)]
enum MountedError {
    #[error("{0:?}: {1}")]
    Read(PathBuf, std::io::Error),
    #[error(transparent)]
    Material(#[from] MaterialError),
}

/// Uses `tls.crt` and `tls.key` of a directory, and whatever they are replaced by. The process is not ready before the first.
pub async fn follow(
    directory: PathBuf,
    certificates: Arc<Certificates>,
    not_after: IntGauge,
    latch: ReadinessLatch,
) {
    let mut latch = Some(latch);
    let mut known = None;
    let mut complaint = String::new();
    loop {
        match read(&directory) {
            Ok(pair) if known.as_ref() == Some(&pair) => complaint.clear(),
            Ok(pair) => match load(&pair, &certificates, &not_after) {
                Ok(()) => {
                    tracing::info!(?directory, "serving certificate loaded");
                    complaint.clear();
                    known = Some(pair);
                    drop(latch.take());
                }
                Err(error) => complain(&mut complaint, &directory, &error),
            },
            Err(error) => complain(&mut complaint, &directory, &error),
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn read(directory: &Path) -> Result<[String; 2], MountedError> {
    let file = |name| {
        let path = directory.join(name);
        std::fs::read_to_string(&path).map_err(|error| MountedError::Read(path, error))
    };
    Ok([file(CERTIFICATE)?, file(KEY)?])
}

fn load(
    [certificate, key]: &[String; 2],
    certificates: &Certificates,
    not_after: &IntGauge,
) -> Result<(), MountedError> {
    certificates.set(certified_key(certificate, key)?);
    not_after.set(i64::try_from(end_of(certificate)?.as_secs()).unwrap_or(i64::MAX));
    Ok(())
}

/// Each complaint once, not every few seconds.
fn complain(known: &mut String, directory: &Path, error: &MountedError) {
    let words = error.to_string();
    if *known != words {
        tracing::error!(?directory, %error, "the serving certificate cannot be used; the last good one stays");
        *known = words;
    }
}
