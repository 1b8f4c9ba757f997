//! Scrapes the stats of a sample of the pods once a second and extrapolates to all of them.

use autoscaler::stats::collection::ScrapeResult;
use autoscaler::stats::{Stat, extrapolate, sample_size};
use rand::Rng;
use rand::seq::SliceRandom;

use crate::clock::Time;
use crate::workload::pod::{Pod, PodPhase};

/// Scrapes a sample. Pods older than a stable window come first: the averages of younger pods still
/// rise.
pub fn scrape<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    now: Time,
    stable_window: Time,
    random: &mut impl Rng,
) -> ScrapeResult {
    let is_old =
        |pod: &&Pod| matches!(pod.phase(), PodPhase::Ready { since } if since + stable_window <= now);
    let (mut candidates, mut young): (Vec<&Pod>, Vec<&Pod>) =
        pods.filter(|pod| pod.is_ready()).partition(is_old);
    candidates.shuffle(random);
    young.shuffle(random);
    candidates.append(&mut young);
    let population = candidates.len();
    if population == 0 {
        return ScrapeResult::NoPods;
    }
    let sample = sample_size(population);
    let mut too_young = 0;
    let mut stats = Vec::with_capacity(sample);
    for pod in candidates {
        match pod.last_stat() {
            Some(stat) => stats.push(stat.clone()),
            // The next candidate replaces it in the sample.
            None => too_young += 1,
        }
        if stats.len() == sample {
            break;
        }
    }
    if stats.is_empty() {
        return ScrapeResult::Incomplete;
    }
    let idle = too_young == 0 && stats.iter().all(Stat::is_idle);
    ScrapeResult::Complete { total: extrapolate(&[], &stats, population - too_young), idle }
}
