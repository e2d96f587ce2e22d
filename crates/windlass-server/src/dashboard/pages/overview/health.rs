//! Health issues, the most severe first, derived from counters and settings without reading jobs.

use std::time::Duration;

use windlass::alert::AlertStatus;
use windlass::clock::{ClockReport, Timestamp};
use windlass::internal::wire::alert::describe;
use windlass::job::JobState;
use windlass::store::{Alert, Config, CountResult, Minute, PauseScope, QueueInfo};

use crate::dashboard::pages::workers::is_built_in;
use crate::dashboard::parts::chart;
use crate::dashboard::parts::format::{count, percent, span};
use crate::dashboard::parts::queue_row::LATE;
use crate::dashboard::requests::form::segment;

/// A health issue.
pub(in crate::dashboard) struct HealthIssue {
    /// `bad` or `warn`.
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) text: String,
    pub(in crate::dashboard) link: String,
}

/// The overall health.
pub(in crate::dashboard) struct Health {
    /// `bad`, `warn` or empty.
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) title: &'static str,
    pub(in crate::dashboard) concerns: Vec<HealthIssue>,
    /// Number of issues besides those shown.
    pub(in crate::dashboard) more: usize,
}

/// The input for the health checks.
pub(in crate::dashboard) struct HealthInput<'a> {
    pub(in crate::dashboard) config: &'a Config,
    pub(in crate::dashboard) infos: &'a [QueueInfo],
    /// The last five complete minutes.
    pub(in crate::dashboard) recent: &'a Minute,
    /// The last hour.
    pub(in crate::dashboard) hour: &'a Minute,
    /// Failed jobs that were not redriven.
    pub(in crate::dashboard) failed: CountResult,
    /// Dead letters that were not redriven.
    pub(in crate::dashboard) dead: CountResult,
    /// Changes whose effects are not applied to all jobs yet.
    pub(in crate::dashboard) cascades: u64,
    pub(in crate::dashboard) now: Timestamp,
    pub(in crate::dashboard) clock: ClockReport,
    /// The alerts that the visitor can see.
    pub(in crate::dashboard) alerts: &'a [Alert],
}

/// The share of failed attempts in percent that is reported.
const FAILURES_NOTABLE: f64 = 10.0;
/// How many issues are shown, the most severe first.
const CONCERNS_SHOWN: usize = 8;

impl Health {
    pub(in crate::dashboard) fn new(signs: &HealthInput<'_>) -> Health {
        let mut concerns = Vec::new();
        clock(signs, &mut concerns);
        alerts(signs, &mut concerns);
        attempts(signs, &mut concerns);
        unresolved(signs, &mut concerns);
        queues(signs, &mut concerns);
        workers(signs, &mut concerns);
        pauses(signs, &mut concerns);
        cascades(signs, &mut concerns);
        // A stable sort: within each class the order above stays.
        concerns.sort_by_key(|concern| concern.class != "bad");
        let gate = signs.config.pauses.get(&PauseScope::Gate);
        let (class, title) = match concerns.first().map(|concern| concern.class) {
            _ if gate.is_some_and(|hold| hold.is_active(signs.now)) => {
                ("bad", "Stopped: processing is paused")
            }
            Some("bad") => ("bad", "Needs attention"),
            Some(_) => ("warn", "Degraded"),
            None => ("", "Healthy"),
        };
        let more = concerns.len().saturating_sub(CONCERNS_SHOWN);
        concerns.truncate(CONCERNS_SHOWN);
        Health { class, title, concerns, more }
    }
}

fn clock(signs: &HealthInput<'_>, found: &mut Vec<HealthIssue>) {
    let ClockReport { ahead_ms, is_believed, lifetimes_from, .. } = signs.clock;
    let by = span(Duration::from_millis(ahead_ms.unsigned_abs()));
    let way = if ahead_ms > 0 { "ahead of" } else { "behind" };
    let link = "/settings#clock".to_owned();
    if !is_believed {
        let text = format!("the wall clock is {by} {way} store time and is not trusted");
        found.push(HealthIssue { class: "bad", text, link });
    } else if signs.clock.is_off() {
        let text =
            format!("the wall clock is {by} {way} store time, which runs at half speed until they meet");
        found.push(HealthIssue { class: "warn", text, link });
    } else if let Some(until) = lifetimes_from {
        let left = span(until.since(signs.now));
        let text =
            format!("store time jumped at startup: no lifetime expires and nothing is pruned for {left}");
        found.push(HealthIssue { class: "warn", text, link });
    }
}

fn alerts(signs: &HealthInput<'_>, found: &mut Vec<HealthIssue>) {
    let is_active = |alert: &&Alert| alert.pause_now(signs.now).is_none();
    let firing = signs.alerts.iter().filter(|alert| alert.state.status == AlertStatus::Firing);
    for alert in firing.filter(is_active) {
        let (name, since) = (&alert.name, span(signs.now.since(alert.state.since)));
        let text = format!("alert {name} has been firing for {since}: {}", describe(alert));
        found.push(HealthIssue { class: "bad", text, link: "/alerts".into() });
    }
}

fn attempts(signs: &HealthInput<'_>, found: &mut Vec<HealthIssue>) {
    let share = percent(chart::bad(signs.recent), chart::ended(signs.recent)).unwrap_or(0.0);
    if share >= FAILURES_NOTABLE {
        let text = format!("{share:.0}% of attempts failed in the last five minutes");
        found.push(HealthIssue {
            class: "bad",
            text,
            link: "/jobs?state=failed,dead_letter,retrying".into(),
        });
    }
}

fn unresolved(signs: &HealthInput<'_>, found: &mut Vec<HealthIssue>) {
    let kinds = [
        (signs.failed, signs.hour.failed, ["failed job", "failed jobs"], "/jobs?state=failed&redriven=no"),
        (signs.dead, signs.hour.dead_letter, ["dead letter", "dead letters"], "/dead"),
    ];
    for (open, fresh, [one, many], link) in kinds.into_iter().filter(|(open, ..)| open.jobs > 0) {
        let number = at_least(open);
        let what = format!("{number} {}", if number == "1" { one } else { many });
        // How many of the last hour were retried is not known, so no number is given for it.
        let text = if fresh > 0 { what } else { format!("{what}, none in the last hour") };
        found.push(HealthIssue { class: if fresh > 0 { "bad" } else { "warn" }, text, link: link.into() });
    }
}

fn queues(signs: &HealthInput<'_>, found: &mut Vec<HealthIssue>) {
    let now = signs.now;
    let workers = signs.config.workers.values();
    let live: Vec<_> = workers.filter(|worker| !worker.is_lost && !worker.is_silent(now)).collect();
    for info in signs.infos.iter().filter(|info| info.paused.is_none()) {
        let ready = info.depth.get(&JobState::Scheduled).copied().unwrap_or(0);
        let is_served =
            live.iter().any(|worker| worker.queues.is_empty() || worker.queues.contains(&info.name));
        let link = format!("/queues/{}", segment(info.name.as_str()));
        if ready > 0 && !is_served {
            let jobs = if ready == 1 { "1 job is".to_owned() } else { format!("{} jobs are", count(ready)) };
            let text = format!("{jobs} ready in {}, but no worker takes jobs from it", info.name);
            found.push(HealthIssue { class: "bad", text, link });
        } else if let Some(oldest) = info.oldest.filter(|oldest| now.since(*oldest) > LATE) {
            let text = format!("the oldest job in {} has waited {}", info.name, span(now.since(oldest)));
            found.push(HealthIssue { class: "warn", text, link });
        }
    }
}

fn workers(signs: &HealthInput<'_>, found: &mut Vec<HealthIssue>) {
    let all = signs.config.workers.values().filter(|worker| !is_built_in(worker));
    let lost = all.clone().filter(|worker| worker.is_lost || worker.is_silent(signs.now)).count();
    if lost > 0 {
        let text = format!("{lost} of {} workers were lost in the last hour", all.count());
        found.push(HealthIssue { class: "warn", text, link: "/workers".into() });
    }
}

fn pauses(signs: &HealthInput<'_>, found: &mut Vec<HealthIssue>) {
    let (config, now) = (signs.config, signs.now);
    let holds = config.pauses.values().filter(|hold| hold.scope != PauseScope::Gate && hold.is_active(now));
    let schedules = config.schedules.values().filter(|schedule| schedule.pause_now(now).is_some());
    let said = |number: usize, one: &str, many: &str| match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{number} {many}")),
    };
    let parts = [
        said(holds.count(), "active pause", "active pauses"),
        said(schedules.count(), "paused schedule", "paused schedules"),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if !text.is_empty() {
        found.push(HealthIssue { class: "warn", text, link: "#pauses".into() });
    }
}

fn cascades(signs: &HealthInput<'_>, found: &mut Vec<HealthIssue>) {
    let what = match signs.cascades {
        0 => return,
        1 => "a change".to_owned(),
        number => format!("{} changes", count(number)),
    };
    let text = format!("the effects of {what} are still being applied to dependent jobs");
    found.push(HealthIssue { class: "warn", text, link: "/jobs?state=pending".into() });
}

/// A count that may be a lower bound.
pub(in crate::dashboard) fn at_least(counted: CountResult) -> String {
    format!("{}{}", count(counted.jobs), if counted.is_all { "" } else { "+" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(dead: u64, fresh: u64, config: &Config) -> Health {
        let hour = Minute { dead_letter: fresh, ..Minute::default() };
        let dead = CountResult { jobs: dead, is_all: dead < 499 };
        let now = Timestamp::from_millis(0);
        let clock = off(0, true);
        let recent = Minute::default();
        Health::new(&HealthInput {
            config,
            infos: &[],
            recent: &recent,
            hour: &hour,
            failed: CountResult { jobs: 0, is_all: true },
            dead,
            cascades: 0,
            now,
            clock,
            alerts: &[],
        })
    }

    fn off(ahead_ms: i64, is_believed: bool) -> ClockReport {
        let now = Timestamp::from_millis(0);
        ClockReport { now, wall: now, ahead_ms, is_believed, doubted_since: None, lifetimes_from: None }
    }

    #[test]
    fn a_wall_clock_that_is_not_believed_is_a_concern() {
        let (config, minute) = (Config::default(), Minute::default());
        let dead = CountResult { jobs: 0, is_all: true };
        let said = |clock: ClockReport| {
            let now = clock.now;
            let signs = HealthInput {
                config: &config,
                infos: &[],
                recent: &minute,
                hour: &minute,
                failed: dead,
                dead,
                cascades: 0,
                now,
                clock,
                alerts: &[],
            };
            let health = Health::new(&signs);
            (health.class, health.concerns.first().map(|concern| concern.text.clone()).unwrap_or_default())
        };
        let (class, text) = said(off(600_000, false));
        assert_eq!(class, "bad");
        assert!(text.contains("ahead of store time and is not trusted"), "{text}");
        let (class, text) = said(off(-600_000, true));
        assert_eq!(class, "warn");
        assert!(text.contains("behind store time, which runs at half speed"), "{text}");
        assert_eq!(said(off(59_000, true)), ("", String::new()));
    }

    #[test]
    fn dead_letters_and_the_gate_are_never_well() {
        let mut config = Config::default();
        assert_eq!(health(0, 0, &config).title, "Healthy");
        let old = health(1, 0, &config);
        assert_eq!(
            (old.class, old.concerns[0].text.as_str()),
            ("warn", "1 dead letter, none in the last hour")
        );
        let fresh = health(499, 3, &config);
        assert_eq!((fresh.class, fresh.title), ("bad", "Needs attention"));
        assert_eq!(fresh.concerns[0].text, "499+ dead letters");
        let gate = windlass::store::PauseRecord {
            scope: PauseScope::Gate,
            mode: windlass::store::PauseMode::Graceful,
            reason: None,
            by: "ada".into(),
            since: Timestamp::from_millis(0),
            expires_at: None,
        };
        config.pauses.insert(PauseScope::Gate, gate);
        assert_eq!(health(0, 0, &config).title, "Stopped: processing is paused");
    }
}
