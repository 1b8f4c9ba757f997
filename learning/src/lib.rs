//! The learned concurrency target: how many concurrent requests one pod should carry.
//!
//! ```text
//!  seconds of pods ─► checks (gaps, clock, sidecars) ─► regime: is the service time the same?
//!                                                    │          └─► curve: load → throughput, time
//!                                                    ▼              │
//!          trial: all seconds at the present target ─► pressure ─► step ─► target, phase, evidence
//!                                                                    ▲
//!                                shadow: a decider with the user's target
//! ```
//!
//! Input: one [`PodSecond`] of each pod a second, from the sidecars' stats. Output: a
//! [`LearnedTarget`]. With an objective the target is the largest load at which responses keep it;
//! without one it is the load above which requests wait for each other.
//!
//! The pods of one workload differ in load from second to second, and each change of the target
//! is a trial with a result. So the load curve comes from ordinary traffic, and only small steps
//! are needed beyond what it covers.
//!
//! What surprises: missing data is never good news. Without evidence there is no change, and the
//! phase states why. A throughput that falls at the same load has a cause outside of the pod's own
//! concurrency, so the target freezes.
//!
//! The crate stands above `autoscaler`, which has the decider of the shadow, the settings, and what
//! others read of the result: the report in a decision and the status. It is as pure: instants are
//! arguments, and its manifest shows that it does no IO.

mod bounds;
mod bracket;
mod curve;
mod feed;
mod learned_target;
mod learner;
mod observation;
mod pressure;
mod regime;
mod shadow;
mod trial;
mod tuning;
mod workload_learning;

pub use bounds::{LearningSpec, MissBudget};
pub use learned_target::LearnedTarget;
pub use learner::{CpuRoom, CurvePoint, Learner, LearnerState, MemoryRoom, TargetBasis, TargetBound};
pub use observation::{AppSecond, CpuReading, PodSecond};
pub use workload_learning::WorkloadLearning;
