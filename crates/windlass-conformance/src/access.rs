//! API keys: shown once, kept as a hash, revoked at once, and never more than their role and tenant.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::callback;
use windlass::error::{ActionError, WorkError};
use windlass::job::{JobType, QueueName};
use windlass::key::{KeyId, KeySecret};
use windlass::limits;
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::{NewKey, NewWorker, SubmitOptions};

use crate::fixture::{Fixture, caller, just_before, new_job, secs, tenant};

tests!(
    access, access:
    a_key_authenticates_as_its_role_and_tenant,
    an_admins_key_is_for_all_tenants,
    only_admins_handle_keys,
    a_wrong_secret_opens_nothing,
    a_revoked_key_is_rejected_at_once,
    the_last_key_of_an_admin_stays,
    the_systems_own_queues_are_reserved,
    an_expired_key_is_rejected_and_keys_stay_required,
    the_first_key_counts_at_once,
    the_secret_is_kept_nowhere,
    keys_are_listed_and_audited,
    the_last_use_is_written_once_a_minute,
    a_key_does_not_own_what_another_of_its_name_submitted,
    a_key_needs_a_name_and_a_time_to_live,
);

/// Creates an API key; its id and its secret.
pub async fn made(t: &Fixture, new: NewKey) -> (KeyId, String) {
    let created = t.store.create_key(&t.me, new).await.expect("an admin makes keys");
    (created.key.id, created.secret.reveal().to_owned())
}

async fn enter(t: &Fixture, secret: &str) -> Option<Caller> {
    t.store.authenticate(secret).await.unwrap()
}

/// Model: tenant-isolation, roles
async fn a_key_authenticates_as_its_role_and_tenant(t: &Fixture) {
    for role in [Role::Operator, Role::Submitter, Role::Worker, Role::Viewer] {
        let new = NewKey { tenant: Some(tenant("acme")), ..NewKey::new("billing", role) };
        let (id, secret) = made(t, new).await;
        let expected = Caller { key: Some(id), ..caller("billing", role, "acme") };
        assert_eq!(enter(t, &secret).await, Some(expected));
    }
    let (id, secret) = made(t, NewKey::new("web", Role::Submitter)).await;
    let expected = Caller { key: Some(id), ..caller("web", Role::Submitter, "default") };
    assert_eq!(enter(t, &secret).await, Some(expected));
}

/// Model: roles
async fn an_admins_key_is_for_all_tenants(t: &Fixture) {
    let created = t.store.create_key(&t.me, NewKey::new("root", Role::Admin)).await.unwrap();
    assert_eq!(created.key.tenant, None);
    let root = enter(t, created.secret.reveal()).await.expect("the key is good");
    assert_eq!((root.role, root.tenant), (Role::Admin, None));
}

/// Model: roles
async fn only_admins_handle_keys(t: &Fixture) {
    let (id, _) = made(t, NewKey::new("web", Role::Submitter)).await;
    for role in [Role::Operator, Role::Submitter, Role::Worker, Role::Viewer] {
        let who = caller("mallory", role, "default");
        let denied = |error: ActionError| assert!(matches!(error, ActionError::Forbidden(_)), "{error}");
        denied(t.store.create_key(&who, NewKey::new("own", Role::Admin)).await.unwrap_err());
        denied(t.store.revoke_key(&who, id.clone()).await.unwrap_err());
        denied(t.store.keys(&who).await.unwrap_err());
    }
    assert_eq!(t.store.keys(&t.me).await.unwrap().len(), 1);
}

/// Model: tenant-isolation
async fn a_wrong_secret_opens_nothing(t: &Fixture) {
    let (_, secret) = made(t, NewKey::new("web", Role::Submitter)).await;
    // The right id with other random bits, and a checksum that fits.
    let id = u64::from_str_radix(&secret[3..19], 16).unwrap();
    let forged = KeySecret::new(id, [1, 2]);
    for text in [forged.reveal(), &secret[1..], &secret[..secret.len() - 1], "", "wl_", "Bearer"] {
        assert_eq!(enter(t, text).await, None, "{text}");
    }
}

/// Model: tenant-isolation
async fn a_revoked_key_is_rejected_at_once(t: &Fixture) {
    let (id, secret) = made(t, NewKey::new("web", Role::Submitter)).await;
    assert!(enter(t, &secret).await.is_some());
    t.store.revoke_key(&t.me, id.clone()).await.unwrap();
    assert_eq!(enter(t, &secret).await, None);
    let again = t.store.revoke_key(&t.me, id.clone()).await.unwrap_err();
    assert_eq!(again, ActionError::NoSuchKey(id));
}

/// Model: tenant-isolation
async fn an_expired_key_is_rejected_and_keys_stay_required(t: &Fixture) {
    let new = NewKey { expires: Some(secs(60)), ..NewKey::new("web", Role::Submitter) };
    let (_, secret) = made(t, new).await;
    t.advance(just_before(secs(60)));
    assert!(enter(t, &secret).await.is_some());
    t.advance(Duration::from_millis(1));
    assert_eq!(enter(t, &secret).await, None);
    assert!(t.store.has_keys().await.unwrap(), "keys stay required when all have expired");
}

/// Model: tenant-isolation
async fn the_first_key_counts_at_once(t: &Fixture) {
    assert!(!t.store.has_keys().await.unwrap());
    let (id, _) = made(t, NewKey::new("web", Role::Submitter)).await;
    assert!(t.store.has_keys().await.unwrap());
    t.store.revoke_key(&t.me, id).await.unwrap();
    assert!(t.store.has_keys().await.unwrap(), "revoking the last key lets no caller in");
}

/// Model: roles. A key that can make keys is always left, and an admin's key belongs to no tenant.
async fn the_last_key_of_an_admin_stays(t: &Fixture) {
    let (first, _) = made(t, NewKey::new("root", Role::Admin)).await;
    let (operator, _) = made(t, NewKey::new("ops", Role::Operator)).await;
    let refused = t.store.revoke_key(&t.me, first.clone()).await.unwrap_err();
    assert_eq!(refused, ActionError::LastAdminKey(first.clone()));
    // One that has expired cannot stand in for it.
    let brief = NewKey { expires: Some(secs(1)), ..NewKey::new("brief", Role::Admin) };
    let (brief, _) = made(t, brief).await;
    t.advance(secs(2));
    assert_eq!(
        t.store.revoke_key(&t.me, first.clone()).await.unwrap_err(),
        ActionError::LastAdminKey(first.clone())
    );
    t.store.revoke_key(&t.me, brief).await.unwrap();
    let (second, _) = made(t, NewKey::new("root", Role::Admin)).await;
    t.store.revoke_key(&t.me, first).await.unwrap();
    t.store.revoke_key(&t.me, operator).await.unwrap();
    assert_eq!(
        t.store.revoke_key(&t.me, second.clone()).await.unwrap_err(),
        ActionError::LastAdminKey(second)
    );
    let within = NewKey { tenant: Some(tenant("acme")), ..NewKey::new("root", Role::Admin) };
    let refused = t.store.create_key(&t.me, within).await.unwrap_err();
    assert!(matches!(&refused, ActionError::Invalid(invalid) if invalid.field == "tenant"), "{refused}");
}

/// Model: callbacks. The system's own jobs are not a worker's to take.
async fn the_systems_own_queues_are_reserved(t: &Fixture) {
    let acme = Some(tenant("acme"));
    let whos = [Role::Worker, Role::Operator].map(|role| Caller::new("w", role, acme.clone()));
    for who in whos {
        for (queues, types) in
            [(vec![callback::QUEUE], vec![]), (vec![], vec![callback::TYPE]), (vec!["windlass.x"], vec![])]
        {
            let new = NewWorker {
                queues: queues.iter().map(|name| QueueName::new(name).unwrap()).collect(),
                types: types.iter().map(|name| JobType::new(name).unwrap()).collect(),
                ..NewWorker::default()
            };
            let refused = t.store.register(&who, new).await.unwrap_err();
            let field = if queues.is_empty() { "types" } else { "queues" };
            assert!(matches!(&refused, WorkError::Invalid(invalid) if invalid.field == field), "{refused}");
        }
        t.store.register(&who, NewWorker::default()).await.unwrap();
    }
}

/// Model: tenant-isolation
async fn the_secret_is_kept_nowhere(t: &Fixture) {
    let (_, secret) = made(t, NewKey::new("web", Role::Submitter)).await;
    let random = &secret[20..52];
    let config = format!("{:?}", t.store.config(&Caller::local()).await.unwrap());
    let records = format!("{:?}", t.records(RecordQuery::default()).await);
    assert!(!config.contains(random) && !records.contains(random));
    if let Some(path) = t.address.strip_prefix("sqlite:") {
        for suffix in ["", "-wal"] {
            let bytes = std::fs::read(format!("{path}{suffix}")).unwrap();
            assert!(!bytes.windows(random.len()).any(|window| window == random.as_bytes()), "{suffix}");
        }
    }
}

/// Model: audit-trail
async fn keys_are_listed_and_audited(t: &Fixture) {
    let (first, _) = made(t, NewKey::new("web", Role::Submitter)).await;
    t.advance(secs(1));
    let new =
        NewKey { tenant: Some(tenant("acme")), expires: Some(secs(5)), ..NewKey::new("ops", Role::Operator) };
    let (second, _) = made(t, new).await;
    let listed = t.store.keys(&t.me).await.unwrap();
    let ids: Vec<&KeyId> = listed.iter().map(|key| &key.id).collect();
    assert_eq!(ids, [&first, &second]);
    assert_eq!((listed[1].created_at, listed[1].expires_at), (t.now(), Some(t.now().plus(secs(5)))));
    assert_eq!((listed[1].created_by.as_str(), listed[1].last_used_at), ("local", None));
    t.store.revoke_key(&t.me, second.clone()).await.unwrap();
    let records = t.records(RecordQuery { tenant: Some(tenant("acme")), ..RecordQuery::default() }).await;
    let events: Vec<AuditEvent> = records.iter().map(|record| record.event).collect();
    assert_eq!(events, [AuditEvent::KeyCreated, AuditEvent::KeyRevoked]);
    assert!(
        records.iter().all(|record| record.context.contains(second.as_str()) && record.actor_id == "local")
    );
}

/// The use of a key is worth a write a minute, not one per request.
async fn the_last_use_is_written_once_a_minute(t: &Fixture) {
    let (_, secret) = made(t, NewKey::new("web", Role::Submitter)).await;
    let used = async || t.store.keys(&t.me).await.unwrap()[0].last_used_at;
    let first = t.now();
    for _ in 0..3 {
        enter(t, &secret).await.expect("the key is good");
        t.advance(secs(10));
    }
    // Whatever is written after it was written before.
    t.tick().await;
    assert_eq!(used().await, Some(first));
    t.advance(limits::KEY_USE_WRITTEN_EVERY.saturating_sub(secs(30)));
    enter(t, &secret).await.expect("the key is good");
    t.tick().await;
    assert_eq!(used().await, Some(first.plus(limits::KEY_USE_WRITTEN_EVERY)));
}

/// Model: roles. A key is replaced by another of the same name, which owns what the first submitted.
async fn a_key_does_not_own_what_another_of_its_name_submitted(t: &Fixture) {
    let (old, secret) = made(t, NewKey::new("web", Role::Submitter)).await;
    let before = enter(t, &secret).await.expect("the key is good");
    let receipts =
        t.store.submit(&before, vec![new_job("email.send")], SubmitOptions::default()).await.unwrap();
    let (_, secret) = made(t, NewKey::new("web", Role::Submitter)).await;
    t.store.revoke_key(&t.me, old).await.unwrap();
    let after = enter(t, &secret).await.expect("the key is good");
    let cancel = windlass::store::ActionRequest::Cancel { reason: None };
    let refused = t.store.act(&after, receipts[0].job.id, cancel.clone()).await.unwrap_err();
    assert!(matches!(refused, ActionError::Forbidden(_)), "{refused}");
    assert!(t.store.act(&before, receipts[0].job.id, cancel).await.unwrap().is_changed);
}

/// Values that are not allowed make no key.
async fn a_key_needs_a_name_and_a_time_to_live(t: &Fixture) {
    let long = "n".repeat(limits::NAME_CHARS_MAX + 1);
    for name in ["", "  ", "a\nb", long.as_str()] {
        let error = t.store.create_key(&t.me, NewKey::new(name, Role::Viewer)).await.unwrap_err();
        assert!(matches!(&error, ActionError::Invalid(invalid) if invalid.field == "name"), "{error}");
    }
    for expires in [Duration::ZERO, limits::DURATION_MAX + secs(1)] {
        let new = NewKey { expires: Some(expires), ..NewKey::new("web", Role::Viewer) };
        let error = t.store.create_key(&t.me, new).await.unwrap_err();
        assert!(matches!(&error, ActionError::Invalid(invalid) if invalid.field == "expires"), "{error}");
    }
    assert!(t.store.keys(&t.me).await.unwrap().is_empty());
}
