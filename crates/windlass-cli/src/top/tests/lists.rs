//! Workers, types, schedules and errors: what they show, how they are sorted, and what the keys and the mouse do.

use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;
use serde_json::{Value, json};

use super::{error, flow, job, press, read, screen, snapshot};
use crate::top::app::{Mode, Pane, Screen};
use crate::top::command::{Place, Verb};
use crate::top::draw::layout;
use crate::top::key_bindings::Effect;

fn job_type(name: &str, ready: u64, paused: &Value) -> Value {
    json!({"type": name, "known": true, "depth": {"scheduled": ready}, "paused": paused, "timeouts": {}, "retention": {},
        "rates": {"last_minute": flow(1, 2, 0), "last_hour": flow(100, 200, 0)}})
}

fn schedule(name: &str) -> Value {
    json!({"name": name, "tenant": "acme", "cron": "0 3 * * *", "timezone": "UTC", "every": null, "at": null,
        "missed": "once", "overlap": "skip", "job": {"type": "report", "queue": "slow", "payload": {"a": 1}, "timeouts": {}},
        "redacted": false, "paused": null, "next_runs": ["2030-01-31T13:00:30Z"], "last_run": null, "last_job": null,
        "submitted": 7, "overlapped": 0, "last_refused": null, "refusals": 0, "created_at": "2030-01-31T12:00:00Z",
        "updated_at": "2030-01-31T12:00:00Z", "updated_by": "me"})
}

/// The screen after a poll with types, schedules and three failures of one error.
fn full() -> Screen {
    let mut screen = screen();
    let failed =
        |end: &str, message: &str| job(end, "webhook", "failed", &error(message, "2030-01-31T12:00:10Z"));
    let mut next = snapshot();
    next.types = Some(read(&json!([job_type("a", 3, &Value::Null), job_type("b", 9, &Value::Null)])));
    next.schedules = Some(read(&json!([schedule("nightly")])));
    next.failures.extend([failed("fb000001", "order 17 refused"), failed("fb000002", "order 18 refused")]);
    screen.take(next);
    screen
}

fn first_cells(screen: &Screen, pane: Pane) -> Vec<String> {
    screen.shown_rows(pane).into_iter().map(|row| row.cells[0].text.clone()).collect()
}

fn carried(screen: &mut Screen) -> crate::top::command::Command {
    match press(screen, KeyCode::Char('y')) {
        Some(Effect::Carry(order)) => order,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lists_show_workers_types_and_schedules_and_are_sorted_by_a_key() {
    let mut screen = full();
    assert_eq!(first_cells(&screen, Pane::Workers), ["mail-1"]);
    assert_eq!(screen.shown_rows(Pane::Workers)[0].cells[2].text, "1", "it runs one of the listed jobs");
    press(&mut screen, KeyCode::Char('6'));
    assert_eq!(first_cells(&screen, Pane::Types), ["a", "b"]);
    press(&mut screen, KeyCode::Char('s'));
    press(&mut screen, KeyCode::Char('s'));
    assert_eq!(first_cells(&screen, Pane::Types), ["b", "a"], "most ready ones first");
    press(&mut screen, KeyCode::Char('S'));
    assert_eq!(first_cells(&screen, Pane::Types), ["a", "b"]);
    let submitted = |screen: &Screen| screen.shown_rows(Pane::Types)[0].cells[3].text.clone();
    assert_eq!(submitted(&screen), "1");
    press(&mut screen, KeyCode::Char('t'));
    assert_eq!(submitted(&screen), "100", "the last hour");
    assert_eq!(screen.shown_rows(Pane::Schedules)[0].cells[2].text, "1h00m");
    screen.filter_by("nothing".to_owned());
    assert!(first_cells(&screen, Pane::Types).is_empty());
}

#[test]
fn failures_are_grouped_by_error_and_a_group_is_retried_at_once() {
    let mut screen = full();
    press(&mut screen, KeyCode::Char('8'));
    let groups = screen.shown_rows(Pane::Groups);
    assert_eq!(groups[0].cells[0].text, "2", "they differ by a number only");
    assert_eq!(groups.len(), 3);
    // What was selected before the poll stays selected; the largest group is first.
    press(&mut screen, KeyCode::Home);
    press(&mut screen, KeyCode::Char('r'));
    let order = carried(&mut screen);
    assert_eq!((order.verb, order.others.len()), (Verb::RetryAll, 2));
    assert!(order.others.iter().all(|id| order.of_one(id).path()[2] == "redrive"));
    press(&mut screen, KeyCode::Enter);
    let Mode::Details(details) = &screen.mode else { panic!("{:?}", screen.mode) };
    assert!(details.title.contains("2 failures of webhook"), "{}", details.title);
}

#[test]
fn workers_types_and_schedules_are_paused_and_schedules_run() {
    for (pane, key, verb, path) in [
        ('5', 'p', Verb::Pause(Place::Worker), "workers"),
        ('6', 'p', Verb::Pause(Place::Type), "gate"),
        ('7', 'p', Verb::Pause(Place::Schedule), "schedules"),
        ('7', 'r', Verb::Trigger, "schedules"),
    ] {
        let mut screen = full();
        press(&mut screen, KeyCode::Char(pane));
        press(&mut screen, KeyCode::Char(key));
        let order = carried(&mut screen);
        assert_eq!((order.verb, order.path()[0]), (verb, path));
        assert_eq!(order.tenant.is_some(), pane == '7', "a schedule is named with its tenant");
        press(&mut screen, KeyCode::Enter);
        assert!(matches!(screen.mode, Mode::Details(_)), "{pane}");
    }
}

#[test]
fn the_mouse_selects_opens_and_scrolls() {
    let area = Rect::new(0, 0, 120, 45);
    let mut screen = full();
    let at = |kind, column, row| MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    let click = MouseEventKind::Down(MouseButton::Left);
    let find = |screen: &Screen, pane: Pane| {
        let layout = layout(area, screen);
        let found = layout.lists.iter().find(|(shown, _)| *shown == pane).map(|(_, area)| *area);
        found.or_else(|| layout.tabs.iter().find(|(tab, _)| *tab == pane).map(|(_, area)| *area)).unwrap()
    };
    let failures = find(&screen, Pane::Failures);
    screen.point(at(click, failures.x + 3, failures.y + 3), area);
    assert_eq!((screen.pane, screen.chosen(Pane::Failures)), (Pane::Failures, Some(1)));
    assert!(matches!(screen.mode, Mode::Browse), "the first click selects");
    assert!(matches!(
        screen.point(at(click, failures.x + 3, failures.y + 3), area),
        Some(Effect::ShowJob(_))
    ));
    screen.mode = Mode::Browse;
    screen.point(at(MouseEventKind::ScrollUp, 0, 0), area);
    assert_eq!(screen.chosen(Pane::Failures), Some(0));
    let tab = find(&screen, Pane::Types);
    screen.point(at(click, tab.x + 1, tab.y), area);
    assert_eq!(screen.pane, Pane::Types);
    // A click beside the rows changes nothing.
    let types = find(&screen, Pane::Types);
    screen.point(at(click, types.x + 3, types.y + types.height - 2), area);
    assert_eq!(screen.chosen(Pane::Types), Some(0));
}
