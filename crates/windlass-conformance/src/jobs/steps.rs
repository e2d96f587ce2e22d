//! What an attempt saves on its way. At this level a step is the name that the worker gives it (Model: step-identity): the store keeps what
//! it gets under that name, and counting the occurrences of one name is the business of the worker's context.

pub mod signal;
pub mod stream;
pub mod timer;

use windlass::error::{ActionError, WorkError};
use windlass::job::{Failure, JobId, JobState, Progress, SuspendMode};
use windlass::limits;
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionRequest, AttemptWrite, ClaimedJob, JobWrites, JobWritesResult, LeaseRef, Outcome, Redrive,
    StoreOptions, Suspend,
};

use crate::fixture::{Fixture, lease_ref, new_job, secs};

tests!(
    jobs_steps, jobs::steps:
    a_checkpoint_is_replaced_by_name_and_handed_over_at_the_next_claim,
    checkpoints_survive_a_retry_a_release_and_a_lost_lease,
    checkpoints_survive_a_suspension_and_cannot_be_written_during_it,
    checkpoints_go_along_with_a_redrive_unless_it_starts_over,
    a_redrive_from_a_step_keeps_the_steps_before_it,
    a_stale_hand_writes_nothing,
    notes_are_all_written_or_none,
    notes_of_several_jobs_are_written_or_not_for_each,
    names_and_values_are_taken_up_to_their_limits,
    ten_thousand_checkpoints_are_kept_and_one_more_is_refused,
    checkpoints_of_a_job_have_a_total_size,
    progress_and_log_lines_are_kept_and_progress_starts_over,
);

fn saved(claimed: &ClaimedJob) -> Vec<(&str, &str)> {
    let text = |found| std::str::from_utf8(found).unwrap();
    claimed.checkpoints.iter().map(|found| (found.step.as_str(), text(&*found.value))).collect()
}

fn checkpoint(step: &str, value: impl Into<Vec<u8>>) -> AttemptWrite {
    AttemptWrite::Checkpoint { step: step.to_owned(), value: value.into() }
}

/// Model: steps, step-identity, checkpoints
async fn a_checkpoint_is_replaced_by_name_and_handed_over_at_the_next_claim(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("import")).await;
    assert!(claimed.checkpoints.is_empty());
    t.checkpoint(&claimed, "rows", "1").await;
    t.checkpoint(&claimed, "fetch", r#"{"url": "x"}"#).await;
    t.checkpoint(&claimed, "rows", "2").await;
    let expected =
        [("fetch", r#"{"url": "x"}"#), ("rows", "2")].map(|(step, value)| (step.into(), value.into()));
    assert_eq!(t.checkpoints(claimed.job.id).await, expected);
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(2));
    let again = t.claim_one(worker).await;
    assert_eq!(saved(&again), [("fetch", r#"{"url": "x"}"#), ("rows", "2")]);
    assert_eq!(again.job.details.checkpoints, 2);
}

/// Model: steps, checkpoints
async fn checkpoints_survive_a_retry_a_release_and_a_lost_lease(t: &Fixture) {
    let worker = t.steady_worker().await;
    t.submit(new_job("import")).await;
    let claimed = t.claim_one(worker).await;
    t.checkpoint(&claimed, "one", "1").await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(2));
    let claimed = t.claim_one(worker).await;
    t.checkpoint(&claimed, "two", "2").await;
    t.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Released).await;
    let claimed = t.claim_one(worker).await;
    t.checkpoint(&claimed, "three", "3").await;
    t.advance(claimed.job.policy.timeouts.lease);
    t.tick().await;
    t.advance(secs(5));
    let claimed = t.claim_one(worker).await;
    assert_eq!(saved(&claimed), [("one", "1"), ("three", "3"), ("two", "2")]);
    assert_eq!((claimed.job.attempt, claimed.job.crashes), (4, 1));
}

/// Model: checkpoints, suspend-modes
async fn checkpoints_survive_a_suspension_and_cannot_be_written_during_it(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("import")).await;
    t.checkpoint(&claimed, "one", "1").await;
    let suspend = Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() };
    t.act(claimed.job.id, ActionRequest::Suspend(suspend)).await;
    let before = t.picture(claimed.job.id).await;
    let refused = t.store.record(&t.me, lease_ref(&claimed), vec![checkpoint("two", "2")]).await;
    assert_eq!(refused, Err(WorkError::Stale(claimed.job.id)));
    assert_eq!(t.picture(claimed.job.id).await, before);
    t.resume(claimed.job.id).await;
    assert_eq!(saved(&t.claim_one(worker).await), [("one", "1")]);
}

/// Model: final-states, checkpoints
async fn checkpoints_go_along_with_a_redrive_unless_it_starts_over(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("import")).await;
    t.checkpoint(&claimed, "one", "1").await;
    t.fail(worker, &claimed, Failure::permanent("gone", "never")).await;
    let id = claimed.job.id;
    t.store.redrive(&t.me, id, Redrive::default()).await.unwrap();
    let again = t.claim_one(worker).await;
    assert_eq!(saved(&again), [("one", "1")]);
    t.checkpoint(&again, "two", "2").await;
    let restarted =
        t.store.redrive(&t.me, id, Redrive { reset_checkpoints: true, ..Redrive::default() }).await.unwrap();
    assert_eq!(restarted.details.checkpoints, 0);
    assert!(t.claim_one(worker).await.checkpoints.is_empty());
    assert_eq!(t.checkpoints(id).await, [("one".to_owned(), "1".to_owned())], "the old job stays as it was");
}

/// Model: final-states, checkpoints
async fn a_redrive_from_a_step_keeps_the_steps_before_it(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("order")).await;
    let records = [
        ("charge", r#"{"at":1,"value":2}"#),
        ("reserve", r#"{"at":0,"value":7}"#),
        ("reserve#/seat", r#"{"value":1}"#),
        ("ship", r#"{"at":2,"value":3}"#),
        ("signal:paid", r#"{"signal":true}"#),
    ];
    for (step, record) in records {
        t.checkpoint(&claimed, step, record).await;
    }
    t.fail(worker, &claimed, Failure::permanent("gone", "never")).await;
    let id = claimed.job.id;
    let before = t.everything().await;
    let from = |step: &str| Redrive { from_step: Some(step.to_owned()), ..Redrive::default() };
    let both = Redrive { reset_checkpoints: true, ..from("charge") };
    for wrong in [from("refund"), from("signal:paid"), both] {
        let refused = t.store.redrive(&t.me, id, wrong).await;
        assert!(
            matches!(&refused, Err(ActionError::Invalid(invalid)) if invalid.field == "from_step"),
            "{refused:?}"
        );
    }
    assert_eq!(t.everything().await, before, "a refused retry changes nothing");
    let new = t.store.redrive(&t.me, id, from("charge")).await.unwrap();
    let kept = [records[1], records[2], records[4]];
    let bytes: usize = kept.iter().map(|(_, record)| record.len()).sum();
    assert_eq!((new.details.checkpoints, new.details.checkpoint_bytes), (3, bytes as u64));
    assert_eq!(saved(&t.claim_one(worker).await), kept);
    let first = t.store.redrive(&t.me, id, from("reserve")).await.unwrap();
    assert_eq!(first.details.checkpoints, 1, "what has no place is kept");
    assert_eq!(t.checkpoints(id).await.len(), records.len(), "the old job stays as it was");
    let records = t.records(RecordQuery { job: Some(id), ..RecordQuery::default() }).await;
    let contexts: String = records.iter().map(|record| record.context.as_str()).collect();
    assert!(contexts.contains(r#""from_step":"charge""#), "{contexts}");
}

/// Model: counters-and-fences
async fn a_stale_hand_writes_nothing(t: &Fixture) {
    let (worker, first) = t.running(new_job("import")).await;
    let id = first.job.id;
    t.fail(worker, &first, Failure::temporary("busy")).await;
    t.advance(secs(2));
    let second = t.claim_one(worker).await;
    let other = t.worker().await;
    let before = t.picture(id).await;
    let current = lease_ref(&second);
    for stale in [
        lease_ref(&first),
        LeaseRef { worker: Some(other), ..current },
        LeaseRef { worker: None, ..lease_ref(&first) },
    ] {
        for note in [checkpoint("one", "1"), AttemptWrite::Logs(vec!["hello".into()])] {
            let refused = t.store.record(&t.me, stale, vec![note]).await;
            assert_eq!(refused, Err(WorkError::Stale(id)), "{stale:?}");
        }
    }
    let unknown = JobId::from_bytes([7; 16]);
    let refused =
        t.store.record(&t.me, LeaseRef { job: unknown, ..current }, vec![checkpoint("one", "1")]).await;
    assert_eq!(refused, Err(WorkError::NoSuchJob(unknown)));
    assert_eq!(t.picture(id).await, before);
    // A worker that names only job and fence is the one that holds it.
    t.store.record(&t.me, LeaseRef { worker: None, ..current }, vec![checkpoint("one", "1")]).await.unwrap();
    t.complete(worker, &second).await;
    let refused = t.store.record(&t.me, current, vec![checkpoint("one", "2")]).await;
    assert_eq!(refused, Err(WorkError::Stale(id)));
    assert_eq!(t.checkpoints(id).await, [("one".to_owned(), "1".to_owned())]);
}

/// Model: steps
async fn notes_are_all_written_or_none(t: &Fixture) {
    let (_, claimed) = t.running(new_job("import")).await;
    let before = t.picture(claimed.job.id).await;
    let progress = |percent| AttemptWrite::Progress(Progress { percent, message: None });
    for bad in [checkpoint("", "1"), progress(100.5), progress(f64::NAN)] {
        let notes = vec![checkpoint("one", "1"), progress(50.0), bad];
        let refused = t.store.record(&t.me, lease_ref(&claimed), notes).await;
        assert!(matches!(refused, Err(WorkError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(t.picture(claimed.job.id).await, before);
    let notes = vec![checkpoint("one", "1"), checkpoint("one", "2"), progress(50.0)];
    t.store.record(&t.me, lease_ref(&claimed), notes).await.unwrap();
    assert_eq!(t.checkpoints(claimed.job.id).await, [("one".to_owned(), "2".to_owned())]);
}

/// Model: steps
async fn notes_of_several_jobs_are_written_or_not_for_each(t: &Fixture) {
    let (worker, lost) = t.running(new_job("import")).await;
    t.fail(worker, &lost, Failure::permanent("no", "no")).await;
    t.submit(new_job("import")).await;
    t.submit(new_job("import")).await;
    let (one, two) = (t.claim_one(worker).await, t.claim_one(worker).await);
    let of = |claimed: &ClaimedJob, writes| {
        let LeaseRef { job, fence, .. } = lease_ref(claimed);
        JobWrites { job, fence, writes }
    };
    let unknown = JobWrites { job: JobId::from_bytes([7; 16]), ..of(&one, vec![checkpoint("a", "1")]) };
    let all = vec![
        of(&one, vec![checkpoint("a", "1"), checkpoint("b", "2")]),
        of(&lost, vec![checkpoint("a", "1")]),
        of(&two, vec![checkpoint("a", "1"), checkpoint("", "2")]),
        unknown,
        of(&two, vec![checkpoint("c", "3")]),
        of(&one, vec![checkpoint("a", "4")]),
    ];
    let strangers = t.worker().await;
    let stale = t.store.record_each(&t.me, strangers, all.clone()).await.unwrap();
    assert!(!stale.contains(&JobWritesResult::Saved), "{stale:?}");
    let answers = t.store.record_each(&t.me, worker, all).await.unwrap();
    assert!(
        matches!(&answers[2], JobWritesResult::Rejected(invalid) if invalid.field == "step"),
        "{answers:?}"
    );
    let others = [&answers[0], &answers[1], &answers[3], &answers[4], &answers[5]];
    let (saved, stale) = (&JobWritesResult::Saved, &JobWritesResult::Stale);
    assert_eq!(others, [saved, stale, stale, saved, saved]);
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(t.checkpoints(one.job.id).await, pairs(&[("a", "4"), ("b", "2")]));
    assert_eq!(t.checkpoints(two.job.id).await, pairs(&[("c", "3")]));
    assert_eq!(t.checkpoints(lost.job.id).await, []);
}

/// Model: steps
async fn names_and_values_are_taken_up_to_their_limits(t: &Fixture) {
    let (_, claimed) = t.running(new_job("import")).await;
    let longest = "é".repeat(limits::STEP_NAME_CHARS_MAX);
    let largest = vec![b'1'; limits::PAYLOAD_BYTES_DEFAULT];
    t.store.record(&t.me, lease_ref(&claimed), vec![checkpoint(&longest, largest.clone())]).await.unwrap();
    let before = t.picture(claimed.job.id).await;
    let too_long = checkpoint(&format!("{longest}x"), "1");
    let too_large = checkpoint("two", [largest, vec![b'1']].concat());
    let with_nul = checkpoint("a\0b", "1");
    for (field, note) in [("step", too_long), ("value", too_large), ("step", with_nul)] {
        let refused = t.store.record(&t.me, lease_ref(&claimed), vec![note]).await;
        assert!(
            matches!(&refused, Err(WorkError::Invalid(invalid)) if invalid.field == field),
            "{refused:?}"
        );
    }
    assert!(t.picture(claimed.job.id).await == before);
}

/// Model: steps, bounded-commits
async fn checkpoints_of_a_job_have_a_total_size(t: &Fixture) {
    let largest = limits::PAYLOAD_BYTES_MAX;
    let t = t.another(StoreOptions { payload_bytes_max: largest, ..StoreOptions::default() });
    let (_, claimed) = t.running(new_job("import")).await;
    let write = async |writes| t.store.record(&t.me, lease_ref(&claimed), writes).await;
    let count = limits::CHECKPOINTS_BYTES_MAX / largest;
    for step in 0..count {
        write(vec![checkpoint(&step.to_string(), vec![b'1'; largest])]).await.unwrap();
    }
    assert_eq!(t.get(claimed.job.id).await.job.details.checkpoint_bytes, 64 << 20);
    let more =
        [vec![checkpoint("more", "1")], vec![checkpoint("0", "1"), checkpoint("more", vec![b'1'; largest])]];
    for writes in more {
        let refused = write(writes).await;
        assert!(
            matches!(&refused, Err(WorkError::Invalid(invalid)) if invalid.field == "value"),
            "{refused:?}"
        );
    }
    // What one step gives up another may have.
    write(vec![checkpoint("0", "12"), checkpoint("more", vec![b'1'; largest - 2])]).await.unwrap();
    assert_eq!(t.get(claimed.job.id).await.job.details.checkpoint_bytes, 64 << 20);
}

/// Model: steps
async fn ten_thousand_checkpoints_are_kept_and_one_more_is_refused(t: &Fixture) {
    let (_, claimed) = t.running(new_job("import")).await;
    let many = limits::CHECKPOINTS_MAX;
    let notes = |count: usize| (0..count).map(|n| checkpoint(&format!("step {n}"), "1")).collect::<Vec<_>>();
    let is_refused = |answer: Result<(), WorkError>| {
        assert!(matches!(&answer, Err(WorkError::Invalid(invalid)) if invalid.field == "step"), "{answer:?}");
    };
    is_refused(t.store.record(&t.me, lease_ref(&claimed), notes(many + 1)).await);
    assert!(t.checkpoints(claimed.job.id).await.is_empty());
    t.store.record(&t.me, lease_ref(&claimed), notes(many)).await.unwrap();
    is_refused(t.store.record(&t.me, lease_ref(&claimed), vec![checkpoint("another", "1")]).await);
    // One that is there already may still be replaced.
    t.store.record(&t.me, lease_ref(&claimed), vec![checkpoint("step 0", "2")]).await.unwrap();
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.details.checkpoints, job.state), (many as u64, JobState::Running));
    assert_eq!(t.checkpoints(job.id).await.len(), many);
}

/// Model: result-cost-and-progress
async fn progress_and_log_lines_are_kept_and_progress_starts_over(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("import")).await;
    let id = claimed.job.id;
    let half = Progress { percent: 50.0, message: Some("half".into()) };
    let lines = vec!["first".to_owned(), "é".repeat(limits::LOG_LINE_BYTES_MAX)];
    let notes = vec![AttemptWrite::Progress(half.clone()), AttemptWrite::Logs(lines)];
    t.store.record(&t.me, lease_ref(&claimed), notes).await.unwrap();
    assert_eq!(t.get(id).await.job.details.progress, Some(half));
    let logs = t.store.logs(&t.me, id, 0).await.unwrap().unwrap();
    assert_eq!((logs[0].0, logs[0].1.text.as_str(), logs[0].1.attempt), (1, "first", 1));
    assert_eq!(logs[1].1.text, "é".repeat(limits::LOG_LINE_BYTES_MAX / 2));
    assert_eq!(t.store.logs(&t.me, id, 1).await.unwrap().unwrap(), logs[1..]);
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(2));
    assert_eq!(t.claim_one(worker).await.job.details.progress, None);
    assert_eq!(t.store.logs(&t.me, id, 0).await.unwrap().unwrap().len(), 2);
}
