//! The lists of jobs: running ones with their progress, failed ones with their errors, suspended ones.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Row;
use windlass::job::JobState;
use windlass_api::job::{Job, Progress};

use super::draw_list;
use crate::top::app::{Pane, Screen};
use crate::top::format::{age, columns, cut, short};
use crate::top::model::failed_at;
use crate::top::theme::Theme;

/// Minimum columns of a pane to show ids, queues and workers.
const NARROW: u16 = 76;
const ROOMY: u16 = 96;
const WIDE: u16 = 120;
const WIDEST: u16 = 150;
/// Width of a progress bar.
const BAR: usize = 12;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, pane: Pane, theme: Theme) {
    let jobs = screen.shown_jobs(pane);
    let is_roomy = area.width >= ROOMY;
    // The error is more useful than the tenant.
    let is_wide = area.width >= if pane == Pane::Failures { WIDEST } else { WIDE };
    let longest = jobs.iter().map(|job| columns(job.r#type.0.as_str())).max().unwrap_or(0);
    let kind_width = u16::try_from(longest).unwrap_or(u16::MAX).clamp(4, if is_roomy { 24 } else { 16 });
    let (when, what) = match pane {
        Pane::Running => ("running", "progress"),
        Pane::Suspended => ("since", "by"),
        _ => ("ago", "error"),
    };
    let mut titles = vec![Line::from("id"), Line::from("type")];
    let mut widths = vec![Constraint::Length(8), Constraint::Length(kind_width)];
    if is_roomy {
        titles.push(Line::from("queue"));
        widths.push(Constraint::Length(12));
    }
    if is_wide {
        titles.push(Line::from(if pane == Pane::Running { "worker" } else { "tenant" }));
        widths.push(Constraint::Length(14));
    }
    // On a narrow screen the error is more useful than the number of attempts.
    let has_tries = pane != Pane::Failures || area.width >= NARROW;
    if has_tries {
        titles.push(Line::from("try"));
        widths.push(Constraint::Length(5));
    }
    titles.push(Line::from(when));
    widths.push(Constraint::Length(8));
    if pane == Pane::Failures {
        titles.push(Line::from("state"));
        widths.push(Constraint::Length(if is_roomy { 11 } else { 8 }));
    }
    titles.push(Line::from(what));
    widths.push(Constraint::Fill(1));
    let rows = jobs.iter().map(|job| {
        let mut cells = vec![
            Line::styled(short(&job.id.to_string()).to_owned(), theme.faint()),
            Line::styled(cut(job.r#type.0.as_str(), usize::from(kind_width)), theme.strong()),
        ];
        if is_roomy {
            cells.push(Line::from(cut(job.queue.0.as_str(), 12)));
        }
        if is_wide {
            cells.push(Line::from(cut(&other(screen, job, pane), 14)));
        }
        if has_tries {
            cells.push(Line::from(format!("{}/{}", job.attempt, job.max_attempts)));
        }
        cells.push(Line::from(age(screen.now.since(since(job, pane)))));
        if pane == Pane::Failures {
            let state = job.state.0;
            let word = if state == JobState::DeadLetter && !is_roomy { "dead" } else { state.as_str() };
            cells.push(Line::styled(word, theme.state(state)));
        }
        cells.push(last(job, pane, theme));
        Row::new(cells)
    });
    draw_list(frame, area, (screen, pane, theme), (titles, widths), rows.collect());
}

/// The other party: worker, queue or operator, depending on the pane.
fn other(screen: &Screen, job: &Job, pane: Pane) -> String {
    match (&job.lease, pane) {
        (Some(lease), Pane::Running) => screen.worker_name(&lease.worker),
        _ => job.tenant.to_string(),
    }
}

fn since(job: &Job, pane: Pane) -> windlass::clock::Timestamp {
    match pane {
        Pane::Running => job.started_at.map_or(job.updated_at.0, |at| at.0),
        Pane::Suspended => job.suspended_at.map_or(job.updated_at.0, |at| at.0),
        _ => failed_at(job),
    }
}

fn last(job: &Job, pane: Pane, theme: Theme) -> Line<'static> {
    match pane {
        Pane::Running => {
            job.progress.as_ref().map_or(Line::styled("·", theme.faint()), |progress| bar(progress, theme))
        }
        Pane::Suspended => Line::from(job.suspended_by.clone().unwrap_or_default()),
        _ => {
            let error = job.error.as_ref();
            let code =
                error.and_then(|error| error.code.as_ref()).map_or(String::new(), |code| format!("{code} "));
            let message = error.map_or(String::new(), |error| error.message.clone());
            Line::from(vec![Span::styled(code, theme.warning()), Span::raw(message)])
        }
    }
}

/// A progress bar.
fn bar(progress: &Progress, theme: Theme) -> Line<'static> {
    let percent = progress.percent.clamp(0.0, 100.0);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a bar is short"
    )]
    let filled = ((percent / 100.0 * BAR as f64).round() as usize).min(BAR);
    let message = progress.message.as_ref().map_or(String::new(), |message| format!("  {message}"));
    Line::from(vec![
        Span::styled("█".repeat(filled), theme.busy()),
        Span::styled("░".repeat(BAR - filled), theme.faint()),
        Span::raw(format!(" {percent:>3.0} %")),
        Span::styled(message, theme.faint()),
    ])
}
