//! One queue as several callers see it. Embedded only: a server knows its callers by their keys.

use windlass::error::ActionError;
use windlass::job::JobState;
use windlass::store::Pause;
use windlass::store::caller::{Caller, Role};
use windlass::testing::TestClient;

use crate::fixture::{secs, tenant};
use crate::worker::harness::step_by_step_on_every_engine;
use crate::worker::job_types::greet;

step_by_step_on_every_engine!(
    a_caller_of_another_tenant_sees_only_their_tenant,
    pauses_are_listed_with_who_and_why
);

/// Model: tenant-isolation, roles
async fn a_caller_of_another_tenant_sees_only_their_tenant(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    let viewer = Caller::new("eve", Role::Viewer, Some(tenant("default")));
    let eve = t.client().as_caller(viewer).job(job.id());
    assert_eq!(eve.state().await.unwrap(), Some(JobState::Scheduled));
    assert!(matches!(eve.cancel().await, Err(ActionError::Forbidden(_))));
    let stranger = Caller::new("mallory", Role::Operator, Some(tenant("other")));
    let mallory = t.client().as_caller(stranger).job(job.id());
    assert_eq!(mallory.state().await.unwrap(), None);
    assert!(matches!(mallory.cancel().await, Err(ActionError::NotFound(_))));
}

/// Model: queue-pause, pause-reason-and-expiry, tenant-isolation
async fn pauses_are_listed_with_who_and_why(t: &TestClient) {
    let client = t.client();
    assert_eq!(client.pauses().await.unwrap(), []);
    let how = Pause::graceful().reason("lunch").expires_in(secs(3600));
    client.pause_queue("mail", how.clone()).await.unwrap();
    let theirs = client.as_caller(Caller::new("ada", Role::Operator, Some(tenant("theirs"))));
    theirs.pause_type("greet", Pause::aggressive()).await.unwrap();
    let all = client.pauses().await.unwrap();
    assert_eq!(all.len(), 2);
    let lunch = all.iter().find(|pause| pause.reason.as_deref() == Some("lunch")).unwrap();
    assert_eq!((lunch.since, lunch.expires_at), (t.now(), Some(t.now().plus(secs(3600)))));
    let others = client.as_caller(Caller::new("bob", Role::Operator, Some(tenant("others"))));
    assert_eq!(others.pauses().await.unwrap(), std::slice::from_ref(lunch));
    t.advance(secs(3600)).await;
    assert_eq!(client.pauses().await.unwrap().len(), 1);
}
