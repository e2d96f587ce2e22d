//! Numbers with labels, side by side at the top of a page.

use windlass::clock::Timestamp;
use windlass::job::{JobRecord, JobState};
use windlass::store::{Config, CountResult, PauseScope, Stats, Worker};

use crate::dashboard::pages::overview::health::at_least;
use crate::dashboard::pages::workers::is_built_in;
use crate::dashboard::parts::format::{compact, count, span};

/// A number with its label.
pub(in crate::dashboard) struct StatCard {
    pub(in crate::dashboard) name: &'static str,
    pub(in crate::dashboard) value: String,
    pub(in crate::dashboard) exact: String,
    pub(in crate::dashboard) note: String,
    /// A link to the details; None if there are none.
    pub(in crate::dashboard) link: Option<&'static str>,
    pub(in crate::dashboard) class: &'static str,
}

impl StatCard {
    pub(in crate::dashboard) fn new(
        name: &'static str,
        number: u64,
        note: impl Into<String>,
        class: &'static str,
    ) -> StatCard {
        StatCard { name, value: compact(number), exact: count(number), note: note.into(), link: None, class }
    }

    pub(in crate::dashboard) fn to(self, link: &'static str) -> StatCard {
        StatCard { link: Some(link), ..self }
    }
}

/// The numbers of the overview.
pub(in crate::dashboard) struct StatCards<'a> {
    pub(in crate::dashboard) stats: &'a Stats,
    pub(in crate::dashboard) config: &'a Config,
    /// Jobs that failed permanently and were not redriven.
    pub(in crate::dashboard) failed: CountResult,
    /// Dead letters that were not redriven.
    pub(in crate::dashboard) dead: CountResult,
    /// When retrying jobs run next; empty if there are too many to read.
    pub(in crate::dashboard) retries: String,
    pub(in crate::dashboard) now: Timestamp,
}

/// How soon a retry must run to be mentioned.
const SOON: std::time::Duration = std::time::Duration::from_secs(300);

/// The cards of the overview.
pub(in crate::dashboard) fn tiles(numbers: &StatCards<'_>) -> Vec<StatCard> {
    let (stats, config, now) = (numbers.stats, numbers.config, numbers.now);
    let of = |states: &[JobState]| -> u64 { states.iter().filter_map(|state| stats.states.get(state)).sum() };
    let known: Vec<&Worker> = config.workers.values().filter(|worker| !is_built_in(worker)).collect();
    let live = known.iter().filter(|worker| !worker.is_lost && !worker.is_silent(now));
    let slots: u64 = live.clone().map(|worker| u64::from(worker.concurrency)).sum();
    let live = live.count();
    let ready = of(&[JobState::Scheduled]);
    let workers = match (live, known.len() - live) {
        (0, 0) => "none registered".to_owned(),
        (_, 0) => "all responding".to_owned(),
        (_, lost) => format!("{lost} lost"),
    };
    let retrying = of(&[JobState::Retrying]);
    let retries =
        if numbers.retries.is_empty() { "failed, waiting to retry".into() } else { numbers.retries.clone() };
    let open = |name, number: CountResult, class| StatCard {
        value: at_least(number),
        exact: at_least(number),
        ..StatCard::new(
            name,
            0,
            if number.jobs > 0 { "need attention" } else { "none, or all retried" },
            if number.jobs > 0 { class } else { "quiet" },
        )
    };
    vec![
        StatCard::new("Running", of(&[JobState::Running]), format!("of {} slots", compact(slots)), "running")
            .to("/jobs?state=running"),
        StatCard::new("Ready", ready, held(numbers), "scheduled").to("/jobs?state=scheduled&order=claim"),
        StatCard::new(
            "Delayed/waiting",
            of(&[JobState::Delayed, JobState::Pending, JobState::Waiting]),
            "for a time, a job or a signal",
            "delayed",
        )
        .to("/jobs?state=delayed,pending,waiting"),
        StatCard::new("Retrying", retrying, retries, "retrying").to("/jobs?state=retrying"),
        StatCard::new(
            "On hold",
            of(&[JobState::Suspended, JobState::Created]),
            "suspended or not submitted",
            "suspended",
        )
        .to("/jobs?state=suspended,created"),
        open("Failed", numbers.failed, "failed").to("/jobs?state=failed&redriven=no"),
        open("Dead letters", numbers.dead, "dead_letter").to("/dead"),
        StatCard::new("Workers", live as u64, workers, "quiet").to("/workers"),
    ]
}

/// What prevents ready jobs from starting, if anything does.
fn held(numbers: &StatCards<'_>) -> String {
    let gate = numbers.config.pauses.get(&PauseScope::Gate);
    match numbers.stats.paused {
        0 => "waiting for a free worker".to_owned(),
        held if gate.is_some_and(|hold| hold.is_active(numbers.now)) => {
            format!("{} on hold: processing is paused", compact(held))
        }
        held => format!("{} of them paused", compact(held)),
    }
}

/// When these retrying jobs run next.
pub(in crate::dashboard) fn retries<'a>(
    jobs: impl IntoIterator<Item = &'a JobRecord>,
    now: Timestamp,
) -> String {
    let mut due: Vec<Timestamp> = jobs.into_iter().filter_map(|job| job.retry_at).collect();
    due.sort_unstable();
    let Some(first) = due.first() else { return String::new() };
    let next =
        if *first <= now { "next now".to_owned() } else { format!("next in {}", span(first.since(now))) };
    match due.iter().filter(|at| **at <= now.plus(SOON)).count() {
        0 | 1 => next,
        soon => format!("{next}, {soon} within 5 min"),
    }
}
