//! Responses of the activator while a workload is at zero.
//!
//! Some requests are not load: health checks, scrapes of metrics, and requests that match a
//! workload's `no-wake` rules. They do not wake the workload, and are neither held nor counted.
//! Above zero the app answers them; at zero the activator does, with a response of this module.
//! Browsers are held like all other clients, and then get the [`waiting_page`]. Streams of events
//! may be kept alive while they are held: [`held_stream`].

mod health_check;
pub mod held_stream;
pub mod local_body;
mod no_wake;
mod scrape;
pub mod waiting_page;

use std::sync::Arc;

use http::{Request, Response};
use proxy::health_checks::{HealthChecks, is_scrape};

use crate::workloads::no_wake::NoWake;
use local_body::LocalBody;

/// Why a request is not load.
#[derive(Debug)]
pub enum UncountedRequest {
    /// Its client checks the health of the workload.
    HealthCheck,
    /// Its client collects metrics.
    Scrape,
    /// A rule of the workload matches it.
    NoWake(Arc<NoWake>),
}

// === impl UncountedRequest ===

impl UncountedRequest {
    /// Why the request is not load; `None` if it is.
    pub fn of<B>(
        request: &Request<B>,
        health_checks: &HealthChecks,
        no_wake: Option<&Arc<NoWake>>,
    ) -> Option<Self> {
        if health_checks.matches(request.headers()) {
            return Some(Self::HealthCheck);
        }
        if is_scrape(request.headers()) {
            return Some(Self::Scrape);
        }
        no_wake.filter(|no_wake| no_wake.matches(request)).cloned().map(Self::NoWake)
    }

    /// The response while there is no pod.
    pub fn respond<B>(&self, request: &Request<B>) -> Response<LocalBody> {
        match self {
            Self::HealthCheck => health_check::healthy(request),
            Self::Scrape => scrape::without_samples(),
            Self::NoWake(no_wake) => no_wake::respond(&no_wake.response),
        }
    }
}
