//! The tools: what each is called, takes and may do.

use serde_json::{Value, json};
use windlass::store::caller::{Caller, Permission};

use super::api::CallError;
use super::arguments::{Arguments, Field, Kind, schema, shown};
use super::{RpcError, Session, actions, read, shown as view};

const TEXT: Kind = Kind::Text;
const FLAG: Kind = Kind::Flag;

/// What a tool does to the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Read,
    /// Adds something, or can be undone.
    Change,
    /// Ends or stops something.
    Destroy,
}

struct Tool {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    effect: Effect,
    /// The permission that it needs; `None` for tools that only read.
    needs: Option<Permission>,
    fields: &'static [&'static [Field]],
}

/// Filters for jobs, as in `GET /jobs`.
const FILTER: &[Field] = &[
    Field::new(
        "state",
        TEXT,
        "States, separated by commas: created, pending, delayed, scheduled (ready), running, waiting, retrying, \
        suspended, completed, failed, dead_letter, cancelled",
    ),
    Field::new("type", TEXT, "Job type"),
    Field::new("queue", TEXT, "Queue"),
    Field::new("tag", TEXT, "A tag, name:value"),
    Field::new("correlation_id", TEXT, "Correlation id"),
    Field::new("owner", TEXT, "Who submitted it"),
    Field::new("created_after", TEXT, "RFC 3339"),
    Field::new("created_before", TEXT, "RFC 3339"),
    TENANT,
];
const TENANT: Field = Field::new("tenant", TEXT, "Tenant, for keys that see several");
const DRY_RUN: Field =
    Field::new("dry_run", FLAG, "Only say what would happen; true unless it is given as false");
const REASON: Field = Field::new("reason", TEXT, "The reason, for the audit trail");
const PAGE: &[Field] = &[
    Field::new("limit", Kind::Number(1, 50), "How many, at most 50; 20 if not given"),
    Field::new("cursor", TEXT, "next_cursor of the previous answer"),
];
const ID: Field = Field::required("id", "Id of the job");
const ONE_OR_MANY: &[Field] = &[
    Field::new("id", TEXT, "Id of one job; otherwise give a filter"),
    Field::new("limit", Kind::Number(1, 1000), "At most this many jobs of the filter; 100 if not given"),
    REASON,
    DRY_RUN,
];

#[rustfmt::skip]
const TOOLS: &[Tool] = &[
    reading("overview", "Overview", "Jobs by state, what needs attention, pauses, rates of the last hour.", &[&[TENANT]]),
    reading("list_jobs", "List jobs", "Jobs that match a filter, newest first, without their payloads.", &[FILTER, PAGE]),
    reading("show_job", "Show a job", "One job with its attempts and its last events; payload, result and log only if asked for.",
        &[&[ID, Field::new("include_payload", FLAG, "Also payload, result and the end of the log: data of strangers")]]),
    reading("explain_job", "Why is a job not running?", "Every reason why a job is not running now.", &[&[ID]]),
    reading("queue_health", "Queue health", "Depth, oldest waiting job, rates, pause and limits of one queue or of all.",
        &[&[Field::new("queue", TEXT, "Queue; all if not given")]]),
    reading("list_dead_letters", "Dead letters by error", "Failed jobs that were not redriven, grouped by type and error, the largest \
        group first.", &[&[Field::new("queue", TEXT, "Queue"), Field::new("type", TEXT, "Job type"), TENANT]]),
    reading("list_schedules", "List schedules", "Schedules with their timing, last and next runs.", &[PAGE]),
    reading("audit", "Audit trail", "Who did what and when, oldest first.", &[&[
        Field::new("job", TEXT, "Id of a job"), Field::new("event", TEXT, "Event, such as job.lifecycle.cancelled"),
        Field::new("actor", TEXT, "Who"), Field::new("queue", TEXT, "Queue"), Field::new("type", TEXT, "Job type"),
        Field::new("since", TEXT, "RFC 3339"), Field::new("until", TEXT, "RFC 3339"), TENANT], PAGE]),
    reading("search_docs", "Search the documents", "Sections of the guides, and operations, objects and error codes of the HTTP API, \
        that contain all words.",
        &[&[Field::required("query", "Words")]]),
    acting("submit_job", "Submit a job", "Submits a job.", Effect::Change, Permission::Submit, &[&[
        Field::required("type", "Job type"), Field::new("queue", TEXT, "Queue; `default` if not given"),
        Field::new("payload", Kind::Json, "Payload, any JSON"), Field::new("priority", Kind::Number(0, 100), "0 (runs last) to 100; 50 if not given"),
        Field::new("delay", TEXT, "A duration such as 10m"), Field::new("idempotency_key", TEXT, "A repeat with the same key is one job"),
        Field::new("correlation_id", TEXT, "Correlation id"), TENANT, DRY_RUN]]),
    acting("signal_job", "Signal a job", "Sends a signal that a job waits for.", Effect::Change, Permission::ManageJob, &[&[
        ID, Field::required("name", "Name of the signal"), Field::new("value", Kind::Json, "Its value, any JSON"), DRY_RUN]]),
    acting("redrive_jobs", "Redrive jobs", "Submits failed jobs again as new jobs: one by id, or those of a filter.", Effect::Change,
        Permission::ManageJob, &[FILTER, ONE_OR_MANY]),
    acting("cancel_jobs", "Cancel jobs", "Ends jobs: one by id, or those of a filter. A cancelled job can only be redriven.",
        Effect::Destroy, Permission::ManageJob, &[FILTER, ONE_OR_MANY]),
    acting("suspend_jobs", "Suspend jobs", "Keeps jobs from running until they are resumed.", Effect::Change, Permission::ManageJob,
        &[FILTER, ONE_OR_MANY, &[Field::new("mode", TEXT, "What happens to a running attempt: idle_only, graceful or aggressive")]]),
    acting("resume_jobs", "Resume jobs", "Ends suspensions.", Effect::Change, Permission::ManageJob, &[FILTER, ONE_OR_MANY]),
    acting("pause_queue", "Pause a queue", "Stops starting jobs of a queue.", Effect::Destroy, Permission::Pause, &[&[
        Field::required("queue", "Queue"), Field::new("mode", TEXT, "graceful or aggressive"),
        Field::new("expires", TEXT, "When it resumes by itself: a duration or a time"), REASON, DRY_RUN]]),
    acting("resume_queue", "Resume a queue", "Ends the pause of a queue.", Effect::Change, Permission::Pause, &[&[
        Field::required("queue", "Queue"), REASON, DRY_RUN]]),
    acting("trigger_schedule", "Trigger a schedule", "Submits a schedule's job now, beside its regular runs.", Effect::Change,
        Permission::Schedule, &[&[Field::required("schedule", "Name of the schedule"), DRY_RUN]]),
];

const fn reading(
    name: &'static str,
    title: &'static str,
    about: &'static str,
    fields: &'static [&'static [Field]],
) -> Tool {
    Tool { name, title, about, effect: Effect::Read, needs: None, fields }
}

const fn acting(
    name: &'static str,
    title: &'static str,
    about: &'static str,
    effect: Effect,
    needs: Permission,
    fields: &'static [&'static [Field]],
) -> Tool {
    Tool { name, title, about, effect, needs: Some(needs), fields }
}

impl Tool {
    fn is_for(&self, caller: &Caller) -> bool {
        self.needs.is_none_or(|permission| caller.require(permission).is_ok())
    }
}

/// The tools that the caller may use.
pub(super) fn list(caller: &Caller) -> Vec<Value> {
    let tool = |tool: &Tool| {
        json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.about,
            "inputSchema": schema(tool.fields),
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.effect == Effect::Read,
                "destructiveHint": tool.effect == Effect::Destroy,
                "openWorldHint": false,
            },
        })
    };
    TOOLS.iter().filter(|one| one.is_for(caller)).map(tool).collect()
}

/// `tools/call`
pub(super) async fn call(session: &Session<'_>, params: &Value) -> Result<Value, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        return Err(RpcError::params(format!("no tool {}", shown(name))));
    };
    let arguments = match Arguments::check(&params["arguments"], tool.fields) {
        Ok(arguments) => arguments,
        Err(problem) => return Ok(view::failure("invalid_value", &problem)),
    };
    // The API refuses it, too; a dry run does not get that far.
    if let Some(permission) = tool.needs
        && let Err(denied) = session.caller.require(permission)
    {
        return Ok(view::failure("forbidden", &denied.to_string()));
    }
    Ok(match run(session, name, &arguments).await {
        Ok(value) => view::result(value),
        Err(CallError { code, message }) => view::failure(&code, &message),
    })
}

async fn run(session: &Session<'_>, name: &str, arguments: &Arguments) -> Result<Value, CallError> {
    match name {
        "overview" => read::overview(session, arguments).await,
        "list_jobs" => read::list_jobs(session, arguments).await,
        "show_job" => read::show_job(session, arguments).await,
        "explain_job" => read::explain_job(session, arguments).await,
        "queue_health" => read::queue_health(session, arguments).await,
        "list_dead_letters" => read::dead_letters(session, arguments).await,
        "list_schedules" => read::schedules(session, arguments).await,
        "audit" => read::audit(session, arguments).await,
        "search_docs" => Ok(read::documents(session, arguments)),
        "submit_job" => actions::submit(session, arguments).await,
        "signal_job" => actions::signal(session, arguments).await,
        "redrive_jobs" => actions::on_jobs(session, "redrive", arguments).await,
        "cancel_jobs" => actions::on_jobs(session, "cancel", arguments).await,
        "suspend_jobs" => actions::on_jobs(session, "suspend", arguments).await,
        "resume_jobs" => actions::on_jobs(session, "resume", arguments).await,
        "pause_queue" => actions::on_queue(session, "pause", arguments).await,
        "resume_queue" => actions::on_queue(session, "resume", arguments).await,
        "trigger_schedule" => actions::trigger(session, arguments).await,
        _ => Err(CallError::new("not_found", "no such tool")),
    }
}
