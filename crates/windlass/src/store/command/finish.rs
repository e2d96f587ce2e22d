//! Finishing: workers report how attempts ended, many at once. Items are independent; a stale or invalid one does not
//! affect the others.

use std::time::Duration;

use super::attempt_writes::{self, AttemptWrite, check_step};
use super::children::{find_groups, in_trace_of};
use super::effects::audit::RecordActor;
use super::submit::{self, SubmitOptions};
use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem, StoreError, SubmitError, WorkError};
use crate::job::{Failure, Fence, JobEvent, JobId, JobRecord, JobState, NewJob, Seq, Wait, WorkerId};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::command::schema_checks::SchemaChecks;
use crate::store::documents::budget::{self, BudgetUsage};
use crate::store::documents::config::{encode, parse};
use crate::store::engine::{DocumentKind, JobData, JobDataKind, JobDataWrite};
use crate::store::tx::write_tx::WriteTx;

/// How an attempt ended, as reported by its worker.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The attempt succeeded.
    Completed {
        /// Its result, as JSON.
        result: Option<Vec<u8>>,
    },
    /// The attempt failed.
    Failed(Failure),
    /// The job is returned unfinished; this is not a failure.
    Released,
    /// The job waits without holding a slot.
    Parked(Park),
}

/// What a parked attempt waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Park {
    /// A point in time.
    Until(Timestamp),
    /// A duration from now.
    For(Duration),
    /// A signal.
    Signal {
        /// The signal's name.
        name: String,
        /// The checkpoint that stores its value; if `None`, `signal:NAME`, and `signal:NAME#2` and so on from the
        /// second wait for this name on.
        step: Option<String>,
        /// Maximum time to wait.
        timeout: Option<Duration>,
    },
    /// Until a group of children is decided, which was spawned without parking.
    Group {
        /// The group's name within the job.
        name: String,
    },
    /// The first of several times, signals and groups.
    Any(Vec<Park>),
}

/// The report of one attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The job.
    pub job: JobId,
    /// The fence it was claimed with.
    pub fence: Fence,
    /// How the attempt ended.
    pub outcome: Outcome,
    /// The cost of the attempt in cents.
    pub cost_cents: i64,
    /// Checkpoints, progress, log lines and partial output, written in the commit of the outcome.
    pub writes: Vec<AttemptWrite>,
    /// Jobs submitted in the commit of a completion, for the job's tenant; none with another outcome.
    pub follow_ups: Vec<NewJob>,
}

impl Report {
    /// A report of the outcome alone.
    pub fn new(job: JobId, fence: Fence, outcome: Outcome) -> Report {
        Report { job, fence, outcome, cost_cents: 0, writes: Vec::new(), follow_ups: Vec::new() }
    }
}

/// The result of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Finish {
    /// It was stored; the job is now in this state.
    Applied(JobState),
    /// The lease was no longer held; nothing was written.
    Stale,
    /// The report is invalid; the lease continues.
    Rejected(FieldError),
    /// A follow-up was refused; nothing was written, and the lease continues.
    Refused(Box<SubmitError>),
}

/// Processes reports; the answers are in their order.
pub(crate) fn finish(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    worker: WorkerId,
    reports: &[Report],
    checks: &mut SchemaChecks,
) -> Result<Vec<Finish>, WorkError> {
    caller.require(Permission::Work)?;
    if reports.len() > limits::OUTCOMES_PER_CALL_MAX {
        let problem = FieldProblem::TooLong { length: reports.len(), limit: limits::OUTCOMES_PER_CALL_MAX };
        return Err(FieldError::new("outcomes", problem).into());
    }
    let follow_ups = reports.iter().map(|report| report.follow_ups.len()).sum();
    if follow_ups > limits::BATCH_JOBS_MAX {
        let problem = FieldProblem::TooLong { length: follow_ups, limit: limits::BATCH_JOBS_MAX };
        return Err(FieldError::new("submit", problem).into());
    }
    tx.worker_calls(caller, worker)?;
    let ids: Vec<JobId> = reports.iter().map(|report| report.job).collect();
    let found = tx.find(&ids)?;
    let cause = RecordActor::worker(caller, worker);
    let mut answers = Vec::with_capacity(reports.len());
    for (report, seq) in reports.iter().zip(found) {
        answers.push(match seq {
            Some(seq) => finish_one(tx, caller, (worker, seq), report, (&cause, checks))?,
            None => Finish::Stale,
        });
    }
    Ok(answers)
}

fn finish_one(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    (worker, seq): (WorkerId, Seq),
    report: &Report,
    (cause, checks): (&RecordActor, &mut SchemaChecks),
) -> Result<Finish, StoreError> {
    let Some(mut job) = tx.held_job(seq, worker, report.fence)? else { return Ok(Finish::Stale) };
    if report.outcome != Outcome::Released || !report.writes.is_empty() {
        job = tx.started(job);
    }
    if let Err(invalid) = check(report, tx.env.options.payload_bytes_max) {
        return Ok(Finish::Rejected(invalid));
    }
    if let Outcome::Completed { result } = &report.outcome
        && let Err(invalid) = check_result(tx, &job, result.as_deref(), checks)?
    {
        return Ok(Finish::Rejected(invalid));
    }
    let wait = match &report.outcome {
        Outcome::Parked(park) => match wait_of(tx, &job, park)? {
            Ok(wait) => Some(wait),
            Err(invalid) => return Ok(Finish::Rejected(invalid)),
        },
        Outcome::Completed { .. } | Outcome::Failed(_) | Outcome::Released => None,
    };
    match write_beside(tx, caller, job, report, checks) {
        Ok(written) => job = written,
        Err(WorkError::Invalid(invalid)) => return Ok(Finish::Rejected(invalid)),
        Err(WorkError::Children(refused)) => return Ok(Finish::Refused(refused)),
        Err(WorkError::Store(error)) => return Err(error),
        Err(other) => unreachable!("the job is held: {other}"),
    }
    book(tx, &job, report)?;
    if let Some(wait) = wait {
        park(tx, seq, wait, cause)?;
    } else {
        let event = match &report.outcome {
            Outcome::Completed { .. } => JobEvent::Succeed,
            Outcome::Failed(failure) => {
                JobEvent::Fail { failure: failure.clone(), random: tx.env.entropy.fraction() }
            }
            Outcome::Released | Outcome::Parked(_) => JobEvent::Release,
        };
        let _refused = tx.apply(seq, &event, cause)?;
    }
    Ok(Finish::Applied(tx.job(seq)?.map_or(job.state, |job| job.state)))
}

/// Checks a result against the schema of the job's type.
fn check_result(
    tx: &mut WriteTx<'_>,
    job: &JobRecord,
    result: Option<&[u8]>,
    checks: &mut SchemaChecks,
) -> Result<Result<(), FieldError>, StoreError> {
    let config = tx.config()?;
    let settings = config.types.get(&job.lane.job_type);
    Ok(checks.result(&tx.env.schemas, &job.lane.job_type, settings, result.unwrap_or_default()))
}

/// Parks a job, and wakes it at once if what it waits for has happened.
pub(super) fn park(
    tx: &mut WriteTx<'_>,
    seq: Seq,
    wait: Wait,
    cause: &RecordActor,
) -> Result<(), StoreError> {
    let groups: Vec<u64> = wait.groups().collect();
    let _refused = tx.apply(seq, &JobEvent::Park { wait }, cause)?;
    for group in groups {
        tx.wake_if_decided(seq, group)?;
    }
    tx.deliver_signal(seq)?;
    tx.apply_due_timers(seq)
}

/// Submits follow-ups and writes checkpoints, progress, log lines and partial output. Everything that can be refused is
/// checked before the first write, because the other reports of the call are committed even if this one is refused.
fn write_beside(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    job: JobRecord,
    report: &Report,
    checks: &mut SchemaChecks,
) -> Result<JobRecord, WorkError> {
    if !report.writes.is_empty() {
        attempt_writes::check_room(tx, &job, &report.writes)?;
    }
    let seq = job.seq;
    let mut job = job;
    if !report.follow_ups.is_empty() {
        let refused = |error: SubmitError| match error {
            SubmitError::Store(error) => WorkError::Store(error),
            refused => WorkError::Children(Box::new(refused)),
        };
        let options = &tx.env.options;
        submit::check(&report.follow_ups, options.payload_bytes_max, &options.targets).map_err(refused)?;
        check_tenant(&job, &report.follow_ups).map_err(refused)?;
        let as_job = Caller { tenant: Some(job.lane.tenant.clone()), ..caller.clone() };
        let jobs = in_trace_of(tx, &job, &report.follow_ups)?;
        submit::submit_checked(tx, &as_job, &jobs, SubmitOptions::default(), None, checks)
            .map_err(refused)?;
        // One of them may depend on this job.
        job = tx.job(seq)?.cloned().unwrap_or(job);
    }
    if report.writes.is_empty() { Ok(job) } else { attempt_writes::apply(tx, job, &report.writes) }
}

/// Refuses jobs of another tenant, for any worker: what follows a job belongs to its tenant.
fn check_tenant(job: &JobRecord, follow_ups: &[NewJob]) -> Result<(), SubmitError> {
    let is_foreign = |one: &NewJob| one.tenant.as_ref().is_some_and(|tenant| *tenant != job.lane.tenant);
    match follow_ups.iter().position(is_foreign) {
        None => Ok(()),
        Some(index) => {
            let problem = FieldProblem::Contradiction("follow-ups belong to the tenant of their job".into());
            Err(SubmitError::Invalid { index, invalid: FieldError::new("tenant", problem) })
        }
    }
}

/// Books costs and stores the result.
fn book(tx: &mut WriteTx<'_>, job: &JobRecord, report: &Report) -> Result<(), StoreError> {
    let result = match &report.outcome {
        Outcome::Completed { result } => result.as_ref(),
        Outcome::Failed(_) | Outcome::Released | Outcome::Parked(_) => None,
    };
    if report.cost_cents == 0 && result.is_none() {
        return Ok(());
    }
    let mut next = job.clone();
    next.cost_cents = next.cost_cents.saturating_add(report.cost_cents);
    if let Some(result) = result {
        next.has.result = true;
        tx.write_job_data(JobDataWrite::Put(JobData {
            seq: job.seq,
            kind: JobDataKind::Result,
            name: String::new(),
            number: 0,
            body: result.as_slice().into(),
        }));
    }
    tx.put(next);
    if report.cost_cents != 0 {
        tx.add_cost(job, report.cost_cents)?;
    }
    Ok(())
}

fn check(report: &Report, payload_bytes_max: usize) -> Result<(), FieldError> {
    if report.cost_cents < 0 {
        let (value, min) = (report.cost_cents.to_string(), "0".into());
        return Err(FieldError::new(
            "cost_cents",
            FieldProblem::OutOfRange { value, min, max: i64::MAX.to_string() },
        ));
    }
    attempt_writes::check_all(&report.writes, payload_bytes_max)?;
    if !report.follow_ups.is_empty() {
        check_follow_ups(report)?;
    }
    match &report.outcome {
        Outcome::Completed { result: Some(result) } if result.len() > payload_bytes_max => {
            Err(FieldError::new(
                "result",
                FieldProblem::TooLong { length: result.len(), limit: payload_bytes_max },
            ))
        }
        Outcome::Parked(park) => check_park("park", park),
        Outcome::Completed { .. } | Outcome::Failed(_) | Outcome::Released => Ok(()),
    }
}

/// Only a completion submits jobs, so that what follows a failed attempt is decided by its retry policy alone.
fn check_follow_ups(report: &Report) -> Result<(), FieldError> {
    if !matches!(report.outcome, Outcome::Completed { .. }) {
        let problem = FieldProblem::Contradiction("is only allowed with `completed`".into());
        return Err(FieldError::new("submit", problem));
    }
    if report.follow_ups.len() > limits::FOLLOW_UPS_MAX {
        let problem =
            FieldProblem::TooLong { length: report.follow_ups.len(), limit: limits::FOLLOW_UPS_MAX };
        return Err(FieldError::new("submit", problem));
    }
    Ok(())
}

/// Checks that a job can wait for this.
pub(crate) fn check_park(field: &str, park: &Park) -> Result<(), FieldError> {
    match park {
        Park::Signal { name, step, .. } => {
            check_step(&format!("{field}.signal"), name)?;
            step.as_deref().map_or(Ok(()), |step| check_step(&format!("{field}.step"), step))
        }
        Park::Group { name } => check_step(&format!("{field}.group"), name),
        Park::Until(_) | Park::For(_) => Ok(()),
        Park::Any(parks) => check_parks(&format!("{field}.any"), parks),
    }
}

/// Checks that a job can wait for the first of these.
pub(crate) fn check_parks(field: &str, parks: &[Park]) -> Result<(), FieldError> {
    if parks.len() > limits::PARK_WAITS_MAX {
        let problem = FieldProblem::TooLong { length: parks.len(), limit: limits::PARK_WAITS_MAX };
        return Err(FieldError::new(field, problem));
    }
    if parks.iter().any(|park| matches!(park, Park::Any(_))) {
        return Err(FieldError::new(field, FieldProblem::Contradiction("cannot be nested".into())));
    }
    parks.iter().try_for_each(|park| check_park(field, park))
}

/// What a parked job waits for.
fn wait_of(
    tx: &mut WriteTx<'_>,
    job: &JobRecord,
    park: &Park,
) -> Result<Result<Wait, FieldError>, StoreError> {
    let Park::Any(parks) = park else {
        let alone = wait_each(tx, job, "park", std::slice::from_ref(park))?;
        return Ok(alone.map(|mut alone| alone.remove(0)));
    };
    let waits = wait_each(tx, job, "park.any", parks)?;
    Ok(waits.map(|of| if of.is_empty() { Wait::Timer { until: tx.now } } else { Wait::Any { of } }))
}

/// The waits of a job, with the numbers of its groups; refuses a group that was not spawned.
pub(super) fn wait_each(
    tx: &mut WriteTx<'_>,
    job: &JobRecord,
    field: &str,
    parks: &[Park],
) -> Result<Result<Vec<Wait>, FieldError>, StoreError> {
    let has_groups = parks.iter().any(|park| matches!(park, Park::Group { .. }));
    let groups = if has_groups { find_groups(tx, job)? } else { Vec::new() };
    let steps = steps_of_signals(tx, job, parks)?;
    if let Err(invalid) = has_room_for_results(tx, job, field, &steps)? {
        return Ok(Err(invalid));
    }
    let now = tx.now;
    let wait = |(park, step): (&Park, String)| match park {
        Park::Until(until) => Ok(Wait::Timer { until: *until }),
        Park::For(duration) => Ok(Wait::Timer { until: now.plus(*duration) }),
        Park::Signal { name, timeout, .. } => {
            Ok(Wait::Signal { name: name.clone(), step, until: timeout.map(|timeout| now.plus(timeout)) })
        }
        Park::Group { name } => {
            let known = groups.iter().find(|(_, group)| group.name == *name);
            known.map(|(group, _)| Wait::Children { group: *group }).ok_or_else(|| {
                let problem = FieldProblem::Contradiction(format!("the job has no group `{name}`"));
                FieldError::new(format!("{field}.group"), problem)
            })
        }
        Park::Any(_) => Err(FieldError::new(field, FieldProblem::Contradiction("cannot be nested".into()))),
    };
    Ok(parks.iter().zip(steps).map(wait).collect())
}

/// Refuses waits for signals whose results could not be saved: a signal that was received would be lost. The result of
/// each wait becomes the checkpoint in `steps`.
fn has_room_for_results(
    tx: &mut WriteTx<'_>,
    job: &JobRecord,
    field: &str,
    steps: &[String],
) -> Result<Result<(), FieldError>, StoreError> {
    let kept = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let (mut length, bytes) = (kept(job.details.checkpoints), kept(job.details.checkpoint_bytes));
    let waits = steps.iter().filter(|step| !step.is_empty());
    if length.saturating_add(steps.len()) > limits::CHECKPOINTS_MAX {
        for step in waits.clone() {
            length += usize::from(tx.checkpoint_bytes(job, step)?.is_none());
        }
    }
    let is_any = waits.count() > 0;
    if is_any && length > limits::CHECKPOINTS_MAX {
        let problem = FieldProblem::TooLong { length, limit: limits::CHECKPOINTS_MAX };
        return Ok(Err(FieldError::new(format!("{field}.signal"), problem)));
    }
    // Of several signals one is received.
    let length = bytes.saturating_add(tx.env.options.payload_bytes_max).saturating_add(RESULT_FRAME_BYTES);
    if is_any && length > limits::CHECKPOINTS_BYTES_MAX {
        let problem = FieldProblem::TooManyBytes { length, limit: limits::CHECKPOINTS_BYTES_MAX };
        return Ok(Err(FieldError::new(format!("{field}.signal"), problem)));
    }
    Ok(Ok(()))
}

/// What the checkpoints of a wait take beside a signal's value: its frame, and timeouts of the other waits.
const RESULT_FRAME_BYTES: usize = 32 * limits::PARK_WAITS_MAX;

/// The checkpoint of each wait for a signal; empty for other waits. Without a step of its own, a wait has the key of its
/// occurrence: the second wait for one name does not overwrite what the first one received.
fn steps_of_signals(
    tx: &mut WriteTx<'_>,
    job: &JobRecord,
    parks: &[Park],
) -> Result<Vec<String>, StoreError> {
    let mut steps: Vec<String> = Vec::with_capacity(parks.len());
    for park in parks {
        steps.push(match park {
            Park::Signal { step: Some(step), .. } => step.clone(),
            Park::Signal { name, step: None, .. } => next_occurrence(tx, job, name, &steps)?,
            Park::Until(_) | Park::For(_) | Park::Group { .. } | Park::Any(_) => String::new(),
        });
    }
    Ok(steps)
}

/// The key of the first wait for a signal that has neither a checkpoint nor a place among the `others`. Occurrences are
/// numbered without gaps, so it is found in few reads.
fn next_occurrence(
    tx: &mut WriteTx<'_>,
    job: &JobRecord,
    name: &str,
    others: &[String],
) -> Result<String, StoreError> {
    let name = name.replace('#', "##");
    let key = |number: usize| match number {
        1 => format!("signal:{name}"),
        _ => format!("signal:{name}#{number}"),
    };
    let mut is_used = |number: usize| -> Result<bool, StoreError> {
        let key = key(number);
        Ok(others.contains(&key) || tx.checkpoint_bytes(job, &key)?.is_some())
    };
    // Invariant: `below` is 0 or used, and `above` is not used once the first loop has ended.
    let (mut below, mut above) = (0, 1);
    while is_used(above)? {
        (below, above) = (above, above * 2);
    }
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if is_used(middle)? { below = middle } else { above = middle }
    }
    Ok(key(above))
}

impl WriteTx<'_> {
    /// The job, if this worker currently holds it with this fence. Applies due timers first.
    pub(crate) fn held_job(
        &mut self,
        seq: Seq,
        worker: WorkerId,
        fence: Fence,
    ) -> Result<Option<JobRecord>, StoreError> {
        self.apply_due_timers(seq)?;
        let is_theirs = |job: &&JobRecord| {
            job.is_held_with(fence) && job.lease.is_some_and(|lease| lease.worker == worker)
        };
        Ok(self.job(seq)?.filter(is_theirs).cloned())
    }

    /// Adds to the costs per tenant and type, and to the tenant's budget usage.
    fn add_cost(&mut self, job: &JobRecord, cents: i64) -> Result<(), StoreError> {
        let key = format!("{} {}", job.lane.tenant, job.lane.job_type);
        let known = self.document(DocumentKind::Cost, &key)?;
        let before: i64 = known.map_or(Ok(0), |document| parse(&document.body))?;
        let body = encode(&before.saturating_add(cents));
        self.put_document(DocumentKind::Cost, &key, Some(&body), |_| {})?;
        let key = budget::spent_key(&job.lane.tenant);
        let mut spent: BudgetUsage = self.usage(&key)?.unwrap_or_default();
        spent.add(cents, self.now);
        self.put_usage(key, Some(&spent));
        Ok(())
    }
}
