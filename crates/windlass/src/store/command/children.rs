//! Child groups: a running job spawns children and parks until the group is decided. The children, the group and
//! the parking are one commit. A job can also continue beside its children, and park on the group later or never.

mod cycle;

use std::borrow::Cow;

use super::attempt_writes::{self, AttemptWrite, LeaseRef};
use super::effects::audit::RecordActor;
use super::finish::{self, Park, check_parks, wait_each};
use super::submit::{self, Receipt, Spawning, SubmitOptions};
use crate::error::{FieldError, FieldProblem, StoreError, SubmitError, WorkError};
use crate::job::{ChildGroup, GroupDecision, GroupStrategy, JobRecord, NewJob, Wait};
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::command::schema_checks::SchemaChecks;
use crate::store::documents::config::parse;
use crate::store::engine::{JobDataKind, JobDataQuery};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::tx::write_tx::WriteTx;

/// Children to spawn.
#[derive(Debug, Clone, PartialEq)]
pub struct NewGroup {
    /// A name within the parent. A second call with the same name returns the existing group.
    pub name: String,
    /// When the group is decided.
    pub strategy: GroupStrategy,
    /// The children.
    pub jobs: Vec<NewJob>,
}

/// What else happens in the commit that spawns children.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpawnOptions {
    /// Whether the parent continues beside its children. It can park on the group later.
    pub keeps_running: bool,
    /// Conditions that can also wake the parent, before the group is decided.
    pub parks: Vec<Park>,
    /// Checkpoints, progress and log lines of the parent.
    pub writes: Vec<AttemptWrite>,
}

/// The result of spawning children.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SpawnReport {
    /// The group's number within the parent.
    pub group: u64,
    /// Whether the group existed already, from an earlier attempt.
    pub is_known: bool,
    /// The children, in input order.
    pub children: Vec<JobRecord>,
    /// The current record of the parent.
    pub parent: JobRecord,
}

/// Spawns children and parks their parent.
pub(crate) fn spawn(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    lease: LeaseRef,
    group: &NewGroup,
    options: &SpawnOptions,
    checks: &mut SchemaChecks,
) -> Result<SpawnReport, WorkError> {
    let writes = &options.writes;
    caller.require(Permission::Work)?;
    check(group)?;
    check_parks("beside", &options.parks)?;
    if options.keeps_running && !options.parks.is_empty() {
        let problem = FieldProblem::Contradiction("a job that does not park is not woken".into());
        return Err(FieldError::new("beside", problem).into());
    }
    attempt_writes::check_all(writes, tx.env.options.payload_bytes_max)?;
    let refused = |error: SubmitError| match error {
        SubmitError::Store(error) => WorkError::Store(error),
        other => WorkError::Children(Box::new(other)),
    };
    submit::check(&group.jobs, tx.env.options.payload_bytes_max, &tx.env.options.targets).map_err(refused)?;
    let parent = tx.in_hand(caller, lease)?;
    let parent = tx.started(parent);
    check_tenant(&parent, &group.jobs)?;
    attempt_writes::check_room(tx, &parent, writes)?;
    let others = wait_each(tx, &parent, "beside", &options.parks)??;
    let known = find_groups(tx, &parent)?.into_iter().find(|(_, known)| known.name == group.name);
    if let Some((number, known)) = known {
        let parent = attempt_writes::apply(tx, parent, writes)?;
        let parks = known.decided.is_none() && !options.keeps_running;
        return again(tx, caller, &parent, number, parks.then_some(others));
    }
    let number = parent.details.groups + 1;
    if number > limits::CHILD_GROUPS_MAX {
        let limit = usize::try_from(limits::CHILD_GROUPS_MAX).unwrap_or(usize::MAX);
        return Err(FieldError::new("groups", FieldProblem::TooLong { length: limit + 1, limit }).into());
    }
    let parks_on_it_alone = !options.keeps_running && options.parks.is_empty();
    cycle::check(tx, &parent, &group.jobs, parks_on_it_alone)?;
    let spawning = Spawning { seq: parent.seq, id: parent.id, group: number };
    let as_parent = Caller { tenant: Some(parent.lane.tenant.clone()), ..caller.clone() };
    let jobs = in_trace_of(tx, &parent, &group.jobs)?;
    let receipts =
        submit::submit_checked(tx, &as_parent, &jobs, SubmitOptions::default(), Some(spawning), checks)
            .map_err(refused)?;
    let parent = attempt_writes::apply(tx, parent, writes)?;
    keep_group(tx, &parent, number, group, &receipts)?;
    if options.keeps_running {
        // A child may have ended already, and its siblings may not be needed any more.
        tx.wake_if_decided(parent.seq, number)?;
    } else {
        park(tx, caller, &parent, number, others)?;
    }
    let mut children = Vec::with_capacity(receipts.len());
    for receipt in receipts {
        children.push(tx.job(receipt.job.seq)?.cloned().unwrap_or(receipt.job));
    }
    let parent = tx.job(parent.seq)?.cloned().unwrap_or(parent);
    Ok(SpawnReport { group: number, is_known: false, children, parent })
}

/// Jobs that a running job submits, in its trace unless they set their own.
pub(super) fn in_trace_of<'a>(
    tx: &mut WriteTx<'_>,
    parent: &JobRecord,
    jobs: &'a [NewJob],
) -> Result<Cow<'a, [NewJob]>, StoreError> {
    if jobs.iter().all(|job| job.traceparent.is_some()) {
        return Ok(Cow::Borrowed(jobs));
    }
    let Some(spec) = tx.spec(parent.seq)? else { return Ok(Cow::Borrowed(jobs)) };
    let mut jobs = jobs.to_vec();
    for job in jobs.iter_mut().filter(|job| job.traceparent.is_none()) {
        job.traceparent.clone_from(&spec.traceparent);
        job.tracestate.clone_from(&spec.tracestate);
        job.baggage = job.baggage.take().or_else(|| spec.baggage.clone());
    }
    Ok(Cow::Owned(jobs))
}

/// The refusal of one child.
fn refusal(index: usize, field: &str, problem: FieldProblem) -> WorkError {
    let invalid = FieldError::new(field, problem);
    WorkError::Children(Box::new(SubmitError::Invalid { index, invalid }))
}

fn check(group: &NewGroup) -> Result<(), WorkError> {
    attempt_writes::check_step("group", &group.name)?;
    let count = group.jobs.len();
    if let GroupStrategy::Threshold(n) = group.strategy
        && (n == 0 || n as usize > count)
    {
        let problem = if count == 0 {
            FieldProblem::Contradiction("a threshold needs children, and the group has none".into())
        } else {
            FieldProblem::OutOfRange { value: n.to_string(), min: "1".into(), max: count.to_string() }
        };
        return Err(FieldError::new("strategy.threshold", problem).into());
    }
    if let Some(index) = group.jobs.iter().position(|job| job.idempotency_key.is_some()) {
        // A duplicate would be another parent's child, and its end would never reach this parent.
        let problem = FieldProblem::Contradiction(
            "children cannot have idempotency keys: the group's name serves as one".into(),
        );
        return Err(refusal(index, "idempotency_key", problem));
    }
    Ok(())
}

/// Refuses children of another tenant, for any worker: parents and children share a tenant.
fn check_tenant(parent: &JobRecord, jobs: &[NewJob]) -> Result<(), WorkError> {
    let is_foreign = |job: &NewJob| job.tenant.as_ref().is_some_and(|tenant| *tenant != parent.lane.tenant);
    if let Some(index) = jobs.iter().position(is_foreign) {
        let problem = FieldProblem::Contradiction("children belong to the tenant of their parent".into());
        return Err(refusal(index, "tenant", problem));
    }
    Ok(())
}

/// The groups of a job, by number.
pub(super) fn find_groups(
    tx: &mut WriteTx<'_>,
    parent: &JobRecord,
) -> Result<Vec<(u64, ChildGroup)>, StoreError> {
    if parent.details.groups == 0 {
        return Ok(Vec::new());
    }
    let limit = usize::try_from(limits::CHILD_GROUPS_MAX).unwrap_or(usize::MAX);
    let query =
        JobDataQuery { seq: parent.seq, kind: JobDataKind::Group, name: Some(""), above: None, limit };
    let found = tx.db()?.job_data(query)?;
    found.into_iter().map(|data| Ok((data.number, parse(&data.body)?))).collect()
}

/// A replay requests a group that exists: it parks again on the group and `others`, unless the group is decided or the
/// job continues.
fn again(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    parent: &JobRecord,
    number: u64,
    others: Option<Vec<Wait>>,
) -> Result<SpawnReport, WorkError> {
    if let Some(others) = others {
        park(tx, caller, parent, number, others)?;
    }
    let filter = Filter { parent: Some(parent.id), ..Filter::default() };
    let limit = limits::BATCH_JOBS_MAX * 10;
    let children = tx.db()?.scan(&Scan { filter, order: Order::Oldest, after: None, limit })?;
    let children = children
        .into_iter()
        .filter(|child| child.parent.is_some_and(|found| found.group == number))
        .collect();
    let parent = tx.job(parent.seq)?.cloned().unwrap_or_else(|| parent.clone());
    Ok(SpawnReport { group: number, is_known: true, children, parent })
}

fn keep_group(
    tx: &mut WriteTx<'_>,
    parent: &JobRecord,
    number: u64,
    group: &NewGroup,
    receipts: &[Receipt],
) -> Result<(), WorkError> {
    let total = u32::try_from(receipts.len()).expect("the size of a batch is limited");
    let mut kept = ChildGroup {
        name: group.name.clone(),
        strategy: group.strategy,
        total,
        open: total,
        completed: 0,
        decided: (total == 0).then_some(GroupDecision::Well),
    };
    // A child may have ended immediately, because a dependency had already failed.
    for receipt in receipts {
        if let Some(child) = tx.job(receipt.job.seq)?
            && child.state.is_final()
        {
            kept.child_ended(false);
        }
    }
    tx.put_child_group(parent.seq, number, &kept);
    let mut next = parent.clone();
    next.has.children = true;
    next.details_mut().groups = number;
    tx.put(next);
    Ok(())
}

/// Parks the parent until the group is decided, or one of `others` comes first.
fn park(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    parent: &JobRecord,
    number: u64,
    others: Vec<Wait>,
) -> Result<(), WorkError> {
    let Some(lease) = parent.lease else { return Err(WorkError::Stale(parent.id)) };
    let cause = RecordActor::worker(caller, lease.worker);
    let group = Wait::Children { group: number };
    let wait = if others.is_empty() {
        group
    } else {
        Wait::Any { of: std::iter::once(group).chain(others).collect() }
    };
    Ok(finish::park(tx, parent.seq, wait, &cause)?)
}
