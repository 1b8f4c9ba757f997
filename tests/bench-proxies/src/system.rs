//! What the benchmark reads from and starts on the operating system: time, CPU time, memory,
//! processes, Debian packages, wheels.

pub mod clock;
pub mod cpu_time;
pub mod debian;
pub mod machine;
pub mod memory;
pub mod process;
pub mod wheel;
