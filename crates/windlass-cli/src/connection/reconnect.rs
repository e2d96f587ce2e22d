//! Event streams that reconnect: a closed stream is reopened at its last position.

use std::time::Duration;

use windlass_api::client::error::ErrorResponse;
use windlass_api::client::sse::{self, SseEvent, SseStream};

use crate::connection::client::{Call, ServerClient};
use crate::error::Failure;
use crate::limits::{FOLLOW_PAUSE, FOLLOW_TRIES_MAX, JOB_POLL_INTERVAL, JOB_WAIT};

/// Pause before a closed stream is reopened: a stopping server closes its streams shortly before it stops listening.
const CUT_PAUSE: Duration = Duration::from_millis(250);

/// A stream of events that reconnects.
pub(crate) struct ReconnectingStream<'a> {
    client: &'a ServerClient,
    call: Call,
    stream: SseStream,
    /// The number of the last stored event.
    last: Option<u64>,
}

impl<'a> ReconnectingStream<'a> {
    /// Follows the events of this request, from now on.
    pub(crate) async fn open(
        client: &'a ServerClient,
        call: Call,
    ) -> Result<ReconnectingStream<'a>, Failure> {
        let stream = client.stream(call.clone()).await?;
        Ok(ReconnectingStream { client, call, stream, last: None })
    }

    /// Skips events up to this number, which were read another way.
    pub(crate) fn received(&mut self, last: Option<u64>) {
        self.last = last.max(self.last);
    }

    /// The next event. Returns None after a reconnect, when events that are not stored may have been missed.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, Failure> {
        while let Ok(Some(event)) = self.stream.next().await {
            let is_seen = event.id.is_some_and(|id| self.last.is_some_and(|last| id <= last));
            self.last = event.id.max(self.last);
            if !is_seen && event.name != sse::END {
                return Ok(Some(event));
            }
        }
        tokio::time::sleep(CUT_PAUSE).await;
        self.reopen().await?;
        Ok(None)
    }

    /// Reopens the stream at its position. Retries for a while, longer than a server restart takes.
    pub(crate) async fn reopen(&mut self) -> Result<(), Failure> {
        let mut tries = 0;
        loop {
            let last = self.last.map(|last| last.to_string());
            match self.client.stream(self.call.clone().query_if("last_event_id", last)).await {
                Ok(stream) => {
                    self.stream = stream;
                    return Ok(());
                }
                Err(Failure::Refused(refusal)) if !is_passing(&refusal) => {
                    return Err(Failure::Refused(refusal));
                }
                Err(failure) if tries >= FOLLOW_TRIES_MAX => return Err(failure),
                Err(_) => tokio::time::sleep(FOLLOW_PAUSE).await,
            }
            tries += 1;
        }
    }
}

/// Whether the error is temporary, for example during a restart.
fn is_passing(refusal: &ErrorResponse) -> bool {
    [429, 502, 503, 504].contains(&refusal.status)
}

/// Whether the server is unavailable for a while: it restarts, opens its store, or is overloaded.
fn is_unavailable(failure: &Failure) -> bool {
    match failure {
        Failure::NoServer { .. } | Failure::Silent { .. } | Failure::BadAnswer { .. } => true,
        Failure::Refused(refusal) => is_passing(refusal),
        Failure::Unreadable { .. } | Failure::Usage(_) | Failure::NotFound(_) => false,
    }
}

/// How often reads found the server unavailable since the last one that succeeded.
#[derive(Default)]
pub(crate) struct RetryDeadline {
    tries: u32,
}

impl RetryDeadline {
    /// Unwraps the result of a read. If the server is unavailable, waits for a while and returns None: the caller reads
    /// again.
    pub(crate) async fn retry_while_unavailable<T>(
        &mut self,
        looked: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let found = self.if_available(looked)?;
        if found.is_none() {
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
        Ok(found)
    }

    /// The result of a read; None if the server is unavailable, but not for long.
    fn if_available<T>(&mut self, looked: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match looked {
            Ok(found) => {
                self.tries = 0;
                Ok(Some(found))
            }
            Err(failure) if !is_unavailable(&failure) || self.tries >= FOLLOW_TRIES_MAX => Err(failure),
            Err(_) => {
                self.tries += 1;
                Ok(None)
            }
        }
    }
}

/// Changes of one job: its event stream, and in parallel a long poll for its end. Servers of the same store notify each
/// other of every end, but of other events only if they are stored.
pub(crate) struct JobEventStream<'a> {
    client: &'a ServerClient,
    id: &'a str,
    /// None if the server has no stream available.
    events: Option<ReconnectingStream<'a>>,
    patience: RetryDeadline,
}

impl<'a> JobEventStream<'a> {
    /// Starts to receive changes. Call it before the first read of the job, so that no change is missed in between.
    pub(crate) async fn open(client: &'a ServerClient, id: &'a str) -> Result<JobEventStream<'a>, Failure> {
        let events = match ReconnectingStream::open(client, Call::get(&["events"]).query("job", id)).await {
            Ok(events) => Some(events),
            // Too many streams are open, or a proxy does not support them.
            Err(Failure::Refused(refusal)) if is_passing(&refusal) => None,
            Err(failure) => return Err(failure),
        };
        Ok(JobEventStream { client, id, events, patience: RetryDeadline::default() })
    }

    /// Returns when the job changed or may have changed, at the latest after `at_most`.
    pub(crate) async fn wait(&mut self, at_most: Option<Duration>) -> Result<(), Failure> {
        let longest = if self.events.is_some() { JOB_WAIT } else { JOB_POLL_INTERVAL };
        let at_most = at_most.unwrap_or(longest);
        let text = format!("{}ms", at_most.as_millis());
        let end = Call::get(&["jobs", self.id]).query("wait", text).waiting(at_most);
        let next = async {
            match &mut self.events {
                Some(events) => events.next().await.map(drop),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            next = next => next,
            // Whatever the response is, the caller reads the job again.
            looked = self.client.send(end) => match looked {
                Ok(_) | Err(Failure::Refused(_)) => Ok(()),
                Err(_) => {
                    tokio::time::sleep(CUT_PAUSE).await;
                    Ok(())
                }
            },
        }
    }

    /// Unwraps the result of a read. If the server is unavailable, waits for it and returns None: the caller reads again.
    pub(crate) async fn retry_while_unavailable<T>(
        &mut self,
        looked: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let found = self.patience.if_available(looked)?;
        if found.is_some() {
            return Ok(found);
        }
        match &mut self.events {
            Some(events) => {
                tokio::time::sleep(CUT_PAUSE).await;
                events.reopen().await?;
            }
            None => tokio::time::sleep(FOLLOW_PAUSE).await,
        }
        Ok(None)
    }
}
