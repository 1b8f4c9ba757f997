//! How many pods to scrape in a second, and the estimate for all pods.
//!
//! Sixteen samples are enough for any number of pods: the error of their mean depends on their
//! variance, not on the number of pods. The metrics-adapter's scraper scrapes the pods and passes
//! their stats to this module.

use super::Stat;

/// 95 % confidence (1.96 standard deviations), variance 100, margin of error 5: `1.96² · 100 / 5²`.
const ASYMPTOTE: f64 = 1.96 * 1.96 * 100.0 / 25.0;

/// Pods to scrape out of `population`: all of up to three, never more than 16.
pub fn sample_size(population: usize) -> usize {
    if population <= 3 {
        return population;
    }
    let population = population as f64;
    // Between 4 and 16.
    (population * ASYMPTOTE / (population + ASYMPTOTE - 1.0)).ceil() as usize
}

/// Largest relative standard error of the mean with which a sample is representative.
const TOLERANCE: f64 = 0.1;
/// Most pods to scrape.
const WIDEST: usize = 128;
/// Load of an outlier, in multiples of the mean.
const OUTLYING: f64 = 2.0;
/// Most outliers to keep.
const MOST_OUTLIERS: usize = 64;

/// Pods to scrape in all, given these samples: more than the samples if their mean has too large an
/// error.
///
/// [`sample_size`] assumes that pods share the load. A few clients with persistent connections put
/// it on a few pods, and a sample with such a pod would be extrapolated to several times the load.
/// The result is at most twice the number of samples, so that one outlier does not cause a scrape
/// of all pods.
pub fn widened_sample(samples: &[Stat], population: usize) -> usize {
    let scraped = samples.len();
    let of = |field: fn(&Stat) -> f64| wanted(samples, field, population);
    let wanted = of(|s| s.average_concurrent_requests).max(of(|s| s.request_count));
    wanted.min(2 * scraped).min(WIDEST).min(population).max(scraped)
}

/// Number of samples whose mean has the tolerated error, if all pods differ as these do:
/// `n = n₀ / (1 + n₀ / N)`, `n₀ = (s / (e · mean))²`.
fn wanted(samples: &[Stat], field: fn(&Stat) -> f64, population: usize) -> usize {
    let scraped = samples.len() as f64;
    let mean = samples.iter().map(field).sum::<f64>() / scraped;
    if samples.len() < 2 || mean.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
        return 0;
    }
    let variance = samples.iter().map(|sample| (field(sample) - mean).powi(2)).sum::<f64>() / (scraped - 1.0);
    let unlimited = variance / (TOLERANCE * mean).powi(2);
    // `as` saturates.
    (unlimited / (1.0 + unlimited / population as f64)).ceil() as usize
}

/// Indices of the samples with more than twice the mean load, the most loaded first, at most 64.
/// Without such a pod the sample would miss load; with it the extrapolation would multiply that
/// load. So the next scrape includes these pods, and counts each only for itself.
pub fn outliers(samples: &[Stat]) -> Vec<usize> {
    let mean = |field: fn(&Stat) -> f64| samples.iter().map(field).sum::<f64>() / samples.len() as f64;
    let (concurrency, requests) = (mean(|s| s.average_concurrent_requests), mean(|s| s.request_count));
    let by_mean = |s: &Stat| (s.average_concurrent_requests / concurrency).max(s.request_count / requests);
    let mut outliers: Vec<_> =
        samples.iter().map(by_mean).enumerate().filter(|(_, load)| *load > OUTLYING).collect();
    outliers.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    outliers.into_iter().take(MOST_OUTLIERS).map(|(sample, _)| sample).collect()
}

/// The estimated sum over `outliers`, which count for themselves, and over `population` other pods,
/// of which `samples` are some. Without samples the other pods count as 0.
pub fn extrapolate(outliers: &[Stat], samples: &[Stat], population: usize) -> Stat {
    // Number of pods that each sample stands for.
    let each = if samples.is_empty() { 0.0 } else { population as f64 / samples.len() as f64 };
    let sum = |stats: &[Stat], field: fn(&Stat) -> f64| stats.iter().map(field).sum::<f64>();
    let total = |field: fn(&Stat) -> f64| sum(outliers, field) + sum(samples, field) * each;
    Stat {
        average_concurrent_requests: total(|s| s.average_concurrent_requests),
        average_proxied_concurrent_requests: total(|s| s.average_proxied_concurrent_requests),
        request_count: total(|s| s.request_count),
        proxied_request_count: total(|s| s.proxied_request_count),
        ..Stat::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample sizes of Knative's sample_size_test.go; the ones between by its formula.
    #[test]
    fn grows_slowly_to_sixteen() {
        for (population, expected) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 4),
            (5, 4),
            (6, 5),
            (7, 6),
            (8, 6),
            (10, 7),
            (11, 7),
            (15, 8),
            (20, 9),
            (25, 10),
            (30, 11),
            (50, 12),
            (100, 14),
            (200, 15),
            (500, 15),
            (1000, 16),
            (5000, 16),
        ] {
            assert_eq!(sample_size(population), expected, "{population}");
        }
    }

    fn loads(loads: &[f64]) -> Vec<Stat> {
        loads.iter().map(|load| stat(*load, 0.0, 0.0, 0.0)).collect()
    }

    #[test]
    fn widens_sample_only_if_pods_differ() {
        assert_eq!(widened_sample(&loads(&[5.0; 14]), 100), 14);
        assert_eq!(widened_sample(&loads(&[0.0; 14]), 100), 14, "idle");
        assert_eq!(widened_sample(&loads(&[4.0, 5.0, 6.0, 5.0, 4.0, 6.0, 5.0]), 10), 7);
        let mut hot = vec![0.0; 14];
        hot[3] = 50.0;
        assert_eq!(widened_sample(&loads(&hot), 100), 28);
        assert_eq!(widened_sample(&loads(&hot), 20), 20, "there are no more");
        hot.resize(100, 0.0);
        assert_eq!(widened_sample(&loads(&hot), 5000), WIDEST);
        for invalid in [f64::NAN, f64::INFINITY, -1.0] {
            let wanted = widened_sample(&loads(&[1.0, invalid, 2.0]), 10);
            assert!((3..=6).contains(&wanted), "{invalid}: {wanted}");
        }
        assert_eq!(widened_sample(&[], 10), 0);
        assert_eq!(widened_sample(&loads(&[1.0]), 1), 1);
    }

    #[test]
    fn outliers_are_found_and_count_only_for_themselves() {
        let pods = loads(&[1.0, 50.0, 0.0, 2.0, 70.0, 1.0, 0.0, 1.0]);
        assert_eq!(outliers(&pods), [4, 1]);
        assert_eq!(outliers(&loads(&[4.0, 6.0, 5.0])), [0; 0]);
        assert_eq!(outliers(&loads(&[0.0, 0.0])), [0; 0]);
        assert_eq!(outliers(&[]), [0; 0]);
        assert_eq!(outliers(&loads(&[1.0, f64::NAN, 2.0])), [0; 0]);
        assert_eq!(outliers(&loads(&[[1000.0; 100].as_slice(), &[0.0; 1000]].concat())).len(), MOST_OUTLIERS);
        let busy = Stat { request_count: 90.0, ..Stat::default() };
        assert_eq!(outliers(&[vec![busy], vec![Stat::default(); 9]].concat()), [0]);

        let total = extrapolate(&loads(&[70.0, 50.0]), &loads(&[1.0, 0.0, 2.0]), 30);
        assert_eq!(total.average_concurrent_requests, 150.0);
    }

    /// Without a wider sample this overshoots: one of a hundred pods has all the load, and is in
    /// the first sample.
    #[test]
    fn load_of_one_hot_pod_is_not_multiplied() {
        let mut pods = vec![0.0; 100];
        pods[0] = 50.0;
        let mut scraped = sample_size(100);
        loop {
            let wider = widened_sample(&loads(&pods[..scraped]), 100);
            if wider == scraped {
                break;
            }
            scraped = wider;
        }
        let total = extrapolate(&[], &loads(&pods[..scraped]), 100).average_concurrent_requests;
        assert!(total <= 55.0, "50 was estimated as {total} from {scraped} pods");
    }

    fn stat(concurrency: f64, proxied: f64, count: f64, proxied_count: f64) -> Stat {
        Stat {
            average_concurrent_requests: concurrency,
            average_proxied_concurrent_requests: proxied,
            request_count: count,
            proxied_request_count: proxied_count,
            ..Stat::default()
        }
    }

    /// Knative stats_scraper_test.go. The choice of pods, and the rejection of too few responses
    /// (S5, S6, S9), are the scraper's part.
    #[test]
    fn extrapolates_samples_to_all_pods() {
        let three = [stat(3.0, 2.0, 5.0, 4.0), stat(5.0, 4.0, 7.0, 6.0), stat(3.0, 2.0, 5.0, 4.0)];
        assert_eq!(extrapolate(&[], &three, 3), stat(11.0, 8.0, 17.0, 14.0)); // S1
        let five = [2.0, 4.0, 6.0, 8.0, 10.0].map(|concurrency| stat(concurrency, 0.0, 0.0, 0.0));
        assert_eq!(extrapolate(&[], &five, 6), stat(36.0, 0.0, 0.0, 0.0)); // S3
        let seven = vec![stat(14.0, 0.0, 0.0, 0.0); 7];
        assert_eq!(extrapolate(&[], &seven, 11), stat(154.0, 0.0, 0.0, 0.0)); // S4
        assert_eq!(extrapolate(&[], &[], 5), Stat::default()); // S9
    }
}
