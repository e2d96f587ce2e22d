//! Settings: merged field by field, checked as a whole, and shown to whom they concern.

use std::time::Duration;

use windlass::error::ActionError;
use windlass::job::{JobState, NewJob};
use windlass::settings::patch::{Field, QueuePatch, SettingsPatch, TenantPatch, TypePatch};
use windlass::settings::{FairBy, Push, QueueSettings, Rate, TenantSettings, TypeSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::{Pause, PauseTarget, Settings, SettingsReport};

use crate::fixture::{Fixture, job_type, new_job, queue, tenant};

tests!(
    settings, settings:
    settings_are_merged_field_by_field,
    a_refused_setting_names_its_field_and_changes_nothing,
    the_answer_says_whether_anything_changed,
    a_caller_sees_its_own_settings_and_those_of_all,
    a_queue_shows_depth_age_rates_pause_and_settings,
    every_queue_that_anybody_named_is_listed,
    a_push_target_is_checked_when_it_is_set,
    everybodys_push_target_counts_before_a_tenants_own,
);

fn mail(patch: QueuePatch) -> SettingsPatch {
    SettingsPatch::Queue(queue("mail"), patch)
}

async fn settings_are_merged_field_by_field(t: &Fixture) {
    let rate = Rate::new(5, Duration::from_secs(1));
    let first = QueuePatch { max_running: Field::Set(3), rate: Field::Set(rate), ..QueuePatch::default() };
    t.store.configure(&t.me, mail(first)).await.unwrap();
    let fair_by = Field::Set(FairBy::Tenant);
    let second = QueuePatch { rate: Field::Clear, fair_by, ..QueuePatch::default() };
    let answer = t.store.configure(&t.me, mail(second)).await.unwrap();
    let after =
        QueueSettings { max_running: Some(3), fair_by: Some(FairBy::Tenant), ..QueueSettings::default() };
    assert_eq!(
        answer,
        SettingsReport { settings: Settings::Queue(queue("mail"), after.clone()), is_changed: true }
    );
    let of_type = TypePatch { rate: Field::Set(rate), ..TypePatch::default() };
    t.store.configure(&t.me, SettingsPatch::Type(job_type("send"), of_type)).await.unwrap();
    let of_tenant = TenantPatch { weight: Field::Set(3), ..TenantPatch::default() };
    t.store.configure(&t.me, SettingsPatch::Tenant(tenant("acme"), of_tenant)).await.unwrap();
    let of_tenant = TenantPatch { budget_cents: Field::Set(900), ..TenantPatch::default() };
    t.store.configure(&t.me, SettingsPatch::Tenant(tenant("acme"), of_tenant)).await.unwrap();
    let config = t.store.config(&t.me).await.unwrap();
    assert_eq!(config.queues[&(queue("mail"), None)], after);
    assert_eq!(config.types[&job_type("send")], TypeSettings { rate: Some(rate), ..TypeSettings::default() });
    let acme = TenantSettings { weight: Some(3), budget_cents: Some(900), ..TenantSettings::default() };
    assert_eq!(config.tenants[&tenant("acme")], acme);
}

async fn a_refused_setting_names_its_field_and_changes_nothing(t: &Fixture) {
    t.set_queue("mail", QueueSettings { max_running: Some(3), ..QueueSettings::default() }).await;
    let (before, config) = (t.everything().await, t.store.config(&t.me).await.unwrap());
    let rate = Field::Set(Rate::new(0, Duration::from_secs(1)));
    let patch = QueuePatch { rate, max_running: Field::Set(9), ..QueuePatch::default() };
    let refused = t.store.configure(&t.me, mail(patch)).await;
    let Err(ActionError::Invalid(invalid)) = refused else { panic!("{refused:?}") };
    assert_eq!(invalid.field, "rate.count");
    let patch = TenantPatch { weight: Field::Set(0), ..TenantPatch::default() };
    let refused = t.store.configure(&t.me, SettingsPatch::Tenant(tenant("acme"), patch)).await;
    let Err(ActionError::Invalid(invalid)) = refused else { panic!("{refused:?}") };
    assert_eq!(invalid.field, "weight");
    assert_eq!(t.everything().await, before);
    assert_eq!(t.store.config(&t.me).await.unwrap(), config);
}

async fn the_answer_says_whether_anything_changed(t: &Fixture) {
    let patch = QueuePatch { max_depth: Field::Set(7), ..QueuePatch::default() };
    assert!(t.store.configure(&t.me, mail(patch.clone())).await.unwrap().is_changed);
    let records = t.everything().await.records.len();
    assert!(!t.store.configure(&t.me, mail(patch)).await.unwrap().is_changed);
    assert!(!t.store.configure(&t.me, mail(QueuePatch::default())).await.unwrap().is_changed);
    assert_eq!(t.everything().await.records.len(), records, "what changes nothing is not recorded");
}

/// Model: tenant-isolation
async fn a_caller_sees_its_own_settings_and_those_of_all(t: &Fixture) {
    let caller = |name: &str| Caller::new(name, Role::Operator, Some(tenant(name)));
    let (acme, blue) = (caller("acme"), caller("blue"));
    let deep = |depth| QueuePatch { max_depth: Field::Set(depth), ..QueuePatch::default() };
    t.store.configure(&t.me, mail(deep(100))).await.unwrap();
    t.store.configure(&acme, mail(deep(10))).await.unwrap();
    t.set_tenant("blue", TenantSettings { max_running: Some(1), ..TenantSettings::default() }).await;
    t.store.pause(&blue, PauseTarget::Queue(queue("mail")), Pause::default()).await.unwrap();
    let (seen, theirs) = (t.store.config(&acme).await.unwrap(), t.store.config(&blue).await.unwrap());
    assert_eq!((seen.queues.len(), seen.tenants.len(), seen.pauses.len()), (2, 0, 0));
    assert_eq!((theirs.queues.len(), theirs.tenants.len(), theirs.pauses.len()), (1, 1, 1));
    let depth_of = async |who: &Caller| t.store.queue(who, queue("mail")).await.unwrap().settings.max_depth;
    assert_eq!(depth_of(&acme).await, Some(10));
    assert_eq!(depth_of(&blue).await, Some(100));
}

async fn a_queue_shows_depth_age_rates_pause_and_settings(t: &Fixture) {
    let to_mail = || NewJob { queue: queue("mail"), ..new_job("send") };
    t.submit_all(vec![to_mail(); 3]).await;
    t.submit(NewJob { tenant: Some(tenant("acme")), ..to_mail() }).await;
    let since = t.now();
    t.advance(Duration::from_secs(5));
    t.submit(to_mail()).await;
    let look = t.store.queue(&t.me, queue("mail")).await.unwrap();
    assert_eq!((look.depth[&JobState::Scheduled], look.depth[&JobState::Running]), (5, 0));
    assert_eq!((look.oldest, look.paused.is_none()), (Some(since), true));
    assert_eq!(look.minutes.values().map(|minute| minute.submitted).sum::<u64>(), 5);
    let why = Pause { reason: Some("lunch".into()), ..Pause::default() };
    t.store.pause(&t.me, PauseTarget::Queue(queue("mail")), why).await.unwrap();
    let acme = Caller::new("acme", Role::Viewer, Some(tenant("acme")));
    let look = t.store.queue(&acme, queue("mail")).await.unwrap();
    assert_eq!(look.depth[&JobState::Scheduled], 1);
    assert_eq!(
        look.paused.expect("the pause for all tenants counts for it too").reason.as_deref(),
        Some("lunch")
    );
}

async fn every_queue_that_anybody_named_is_listed(t: &Fixture) {
    t.submit(new_job("send")).await;
    t.set_queue("mail", QueueSettings { max_depth: Some(3), ..QueueSettings::default() }).await;
    t.store.pause(&t.me, PauseTarget::Queue(queue("slow")), Pause::default()).await.unwrap();
    let looks = t.store.queues(&t.me).await.unwrap();
    let names: Vec<&str> = looks.iter().map(|look| look.name.as_str()).collect();
    assert_eq!(names, ["default", "mail", "slow"]);
    for look in &looks {
        assert_eq!(*look, t.store.queue(&t.me, look.name.clone()).await.unwrap());
    }
}

fn push_to(push: Push) -> QueuePatch {
    QueuePatch { push: Field::Set(push), ..QueuePatch::default() }
}

async fn a_push_target_is_checked_when_it_is_set(t: &Fixture) {
    let good = Push::to("https://example.com/work");
    let bad = [
        ("push.url", Push::to("http://example.com/work")),
        ("push.url", Push::to("https://example.com:25/")),
        ("push.url", Push::to("https://169.254.169.254/")),
        ("push.url", Push::to("example.com")),
        ("push.concurrency", Push { concurrency: 0, ..good.clone() }),
        ("push.concurrency", Push { concurrency: 1_001, ..good.clone() }),
        ("push.timeout", Push { timeout: Some(Duration::ZERO), ..good.clone() }),
    ];
    for (field, push) in bad {
        let refused = t.store.configure(&t.me, mail(push_to(push))).await;
        let Err(ActionError::Invalid(invalid)) = refused else { panic!("{refused:?}") };
        assert_eq!(invalid.field, field);
    }
    t.store.configure(&t.me, mail(push_to(good.clone()))).await.unwrap();
    let targets = t.store.push_targets().await.unwrap();
    assert_eq!(targets.into_iter().collect::<Vec<_>>(), [((queue("mail"), None), good)]);
    let cleared = QueuePatch { push: Field::Clear, ..QueuePatch::default() };
    t.store.configure(&t.me, mail(cleared)).await.unwrap();
    assert!(t.store.push_targets().await.unwrap().is_empty());
}

/// Model: tenant-isolation
async fn everybodys_push_target_counts_before_a_tenants_own(t: &Fixture) {
    let (own, everybodys) = (Push::to("https://acme.example/"), Push::to("https://example.com/"));
    let acme = Caller::new("acme", Role::Operator, Some(tenant("acme")));
    let viewer = Caller::new("eve", Role::Viewer, Some(tenant("acme")));
    t.store.configure(&viewer, mail(push_to(own.clone()))).await.unwrap_err();
    t.store.configure(&acme, mail(push_to(own.clone()))).await.unwrap();
    let in_force = async || t.store.push_targets().await.unwrap().into_iter().collect::<Vec<_>>();
    assert_eq!(in_force().await, [((queue("mail"), Some(tenant("acme"))), own.clone())]);
    t.store.configure(&t.me, mail(push_to(everybodys.clone()))).await.unwrap();
    assert_eq!(in_force().await, [((queue("mail"), None), everybodys.clone())]);
    assert_eq!(t.store.queue(&acme, queue("mail")).await.unwrap().settings.push, Some(everybodys));
}
