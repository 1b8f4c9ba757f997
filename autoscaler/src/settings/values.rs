//! Types of setting values that the standard library lacks, each with its text form.

pub(super) mod aggregation;
pub(super) mod duration;
pub(super) mod reachability;
