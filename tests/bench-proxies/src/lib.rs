//! What of the benchmark is of use to other tests.

#![deny(missing_docs)]

pub mod debian;
