//! The first page: is it healthy, in one glance. Everything on it comes from counters and settings, but for the recent
//! failures, of which a bounded number is looked at.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::State as AxumState;
use axum::response::Response;
use windlass::clock::Timestamp;
use windlass::job::State;
use windlass::store::caller::Permission;
use windlass::store::config::Config;
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::ListRequest;
use windlass::store::query::queues::QueueLook;
use windlass::store::query::snapshot::Snapshot;
use windlass::store::rates::Minute;

use super::chart::{self, BarChart, LineChart};
use super::failure::{self, Group};
use super::form::{Query, segment};
use super::format::{Moment, compact, percent, real, span};
use super::guard::Visitor;
use super::health::{Health, Signs};
use super::page::{HoldView, Shell, Trouble, show};
use super::row::Row;
use super::tile::{self, Numbers, Tile};
use super::{Dashboard, limits, schedules};

/// A queue as a line.
pub(super) struct QueueLine {
    pub(super) name: String,
    pub(super) link: String,
    pub(super) waiting_text: String,
    pub(super) running: String,
    pub(super) retrying: String,
    pub(super) dead: String,
    pub(super) oldest: Option<String>,
    pub(super) is_late: bool,
    pub(super) spark: String,
    pub(super) rate: String,
    /// Width of its bar, in percent.
    pub(super) share: String,
    pub(super) paused: Option<HoldView>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Shell,
    health: Health,
    tiles: Vec<Tile>,
    throughput: BarChart,
    failures: LineChart,
    per_minute: String,
    failure_share: String,
    waited: String,
    ran: String,
    queues: Vec<QueueLine>,
    queues_more: usize,
    pauses: Vec<PauseView>,
    groups: Vec<Group>,
    running: Vec<Row>,
    is_empty: bool,
}

/// A pause in force, and how this visitor lifts it.
struct PauseView {
    hold: HoldView,
    /// Where the form goes that lifts it, for who may.
    lift: Option<String>,
}

/// A job that waited longer than this for a worker is late: with idle workers it takes milliseconds.
pub(super) const LATE: Duration = Duration::from_secs(60);
/// Running jobs on this page.
const RUNNING_SHOWN: usize = 8;

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
    let retrying = sample(&board, &visitor, &[State::Retrying], limits::RETRIES_SAMPLED).await?;
    let failed =
        sample(&board, &visitor, &[State::Failed, State::DeadLetter], limits::FAILURES_SAMPLED).await?;
    let open = Filter { states: vec![State::DeadLetter], is_redriven: Some(false), ..Filter::default() };
    let dead = store.count_up_to(caller, &open, limits::DEAD_LETTERS_COUNTED).await?;
    let running = sample(&board, &visitor, &[State::Running], RUNNING_SHOWN).await?;
    let hour = chart::hour(&together(&looks), now);
    let sum = chart::total(&hour);
    let recent = chart::total(hour.iter().rev().skip(1).take(5));
    let failing = failed.iter().chain(&retrying).map(|snapshot| &snapshot.job);
    let mut groups = failure::group(failing, now);
    groups.truncate(limits::GROUPS_SHOWN);
    let are_all = stats.states.get(&State::Retrying).is_some_and(|all| *all <= retrying.len() as u64);
    let retries =
        if are_all { tile::retries(retrying.iter().map(|one| &one.job), now) } else { String::new() };
    let signs = Signs { config: &config, looks: &looks, recent: &recent, hour: &sum, dead, now };
    let numbers = Numbers { stats: &stats, config: &config, hour: &sum, dead, retries, now };
    let mut queues = lines(&looks, now);
    // What needs somebody comes first; among the others the order stays, whatever their numbers do.
    queues.sort_by_key(|line| (!line.is_late, line.paused.is_none()));
    let queues_more = queues.len().saturating_sub(limits::QUEUES_SHOWN);
    queues.truncate(limits::QUEUES_SHOWN);
    let page = Overview {
        shell: Shell::of(&board, &visitor, &config, "overview", "Overview").saying(&query),
        health: Health::of(&signs),
        tiles: tile::tiles(&numbers),
        throughput: chart::throughput(&hour),
        failures: chart::failure_rate(&hour),
        per_minute: format!("{:.0}", real(chart::ended(&recent)) / 5.0),
        failure_share: format!("{:.1}%", percent(chart::bad(&sum), chart::ended(&sum)).unwrap_or(0.0)),
        waited: sum.waited.percentile(0.95).map_or("–".into(), |time| format!("≤ {}", span(time))),
        ran: sum.ran.percentile(0.95).map_or("–".into(), |time| format!("≤ {}", span(time))),
        queues,
        queues_more,
        pauses: pauses(&config, &visitor, now),
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

/// The newest jobs in some states; none that was redriven, which is looked after.
async fn sample(
    board: &Dashboard,
    visitor: &Visitor,
    states: &[State],
    limit: usize,
) -> Result<Vec<Snapshot>, Trouble> {
    let is_redriven = states.iter().any(|state| state.is_final()).then_some(false);
    let filter = Filter { states: states.to_vec(), is_redriven, ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit };
    Ok(board.store().list(&visitor.caller, request).await?.jobs)
}

/// Everything that is paused now: what pauses hold, then schedules.
fn pauses(config: &Config, visitor: &Visitor, now: Timestamp) -> Vec<PauseView> {
    let holds = config.holds.values().filter(|hold| hold.is_active(now));
    let holds = holds.map(|hold| PauseView { hold: HoldView::among(config, hold, now), lift: None });
    let schedules = config.schedules.values().filter_map(|schedule| {
        let hold = HoldView::of_schedule(schedule, now)?;
        let lift = visitor.may(Permission::Schedule).then(|| schedules::act_link(schedule));
        Some(PauseView { hold, lift })
    });
    holds.chain(schedules).collect()
}

/// Queues as lines, as deep as the deepest is wide.
pub(super) fn lines(looks: &[QueueLook], now: Timestamp) -> Vec<QueueLine> {
    let waiting = |look: &QueueLook| -> u64 {
        let open = look.depth.iter().filter(|(state, _)| !state.is_final() && **state != State::Running);
        open.map(|(_, number)| *number).sum()
    };
    let deepest = looks.iter().map(waiting).max().unwrap_or(0).max(1);
    let line = |look: &QueueLook| {
        let of = |state: State| compact(look.depth.get(&state).copied().unwrap_or(0));
        let hour = chart::hour(&look.minutes, now);
        let recent = chart::total(hour.iter().rev().skip(1).take(5));
        let late = look.oldest.map(|oldest| now.since(oldest));
        QueueLine {
            name: look.name.to_string(),
            link: format!("/queues/{}", segment(look.name.as_str())),
            waiting_text: compact(waiting(look)),
            running: of(State::Running),
            retrying: of(State::Retrying),
            dead: of(State::DeadLetter),
            oldest: late.map(span),
            is_late: late.is_some_and(|late| late > LATE),
            spark: chart::spark(&hour),
            rate: format!("{:.0}", real(chart::ended(&recent)) / 5.0),
            share: format!("{:.1}", real(waiting(look)) * 100.0 / real(deepest)),
            paused: look.paused.as_ref().map(|hold| HoldView::of(hold, now)),
        }
    };
    looks.iter().map(line).collect()
}

/// A moment, if there is one.
pub(super) fn moment(at: Option<Timestamp>, now: Timestamp) -> Option<Moment> {
    at.map(|at| Moment::new(at, now))
}
