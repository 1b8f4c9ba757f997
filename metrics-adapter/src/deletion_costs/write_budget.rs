//! WriteBudget: a bound on writes in each period.

use std::time::Duration;

use tokio::time::Instant;

/// The writes of the present period. It begins with the first write after the last period.
#[derive(Debug)]
pub(super) struct WriteBudget {
    limit: usize,
    period: Duration,
    began: Instant,
    used: usize,
}

// === impl WriteBudget ===

impl WriteBudget {
    pub(super) fn new(limit: usize, period: Duration, now: Instant) -> Self {
        Self { limit, period, began: now, used: 0 }
    }

    /// Takes as many of `wanted` writes as are left.
    pub(super) fn take(&mut self, wanted: usize, now: Instant) -> usize {
        if now.duration_since(self.began) >= self.period {
            (self.began, self.used) = (now, 0);
        }
        let taken = wanted.min(self.limit - self.used);
        self.used += taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_a_period_are_bounded() {
        let start = Instant::now();
        let mut budget = WriteBudget::new(3, Duration::from_secs(10), start);
        assert_eq!((budget.take(2, start), budget.take(2, start)), (2, 1));
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!((budget.take(2, at(9)), budget.take(5, at(10)), budget.take(1, at(19))), (0, 3, 0));
    }
}
