//! Fetched: an object, its absence, or the reason why it could not be read.

use crate::error::{is_not_found, reason};

/// The result of reading one object or list.
#[derive(Clone, Debug, PartialEq)]
pub enum Fetched<T> {
    /// It exists.
    Found(T),
    /// It does not exist, or the cluster does not serve its kind.
    NotFound,
    /// It could not be read, mostly for lack of rights: nothing follows from it.
    Unreadable(String),
}

// === impl Fetched ===

impl<T> Fetched<T> {
    /// The object, if it was found.
    pub fn found(&self) -> Option<&T> {
        match self {
            Self::Found(object) => Some(object),
            Self::NotFound | Self::Unreadable(_) => None,
        }
    }

    /// Whether it is certain that the object does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NotFound)
    }

    /// The name with the reason why it could not be read.
    pub fn unreadable(&self, name: &str) -> Option<String> {
        match self {
            Self::Unreadable(reason) => Some(format!("{name}: {reason}")),
            Self::Found(_) | Self::NotFound => None,
        }
    }
}

impl<T> From<Result<T, kube::Error>> for Fetched<T> {
    fn from(result: Result<T, kube::Error>) -> Self {
        match result {
            Ok(object) => Self::Found(object),
            Err(error) if is_not_found(&error) => Self::NotFound,
            Err(error) => Self::Unreadable(reason(&error)),
        }
    }
}
