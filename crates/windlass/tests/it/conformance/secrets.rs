//! Signing secrets: one per tenant, made once, replaced without a gap, and shown to few.

use std::time::Duration;

use windlass::error::ActError;
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;

use crate::fixture::{Fixture, on_every_engine, tenant};

on_every_engine!(
    a_secret_is_made_when_it_is_first_asked_for,
    a_replaced_secret_signs_for_another_day,
    only_operators_of_the_tenant_and_admins_see_its_secrets,
    no_secret_is_in_the_audit_trail,
);

/// M95
async fn a_secret_is_made_when_it_is_first_asked_for(t: &Fixture) {
    let first = t.store.signing_secrets(&t.me, &tenant("acme")).await.unwrap();
    assert_eq!(first.len(), 1);
    assert!(first[0].starts_with("whsec_") && first[0].len() == "whsec_".len() + 44, "{}", first[0].len());
    assert_eq!(t.store.signing_secrets(&t.me, &tenant("acme")).await.unwrap(), first);
    assert_ne!(t.store.signing_secrets(&t.me, &tenant("blue")).await.unwrap(), first);
    let config = t.store.config(&t.me).await.unwrap();
    assert!(!format!("{config:?}").contains(&first[0]), "it is not shown by accident");
}

/// M95
async fn a_replaced_secret_signs_for_another_day(t: &Fixture) {
    let acme = tenant("acme");
    let first = t.store.signing_secrets(&t.me, &acme).await.unwrap().remove(0);
    let both = t.store.rotate_signing_secret(&t.me, &acme).await.unwrap();
    assert_eq!((both.len(), &both[1]), (2, &first));
    assert_eq!(t.store.signing_secrets(&t.me, &acme).await.unwrap(), both);
    t.advance(Duration::from_secs(24 * 3600));
    assert_eq!(t.store.signing_secrets(&t.me, &acme).await.unwrap(), both[..1]);
    let fresh = t.store.rotate_signing_secret(&t.me, &tenant("blue")).await.unwrap();
    assert_eq!(fresh.len(), 1, "there was none before");
}

/// M90 M91
async fn only_operators_of_the_tenant_and_admins_see_its_secrets(t: &Fixture) {
    let acme = tenant("acme");
    let someone = |role, of: &str| Caller::new("someone", role, Some(tenant(of)));
    for role in [Role::Submitter, Role::Worker, Role::Viewer] {
        let refused = t.store.signing_secrets(&someone(role, "acme"), &acme).await;
        assert!(matches!(refused, Err(ActError::Denied(_))), "{role:?}");
        let refused = t.store.rotate_signing_secret(&someone(role, "acme"), &acme).await;
        assert!(matches!(refused, Err(ActError::Denied(_))), "{role:?}");
    }
    let stranger = t.store.signing_secrets(&someone(Role::Operator, "blue"), &acme).await;
    assert!(matches!(stranger, Err(ActError::Denied(_))));
    let operator = someone(Role::Operator, "acme");
    t.store.signing_secrets(&operator, &acme).await.unwrap();
    assert!(t.store.config(&operator).await.unwrap().secrets.is_empty(), "not beside other settings");
}

/// M92
async fn no_secret_is_in_the_audit_trail(t: &Fixture) {
    let first = t.store.signing_secrets(&t.me, &tenant("acme")).await.unwrap().remove(0);
    let second = t.store.rotate_signing_secret(&t.me, &tenant("acme")).await.unwrap().remove(0);
    let records = t.records(RecordQuery::default()).await;
    let events: Vec<&str> = records.iter().map(|record| record.event.as_str()).collect();
    assert_eq!(events, ["key.ops.secret_created", "key.ops.secret_rotated"]);
    let told = format!("{records:?}");
    assert!(!told.contains(&first) && !told.contains(&second));
}
