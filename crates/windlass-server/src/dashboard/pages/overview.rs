//! The overview page. All its data comes from counters and settings, except for a limited number of recent failures.

pub(in crate::dashboard) mod health;

use std::collections::BTreeMap;

use askama::Template;
use axum::response::Response;
use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass::store::caller::Permission;
use windlass::store::{
    Config, CountResult, Filter, HistorySubject, ListRequest, Minute, Order, QueueInfo, Snapshot,
};

use crate::dashboard::page::{Layout, PageError, PauseView, show};
use crate::dashboard::pages::overview::health::{Health, HealthInput, at_least};
use crate::dashboard::parts::chart;
use crate::dashboard::parts::failure::open::OpenFailures;
use crate::dashboard::parts::failure::{self, Group};
use crate::dashboard::parts::format::{Moment, at_most, real};
use crate::dashboard::parts::history::HistoryView;
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::parts::queue_row::{QueueRow, lines};
use crate::dashboard::parts::stat_card::{self, StatCard, StatCards};
use crate::dashboard::requests::context::PageContext;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits, pages::schedules, requests::resume};

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    layout: Layout,
    health: Health,
    tiles: Vec<StatCard>,
    history: HistoryView,
    per_minute: String,
    waited: String,
    ran: String,
    queues: Vec<QueueRow>,
    queues_more: usize,
    pauses: Vec<ActivePause>,
    groups: Vec<Group>,
    running: Vec<Row>,
    is_empty: bool,
}

/// An active pause, and how this visitor can resume it.
struct ActivePause {
    hold: PauseView,
    /// The scope field of the resume form, if the visitor may resume it.
    scope: Option<String>,
    /// The action of a schedule's resume form, if the visitor may resume it.
    act: Option<String>,
}

/// Running jobs on this page.
const RUNNING_SHOWN: usize = 8;

/// `GET /`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, config } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let alerts = store.alerts(caller).await?;
    let stats = store.totals(caller).await?;
    let infos = store.queues(caller).await?;
    let retrying = sample(board, visitor, &[JobState::Retrying], limits::RETRIES_SAMPLED).await?;
    let failed =
        sample(board, visitor, &[JobState::Failed, JobState::DeadLetter], limits::FAILURES_SAMPLED).await?;
    let open = async |state| {
        let filter = Filter { states: vec![state], is_redriven: Some(false), ..Filter::default() };
        store.count_up_to(caller, &filter, limits::DEAD_LETTERS_COUNTED).await
    };
    let (unresolved, dead) = (open(JobState::Failed).await?, open(JobState::DeadLetter).await?);
    let running = sample(board, visitor, &[JobState::Running], RUNNING_SHOWN).await?;
    let hour = chart::hour(&together(&infos), now);
    let sum = chart::total(&hour);
    let recent = chart::total(hour.iter().rev().skip(1).take(5));
    let failing = failed.iter().chain(&retrying).map(|snapshot| &snapshot.job);
    let mut groups = failure::group(failing, now);
    groups.truncate(limits::GROUPS_SHOWN);
    let are_all = stats.states.get(&JobState::Retrying).is_some_and(|all| *all <= retrying.len() as u64);
    let retries =
        if are_all { stat_card::retries(retrying.iter().map(|one| &one.job), now) } else { String::new() };
    let signs = HealthInput {
        config,
        infos: &infos,
        recent: &recent,
        hour: &sum,
        failed: unresolved,
        dead,
        cascades: stats.cascades,
        now,
        clock: board.store().clock(),
        alerts: &alerts,
    };
    let numbers = StatCards { stats: &stats, config, failed: unresolved, dead, retries, now };
    let failures = OpenFailures::new(
        failed.iter().map(|snapshot| &snapshot.job),
        failed.len() == limits::FAILURES_SAMPLED,
    );
    let mut queues = lines(&infos, visitor, &failures, now);
    // Queues with issues come first; the order of the others does not depend on their numbers.
    queues.sort_by_key(|line| (!line.is_late, line.paused.is_none()));
    let queues_more = queues.len().saturating_sub(limits::QUEUES_SHOWN);
    queues.truncate(limits::QUEUES_SHOWN);
    let page = Overview {
        layout: Layout {
            failures: together_shown(unresolved, dead),
            ..context.layout("overview", "Overview")
        },
        health: Health::new(&signs),
        tiles: stat_card::tiles(&numbers),
        history: HistoryView::load(board, visitor, HistorySubject::All, "/", query).await?,
        per_minute: format!("{:.0}", real(chart::ended(&recent)) / 5.0),
        waited: sum.waited.percentile(0.95).map_or("–".into(), at_most),
        ran: sum.ran.percentile(0.95).map_or("–".into(), at_most),
        queues,
        queues_more,
        pauses: pauses(config, visitor, now),
        groups,
        running: running.iter().map(|snapshot| Row::new(snapshot, now)).collect(),
        is_empty: stats.states.values().all(|number| *number == 0) && sum.submitted == 0,
    };
    show(&page)
}

/// How many failures are open, for the title; empty if there are none.
fn together_shown(failed: CountResult, dead: CountResult) -> String {
    let sum = CountResult { jobs: failed.jobs + dead.jobs, is_all: failed.is_all && dead.is_all };
    if sum.jobs == 0 { String::new() } else { at_least(sum) }
}

/// The counts of all queues by minute.
fn together(infos: &[QueueInfo]) -> BTreeMap<i64, Minute> {
    let mut minutes: BTreeMap<i64, Minute> = BTreeMap::new();
    for (minute, counts) in infos.iter().flat_map(|info| &info.minutes) {
        minutes.entry(*minute).or_default().merge(counts);
    }
    minutes
}

/// The newest jobs in some states, without redriven ones.
async fn sample(
    board: &Dashboard,
    visitor: &Visitor,
    states: &[JobState],
    limit: usize,
) -> Result<Vec<Snapshot>, PageError> {
    let is_redriven = states.iter().any(|state| state.is_final()).then_some(false);
    let filter = Filter { states: states.to_vec(), is_redriven, ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit };
    Ok(board.store().list(&visitor.caller, request).await?.jobs)
}

/// All active pauses, then paused schedules.
fn pauses(config: &Config, visitor: &Visitor, now: Timestamp) -> Vec<ActivePause> {
    let holds = config.pauses.values().filter(|hold| hold.is_active(now));
    let holds = holds.map(|hold| ActivePause {
        hold: PauseView::among(config, hold, now),
        scope: resume::scope(hold, visitor, config),
        act: None,
    });
    let schedules = config.schedules.values().filter_map(|schedule| {
        let hold = PauseView::of_schedule(schedule, now)?;
        let act = visitor.may(Permission::Schedule).then(|| schedules::act_link(schedule));
        Some(ActivePause { hold, scope: None, act })
    });
    holds.chain(schedules).collect()
}

/// A time, if there is one.
pub(in crate::dashboard) fn moment(at: Option<Timestamp>, now: Timestamp) -> Option<Moment> {
    at.map(|at| Moment::new(at, now))
}
