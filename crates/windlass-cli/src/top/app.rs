//! The state of the screen: data from the server, the selection, and the current dialog. It changes only by updates and key
//! presses; `draw` renders it.

use windlass::clock::Timestamp;
use windlass::job::{JobState, QueueName, WorkerId};
use windlass_api::job::Job;
use windlass_api::pause::Gate;
use windlass_api::queue::{Queue, Type};
use windlass_api::schedule::ScheduleView;
use windlass_api::stats::{Counts, Stats, Unresolved};
use windlass_api::text::Text;
use windlass_api::worker::Worker;

use super::command::Command;
use super::details::Details;
use super::history::History;
use super::model::{failed_at, is_open_failure};
use super::rates::Rates;
use super::rows::{self, FailureGroup, ListRow};
use super::sort::{self, Sorting, TimeRange};
use crate::output::escaped;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Queues,
    Running,
    Failures,
    Suspended,
    Workers,
    Types,
    Schedules,
    /// Failures by their error.
    Groups,
}

/// The number of panes.
const PANES: usize = 8;

impl Pane {
    pub(super) const ALL: [Pane; PANES] = [
        Pane::Queues,
        Pane::Running,
        Pane::Failures,
        Pane::Suspended,
        Pane::Workers,
        Pane::Types,
        Pane::Schedules,
        Pane::Groups,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Pane::Queues => "Queues",
            Pane::Running => "Running",
            Pane::Failures => "Failures",
            Pane::Suspended => "Suspended",
            Pane::Workers => "Workers",
            Pane::Types => "Types",
            Pane::Schedules => "Schedules",
            Pane::Groups => "Errors",
        }
    }

    fn place(self) -> usize {
        Pane::ALL.iter().position(|pane| *pane == self).expect("all panes are listed")
    }

    /// The pane `by` positions further.
    pub(super) fn step(self, by: usize) -> Pane {
        Pane::ALL[(self.place() + by) % Pane::ALL.len()]
    }
}

/// The selected row of a list: the object, so that it stays selected when the list moves, and its position, for when the
/// object is gone.
#[derive(Debug, Clone, Default)]
struct Selection {
    key: Option<String>,
    place: usize,
}

/// Whether the server responds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Connection {
    /// No response yet.
    New,
    Up,
    /// The server stopped responding.
    Lost {
        /// When it last responded.
        since: Timestamp,
        /// The error.
        why: String,
    },
}

/// What the keys do.
#[derive(Debug)]
pub(super) enum Mode {
    Browse,
    /// A filter is being typed; holds the previous one.
    Filter(String),
    Help,
    Confirm(Command),
    Details(Box<Details>),
}

/// A message in the bottom line, for a while.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) text: String,
    pub(super) is_error: bool,
    pub(super) at: Timestamp,
}

/// All data of one poll.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) stats: Stats,
    pub(super) queues: Vec<Queue>,
    pub(super) gate: Option<Gate>,
    pub(super) workers: Option<Vec<Worker>>,
    pub(super) running: Vec<Job>,
    pub(super) failures: Vec<Job>,
    pub(super) suspended: Vec<Job>,
    /// Read only while they are shown.
    pub(super) types: Option<Vec<Type>>,
    pub(super) schedules: Option<Vec<ScheduleView>>,
    /// Read only for a time that is not drawn live.
    pub(super) history: Option<History>,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) place: String,
    pub(super) now: Timestamp,
    pub(super) link: Connection,
    pub(super) rates: Rates,
    pub(super) states: Counts,
    /// Failed jobs that were not retried, if the server counts them.
    pub(super) unresolved: Option<Unresolved>,
    pub(super) queues: Vec<Queue>,
    pub(super) gate: Option<Gate>,
    pub(super) workers: Option<Vec<Worker>>,
    running: Vec<Job>,
    failures: Vec<Job>,
    suspended: Vec<Job>,
    pub(super) types: Vec<Type>,
    pub(super) schedules: Vec<ScheduleView>,
    pub(super) history: Option<History>,
    pub(super) pane: Pane,
    choices: [Selection; PANES],
    sorting: [Option<Sorting>; PANES],
    pub(super) range: TimeRange,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) note: Option<Note>,
    seen_at: Timestamp,
}

impl Screen {
    /// An empty screen.
    pub(super) fn new(place: String, now: Timestamp) -> Screen {
        Screen {
            place,
            now,
            link: Connection::New,
            rates: Rates::default(),
            states: Counts::default(),
            unresolved: None,
            queues: Vec::new(),
            gate: None,
            workers: None,
            running: Vec::new(),
            failures: Vec::new(),
            suspended: Vec::new(),
            types: Vec::new(),
            schedules: Vec::new(),
            history: None,
            pane: Pane::Queues,
            choices: Default::default(),
            sorting: Default::default(),
            range: TimeRange::default(),
            filter: String::new(),
            mode: Mode::Browse,
            note: None,
            seen_at: now,
        }
    }

    /// Applies the data of a poll.
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        self.rates.record(&snapshot.stats, self.now);
        self.states = snapshot.stats.states;
        self.unresolved = snapshot.stats.unresolved;
        (self.queues, self.gate, self.workers) = (snapshot.queues, snapshot.gate, snapshot.workers);
        (self.running, self.failures, self.suspended) =
            (snapshot.running, snapshot.failures, snapshot.suspended);
        self.types = snapshot.types.unwrap_or(std::mem::take(&mut self.types));
        self.schedules = snapshot.schedules.unwrap_or(std::mem::take(&mut self.schedules));
        self.failures.sort_by_key(|job| std::cmp::Reverse(failed_at(job)));
        self.history = snapshot.history.or(self.history.take());
        (self.link, self.seen_at) = (Connection::Up, self.now);
        for pane in Pane::ALL {
            self.clamp_selection(pane);
        }
    }

    /// Records that the server does not respond.
    pub(super) fn lose(&mut self, why: &str) {
        self.link = Connection::Lost { since: self.seen_at, why: escaped(why) };
        self.rates.interrupt();
    }

    /// Shows a message for a while.
    pub(super) fn say(&mut self, text: String, is_error: bool) {
        self.note = Some(Note { text, is_error, at: self.now });
    }

    /// The queues that match the filter.
    pub(super) fn shown_queues(&self) -> Vec<&Queue> {
        let mut queues: Vec<&Queue> =
            self.queues.iter().filter(|queue| self.matches_filter(&[queue.name.0.as_str()])).collect();
        if let Some(sorting) = self.sorting(Pane::Queues) {
            sorting.apply(&mut queues, |queue| sort::of_queue(self, queue, sorting.column));
        }
        queues
    }

    /// The jobs of a list, whatever the filter.
    pub(super) fn listed(&self, pane: Pane) -> &[Job] {
        match pane {
            Pane::Running => &self.running,
            Pane::Failures => &self.failures,
            Pane::Suspended => &self.suspended,
            _ => &[],
        }
    }

    /// The jobs of a list that match the filter.
    pub(super) fn shown_jobs(&self, pane: Pane) -> Vec<&Job> {
        let mut jobs: Vec<&Job> = self.listed(pane).iter().filter(|job| self.matches(job)).collect();
        if let Some(sorting) = self.sorting(pane) {
            sorting.apply(&mut jobs, |job| sort::of_job(job, sorting.column, pane));
        }
        jobs
    }

    /// The rows of another list that match the filter.
    pub(super) fn shown_rows(&self, pane: Pane) -> Vec<ListRow> {
        let mut rows = rows::rows(self, pane);
        rows.retain(|row| {
            let texts: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
            self.matches_filter(&texts)
        });
        if let Some(sorting) = self.sorting(pane) {
            sorting.apply(&mut rows, |row| row.cells[sorting.column].value.clone());
        }
        rows
    }

    /// How a list is sorted; `None` for its own order.
    pub(super) fn sorting(&self, pane: Pane) -> Option<Sorting> {
        self.sorting[pane.place()]
    }

    /// Sorts the active list by its next column.
    pub(super) fn sort_by_next(&mut self) {
        let place = self.pane.place();
        self.sorting[place] = Sorting::after(self.sorting[place], self.pane);
        self.clamp_selection(self.pane);
    }

    /// Sorts the active list in the other direction.
    pub(super) fn reverse(&mut self) {
        if let Some(sorting) = &mut self.sorting[self.pane.place()] {
            sorting.is_down = !sorting.is_down;
        }
        self.clamp_selection(self.pane);
    }

    /// The number of listed jobs that a worker runs.
    pub(super) fn running_of(&self, worker: &Text<WorkerId>) -> u64 {
        let leases = self.running.iter().filter_map(|job| job.lease.as_ref());
        leases.filter(|lease| lease.worker == *worker).count() as u64
    }

    fn matches(&self, job: &Job) -> bool {
        let message = job.error.as_ref().map_or("", |error| error.message.as_str());
        self.matches_filter(&[
            &job.id.to_string(),
            job.r#type.0.as_str(),
            job.queue.0.as_str(),
            job.tenant.0.as_str(),
            job.state.0.as_str(),
            message,
        ])
    }

    /// Whether every word of the filter is in one of the texts.
    fn matches_filter(&self, texts: &[&str]) -> bool {
        let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
        self.filter.to_lowercase().split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
    }

    /// The total number of items of a pane, listed or not.
    pub(super) fn total(&self, pane: Pane) -> u64 {
        match pane {
            Pane::Queues => self.queues.len() as u64,
            Pane::Running => self.states.sum(&[JobState::Running]),
            Pane::Failures => self.open_failures() + self.states.sum(&[JobState::Retrying]),
            Pane::Suspended => self.states.sum(&[JobState::Suspended]),
            Pane::Workers | Pane::Types | Pane::Schedules | Pane::Groups => {
                rows::rows(self, pane).len() as u64
            }
        }
    }

    /// How many jobs failed finally and were not redriven; a server that does not count them has at least the listed ones.
    pub(super) fn open_failures(&self) -> u64 {
        let listed = || self.failures.iter().filter(|job| is_open_failure(job)).count() as u64;
        self.unresolved.map_or_else(listed, |open| open.failed + open.dead_letter)
    }

    /// How many jobs of a queue failed finally and were not redriven, among the listed ones; and whether all are listed.
    pub(super) fn open_failures_of(&self, queue: &Text<QueueName>) -> (u64, bool) {
        let (mut of_queue, mut listed) = (0, 0);
        for job in self.failures.iter().filter(|job| is_open_failure(job)) {
            listed += 1;
            of_queue += u64::from(job.queue == *queue);
        }
        (of_queue, listed >= self.open_failures())
    }

    /// The number of rows that a pane shows.
    pub(super) fn rows_shown(&self, pane: Pane) -> usize {
        self.keys(pane).len()
    }

    /// Selects the row at this place of the active pane.
    pub(super) fn select(&mut self, place: usize) {
        let keys = self.keys(self.pane);
        let choice = &mut self.choices[self.pane.place()];
        choice.place = place.min(keys.len().saturating_sub(1));
        choice.key = keys.get(choice.place).cloned();
    }

    /// The selected group of failures.
    pub(super) fn chosen_group(&self) -> Option<FailureGroup> {
        let key = (self.pane == Pane::Groups).then(|| self.choices[self.pane.place()].key.clone())??;
        rows::groups(self).into_iter().find(|group| group.key == key)
    }

    /// The key of the selected row of a list that has neither queues nor jobs.
    pub(super) fn chosen_key(&self) -> Option<&str> {
        self.choices[self.pane.place()].key.as_deref()
    }

    fn keys(&self, pane: Pane) -> Vec<String> {
        match pane {
            Pane::Queues => self.shown_queues().iter().map(|queue| queue.name.to_string()).collect(),
            Pane::Running | Pane::Failures | Pane::Suspended => {
                self.shown_jobs(pane).iter().map(|job| job.id.to_string()).collect()
            }
            Pane::Workers | Pane::Types | Pane::Schedules | Pane::Groups => {
                self.shown_rows(pane).into_iter().map(|row| row.key).collect()
            }
        }
    }

    /// Restores the selection after a list changed.
    fn clamp_selection(&mut self, pane: Pane) {
        let keys = self.keys(pane);
        let choice = &mut self.choices[pane.place()];
        let found = choice.key.as_ref().and_then(|key| keys.iter().position(|other| other == key));
        choice.place = found.unwrap_or(choice.place.min(keys.len().saturating_sub(1)));
        choice.key = keys.get(choice.place).cloned();
    }

    /// Sets the filter.
    pub(super) fn filter_by(&mut self, filter: String) {
        self.filter = filter;
        for pane in Pane::ALL {
            self.clamp_selection(pane);
        }
    }

    /// The position of the selected row in a pane, if it has rows.
    pub(super) fn chosen(&self, pane: Pane) -> Option<usize> {
        let choice = &self.choices[pane.place()];
        choice.key.as_ref().map(|_| choice.place)
    }

    /// Moves the selection in the active pane.
    pub(super) fn move_by(&mut self, by: isize) {
        let keys = self.keys(self.pane);
        let choice = &mut self.choices[self.pane.place()];
        choice.place = choice.place.saturating_add_signed(by).min(keys.len().saturating_sub(1));
        choice.key = keys.get(choice.place).cloned();
    }

    /// The selected queue.
    pub(super) fn chosen_queue(&self) -> Option<&Queue> {
        let place = (self.pane == Pane::Queues).then(|| self.chosen(Pane::Queues))??;
        self.shown_queues().get(place).copied()
    }

    /// The selected job.
    pub(super) fn chosen_job(&self) -> Option<&Job> {
        let place = self.chosen(self.pane)?;
        self.shown_jobs(self.pane).get(place).copied()
    }

    /// The worker's name, or its id if the name is unknown.
    pub(super) fn worker_name(&self, id: &Text<WorkerId>) -> String {
        let worker = self.workers.iter().flatten().find(|worker| worker.id == *id);
        worker.map_or_else(|| id.to_string(), |worker| worker.name.clone())
    }
}
