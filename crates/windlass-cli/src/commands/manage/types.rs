//! `windlass types`: counts, durations, failures and settings of job types.

use clap::Args;
use windlass::clock::Timestamp;
use windlass_api::queue::{Type, TypeResponse};
use windlass_api::retry::EffectiveRetry;
use windlass_api::settings::{TypeBody, TypeSettingsView};

use crate::commands::manage::named::{Facts, Help, Kind, bad, depths, held};
use crate::commands::manage::settings::{self, DefaultsArgs, Line, default_lines, line, rate_line};
use crate::output::table::{Cell, Column};
use crate::output::text::{measured, or_dash};

/// Settings of a type.
#[derive(Args)]
pub(crate) struct TypeFlags {
    /// Maximum number of running jobs, across all workers
    #[arg(long, alias = "concurrency", value_name = "COUNT")]
    max_running: Option<String>,
    /// How often its jobs may start, such as 100/s or 5/10m
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Custom event name for a success in the audit trail
    #[arg(long, value_name = "NAME")]
    success_event: Option<String>,
    /// Custom event name for exhausted retries in the audit trail
    #[arg(long, value_name = "NAME")]
    exhausted_event: Option<String>,
    /// File with the JSON Schema of payloads, which submissions must match
    #[arg(long, value_name = "FILE")]
    payload_schema: Option<String>,
    /// File with the JSON Schema of results, which completions must match
    #[arg(long, value_name = "FILE")]
    result_schema: Option<String>,
    #[command(flatten)]
    defaults: DefaultsArgs,
}

impl Kind for TypeFlags {
    const NOUN: &'static str = "type";
    const PLURAL: &'static str = "types";
    const HELP: Help = Help {
        list: "List types",
        show: "Show a type with its settings",
        set: "Change a type's settings; settings that are not given stay, `none` clears one",
        name: "The type",
    };
    type Object = Type;
    type Response = TypeResponse;
    type Body = TypeBody;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("TYPE", 0).cut(10),
            Column::new("READY", 1).right(),
            Column::new("RUNNING", 2).right(),
            Column::new("WAITING", 6).right(),
            Column::new("DEAD", 5).right(),
            Column::new("DONE/H", 3).right(),
            Column::new("FAILED/H", 4).right(),
            Column::new("MEDIAN", 7).right(),
            Column::new("P95", 8).right(),
            Column::new("HELD", 9).cut(8),
        ]
    }

    fn row(known: &Type, now: Timestamp) -> Vec<Cell> {
        let [ready, running, waiting, dead] = depths(&known.depth, known.settings.max_running);
        let hour = &known.rates.last_hour;
        let [median, p95] =
            [hour.ran.p50, hour.ran.p95].map(|span| or_dash(span.map(|span| measured(span.0))));
        vec![
            known.r#type.to_string().into(),
            ready,
            running,
            waiting,
            dead,
            hour.completed.to_string().into(),
            bad(hour.failed_attempts()),
            median.into(),
            p95.into(),
            held(known.paused.as_ref(), now),
        ]
    }

    fn needs_policy(&self) -> bool {
        self.defaults.needs_policy()
    }

    fn body(&self, current: Option<EffectiveRetry>) -> anyhow::Result<TypeBody> {
        Ok(TypeBody {
            max_running: settings::number(self.max_running.as_ref())?,
            rate: settings::rate(self.rate.as_ref())?,
            success_event: settings::text(self.success_event.as_ref())?,
            exhausted_event: settings::text(self.exhausted_event.as_ref())?,
            retry: self.defaults.retry(current)?,
            timeouts: self.defaults.timeouts()?,
            priority: self.defaults.priority()?,
            retention: self.defaults.retention()?,
            payload_schema: settings::schema(self.payload_schema.as_ref())?,
            result_schema: settings::schema(self.result_schema.as_ref())?,
        })
    }
}

fn lines(set: &TypeSettingsView) -> Vec<Line> {
    let mut settings = vec![
        line("max-running", set.max_running),
        rate_line("rate", set.rate),
        line("success-event", set.success_event.as_ref()),
        line("exhausted-event", set.exhausted_event.as_ref()),
        line("payload-schema", set.payload_schema.as_ref()),
        line("result-schema", set.result_schema.as_ref()),
    ];
    settings.extend(default_lines(set.priority, set.retry.as_ref(), &set.timeouts, &set.retention));
    settings
}

impl From<Type> for Facts {
    fn from(known: Type) -> Facts {
        Facts {
            name: known.r#type.to_string(),
            paused: known.paused,
            depth: Some(known.depth),
            rates: Some(known.rates),
            settings: lines(&known.settings),
            retry: known.settings.retry,
            ..Facts::default()
        }
    }
}

impl From<TypeResponse> for Facts {
    fn from(acted: TypeResponse) -> Facts {
        Facts {
            name: acted.r#type.to_string(),
            is_changed: Some(acted.changed),
            settings: lines(&acted.settings),
            ..Facts::default()
        }
    }
}
