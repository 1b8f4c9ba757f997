//! Descriptors: the process's limit of open files, which bounds its connections as memory does.
//!
//! Container runtimes give processes a soft limit of 1,024 for programs that use `select`, and a
//! hard one that is much higher. Without a free descriptor no connection can be accepted, and none
//! to the app opened. So the [budget](super::budget) is never larger than the descriptors allow,
//! and idle connections are closed for others before the descriptors are used up.

use prometheus::{IntGauge, Registry};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::estimates::CONNECTION_BYTES;

/// Descriptors for listeners, admin ports, logs and connections of the process's own, at most.
const MAX_RESERVED: u64 = 1024;

/// Raises the limit as far as the process may, and returns it.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, ?limit, "limit of open files not raised");
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    tracing::info!(limit, "limit of open files read");
    limit
}

/// The memory budget, if descriptors suffice for as many connections, else one for those that they
/// suffice for.
pub fn bounded_budget(budget: u64, limit: u64) -> u64 {
    budget.min(connections(limit).saturating_mul(CONNECTION_BYTES))
}

/// Connections of clients with this limit. Each may need another one to the app.
fn connections(limit: u64) -> u64 {
    let reserved = MAX_RESERVED.min(limit / 4);
    (limit - reserved) / 2
}

/// Registers the gauge `name` with the limit.
///
/// # Errors
/// When the name is taken.
pub fn register_limit(registry: &Registry, name: &str, limit: u64) -> Result<(), prometheus::Error> {
    let gauge = IntGauge::new(name, "Files and connections that this process may have open")?;
    gauge.set(i64::try_from(limit).unwrap_or(i64::MAX));
    registry.register(Box::new(gauge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_fits_descriptors_of_both_sides() {
        assert_eq!(bounded_budget(1 << 30, 1 << 20), 1 << 30);
        assert_eq!(bounded_budget(1 << 30, u64::MAX), 1 << 30);
        assert_eq!(bounded_budget(1 << 30, 1024), 384 * CONNECTION_BYTES);
        assert_eq!(bounded_budget(1 << 20, 1024), 1 << 20);
        assert_eq!(bounded_budget(1 << 30, 0), 0);
    }

    #[test]
    fn raises_limit_to_the_hard_one() {
        let raised = raise_limit();
        assert_eq!(Some(raised), getrlimit(Resource::Nofile).maximum.or(Some(u64::MAX)));
    }
}
