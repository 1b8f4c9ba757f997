//! The serving certificate of the metrics-adapter and the CA in its APIServices: whether they are
//! over or end soon.

use autoscaler::contract::{CUSTOM_API, EXTERNAL_API, SERVING_CERTIFICATE};
use autoscaler::findings::reasons::CheckReason;
use jiff::Timestamp;
use x509_parser::pem::Pem;

use super::metrics_apis::is_ours;
use crate::check::cluster_objects::{ClusterObjects, serving_secret};
use crate::check::finding::Finding;

/// Remaining life that is reported. The metrics-adapter renews its own certificate earlier.
const SOON: i64 = 3 * 24 * 3600;

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    let name = serving_secret(cluster);
    let fix = &if name == SERVING_CERTIFICATE {
        format!(
            "kubectl --namespace {0} delete secret {SERVING_CERTIFICATE} and kubectl --namespace {0} rollout restart \
             deployment metrics-adapter: it then makes a new one",
            cluster.system_namespace
        )
    } else {
        format!("renew it at its issuer, which keeps it in Secret {name}")
    };
    let serving = cluster.certificate.found().and_then(|secret| {
        let object = format!("Secret {}/{name}", cluster.system_namespace);
        let Some(pem) = secret.data.as_ref().and_then(|data| data.get("tls.crt")) else {
            let problem = "it has no key tls.crt, so the metrics-adapter has no certificate to serve";
            return Some(Finding::error(object, CheckReason::InvalidCertificate, problem).with_fix(fix));
        };
        // The leaf is first; its issuers, which may follow, live longer.
        ending(&object, "the serving certificate", validities(&pem.0).into_iter().next(), cluster.now, fix)
    });
    let apis = [(EXTERNAL_API, &cluster.external_api), (CUSTOM_API, &cluster.custom_api)];
    let authorities = apis.into_iter().filter_map(|(name, api)| {
        let api = api.found().filter(|api| is_ours(cluster, api))?;
        let bundle = api.spec.as_ref()?.ca_bundle.as_ref()?;
        // A bundle may hold an old CA beside its successor.
        let latest = validities(&bundle.0).into_iter().max_by_key(|it| it.end);
        ending(&format!("APIService {name}"), "the CA in caBundle", latest, cluster.now, fix)
    });
    serving.into_iter().chain(authorities).collect()
}

/// When a certificate is valid.
struct Validity {
    begin: Timestamp,
    end: Timestamp,
}

/// A finding if a certificate is not valid, or not for long.
fn ending(
    object: &str,
    what: &str,
    validity: Option<Validity>,
    now: Timestamp,
    fix: &str,
) -> Option<Finding> {
    let Some(Validity { begin, end }) = validity else {
        let problem = format!("{what} cannot be parsed");
        return Some(Finding::error(object, CheckReason::InvalidCertificate, problem).with_fix(fix));
    };
    if begin > now {
        let problem =
            format!("{what} is not valid before {begin}, so the API server refuses the metrics API");
        return Some(Finding::error(object, CheckReason::InvalidCertificate, problem).with_fix(fix));
    }
    let left = end.as_second().saturating_sub(now.as_second());
    if left <= 0 {
        let problem = format!("{what} expired at {end}, so the API server refuses the metrics API");
        return Some(Finding::error(object, CheckReason::CertificateExpired, problem).with_fix(fix));
    }
    (left < SOON).then(|| {
        let problem = format!("{what} expires at {end}");
        Finding::warning(object, CheckReason::CertificateEndsSoon, problem).with_fix(fix)
    })
}

/// Of each certificate that can be parsed.
fn validities(pem: &[u8]) -> Vec<Validity> {
    let blocks = Pem::iter_from_buffer(pem).filter_map(|block| {
        let block = block.ok()?;
        let certificate = block.parse_x509().ok()?;
        let validity = certificate.validity();
        let at = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        Some(Validity { begin: at(validity.not_before)?, end: at(validity.not_after)? })
    });
    blocks.collect()
}
