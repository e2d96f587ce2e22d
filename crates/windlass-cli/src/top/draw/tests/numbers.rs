//! What is red, and the history of days.

use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;
use serde_json::json;
use windlass_api::stats::Unresolved;
use windlass_api::stats::history::StatsHistory;

use super::{assert_shows, drawn, lines};
use crate::top::app::Snapshot;
use crate::top::history::History;
use crate::top::tests::{press, screen, snapshot};

/// The red texts of a screen.
fn red(screen: &crate::top::app::Screen) -> String {
    let backend = drawn(screen, 120, 40, true);
    let cells = backend.buffer().content().iter();
    cells.filter(|cell| cell.fg == Color::Red).map(ratatui::buffer::Cell::symbol).collect()
}

#[test]
fn stored_failures_that_were_redriven_are_never_red() {
    let mut screen = screen();
    // The queue has two failed jobs in store; both were redriven.
    let mut next = snapshot();
    next.stats.unresolved = Some(Unresolved { failed: 0, dead_letter: 0, complete: true });
    screen.take(Snapshot { failures: Vec::new(), ..next });
    let all = lines(&screen, 120, 40);
    assert_shows(&all, &["Failures 0", "no failed jobs", "0 failed · 0 dead letters"]);
    let row = all.iter().find(|line| line.contains(" mail ")).unwrap();
    assert_eq!(row.split_whitespace().nth(8), Some("·"), "the column `failed`: {row}");
    // The curve of failed attempts is always drawn in red; its label and number are not.
    assert!(red(&screen).chars().all(|c| !c.is_alphanumeric()), "{}", red(&screen));
    // One of them fails again.
    let mut next = snapshot();
    next.stats.unresolved = Some(Unresolved { failed: 1, dead_letter: 0, complete: true });
    next.failures.truncate(1);
    screen.take(next);
    assert!(red(&screen).contains("1 failed"), "{}", red(&screen));
    assert_shows(&lines(&screen, 120, 40), &["Failures 1"]);
}

#[test]
fn a_queue_whose_failures_are_not_all_listed_says_so() {
    let mut screen = screen();
    let mut next = snapshot();
    next.stats.unresolved = Some(Unresolved { failed: 300, dead_letter: 4, complete: true });
    screen.take(next);
    let all = lines(&screen, 120, 40);
    let row = all.iter().find(|line| line.contains(" mail ")).unwrap();
    assert_eq!(row.split_whitespace().nth(8), Some("2+"), "{row}");
    assert_shows(&all, &["Failures 2 of 304"]);
}

#[test]
fn a_longer_time_shows_the_history_of_the_selected_queue() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Char('t'));
    assert!(screen.history_wanted().is_none(), "the last hour is drawn live");
    press(&mut screen, KeyCode::Char('t'));
    let of = screen.history_wanted().unwrap();
    assert_shows(&lines(&screen, 120, 40), &["queue mail · last 24 hours · loading", "Queues 3 · last hour"]);
    let none = json!({"p50": null, "p95": null, "p99": null});
    let period = |completed: u64| {
        json!({"at": "2030-01-31T12:00:00Z", "submitted": 3, "claimed": 3, "completed": completed, "failed": 1, "retried": 0,
            "dead_letter": 0, "cancelled": 0, "reaped": 0, "waited": none, "ran": none, "ready": null, "running": null,
            "utilisation": null})
    };
    let found: StatsHistory = serde_json::from_value(json!({"from": "2030-01-30T12:00:00Z", "until": "2030-01-31T12:00:00Z",
        "step": "10m", "points": [period(8), period(0), period(4)], "total": period(54_321), "previous": null}))
    .unwrap();
    screen.take(Snapshot { history: Some(History { of, found }), ..snapshot() });
    let all = lines(&screen, 120, 40);
    assert_shows(&all, &["queue mail · last 24 hours · 10m each", "54.3k"]);
    // The three points share the width: the first is the highest, the second empty, the third half as high.
    let curve: Vec<char> = all[3].chars().skip(20).collect();
    assert_eq!((curve[1], curve[50], curve[98]), ('█', ' ', '▄'), "{}", all[3]);
    // Another queue needs another history, and lists without a queue or type show that of all jobs.
    press(&mut screen, KeyCode::Up);
    assert!(screen.history_shown().is_none());
    press(&mut screen, KeyCode::Char('2'));
    assert_shows(&lines(&screen, 120, 40), &["all jobs · last 24 hours"]);
}
