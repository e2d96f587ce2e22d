//! Rows of the lists that are not jobs or queues: workers, types, schedules, and failures grouped by their error.

use std::collections::BTreeMap;

use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass::job::error_pattern;
use windlass_api::queue::Type;
use windlass_api::schedule::ScheduleView;
use windlass_api::worker::Worker;

use super::app::{Pane, Screen};
use super::format::{age, count_or_dot};
use super::model::{failed_at, is_open_failure};
use super::sort::SortValue;

/// How a cell is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellStyle {
    Plain,
    Strong,
    Busy,
    Warning,
    Bad,
}

/// One cell: its text, and the value it is sorted by.
#[derive(Debug, Clone)]
pub(super) struct RowCell {
    pub(super) text: String,
    pub(super) style: CellStyle,
    pub(super) value: SortValue,
}

/// One row.
#[derive(Debug, Clone)]
pub(super) struct ListRow {
    /// Identifies the row when the list moves.
    pub(super) key: String,
    pub(super) cells: Vec<RowCell>,
}

/// A column: its title, its width (0: the rest), and whether it holds numbers.
pub(super) struct ListColumn {
    pub(super) title: &'static str,
    pub(super) width: u16,
    pub(super) is_number: bool,
}

const fn text(title: &'static str, width: u16) -> ListColumn {
    ListColumn { title, width, is_number: false }
}

const fn number(title: &'static str, width: u16) -> ListColumn {
    ListColumn { title, width, is_number: true }
}

const WORKERS: &[ListColumn] = &[
    text("worker", 22),
    text("state", 8),
    number("running", 7),
    number("slots", 5),
    number("seen", 7),
    text("version", 10),
    text("takes", 0),
];
const TYPES: &[ListColumn] = &[
    text("type", 26),
    number("ready", 6),
    number("running", 7),
    number("in", 6),
    number("out", 6),
    number("failed", 6),
    number("p50", 7),
    number("p95", 7),
    text("", 0),
];
const SCHEDULES: &[ListColumn] = &[
    text("schedule", 22),
    text("when", 26),
    number("next", 8),
    number("last", 8),
    number("jobs", 7),
    text("type", 0),
];
const GROUPS: &[ListColumn] =
    &[number("jobs", 5), text("type", 20), number("last", 8), text("code", 16), text("error", 0)];

/// The columns of a pane that is drawn by rows; none for the others.
pub(super) fn columns_of(pane: Pane) -> &'static [ListColumn] {
    match pane {
        Pane::Workers => WORKERS,
        Pane::Types => TYPES,
        Pane::Schedules => SCHEDULES,
        Pane::Groups => GROUPS,
        Pane::Queues | Pane::Running | Pane::Failures | Pane::Suspended => &[],
    }
}

fn word(text: impl Into<String>, style: CellStyle) -> RowCell {
    let text = text.into();
    RowCell { value: SortValue::Text(text.to_lowercase()), text, style }
}

fn amount(number: u64, style: CellStyle) -> RowCell {
    RowCell { text: count_or_dot(number), style, value: SortValue::Number(number) }
}

/// A duration; `·` if there is none, which comes last.
fn duration(time: Option<std::time::Duration>, style: CellStyle) -> RowCell {
    let millis = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let text = time.map_or("·".to_owned(), age);
    RowCell { text, style, value: millis.map_or(SortValue::None, SortValue::Number) }
}

/// The rows of a pane, in the server's order.
pub(super) fn rows(screen: &Screen, pane: Pane) -> Vec<ListRow> {
    match pane {
        Pane::Workers => screen.workers.iter().flatten().map(|one| worker(screen, one)).collect(),
        Pane::Types => screen.types.iter().map(|one| job_type(screen, one)).collect(),
        Pane::Schedules => screen.schedules.iter().map(|one| schedule(one, screen.now)).collect(),
        Pane::Groups => groups(screen).into_iter().map(|group| group.row(screen.now)).collect(),
        Pane::Queues | Pane::Running | Pane::Failures | Pane::Suspended => Vec::new(),
    }
}

fn worker(screen: &Screen, worker: &Worker) -> ListRow {
    let running = screen.running_of(&worker.id);
    let (state, style) = match (worker.alive, &worker.paused) {
        (false, _) => ("lost", CellStyle::Bad),
        (true, Some(_)) => ("paused", CellStyle::Warning),
        (true, None) => ("alive", CellStyle::Plain),
    };
    let named =
        |names: Vec<String>, all: &str| if names.is_empty() { all.to_owned() } else { names.join(" ") };
    let types = named(worker.types.iter().map(ToString::to_string).collect(), "all types");
    let queues = named(worker.queues.iter().map(ToString::to_string).collect(), "all queues");
    ListRow {
        key: worker.id.to_string(),
        cells: vec![
            word(worker.name.clone(), CellStyle::Strong),
            word(state, style),
            amount(running, CellStyle::Busy),
            amount(u64::from(worker.concurrency), CellStyle::Plain),
            duration(Some(screen.now.since(worker.seen_at.0)), CellStyle::Plain),
            word(worker.version.clone().unwrap_or_default(), CellStyle::Plain),
            word(format!("{types} of {queues}"), CellStyle::Plain),
        ],
    }
}

fn job_type(screen: &Screen, job_type: &Type) -> ListRow {
    let flow = screen.range.select(&job_type.rates);
    let failed = flow.failed + flow.dead_letter;
    let paused = job_type.paused.as_ref().map_or(String::new(), |pause| format!("paused by {}", pause.by));
    ListRow {
        key: job_type.r#type.to_string(),
        cells: vec![
            word(job_type.r#type.to_string(), CellStyle::Strong),
            amount(job_type.depth.sum(&[JobState::Scheduled]), CellStyle::Plain),
            amount(job_type.depth.sum(&[JobState::Running]), CellStyle::Busy),
            amount(flow.submitted, CellStyle::Plain),
            amount(flow.completed, CellStyle::Plain),
            amount(failed, if failed > 0 { CellStyle::Bad } else { CellStyle::Plain }),
            duration(flow.ran.p50.map(|span| span.0), CellStyle::Plain),
            duration(flow.ran.p95.map(|span| span.0), CellStyle::Plain),
            word(paused, CellStyle::Warning),
        ],
    }
}

fn schedule(schedule: &ScheduleView, now: Timestamp) -> ListRow {
    let next = schedule.next_runs.first().map(|at| at.0.since(now));
    let last = schedule.last_run.map(|at| now.since(at.0));
    let (name, style) = match (&schedule.paused, &schedule.last_refused) {
        (Some(_), _) => (format!("⏸ {}", schedule.name), CellStyle::Warning),
        (None, Some(_)) => (format!("! {}", schedule.name), CellStyle::Bad),
        (None, None) => (schedule.name.to_string(), CellStyle::Strong),
    };
    ListRow {
        key: format!("{} {}", schedule.tenant, schedule.name),
        cells: vec![
            word(name, style),
            word(crate::commands::manage::schedules::timing(schedule), CellStyle::Plain),
            duration(next, CellStyle::Plain),
            duration(last, CellStyle::Plain),
            amount(schedule.submitted, CellStyle::Plain),
            word(schedule.job.r#type.to_string(), CellStyle::Plain),
        ],
    }
}

/// Failed jobs of one type with the same error, apart from numbers and ids in it.
#[derive(Debug, Clone)]
pub(super) struct FailureGroup {
    pub(super) key: String,
    pub(super) job_type: String,
    code: String,
    pub(super) message: String,
    last: Timestamp,
    /// The ids of its jobs, newest failure first.
    pub(super) jobs: Vec<String>,
}

impl FailureGroup {
    fn row(&self, now: Timestamp) -> ListRow {
        ListRow {
            key: self.key.clone(),
            cells: vec![
                amount(self.jobs.len() as u64, CellStyle::Bad),
                word(self.job_type.clone(), CellStyle::Strong),
                duration(Some(now.since(self.last)), CellStyle::Plain),
                word(self.code.clone(), CellStyle::Warning),
                word(self.message.clone(), CellStyle::Plain),
            ],
        }
    }
}

/// The listed jobs that failed finally and were not retried, by type and error; the largest group first.
pub(super) fn groups(screen: &Screen) -> Vec<FailureGroup> {
    let mut groups: BTreeMap<String, FailureGroup> = BTreeMap::new();
    for job in screen.listed(Pane::Failures).iter().filter(|job| is_open_failure(job)) {
        let Some(error) = &job.error else { continue };
        let code = error.code.clone().unwrap_or_default();
        let key = format!("{} {code} {}", job.r#type, error_pattern(&error.message));
        let group = groups.entry(key.clone()).or_insert_with(|| FailureGroup {
            key,
            job_type: job.r#type.to_string(),
            code,
            message: error.message.clone(),
            last: failed_at(job),
            jobs: Vec::new(),
        });
        group.jobs.push(job.id.to_string());
    }
    let mut groups: Vec<FailureGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.jobs.len()), std::cmp::Reverse(group.last)));
    groups
}
