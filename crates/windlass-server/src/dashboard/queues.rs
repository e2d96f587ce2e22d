//! Queues: how deep, how old, how fast, paused by whom, and their settings to be changed.

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::response::{IntoResponse, Redirect, Response};
use windlass::job::{QueueName, State};
use windlass::store::caller::Permission;
use windlass::store::command::hold::{Pause, Target};
use windlass::store::config::PauseMode;
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::ListRequest;
use windlass::store::query::queues::QueueLook;
use windlass::store::settings::patch::{Field, QueuePatch, SettingsPatch};
use windlass::store::settings::{FairBy, QueueSettings, Rate};

use super::chart::{self, BarChart};
use super::form::{Fields, Form, Query, address, segment};
use super::format::{compact, span};
use super::guard::Visitor;
use super::mark::Pill;
use super::overview::{QueueLine, lines};
use super::page::{HoldView, Shell, Trouble, show};
use super::row::Row;
use super::{Dashboard, limits};

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    shell: Shell,
    queues: Vec<QueueLine>,
    can_pause: bool,
}

/// `GET /queues`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let looks = board.store().queues(&visitor.caller).await?;
    let config = board.store().config(&visitor.caller).await?;
    let page = QueuesPage {
        shell: Shell::of(&board, &visitor, &config, "queues", "Queues").saying(&query),
        queues: lines(&looks, board.now()),
        can_pause: visitor.may(Permission::Pause),
    };
    show(&page)
}

/// How many jobs are in a state.
pub(super) struct Depth {
    pub(super) pill: Pill,
    pub(super) count: String,
    pub(super) link: String,
}

/// The states that have jobs, each with its number and a link to them.
pub(super) fn depths(
    depth: &windlass::store::query::stats::ByState,
    name: &'static str,
    value: &str,
) -> Vec<Depth> {
    let found = depth.iter().filter(|(_, number)| **number > 0);
    let link =
        |state: &State| address("/jobs", [("state", state.as_str().to_owned()), (name, value.to_owned())]);
    found
        .map(|(state, number)| Depth { pill: Pill(*state), count: compact(*number), link: link(state) })
        .collect()
}

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    shell: Shell,
    name: String,
    link: String,
    paused: Option<HoldView>,
    depths: Vec<Depth>,
    throughput: BarChart,
    oldest: Option<String>,
    waited_half: String,
    waited: String,
    ran_half: String,
    ran: String,
    next: Vec<Row>,
    running: Vec<Row>,
    settings: SettingsView,
    can_pause: bool,
    can_configure: bool,
    whose: String,
}

/// Settings as a form shows them.
pub(super) struct SettingsView {
    max_running: String,
    max_running_per_key: String,
    max_depth: String,
    rate_count: String,
    rate_per: String,
    is_fair: bool,
    aging: String,
}

impl SettingsView {
    fn of(settings: &QueueSettings) -> SettingsView {
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        SettingsView {
            max_running: number(settings.max_running),
            max_running_per_key: number(settings.max_running_per_key),
            max_depth: number(settings.max_depth),
            rate_count: number(settings.rate.map(|rate| rate.count)),
            rate_per: settings.rate.map(|rate| format!("{}s", rate.per.as_secs().max(1))).unwrap_or_default(),
            is_fair: settings.fair_by == Some(FairBy::Tenant),
            aging: settings.aging.map(|aging| format!("{}s", aging.as_secs().max(1))).unwrap_or_default(),
        }
    }
}

fn name_of(text: &str) -> Result<QueueName, Trouble> {
    QueueName::new(text).map_err(|problem| Trouble::not_found(format!("queue: {problem}")))
}

/// `GET /queues/{name}`
pub(super) async fn one(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let look: QueueLook = store.queue(caller, name_of(&name)?).await?;
    let config = store.config(caller).await?;
    let hour = chart::hour(&look.minutes, now);
    let sum = chart::total(&hour);
    let time =
        |time: Option<std::time::Duration>| time.map_or("–".to_owned(), |time| format!("≤ {}", span(time)));
    let jobs = async |state: State, order: Order| {
        let filter = Filter { queue: Some(look.name.clone()), states: vec![state], ..Filter::default() };
        let page = store
            .list(caller, ListRequest { filter, order, cursor: None, limit: limits::GROUPS_SHOWN })
            .await;
        page.map(|page| page.jobs.iter().map(|snapshot| Row::of(snapshot, now)).collect::<Vec<_>>())
    };
    let page = QueuePage {
        shell: Shell::of(&board, &visitor, &config, "queues", format!("Queue {name}")).saying(&query),
        link: format!("/queues/{}", segment(&name)),
        paused: look.paused.as_ref().map(|hold| HoldView::of(hold, now)),
        depths: depths(&look.depth, "queue", &name),
        throughput: chart::throughput(&hour),
        oldest: look.oldest.map(|oldest| span(now.since(oldest))),
        waited_half: time(sum.waited.percentile(0.5)),
        waited: time(sum.waited.percentile(0.95)),
        ran_half: time(sum.ran.percentile(0.5)),
        ran: time(sum.ran.percentile(0.95)),
        next: jobs(State::Scheduled, Order::Claim).await?,
        running: jobs(State::Running, Order::Newest).await?,
        settings: SettingsView::of(&look.settings),
        can_pause: visitor.may(Permission::Pause),
        can_configure: visitor.may(Permission::Configure),
        whose: caller.tenant.as_ref().map_or("everybody".to_owned(), |tenant| format!("tenant {tenant}")),
        name,
    };
    show(&page)
}

/// A pause as a form asks for it.
pub(super) fn pause_of(form: &Fields) -> Result<Pause, Trouble> {
    let mode = match form.get("mode") {
        Some("aggressive") => PauseMode::Aggressive,
        _ => PauseMode::Graceful,
    };
    Ok(Pause { mode, reason: form.text("reason"), expires: form.duration("expires")? })
}

/// Pauses or resumes something as a form asks; the word for what was done.
pub(super) async fn pause_or_resume(
    board: &Dashboard,
    visitor: &Visitor,
    target: Target,
    form: &Fields,
) -> Result<&'static str, Trouble> {
    let (is_changed, done) = match form.need("action")? {
        "pause" => (board.store().pause(&visitor.caller, target, pause_of(form)?).await?, "paused"),
        "resume" => (board.store().resume(&visitor.caller, target, form.text("reason")).await?, "lifted"),
        _ => return Err(Trouble::invalid("there is no such action")),
    };
    Ok(if is_changed { done } else { "unchanged" })
}

/// `POST /queues/{name}/act`
pub(super) async fn act(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Form(form): Form,
) -> Result<Response, Trouble> {
    let done = pause_or_resume(&board, &visitor, Target::Queue(name_of(&name)?), &form).await?;
    if form.get("from") == Some("list") {
        return Ok(Redirect::to(&format!("/queues?done={done}")).into_response());
    }
    Ok(back(&name, done))
}

fn back(name: &str, done: &str) -> Response {
    Redirect::to(&format!("/queues/{}?done={done}", segment(name))).into_response()
}

/// A number that is set, or cleared when left empty.
pub(super) fn number(form: &Fields, name: &str) -> Result<Field<u64>, Trouble> {
    let Some(text) = form.get(name) else { return Ok(Field::Clear) };
    let parsed =
        text.parse().map_err(|_| Trouble::invalid(format!("{name}: `{text}` is not a whole number")))?;
    Ok(Field::Set(parsed))
}

/// `POST /queues/{name}/settings`
pub(super) async fn configure(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Form(form): Form,
) -> Result<Response, Trouble> {
    let rate = match (number(&form, "rate_count")?, form.duration("rate_per")?) {
        (Field::Set(count), Some(per)) => Field::Set(Rate::new(count, per)),
        (Field::Set(_), None) => return Err(Trouble::invalid("rate_per: in how long? Such as 1s or 1m")),
        (Field::Clear | Field::Keep, _) => Field::Clear,
    };
    let patch = QueuePatch {
        max_running: number(&form, "max_running")?,
        max_running_per_key: number(&form, "max_running_per_key")?,
        max_depth: number(&form, "max_depth")?,
        rate,
        fair_by: if form.get("fair").is_some() { Field::Set(FairBy::Tenant) } else { Field::Clear },
        aging: form.duration("aging")?.into(),
        ..QueuePatch::default()
    };
    let patch = SettingsPatch::Queue(name_of(&name)?, patch);
    let done = board.store().configure(&visitor.caller, patch).await?;
    Ok(back(&name, if done.is_changed { "saved" } else { "unchanged" }))
}
