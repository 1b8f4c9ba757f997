//! Service time: how long a pod works on a request.

use std::time::Duration;

use rand::{Rng, RngExt};

/// A distribution of service times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTime {
    /// The same for all requests.
    Constant(Duration),
    /// Exponential with this mean: many short requests, a few long ones.
    Exponential(Duration),
    /// Mean and coefficient of variation. Above 1 it is hyperexponential with balanced means, below
    /// 1 a constant part and an exponential one.
    Varying(Duration, f64),
    /// As [`Varying`](Self::Varying), but some requests take longer, as those to a slow endpoint.
    WithSlow {
        /// Mean and coefficient of variation of the others.
        others: (Duration, f64),
        /// Share of the slow requests.
        share: f64,
        /// Factor on the time of a slow request.
        factor: f64,
    },
}

// === impl ServiceTime ===

impl ServiceTime {
    pub fn mean(self) -> Duration {
        match self {
            Self::Constant(mean) | Self::Exponential(mean) | Self::Varying(mean, _) => mean,
            Self::WithSlow { others: (mean, _), share, factor } => mean.mul_f64(1.0 - share + share * factor),
        }
    }

    /// Draws the time of one request.
    pub fn draw(self, random: &mut impl Rng) -> Duration {
        match self {
            Self::Constant(time) => time,
            Self::Exponential(mean) => mean.mul_f64(exponential(random)),
            Self::Varying(mean, cv) => mean.mul_f64(varying(cv, random)),
            Self::WithSlow { others: (mean, cv), share, factor } => {
                let is_slow = random.random_bool(share);
                mean.mul_f64(varying(cv, random) * if is_slow { factor } else { 1.0 })
            }
        }
    }
}

/// An exponentially distributed number of mean 1.
pub(crate) fn exponential(random: &mut impl Rng) -> f64 {
    let uniform: f64 = random.random_range(0.0..1.0);
    -(1.0 - uniform).ln()
}

/// A number of mean 1 with this coefficient of variation. The classes of the hyperexponential
/// distribution contribute half of the mean each.
fn varying(cv: f64, random: &mut impl Rng) -> f64 {
    if cv <= 1.0 {
        return 1.0 - cv + cv * exponential(random);
    }
    let square = cv * cv;
    let short = (1.0 + ((square - 1.0) / (square + 1.0)).sqrt()) / 2.0;
    let uniform: f64 = random.random_range(0.0..1.0);
    let class = if uniform < short { short } else { 1.0 - short };
    exponential(random) / (2.0 * class)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn varying_service_time_has_its_mean_and_variation() {
        let mut random = StdRng::seed_from_u64(1);
        for cv in [0.0, 0.5, 1.0, 4.0] {
            let time = ServiceTime::Varying(Duration::from_millis(100), cv);
            let draws: Vec<_> = (0..400_000).map(|_| time.draw(&mut random).as_secs_f64()).collect();
            let mean = draws.iter().sum::<f64>() / 400_000.0;
            let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 400_000.0;
            assert!((mean / 0.1 - 1.0).abs() < 0.03, "mean {mean} for {cv}");
            assert!(
                (variance.sqrt() / mean - cv).abs() < 0.1 * cv + 1e-6,
                "{} for {cv}",
                variance.sqrt() / mean
            );
        }
    }
    #[test]
    fn slow_requests_have_their_share_and_their_factor() {
        let mut random = StdRng::seed_from_u64(1);
        let mean = Duration::from_millis(100);
        let time = ServiceTime::WithSlow { others: (mean, 0.0), share: 0.1, factor: 10.0 };
        assert_eq!(time.mean(), Duration::from_millis(190));
        let draws: Vec<_> = (0..100_000).map(|_| time.draw(&mut random)).collect();
        let slow = draws.iter().filter(|draw| **draw == 10 * mean).count();
        assert!((9_500..10_500).contains(&slow), "{slow}");
        assert!(draws.iter().all(|draw| *draw == mean || *draw == 10 * mean));
    }
}
