//! `windlass tenants`: job counts, costs and limits of tenants.

use clap::Args;
use windlass::clock::Timestamp;
use windlass_api::queue::{TenantResponse, TenantView};
use windlass_api::retry::EffectiveRetry;
use windlass_api::settings::{TenantBody, TenantSettingsView};

use crate::commands::manage::named::{Facts, Help, Kind, depths, held};
use crate::commands::manage::settings::{self, Line, line};
use crate::output::table::{Cell, Column};
use crate::output::text::{api_name, or_dash, spent};

/// Settings of a tenant.
#[derive(Args)]
pub(crate) struct TenantFlags {
    /// Maximum number of running jobs, across all workers
    #[arg(long, alias = "concurrency", value_name = "COUNT")]
    max_running: Option<String>,
    /// Maximum number of jobs that are not final; further jobs are rejected
    #[arg(long, value_name = "COUNT")]
    max_depth: Option<String>,
    /// Share of a fair queue: how many jobs it may start per turn
    #[arg(long, value_name = "COUNT")]
    weight: Option<String>,
    /// Maximum cost of its jobs per period, in cents
    #[arg(long, value_name = "CENTS")]
    budget: Option<String>,
    /// Budget period: day, month
    #[arg(long, value_name = "PERIOD")]
    budget_period: Option<String>,
    /// Maximum number of queues with jobs; 10000 by default
    #[arg(long, value_name = "COUNT")]
    max_queues: Option<String>,
    /// Maximum number of types with jobs; 10000 by default
    #[arg(long, value_name = "COUNT")]
    max_types: Option<String>,
    /// Maximum number of pairs of a queue and a type with jobs; 20000 by default
    #[arg(long, value_name = "COUNT")]
    max_lanes: Option<String>,
    /// Maximum number of concurrency keys of jobs that are not final; 100000 by default
    #[arg(long, value_name = "COUNT")]
    max_concurrency_keys: Option<String>,
}

impl Kind for TenantFlags {
    const NOUN: &'static str = "tenant";
    const PLURAL: &'static str = "tenants";
    const HELP: Help = Help {
        list: "List tenants",
        show: "Show a tenant with its settings",
        set: "Change a tenant's settings; settings that are not given stay, `none` clears one",
        name: "The tenant",
    };
    type Object = TenantView;
    type Response = TenantResponse;
    type Body = TenantBody;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("TENANT", 0).cut(10),
            Column::new("READY", 1).right(),
            Column::new("RUNNING", 2).right(),
            Column::new("WAITING", 3).right(),
            Column::new("DEAD", 4).right(),
            Column::new("COST", 5).right(),
            Column::new("BUDGET", 6).right(),
            Column::new("WEIGHT", 8).right(),
            Column::new("HELD", 7).cut(8),
        ]
    }

    fn row(tenant: &TenantView, now: Timestamp) -> Vec<Cell> {
        let set = &tenant.settings;
        let [ready, running, waiting, dead] = depths(&tenant.depth, set.max_running);
        let period = set.budget_period.as_ref().map_or_else(|| "month".to_owned(), api_name);
        vec![
            tenant.tenant.to_string().into(),
            ready,
            running,
            waiting,
            dead,
            spent(tenant.cost_cents).into(),
            or_dash(set.budget_cents.map(|cents| format!("{}/{period}", spent(cents)))).into(),
            or_dash(set.weight).into(),
            held(tenant.paused.as_ref(), now),
        ]
    }

    fn needs_policy(&self) -> bool {
        false
    }

    fn body(&self, _: Option<EffectiveRetry>) -> anyhow::Result<TenantBody> {
        Ok(TenantBody {
            max_running: settings::number(self.max_running.as_ref())?,
            max_depth: settings::number(self.max_depth.as_ref())?,
            weight: settings::number(self.weight.as_ref())?,
            budget_cents: settings::number(self.budget.as_ref())?,
            budget_period: settings::choice("--budget-period", self.budget_period.as_ref())?,
            max_queues: settings::number(self.max_queues.as_ref())?,
            max_types: settings::number(self.max_types.as_ref())?,
            max_lanes: settings::number(self.max_lanes.as_ref())?,
            max_concurrency_keys: settings::number(self.max_concurrency_keys.as_ref())?,
        })
    }
}

fn lines(set: &TenantSettingsView) -> Vec<Line> {
    vec![
        line("max-running", set.max_running),
        line("max-depth", set.max_depth),
        line("weight", set.weight),
        line("budget", set.budget_cents.map(spent)),
        line("budget-period", set.budget_period.as_ref().map(api_name)),
        line("max-queues", set.max_queues),
        line("max-types", set.max_types),
        line("max-lanes", set.max_lanes),
        line("max-concurrency-keys", set.max_concurrency_keys),
    ]
}

impl From<TenantView> for Facts {
    fn from(tenant: TenantView) -> Facts {
        Facts {
            name: tenant.tenant.to_string(),
            paused: tenant.paused,
            depth: Some(tenant.depth),
            cost_cents: Some(tenant.cost_cents),
            settings: lines(&tenant.settings),
            ..Facts::default()
        }
    }
}

impl From<TenantResponse> for Facts {
    fn from(acted: TenantResponse) -> Facts {
        Facts {
            name: acted.tenant.to_string(),
            is_changed: Some(acted.changed),
            settings: lines(&acted.settings),
            ..Facts::default()
        }
    }
}
