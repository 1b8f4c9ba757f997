//! What each request costs the [app](crate::serve) beside its time: CPU and memory, so that a limit
//! of the container has a known number of requests.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The cost of each request.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct RequestCost {
    /// Milliseconds of CPU that each request takes at its end
    #[arg(long, default_value_t = 0)]
    cpu_ms: u64,
    /// Mebibytes that each request holds until its end
    #[arg(long, default_value_t = 0)]
    memory_mib: usize,
}

impl RequestCost {
    /// Takes CPU of the only thread, so that requests take it one after the other. A limit of the
    /// container can stretch the time, but not the CPU.
    pub(crate) fn use_cpu(self) {
        let end = cpu_time() + Duration::from_millis(self.cpu_ms);
        while cpu_time() < end {
            std::hint::spin_loop();
        }
    }

    /// Allocates and writes the memory, because pages that were never written cost nothing.
    pub(crate) fn allocate(self) -> Vec<u8> {
        vec![b'x'; self.memory_mib << 20]
    }
}

/// CPU that this thread has taken.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither part is negative.
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
