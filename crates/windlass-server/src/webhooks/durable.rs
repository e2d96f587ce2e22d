//! Pushes to a durable target: the request is the job as a claim has it, with its checkpoints and decided groups, and
//! the response may be an outcome of the worker protocol, also `parked`. So a function that lives for one request runs
//! jobs with durable steps.

use std::collections::BTreeMap;

use bytes::Bytes;
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use windlass::context::Cx;
use windlass::error::FieldError;
use windlass::internal::wire::outcome::attempt_writes;
use windlass::job::{Failure, GroupStrategy};
use windlass::store::caller::Caller;
use windlass::store::{AttemptWrite, NewGroup, Outcome, Park, Report, SpawnOptions, Store};
use windlass_api::claim::{ClaimedView, ProgressBody, SavedStep};
use windlass_api::outcome::{OutcomeBody, ParkBody};
use windlass_api::stream::StreamPart;
use windlass_api::submission::Submission;

use crate::http::decode;

/// The content type of a request: a job as a claim has it.
pub(super) const CLAIM: &str = "application/vnd.windlass.claim+json";
/// The content type of a response that is an outcome.
const OUTCOME: &str = "application/vnd.windlass.outcome+json";

/// The body of a request.
pub(super) async fn claim_body(store: &Store, caller: &Caller, cx: &Cx) -> anyhow::Result<Bytes> {
    let mut claimed = [cx.as_claimed().clone()];
    store.add_decided_groups(caller, &mut claimed).await?;
    let [claimed] = claimed;
    Ok(serde_json::to_vec(&ClaimedView::from(claimed))?.into())
}

/// Whether a response is an outcome.
pub(super) fn is_outcome(content_type: Option<&HeaderValue>) -> bool {
    let text = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(OUTCOME))
}

/// What a response may have besides an outcome: children that the job parks on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Children {
    jobs: Vec<Submission>,
    strategy: Option<GroupStrategy>,
    name: Option<String>,
    #[serde(default)]
    beside: Vec<ParkBody>,
}

/// What is written with the children.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithChildren {
    #[serde(rename = "id")]
    _id: Option<Box<RawValue>>,
    #[serde(rename = "fence")]
    _fence: Option<Box<RawValue>>,
    outcome: String,
    #[serde(default)]
    checkpoints: Vec<SavedStep>,
    progress: Option<ProgressBody>,
    #[serde(default)]
    logs: Vec<String>,
    stream: Option<StreamPart>,
    cost_cents: Option<i64>,
}

/// Ends the attempt with the outcome of a response. Does not return if the job parks on children: the attempt is over
/// then.
///
/// # Errors
/// The failure that the receiver reported, or a permanent one if the response is not an outcome of this job.
pub(super) async fn finish(cx: &Cx, body: &[u8]) -> anyhow::Result<()> {
    let mut fields: BTreeMap<String, Box<RawValue>> = read(body)?;
    let Some(children) = fields.remove("children") else {
        let body: OutcomeBody = read(body)?;
        if (body.id.0, body.fence) != (cx.job_id(), cx.fence().0) {
            return Err(rejected("its id and fence are not those of the request").into());
        }
        let report = Report::try_from(body).map_err(rejected)?;
        let failure = match &report.outcome {
            Outcome::Failed(failure) => Err(failure.clone().into()),
            _ => Ok(()),
        };
        cx.report_as(report);
        return failure;
    };
    let children: Children = read(children.get().as_bytes())?;
    let rest = serde_json::to_vec(&fields)?;
    let rest: WithChildren = read(&rest)?;
    if rest.outcome != "parked" {
        return Err(rejected("a job with children is parked").into());
    }
    cx.cost(u32::try_from(rest.cost_cents.unwrap_or(0)).unwrap_or(0));
    let writes = attempt_writes(rest.checkpoints, rest.progress, rest.logs, rest.stream);
    let (group, options) = spawned(children, writes).map_err(rejected)?;
    cx.park_on_children(group, options).await?;
    Ok(())
}

fn spawned(children: Children, writes: Vec<AttemptWrite>) -> Result<(NewGroup, SpawnOptions), FieldError> {
    let place = |(index, job): (usize, Submission)| {
        job.into_job(None).map_err(|invalid| {
            FieldError::new(format!("children.jobs.{index}.{}", invalid.field), invalid.problem)
        })
    };
    let jobs = children.jobs.into_iter().enumerate().map(place).collect::<Result<_, _>>()?;
    let parks = children.beside.into_iter().map(Park::try_from).collect::<Result<_, _>>()?;
    let name = children.name.unwrap_or_else(|| "children".to_owned());
    let strategy = children.strategy.unwrap_or(GroupStrategy::FailFast);
    let options = SpawnOptions { keeps_running: false, parks, writes };
    Ok((NewGroup { name, strategy, jobs }, options))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    decode(bytes).map_err(|problem| rejected(problem.as_item().message))
}

fn rejected(problem: impl std::fmt::Display) -> Failure {
    Failure::permanent("outcome_rejected", format!("the response is not an outcome of this job: {problem}"))
}
