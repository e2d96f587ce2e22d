//! `windlass queues`: depth, throughput and settings of queues.

use clap::Args;
use windlass::clock::Timestamp;
use windlass_api::queue::{Queue, QueueResponse};
use windlass_api::retry::EffectiveRetry;
use windlass_api::settings::QueueBody;

use crate::commands::manage::named::{Facts, Help, Kind, depths, held};
use crate::commands::manage::settings::{self, DefaultsArgs, default_lines, line, rate_line};
use crate::output::table::{Cell, Column};
use crate::output::text::{api_name, or_dash, short_span};

/// Settings of a queue.
#[derive(Args)]
pub(crate) struct QueueFlags {
    /// Maximum number of running jobs, across all workers
    #[arg(long, alias = "concurrency", value_name = "COUNT")]
    max_running: Option<String>,
    /// Maximum number of running jobs per concurrency key
    #[arg(long, alias = "concurrency-per-key", value_name = "COUNT")]
    max_running_per_key: Option<String>,
    /// How often its jobs may start, such as 100/s or 5/10m
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// How often jobs with the same concurrency key may start
    #[arg(long, value_name = "RATE")]
    rate_per_key: Option<String>,
    /// Maximum number of jobs that are not final; further jobs are rejected
    #[arg(long, value_name = "COUNT")]
    max_depth: Option<String>,
    /// Share the queue fairly by: tenant
    #[arg(long, value_name = "WHO")]
    fair_by: Option<String>,
    /// Waiting time that raises a job's priority by one point
    #[arg(long, value_name = "DURATION")]
    aging: Option<String>,
    /// Which audit records are kept: all, outcomes, operators
    #[arg(long, value_name = "LEVEL")]
    audit: Option<String>,
    /// Push jobs to a URL: an address, or JSON with url, concurrency, timeout
    #[arg(long, value_name = "TARGET")]
    push: Option<String>,
    #[command(flatten)]
    defaults: DefaultsArgs,
}

impl Kind for QueueFlags {
    const NOUN: &'static str = "queue";
    const PLURAL: &'static str = "queues";
    const HELP: Help = Help {
        list: "List queues",
        show: "Show a queue with its settings",
        set: "Change a queue's settings; settings that are not given stay, `none` clears one",
        name: "The queue",
    };
    type Object = Queue;
    type Response = QueueResponse;
    type Body = QueueBody;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("QUEUE", 0).cut(10),
            Column::new("READY", 1).right(),
            Column::new("RUNNING", 2).right(),
            Column::new("WAITING", 3).right(),
            Column::new("DEAD", 4).right(),
            Column::new("OLDEST", 5).right(),
            Column::new("DONE/MIN", 6).right(),
            Column::new("HELD", 7).cut(8),
        ]
    }

    fn row(queue: &Queue, now: Timestamp) -> Vec<Cell> {
        let [ready, running, waiting, dead] = depths(&queue.depth, queue.settings.max_running);
        vec![
            queue.name.to_string().into(),
            ready,
            running,
            waiting,
            dead,
            or_dash(queue.oldest_age.map(|age| short_span(age.0))).into(),
            queue.rates.last_minute.completed.to_string().into(),
            held(queue.paused.as_ref(), now),
        ]
    }

    fn needs_policy(&self) -> bool {
        self.defaults.needs_policy()
    }

    fn body(&self, current: Option<EffectiveRetry>) -> anyhow::Result<QueueBody> {
        Ok(QueueBody {
            max_running: settings::number(self.max_running.as_ref())?,
            max_running_per_key: settings::number(self.max_running_per_key.as_ref())?,
            rate: settings::rate(self.rate.as_ref())?,
            rate_per_key: settings::rate(self.rate_per_key.as_ref())?,
            max_depth: settings::number(self.max_depth.as_ref())?,
            fair_by: settings::choice("--fair-by", self.fair_by.as_ref())?,
            aging: settings::span(self.aging.as_ref())?,
            audit: settings::choice("--audit", self.audit.as_ref())?,
            push: settings::target(self.push.as_ref())?,
            retry: self.defaults.retry(current)?,
            timeouts: self.defaults.timeouts()?,
            priority: self.defaults.priority()?,
            retention: self.defaults.retention()?,
        })
    }
}

impl From<Queue> for Facts {
    fn from(queue: Queue) -> Facts {
        let set = &queue.settings;
        let mut settings = vec![
            line("max-running", set.max_running),
            line("max-running-per-key", set.max_running_per_key),
            rate_line("rate", set.rate),
            rate_line("rate-per-key", set.rate_per_key),
            line("max-depth", set.max_depth),
            line("fair-by", set.fair_by.as_ref().map(api_name)),
            line("aging", set.aging),
            line("audit", set.audit.as_ref().map(api_name)),
            line("push", set.push.as_ref().map(|push| format!("{}, {} at once", push.url, push.concurrency))),
        ];
        settings.extend(default_lines(set.priority, set.retry.as_ref(), &set.timeouts, &set.retention));
        Facts {
            name: queue.name.to_string(),
            paused: queue.paused,
            resumed: queue.resumed,
            depth: Some(queue.depth),
            rates: Some(queue.rates),
            retry: queue.settings.retry,
            settings,
            ..Facts::default()
        }
    }
}

impl From<QueueResponse> for Facts {
    fn from(acted: QueueResponse) -> Facts {
        Facts { is_changed: Some(acted.changed), ..acted.queue.into() }
    }
}
