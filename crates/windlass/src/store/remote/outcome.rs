//! Reports of attempts to a server.

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Remote;
use super::client::Call;
use super::error::{ErrorResponse, Fields, not_json};
use super::text::{Moment, Span};
use crate::error::WorkError;
use crate::job::{Category, ErrorCause, Fence, JobId, JobState, WorkerId};
use crate::store::command::finish::{Finish, Outcome, Park, Report};

#[derive(Serialize)]
struct OutcomesBody<'a> {
    worker_id: WorkerId,
    outcomes: Vec<OutcomeBody<'a>>,
}

#[derive(Serialize)]
struct OutcomeBody<'a> {
    id: JobId,
    fence: Fence,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureBody<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    cost_cents: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    park: Option<ParkBody<'a>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(cents: &i64) -> bool {
    *cents == 0
}

#[derive(Serialize)]
struct FailureBody<'a> {
    category: Category,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Span>,
    #[serde(skip_serializing_if = "<[ErrorCause]>::is_empty")]
    cause: &'a [ErrorCause],
}

/// What a job waits for, as it is sent.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ParkBody<'a> {
    Until {
        until: Moment,
    },
    For {
        r#for: Span,
    },
    Signal {
        signal: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout: Option<Span>,
    },
    Any {
        any: Vec<ParkBody<'a>>,
    },
}

impl<'a> From<&'a Park> for ParkBody<'a> {
    fn from(park: &'a Park) -> ParkBody<'a> {
        match park {
            Park::Until(until) => ParkBody::Until { until: Moment(*until) },
            Park::For(span) => ParkBody::For { r#for: Span(*span) },
            Park::Signal { name, step, timeout } => {
                ParkBody::Signal { signal: name, step: step.as_deref(), timeout: timeout.map(Span) }
            }
            Park::Any(parks) => ParkBody::Any { any: parks.iter().map(ParkBody::from).collect() },
        }
    }
}

/// A report as it is sent; `None` if its result is not JSON, which no server accepts.
fn outcome(report: &Report) -> Option<OutcomeBody<'_>> {
    let Report { job, fence, outcome, cost_cents } = report;
    let body = |word| OutcomeBody {
        id: *job,
        fence: *fence,
        outcome: word,
        result: None,
        error: None,
        cost_cents: *cost_cents,
        park: None,
    };
    Some(match outcome {
        Outcome::Completed { result: None } => body("completed"),
        Outcome::Completed { result: Some(result) } => {
            OutcomeBody { result: Some(serde_json::from_slice(result).ok()?), ..body("completed") }
        }
        Outcome::Failed(failure) => {
            let error = FailureBody {
                category: failure.category,
                message: &failure.message,
                code: failure.code.as_deref(),
                retry_after: failure.retry_after.map(Span),
                cause: &failure.cause,
            };
            OutcomeBody { error: Some(error), ..body("failed") }
        }
        Outcome::Released => body("released"),
        Outcome::Parked(park) => OutcomeBody { park: Some(park.into()), ..body("parked") },
    })
}

#[derive(Deserialize)]
struct OutcomesView {
    outcomes: Vec<OutcomeView>,
}

#[derive(Deserialize)]
struct OutcomeView {
    status: String,
    state: Option<JobState>,
    error: Option<Fields>,
}

impl From<OutcomeView> for Finish {
    fn from(view: OutcomeView) -> Finish {
        match (view.status.as_str(), view.state, view.error) {
            ("applied", Some(state), _) => Finish::Applied(state),
            ("rejected", _, Some(fields)) => {
                let refusal = ErrorResponse::item(fields, StatusCode::UNPROCESSABLE_ENTITY);
                Finish::Rejected(refusal.invalid().unwrap_or_else(|| not_json("outcome")))
            }
            _ => Finish::Stale,
        }
    }
}

impl Remote {
    pub(crate) async fn finish(
        &self,
        worker: WorkerId,
        reports: Vec<Report>,
    ) -> Result<Vec<Finish>, WorkError> {
        let bodies: Vec<Option<OutcomeBody<'_>>> = reports.iter().map(outcome).collect();
        let is_readable: Vec<bool> = bodies.iter().map(Option::is_some).collect();
        let body = OutcomesBody { worker_id: worker, outcomes: bodies.into_iter().flatten().collect() };
        // The caller can safely repeat it: an outcome that was applied is stale the second time.
        let call = Call::post("/outcomes").json(&body).once();
        let view: OutcomesView = self.client.ask(call).await.map_err(|error| error.into_work(worker))?;
        let mut answers = view.outcomes.into_iter();
        let answer = |is_readable: bool| {
            if !is_readable {
                return Finish::Rejected(not_json("result"));
            }
            answers.next().map_or(Finish::Stale, Finish::from)
        };
        Ok(is_readable.into_iter().map(answer).collect())
    }
}
