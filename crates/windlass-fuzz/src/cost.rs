//! What an input costs: processor time of this thread, and memory of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).expect("these clocks begin at zero");
    Duration::new(seconds, u32::try_from(time.tv_nsec).expect("below a second"))
}

/// Runs a function and returns the processor time that it took.
pub(crate) fn measured<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = read(ClockId::ThreadCPUTime);
    let outcome = run();
    (outcome, read(ClockId::ThreadCPUTime).saturating_sub(start))
}

/// Time since some fixed moment.
pub(crate) fn elapsed() -> Duration {
    read(ClockId::Monotonic)
}

/// Resident memory of this process at its largest; 0 where it is not known.
pub(crate) fn process_bytes_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}
