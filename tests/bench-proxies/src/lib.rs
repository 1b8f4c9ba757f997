//! What of the benchmark is of use to other tests.

#![deny(missing_docs)]

pub mod clock;
pub mod cpu_time;
pub mod debian;
pub mod memory;
pub mod process;
pub mod table;
