//! The serving certificate of the metrics-adapter and the CA in its APIServices: whether they are
//! over or end soon.

use jiff::Timestamp;
use x509_parser::pem::Pem;

use crate::check::cluster_objects::{CUSTOM_API, ClusterObjects, EXTERNAL_API, OWN_SECRET, serving_secret};
use crate::check::finding::Finding;

/// Remaining life that is reported. The metrics-adapter renews its own certificate earlier.
const SOON: i64 = 3 * 24 * 3600;

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    let name = serving_secret(cluster);
    let fix = if name == OWN_SECRET {
        format!(
            "kubectl --namespace {0} delete secret {OWN_SECRET} and kubectl --namespace {0} rollout restart deployment \
             metrics-adapter: it then makes a new one",
            cluster.system_namespace
        )
    } else {
        format!("renew it at its issuer, which keeps it in Secret {name}")
    };
    let secret = cluster.certificate.found().and_then(|secret| secret.data.as_ref()?.get("tls.crt"));
    let serving = secret.and_then(|pem| {
        let object = format!("Secret {}/{name}", cluster.system_namespace);
        ending(&object, "the serving certificate", &pem.0, cluster.now, &fix)
    });
    let apis = [(EXTERNAL_API, &cluster.external_api), (CUSTOM_API, &cluster.custom_api)];
    let authorities = apis.into_iter().filter_map(|(name, api)| {
        let spec = api.found()?.spec.as_ref()?;
        let service = spec.service.as_ref()?;
        let is_ours = service.namespace.as_deref() == Some(cluster.system_namespace.as_str());
        let bundle = spec.ca_bundle.as_ref().filter(|_| is_ours)?;
        ending(&format!("APIService {name}"), "the CA in caBundle", &bundle.0, cluster.now, &fix)
    });
    serving.into_iter().chain(authorities).collect()
}

/// A finding if no certificate in `pem` is good for long.
fn ending(object: &str, what: &str, pem: &[u8], now: Timestamp, fix: &str) -> Option<Finding> {
    let Some(end) = latest_end(pem) else {
        let problem = format!("{what} cannot be parsed");
        return Some(Finding::error(object, "InvalidCertificate", problem, fix));
    };
    let left = end.as_second().saturating_sub(now.as_second());
    if left <= 0 {
        let problem = format!("{what} expired at {end}, so the API server refuses the metrics API");
        return Some(Finding::error(object, "CertificateExpired", problem, fix));
    }
    (left < SOON)
        .then(|| Finding::warning(object, "CertificateEndsSoon", format!("{what} expires at {end}"), fix))
}

/// The end of the leaf, or of the latest CA: a bundle may hold an old one beside its successor.
fn latest_end(pem: &[u8]) -> Option<Timestamp> {
    let ends = Pem::iter_from_buffer(pem).filter_map(|block| {
        let block = block.ok()?;
        let certificate = block.parse_x509().ok()?;
        Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
    });
    ends.max()
}
