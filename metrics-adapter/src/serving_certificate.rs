//! The serving certificate: made once for the cluster, kept in a Secret, shared by all replicas.
//!
//! ```text
//! Secret missing ─► make, create; a conflict means that another replica was faster, and the watch brings its Secret
//! Secret there   ─► load it ─► TLS resolver, and the CA for the APIService
//!                └► near its end, or broken ─► replace by resourceVersion; a conflict as above
//! ```
//!
//! The CA's key is kept with it, so that a new leaf needs no new CA. When the CA itself nears its end, the new one is put in
//! front of the old in `ca.crt`, so that both are trusted while replicas change over.

mod material;
pub mod mounted;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client};
use prometheus::IntGauge;
use runtime::readiness::ReadinessLatch;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

pub use material::{Material, MaterialError};

/// Name of the Secret.
pub const SECRET: &str = "metrics-adapter-serving";
/// How often to look whether the certificate nears its end, or to try again what failed.
const RECHECK: Duration = Duration::from_secs(600);
/// Wait after a failed write.
const RETRY: Duration = Duration::from_secs(5);

/// Hands the newest certificate to every handshake; none until it is loaded.
#[derive(Debug, Default)]
pub struct Certificates {
    current: ArcSwapOption<CertifiedKey>,
}

/// Keeps the Secret and what is loaded from it.
pub struct ServingCertificate {
    secrets: Api<Secret>,
    names: Vec<String>,
    certificates: Arc<Certificates>,
    ca: watch::Sender<Option<String>>,
    not_after: IntGauge,
    latch: Option<ReadinessLatch>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Material(#[from] MaterialError),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

// === impl Certificates ===

impl Certificates {
    /// Uses this certificate from the next handshake on.
    pub fn set(&self, key: CertifiedKey) {
        self.current.store(Some(Arc::new(key)));
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

// === impl ServingCertificate ===

impl ServingCertificate {
    /// A keeper of the certificate for `service` in `namespace`; `ca` gets what its clients must trust.
    pub fn new(
        client: Client,
        namespace: &str,
        service: &str,
        ca: watch::Sender<Option<String>>,
        not_after: IntGauge,
        latch: ReadinessLatch,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client, namespace),
            names: dns_names(service, namespace),
            certificates: Arc::default(),
            ca,
            not_after,
            latch: Some(latch),
        }
    }

    /// What handshakes use.
    pub fn certificates(&self) -> Arc<Certificates> {
        self.certificates.clone()
    }

    /// Follows the Secret and keeps it good.
    pub async fn run(mut self) {
        let events = watch_object(self.secrets.clone(), SECRET).default_backoff();
        pin_mut!(events);
        let mut newest: Option<Option<Secret>> = None;
        let mut recheck = RECHECK;
        loop {
            let event: Result<Option<Secret>, watcher::Error> = tokio::select! {
                event = events.next() => match event {
                    Some(event) => event,
                    None => return,
                },
                () = tokio::time::sleep(recheck) => match &newest {
                    Some(known) => Ok(known.clone()),
                    None => continue,
                },
            };
            match event {
                Ok(secret) => {
                    recheck = self.keep(secret.as_ref()).await;
                    newest = Some(secret);
                }
                Err(error) => tracing::warn!(secret = SECRET, %error, "watch failed; it is tried again"),
            }
        }
    }

    /// Loads what is good and replaces what is not; when to look again.
    async fn keep(&mut self, secret: Option<&Secret>) -> Duration {
        let known = secret.map(Material::from_secret);
        let now = runtime::clock::since_epoch();
        let good = match &known {
            Some(Ok(material)) => {
                self.load(material);
                material.is_fresh(&self.names, now)
            }
            Some(Err(error)) => {
                tracing::warn!(secret = SECRET, %error, "the certificate is unusable and is made anew");
                false
            }
            None => false,
        };
        if good {
            return RECHECK;
        }
        match self.write(secret, known.and_then(Result::ok).as_ref(), now).await {
            // The watch brings what was written, by us or by the replica that was faster.
            Ok(()) => RECHECK,
            Err(KeepError::Api(kube::Error::Api(status))) if status.code == 409 => RECHECK,
            Err(error) => {
                tracing::error!(secret = SECRET, %error, "the certificate could not be written; it is tried again");
                RETRY
            }
        }
    }

    fn load(&mut self, material: &Material) {
        match material.certified_key() {
            Ok(key) => {
                self.certificates.set(key);
                self.not_after.set(i64::try_from(material.not_after().as_secs()).unwrap_or(i64::MAX));
                let ca = material.ca_bundle().to_owned();
                self.ca.send_if_modified(|known| {
                    let changed = known.as_ref() != Some(&ca);
                    *known = Some(ca);
                    changed
                });
                drop(self.latch.take());
            }
            Err(error) => tracing::error!(secret = SECRET, %error, "the certificate cannot be used"),
        }
    }

    async fn write(
        &self,
        old: Option<&Secret>,
        known: Option<&Material>,
        now: Duration,
    ) -> Result<(), KeepError> {
        let material = match known {
            Some(known) => known.renewed(&self.names, now)?,
            None => Material::new(&self.names, now)?,
        };
        let mut secret = material.to_secret(SECRET);
        match old {
            None => {
                self.secrets.create(&PostParams::default(), &secret).await?;
                tracing::info!(secret = SECRET, "made a serving certificate");
            }
            Some(old) => {
                secret.metadata.resource_version = old.metadata.resource_version.clone();
                // The type of a Secret cannot be changed.
                secret.type_ = old.type_.clone();
                self.secrets.replace(SECRET, &PostParams::default(), &secret).await?;
                tracing::info!(secret = SECRET, "renewed the serving certificate");
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingCertificate").field("names", &self.names).finish_non_exhaustive()
    }
}

/// The first is the one that the aggregation layer asks for.
fn dns_names(service: &str, namespace: &str) -> Vec<String> {
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
    ]
}

#[cfg(test)]
mod tests {
    use fake_api::FakeApi;
    use runtime::readiness::Readiness;
    use rustls_pki_types::CertificateDer;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    const PATH: &str = "/api/v1/namespaces/rouse-system/secrets/metrics-adapter-serving";

    /// What a replica keeps.
    struct Replica {
        certificates: Arc<Certificates>,
        ca: watch::Receiver<Option<String>>,
        readiness: Readiness,
        _task: AbortOnDropHandle<()>,
    }

    impl Replica {
        fn start(api: &FakeApi) -> Self {
            let (sender, ca) = watch::channel(None);
            let readiness = Readiness::default();
            let latch = readiness.latch("certificate");
            let not_after = IntGauge::new("a", "b").unwrap();
            let client = api.client();
            let keeper =
                ServingCertificate::new(client, "rouse-system", "metrics-adapter", sender, not_after, latch);
            let certificates = keeper.certificates();
            let _task = AbortOnDropHandle::new(tokio::spawn(keeper.run()));
            Self { certificates, ca, readiness, _task }
        }

        fn leaf(&self) -> CertificateDer<'static> {
            self.certificates.current.load().as_ref().unwrap().cert[0].clone()
        }
    }

    fn stored(api: &FakeApi) -> Material {
        Material::from_secret(&serde_json::from_value(api.get(PATH).unwrap()).unwrap()).unwrap()
    }

    async fn settle() {
        tokio::time::sleep(Duration::from_secs(20)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_that_start_together_end_up_with_one_certificate() {
        let api = FakeApi::default();
        let replicas = [Replica::start(&api), Replica::start(&api), Replica::start(&api)];
        settle().await;
        let ca = stored(&api).ca_bundle().to_owned();
        for replica in &replicas {
            assert!(replica.readiness.is_ready());
            assert_eq!(replica.leaf(), replicas[0].leaf());
            assert_eq!(replica.ca.borrow().as_deref(), Some(ca.as_str()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_deleted_broken_or_near_its_end_is_made_anew_and_loaded_by_all() {
        let api = FakeApi::default();
        let replicas = [Replica::start(&api), Replica::start(&api)];
        settle().await;
        let names = dns_names("metrics-adapter", "rouse-system");
        let year = Duration::from_secs(365 * 24 * 3600);
        let old =
            Material::new(&names, runtime::clock::since_epoch() - year + Duration::from_secs(3600)).unwrap();
        for case in ["deleted", "broken", "near its end"] {
            let before = replicas[0].leaf();
            match case {
                "deleted" => api.remove(PATH),
                "broken" => {
                    let mut secret = api.get(PATH).unwrap();
                    secret["data"]["tls.key"] = "bm9uc2Vuc2U=".into();
                    api.put(PATH, secret);
                }
                _ => api.put(PATH, serde_json::to_value(old.to_secret(SECRET)).unwrap()),
            }
            settle().await;
            let material = stored(&api);
            assert!(material.is_fresh(&names, runtime::clock::since_epoch()), "{case}");
            assert_ne!(replicas[0].leaf(), before, "{case}");
            assert_eq!(replicas[0].leaf(), replicas[1].leaf(), "{case}");
            if case == "near its end" {
                assert_eq!(material.ca_bundle(), old.ca_bundle(), "clients need no new CA for it");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_mounted_certificate_is_followed() {
        let directory = std::env::temp_dir().join(format!("serving-certificate-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |material: &Material| {
            let secret = material.to_secret("x");
            for (name, value) in secret.data.unwrap() {
                std::fs::write(directory.join(name), value.0).unwrap();
            }
        };
        let (certificates, readiness) = (Arc::<Certificates>::default(), Readiness::default());
        let not_after = IntGauge::new("a", "b").unwrap();
        let latch = readiness.latch("certificate");
        let follow = mounted::follow(directory.clone(), certificates.clone(), not_after.clone(), latch);
        let _task = AbortOnDropHandle::new(tokio::spawn(follow));
        settle().await;
        assert!(!readiness.is_ready());
        let names = dns_names("metrics-adapter", "rouse-system");
        let leaf = || certificates.current.load().as_ref().unwrap().cert[0].clone();
        write(&Material::new(&names, runtime::clock::since_epoch()).unwrap());
        settle().await;
        assert!(readiness.is_ready() && not_after.get() > 0);
        let first = leaf();
        std::fs::write(directory.join("tls.key"), "nonsense").unwrap();
        settle().await;
        assert_eq!(leaf(), first);
        write(&Material::new(&names, runtime::clock::since_epoch()).unwrap());
        settle().await;
        assert_ne!(leaf(), first);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
