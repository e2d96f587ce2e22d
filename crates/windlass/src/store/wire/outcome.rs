//! Outcomes of attempts, and what parked ones wait for.

use windlass_api::claim::{ProgressBody, SavedStep};
use windlass_api::expires::Expiry;
use windlass_api::json::Json;
use windlass_api::outcome::{FailureBody, OutcomeBody, OutcomeKind, ParkBody};
use windlass_api::stream::StreamPart;
use windlass_api::submission::Submission;
use windlass_api::text::Text;
use windlass_api::time::{Moment, Span};

use super::invalid;
use super::stream::{sent_chunks, stream_write};
use crate::error::FieldError;
use crate::job::{Category, Failure, Fence, NewJob, Progress};
use crate::store::command::attempt_writes::AttemptWrite;
use crate::store::command::finish::{Outcome, Park, Report};

impl TryFrom<OutcomeBody> for Report {
    type Error = FieldError;

    fn try_from(body: OutcomeBody) -> Result<Report, FieldError> {
        let misplaced = |field: &str, is_there: bool, wanted: OutcomeKind| {
            if is_there && body.outcome != wanted {
                return Err(invalid(field, "is not valid for this outcome"));
            }
            Ok(())
        };
        misplaced("result", body.result.is_some(), OutcomeKind::Completed)?;
        misplaced("error", body.error.is_some(), OutcomeKind::Failed)?;
        misplaced("park", body.park.is_some(), OutcomeKind::Parked)?;
        let required = |field: &str| invalid(field, "is required");
        let outcome = match body.outcome {
            OutcomeKind::Completed => {
                Outcome::Completed { result: body.result.map(|json| json.bytes().to_vec()) }
            }
            OutcomeKind::Failed => Outcome::Failed(failure(body.error.ok_or_else(|| required("error"))?)),
            OutcomeKind::Released => Outcome::Released,
            OutcomeKind::Parked => Outcome::Parked(body.park.ok_or_else(|| required("park"))?.try_into()?),
        };
        let cost_cents = body.cost_cents.unwrap_or(0);
        let writes = attempt_writes(body.checkpoints, body.progress, body.logs, body.stream);
        let follow_ups = follow_ups(body.submit)?;
        Ok(Report { job: body.id.0, fence: Fence(body.fence), outcome, cost_cents, writes, follow_ups })
    }
}

/// The jobs that a completion submits.
fn follow_ups(jobs: Vec<Submission>) -> Result<Vec<NewJob>, FieldError> {
    let placed = |(index, job): (usize, Submission)| {
        let place = |invalid: FieldError| {
            FieldError::new(format!("submit.{index}.{}", invalid.field), invalid.problem)
        };
        job.into_job(None).map_err(place)
    };
    jobs.into_iter().enumerate().map(placed).collect()
}

/// Checkpoints, progress, log lines and output as writes of an attempt.
pub fn attempt_writes(
    checkpoints: Vec<SavedStep>,
    progress: Option<ProgressBody>,
    logs: Vec<String>,
    stream: Option<StreamPart>,
) -> Vec<AttemptWrite> {
    let saved = checkpoints
        .into_iter()
        .map(|SavedStep { step, value }| AttemptWrite::Checkpoint { step, value: value.bytes().to_vec() });
    let progress = progress.map(|ProgressBody { percent, message }| Progress { percent, message });
    let logs = (!logs.is_empty()).then_some(AttemptWrite::Logs(logs));
    let stream = stream.map(|StreamPart { offset, chunks }| stream_write(offset, &chunks));
    saved.chain(progress.map(AttemptWrite::Progress)).chain(logs).chain(stream).collect()
}

/// Writes of an attempt as they are sent.
#[derive(Debug, Default)]
pub struct SentWrites {
    /// Checkpoints.
    pub checkpoints: Vec<SavedStep>,
    /// The last progress.
    pub progress: Option<ProgressBody>,
    /// Log lines.
    pub logs: Vec<String>,
    /// Partial output.
    pub stream: Option<StreamPart>,
}

/// Writes as they are sent; of several progresses the last counts. `None` if a checkpoint or a chunk is not JSON, which
/// no server accepts.
pub fn sent_writes(writes: &[AttemptWrite]) -> Option<SentWrites> {
    let mut sent = SentWrites::default();
    for write in writes {
        match write {
            AttemptWrite::Checkpoint { step, value } => {
                sent.checkpoints.push(SavedStep { step: step.clone(), value: Json::stored(value)? });
            }
            AttemptWrite::Progress(Progress { percent, message }) => {
                sent.progress = Some(ProgressBody { percent: *percent, message: message.clone() });
            }
            AttemptWrite::Logs(lines) => sent.logs.extend(lines.iter().cloned()),
            AttemptWrite::Stream { offset, chunks } => {
                let part = sent_chunks(*offset, chunks)?;
                match &mut sent.stream {
                    Some(before) => before.chunks.extend(part.chunks),
                    None => sent.stream = Some(part),
                }
            }
        }
    }
    Some(sent)
}

fn failure(body: FailureBody) -> Failure {
    let mut failure = Failure::new(body.category.unwrap_or(Category::Temporary), body.message);
    if let Some(code) = body.code {
        failure = failure.with_code(code);
    }
    failure = body.cause.into_iter().fold(failure, Failure::with_cause);
    match body.retry_after {
        Some(delay) => failure.with_retry_after(delay.0),
        None => failure,
    }
}

impl TryFrom<ParkBody> for Park {
    type Error = FieldError;

    fn try_from(body: ParkBody) -> Result<Park, FieldError> {
        let of_signals = [("park.timeout", body.timeout.is_some()), ("park.step", body.step.is_some())];
        if let Some((field, _)) = of_signals.iter().find(|(_, is_given)| *is_given && body.signal.is_none()) {
            return Err(invalid(field, "belongs to a `signal`"));
        }
        if let Some(any) = body.any {
            let is_alone =
                body.until.is_none() && body.r#for.is_none() && body.signal.is_none() && body.group.is_none();
            if !is_alone || any.iter().any(|park| park.any.is_some()) {
                return Err(invalid("park.any", "cannot be combined with other fields or nested"));
            }
            return Ok(Park::Any(any.into_iter().map(Park::try_from).collect::<Result<_, _>>()?));
        }
        match (body.until, body.r#for, body.signal, body.group) {
            (Some(Expiry::At(until)), None, None, None) => Ok(Park::Until(until.0)),
            (Some(Expiry::After(span)), None, None, None) | (None, Some(span), None, None) => {
                Ok(Park::For(span.0))
            }
            (None, None, None, Some(name)) => Ok(Park::Group { name }),
            (None, None, Some(name), None) => {
                Ok(Park::Signal { name, step: body.step, timeout: body.timeout.map(|span| span.0) })
            }
            _ => Err(invalid("park", "give one of `until`, `for`, `signal`, `group` and `any`")),
        }
    }
}

impl From<&Park> for ParkBody {
    fn from(park: &Park) -> ParkBody {
        let nothing = ParkBody::default();
        match park {
            Park::Until(until) => ParkBody { until: Some(Expiry::At(Moment(*until))), ..nothing },
            Park::For(span) => ParkBody { r#for: Some(Span(*span)), ..nothing },
            Park::Signal { name, step, timeout } => ParkBody {
                signal: Some(name.clone()),
                step: step.clone(),
                timeout: timeout.map(Span),
                ..nothing
            },
            Park::Group { name } => ParkBody { group: Some(name.clone()), ..nothing },
            Park::Any(parks) => ParkBody { any: Some(parks.iter().map(ParkBody::from).collect()), ..nothing },
        }
    }
}

/// A report as it is sent; `None` if its result or a checkpoint is not JSON, which no server accepts.
pub fn outcome_body(report: &Report) -> Option<OutcomeBody> {
    let Report { job, fence, outcome, cost_cents, writes, follow_ups } = report;
    let SentWrites { checkpoints, progress, logs, stream } = sent_writes(writes)?;
    let submit = follow_ups.iter().map(Submission::from).collect();
    let body = |word| OutcomeBody {
        id: Text(*job),
        fence: fence.0,
        outcome: word,
        result: None,
        error: None,
        cost_cents: (*cost_cents != 0).then_some(*cost_cents),
        park: None,
        checkpoints,
        progress,
        logs,
        stream,
        submit,
    };
    Some(match outcome {
        Outcome::Completed { result: None } => body(OutcomeKind::Completed),
        Outcome::Completed { result: Some(result) } => {
            OutcomeBody { result: Some(Json::stored(result)?), ..body(OutcomeKind::Completed) }
        }
        Outcome::Failed(failure) => {
            let error = FailureBody {
                category: Some(failure.category),
                message: failure.message.clone(),
                code: failure.code.clone(),
                retry_after: failure.retry_after.map(Span),
                cause: failure.cause.iter().cloned().map(Into::into).collect(),
            };
            OutcomeBody { error: Some(error), ..body(OutcomeKind::Failed) }
        }
        Outcome::Released => body(OutcomeKind::Released),
        Outcome::Parked(park) => OutcomeBody { park: Some(park.into()), ..body(OutcomeKind::Parked) },
    })
}
