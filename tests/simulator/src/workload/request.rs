//! One request, from its arrival to its end.

use std::time::Duration;

use crate::clock::Time;

/// Index of an activator.
pub type ActivatorId = usize;

/// A request with all properties that are drawn at its arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Unique number.
    pub id: u64,
    /// Time of arrival.
    pub arrived: Time,
    /// Service time.
    pub work: Duration,
    /// Mean of the distribution that it is drawn from.
    pub mean_work: Duration,
    /// End of the client timeout: the latest start in a pod.
    pub deadline: Time,
    /// Whether the client sends another request when this one has ended.
    pub repeats: bool,
    /// The activator on its path, if any.
    pub activator: Option<ActivatorId>,
    /// When it entered the app.
    pub started: Time,
    /// The activator that lent the slot, if it is not the carrier's own.
    pub lender: Option<ActivatorId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestResult {
    /// A pod responded.
    Served,
    /// A queue was full, or there was no backend.
    Refused,
    /// The client timeout expired.
    TimedOut,
    /// The pod was killed.
    Killed,
}
