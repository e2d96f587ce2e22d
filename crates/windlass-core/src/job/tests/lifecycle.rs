//! The state machine as a whole: every event on every state in every variant, held against the table of the model.

use std::collections::BTreeSet;

use super::*;
use crate::error::InvalidTransition;

/// Event, state before, state after.
type Step = (JobAction, JobState, JobState);

/// The lifecycle as the model defines it, row by row. A change of the rule must be repeated here by hand.
const MODEL: &str = "
    submit           | created                                                                | pending delayed scheduled
    dependency_ended | pending                                                                | delayed scheduled
    dependency_ended | pending created suspended                                              | failed dead_letter cancelled
    due              | delayed retrying                                                       | scheduled
    claim            | scheduled                                                              | running
    refuse           | scheduled                                                              | failed
    succeed          | running                                                                | completed
    fail             | running                                                                | failed
    fail             | running                                                                | retrying
    fail             | running                                                                | dead_letter
    lease_expired    | running                                                                | failed retrying dead_letter
    release          | running                                                                | retrying
    park             | running                                                                | waiting
    wake             | waiting                                                                | scheduled
    suspend          | created pending delayed scheduled retrying waiting                     | suspended
    suspend          | running                                                                | suspended
    resume           | suspended                                                              | created pending waiting delayed scheduled
    cancel           | created pending delayed scheduled running waiting retrying suspended   | cancelled
    expire           | created pending delayed scheduled running waiting retrying             | dead_letter
";

/// A graceful suspension waits for the attempt: whatever would let the job run again suspends it instead (Model: suspend-modes).
const GRACEFUL: &str = "
    fail             | running | suspended
    lease_expired    | running | suspended
    release          | running | suspended
    park             | running | suspended
";

fn states(words: &str) -> Vec<JobState> {
    words.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn parsed(table: &str) -> BTreeSet<Step> {
    let mut steps = BTreeSet::new();
    for row in table.lines().filter(|row| row.contains('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let action = serde_json::from_value(cells[0].into()).unwrap();
        for from in states(cells[1]) {
            steps.extend(states(cells[2]).into_iter().map(|to| (action, from, to)));
        }
    }
    steps
}

fn lifecycle() -> BTreeSet<Step> {
    let flat = LIFECYCLE.iter().flat_map(|(action, froms, tos)| {
        froms.iter().flat_map(move |from| tos.iter().map(move |to| (*action, *from, *to)))
    });
    flat.collect()
}

/// Every event, in every form that a rule tells apart.
fn events() -> Vec<JobEvent> {
    let mut events =
        vec![JobEvent::Submit, JobEvent::Due, claim(), JobEvent::Succeed, JobEvent::Release, JobEvent::Wake];
    events.extend([
        JobEvent::Resume,
        cancel(),
        JobEvent::Expire,
        JobEvent::LeaseExpired { random: 0.5, is_crash: true },
    ]);
    events.push(JobEvent::Refuse { failure: Failure::permanent("ticket_invalid", "forged") });
    for need in [Need::After, Need::AfterAny] {
        events.extend(JobState::FINAL.map(|state| JobEvent::DependencyEnded { need, state }));
    }
    for category in Category::ALL {
        let failure = Failure::new(category, "it broke").with_retry_after(HOUR);
        events.extend([fail(category), JobEvent::Fail { failure, random: 0.5 }]);
    }
    events.extend(waits().map(|wait| JobEvent::Park { wait }));
    events.extend([SuspendMode::IdleOnly, SuspendMode::Graceful, SuspendMode::Aggressive].map(suspend));
    events
}

fn waits() -> [Wait; 3] {
    [
        Wait::Timer { until: at(60) },
        Wait::Signal { name: "go".into(), step: "go".into(), until: None },
        Wait::Children { group: 1 },
    ]
}

/// Jobs in `state` that differ in every fact some rule looks at.
fn variants(state: JobState) -> Vec<JobRecord> {
    let mut found = Vec::new();
    for (after_unmet, any_unmet) in [(0, false), (1, false), (2, false), (0, true), (1, true)] {
        for run_at in [start(), at(3600)] {
            found.push(with(idle(state), |job| {
                (job.after_unmet, job.any_unmet, job.run_at) = (after_unmet, any_unmet, run_at);
            }));
        }
    }
    let is_unmet = JobRecord::has_unmet_dependencies;
    match state {
        JobState::Created => found.iter_mut().for_each(hold),
        JobState::Pending => found.retain(is_unmet),
        JobState::Delayed => found.retain(|job| !is_unmet(job) && job.run_at > start()),
        JobState::Scheduled => found.retain(|job| !is_unmet(job)),
        JobState::Retrying => {
            let failed = |job: &JobRecord| applied(job, &fail(Category::Temporary), start());
            found = running_variants().iter().map(failed).filter(|job| job.state == state).collect();
        }
        JobState::Suspended => return suspended_variants(),
        JobState::Running => return running_variants(),
        JobState::Waiting => {
            found = waits().map(|wait| applied(&running(), &JobEvent::Park { wait }, start())).into();
        }
        JobState::Completed | JobState::Failed | JobState::DeadLetter | JobState::Cancelled => {
            let started: Vec<JobRecord> =
                found.iter().map(|job| with(job.clone(), |job| job.attempt = 1)).collect();
            found.extend(started);
        }
    }
    found
}

fn hold(job: &mut JobRecord) {
    job.details_mut().is_held = true;
}

fn running_variants() -> Vec<JobRecord> {
    let mut found = Vec::new();
    for max_attempts in [1, 3, 100] {
        for retry_on in [vec![], vec![Category::Timeout, Category::System]] {
            for (failures, crashes) in [(0, 0), (2, 0), (2, 2), (99, 2)] {
                for requested in [None, Some(suspension())] {
                    let policy =
                        RetryPolicy { max_attempts, retry_on: retry_on.clone(), ..RetryPolicy::standard() };
                    found.push(with(under(running(), policy), |job| {
                        (job.failures, job.crashes) = (failures, crashes);
                        job.details_mut().suspend_requested = requested;
                    }));
                }
            }
        }
    }
    found
}

/// Whatever can be suspended, suspended.
fn suspended_variants() -> Vec<JobRecord> {
    let others = JobState::ALL.into_iter().filter(|state| !state.is_final() && *state != JobState::Suspended);
    let jobs = others.flat_map(variants);
    jobs.map(|job| applied(&job, &suspend(SuspendMode::Aggressive), start())).collect()
}

#[derive(Debug, PartialEq)]
enum Answer {
    Moves,
    Stays,
    NoOp,
    Refused,
}

/// What the model says the answer is, apart from where a job moves.
fn expected(job: &JobRecord, event: &JobEvent) -> Answer {
    let state = job.state;
    let is_requested = job.details.suspend_requested.is_some();
    match event {
        // No-ops: repeated suspends and resumes, and cancelling what is cancelled (Model: refused-changes, repeated-actions).
        JobEvent::Cancel { .. } if state == JobState::Cancelled => Answer::NoOp,
        JobEvent::Resume if state == JobState::Running && is_requested => Answer::Stays,
        JobEvent::Resume if state != JobState::Suspended => Answer::NoOp,
        JobEvent::Suspend { .. } if state == JobState::Suspended => Answer::NoOp,
        JobEvent::Suspend { suspension } if state == JobState::Running => match suspension.mode {
            SuspendMode::IdleOnly => Answer::Refused,
            SuspendMode::Graceful if is_requested => Answer::NoOp,
            SuspendMode::Graceful => Answer::Stays,
            SuspendMode::Aggressive => Answer::Moves,
        },
        // Remembered while suspended (Model: resume).
        JobEvent::Wake if state == JobState::Suspended && job.details.wait.is_some() => Answer::Stays,
        // One of several was enough; the others have no effect (Model: dependencies).
        JobEvent::DependencyEnded { need: Need::AfterAny, .. }
            if lifecycle_knows(event, state) && !job.any_unmet =>
        {
            Answer::NoOp
        }
        JobEvent::DependencyEnded { need, state: other } if lifecycle_knows(event, state) => {
            let is_bad = *need == Need::After && *other != JobState::Completed;
            let left = match need {
                Need::After => job.after_unmet > 1 || job.any_unmet,
                Need::AfterAny => job.after_unmet > 0,
            };
            let moves = is_bad || (state == JobState::Pending && !left);
            if moves { Answer::Moves } else { Answer::Stays }
        }
        _ if lifecycle_knows(event, state) => Answer::Moves,
        _ => Answer::Refused,
    }
}

fn lifecycle_knows(event: &JobEvent, state: JobState) -> bool {
    lifecycle().iter().any(|(action, from, _)| *action == event.action() && *from == state)
}

/// Model: one-state-machine. The table that documents are made from is the model's.
#[test]
fn the_lifecycle_is_the_table_of_the_model_and_its_footnote() {
    let model: BTreeSet<Step> = parsed(MODEL).union(&parsed(GRACEFUL)).copied().collect();
    assert_eq!(lifecycle(), model);
}

/// Model: refused-changes, final-states, one-state-machine. Of all 144 pairs of states exactly those in the table are ever reached, each by the events that it names.
#[test]
fn a_job_moves_along_the_lifecycle_and_nowhere_else() {
    let mut reached = BTreeSet::new();
    for from in JobState::ALL {
        for job in variants(from) {
            assert_eq!(job.state, from, "a variant is in its state");
            for event in events() {
                if let Ok(Transition::Changed(change)) = transition(&job, &event, at(1))
                    && change.job.state != from
                {
                    reached.insert((event.action(), from, change.job.state));
                }
            }
        }
    }
    assert_eq!(reached, lifecycle());
    let pairs = |steps: &BTreeSet<Step>| steps.iter().map(|step| (step.1, step.2)).collect::<BTreeSet<_>>();
    let (reached, allowed) = (pairs(&reached), pairs(&lifecycle()));
    for from in JobState::ALL {
        for to in JobState::ALL {
            assert_eq!(reached.contains(&(from, to)), allowed.contains(&(from, to)), "{from} to {to}");
            assert!(!(from.is_final() && reached.contains(&(from, to))), "{from} is final");
        }
    }
}

/// Model: refused-changes, changing-priority, repeated-actions, pending-suspension. What is not in the table is refused by name or is one of the listed no-ops.
#[test]
fn every_other_event_is_refused_by_name_or_a_listed_no_op() {
    for job in JobState::ALL.into_iter().flat_map(variants) {
        for event in events() {
            let answer = match transition(&job, &event, at(1)) {
                Ok(Transition::Changed(change)) if change.job.state != job.state => Answer::Moves,
                Ok(Transition::Changed(_)) => Answer::Stays,
                Ok(Transition::Unchanged) => Answer::NoOp,
                Err(refused) => {
                    assert_eq!(refused, InvalidTransition { state: job.state, action: event.action() });
                    let (state, action) = (job.state, event.action());
                    assert_eq!(refused.to_string(), format!("cannot {action} a job that is {state}"));
                    Answer::Refused
                }
            };
            assert_eq!(answer, expected(&job, &event), "{event:?} on {job:?}");
        }
    }
}

/// Model: counters-and-fences, execution-timeout, suspend-modes. Whatever happened, a job has what belongs to its state and nothing else.
#[test]
fn a_changed_job_is_of_one_piece() {
    for job in JobState::ALL.into_iter().flat_map(variants) {
        for event in events() {
            let Ok(Transition::Changed(change)) = transition(&job, &event, at(1)) else { continue };
            let (next, what) = (change.job, format!("{event:?} on {job:?}"));
            assert_eq!(next.updated_at, at(1), "{what}");
            assert_eq!(next.lease.is_some(), next.state == JobState::Running, "{what}");
            assert_eq!(next.completed_at.is_some(), next.state.is_final(), "{what}");
            assert_eq!(next.details.suspension.is_some(), next.state == JobState::Suspended, "{what}");
            assert_eq!(next.eligible_at.is_some(), next.scheduled_at.is_some(), "{what}");
            assert!(next.state == JobState::Running || next.details.suspend_requested.is_none(), "{what}");
            assert!(!next.state.is_final() || next.details.wait.is_none(), "{what}");
            assert!(next.attempt >= job.attempt && next.failures >= job.failures, "{what}");
            assert!(next.fence >= job.fence, "{what}");
            let has_ended = job.state == JobState::Running && next.state != JobState::Running;
            assert_eq!(change.attempt.is_some(), has_ended, "{what}");
        }
    }
}

/// Model: one-state-machine. What a surface offers is what the state machine accepts.
#[test]
fn an_action_is_allowed_where_the_lifecycle_has_it() {
    for state in JobState::ALL {
        let is_live = !state.is_final();
        assert_eq!(JobAction::Submit.is_allowed_in(state), state == JobState::Created, "{state}");
        assert_eq!(JobAction::Resume.is_allowed_in(state), state == JobState::Suspended, "{state}");
        assert_eq!(
            JobAction::Suspend.is_allowed_in(state),
            is_live && state != JobState::Suspended,
            "{state}"
        );
        for action in [JobAction::Cancel, JobAction::Priority, JobAction::Patch, JobAction::Signal] {
            assert_eq!(action.is_allowed_in(state), is_live, "{action} in {state}");
        }
        for action in [JobAction::Redrive, JobAction::Delete] {
            assert_eq!(action.is_allowed_in(state), !is_live, "{action} in {state}");
        }
    }
    for action in JobAction::ALL {
        assert_eq!(action.as_str().parse(), Ok(action));
    }
}
