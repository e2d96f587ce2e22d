//! The first page: is it healthy, in one glance. Everything on it comes from counters and settings, but for the recent
//! failures, of which a bounded number is looked at.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State as AxumState;
use axum::response::Response;
use windlass::clock::Timestamp;
use windlass::job::State;
use windlass::store::config::{Config, Scope};
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::ListRequest;
use windlass::store::query::queues::QueueLook;
use windlass::store::query::stats::Stats;
use windlass::store::rates::Minute;

use super::chart::{self, BarChart, LineChart};
use super::failure::{self, Group};
use super::form::{Query, segment};
use super::format::{Moment, at_most, compact, count, percent, real, span};
use super::guard::Visitor;
use super::page::{HoldView, Shell, Trouble, show};
use super::queue_line::{LATE, QueueLine, lines};
use super::row::Row;
use super::{Dashboard, limits};

/// Something a person should look at.
pub(super) struct Concern {
    /// `bad` or `warn`.
    pub(super) class: &'static str,
    pub(super) text: String,
    pub(super) link: String,
}

/// A number with its meaning.
pub(super) struct Tile {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) exact: String,
    pub(super) note: String,
    pub(super) link: &'static str,
    pub(super) class: &'static str,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Shell,
    concerns: Vec<Concern>,
    tiles: Vec<Tile>,
    throughput: BarChart,
    failures: LineChart,
    per_minute: String,
    failure_share: String,
    waited: String,
    ran: String,
    queues: Vec<QueueLine>,
    holds: Vec<HoldView>,
    groups: Vec<Group>,
    running: Vec<Row>,
    is_empty: bool,
    is_bad: bool,
}

/// Running jobs on this page.
const RUNNING_SHOWN: usize = 8;
/// A share of failed attempts, in percent, that is worth a word.
const FAILURES_NOTABLE: f64 = 10.0;

/// `GET /`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let config = store.config(caller).await?;
    let stats = store.totals(caller).await?;
    let looks = store.queues(caller).await?;
    let failed = sample(&board, &visitor, &[State::Failed, State::DeadLetter, State::Retrying]).await?;
    let filter = Filter { states: vec![State::Running], ..Filter::default() };
    let running = ListRequest { filter, order: Order::Newest, cursor: None, limit: RUNNING_SHOWN };
    let running = store.list(caller, running).await?.jobs;
    let hour = chart::hour(&together(&looks), now);
    let sum = chart::total(&hour);
    let recent = chart::total(hour.iter().rev().skip(1).take(5));
    let mut groups = failure::group(failed.iter().map(|snapshot| &snapshot.job), now);
    groups.truncate(limits::GROUPS_SHOWN);
    let concerns = concerns(&config, &looks, &recent, now);
    let shell = Shell::of(&board, &visitor, &config, "overview", "Overview").saying(&query);
    let page = Overview {
        is_bad: shell.gate.is_some() || concerns.iter().any(|concern| concern.class == "bad"),
        shell,
        concerns,
        tiles: tiles(&stats, &config, now),
        throughput: chart::throughput(&hour),
        failures: chart::failure_rate(&hour),
        per_minute: format!("{:.0}", real(chart::ended(&recent)) / 5.0),
        failure_share: format!("{:.1}%", percent(chart::bad(&sum), chart::ended(&sum)).unwrap_or(0.0)),
        waited: sum.waited.percentile(0.95).map_or("–".into(), at_most),
        ran: sum.ran.percentile(0.95).map_or("–".into(), at_most),
        queues: lines(&looks, &visitor, now),
        holds: config
            .holds
            .values()
            .filter(|hold| hold.is_active(now))
            .map(|hold| HoldView::of(hold, now))
            .collect(),
        groups,
        running: running.iter().map(|snapshot| Row::of(snapshot, now)).collect(),
        is_empty: stats.states.values().all(|number| *number == 0) && sum.submitted == 0,
    };
    show(&page)
}

/// What happened in all queues, minute by minute.
fn together(looks: &[QueueLook]) -> BTreeMap<i64, Minute> {
    let mut minutes: BTreeMap<i64, Minute> = BTreeMap::new();
    for (minute, counts) in looks.iter().flat_map(|look| &look.minutes) {
        minutes.entry(*minute).or_default().merge(counts);
    }
    minutes
}

/// The newest jobs in some states, as many as are looked at for groups.
pub(super) async fn sample(
    board: &Dashboard,
    visitor: &Visitor,
    states: &[State],
) -> Result<Vec<windlass::store::query::snapshot::Snapshot>, Trouble> {
    let filter = Filter { states: states.to_vec(), ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: limits::FAILURES_SAMPLED };
    Ok(board.store().list(&visitor.caller, request).await?.jobs)
}

fn tiles(stats: &Stats, config: &Config, now: Timestamp) -> Vec<Tile> {
    let of = |states: &[State]| -> u64 { states.iter().filter_map(|state| stats.states.get(state)).sum() };
    let live =
        config.workers.values().filter(|worker| !worker.is_lost && !worker.is_silent(now)).count() as u64;
    let slots: u64 = config
        .workers
        .values()
        .filter(|worker| !worker.is_lost && !worker.is_silent(now))
        .map(|worker| u64::from(worker.concurrency))
        .sum();
    let lost = config.workers.len() as u64 - live;
    let tile = |name, number: u64, note: String, link, class| Tile {
        name,
        value: compact(number),
        exact: count(number),
        note,
        link,
        class,
    };
    let dead = of(&[State::DeadLetter]);
    let running = of(&[State::Running]);
    let held = of(&[State::Suspended, State::Created]);
    vec![
        tile("Running", running, format!("of {} slots", compact(slots)), "/jobs?state=running", "running"),
        tile(
            "Ready",
            of(&[State::Scheduled]),
            "may be claimed now".into(),
            "/jobs?state=scheduled&order=claim",
            "scheduled",
        ),
        tile(
            "Later",
            of(&[State::Delayed, State::Pending, State::Waiting]),
            "delayed, blocked or parked".into(),
            "/jobs?state=delayed,pending,waiting",
            "delayed",
        ),
        tile(
            "Retrying",
            of(&[State::Retrying]),
            "failed, will run again".into(),
            "/jobs?state=retrying",
            "retrying",
        ),
        tile("Held", held, "suspended or not submitted".into(), "/jobs?state=suspended,created", "suspended"),
        tile(
            "Dead letters",
            dead,
            "need a person".into(),
            "/dead",
            if dead > 0 { "dead_letter" } else { "quiet" },
        ),
        tile(
            "Workers",
            live,
            if lost > 0 { format!("{lost} lost") } else { "all heard of".into() },
            "/workers",
            "quiet",
        ),
    ]
}

/// What a person should look at, gravest first.
fn concerns(config: &Config, looks: &[QueueLook], recent: &Minute, now: Timestamp) -> Vec<Concern> {
    let mut found = Vec::new();
    let live = config.workers.values().filter(|worker| !worker.is_lost && !worker.is_silent(now));
    let live: Vec<_> = live.collect();
    let lost = config.workers.len() - live.len();
    let share = percent(chart::bad(recent), chart::ended(recent)).unwrap_or(0.0);
    if share >= FAILURES_NOTABLE {
        let text = format!("{share:.0}% of attempts failed in the last five minutes");
        found.push(Concern { class: "bad", text, link: "/jobs?state=failed,dead_letter,retrying".into() });
    }
    for look in looks {
        let ready = look.depth.get(&State::Scheduled).copied().unwrap_or(0);
        let is_paused = look.paused.is_some();
        let is_served =
            live.iter().any(|worker| worker.queues.is_empty() || worker.queues.contains(&look.name));
        let link = format!("/queues/{}", segment(look.name.as_str()));
        if ready > 0 && !is_served && !is_paused {
            let text =
                format!("{} jobs are ready in {} and no worker takes from it", count(ready), look.name);
            found.push(Concern { class: "bad", text, link });
        } else if let Some(oldest) = look.oldest.filter(|oldest| now.since(*oldest) > LATE && !is_paused) {
            let text = format!("the oldest job in {} has waited {}", look.name, span(now.since(oldest)));
            found.push(Concern { class: "warn", text, link });
        }
    }
    if lost > 0 {
        let text = format!("{lost} of {} workers fell silent within the hour", config.workers.len());
        found.push(Concern { class: "warn", text, link: "/workers".into() });
    }
    let paused =
        config.holds.values().filter(|hold| hold.scope != Scope::Gate && hold.is_active(now)).count();
    if paused > 0 {
        let text = if paused == 1 {
            "1 pause is in force".to_owned()
        } else {
            format!("{paused} pauses are in force")
        };
        found.push(Concern { class: "warn", text, link: "#pauses".into() });
    }
    found
}

/// A moment, if there is one.
pub(super) fn moment(at: Option<Timestamp>, now: Timestamp) -> Option<Moment> {
    at.map(|at| Moment::new(at, now))
}
