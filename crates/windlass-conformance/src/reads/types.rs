//! Types as people look at them: counts, rates, pauses and settings, as far as a caller may see.

use windlass::job::{Failure, JobState, NewJob};
use windlass::settings::TypeSettings;
use windlass::store::caller::Role;
use windlass::store::{Minute, Pause, PauseTarget};

use crate::fixture::{Fixture, caller, job_type, new_job, secs, tenant};

tests!(reads_types, reads::types: every_type_shows_its_jobs_rates_pause_and_settings, a_type_of_another_tenant_is_not_shown);

/// Model: processing-on-and-off
async fn every_type_shows_its_jobs_rates_pause_and_settings(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("mail")).await;
    t.advance(secs(3));
    t.complete(worker, &claimed).await;
    let (worker, claimed) = t.running(new_job("mail")).await;
    t.fail(worker, &claimed, Failure::permanent("gone", "no such address")).await;
    t.submit(new_job("mail")).await;
    t.set_type("report", TypeSettings { max_running: Some(3), ..TypeSettings::default() }).await;
    t.store.pause(&t.me, PauseTarget::Type(job_type("export")), Pause::default()).await.unwrap();
    // Rates are written down a second later.
    t.advance(secs(2));
    t.submit(new_job("mail")).await;
    let looks = t.store.job_types(&t.me).await.unwrap();
    let names: Vec<&str> = looks.iter().map(|look| look.name.as_str()).collect();
    assert_eq!(names, ["export", "mail", "report"]);
    let mail = &looks[1];
    let count = |state| mail.depth[&state];
    assert_eq!((count(JobState::Completed), count(JobState::Failed), count(JobState::Scheduled)), (1, 1, 2));
    let mut sum = Minute::default();
    mail.minutes.values().for_each(|minute| sum.merge(minute));
    assert_eq!((sum.completed, sum.failed, sum.claimed), (1, 1, 2));
    assert!(sum.ran.percentile(1.0).is_some_and(|longest| longest >= secs(3)));
    assert!(looks[0].paused.is_some() && mail.paused.is_none());
    assert_eq!(looks[2].settings.max_running, Some(3));
    assert_eq!(looks[2].depth[&JobState::Running], 0, "all states are named");
}

/// Model: tenant-isolation
async fn a_type_of_another_tenant_is_not_shown(t: &Fixture) {
    t.submit(NewJob { tenant: Some(tenant("blue")), ..new_job("report") }).await;
    t.submit(NewJob { tenant: Some(tenant("red")), ..new_job("mail") }).await;
    let eve = caller("eve", Role::Operator, "red");
    t.store.pause(&eve, PauseTarget::Type(job_type("mail")), Pause::default()).await.unwrap();
    let looks = t.store.job_types(&eve).await.unwrap();
    assert_eq!(looks.len(), 1);
    assert_eq!((looks[0].name.as_str(), looks[0].depth[&JobState::Scheduled]), ("mail", 1));
    assert_eq!(looks[0].paused.as_ref().map(|hold| hold.by.as_str()), Some("eve"));
    let admin = t.store.job_types(&t.me).await.unwrap();
    assert!(admin.iter().all(|look| look.paused.is_none()), "one tenant's pause is not that of all tenants");
}
