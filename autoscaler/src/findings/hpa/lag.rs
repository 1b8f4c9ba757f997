//! An HPA that follows its metric late, because there are more HPAs than its controller may read in
//! its period.

use crate::findings::Problem;
use crate::findings::reasons::Reason;

/// Requests a second of kube-controller-manager's client, by default (`--kube-api-qps`). A sync of
/// an HPA at its size is one: the read of `/scale`.
const DEFAULT_QPS: u32 = 20;

/// The problem of an HPA with this [`hpa_lag`](crate::scaling::decision::hpa_lag).
pub fn slow_hpa(lag: u32) -> Problem {
    let hpas = lag.saturating_mul(DEFAULT_QPS);
    let problem = format!(
        "the HPA follows its metric each {lag} s or later, instead of each 15 s; {hpas} HPAs take {lag} s at \
         {DEFAULT_QPS} requests a second, the default of --kube-api-qps"
    );
    Problem::with_usual_fix(Reason::HPASlow, problem)
}
