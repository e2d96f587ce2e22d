//! How many queues, types and lanes a tenant may have, lists of queues page by page, and numbers about all of them.

use windlass::error::{ActionError, FieldError, FieldProblem, SubmitError};
use windlass::job::{JobState, NewJob};
use windlass::limits::STATS_NAMES_MAX;
use windlass::settings::{QueueSettings, TenantSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::{OmittedCounts, Pause, PauseTarget, Settings};

use crate::fixture::{Fixture, caller, job_type, new_job, queue, tenant};

tests!(
    jobs_names, jobs::names:
    a_tenant_has_as_many_lanes_as_it_may,
    a_tenant_has_as_many_queues_and_types_as_it_may,
    queues_are_listed_page_by_page,
    numbers_about_everything_name_a_bounded_number,
    a_tenant_names_as_many_queues_and_types_in_settings_and_pauses_as_it_may,
);

fn job(who: &str, name: &str, kind: &str) -> NewJob {
    NewJob { queue: queue(name), tenant: Some(tenant(who)), hold: true, ..new_job(kind) }
}

/// Model: number-of-names
async fn a_tenant_has_as_many_queues_and_types_as_it_may(t: &Fixture) {
    let limits = TenantSettings { max_queues: Some(2), max_types: Some(2), ..TenantSettings::default() };
    t.set_tenant("acme", limits).await;
    let first = t.submit(job("acme", "a", "x")).await.id;
    let refused = t.refused(vec![job("acme", "a", "x"), job("acme", "b", "x"), job("acme", "c", "x")]).await;
    let SubmitError::Invalid { index: 2, invalid } = refused else { panic!("{refused}") };
    let limit =
        FieldProblem::LimitReached { name: "max_queues", value: "c".into(), limit: 2, tenant: "acme".into() };
    assert_eq!((invalid.field.as_str(), invalid.problem), ("queue", limit));
    t.submit_all(vec![job("acme", "b", "y"), job("acme", "a", "y"), job("acme", "b", "x")]).await;
    let refused = t.refused(vec![job("acme", "b", "z")]).await;
    let SubmitError::Invalid { index: 0, invalid } = refused else { panic!("{refused}") };
    let limit =
        FieldProblem::LimitReached { name: "max_types", value: "z".into(), limit: 2, tenant: "acme".into() };
    assert_eq!((invalid.field.as_str(), invalid.problem), ("type", limit));
    // Others are not concerned, and a queue without jobs does not count.
    t.submit_all(vec![job("other", "c", "z"), job("other", "d", "z"), job("other", "e", "z")]).await;
    t.cancel(first).await;
    t.store.delete(&t.me, first).await.unwrap();
    let rest = t.everything().await.jobs.into_iter().filter(|one| one.job.lane.queue == queue("a"));
    for one in rest {
        t.cancel(one.job.id).await;
        t.store.delete(&t.me, one.job.id).await.unwrap();
    }
    t.submit(job("acme", "c", "x")).await;
    t.refused(vec![job("acme", "a", "x")]).await;
    t.verify().await;
}

/// Model: number-of-names
async fn a_tenant_has_as_many_lanes_as_it_may(t: &Fixture) {
    t.set_tenant("acme", TenantSettings { max_lanes: Some(3), ..TenantSettings::default() }).await;
    t.submit_all(vec![job("acme", "a", "x"), job("acme", "a", "y")]).await;
    // Queues and types are known: only the pairs are new.
    let refused = t.refused(vec![job("acme", "b", "x"), job("acme", "b", "x"), job("acme", "b", "y")]).await;
    let SubmitError::Invalid { index: 2, invalid } = refused else { panic!("{refused}") };
    let limit =
        FieldProblem::LimitReached { name: "max_lanes", value: "b".into(), limit: 3, tenant: "acme".into() };
    assert_eq!((invalid.field.as_str(), invalid.problem), ("queue", limit));
    let third = t.submit(job("acme", "b", "x")).await.id;
    t.submit_all(vec![job("acme", "a", "x"), job("acme", "b", "x"), job("other", "b", "y")]).await;
    t.refused(vec![job("acme", "b", "y")]).await;
    // A lane without jobs does not count.
    let others = t.everything().await.jobs.into_iter().map(|one| one.job);
    let others = others.filter(|one| one.lane.queue == queue("b") && one.lane.tenant == tenant("acme"));
    for id in others.map(|one| one.id).chain([third]).collect::<std::collections::BTreeSet<_>>() {
        t.cancel(id).await;
        t.store.delete(&t.me, id).await.unwrap();
    }
    t.submit(job("acme", "b", "y")).await;
    t.verify().await;
}

async fn queues_are_listed_page_by_page(t: &Fixture) {
    let names: Vec<String> = (0..25).map(|number| format!("q{number:02}")).collect();
    t.submit_all(names.iter().map(|name| NewJob { queue: queue(name), ..new_job("a") }).collect()).await;
    let whole = t.store.queues(&t.me).await.unwrap();
    assert_eq!(whole.iter().map(|look| look.name.to_string()).collect::<Vec<_>>(), names);
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = t.store.queues_after(&t.me, after.take(), 10).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    for look in &whole {
        assert_eq!(look.oldest, t.store.oldest_ready(&t.me, look.name.clone()).await.unwrap());
        assert_eq!(look, &t.store.queue(&t.me, look.name.clone()).await.unwrap());
    }
}

async fn numbers_about_everything_name_a_bounded_number(t: &Fixture) {
    let count = STATS_NAMES_MAX + 5;
    t.submit_all((0..count).map(|number| job("acme", &format!("q{number:05}"), "a")).collect()).await;
    let stats = t.store.stats(&t.me).await.unwrap();
    assert_eq!((stats.queues.len(), stats.types.len(), stats.tenants.len()), (STATS_NAMES_MAX, 1, 1));
    assert_eq!(stats.left_out, OmittedCounts { queues: 5, ..OmittedCounts::default() });
    assert_eq!(stats.states[&JobState::Created], count as u64, "sums count all of them");
    assert!(stats.queues.contains_key(&queue("q00000")) && !stats.queues.contains_key(&queue("q01004")));
    let totals = t.store.totals(&t.me).await.unwrap();
    assert_eq!((totals.queues.len(), totals.left_out), (count, OmittedCounts::default()));
}

/// Model: number-of-names. What an operator configures or pauses needs no job, and is in memory nevertheless.
async fn a_tenant_names_as_many_queues_and_types_in_settings_and_pauses_as_it_may(t: &Fixture) {
    let limits = TenantSettings { max_queues: Some(2), max_types: Some(1), ..TenantSettings::default() };
    t.set_tenant("acme", limits).await;
    let operator = caller("ops", Role::Operator, "acme");
    let configure = async |who: &Caller, name: &str, max_depth: u64| {
        let settings = QueueSettings { max_depth: Some(max_depth), ..QueueSettings::default() };
        t.store.configure(who, Settings::Queue(queue(name), settings)).await.map(drop)
    };
    let pause = async |who: &Caller, what: PauseTarget| t.store.pause(who, what, Pause::default()).await;
    let refused = |error: ActionError, setting: &str| {
        let ActionError::Invalid(FieldError { problem: FieldProblem::LimitReached { name, .. }, .. }) = error
        else {
            panic!("{error}")
        };
        assert_eq!(name, setting);
    };
    configure(&operator, "a", 1).await.unwrap();
    // A queue that was paused once is remembered.
    let second = PauseTarget::Queue(queue("b"));
    assert!(pause(&operator, second.clone()).await.unwrap());
    t.store.resume(&operator, second.clone(), None).await.unwrap();
    refused(configure(&operator, "c", 1).await.unwrap_err(), "max_queues");
    refused(pause(&operator, PauseTarget::Queue(queue("c"))).await.unwrap_err(), "max_queues");
    // What is named already can be changed and paused again.
    configure(&operator, "a", 2).await.unwrap();
    configure(&operator, "b", 2).await.unwrap();
    assert!(pause(&operator, second).await.unwrap());
    assert!(pause(&operator, PauseTarget::Type(job_type("x"))).await.unwrap());
    refused(pause(&operator, PauseTarget::Type(job_type("y"))).await.unwrap_err(), "max_types");
    // Others, and admins, are not concerned.
    for who in [caller("ops", Role::Operator, "other"), t.me.clone()] {
        configure(&who, "c", 1).await.unwrap();
        configure(&who, "d", 1).await.unwrap();
        configure(&who, "e", 1).await.unwrap();
    }
}
