//! Timeouts and limits of a client, as a worker or another long-running program needs them.

use std::time::Duration;

use windlass_core::limits;

/// Timeouts and limits of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// Time to connect.
    pub connect_max: Duration,
    /// Time for a response, in addition to a requested wait; also the time to open a stream.
    pub call_max: Duration,
    /// How long calls are repeated, where that is safe, while the server is unreachable; `None` to repeat no call.
    pub away_max: Option<Duration>,
    /// How long an idle connection is kept.
    pub idle_max: Duration,
    /// Idle connections that are kept.
    pub idle_connections_max: usize,
    /// Bytes of one response.
    pub answer_bytes_max: usize,
    /// How long an event stream may be silent.
    pub silence_max: Duration,
    /// Bytes of one event.
    pub event_bytes_max: usize,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect_max: limits::SERVER_CONNECT_MAX,
            call_max: limits::SERVER_CALL_MAX,
            away_max: Some(limits::SERVER_AWAY_MAX),
            idle_max: limits::SERVER_IDLE_MAX,
            idle_connections_max: limits::SERVER_IDLE_CONNECTIONS_MAX,
            answer_bytes_max: limits::SERVER_ANSWER_BYTES_MAX,
            silence_max: limits::SERVER_SILENCE_MAX,
            event_bytes_max: limits::SERVER_EVENT_BYTES_MAX,
        }
    }
}
