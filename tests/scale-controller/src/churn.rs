//! Activators that join, leave and are replaced.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use crate::bench::Bench;

/// The writes of workloads' EndpointSlices for changes of the activators.
#[derive(Debug)]
pub(crate) struct Churn {
    /// One joins two others.
    pub(crate) join: SliceWrites,
    /// One of three leaves.
    pub(crate) leave: SliceWrites,
    /// Two are replaced, each by one that joins before it leaves.
    pub(crate) rollout: SliceWrites,
}

/// What one or more changes cause.
#[derive(Debug, Default)]
pub(crate) struct SliceWrites {
    by_request: HashMap<String, usize>,
    /// From the change until the last write or reconcile; the longest of several changes.
    pub(crate) took: Duration,
}

// === impl Churn ===

impl Churn {
    /// Activators do not report here, except the first, so that they leave the endpoints after two
    /// minutes. It takes less, unless the work for one change takes 15 s.
    pub(crate) async fn measure(bench: &mut Bench<'_>) -> Result<Self> {
        slice_writes(bench, &[&[1, 2]]).await?;
        Ok(Self {
            join: slice_writes(bench, &[&[1, 2, 3]]).await?,
            leave: slice_writes(bench, &[&[1, 3]]).await?,
            rollout: slice_writes(bench, &[&[1, 3, 4], &[3, 4], &[3, 4, 5], &[4, 5]]).await?,
        })
    }
}

async fn slice_writes(bench: &mut Bench<'_>, steps: &[&[u8]]) -> Result<SliceWrites> {
    let mut writes = SliceWrites::default();
    for activators in steps {
        let began = Instant::now();
        bench.world.set_activators(&bench.api, activators);
        let (last, written) = bench.until_quiet(began).await?;
        writes.took = writes.took.max(last.saturating_duration_since(began));
        for request in written.into_iter().filter(|request| request.contains("/endpointslices/")) {
            *writes.by_request.entry(request).or_default() += 1;
        }
    }
    Ok(writes)
}

// === impl SliceWrites ===

impl SliceWrites {
    pub(crate) fn total(&self) -> usize {
        self.by_request.values().sum()
    }

    /// The most writes of one slice.
    pub(crate) fn most(&self) -> usize {
        self.by_request.values().copied().max().unwrap_or_default()
    }
}
