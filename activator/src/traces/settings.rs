//! Settings of traces: the variables of the OpenTelemetry specification, and no flags, because
//! users of OpenTelemetry have them for all their programs. An empty variable is one that is not
//! set.
//!
//! `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_RESOURCE_ATTRIBUTES` are read by the
//! [exporter](super::collector).

use std::num::NonZeroU32;
use std::path::PathBuf;

use http::Uri;
use http::uri::Scheme;
use opentelemetry_sdk::trace::Sampler;

/// Path of spans below the base URL of a collector.
const TRACES_PATH: &str = "/v1/traces";
/// The only protocol. It is the specification's default.
const PROTOCOL: &str = "http/protobuf";
/// Roots are rare but for a crowd that wakes a workload, and one trace shows its wake.
const RATIO: f64 = 0.01;
/// Traces in a second, whatever clients and the sampler select: clients that set the flag of
/// `traceparent` on all requests must not make the activator export all of them.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// Where spans go, and which requests have them.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// Where spans are posted.
    pub endpoint: Uri,
    /// CA certificates of the collector.
    pub certificate: Option<PathBuf>,
    /// Selects traces.
    pub sampler: Sampler,
    /// Bound of traces in a second.
    pub traces_per_second: NonZeroU32,
    /// `service.name`, if it is set.
    pub service_name: Option<String>,
    /// `k8s.pod.name`.
    pub pod_name: String,
}

/// Why variables of traces are refused.
#[derive(Debug, thiserror::Error)]
pub enum TraceSettingsError {
    /// The URL cannot be parsed, or has another scheme.
    #[error("invalid OTLP endpoint {0:?}: it must be a URL that begins with http:// or https://")]
    Endpoint(String),
    /// There is no list of CAs in the image.
    #[error("the OTLP endpoint {0} needs the CA certificates in OTEL_EXPORTER_OTLP_CERTIFICATE")]
    NoCertificate(Uri),
    /// The collector would not decode what is sent.
    #[error(
        "invalid OTEL_EXPORTER_OTLP_PROTOCOL {0:?}: only {PROTOCOL} is supported, on port 4318 of most \
         collectors"
    )]
    Protocol(String),
    /// The name is not one of the specification, or of a sampler that is not supported.
    #[error(
        "invalid OTEL_TRACES_SAMPLER {0:?}: it must be always_on, always_off, traceidratio, \
         parentbased_always_on, parentbased_always_off or parentbased_traceidratio"
    )]
    Sampler(String),
    /// The argument of the sampler is not a ratio.
    #[error("invalid OTEL_TRACES_SAMPLER_ARG {0:?}: it must be a number from 0 to 1")]
    Ratio(String),
}

// === impl TraceSettings ===

impl TraceSettings {
    /// The settings in these variables; `None` without the address of a collector.
    ///
    /// # Errors
    /// See [`TraceSettingsError`].
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        pod_name: &str,
    ) -> Result<Option<Self>, TraceSettingsError> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let sampler = sampler(set("OTEL_TRACES_SAMPLER"), set("OTEL_TRACES_SAMPLER_ARG"))?;
        check_protocol(set("OTEL_EXPORTER_OTLP_PROTOCOL"))?;
        let Some(url) = url(&set) else { return Ok(None) };
        let endpoint = parse_endpoint(&url)?;
        let certificate = set("OTEL_EXPORTER_OTLP_CERTIFICATE").map(PathBuf::from);
        if endpoint.scheme() == Some(&Scheme::HTTPS) && certificate.is_none() {
            return Err(TraceSettingsError::NoCertificate(endpoint));
        }
        Ok(Some(Self {
            endpoint,
            certificate,
            sampler,
            traces_per_second: PER_SECOND,
            service_name: set("OTEL_SERVICE_NAME"),
            pod_name: pod_name.to_owned(),
        }))
    }
}

/// The URL of spans, in place of the base URL of all signals.
fn url(set: &impl Fn(&'static str) -> Option<String>) -> Option<String> {
    let base = || Some(set("OTEL_EXPORTER_OTLP_ENDPOINT")?.trim_end_matches('/').to_owned() + TRACES_PATH);
    set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(base)
}

fn parse_endpoint(url: &str) -> Result<Uri, TraceSettingsError> {
    let known = |uri: &Uri| {
        let scheme = uri.scheme();
        (scheme == Some(&Scheme::HTTP) || scheme == Some(&Scheme::HTTPS)) && uri.host().is_some()
    };
    let uri = url.parse().ok().filter(known);
    uri.ok_or_else(|| TraceSettingsError::Endpoint(url.to_owned()))
}

fn check_protocol(protocol: Option<String>) -> Result<(), TraceSettingsError> {
    match protocol {
        Some(other) if other != PROTOCOL => Err(TraceSettingsError::Protocol(other)),
        _ => Ok(()),
    }
}

/// A sampler of the specification by its name, and the text of its ratio.
///
/// # Errors
/// When the sampler is not supported or its ratio invalid.
pub fn sampler(name: Option<String>, ratio: Option<String>) -> Result<Sampler, TraceSettingsError> {
    let parse = |text: String| match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(TraceSettingsError::Ratio(text)),
    };
    let ratio = ratio.map_or(Ok(RATIO), parse)?;
    let name = name.unwrap_or_else(|| "parentbased_traceidratio".to_owned());
    let own = name.strip_prefix("parentbased_");
    let sampler = match own.unwrap_or(&name) {
        "always_on" => Sampler::AlwaysOn,
        "always_off" => Sampler::AlwaysOff,
        "traceidratio" => Sampler::TraceIdRatioBased(ratio),
        _ => return Err(TraceSettingsError::Sampler(name)),
    };
    Ok(if own.is_some() { Sampler::ParentBased(Box::new(sampler)) } else { sampler })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

    fn settings(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, String> {
        let value = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        TraceSettings::read(value, "activator-1").map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_traced_without_an_endpoint() {
        assert!(settings(&[]).unwrap().is_none());
        let empty = [(ENDPOINT, ""), ("OTEL_TRACES_SAMPLER", ""), ("OTEL_TRACES_SAMPLER_ARG", "")];
        assert!(settings(&empty).unwrap().is_none());
    }

    #[test]
    fn endpoint_of_traces_precedes_the_base_url() {
        let endpoint = |variables: &[_]| settings(variables).unwrap().unwrap().endpoint.to_string();
        let base = (ENDPOINT, "http://collector:4318/");
        assert_eq!(endpoint(&[base]), "http://collector:4318/v1/traces");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://tempo:4318/otlp/spans");
        assert_eq!(endpoint(&[base, traces]), "http://tempo:4318/otlp/spans");
    }

    #[test]
    fn rejects_invalid_variables_with_the_reason() {
        let base = (ENDPOINT, "http://collector:4318");
        for (variables, reason) in [
            (&[(ENDPOINT, "collector:4317")][..], "begins with http:// or https://"),
            (&[(ENDPOINT, "https://collector")], "OTEL_EXPORTER_OTLP_CERTIFICATE"),
            (&[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "only http/protobuf is supported"),
            (&[base, ("OTEL_TRACES_SAMPLER", "jaeger_remote")], "parentbased_traceidratio"),
            (&[base, ("OTEL_TRACES_SAMPLER_ARG", "1.5")], "a number from 0 to 1"),
            (&[base, ("OTEL_TRACES_SAMPLER_ARG", "NaN")], "a number from 0 to 1"),
        ] {
            let error = settings(variables).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
