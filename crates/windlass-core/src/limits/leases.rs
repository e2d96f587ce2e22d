//! Limits on leases, heartbeats and the clock that they are measured by.

use std::time::Duration;

/// Shortest lease: a shorter one could not be renewed in time.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// A renewal extends a lease by at least this, or a tenth of its length: writing every heartbeat would be useless.
pub const LEASE_STEP: Duration = Duration::from_secs(1);
/// Time without a heartbeat after which a worker is lost.
pub const WORKER_SILENCE_MAX: Duration = Duration::from_secs(30);
/// Time after its last answered heartbeat when a worker has dropped its handlers: before the store, whose time may run faster
/// ([`CLOCK_CATCH_UP`]), takes it for lost.
pub const WORKER_CUT_OFF: Duration = Duration::from_secs(26);
/// Largest step of a wall clock that a running store follows: drift between two corrections is far below it, and
/// its effect is far below a lease or a lifetime.
pub const CLOCK_STEP_MAX: Duration = Duration::from_secs(60);
/// Store time runs at least at one part in this many of real time while the wall clock is behind it.
pub const CLOCK_SLOWEST: i64 = 2;
/// While the wall clock is ahead of it, store time runs faster than real time by at most one part in this many. No more,
/// because leases and silences are shorter meanwhile.
pub const CLOCK_CATCH_UP: i64 = 10;
/// How long no lifetime ends and nothing is pruned after a store in a file started with a jump of its time: by then a
/// clock that was wrong at boot has been corrected.
pub const CLOCK_CAUTION: Duration = Duration::from_secs(300);
/// How long leases are kept after a gap in which no worker could report: one heartbeat interval plus transit time.
pub const LEASE_GRACE: Duration = Duration::from_secs(15);
/// Default heartbeat interval.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
