//! Values sent to a job from outside.

use windlass::audit::AuditEvent;
use windlass::error::ActionError;
use windlass::job::{JobId, JobState};
use windlass::limits;
use windlass::store::{AttemptWrite, Finish, Park};

use crate::fixture::{Fixture, lease_ref, new_job, secs};

tests!(
    jobs_steps_signal, jobs::steps::signal:
    a_signal_wakes_the_job_that_waits_for_it_and_is_its_checkpoint,
    signals_sent_early_are_kept_and_consumed_once_in_order,
    each_wait_for_a_name_has_a_checkpoint_of_its_own,
    a_signal_and_the_wait_for_it_meet_in_either_order,
    a_wait_that_is_over_leaves_a_timeout,
    a_signal_to_a_suspended_job_is_remembered,
    a_timeout_while_suspended_is_found_at_the_resume,
    a_signal_after_a_timeout_while_suspended_is_kept,
    a_final_job_and_an_unknown_one_take_no_signal,
    a_thousand_signals_are_kept_and_one_more_is_refused,
    names_and_values_of_signals_have_limits,
    a_wait_whose_signal_could_not_be_saved_is_refused,
);

fn wait_for(name: &str) -> Park {
    Park::Signal { name: name.into(), step: None, timeout: None }
}

fn wait_at_most(name: &str, seconds: u64) -> Park {
    Park::Signal { name: name.into(), step: None, timeout: Some(secs(seconds)) }
}

async fn send(t: &Fixture, id: JobId, name: &str, value: &str) {
    t.store.signal(&t.me, id, name, value.into()).await.expect("the job takes signals");
}

/// A checkpoint as [`Fixture::checkpoints`] shows it.
fn saved(step: &str, value: &str) -> (String, String) {
    (step.to_owned(), value.to_owned())
}

/// Model: sleeps-and-signals, checkpoints
async fn a_wait_whose_signal_could_not_be_saved_is_refused(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("approval")).await;
    let notes = |count: usize| {
        let step = |number| AttemptWrite::Checkpoint { step: format!("step {number}"), value: b"1".to_vec() };
        (0..count).map(step).collect::<Vec<_>>()
    };
    let most = limits::CHECKPOINTS_MAX;
    t.store.record(&t.me, lease_ref(&claimed), notes(most - 1)).await.unwrap();
    send(t, claimed.job.id, "word", "1").await;
    send(t, claimed.job.id, "word", "2").await;
    assert_eq!(t.park(worker, &claimed, wait_for("word")).await, Finish::Applied(JobState::Scheduled));
    let claimed = t.claim_one(worker).await;
    assert_eq!(claimed.job.details.checkpoints, most as u64);
    let refused = t.park(worker, &claimed, wait_for("word")).await;
    assert!(matches!(&refused, Finish::Rejected(invalid) if invalid.field == "park.signal"), "{refused:?}");
    // It may wait where an earlier result is replaced.
    let again = Park::Signal { name: "word".into(), step: Some("step 0".into()), timeout: None };
    assert_eq!(t.park(worker, &claimed, again).await, Finish::Applied(JobState::Scheduled));
    let claimed = t.claim_one(worker).await;
    let saved = claimed.checkpoints.iter().find(|saved| saved.step == "step 0").unwrap();
    assert_eq!(&*saved.value, br#"{"signal":2}"#, "the signal was kept");
}

/// Model: sleeps-and-signals
async fn a_signal_wakes_the_job_that_waits_for_it_and_is_its_checkpoint(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("approval")).await;
    let id = claimed.job.id;
    assert_eq!(t.park(worker, &claimed, wait_for("approve")).await, Finish::Applied(JobState::Waiting));
    send(t, id, "other", "0").await;
    assert_eq!(t.state(id).await, JobState::Waiting, "it waits for another name");
    let job = t.store.signal(&t.me, id, "approve", br#"{"by": "ann"}"#.to_vec()).await.unwrap();
    assert_eq!(job.state, JobState::Scheduled);
    let again = t.claim_one(worker).await;
    assert_eq!(again.checkpoints[0].step, "signal:approve");
    assert_eq!(&*again.checkpoints[0].value, br#"{"signal":{"by": "ann"}}"#);
    assert_eq!(t.events_of(id).await, [AuditEvent::Signalled; 2]);
    // The name of the checkpoint may be the worker's own, and no value is null.
    let park = Park::Signal { name: "other".into(), step: Some("second".into()), timeout: None };
    assert_eq!(t.park(worker, &again, park).await, Finish::Applied(JobState::Scheduled));
    let again = t.claim_one(worker).await;
    assert_eq!(again.checkpoints[0].step, "second");
    t.park(worker, &again, wait_for("empty")).await;
    send(t, id, "empty", "").await;
    assert!(t.checkpoints(id).await.contains(&saved("signal:empty", r#"{"signal":null}"#)));
}

/// Model: sleeps-and-signals
async fn signals_sent_early_are_kept_and_consumed_once_in_order(t: &Fixture) {
    let job = t.submit(new_job("approval")).await;
    for value in ["1", "2"] {
        send(t, job.id, "go", value).await;
    }
    let worker = t.worker().await;
    let mut expected = Vec::new();
    for (key, value) in [("signal:go", "1"), ("signal:go#2", "2")] {
        let claimed = t.claim_one(worker).await;
        assert_eq!(t.park(worker, &claimed, wait_for("go")).await, Finish::Applied(JobState::Scheduled));
        expected.push(saved(key, &format!(r#"{{"signal":{value}}}"#)));
        assert_eq!(t.checkpoints(job.id).await, expected);
    }
    let claimed = t.claim_one(worker).await;
    assert_eq!(t.park(worker, &claimed, wait_for("go")).await, Finish::Applied(JobState::Waiting));
}

/// Model: sleeps-and-signals, steps. A worker that names no step never overwrites what an earlier wait received.
async fn each_wait_for_a_name_has_a_checkpoint_of_its_own(t: &Fixture) {
    let job = t.submit(new_job("approval")).await;
    let worker = t.worker().await;
    for number in 1..=9 {
        send(t, job.id, "a#2", &number.to_string()).await;
        let claimed = t.claim_one(worker).await;
        t.park(worker, &claimed, wait_for("a#2")).await;
    }
    // Two waits at once, of which the first gets the signal.
    let claimed = t.claim_one(worker).await;
    t.park(worker, &claimed, Park::Any(vec![wait_for("a#2"), wait_for("a#2")])).await;
    send(t, job.id, "a#2", "10").await;
    let mut expected = vec![saved("signal:a##2", r#"{"signal":1}"#)];
    expected.extend((2..=10).map(|n| saved(&format!("signal:a##2#{n}"), &format!(r#"{{"signal":{n}}}"#))));
    expected.sort();
    let mut found = t.checkpoints(job.id).await;
    found.sort();
    assert_eq!(found, expected);
}

/// Model: sleeps-and-signals, atomic-changes
async fn a_signal_and_the_wait_for_it_meet_in_either_order(t: &Fixture) {
    for _ in 0..10 {
        let (worker, claimed) = t.running(new_job("approval")).await;
        tokio::join!(t.park(worker, &claimed, wait_for("go")), send(t, claimed.job.id, "go", "1"));
        assert_eq!(t.state(claimed.job.id).await, JobState::Scheduled);
        assert_eq!(t.checkpoints(claimed.job.id).await, [saved("signal:go", r#"{"signal":1}"#)]);
        let again = t.claim_one(worker).await;
        t.complete(worker, &again).await;
    }
}

/// Model: sleeps-and-signals
async fn a_wait_that_is_over_leaves_a_timeout(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("approval")).await;
    let id = claimed.job.id;
    t.park(worker, &claimed, wait_at_most("go", 20)).await;
    t.advance(secs(19));
    t.tick().await;
    assert_eq!(t.state(id).await, JobState::Waiting);
    t.advance(secs(1));
    t.tick().await;
    assert_eq!(t.state(id).await, JobState::Scheduled);
    assert_eq!(t.checkpoints(id).await, [saved("signal:go", r#"{"timeout":true}"#)]);
    // One that comes too late is kept for the next wait.
    send(t, id, "go", "1").await;
    assert_eq!(t.checkpoints(id).await, [saved("signal:go", r#"{"timeout":true}"#)]);
    let claimed = t.claim_one(worker).await;
    assert_eq!(t.park(worker, &claimed, wait_for("go")).await, Finish::Applied(JobState::Scheduled));
}

/// Model: sleeps-and-signals, resume
async fn a_signal_to_a_suspended_job_is_remembered(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("approval")).await;
    let id = claimed.job.id;
    t.park(worker, &claimed, wait_for("go")).await;
    t.suspend(id).await;
    send(t, id, "go", "1").await;
    let job = t.get(id).await.job;
    assert_eq!((job.state, job.details.wait.clone()), (JobState::Suspended, None));
    assert_eq!(t.checkpoints(id).await, [saved("signal:go", r#"{"signal":1}"#)]);
    assert_eq!(t.resume(id).await.job.state, JobState::Scheduled);
}

/// Model: sleeps-and-signals, resume
async fn a_timeout_while_suspended_is_found_at_the_resume(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("approval")).await;
    let id = claimed.job.id;
    t.park(worker, &claimed, wait_at_most("go", 20)).await;
    t.suspend(id).await;
    t.advance(secs(60));
    t.tick().await;
    assert_eq!(t.state(id).await, JobState::Suspended);
    assert_eq!(t.resume(id).await.job.state, JobState::Scheduled);
    assert_eq!(t.checkpoints(id).await, [saved("signal:go", r#"{"timeout":true}"#)]);
}

/// Model: sleeps-and-signals, resume
async fn a_signal_after_a_timeout_while_suspended_is_kept(t: &Fixture) {
    for park in [wait_at_most("go", 20), Park::Any(vec![wait_for("go"), Park::For(secs(20))])] {
        let (worker, claimed) = t.running(new_job("approval")).await;
        let id = claimed.job.id;
        t.park(worker, &claimed, park.clone()).await;
        t.suspend(id).await;
        t.advance(secs(60));
        send(t, id, "go", "1").await;
        assert_eq!(t.resume(id).await.job.state, JobState::Scheduled);
        let expected = match park {
            Park::Any(_) => vec![],
            _ => vec![saved("signal:go", r#"{"timeout":true}"#)],
        };
        assert_eq!(t.checkpoints(id).await, expected);
        let claimed = t.claim_one(worker).await;
        assert_eq!(t.park(worker, &claimed, wait_for("go")).await, Finish::Applied(JobState::Scheduled));
        assert_eq!(t.checkpoints(id).await.last().expect("a checkpoint").1, r#"{"signal":1}"#);
        t.cancel(id).await;
    }
}

/// Model: sleeps-and-signals, refused-changes
async fn a_final_job_and_an_unknown_one_take_no_signal(t: &Fixture) {
    for state in JobState::FINAL {
        let placed = t.placed(state).await;
        let before = t.picture(placed.id).await;
        let refused = t.store.signal(&t.me, placed.id, "go", b"1".to_vec()).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("cannot signal a job that is {state}"));
        assert_eq!(t.picture(placed.id).await, before);
    }
    let unknown = JobId::from_bytes([7; 16]);
    let refused = t.store.signal(&t.me, unknown, "go", b"1".to_vec()).await;
    assert_eq!(refused, Err(ActionError::NotFound(unknown)));
}

/// Model: sleeps-and-signals
async fn a_thousand_signals_are_kept_and_one_more_is_refused(t: &Fixture) {
    let job = t.submit(new_job("approval")).await;
    let mut sending = tokio::task::JoinSet::new();
    for n in 0..limits::SIGNALS_KEPT_MAX {
        let (store, me, id) = (t.store.clone(), t.me.clone(), job.id);
        sending.spawn(async move { store.signal(&me, id, "go", n.to_string().into()).await.map(|_| ()) });
    }
    assert!(sending.join_all().await.into_iter().all(|sent| sent.is_ok()));
    let before = t.picture(job.id).await;
    let refused = t.store.signal(&t.me, job.id, "other", b"1".to_vec()).await;
    assert!(
        matches!(&refused, Err(ActionError::Invalid(invalid)) if invalid.field == "signals"),
        "{refused:?}"
    );
    assert!(t.picture(job.id).await == before);
    // One that was consumed makes room for another.
    let worker = t.worker().await;
    let claimed = t.claim_one(worker).await;
    t.park(worker, &claimed, wait_for("go")).await;
    send(t, job.id, "other", "1").await;
    assert_eq!(t.get(job.id).await.job.details.signals, limits::SIGNALS_KEPT_MAX as u64 + 1);
}

/// Model: sleeps-and-signals
async fn names_and_values_of_signals_have_limits(t: &Fixture) {
    let job = t.submit(new_job("approval")).await;
    let longest = "n".repeat(limits::STEP_NAME_CHARS_MAX);
    let largest = "1".repeat(limits::PAYLOAD_BYTES_DEFAULT);
    send(t, job.id, &longest, &largest).await;
    let before = t.picture(job.id).await;
    let too_long = format!("{longest}n");
    let too_large = format!("{largest}1");
    for (name, value) in [("", "1"), (too_long.as_str(), "1"), ("go", too_large.as_str())] {
        let refused = t.store.signal(&t.me, job.id, name, value.into()).await;
        assert!(matches!(refused, Err(ActionError::Invalid(_))), "{refused:?}");
    }
    assert!(t.picture(job.id).await == before);
}
