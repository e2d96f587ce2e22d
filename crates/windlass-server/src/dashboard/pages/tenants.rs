//! Tenants: job counts, costs and limits.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use windlass::job::{JobState, JobType, Tenant};
use windlass::settings::patch::{SettingsPatch, TenantPatch};
use windlass::settings::{BudgetPeriod, TenantSettings};
use windlass::store::caller::Permission;
use windlass::store::{PauseScope, PauseTarget, Stats};

use crate::dashboard::page::{Layout, PageError, PauseView, name_in_url, show};
use crate::dashboard::pages::limits;
use crate::dashboard::parts::format::{cents, compact, percent, real};
use crate::dashboard::parts::pager::{self, NamePage, Pager};
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::segment;
use crate::dashboard::requests::settings_form;
use crate::dashboard::requests::undo::PageAddress;

/// A tenant.
struct TenantView {
    name: String,
    link: String,
    /// The action of its pause form, and the id of its dialog.
    act: String,
    pop: String,
    jobs_link: String,
    open: String,
    running: String,
    completed: String,
    failed: String,
    dead: String,
    cost: String,
    /// Costs by type, the highest first, each with the width of its bar in percent.
    costs: Vec<(String, String, String)>,
    max_running: String,
    max_depth: String,
    max_queues: String,
    max_types: String,
    max_lanes: String,
    max_concurrency_keys: String,
    weight: String,
    /// As a form value.
    budget: String,
    budget_text: Option<String>,
    /// `day` or `month`.
    period: &'static str,
    /// How much of the period's budget is spent, in percent.
    spent: Option<String>,
    paused: Option<PauseView>,
}

#[derive(Template)]
#[template(path = "tenants.html")]
struct TenantsPage {
    layout: Layout,
    tenants: Vec<TenantView>,
    total: usize,
    pager: Pager,
    total_cost: String,
    can_configure: bool,
}

/// `GET /tenants`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, config } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let stats = store.totals(caller).await?;
    let mut names: BTreeSet<Tenant> = stats.tenants.keys().chain(config.tenants.keys()).cloned().collect();
    names.extend(stats.costs.keys().map(|(tenant, _)| tenant.clone()));
    names.extend(config.pauses.values().filter(|hold| hold.is_active(now)).filter_map(
        |hold| match &hold.scope {
            PauseScope::Tenant(tenant) => Some(tenant.clone()),
            _ => None,
        },
    ));
    let (names, place) = (names.into_iter().collect(), ("/tenants", "tenant"));
    let names: NamePage<Tenant> = pager::page(names, Tenant::as_str, query, place, limits::TENANTS_PER_PAGE);
    let mut costs: BTreeMap<&Tenant, Vec<(&JobType, i64)>> = BTreeMap::new();
    for ((tenant, job_type), cost) in &stats.costs {
        costs.entry(tenant).or_default().push((job_type, *cost));
    }
    let view = |name: &Tenant| {
        let hold = config.pauses.get(&PauseScope::Tenant(name.clone())).filter(|hold| hold.is_active(now));
        let settings = config.tenants.get(name).cloned().unwrap_or_default();
        let costs = costs.get(name).cloned().unwrap_or_default();
        TenantView {
            paused: hold.map(|hold| PauseView::new(hold, now)),
            ..view(name, &stats, costs, &settings)
        }
    };
    let acted = names.shown.iter().find(|name| query.get("name") == Some(name.as_str()));
    let acted = acted.map(|name| format!("Tenant {name}"));
    let page = TenantsPage {
        layout: context.layout("tenants", "Tenants and cost").saying_of(query, acted.as_deref()),
        tenants: names.shown.iter().map(view).collect(),
        total: names.total,
        pager: names.pager,
        total_cost: cents(stats.costs.values().sum()),
        can_configure: visitor.may(Permission::Administer),
    };
    show(&page)
}

fn view(
    name: &Tenant,
    stats: &Stats,
    mut costs: Vec<(&JobType, i64)>,
    settings: &TenantSettings,
) -> TenantView {
    let counts = stats.tenants.get(name);
    let of = |state: JobState| counts.and_then(|counts| counts.get(&state)).copied().unwrap_or(0);
    let open: u64 = JobState::ALL.into_iter().filter(|state| !state.is_final()).map(of).sum();
    costs.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let cost: i64 = costs.iter().map(|(_, cost)| cost).sum();
    let dearest = costs.first().map_or(1, |(_, cost)| (*cost).max(1)).unsigned_abs();
    let bars = costs.into_iter().take(8).map(|(job_type, cost)| {
        let width = real(cost.max(0).unsigned_abs()) * 100.0 / real(dearest);
        (job_type.to_string(), cents(cost), format!("{width:.1}"))
    });
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let period = settings.budget_period.unwrap_or_default().as_str();
    let amount = |budget: u64| cents(i64::try_from(budget).unwrap_or(i64::MAX));
    TenantView {
        name: name.to_string(),
        link: format!("/tenants/{}", segment(name.as_str())),
        act: format!("/tenants/{}/act", segment(name.as_str())),
        pop: format!("pause-{name}"),
        jobs_link: format!("/jobs?tenant={}", segment(name.as_str())),
        open: compact(open),
        running: compact(of(JobState::Running)),
        completed: compact(of(JobState::Completed)),
        failed: compact(of(JobState::Failed)),
        dead: compact(of(JobState::DeadLetter)),
        cost: cents(cost),
        costs: bars.collect(),
        max_running: number(settings.max_running),
        max_depth: number(settings.max_depth),
        max_queues: number(settings.max_queues),
        max_types: number(settings.max_types),
        max_lanes: number(settings.max_lanes),
        max_concurrency_keys: number(settings.max_concurrency_keys),
        weight: number(settings.weight.map(u64::from)),
        budget: settings
            .budget_cents
            .map(|budget| format!("{}.{:02}", budget / 100, budget % 100))
            .unwrap_or_default(),
        budget_text: settings.budget_cents.map(|budget| format!("{} a {period}", amount(budget))),
        period,
        spent: settings.budget_cents.and_then(|budget| {
            let spent = stats.spent.get(name).copied().unwrap_or(0);
            let share = percent(spent.max(0).unsigned_abs(), budget)?;
            Some(format!("{:.0}", share.min(100.0)))
        }),
        paused: None,
    }
}

pub(in crate::dashboard) fn name_of(text: &str) -> Result<Tenant, PageError> {
    name_in_url("tenant", Tenant::new(text))
}

/// `POST /tenants/{name}/act`
pub(in crate::dashboard) async fn act(
    Path(name): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let target = PauseTarget::Tenant(name_of(&name)?);
    context
        .pause_or_resume(&context.visitor.caller, target, &PageAddress::new("/tenants", &[("name", &name)]))
        .await
}

/// `POST /tenants/{name}/settings`
pub(in crate::dashboard) async fn configure(
    Path(name): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let form = &context.form;
    let weight = settings_form::number(form, "weight")?
        .try_map(|weight| u32::try_from(weight).map_err(|_| PageError::invalid("weight: is too large")))?;
    let patch = TenantPatch {
        max_running: settings_form::number(form, "max_running")?,
        max_depth: settings_form::number(form, "max_depth")?,
        max_queues: settings_form::number(form, "max_queues")?,
        max_types: settings_form::number(form, "max_types")?,
        max_lanes: settings_form::number(form, "max_lanes")?,
        max_concurrency_keys: settings_form::number(form, "max_concurrency_keys")?,
        weight,
        budget_cents: settings_form::amount(form, "budget")?,
        budget_period: settings_form::field(form, "period", |word| {
            BudgetPeriod::parse(word).map_err(|problem| PageError::invalid(format!("period: {problem}")))
        })?,
    };
    let to = format!("/tenants/{}/settings", segment(&name));
    let place = PageAddress::new("/tenants", &[("name", &name)]);
    context.save(SettingsPatch::Tenant(name_of(&name)?, patch), (&to, place), &[]).await
}
