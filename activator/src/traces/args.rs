//! Arguments of traces. Variables have the names of the OpenTelemetry specification. An empty
//! variable is one that is not set.

use std::num::NonZeroU32;
use std::path::PathBuf;

use http::Uri;
use http::uri::Scheme;

use crate::traces::sampler::{Sampler, SamplerKind};

/// Path of spans below the base URL of a collector.
const TRACES_PATH: &str = "/v1/traces";
/// The only protocol. It is the specification's default.
const PROTOCOL: &str = "http/protobuf";
/// Roots are rare but for a crowd that wakes a workload, and one trace shows its wake.
const RATIO: f64 = 0.01;

/// Where spans go, and which requests have them.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct TraceArgs {
    /// Base URL of an OpenTelemetry collector, such as http://collector.observability:4318. Spans go
    /// to its path /v1/traces. Without it, nothing is traced.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// URL for spans, with its path; in place of --otlp-endpoint.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value_name = "URL")]
    pub otlp_traces_endpoint: Option<String>,

    /// Protocol of the export: http/protobuf, and no other.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_PROTOCOL", default_value = PROTOCOL, value_parser = parse_protocol)]
    pub otlp_protocol: String,

    /// PEM file with the CA certificates of an https collector.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_CERTIFICATE", value_name = "FILE")]
    pub otlp_certificate: Option<PathBuf>,

    /// Sampler: always_on, always_off, traceidratio, or one of these after parentbased_.
    #[arg(long, env = "OTEL_TRACES_SAMPLER", default_value = "parentbased_traceidratio")]
    pub traces_sampler: SamplerKind,

    /// Part of the traces that traceidratio selects, from 0 to 1.
    #[arg(long, env = "OTEL_TRACES_SAMPLER_ARG", default_value_t = RATIO, value_parser = parse_ratio)]
    pub traces_sampler_arg: f64,

    /// Traces in a second, whatever clients and the sampler select.
    #[arg(long, env = "ROUSE_TRACES_PER_SECOND", default_value = "10")]
    pub traces_per_second: NonZeroU32,

    /// Name of this service in traces. Defaults to service.name in OTEL_RESOURCE_ATTRIBUTES, or
    /// rouse-activator.
    #[arg(long, env = "OTEL_SERVICE_NAME", value_name = "NAME")]
    pub otel_service_name: Option<String>,
}

/// The arguments of an activator that exports spans.
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

/// Why the arguments are refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceArgsError {
    /// The URL cannot be parsed, or has another scheme.
    #[error("invalid OTLP endpoint {0:?}: it must be a URL that begins with http:// or https://")]
    Endpoint(String),
    /// There is no list of CAs in the image.
    #[error("the OTLP endpoint {0} needs the CA certificates in OTEL_EXPORTER_OTLP_CERTIFICATE")]
    NoCertificate(Uri),
}

// === impl TraceArgs ===

impl TraceArgs {
    /// The settings; `None` without the address of a collector.
    ///
    /// # Errors
    /// See [`TraceArgsError`].
    pub fn settings(&self, pod_name: &str) -> Result<Option<TraceSettings>, TraceArgsError> {
        let Some(url) = self.url() else { return Ok(None) };
        let endpoint = parse_endpoint(&url)?;
        let certificate = self.otlp_certificate.clone().filter(|path| !path.as_os_str().is_empty());
        if endpoint.scheme() == Some(&Scheme::HTTPS) && certificate.is_none() {
            return Err(TraceArgsError::NoCertificate(endpoint));
        }
        Ok(Some(TraceSettings {
            endpoint,
            certificate,
            sampler: Sampler::new(self.traces_sampler, self.traces_sampler_arg),
            traces_per_second: self.traces_per_second,
            service_name: self.otel_service_name.clone().filter(|name| !name.is_empty()),
            pod_name: pod_name.to_owned(),
        }))
    }

    fn url(&self) -> Option<String> {
        let set = |url: &Option<String>| url.clone().filter(|url| !url.is_empty());
        let base =
            || set(&self.otlp_endpoint).map(|base| base.trim_end_matches('/').to_owned() + TRACES_PATH);
        set(&self.otlp_traces_endpoint).or_else(base)
    }
}

fn parse_endpoint(url: &str) -> Result<Uri, TraceArgsError> {
    let known = |uri: &Uri| {
        let scheme = uri.scheme();
        (scheme == Some(&Scheme::HTTP) || scheme == Some(&Scheme::HTTPS)) && uri.host().is_some()
    };
    let uri = url.parse().ok().filter(known);
    uri.ok_or_else(|| TraceArgsError::Endpoint(url.to_owned()))
}

fn parse_protocol(text: &str) -> Result<String, String> {
    match text {
        "" | PROTOCOL => Ok(PROTOCOL.to_owned()),
        _ => Err(format!("only {PROTOCOL} is supported, on port 4318 of most collectors")),
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    if text.is_empty() {
        return Ok(RATIO);
    }
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "it must be a number from 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        traces: TraceArgs,
    }

    fn settings(args: &[&str]) -> Result<Option<TraceSettings>, String> {
        let args = ["activator"].iter().chain(args);
        let command = Command::try_parse_from(args).map_err(|error| error.to_string())?;
        command.traces.settings("activator-1").map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_traced_without_an_endpoint() {
        assert!(settings(&[]).unwrap().is_none());
        let empty = ["--otlp-endpoint", "", "--traces-sampler", "", "--traces-sampler-arg", ""];
        assert!(settings(&empty).unwrap().is_none());
    }

    #[test]
    fn endpoint_of_traces_precedes_the_base_url() {
        let endpoint = |args: &[&str]| settings(args).unwrap().unwrap().endpoint.to_string();
        let base = ["--otlp-endpoint", "http://collector:4318/"];
        assert_eq!(endpoint(&base), "http://collector:4318/v1/traces");
        let traces = ["--otlp-traces-endpoint", "http://tempo:4318/otlp/spans"];
        assert_eq!(endpoint(&[base, traces].concat()), "http://tempo:4318/otlp/spans");
    }

    #[test]
    fn rejects_invalid_arguments_with_the_reason() {
        let base = "http://collector:4318";
        for (args, reason) in [
            (&["--otlp-endpoint", "collector:4317"][..], "begins with http:// or https://"),
            (&["--otlp-endpoint", "https://collector"], "OTEL_EXPORTER_OTLP_CERTIFICATE"),
            (&["--otlp-endpoint", base, "--otlp-protocol", "grpc"], "only http/protobuf is supported"),
            (&["--otlp-endpoint", base, "--traces-sampler", "jaeger_remote"], "parentbased_traceidratio"),
            (&["--otlp-endpoint", base, "--traces-sampler-arg", "1.5"], "a number from 0 to 1"),
            (&["--otlp-endpoint", base, "--traces-sampler-arg", "NaN"], "a number from 0 to 1"),
            (&["--otlp-endpoint", base, "--traces-per-second", "0"], "zero"),
        ] {
            let error = settings(args).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
