//! One request, from its arrival to its end.

use std::time::Duration;

use crate::clock::Time;

/// Index of an activator.
pub type ActivatorId = usize;

/// A request and everything that is decided about it when it arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Its number.
    pub id: u64,
    /// When it arrives.
    pub arrived: Time,
    /// How long a pod works on it.
    pub work: Duration,
    /// When its client gives up waiting for a pod to begin.
    pub deadline: Time,
    /// Whether the client sends the next one as soon as this has ended.
    pub repeats: bool,
    /// The activator that carries it.
    pub activator: Option<ActivatorId>,
    /// Who has lent that activator the place where it runs.
    pub lender: Option<ActivatorId>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestResult {
    /// A pod has answered.
    Served,
    /// A queue was full.
    Refused,
    /// The client gave up waiting.
    TimedOut,
}
