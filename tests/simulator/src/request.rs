//! One request, from its arrival to its end.

use std::time::Duration;

use crate::clock::Time;
use crate::pod_slots::ActivatorId;

/// A request and everything that is decided about it when it arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Its number.
    pub id: u64,
    /// When it arrives.
    pub arrived: Time,
    /// How long a pod works on it.
    pub work: Duration,
    /// When its caller gives up waiting for a pod to begin.
    pub deadline: Time,
    /// Whether the caller sends the next one as soon as this has ended.
    pub repeats: bool,
    /// The activator that carries it.
    pub activator: Option<ActivatorId>,
    /// Who has lent that activator the place where it runs.
    pub lender: Option<ActivatorId>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A pod has answered.
    Served,
    /// A queue was full.
    Refused,
    /// The caller gave up waiting.
    TimedOut,
}
