//! Verbs that answer with the job as their own commit left it.

use std::time::Duration;

use windlass::job::{Dependency, JobMetadata, JobState, NewJob};
use windlass::store::{
    ActionOptions, ActionRequest, ClaimRequest, IfMatch, Patch, Redrive, SubmitOptions, Suspend,
};

use crate::fixture::{Fixture, new_job};

tests!(
    reports, reports:
    a_submission_shows_its_jobs_as_they_were_submitted,
    an_action_shows_the_job_as_it_left_it,
    a_claim_of_a_caller_who_is_gone_stops_waiting,
);

async fn a_submission_shows_its_jobs_as_they_were_submitted(t: &Fixture) {
    let metadata = JobMetadata { correlation_id: Some("c".into()), ..JobMetadata::default() };
    let first = NewJob { name: Some("first".into()), metadata, ..new_job("email.send") };
    let second = NewJob { after: vec![Dependency::Named("first".into())], ..new_job("email.send") };
    let keyed = NewJob { idempotency_key: Some("k".into()), ..new_job("email.send") };
    let jobs = vec![first, second, keyed.clone(), keyed];
    let shown = t.store.submit_and_read(&t.me, jobs, SubmitOptions::default()).await.unwrap();
    assert_eq!(shown.iter().map(|job| job.is_duplicate).collect::<Vec<_>>(), [false, false, false, true]);
    assert_eq!(shown[2].job, shown[3].job);
    assert_eq!(shown[1].job.spec.after, [shown[0].job.job.id]);
    assert_eq!(shown[1].job.why.as_ref().unwrap().code, "dependencies_unmet");
    for job in &shown {
        let looked = t.store.get(&t.me, job.job.job.id).await.unwrap().unwrap();
        assert_eq!(looked.spec, job.job.spec);
        assert_eq!(looked.why, job.job.why);
    }
    assert_eq!(t.store.submit_and_read(&t.me, Vec::new(), SubmitOptions::default()).await.unwrap(), []);
}

fn strict() -> ActionOptions {
    ActionOptions { strict: true, ..ActionOptions::default() }
}

/// Model: repeated-actions, writable-fields, final-states
async fn an_action_shows_the_job_as_it_left_it(t: &Fixture) {
    let id = t.submit(new_job("email.send")).await.id;
    let suspend = || ActionRequest::Suspend(Suspend::default());
    let done = t.store.act_and_read(&t.me, id, suspend(), strict()).await.unwrap();
    assert!(done.is_changed);
    assert_eq!((done.job.job.state, done.job.why.unwrap().code), (JobState::Suspended, "suspended"));
    assert!(!t.store.act_and_read(&t.me, id, suspend(), ActionOptions::default()).await.unwrap().is_changed);
    t.store.act_and_read(&t.me, id, suspend(), strict()).await.unwrap_err();
    let patch = Patch { correlation_id: Some(Some("new".into())), ..Patch::default() };
    let patched =
        t.store.act_and_read(&t.me, id, ActionRequest::Patch(patch), ActionOptions::default()).await.unwrap();
    assert_eq!(patched.job.spec.metadata.correlation_id.as_deref(), Some("new"));
    t.cancel(id).await;
    let again = t.store.redrive_and_read(&t.me, id, Redrive::default(), IfMatch::any()).await.unwrap();
    assert_eq!((again.job.details.retry_of, again.job.state), (Some(id), JobState::Scheduled));
    assert_eq!(again.spec.metadata.correlation_id.as_deref(), Some("new"));
}

async fn a_claim_of_a_caller_who_is_gone_stops_waiting(t: &Fixture) {
    let worker = t.worker().await;
    let request = ClaimRequest::new(worker, 1);
    let gone = std::future::ready(());
    let answer = t.store.claim_until(&t.me, &request, Duration::from_secs(60), gone).await.unwrap();
    assert_eq!(answer.jobs, []);
    let id = t.submit(new_job("email.send")).await.id;
    // A job that is there is handed over nevertheless: the caller gives it back.
    let gone = std::future::ready(());
    let answer = t.store.claim_until(&t.me, &request, Duration::from_secs(60), gone).await.unwrap();
    assert_eq!(answer.jobs[0].job.id, id);
}
