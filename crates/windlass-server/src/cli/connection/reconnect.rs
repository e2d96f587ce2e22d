//! Events that are followed: a stream that ends is opened again where it was. What it tells is decided by the server; what
//! becomes of it by the caller.

use std::time::Duration;

use crate::cli::connection::client::{Call, Client};
use crate::cli::connection::sse::{Event, EventStream};
use crate::cli::error::{ErrorResponse, Failure};
use crate::limits::{FOLLOW_PAUSE, FOLLOW_TRIES_MAX, JOB_POLL_INTERVAL, JOB_WAIT};

/// How long to wait before a stream that has ended is opened again: a server that stops says goodbye a moment before it
/// hangs up.
const CUT_PAUSE: Duration = Duration::from_millis(250);

/// Events of one kind, for as long as anybody wants to know.
pub(in crate::cli) struct Followed<'a> {
    client: &'a Client,
    call: Call,
    stream: EventStream,
    /// The number of the last one that is kept.
    last: Option<u64>,
}

impl<'a> Followed<'a> {
    /// Follows what this call asks for, from now on.
    pub(in crate::cli) async fn open(client: &'a Client, call: Call) -> Result<Followed<'a>, Failure> {
        let stream = client.stream(call.clone()).await?;
        Ok(Followed { client, call, stream, last: None })
    }

    /// Everything up to this number was heard elsewhere.
    pub(in crate::cli) fn received(&mut self, last: Option<u64>) {
        self.last = last.max(self.last);
    }

    /// The next event that was not heard yet; None after a cut, when events that are not kept may have been missed.
    pub(in crate::cli) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        while let Ok(Some(event)) = self.stream.next().await {
            let is_heard = event.id.is_some_and(|id| self.last.is_some_and(|last| id <= last));
            self.last = event.id.max(self.last);
            if !is_heard && event.name != "end" {
                return Ok(Some(event));
            }
        }
        tokio::time::sleep(CUT_PAUSE).await;
        self.reopen().await?;
        Ok(None)
    }

    /// Opens the stream where it was, trying for a while if nobody is there: a restart takes less.
    pub(in crate::cli) async fn reopen(&mut self) -> Result<(), Failure> {
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

/// Whether a server says that it cannot do it now, as one does that is being restarted.
fn is_passing(refusal: &ErrorResponse) -> bool {
    [429, 502, 503, 504].contains(&refusal.status)
}

/// News of one job: by its events, with a long wait for its end beside them. Several servers of one store tell each other
/// of every end, but of other events only if they are kept.
pub(in crate::cli) struct JobEventStream<'a> {
    client: &'a Client,
    id: &'a str,
    /// None where a server has no stream to give.
    events: Option<Followed<'a>>,
}

impl<'a> JobEventStream<'a> {
    /// News from now on. Ask for it before the first look, so that nothing falls between the two.
    pub(in crate::cli) async fn open(client: &'a Client, id: &'a str) -> Result<JobEventStream<'a>, Failure> {
        let events = match Followed::open(client, Call::get(&["events"]).query("job", id)).await {
            Ok(events) => Some(events),
            // Too many streams are open, or something between here and there does not pass them on.
            Err(Failure::Refused(refusal)) if is_passing(&refusal) => None,
            Err(failure) => return Err(failure),
        };
        Ok(JobEventStream { client, id, events })
    }

    /// Returns when something has happened to the job, or may have; at the latest after this time, if one is given.
    pub(in crate::cli) async fn wait(&mut self, at_most: Option<Duration>) -> Result<(), Failure> {
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
            // Whatever it came to, the caller looks again.
            looked = self.client.value(end) => match looked {
                Ok(_) | Err(Failure::Refused(_)) => Ok(()),
                Err(_) => {
                    tokio::time::sleep(CUT_PAUSE).await;
                    Ok(())
                }
            },
        }
    }

    /// What came of a look, unless the server was away: then it is waited for, and None says to look again.
    pub(in crate::cli) async fn retry_while_away<T>(
        &mut self,
        looked: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        match (looked, &mut self.events) {
            (
                Err(Failure::NoServer { .. } | Failure::Silent { .. } | Failure::BadAnswer { .. }),
                Some(events),
            ) => {
                events.reopen().await?;
                Ok(None)
            }
            (looked, _) => looked.map(Some),
        }
    }
}
