//! The header: the server, its health, and the rates of jobs.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;
use windlass::job::JobState;

use crate::commands::manage::workers::is_built_in;
use crate::top::app::{Connection, Screen};
use crate::top::format::{age, columns, count, cut, per_second, several};
use crate::top::history::{PeriodReading, columns_of};
use crate::top::model::FAILED;
use crate::top::rates::Reading;
use crate::top::theme::Theme;

/// Minimum columns to draw the last hour beside the last minutes.
const WIDE: u16 = 100;
/// A job that waits longer than this is highlighted.
pub(super) const LONG: Duration = Duration::from_secs(300);
/// Width of a rate with its name.
const LABEL: u16 = 20;

/// A curve: live, and in the server's history.
struct Curve {
    name: &'static str,
    live: Reading,
    stored: PeriodReading,
    style: fn(Theme) -> Style,
}

/// The curves drawn, one per line.
const LINES: [Curve; 3] = [
    Curve {
        name: "submitted",
        live: |counted| counted.submitted,
        stored: |period| period.rates.submitted,
        style: Theme::busy,
    },
    Curve {
        name: "completed",
        live: |counted| counted.completed,
        stored: |period| period.rates.completed,
        style: Theme::good,
    },
    Curve {
        name: "failed",
        live: |counted| counted.failed,
        stored: |period| period.rates.failed_attempts(),
        style: Theme::bad,
    },
];

impl Curve {
    /// The current rate, or the sum over the time that is shown.
    fn number(&self, screen: &Screen) -> String {
        if screen.range.stored().is_none() {
            return per_second(screen.rates.now(self.live));
        }
        screen.history_shown().map_or("·".to_owned(), |history| count((self.stored)(&history.total)))
    }
}

/// Rows of the header on a screen of this size.
pub(super) fn height(screen: Rect) -> u16 {
    match screen.height {
        0..12 => 2,
        12..18 => 3,
        // One line for the title, one for health, three rates, and two rows for each on a large screen.
        18..45 => 5,
        45.. => 8,
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let [title, health, rates] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    draw_title(frame, title, screen, theme);
    draw_health(frame, health, screen, theme);
    if rates.height < 3 {
        frame.render_widget(short_rates(screen, theme), rates);
        return;
    }
    let each = rates.height / 3;
    for (row, curve) in (0_u16..).zip(&LINES) {
        let area = Rect { y: rates.y + row * each, height: each, ..rates };
        draw_rate(frame, area, curve, screen, theme);
    }
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let clock = screen.now.to_string().get(11..19).map_or(String::new(), |time| format!("{time}Z "));
    let (said, style) = match &screen.link {
        Connection::New => (" connecting …".to_owned(), theme.faint()),
        Connection::Up => (history_title(screen), theme.strong()),
        Connection::Lost { since, why } => {
            let silence = age(screen.now.since(*since));
            (format!(" connection lost {silence} ago, retrying: {why}"), theme.bad())
        }
    };
    let name = format!(" windlass top  {} ", screen.place);
    let left = usize::from(area.width).saturating_sub(columns(&name) + columns(&clock));
    let said = cut(&said, left);
    let gap = " ".repeat(left - columns(&said));
    let pieces = [
        Span::styled(name, theme.strong()),
        Span::styled(said, style),
        gap.into(),
        Span::styled(clock, theme.faint()),
    ];
    frame.render_widget(Line::from(pieces.to_vec()), area);
}

/// Whose history is drawn; empty if the curves are live.
fn history_title(screen: &Screen) -> String {
    let Some(wanted) = screen.history_wanted() else { return String::new() };
    let state = match screen.history_shown() {
        Some(history) => format!(" · {} each", history.step),
        None => " · loading …".to_owned(),
    };
    format!(" {}{state}", wanted.title())
}

/// The most important facts, the most urgent first.
fn draw_health(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let mut parts = vec![gate(screen, theme)];
    // What needs attention first: a narrow screen cuts the rest.
    parts.extend(failures(screen, theme));
    let paused = screen.queues.iter().filter(|queue| queue.paused.is_some()).count() as u64;
    if paused > 0 {
        parts.push((format!("{} paused", several(paused, "queue", "queues")), theme.warning()));
    }
    let oldest = screen
        .queues
        .iter()
        .filter(|queue| queue.paused.is_none())
        .filter_map(|queue| queue.oldest_age)
        .max_by_key(|span| span.0);
    let ready = screen.states.sum(&[JobState::Scheduled]);
    parts.push(match oldest {
        Some(span) => {
            let style = if span.0 >= LONG { theme.warning() } else { Style::new() };
            (format!("oldest waiting {}", age(span.0)), style)
        }
        None if ready > 0 => ("only paused jobs wait".to_owned(), theme.faint()),
        None => ("no jobs waiting".to_owned(), theme.faint()),
    });
    if let Some(workers) = &screen.workers {
        let alive = workers.iter().filter(|worker| worker.alive && !is_built_in(worker)).count() as u64;
        let style = if alive == 0 { theme.warning() } else { Style::new() };
        parts.push((several(alive, "worker", "workers"), style));
        let paused = workers.iter().filter(|worker| worker.alive && worker.paused.is_some()).count() as u64;
        if paused > 0 {
            parts.push((format!("{} of them paused", count(paused)), theme.warning()));
        }
    }
    parts.push((format!("{} ready", count(ready)), Style::new()));
    parts.push((format!("{} running", count(screen.states.sum(&[JobState::Running]))), theme.busy()));
    let mut pieces = vec![Span::raw(" ")];
    for (text, style) in parts {
        if pieces.len() > 1 {
            pieces.push(Span::styled(" · ", theme.faint()));
        }
        pieces.push(Span::styled(text, style));
    }
    frame.render_widget(Line::from(pieces), area);
}

/// Failed jobs and dead letters that were not retried. A server that does not count them has only the stored ones.
fn failures(screen: &Screen, theme: Theme) -> Vec<(String, Style)> {
    let style = |number: u64| if number > 0 { theme.bad() } else { theme.faint() };
    let Some(open) = screen.unresolved else {
        let stored = screen.states.sum(&FAILED);
        return vec![(format!("{} failed, stored", count(stored)), theme.faint())];
    };
    let more = if open.complete { "" } else { "+" };
    let dead = several(open.dead_letter, "dead letter", "dead letters");
    let dead = if more.is_empty() { dead } else { dead.replacen(' ', "+ ", 1) };
    vec![
        (format!("{}{more} failed", count(open.failed)), style(open.failed)),
        (dead, style(open.dead_letter)),
    ]
}

fn gate(screen: &Screen, theme: Theme) -> (String, Style) {
    let Some(gate) = &screen.gate else { return ("processing unknown".to_owned(), theme.faint()) };
    if !gate.online {
        let by = gate.by.as_deref().unwrap_or_default();
        let reason = gate.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        return (cut(&format!("processing PAUSED by {by}{reason}"), 46), theme.bad());
    }
    if gate.scopes.is_empty() {
        return ("processing on".to_owned(), theme.good());
    }
    (
        format!(
            "processing on, paused for {}",
            several(gate.scopes.len() as u64, "type or tenant", "types or tenants")
        ),
        theme.warning(),
    )
}

/// The rates in one line, for small screens.
fn short_rates(screen: &Screen, theme: Theme) -> Line<'static> {
    let mut pieces = vec![Span::raw(" ")];
    for line in &LINES {
        pieces.push(Span::styled(format!("{} ", line.name), theme.faint()));
        pieces.push(Span::styled(format!("{:<8}", line.number(screen)), theme.strong()));
    }
    Line::from(pieces)
}

fn draw_rate(frame: &mut Frame<'_>, area: Rect, curve: &Curve, screen: &Screen, theme: Theme) {
    let is_live = screen.range.stored().is_none();
    let (name, style) = (curve.name, (curve.style)(theme));
    let is_wide = is_live && area.width >= WIDE;
    let hour_width = if is_wide { 60 + 11 } else { 0 };
    let [label, live, hour] =
        Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1), Constraint::Length(hour_width)])
            .areas(area);
    let pieces = vec![
        Span::styled(format!(" {name:<10}"), theme.faint()),
        Span::styled(format!("{:>8}", curve.number(screen)), theme.strong()),
    ];
    frame.render_widget(Line::from(pieces), label);
    if !is_live {
        let width = usize::from(live.width);
        let bars = screen.history_shown().map(|history| columns_of(history, curve.stored, width));
        draw_bars(frame, live, &bars.unwrap_or_default(), style);
        return;
    }
    draw_bars(frame, live, &screen.rates.seconds(curve.live), style);
    if is_wide {
        let [name, bars] = Layout::horizontal([Constraint::Length(11), Constraint::Fill(1)]).areas(hour);
        frame.render_widget(Line::styled(" last hour ", theme.faint()), name);
        draw_bars(frame, bars, &screen.rates.minutes(curve.live), style);
    }
}

/// Bars with the newest at the right; every value above zero is visible.
fn draw_bars(frame: &mut Frame<'_>, area: Rect, rates: &[f64], style: Style) {
    let newest = &rates[rates.len().saturating_sub(usize::from(area.width))..];
    let highest = newest.iter().copied().fold(0.0, f64::max);
    let steps = f64::from(area.height) * 8.0;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "heights are small and positive"
    )]
    let heights: Vec<u64> = newest
        .iter()
        .map(|rate| if *rate > 0.0 { (rate / highest * steps).max(1.0) as u64 } else { 0 })
        .collect();
    let missing = usize::from(area.width).saturating_sub(heights.len());
    let area = Rect {
        x: area.x + u16::try_from(missing).unwrap_or(0),
        width: area.width - u16::try_from(missing).unwrap_or(0),
        ..area
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "heights are small and positive"
    )]
    frame.render_widget(Sparkline::default().data(heights).max(steps as u64).style(style), area);
}
