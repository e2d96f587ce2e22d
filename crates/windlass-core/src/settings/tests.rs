//! Merging and checking settings.

use std::time::Duration;

use serde::Deserialize;

use super::patch::{Field, QueuePatch, TimeoutsPatch};
use super::*;

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Wire {
    limit: Field<u64>,
}

#[test]
fn absent_keeps_null_clears_and_a_value_is_set() {
    let read = |text: &str| serde_json::from_str::<Wire>(text).unwrap().limit;
    assert_eq!(read("{}"), Field::Keep);
    assert_eq!(read(r#"{"limit":null}"#), Field::Clear);
    assert_eq!(read(r#"{"limit":7}"#), Field::Set(7));
    assert_eq!(Field::Set(7).map(|value| value + 1), Field::Set(8));
    assert_eq!(Field::<u8>::Clear.try_map(u8::try_from), Ok(Field::Clear));
}

#[test]
fn only_named_fields_change() {
    let lease = Some(Duration::from_secs(9));
    let timeouts = PartialTimeouts { lease, ..PartialTimeouts::default() };
    let before =
        QueueSettings { max_running: Some(3), max_depth: Some(4), timeouts, ..QueueSettings::default() };
    let execution = Field::Set(Duration::from_secs(1));
    let patch = QueuePatch {
        max_depth: Field::Clear,
        aging: Field::Set(Duration::from_secs(60)),
        timeouts: Field::Set(TimeoutsPatch { execution, ..TimeoutsPatch::default() }),
        ..QueuePatch::default()
    };
    let after = patch.applied_to(before.clone());
    assert_eq!((after.max_running, after.max_depth), (Some(3), None));
    assert_eq!((after.timeouts.lease, after.timeouts.execution), (lease, Some(Duration::from_secs(1))));
    assert_eq!(after.aging, Some(Duration::from_secs(60)));
    let cleared = QueuePatch { timeouts: Field::Clear, ..QueuePatch::default() }.applied_to(after);
    assert_eq!(cleared.timeouts, PartialTimeouts::default());
    assert_eq!(QueuePatch::from(before.clone()).applied_to(cleared), before, "a whole replaces a whole");
}

#[test]
fn a_refused_setting_names_its_field() {
    let field = |settings: QueueSettings| settings.check().expect_err("must be refused").field;
    let rate = |count, millis| Some(Rate::new(count, Duration::from_millis(millis)));
    let none = QueueSettings::default;
    assert_eq!(field(QueueSettings { rate: rate(0, 1_000), ..none() }), "rate.count");
    assert_eq!(field(QueueSettings { rate: rate(limits::RATE_COUNT_MAX + 1, 1), ..none() }), "rate.count");
    assert_eq!(field(QueueSettings { rate: rate(1, 0), ..none() }), "rate.per");
    assert_eq!(field(QueueSettings { rate_per_key: rate(1, 0), ..none() }), "rate_per_key.per");
    assert_eq!(field(QueueSettings { aging: Some(Duration::ZERO), ..none() }), "aging");
    QueueSettings { rate: rate(limits::RATE_COUNT_MAX, 1), ..none() }.check().unwrap();
    let tenant = |settings: TenantSettings| settings.check().expect_err("must be refused").field;
    let none = TenantSettings::default;
    assert_eq!(tenant(TenantSettings { weight: Some(0), ..none() }), "weight");
    assert_eq!(tenant(TenantSettings { weight: Some(limits::TENANT_WEIGHT_MAX + 1), ..none() }), "weight");
    assert_eq!(tenant(TenantSettings { budget_cents: Some(u64::MAX), ..none() }), "budget_cents");
}

#[test]
fn settings_written_before_a_field_existed_can_be_read() {
    let old = r#"{"max_running":2,"max_running_per_key":null,"max_depth":null,"audit":null,"retry":null,
        "timeouts":{"execution":null,"lease":null,"lifetime":null},"priority":null}"#;
    let read: QueueSettings = serde_json::from_str(old).unwrap();
    assert_eq!(read, QueueSettings { max_running: Some(2), ..QueueSettings::default() });
}
