//! Every bound at the door, each with its reason; those of jobs and stores are in the library's own list.

use std::time::Duration;

/// How long one address of a receiver may take to accept a connection and to shake hands; then the next is tried.
pub const CALL_CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Addresses of a receiver that are tried, one after the other; all of them are checked.
pub const CALL_ADDRESSES_MAX: usize = 4;
/// Bytes of the head of a receiver's answer.
pub const CALL_HEAD_BYTES_MAX: usize = 64 << 10;
/// Lines of the head of a receiver's answer.
pub const CALL_HEAD_LINES_MAX: usize = 100;
/// How long a receiver of a callback may take in all: it only has to say that it has it.
pub const CALLBACK_TIME_MAX: Duration = Duration::from_secs(15);
/// Callbacks that one server process delivers at once: many, since each mostly waits.
pub const CALLBACKS_AT_ONCE: usize = 256;
/// Longest delay that a receiver may ask for with `Retry-After`: a callback is worth a look once a day.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// How often the push targets in force are looked at. Settings change rarely while news of work come thousands of times a
/// second: a cheap look costs less than being woken.
pub const PUSH_TARGETS_EVERY: Duration = Duration::from_secs(1);
/// How long calls that are under way may go on once the server is told to stop; it must be gone within 10 s.
pub const CALL_DRAIN_MAX: Duration = Duration::from_secs(5);
/// How long a call that was told to stop may take to be gone.
pub const CALL_GRACE: Duration = Duration::from_millis(500);
/// How long to wait when a worker of the server's own could not go on.
pub const CALL_TROUBLE_PAUSE: Duration = Duration::from_secs(1);
