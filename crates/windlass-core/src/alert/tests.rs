//! Alerts fire once, repeat at their interval and resolve once, whatever the numbers do in between.

use std::time::Duration;

use proptest::prelude::*;

use super::message::{AlertMessage, span};
use super::*;
use crate::job::{AlertName, Tenant};

const MINUTE: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000).plus(Duration::from_secs(seconds))
}

fn dead(more_than: u64) -> AlertCondition {
    AlertCondition::DeadLetters { more_than, within: 10 * MINUTE }
}

fn rule(condition: AlertCondition) -> AlertRule {
    AlertRule::new(condition, "https://example.com/hook")
}

fn letters(dead_letters: u64) -> Measurement {
    Measurement { dead_letters, ..Measurement::default() }
}

/// Decides with a number of dead letters at a time, stores the state, and says which message is sent.
fn step(rule: &AlertRule, state: &mut AlertState, number: u64, seconds: u64) -> Option<AlertNotice> {
    let decision = decide(rule, state, &letters(number), at(seconds))?;
    assert_ne!(decision.state, *state, "nothing is written without a change");
    *state = decision.state;
    decision.notice
}

/// Model: alerts
#[test]
fn an_alert_fires_once_and_resolves_once() {
    let rule = rule(dead(2));
    let mut state = AlertState::new(at(0));
    assert_eq!(step(&rule, &mut state, 2, 10), None, "the threshold itself is allowed");
    assert_eq!(step(&rule, &mut state, 3, 20), Some(AlertNotice::Firing));
    assert_eq!((state.status, state.since), (AlertStatus::Firing, at(20)));
    assert_eq!(state.value, Some(AlertValue::Count(3)));
    assert_eq!(step(&rule, &mut state, 9, 30), None);
    // Around the threshold it keeps firing.
    assert_eq!(step(&rule, &mut state, 0, 40), None);
    assert_eq!(state.turning_since, Some(at(40)));
    assert_eq!(step(&rule, &mut state, 3, 50), None);
    assert_eq!(state.turning_since, None);
    assert_eq!(step(&rule, &mut state, 1, 60), None);
    assert_eq!(step(&rule, &mut state, 1, 359), None);
    assert_eq!(step(&rule, &mut state, 1, 360), Some(AlertNotice::Resolved));
    assert_eq!((state.status, state.since, state.turning_since), (AlertStatus::Ok, at(360), None));
    assert_eq!(step(&rule, &mut state, 0, 370), None);
}

/// Model: alerts
#[test]
fn a_condition_must_hold_for_a_while_if_the_rule_says_so() {
    let rule = AlertRule { pending_for: MINUTE, ..rule(dead(0)) };
    let mut state = AlertState::new(at(0));
    assert_eq!(step(&rule, &mut state, 1, 10), None);
    assert_eq!(step(&rule, &mut state, 0, 20), None, "it began again");
    assert_eq!(step(&rule, &mut state, 1, 30), None);
    assert_eq!(step(&rule, &mut state, 1, 89), None);
    assert_eq!(step(&rule, &mut state, 1, 90), Some(AlertNotice::Firing));
}

/// Model: alerts
#[test]
fn a_message_is_repeated_at_its_interval_while_the_condition_holds() {
    let rule = AlertRule { repeat_interval: Some(10 * MINUTE), ..rule(dead(0)) };
    let mut state = AlertState::new(at(0));
    assert_eq!(step(&rule, &mut state, 1, 0), Some(AlertNotice::Firing));
    assert_eq!(step(&rule, &mut state, 1, 599), None);
    assert_eq!(step(&rule, &mut state, 4, 600), Some(AlertNotice::Repeated));
    assert_eq!((state.since, state.value), (at(0), Some(AlertValue::Count(4))));
    assert_eq!(step(&rule, &mut state, 1, 1199), None);
    assert_eq!(step(&rule, &mut state, 0, 1200), None, "it does not hold");
    assert_eq!(step(&rule, &mut state, 1, 1210), Some(AlertNotice::Repeated));
}

#[test]
fn every_condition_reads_its_own_number() {
    let measured = Measurement {
        dead_letters: 3,
        attempts: 40,
        failures: 9,
        oldest_ready: 2 * MINUTE,
        missed_schedules: 1,
        clock_offset: Duration::from_secs(30),
    };
    let rate =
        |more_than, min_attempts| AlertCondition::FailureRate { more_than, within: MINUTE, min_attempts };
    let second = Duration::from_secs(1);
    for (condition, expected, is_met) in [
        (dead(2), AlertValue::Count(3), true),
        (dead(3), AlertValue::Count(3), false),
        (
            AlertCondition::OldestReady { longer_than: (2 * MINUTE).saturating_sub(second) },
            AlertValue::Time(2 * MINUTE),
            true,
        ),
        (AlertCondition::OldestReady { longer_than: 2 * MINUTE }, AlertValue::Time(2 * MINUTE), false),
        (rate(22, 40), AlertValue::PerMille(225), true),
        (rate(23, 40), AlertValue::PerMille(225), false),
        (rate(22, 41), AlertValue::PerMille(225), false),
        (AlertCondition::ScheduleMissed { within: MINUTE }, AlertValue::Count(1), true),
        (AlertCondition::ClockOffset { longer_than: 29 * second }, AlertValue::Time(30 * second), true),
        (AlertCondition::ClockOffset { longer_than: 30 * second }, AlertValue::Time(30 * second), false),
    ] {
        assert_eq!(condition.read(&measured), (expected, is_met), "{condition}");
    }
    assert_eq!(rate(0, 0).read(&Measurement::default()), (AlertValue::PerMille(0), false), "no attempts");
}

#[test]
fn a_rule_outside_its_limits_is_refused_by_field() {
    let targets = TargetPolicy::default();
    assert_eq!(rule(dead(0)).check(&targets), Ok(()));
    let clock = AlertCondition::ClockOffset { longer_than: MINUTE };
    let rate = |more_than| AlertCondition::FailureRate { more_than, within: MINUTE, min_attempts: 1 };
    let hours = AlertCondition::DeadLetters { more_than: 0, within: 2 * limits::ALERT_WITHIN_MAX };
    let queue = Some(QueueName::default());
    for (refused, field) in [
        (AlertRule { queue, ..rule(clock) }, "queue"),
        (rule(hours), "within"),
        (rule(AlertCondition::ScheduleMissed { within: Duration::ZERO }), "within"),
        (rule(AlertCondition::OldestReady { longer_than: Duration::ZERO }), "longer_than"),
        (rule(rate(100)), "more_than"),
        (AlertRule { url: "https://10.0.0.1/".into(), ..rule(dead(0)) }, "url"),
        (AlertRule { url: "http://example.com/".into(), ..rule(dead(0)) }, "url"),
        (AlertRule { pending_for: 2 * limits::ALERT_PENDING_MAX, ..rule(dead(0)) }, "pending_for"),
        (AlertRule { keep_firing_for: 2 * limits::ALERT_PENDING_MAX, ..rule(dead(0)) }, "keep_firing_for"),
        (AlertRule { repeat_interval: Some(MINUTE), ..rule(dead(0)) }, "repeat_interval"),
    ] {
        assert_eq!(refused.check(&targets).map_err(|invalid| invalid.field), Err(field.into()));
    }
}

fn message(notice: AlertNotice) -> AlertMessage {
    AlertMessage {
        alert: AlertName::new("mail-dead").unwrap(),
        tenant: Some(Tenant::new("acme").unwrap()),
        notice,
        at: at(3900),
        status: AlertStatus::Firing,
        since: at(0),
        value: Some(AlertValue::Count(12)),
        condition: dead(10),
        queue: Some(QueueName::new("mail").unwrap()),
        job_type: None,
    }
}

#[test]
fn messages_say_what_happened() {
    let scope = "in queue mail of tenant acme";
    for (notice, text) in [
        (
            AlertNotice::Firing,
            format!(
                "Alert mail-dead is firing: 12 dead letters within 10m {scope} (limit: more than 10 dead letters within 10m)"
            ),
        ),
        (
            AlertNotice::Repeated,
            format!(
                "Alert mail-dead has been firing for 1h 5m: 12 dead letters within 10m {scope} (limit: more than 10 dead letters within 10m)"
            ),
        ),
        (AlertNotice::Resolved, format!("Alert mail-dead is resolved: 12 dead letters within 10m {scope}")),
        (
            AlertNotice::Test,
            format!(
                "This is a test of alert mail-dead, which fires on more than 10 dead letters within 10m {scope}"
            ),
        ),
    ] {
        let message = message(notice);
        assert_eq!(message.text(), text);
        let webhook = message.webhook();
        assert_eq!((&webhook["type"], &webhook["data"]["text"]), (&message.event().into(), &text.into()));
    }
    let slack = message(AlertNotice::Resolved).slack();
    assert_eq!(slack.as_object().map(serde_json::Map::len), Some(1));
    assert!(slack["text"].as_str().unwrap().starts_with(":large_green_circle: Alert mail-dead"));
}

#[test]
fn a_delivery_contains_no_url() {
    let rule = AlertRule { url: "https://hooks.example.com/services/SECRET".into(), ..rule(dead(0)) };
    let job = message(AlertNotice::Firing).delivery(&rule);
    assert!(!format!("{job:?}").contains("SECRET"));
    assert_eq!(job.concurrency_key.as_deref(), Some("hooks.example.com"));
    assert_eq!(rule.receiver(), "https://hooks.example.com");
    assert_eq!(
        serde_json::from_slice::<AlertMessage>(&job.payload.bytes).unwrap(),
        message(AlertNotice::Firing)
    );
}

#[test]
fn times_have_two_units() {
    for (millis, text) in [
        (0, "0s"),
        (20, "20ms"),
        (61_000, "1m 1s"),
        (3_600_000, "1h"),
        (3_605_000, "1h"),
        (90_061_000, "1d 1h"),
    ] {
        assert_eq!(span(Duration::from_millis(millis)), text);
    }
}

proptest! {
    /// Model: alerts. Messages alternate between firing and resolved; repetitions come only while it fires.
    #[test]
    fn firing_and_resolved_alternate(
        numbers in prop::collection::vec((0_u64..4, 1_u64..400), 0..200),
        pending in 0_u64..120,
        keep in 0_u64..600,
        repeat in prop::option::of(300_u64..900),
    ) {
        let rule = AlertRule {
            pending_for: Duration::from_secs(pending),
            keep_firing_for: Duration::from_secs(keep),
            repeat_interval: repeat.map(Duration::from_secs),
            ..rule(dead(1))
        };
        let (mut state, mut now, mut is_firing) = (AlertState::new(at(0)), 0, false);
        let mut last: Option<u64> = None;
        for (number, later) in numbers {
            now += later;
            match step(&rule, &mut state, number, now) {
                None => {}
                Some(AlertNotice::Firing) => {
                    prop_assert!(!is_firing && number > 1);
                    (is_firing, last) = (true, Some(now));
                }
                Some(AlertNotice::Resolved) => {
                    prop_assert!(is_firing && number <= 1);
                    is_firing = false;
                }
                Some(AlertNotice::Repeated) => {
                    prop_assert!(is_firing && number > 1);
                    prop_assert!(now - last.expect("it has fired") >= repeat.expect("it repeats"));
                    last = Some(now);
                }
                Some(AlertNotice::Test) => prop_assert!(false, "there are no test messages"),
            }
            prop_assert_eq!(state.status == AlertStatus::Firing, is_firing);
        }
    }
}
