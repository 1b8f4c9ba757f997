//! How many pods to ask in a second, and what all of them would have said.
//!
//! Sixteen answers speak for any number of pods: the error of their mean is bounded by their variance, not by how many pods
//! there are. Used by the metrics-adapter's scraper, which asks the pods and gives the answers back here.

use super::Stat;

/// 95 % confidence (1.96 standard deviations), variance 100, margin of error 5: `1.96² · 100 / 5²`.
const ASYMPTOTE: f64 = 1.96 * 1.96 * 100.0 / 25.0;

/// Pods to ask out of `population`; all of up to three, never more than 16.
pub fn sample_size(population: usize) -> usize {
    if population <= 3 {
        return population;
    }
    let population = population as f64;
    // Between 4 and 16.
    (population * ASYMPTOTE / (population + ASYMPTOTE - 1.0)).ceil() as usize
}

/// The sum over `population` pods, from the samples of some of them. Zero samples say zero.
pub fn extrapolate(samples: &[Stat], population: usize) -> Stat {
    if samples.is_empty() {
        return Stat::default();
    }
    let (asked, all) = (samples.len() as f64, population as f64);
    let total = |field: fn(&Stat) -> f64| samples.iter().map(field).sum::<f64>() / asked * all;
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

    fn stat(concurrency: f64, proxied: f64, count: f64, proxied_count: f64) -> Stat {
        Stat {
            average_concurrent_requests: concurrency,
            average_proxied_concurrent_requests: proxied,
            request_count: count,
            proxied_request_count: proxied_count,
            ..Stat::default()
        }
    }

    /// Knative stats_scraper_test.go. Who is asked, and that a shortfall discards the second (S5, S6, S9), is the scraper's part.
    #[test]
    fn samples_speak_for_all() {
        let three = [stat(3.0, 2.0, 5.0, 4.0), stat(5.0, 4.0, 7.0, 6.0), stat(3.0, 2.0, 5.0, 4.0)];
        assert_eq!(extrapolate(&three, 3), stat(11.0, 8.0, 17.0, 14.0)); // S1
        let five = [2.0, 4.0, 6.0, 8.0, 10.0].map(|concurrency| stat(concurrency, 0.0, 0.0, 0.0));
        assert_eq!(extrapolate(&five, 6), stat(36.0, 0.0, 0.0, 0.0)); // S3
        let seven = vec![stat(14.0, 0.0, 0.0, 0.0); 7];
        assert_eq!(extrapolate(&seven, 11), stat(154.0, 0.0, 0.0, 0.0)); // S4
        assert_eq!(extrapolate(&[], 5), Stat::default()); // S9
    }
}
