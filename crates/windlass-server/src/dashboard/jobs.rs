//! The list of jobs: filters as chips, an address that can be shared, pages that stay right while jobs come and go.

use askama::Template;
use axum::extract::State as AxumState;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::job::{JobId, State};
use windlass::store::caller::Permission;
use windlass::store::filter::Order;
use windlass::store::query::list::{Cursor, ListRequest, Page};
use windlass::store::query::stats::{ByState, Stats};

use super::filter::{Asked, Chip, order, order_word};
use super::form::{Fields, Query, address};
use super::format::compact;
use super::guard::Visitor;
use super::page::{Shell, Trouble, show};
use super::row::Row;
use super::settings::offered;
use super::{Dashboard, limits};

/// A state to choose, with the number of its jobs.
struct Tab {
    name: String,
    word: &'static str,
    count: String,
    link: String,
    is_chosen: bool,
    is_empty: bool,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    shell: Shell,
    asked: Asked,
    chips: Vec<Chip>,
    tabs: Vec<Tab>,
    rows: Vec<Row>,
    types: Vec<String>,
    queues: Vec<String>,
    tenants: Vec<String>,
    order: &'static str,
    order_links: Vec<(&'static str, &'static str, String)>,
    next: Option<String>,
    /// What to know about a page that does not show all it could.
    remark: Option<&'static str>,
    first: Option<String>,
    can_act: bool,
    show_tenant: bool,
}

/// `GET /jobs`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let stats = store.totals(caller).await?;
    if let Some(text) = query.get("q") {
        return Ok(search(&board, &visitor, text, &stats).await?.into_response());
    }
    let config = store.config(caller).await?;
    let asked = Asked::read(&query);
    let order = order(&query, &asked);
    let page = list(&board, &visitor, &asked, order, &query).await?;
    let is_later = query.get("cursor").is_some();
    let pairs =
        || asked.pairs().chain((order != Order::Newest).then(|| ("order", order_word(order).to_owned())));
    let next = page.next.map(|cursor| address("/jobs", pairs().chain([("cursor", cursor.to_string())])));
    let remark = remark(page.jobs.len(), next.is_some());
    let shown = Jobs {
        shell: Shell::of(&board, &visitor, &config, "jobs", "Jobs").saying(&query),
        chips: asked.chips(),
        tabs: tabs(&asked, &stats),
        rows: page.jobs.iter().map(|snapshot| Row::of(snapshot, now)).collect(),
        types: offered(stats.types.keys()),
        queues: offered(stats.queues.keys()),
        tenants: offered(stats.tenants.keys()),
        order: order_word(order),
        order_links: order_links(&asked),
        remark,
        next,
        first: is_later.then(|| address("/jobs", pairs())),
        can_act: visitor.may(Permission::ManageJob),
        show_tenant: visitor.caller.tenant.is_none() && stats.tenants.len() > 1,
        asked,
    };
    show(&shown)
}

/// What to know about a page that does not show all it could.
fn remark(shown: usize, has_more: bool) -> Option<&'static str> {
    let is_early = has_more && shown < limits::JOBS_PER_PAGE;
    is_early
        .then_some("This page ends early, having looked at as much as one may: there may be more that fit.")
}

/// The orders to choose from; that of claims is one of jobs that can be claimed.
fn order_links(asked: &Asked) -> Vec<(&'static str, &'static str, String)> {
    let link = |word: &str| address("/jobs", asked.pairs().chain([("order", word.to_owned())]));
    let ready = asked.with_state(Some(State::Scheduled));
    vec![
        ("newest", "Newest first", link("newest")),
        ("oldest", "Oldest first", link("oldest")),
        ("claim", "As claimed", format!("{ready}&order=claim")),
    ]
}

/// One page.
async fn list(
    board: &Dashboard,
    visitor: &Visitor,
    asked: &Asked,
    order: Order,
    query: &Fields,
) -> Result<Page, Trouble> {
    let cursor = query.get("cursor").map(str::parse::<Cursor>).transpose();
    let cursor = cursor
        .map_err(|_| Trouble::invalid("the address of this page is damaged: start from the first one"))?;
    let request = ListRequest { filter: asked.filter()?, order, cursor, limit: limits::JOBS_PER_PAGE };
    Ok(board.store().list(&visitor.caller, request).await?)
}

/// States with their numbers, as far as counters know them: within the queue, type or tenant asked for.
fn tabs(asked: &Asked, stats: &Stats) -> Vec<Tab> {
    let none = ByState::new();
    let within = |name: &str| !asked.get(name).is_empty();
    let counts = if within("queue") {
        stats
            .queues
            .iter()
            .find(|(name, _)| name.as_str() == asked.get("queue"))
            .map_or(&none, |(_, counts)| counts)
    } else if within("type") {
        stats
            .types
            .iter()
            .find(|(name, _)| name.as_str() == asked.get("type"))
            .map_or(&none, |(_, counts)| counts)
    } else if within("tenant") {
        stats
            .tenants
            .iter()
            .find(|(name, _)| name.as_str() == asked.get("tenant"))
            .map_or(&none, |(_, counts)| counts)
    } else {
        &stats.states
    };
    let total: u64 = counts.values().sum();
    let all = Tab {
        name: "all".into(),
        word: "all",
        count: compact(total),
        link: asked.with_state(None),
        is_chosen: asked.get("state").is_empty(),
        is_empty: false,
    };
    let each = State::ALL.into_iter().map(|state| {
        let number = counts.get(&state).copied().unwrap_or(0);
        Tab {
            name: state.as_str().replace('_', " "),
            word: state.as_str(),
            count: compact(number),
            link: asked.with_state(Some(state)),
            is_chosen: asked.has("state", state.as_str()),
            is_empty: number == 0,
        }
    });
    [all].into_iter().chain(each).collect()
}

/// Where a search leads: an id to its job, a name to its list, anything else to a tag or a correlation id.
async fn search(
    board: &Dashboard,
    visitor: &Visitor,
    text: &str,
    stats: &Stats,
) -> Result<Redirect, Trouble> {
    if let Ok(id) = text.parse::<JobId>()
        && board.store().get(&visitor.caller, id).await?.is_some()
    {
        return Ok(Redirect::to(&format!("/jobs/{id}")));
    }
    let name = if stats.types.keys().any(|name| name.as_str() == text) {
        "type"
    } else if stats.queues.keys().any(|name| name.as_str() == text) {
        "queue"
    } else if stats.tenants.keys().any(|name| name.as_str() == text) {
        "tenant"
    } else if text.parse::<State>().is_ok() {
        "state"
    } else if text.len() >= 6 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        "id"
    } else if text.contains(':') {
        "tag"
    } else {
        "correlation_id"
    };
    Ok(Redirect::to(&address("/jobs", [(name, text.to_owned())])))
}
