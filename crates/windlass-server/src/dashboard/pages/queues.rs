//! Queues: depth, age, throughput, pauses and settings.

pub(in crate::dashboard) mod limit_preview;

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::job::{JobState, QueueName, Tenant};
use windlass::settings::patch::{Field, QueuePatch, SettingsPatch, TimeoutsPatch};
use windlass::settings::preview::ProposedLimit;
use windlass::settings::{FairBy, QueueSettings, Rate};
use windlass::store::caller::Permission;
use windlass::store::command::pause::PauseTarget;
use windlass::store::documents::config::{Config, PauseMode, PauseScope};
use windlass::store::filter::{Filter, Order};
use windlass::store::query::history::Part;
use windlass::store::query::known::Named;
use windlass::store::query::list::ListRequest;
use windlass::store::query::queues::QueueInfo;
use windlass::store::query::stats::ByState;

use crate::dashboard::page::{Layout, PageError, PauseView, name_in_url, show};
use crate::dashboard::pages::queues::limit_preview::{PreviewView, of_limit};
use crate::dashboard::parts::chart;
use crate::dashboard::parts::components::Pill;
use crate::dashboard::parts::format::{Moment, at_most, compact, count, exact, span};
use crate::dashboard::parts::history::HistoryView;
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::parts::pager::{self, Pager};
use crate::dashboard::parts::queue_row::{self, QueueRow, lines};
use crate::dashboard::parts::sorting::Sorting;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{Fields, address, segment};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::resume;
use crate::dashboard::requests::settings_form;
use crate::dashboard::{Dashboard, pages::limits};

#[derive(Template)]
#[template(path = "queues/queues.html")]
struct QueuesPage {
    layout: Layout,
    sorting: Sorting,
    queues: Vec<QueueRow>,
    total: usize,
    pager: Pager,
    can_pause: bool,
}

/// `GET /queues`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    let infos = board.store().queues(&visitor.caller).await?;
    let mut layout = context.layout("queues", "Queues");
    let acted = infos.iter().find(|info| query.get("name") == Some(info.name.as_str()));
    layout.done = layout.done.map(|said| match (query.get("done"), acted) {
        (Some("paused"), Some(info)) if info.paused.is_some() => format!("Queue {} is paused.", info.name),
        (Some("unpaused"), Some(info)) if info.paused.is_none() => {
            format!("Queue {} is resumed.", info.name)
        }
        _ => said,
    });
    let (sorting, now) = (Sorting::of(query, "/queues", &queue_row::COLUMNS), board.now());
    let sorted = (&sorting, |info: &QueueInfo, column: &str| queue_row::sort_value(info, column, now));
    let infos = pager::sortable(infos, |info| info.name.as_str(), query, ("/queues", "queue"), sorted);
    let page = QueuesPage {
        sorting,
        layout,
        queues: lines(&infos.shown, visitor, now),
        total: infos.total,
        pager: infos.pager,
        can_pause: visitor.may(Permission::Pause),
    };
    show(&page)
}

/// The number of jobs in a state.
pub(in crate::dashboard) struct Depth {
    pub(in crate::dashboard) pill: Pill,
    pub(in crate::dashboard) count: String,
    pub(in crate::dashboard) link: String,
    /// The number and link of the open ones, if they are not all.
    pub(in crate::dashboard) open: Option<(String, String)>,
}

/// The states that have jobs within a scope, each with its number and a link. Counters do not know which dead letters were
/// redriven, so the open ones are counted up to a limit.
pub(in crate::dashboard) async fn depths(
    board: &Dashboard,
    visitor: &Visitor,
    depth: &ByState,
    part: Filter,
    (name, value): (&'static str, &str),
) -> Result<Vec<Depth>, PageError> {
    let mut found = Vec::new();
    for (state, number) in depth.iter().filter(|(_, number)| **number > 0) {
        let pairs = || [("state", state.as_str().to_owned()), (name, value.to_owned())].into_iter();
        let mut depth = Depth {
            pill: Pill(*state),
            count: compact(*number),
            link: address("/jobs", pairs()),
            open: None,
        };
        if *state == JobState::DeadLetter {
            let open = Filter { states: vec![*state], is_redriven: Some(false), ..part.clone() };
            let open =
                board.store().count_up_to(&visitor.caller, &open, limits::DEAD_LETTERS_COUNTED).await?;
            let text = format!("{}{} not redriven", count(open.jobs), if open.is_all { "" } else { "+" });
            depth.open = Some((text, address("/jobs", pairs().chain([("redriven", "no".to_owned())]))));
        }
        found.push(depth);
    }
    Ok(found)
}

#[derive(Template)]
#[template(path = "queues/queue.html")]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
struct QueuePage {
    layout: Layout,
    name: String,
    link: String,
    /// Set if the name is unknown, with similar names.
    unknown: Option<Unknown>,
    paused: Option<PauseView>,
    /// Whether its pause suspended running jobs, which can be resumed with it.
    is_aggressive: bool,
    /// Its last resume.
    resumed: Option<(String, Moment)>,
    /// Whether this visitor can resume it.
    can_resume: bool,
    tenants_pauses: Vec<TenantsPause>,
    depths: Vec<Depth>,
    history: HistoryView,
    oldest: Option<String>,
    waited_half: String,
    waited: String,
    ran_half: String,
    ran: String,
    next: Vec<Row>,
    running: Vec<Row>,
    settings: SettingsView,
    preview: PreviewView,
    can_pause: bool,
    can_configure: bool,
    /// The tenant of these settings; None for those of all tenants.
    tenant: Option<String>,
}

/// An unknown name.
pub(in crate::dashboard) struct Unknown {
    /// Similar known names.
    pub(in crate::dashboard) similar: Vec<String>,
}

impl Unknown {
    /// None if the name is known.
    pub(in crate::dashboard) async fn of(
        board: &Dashboard,
        visitor: &Visitor,
        named: Named,
    ) -> Result<Option<Unknown>, PageError> {
        let known = board.store().known(&visitor.caller, named).await?;
        Ok((!known.is_known).then_some(Unknown { similar: known.similar }))
    }
}

/// A pause that a tenant made for itself.
struct TenantsPause {
    hold: PauseView,
    /// The scope field of the resume form, if the visitor may resume it.
    scope: Option<String>,
}

/// Settings as form values.
pub(in crate::dashboard) struct SettingsView {
    max_running: Limit,
    max_running_per_key: Limit,
    max_depth: Limit,
    rate_count: Limit,
    rate_per: Limit,
    aging: Limit,
    start: Limit,
    max_execution: Limit,
    retention: Vec<RetentionField>,
    is_fair: bool,
}

/// The retention of a final state as a form value.
struct RetentionField {
    name: String,
    label: String,
    limit: Limit,
}

/// One setting: its value, and the placeholder if it is not set.
pub(in crate::dashboard) struct Limit {
    value: String,
    otherwise: String,
}

impl SettingsView {
    /// The settings of a tenant, which apply in addition to the general ones; or the general ones.
    fn of(queue: &QueueName, tenant: Option<&Tenant>, config: &Config) -> SettingsView {
        let set = |tenant: Option<&Tenant>| {
            config.queues.get(&(queue.clone(), tenant.cloned())).cloned().unwrap_or_default()
        };
        let (own, everybody) = (set(tenant), tenant.map(|_| set(None)));
        let limit = |text: &dyn Fn(&QueueSettings) -> Option<String>, none: &str| Limit {
            value: text(&own).unwrap_or_default(),
            otherwise: everybody
                .as_ref()
                .and_then(text)
                .map_or(none.to_owned(), |text| format!("{text} for all tenants")),
        };
        SettingsView {
            max_running: limit(&|set| set.max_running.map(|number| number.to_string()), "no limit"),
            max_running_per_key: limit(
                &|set| set.max_running_per_key.map(|number| number.to_string()),
                "not set: 1",
            ),
            max_depth: limit(&|set| set.max_depth.map(|number| number.to_string()), "no limit"),
            rate_count: limit(&|set| set.rate.map(|rate| rate.count.to_string()), "no limit"),
            rate_per: limit(&|set| set.rate.map(|rate| exact(rate.per)), "such as 1s, 1m"),
            aging: limit(&|set| set.aging.map(exact), "never"),
            start: limit(&|set| set.timeouts.start.map(exact), "no limit"),
            max_execution: limit(&|set| set.timeouts.max_execution.map(exact), "no limit"),
            retention: JobState::FINAL
                .map(|state| RetentionField {
                    name: format!("retention_{state}"),
                    label: format!("Keep {} for", plain(state)),
                    limit: limit(&|set| set.retention.of(state).map(exact), "server default"),
                })
                .into(),
            is_fair: everybody.as_ref().unwrap_or(&own).fair_by == Some(FairBy::Tenant),
        }
    }
}

/// The limits on starts that are set.
fn limit_of(queue: &QueueName, tenant: Option<&Tenant>, config: &Config) -> ProposedLimit {
    let set = config.queues.get(&(queue.clone(), tenant.cloned())).cloned().unwrap_or_default();
    ProposedLimit { max_running: set.max_running, rate: set.rate }
}

/// Pauses of a queue that single tenants made for themselves, with how to resume them; for visitors who can see all
/// tenants.
fn tenants_pauses(
    queue: &QueueName,
    visitor: &Visitor,
    config: &Config,
    now: Timestamp,
) -> Vec<TenantsPause> {
    let is_one = |scope: &PauseScope| match scope {
        PauseScope::Queue { queue: of, tenant } => {
            of == queue && tenant.is_some() && visitor.caller.tenant.is_none()
        }
        _ => false,
    };
    let holds = config.pauses.values().filter(|hold| is_one(&hold.scope) && hold.is_active(now));
    let holds = holds.take(limits::GROUPS_SHOWN);
    holds
        .map(|hold| TenantsPause {
            hold: PauseView::of(hold, now),
            scope: resume::scope(hold, visitor, config),
        })
        .collect()
}

/// The name of jobs in a final state.
pub(in crate::dashboard) fn plain(state: JobState) -> String {
    if state == JobState::DeadLetter { "dead letters".to_owned() } else { format!("{state} jobs") }
}

/// A queue's name in a URL.
pub(in crate::dashboard) fn name_of(text: &str) -> Result<QueueName, PageError> {
    name_in_url("queue", QueueName::new(text))
}

/// `GET /queues/{name}`
pub(in crate::dashboard) async fn queue_page(
    context: PageContext,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, config } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let info: QueueInfo = store.queue(caller, name_of(&name)?).await?;
    let hour = chart::hour(&info.minutes, now);
    let sum = chart::total(&hour);
    let time = |time: Option<std::time::Duration>| time.map_or("–".to_owned(), at_most);
    let jobs = async |state: JobState, order: Order| {
        // Jobs that wait for their concurrency key are not next.
        let is_blocked = (order == Order::Claim).then_some(false);
        let (queue, states) = (Some(info.name.clone()), vec![state]);
        let filter = Filter { queue, states, is_blocked, ..Filter::default() };
        let page = store
            .list(caller, ListRequest { filter, order, cursor: None, limit: limits::GROUPS_SHOWN })
            .await;
        page.map(|page| page.jobs.iter().map(|snapshot| Row::of(snapshot, now)).collect::<Vec<_>>())
    };
    let part = Filter { queue: Some(info.name.clone()), ..Filter::default() };
    let link = format!("/queues/{}", segment(&name));
    let page = QueuePage {
        layout: context.layout("queues", format!("Queue {name}")).undone_by(
            query,
            &format!("{link}/act"),
            PAUSE_UNDONE,
        ),
        link: link.clone(),
        unknown: Unknown::of(board, visitor, Named::Queue(info.name.clone())).await?,
        paused: info.paused.as_ref().map(|hold| PauseView::of(hold, now)),
        is_aggressive: info.paused.as_ref().is_some_and(|hold| hold.mode == PauseMode::Aggressive),
        resumed: info.resumed.as_ref().map(|end| (end.by.clone(), Moment::new(end.at, now))),
        can_resume: info.paused.as_ref().is_some_and(|hold| resume::is_theirs(hold, visitor)),
        tenants_pauses: tenants_pauses(&info.name, visitor, config, now),
        depths: depths(board, visitor, &info.depth, part, ("queue", &name)).await?,
        history: HistoryView::of(board, visitor, Part::Queue(info.name.clone()), &link, query).await?,
        oldest: info.oldest.map(|oldest| span(now.since(oldest))),
        waited_half: time(sum.waited.percentile(0.5)),
        waited: time(sum.waited.percentile(0.95)),
        ran_half: time(sum.ran.percentile(0.5)),
        ran: time(sum.ran.percentile(0.95)),
        next: jobs(JobState::Scheduled, Order::Claim).await?,
        running: jobs(JobState::Running, Order::Newest).await?,
        preview: of_limit(&limit_of(&info.name, caller.tenant.as_ref(), config), &hour),
        settings: SettingsView::of(&info.name, caller.tenant.as_ref(), config),
        can_pause: visitor.may(Permission::Pause),
        can_configure: visitor.may(Permission::Configure),
        tenant: caller.tenant.as_ref().map(ToString::to_string),
        name,
    };
    show(&page)
}

/// What undoes a pause of a queue or type, and the end of one.
pub(in crate::dashboard) const PAUSE_UNDONE: &[(&str, &str)] = &[("paused", "resume"), ("unpaused", "pause")];

/// `POST /queues/{name}/act`
pub(in crate::dashboard) async fn act(
    Path(name): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let done = context.pause_or_resume(PauseTarget::Queue(name_of(&name)?)).await?;
    let FormContext { board, visitor, form } = context;
    if form.get("action") == Some("resume") && form.get("jobs").is_some() {
        let reason = form.text("reason");
        board.store().resume_paused_jobs(&visitor.caller, name_of(&name)?, reason).await?;
    }
    if form.get("from") == Some("list") {
        let to = address("/queues", [("done", done.to_owned()), ("name", name)]);
        return Ok(Redirect::to(&to).into_response());
    }
    Ok(back(&name, done))
}

fn back(name: &str, done: &str) -> Response {
    Redirect::to(&format!("/queues/{}?done={done}", segment(name))).into_response()
}

/// A rate; number and period belong together.
pub(in crate::dashboard) fn rate(form: &Fields) -> Result<Field<Rate>, PageError> {
    if !settings_form::is_touched(form, "rate_count") && !settings_form::is_touched(form, "rate_per") {
        return Ok(Field::Keep);
    }
    let count =
        form.get("rate_count").map(|text| settings_form::parse_integer("rate_count", text)).transpose()?;
    match (count, form.duration("rate_per")?) {
        (Some(count), Some(per)) => Ok(Field::Set(Rate::new(count, per))),
        (Some(_), None) => Err(PageError::invalid("starts at most: the period is missing, such as 1s or 1m")),
        (None, Some(_)) if !settings_form::is_touched(form, "rate_count") => {
            Err(PageError::invalid("starts at most: the number is missing"))
        }
        (None, _) => Ok(Field::Clear),
    }
}

/// `POST /queues/{name}/settings`
pub(in crate::dashboard) async fn configure(
    Path(name): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let form = &context.form;
    let fair = settings_form::tick(form, "fair");
    let patch = QueuePatch {
        max_running: settings_form::number(form, "max_running")?,
        max_running_per_key: settings_form::number(form, "max_running_per_key")?,
        max_depth: settings_form::number(form, "max_depth")?,
        rate: rate(form)?,
        fair_by: fair.map_or(Field::Keep, |is_fair| is_fair.then_some(FairBy::Tenant).into()),
        aging: settings_form::duration(form, "aging")?,
        timeouts: Field::Set(TimeoutsPatch {
            start: settings_form::duration(form, "start")?,
            max_execution: settings_form::duration(form, "max_execution")?,
            ..TimeoutsPatch::default()
        }),
        retention: settings_form::retention(form)?,
        ..QueuePatch::default()
    };
    Ok(back(&name, context.save(SettingsPatch::Queue(name_of(&name)?, patch)).await?))
}
