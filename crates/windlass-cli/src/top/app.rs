//! The state of the screen: data from the server, the selection, and the current dialog. It changes only by updates and key
//! presses; `draw` renders it.

use windlass::clock::Timestamp;
use windlass::job::{JobState, WorkerId};
use windlass_api::job::Job;
use windlass_api::pause::Gate;
use windlass_api::queue::Queue;
use windlass_api::stats::{Counts, Stats, Unresolved};
use windlass_api::text::Text;
use windlass_api::worker::Worker;

use super::command::Command;
use super::details::Details;
use super::model::{FAILURES, failed_at};
use super::rates::Rates;
use crate::output::escaped;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Queues,
    Running,
    Failures,
    Suspended,
}

impl Pane {
    pub(super) const ALL: [Pane; 4] = [Pane::Queues, Pane::Running, Pane::Failures, Pane::Suspended];

    pub(super) fn title(self) -> &'static str {
        match self {
            Pane::Queues => "Queues",
            Pane::Running => "Running",
            Pane::Failures => "Failures",
            Pane::Suspended => "Suspended",
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
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) place: String,
    pub(super) now: Timestamp,
    pub(super) link: Connection,
    pub(super) rates: Rates,
    pub(super) states: Counts,
    /// Failed jobs that nobody has retried, if the server counts them.
    pub(super) unresolved: Option<Unresolved>,
    pub(super) queues: Vec<Queue>,
    pub(super) gate: Option<Gate>,
    pub(super) workers: Option<Vec<Worker>>,
    running: Vec<Job>,
    failures: Vec<Job>,
    suspended: Vec<Job>,
    pub(super) pane: Pane,
    choices: [Selection; 4],
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) note: Option<Note>,
    heard_at: Timestamp,
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
            pane: Pane::Queues,
            choices: Default::default(),
            filter: String::new(),
            mode: Mode::Browse,
            note: None,
            heard_at: now,
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
        self.failures.sort_by_key(|job| std::cmp::Reverse(failed_at(job)));
        (self.link, self.heard_at) = (Connection::Up, self.now);
        for pane in Pane::ALL {
            self.clamp_selection(pane);
        }
    }

    /// Records that the server does not respond.
    pub(super) fn lose(&mut self, why: &str) {
        self.link = Connection::Lost { since: self.heard_at, why: escaped(why) };
        self.rates.interrupt();
    }

    /// Shows a message for a while.
    pub(super) fn say(&mut self, text: String, is_error: bool) {
        self.note = Some(Note { text, is_error, at: self.now });
    }

    /// The queues that match the filter.
    pub(super) fn shown_queues(&self) -> Vec<&Queue> {
        self.queues.iter().filter(|queue| self.lets_through(&[queue.name.0.as_str()])).collect()
    }

    /// The jobs of a list that match the filter.
    pub(super) fn shown_jobs(&self, pane: Pane) -> Vec<&Job> {
        let jobs: &[Job] = match pane {
            Pane::Queues => &[],
            Pane::Running => &self.running,
            Pane::Failures => &self.failures,
            Pane::Suspended => &self.suspended,
        };
        jobs.iter().filter(|job| self.matches(job)).collect()
    }

    fn matches(&self, job: &Job) -> bool {
        let message = job.error.as_ref().map_or("", |error| error.message.as_str());
        self.lets_through(&[
            &job.id.to_string(),
            job.r#type.0.as_str(),
            job.queue.0.as_str(),
            job.tenant.0.as_str(),
            job.state.0.as_str(),
            message,
        ])
    }

    /// Whether every word of the filter is in one of the texts.
    fn lets_through(&self, texts: &[&str]) -> bool {
        let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
        self.filter.to_lowercase().split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
    }

    /// The total number of items of a pane, listed or not.
    pub(super) fn total(&self, pane: Pane) -> u64 {
        match pane {
            Pane::Queues => self.queues.len() as u64,
            Pane::Running => self.states.sum(&[JobState::Running]),
            Pane::Failures => self.states.sum(&FAILURES),
            Pane::Suspended => self.states.sum(&[JobState::Suspended]),
        }
    }

    fn keys(&self, pane: Pane) -> Vec<String> {
        match pane {
            Pane::Queues => self.shown_queues().iter().map(|queue| queue.name.to_string()).collect(),
            Pane::Running | Pane::Failures | Pane::Suspended => {
                self.shown_jobs(pane).iter().map(|job| job.id.to_string()).collect()
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
