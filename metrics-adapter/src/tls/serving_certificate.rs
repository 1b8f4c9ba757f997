//! ServingCertificate: creates the serving certificate, keeps it in a Secret that all replicas
//! share, and renews it.
//!
//! ```text
//! Secret missing ─► create it; on a conflict, the watch brings the Secret of another replica
//! Secret present ─► load it ─► CertificateResolver, and the CA for the APIServices
//!                └► expiring or invalid ─► replace it by resourceVersion; on a conflict, as above
//! ```
//!
//! The Secret has the CA's key too, so a new leaf needs no new CA. When the CA itself expires soon,
//! the new CA is put in front of the old one in `ca.crt`, so that both are trusted while replicas
//! switch.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::SERVING_CERTIFICATE as SECRET;
use component_base::kubernetes::watch_object;
use component_base::readiness::ReadinessLatch;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus::IntGauge;
use tokio::sync::watch;

use crate::tls::certificate_material::{CertificateError, CertificateMaterial};
use crate::tls::certificate_resolver::CertificateResolver;
use crate::watches::observed_object::ObservedObject;

/// Interval between checks whether the certificate must be renewed.
const RECHECK: Duration = Duration::from_secs(600);
/// Delay after a failed write.
const RETRY: Duration = Duration::from_secs(5);

/// Reconciles the Secret, and loads it into the resolver.
pub struct ServingCertificate {
    secrets: Api<Secret>,
    names: Vec<String>,
    certificates: Arc<CertificateResolver>,
    ca: watch::Sender<Option<String>>,
    not_after: IntGauge,
    latch: Option<ReadinessLatch>,
}

/// Why the Secret was not written.
#[derive(Debug, thiserror::Error)]
enum WriteSecretError {
    #[error(transparent)]
    CertificateMaterial(#[from] CertificateError),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

// === impl ServingCertificate ===

impl ServingCertificate {
    /// The certificate for `service` in `namespace`; `ca` receives the CA bundle that clients must
    /// trust.
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

    /// The resolver for handshakes.
    pub fn resolver(&self) -> Arc<CertificateResolver> {
        self.certificates.clone()
    }

    /// Reconciles until the watch ends.
    #[tracing::instrument(skip_all, fields(secret = SECRET))]
    pub async fn run(mut self) {
        let events = watch_object(self.secrets.clone(), SECRET);
        pin_mut!(events);
        let mut newest = ObservedObject::Unlisted;
        let mut recheck = RECHECK;
        loop {
            let secret: Option<Secret> = tokio::select! {
                event = events.next() => match event {
                    Some(secret) => secret,
                    None => return,
                },
                () = tokio::time::sleep(recheck) => match &newest {
                    ObservedObject::Unlisted => continue,
                    ObservedObject::Missing => None,
                    ObservedObject::Present(secret) => Some(Secret::clone(secret)),
                },
            };
            recheck = self.reconcile(secret.as_ref()).await;
            newest = ObservedObject::from(secret);
        }
    }

    /// Loads a valid certificate, and replaces an invalid or expiring one. Returns when to check
    /// again.
    async fn reconcile(&mut self, secret: Option<&Secret>) -> Duration {
        let current = secret.map(CertificateMaterial::from_secret);
        let now = component_base::clock::since_epoch();
        let fresh = match &current {
            Some(Ok(material)) => {
                self.load(material);
                material.is_fresh(&self.names, now)
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "invalid serving certificate, replacing it");
                false
            }
            None => false,
        };
        if fresh {
            return RECHECK;
        }
        match self.write(secret, current.and_then(Result::ok).as_ref(), now).await {
            // The watch brings the written Secret, ours or a faster replica's.
            Ok(()) => RECHECK,
            Err(WriteSecretError::Api(kube::Error::Api(status))) if status.code == 409 => RECHECK,
            Err(error) => {
                tracing::error!(%error, "serving certificate not written, retrying");
                RETRY
            }
        }
    }

    fn load(&mut self, material: &CertificateMaterial) {
        match material.certified_key() {
            Ok(key) => {
                self.certificates.set(key);
                self.not_after.set(i64::try_from(material.not_after().as_secs()).unwrap_or(i64::MAX));
                let ca = material.ca_bundle().to_owned();
                self.ca.send_if_modified(|current| {
                    let changed = current.as_ref() != Some(&ca);
                    *current = Some(ca);
                    changed
                });
                drop(self.latch.take());
            }
            Err(error) => tracing::error!(%error, "serving certificate not loaded"),
        }
    }

    async fn write(
        &self,
        old: Option<&Secret>,
        current: Option<&CertificateMaterial>,
        now: Duration,
    ) -> Result<(), WriteSecretError> {
        let material = match current {
            Some(current) => current.renewed(&self.names, now)?,
            None => CertificateMaterial::new(&self.names, now)?,
        };
        let mut secret = material.to_secret(SECRET);
        match old {
            None => {
                self.secrets.create(&PostParams::default(), &secret).await?;
                tracing::info!("serving certificate created");
            }
            Some(old) => {
                secret.metadata.resource_version = old.metadata.resource_version.clone();
                // The type of a Secret is immutable.
                secret.type_ = old.type_.clone();
                self.secrets.replace(SECRET, &PostParams::default(), &secret).await?;
                tracing::info!("serving certificate renewed");
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

/// The aggregation layer connects to the first name.
fn dns_names(service: &str, namespace: &str) -> Vec<String> {
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
    ]
}

#[cfg(test)]
mod tests {
    use component_base::readiness::Readiness;
    use fake_api::{FakeApi, Outage};
    use rustls_pki_types::CertificateDer;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;
    use crate::tls::mounted_certificate;

    const PATH: &str = "/api/v1/namespaces/rouse-system/secrets/metrics-adapter-serving";

    /// One replica's certificate task and its outputs.
    struct Replica {
        certificates: Arc<CertificateResolver>,
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
            let serving =
                ServingCertificate::new(client, "rouse-system", "metrics-adapter", sender, not_after, latch);
            let certificates = serving.resolver();
            let _task = AbortOnDropHandle::new(tokio::spawn(serving.run()));
            Self { certificates, ca, readiness, _task }
        }

        fn leaf(&self) -> CertificateDer<'static> {
            self.certificates.current().unwrap().cert[0].clone()
        }
    }

    fn stored(api: &FakeApi) -> CertificateMaterial {
        CertificateMaterial::from_secret(&serde_json::from_value(api.get(PATH).unwrap()).unwrap()).unwrap()
    }

    async fn settle() {
        tokio::time::sleep(Duration::from_secs(20)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_started_together_share_one_certificate() {
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
    async fn all_replicas_load_the_replacement_of_a_bad_certificate() {
        let api = FakeApi::default();
        let replicas = [Replica::start(&api), Replica::start(&api)];
        settle().await;
        let names = dns_names("metrics-adapter", "rouse-system");
        let year = Duration::from_secs(365 * 24 * 3600);
        let old = CertificateMaterial::new(
            &names,
            component_base::clock::since_epoch() - year + Duration::from_secs(3600),
        )
        .unwrap();
        for case in ["deleted", "invalid", "expiring"] {
            let before = replicas[0].leaf();
            match case {
                "deleted" => api.remove(PATH),
                "invalid" => {
                    let mut secret = api.get(PATH).unwrap();
                    secret["data"]["tls.key"] = "bm9uc2Vuc2U=".into();
                    api.put(PATH, secret);
                }
                _ => api.put(PATH, serde_json::to_value(old.to_secret(SECRET)).unwrap()),
            }
            settle().await;
            let material = stored(&api);
            assert!(material.is_fresh(&names, component_base::clock::since_epoch()), "{case}");
            assert_ne!(replicas[0].leaf(), before, "{case}");
            assert_eq!(replicas[0].leaf(), replicas[1].leaf(), "{case}");
            if case == "expiring" {
                assert_eq!(material.ca_bundle(), old.ca_bundle(), "the CA stays");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replacement_is_loaded_within_5_seconds_after_api_server_shed_load() {
        for status in [429, 503, 504] {
            let api = FakeApi::default();
            let replica = Replica::start(&api);
            settle().await;
            let before = replica.leaf();
            api.set_outage(Some(Outage::Shedding(status)));
            api.break_watches(true);
            api.remove(PATH);
            tokio::time::sleep(Duration::from_secs(90)).await;
            assert_eq!(replica.leaf(), before, "the last one is served");
            api.set_outage(None);
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_ne!(replica.leaf(), before, "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn follows_a_mounted_certificate() {
        let directory = std::env::temp_dir().join(format!("serving-certificate-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |material: &CertificateMaterial| {
            let secret = material.to_secret("x");
            for (name, value) in secret.data.unwrap() {
                std::fs::write(directory.join(name), value.0).unwrap();
            }
        };
        let (certificates, readiness) = (Arc::<CertificateResolver>::default(), Readiness::default());
        let not_after = IntGauge::new("a", "b").unwrap();
        let latch = readiness.latch("certificate");
        let follow = mounted_certificate::watch_files(
            directory.clone(),
            certificates.clone(),
            not_after.clone(),
            latch,
        );
        let _task = AbortOnDropHandle::new(tokio::spawn(follow));
        settle().await;
        assert!(!readiness.is_ready());
        let names = dns_names("metrics-adapter", "rouse-system");
        let leaf = || certificates.current().unwrap().cert[0].clone();
        write(&CertificateMaterial::new(&names, component_base::clock::since_epoch()).unwrap());
        settle().await;
        assert!(readiness.is_ready() && not_after.get() > 0);
        let first = leaf();
        std::fs::write(directory.join("tls.key"), "nonsense").unwrap();
        settle().await;
        assert_eq!(leaf(), first);
        write(&CertificateMaterial::new(&names, component_base::clock::since_epoch()).unwrap());
        settle().await;
        assert_ne!(leaf(), first);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
