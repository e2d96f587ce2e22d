//! The screen with key presses and updates, without a terminal or a server.

mod lists;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use windlass::clock::Timestamp;

use windlass::job::JobAction;
use windlass_api::job::Job;
use windlass_api::job_details::{Attempts, Logs, Reasons};
use windlass_api::queue::Queue;

use super::app::{Connection, Mode, Pane, Screen, Snapshot};
use super::command::Verb;
use super::details::JobDetails;
use super::key_bindings::Effect;

/// The moment at which all of these tests happen.
pub(super) fn now() -> Timestamp {
    "2030-01-31T12:00:30Z".parse().unwrap()
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    super::model::read(&value.to_string()).unwrap()
}

fn flow(submitted: u64, completed: u64, retried: u64) -> Value {
    let none = json!({"p50": null, "p95": null, "p99": null});
    json!({"submitted": submitted, "claimed": 0, "completed": completed, "failed": 0, "retried": retried,
        "dead_letter": 0, "cancelled": 0, "reaped": 0, "waited": none, "ran": {"p50": "1s", "p95": "4s96ms", "p99": "5s"}})
}

fn queue(name: &str, scheduled: u64, running: u64, failed: u64, paused: &Value) -> Value {
    json!({"name": name, "depth": {"scheduled": scheduled, "running": running, "failed": failed},
        "oldest_age": if scheduled > 0 { json!("2m3s") } else { Value::Null },
        "rates": {"last_minute": flow(60, 58, 1), "last_hour": flow(3600, 3500, 60)},
        "paused": paused, "known": true, "timeouts": {}, "retention": {}, "max_running": 5, "rate": null})
}

/// An id that ends with these digits.
fn id(end: &str) -> String {
    format!("01990000-0000-4000-8000-0000{end}")
}

/// A job as the server shows it; its id ends with `end`.
pub(super) fn job(end: &str, kind: &str, state: &str, more: &Value) -> Job {
    let at = "2030-01-31T12:00:00Z";
    let retry = json!({"strategy": "constant", "initial_delay": "1s", "max_delay": "1s", "multiplier": 1.0, "jitter": 0.0,
        "jitter_mode": "random", "max_attempts": 3, "max_retries": 2, "retry_on": []});
    let mut job = json!({"id": id(end), "version": "000000000000000000000000", "effective_priority": 50, "failures": 0, "crashes": 0,
        "retry_count": 0, "max_retries": 2, "expires_at": at, "retry": retry, "after": [], "after_any": [], "owner": "me",
        "timeouts": {"execution": "1m", "lease": "1m", "lifetime": "1d"}, "tags": {}, "cost_cents": 0, "redacted": false,
        "tenant": "default", "type": kind, "queue": "mail", "state": state, "why": null,
        "priority": 50, "attempt": 1, "max_attempts": 3, "created_at": "2030-01-31T11:59:00Z",
        "updated_at": "2030-01-31T12:00:00Z", "run_at": "2030-01-31T11:59:00Z", "started_at": "2030-01-31T12:00:00Z",
        "completed_at": null, "suspended_at": null, "suspended_by": null, "lease": null, "error": null, "progress": null});
    for (name, value) in more.as_object().unwrap() {
        job[name] = value.clone();
    }
    read(&job)
}

fn error(message: &str, at: &str) -> Value {
    let error = json!({"category": "temporary", "code": "bad_gateway", "message": message, "at": at, "attempt": 1,
        "error_type": "RETRYABLE", "cause": []});
    json!({"error": error})
}

/// A server with three queues, one of them paused, and jobs in every list.
pub(super) fn snapshot() -> Snapshot {
    let paused = json!({"by": "ann", "at": "2030-01-31T11:00:00Z", "reason": "tax season", "mode": "graceful", "expires_at": null});
    let minute = |at: &str, submitted| {
        let mut minute = flow(submitted, submitted, 0);
        minute["at"] = json!(at);
        minute
    };
    let stats = read(
        &json!({"queues": {}, "types": {}, "tenants": {}, "costs": [], "cascades": 0, "states": {"scheduled": 120, "running": 2, "failed": 1, "dead_letter": 1, "suspended": 1},
        "minutes": [minute("2030-01-31T11:59:00Z", 600), minute("2030-01-31T12:00:00Z", 100)]}),
    );
    let queues: Vec<Queue> = read(&json!([
        queue("billing", 0, 0, 0, &paused),
        queue("mail", 120, 2, 2, &Value::Null),
        queue("reports", 0, 0, 0, &Value::Null)
    ]));
    let gate = read(&json!({"online": true, "reason": null, "by": null, "since": null, "scopes": []}));
    let worker = json!({"id": id("00000001"), "name": "mail-1", "queues": [], "types": [], "concurrency": 1,
        "heartbeats": true, "registered_at": "2030-01-31T11:00:00Z", "seen_at": "2030-01-31T12:00:00Z", "alive": true});
    let lease = json!({"lease": {"worker": id("00000001"), "expires_at": "2030-01-31T12:05:00Z", "deadline": "2030-01-31T12:05:00Z"}, "progress": {"percent": 50.0, "message": "half way"}});
    Snapshot {
        stats,
        queues,
        gate: Some(gate),
        workers: Some(read(&json!([worker]))),
        running: vec![
            job("a0000001", "email.send", "running", &lease),
            job("a0000002", "report.build", "running", &json!({})),
        ],
        failures: vec![
            job("fa000001", "email.send", "failed", &error("older", "2030-01-31T11:58:00Z")),
            job(
                "fa000002",
                "webhook.deliver",
                "dead_letter",
                &error("\u{1b}[31m502 Bad Gateway", "2030-01-31T12:00:20Z"),
            ),
        ],
        suspended: vec![job(
            "5e000001",
            "order.approve",
            "suspended",
            &json!({"suspended_at": "2030-01-31T11:59:30Z", "suspended_by": "ann"}),
        )],
        types: None,
        schedules: None,
        history: None,
    }
}

/// A screen that has seen [`snapshot`].
pub(super) fn screen() -> Screen {
    let mut screen = Screen::new("127.0.0.1:7788".to_owned(), now());
    screen.take(snapshot());
    screen
}

pub(super) fn press(screen: &mut Screen, code: KeyCode) -> Option<Effect> {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_in(screen: &mut Screen, text: &str) {
    for character in text.chars() {
        assert_eq!(press(screen, KeyCode::Char(character)), None);
    }
}

#[test]
fn pausing_a_queue_is_asked_about_and_then_ordered() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.chosen_queue().unwrap().name.to_string(), "mail");
    assert_eq!(press(&mut screen, KeyCode::Char('p')), None);
    let Mode::Confirm(order) = &screen.mode else { panic!("{:?}", screen.mode) };
    assert!(order.question.contains("Pause queue mail"), "{}", order.question);
    assert!(
        order.consequence.contains("120 jobs wait") && order.consequence.contains("2 running"),
        "{}",
        order.consequence
    );
    // The list may change meanwhile: the command applies to the object of the question.
    let mut moved = snapshot();
    moved.queues.reverse();
    screen.take(moved);
    let Some(Effect::Carry(order)) = press(&mut screen, KeyCode::Char('y')) else {
        panic!("nothing was ordered")
    };
    assert_eq!((order.verb, order.path()), (Verb::PauseQueue, ["queues", "mail", "pause"]));
    assert_eq!(order.done(true, ""), "queue mail is paused");
    assert_eq!(order.done(false, ""), "mail was already in that state");
}

#[test]
fn no_is_an_answer_and_other_keys_are_none() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('p'));
    assert_eq!(press(&mut screen, KeyCode::Char('x')), None);
    assert_eq!(press(&mut screen, KeyCode::Enter), None);
    assert!(
        matches!(&screen.mode, Mode::Confirm(order) if order.verb == Verb::ResumeQueue),
        "{:?}",
        screen.mode
    );
    assert_eq!(press(&mut screen, KeyCode::Esc), None);
    assert!(matches!(screen.mode, Mode::Browse));
    assert_eq!(screen.note.as_ref().unwrap().text, "nothing was changed");
}

#[test]
fn each_key_means_what_the_job_it_acts_on_allows() {
    let mut screen = screen();
    for (pane, key, verb) in [
        ('2', 'c', Verb::Job(JobAction::Cancel)),
        ('2', 'p', Verb::Job(JobAction::Suspend)),
        ('3', 'r', Verb::Job(JobAction::Redrive)),
        ('3', 'c', Verb::Job(JobAction::Cancel)),
        ('4', 'r', Verb::Job(JobAction::Resume)),
        ('4', 'p', Verb::Job(JobAction::Resume)),
        ('1', 'r', Verb::ResumeQueue),
    ] {
        press(&mut screen, KeyCode::Char(pane));
        press(&mut screen, KeyCode::Char(key));
        assert!(
            matches!(&screen.mode, Mode::Confirm(order) if order.verb == verb),
            "{pane} {key}: {:?}",
            screen.mode
        );
        press(&mut screen, KeyCode::Char('n'));
    }
    press(&mut screen, KeyCode::Char('c'));
    assert!(screen.note.as_ref().unwrap().is_error, "a queue cannot be cancelled");
}

#[test]
fn a_redriven_job_is_named_by_its_new_id() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('3'));
    press(&mut screen, KeyCode::Char('r'));
    let Some(Effect::Carry(order)) = press(&mut screen, KeyCode::Char('y')) else {
        panic!("nothing was ordered")
    };
    assert_eq!(order.done(true, &id("0ew00001")), "fa000002 is redriven as 0ew00001");
}

#[test]
fn the_newest_failure_is_first_and_what_is_chosen_stays_chosen() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('3'));
    assert_eq!(screen.chosen_job().unwrap().id.to_string(), id("fa000002"));
    let mut later = snapshot();
    later.failures.push(job("fa000003", "email.send", "failed", &error("new", "2030-01-31T12:00:29Z")));
    screen.take(later);
    assert_eq!(screen.shown_jobs(Pane::Failures)[0].id.to_string(), id("fa000003"));
    assert_eq!(screen.chosen_job().unwrap().id.to_string(), id("fa000002"));
    // Once it is gone, the row in its place is chosen.
    let mut gone = snapshot();
    gone.failures.truncate(1);
    screen.take(gone);
    assert_eq!(screen.chosen_job().unwrap().id.to_string(), id("fa000001"));
    screen.take(Snapshot { failures: Vec::new(), ..snapshot() });
    assert!(screen.chosen_job().is_none());
    assert_eq!(press(&mut screen, KeyCode::Char('r')), None);
    assert!(matches!(screen.mode, Mode::Browse), "there is nothing to redrive");
}

#[test]
fn a_filter_narrows_every_list_and_escape_drops_it() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('/'));
    type_in(&mut screen, "MAIL");
    assert_eq!(screen.shown_queues().len(), 1);
    assert_eq!(screen.shown_jobs(Pane::Failures).len(), 2, "both are in the queue mail");
    type_in(&mut screen, " 502");
    assert_eq!(screen.shown_jobs(Pane::Failures).len(), 1);
    press(&mut screen, KeyCode::Backspace);
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.filter, "MAIL 50");
    // A letter is a command again.
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Some(Effect::Quit));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.shown_queues().len(), 3);
    // While it is being typed, escape brings the one before back.
    screen.filter_by("mail".to_owned());
    press(&mut screen, KeyCode::Char('/'));
    type_in(&mut screen, "x");
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.filter, "mail");
}

#[test]
fn details_tell_why_and_what_was_tried() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('3'));
    let wish = press(&mut screen, KeyCode::Enter);
    let Some(Effect::ShowJob(looked)) = wish else { panic!("{wish:?}") };
    assert_eq!(looked, id("fa000002"));
    let reasons: Reasons =
        read(&json!({"reasons": [{"code": "no_worker", "message": "no worker takes it"}]}));
    let attempts: Attempts = read(
        &json!({"attempts": [{"attempt_id": "a", "number": 1, "started_at": "2030-01-31T12:00:00Z",
        "ended_at": "2030-01-31T12:00:01Z", "outcome": "failed", "error": {"category": "temporary", "code": null, "message": "no route", "at": "2030-01-31T12:00:01Z", "attempt": 1, "error_type": "RETRYABLE", "cause": []}}]}),
    );
    let logs: Logs = read(
        &json!({"logs": [{"number": 1, "at": "2030-01-31T12:00:00Z", "attempt": 1, "text": "calling\u{7}"}]}),
    );
    let found = screen.chosen_job().unwrap().clone();
    let Mode::Details(details) = &mut screen.mode else { panic!("{:?}", screen.mode) };
    details.complete(
        JobDetails { job: found, reasons: reasons.reasons, attempts: attempts.attempts, logs: logs.logs },
        now(),
    );
    let text: Vec<String> =
        details.lines.iter().map(|line| format!("{} {}", line.label, line.text)).collect();
    let text = text.join("\n");
    for part in ["no worker takes it", "failed after 1.0s", "no route", r"calling\u{7}", r"\u{1b}[31m502"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    press(&mut screen, KeyCode::End);
    let Mode::Details(details) = &screen.mode else { panic!("{:?}", screen.mode) };
    assert_eq!(details.skipped, details.lines.len() - 1);
    press(&mut screen, KeyCode::Char('r'));
    assert!(
        matches!(&screen.mode, Mode::Confirm(order) if order.verb == Verb::Job(JobAction::Redrive)),
        "{:?}",
        screen.mode
    );
}

#[test]
fn rates_are_what_the_counts_grew_by() {
    let mut screen = screen();
    assert!(screen.rates.now(|counted| counted.submitted).abs() < f64::EPSILON, "one snapshot gives no rate");
    screen.now = now().plus(std::time::Duration::from_secs(2));
    let mut later = snapshot();
    later.stats.minutes.remove(0);
    later.stats.minutes[0].rates.submitted += 30;
    screen.take(later.clone());
    assert!((screen.rates.now(|counted| counted.submitted) - 15.0).abs() < 0.01);
    // After a gap nothing is made up.
    screen.lose("no route");
    assert!(matches!(screen.link, Connection::Lost { .. }));
    screen.now = now().plus(std::time::Duration::from_secs(60));
    later.stats.minutes[0].rates.submitted += 3000;
    screen.take(later);
    assert_eq!(screen.link, Connection::Up);
    assert_eq!(screen.rates.seconds(|counted| counted.submitted), [15.0]);
}

#[test]
fn control_c_quits_from_everywhere() {
    let mut screen = screen();
    for key in ['?', '/', 'p'] {
        press(&mut screen, KeyCode::Char(key));
        let wish = screen.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert_eq!(wish, Some(Effect::Quit));
        press(&mut screen, KeyCode::Esc);
    }
}
