//! The screen as text, in several sizes and states.

mod numbers;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;
use windlass_api::queue::Queue;
use windlass_api::stats::Counts;

use super::draw;
use crate::top::app::{Screen, Snapshot};
use crate::top::tests::{now, press, screen, snapshot};
use crate::top::theme::Theme;

fn drawn(screen: &Screen, width: u16, height: u16, is_coloured: bool) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen, Theme { is_coloured })).unwrap();
    terminal.backend().clone()
}

/// The screen, line by line.
fn lines(screen: &Screen, width: u16, height: u16) -> Vec<String> {
    let backend = drawn(screen, width, height, true);
    let buffer = backend.buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(row).collect()
}

fn assert_shows(lines: &[String], parts: &[&str]) {
    let text = lines.join("\n");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not on\n{text}");
    }
}

#[test]
fn a_small_terminal_shows_one_list_and_the_tabs() {
    let mut screen = screen();
    let small = lines(&screen, 60, 15);
    assert_shows(
        &small,
        &[
            "windlass top",
            "processing on",
            "1 queue paused",
            "submitted",
            " 1 Queues ",
            "⏸ billing",
            "120",
            "2m03s",
            "q quit",
        ],
    );
    assert!(!small.join("\n").contains("email.send"), "only one list fits");
    press(&mut screen, KeyCode::Tab);
    assert_shows(&lines(&screen, 60, 15), &["email.send", "██████░░░░░░  50 %"]);
    press(&mut screen, KeyCode::Tab);
    assert_shows(&lines(&screen, 60, 15), &["webhook.deliver", "dead", "bad_gateway"]);
    press(&mut screen, KeyCode::Tab);
    assert_shows(&lines(&screen, 60, 15), &["order.approve", "ann"]);
}

#[test]
fn a_large_terminal_shows_everything_at_once() {
    let mut screen = screen();
    let large = lines(&screen, 200, 60);
    assert_shows(
        &large,
        &[
            "last hour",
            "Queues 3",
            "Running 2",
            "Failures 2",
            "paused by ann: tax season",
            "run p95",
            "mail-1",
            "half way",
            r"\u{1b}[31m502 Bad Gateway",
            "dead_letter",
        ],
    );
    // Where there is width but no height, two lists stand beside each other.
    let low = lines(&screen, 160, 38);
    assert!(
        low.iter().any(|line| line.contains("╭ Running") && line.contains("╭ Failures")),
        "{}",
        low.join("\n")
    );
    press(&mut screen, KeyCode::Char('4'));
    assert_shows(&lines(&screen, 200, 60), &["Suspended 1", "order.approve"]);
    let tall = lines(&screen, 100, 50);
    assert!(
        !tall.iter().any(|line| line.contains("╭ Running") && line.contains("╭ Suspended")),
        "{}",
        tall.join("\n")
    );
}

#[test]
fn every_size_is_drawn_in_every_mode() {
    for code in [KeyCode::Esc, KeyCode::Char('?'), KeyCode::Char('/'), KeyCode::Char('p'), KeyCode::Enter] {
        let mut screen = screen();
        press(&mut screen, code);
        for width in (1..205).step_by(17) {
            for height in (1..64).step_by(9) {
                drawn(&screen, width, height, true);
            }
        }
        drawn(&Screen::new("nowhere".to_owned(), now()), 80, 24, true);
    }
}

#[test]
fn a_question_says_what_will_happen() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Char('p'));
    for (width, height) in [(60, 15), (120, 40)] {
        assert_shows(
            &lines(&screen, width, height),
            &["Pause queue mail?", "120 jobs wait", "y yes    n no"],
        );
    }
}

#[test]
fn a_lost_connection_is_shown_and_the_last_data_stays() {
    let mut screen = screen();
    screen.now = now().plus(std::time::Duration::from_secs(7));
    screen.lose("no server at 127.0.0.1:7788");
    assert_shows(&lines(&screen, 120, 30), &["connection lost 7.0s ago, retrying: no server", "⏸ billing"]);
    screen.take(snapshot());
    assert!(!lines(&screen, 120, 30).join("\n").contains("connection lost"));
}

#[test]
fn paused_processing_is_shown_first() {
    let mut screen = screen();
    let mut closed = snapshot();
    let gate = closed.gate.as_mut().unwrap();
    (gate.online, gate.reason) = (false, Some("database move".to_owned()));
    screen.take(closed);
    assert_shows(&lines(&screen, 80, 24), &["processing PAUSED by : database move"]);
}

#[test]
fn without_colours_nothing_is_coloured() {
    let coloured = |is_coloured| {
        let backend = drawn(&screen(), 120, 40, is_coloured);
        let cells = backend.buffer().content();
        cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(coloured(true));
    assert!(!coloured(false));
}

#[test]
fn an_empty_server_says_so() {
    let mut screen = Screen::new("127.0.0.1:7788".to_owned(), now());
    let mut empty = snapshot();
    empty.stats.states = Counts::default();
    screen.take(Snapshot {
        queues: Vec::new(),
        running: Vec::new(),
        failures: Vec::new(),
        suspended: Vec::new(),
        ..empty
    });
    assert_shows(
        &lines(&screen, 100, 40),
        &["no queues yet", "no running jobs", "no failed jobs", "no jobs waiting"],
    );
}

#[test]
fn the_chosen_row_of_a_long_list_is_in_view() {
    let mut screen = screen();
    let mut long = snapshot();
    let queue = long.queues[0].clone();
    long.queues = (0..100)
        .map(|number| Queue { name: format!("queue-{number:03}").parse().unwrap(), ..queue.clone() })
        .collect();
    screen.take(long);
    press(&mut screen, KeyCode::End);
    assert_shows(&lines(&screen, 80, 20), &["queue-099"]);
    press(&mut screen, KeyCode::Home);
    assert_shows(&lines(&screen, 80, 20), &["queue-000"]);
}
