//! A serving certificate that another program creates and renews (cert-manager, for example),
//! mounted as files.
//!
//! The files are polled, because the kubelet replaces them under the running process. Invalid
//! content changes nothing. The other program also maintains the caBundle of the APIServices,
//! because only it has the CA.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use component_base::readiness::ReadinessLatch;
use prometheus::IntGauge;

use crate::tls::certificate_material::{CERTIFICATE, CertificateError, KEY, certified_key, expiry};
use crate::tls::certificate_resolver::CertificateResolver;

/// Interval between polls. Certificates are replaced days before they expire.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Why the files were not loaded.
#[derive(Debug, thiserror::Error)]
enum MountedError {
    #[error("{0:?}: {1}")]
    Read(PathBuf, std::io::Error),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// Loads `tls.crt` and `tls.key` of a directory, and loads them again after each change. Opens
/// `latch` after the first load.
#[tracing::instrument(skip_all, fields(?directory))]
pub async fn watch_files(
    directory: PathBuf,
    resolver: Arc<CertificateResolver>,
    not_after: IntGauge,
    latch: ReadinessLatch,
) {
    let mut latch = Some(latch);
    let mut loaded = None;
    let mut last_error = String::new();
    loop {
        match read(&directory) {
            Ok(pair) if loaded.as_ref() == Some(&pair) => last_error.clear(),
            Ok(pair) => match load(&pair, &resolver, &not_after) {
                Ok(()) => {
                    tracing::info!("serving certificate loaded");
                    last_error.clear();
                    loaded = Some(pair);
                    drop(latch.take());
                }
                Err(error) => log_change(&mut last_error, &error),
            },
            Err(error) => log_change(&mut last_error, &error),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
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
    resolver: &CertificateResolver,
    not_after: &IntGauge,
) -> Result<(), MountedError> {
    resolver.set(certified_key(certificate, key)?);
    not_after.set(i64::try_from(expiry(certificate)?.as_secs()).unwrap_or(i64::MAX));
    Ok(())
}

/// Logs an error once, not at every poll.
fn log_change(last: &mut String, error: &MountedError) {
    let text = error.to_string();
    if *last != text {
        tracing::error!(%error, "invalid serving certificate, keeping the last valid one");
        *last = text;
    }
}
