//! `windlass alerts`: messages to a receiver when dead letters, delays, failures, missed schedules or a wrong clock need attention.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass::alert::{AlertFormat, AlertStatus};
use windlass::clock::Timestamp;
use windlass::job::{JobType, QueueName};
use windlass_api::alert::{AlertBody, AlertPauseBody, AlertView, ConditionParam};
use windlass_api::text::Text;
use windlass_api::time::Span;

use crate::commands::manage::tenant_object::{
    DeleteArgs, ObjectArgs, PauseArgs, TenantObject, api_word, print,
};
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output::color::Colour;
use crate::output::fact_sheet::FactSheet;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{ago, api_name, or_dash};

/// Arguments of `alerts`; lists alerts if no subcommand is given.
#[derive(Args)]
pub(crate) struct AlertsArgs {
    #[command(subcommand)]
    command: Option<AlertsCommand>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum AlertsCommand {
    /// List alerts with their state
    List(ConnectArgs),
    /// Show an alert
    Show(ObjectArgs<AlertView>),
    /// Create an alert, or change it; values that are not given stay
    Set(Box<SetArgs>),
    /// Pause an alert: it keeps its state and sends nothing
    Pause(PauseArgs<AlertView>),
    /// Resume an alert
    Resume(ObjectArgs<AlertView>),
    /// Send a sample message; prints the id of the job that delivers it
    Test(ObjectArgs<AlertView>),
    /// Delete an alert; nothing is sent about it
    Delete(DeleteArgs<AlertView>),
}

/// What to watch, and where to send messages.
#[derive(Args)]
struct SetArgs {
    /// What it watches: `dead_letters`, `oldest_ready`, `failure_rate`, `schedule_missed`, `clock_offset`
    #[arg(long, value_name = "CONDITION", value_parser = api_word::<ConditionParam>)]
    on: Option<ConditionParam>,
    /// Threshold of `dead_letters` (a number) and `failure_rate` (percent)
    #[arg(long, value_name = "NUMBER")]
    more_than: Option<u64>,
    /// Threshold of `oldest_ready` and `clock_offset`
    #[arg(long, value_name = "DURATION")]
    longer_than: Option<Span>,
    /// Time over which `dead_letters`, `failure_rate` and `schedule_missed` count
    #[arg(long, value_name = "DURATION")]
    within: Option<Span>,
    /// Fewest attempts for `failure_rate`
    #[arg(long, value_name = "NUMBER")]
    min_attempts: Option<u64>,
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<Text<QueueName>>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<Text<JobType>>,
    /// URL that its messages are sent to
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Format of its messages: webhook, slack
    #[arg(long, value_name = "FORMAT", value_parser = api_word::<AlertFormat>)]
    format: Option<AlertFormat>,
    /// How long the condition must hold before it fires
    #[arg(long, value_name = "DURATION")]
    pending_for: Option<Span>,
    /// How long the condition must not hold before it resolves
    #[arg(long, value_name = "DURATION")]
    keep_firing_for: Option<Span>,
    /// How often the message is repeated while it fires
    #[arg(long, value_name = "DURATION")]
    repeat_interval: Option<Span>,
    #[command(flatten)]
    object: ObjectArgs<AlertView>,
}

impl SetArgs {
    /// The request: the alert so far with the given flags applied.
    fn body(&self, current: Option<AlertView>) -> anyhow::Result<AlertBody> {
        let mut body = match (current, self.on) {
            (Some(current), _) => AlertBody::from(current),
            (None, Some(condition)) => AlertBody {
                condition,
                more_than: None,
                longer_than: None,
                within: None,
                min_attempts: None,
                queue: None,
                r#type: None,
                url: self
                    .to
                    .clone()
                    .ok_or_else(|| Failure::usage("messages need a receiver: give --to URL"))?,
                format: None,
                pending_for: None,
                keep_firing_for: None,
                repeat_interval: None,
            },
            (None, None) => return Err(Failure::usage("an alert needs a condition: give --on CONDITION")),
        };
        // Thresholds of another condition mean nothing for this one.
        if let Some(condition) = self.on.filter(|condition| *condition != body.condition) {
            let (more_than, longer_than, within, min_attempts) = (None, None, None, None);
            body = AlertBody { condition, more_than, longer_than, within, min_attempts, ..body };
        }
        body.more_than = self.more_than.or(body.more_than);
        body.longer_than = self.longer_than.or(body.longer_than);
        body.within = self.within.or(body.within);
        body.min_attempts = self.min_attempts.or(body.min_attempts);
        body.queue = self.queue.clone().or(body.queue);
        body.r#type = self.job_type.clone().or(body.r#type);
        body.url = self.to.clone().unwrap_or(body.url);
        body.format = self.format.or(body.format);
        body.pending_for = self.pending_for.or(body.pending_for);
        body.keep_firing_for = self.keep_firing_for.or(body.keep_firing_for);
        body.repeat_interval = self.repeat_interval.or(body.repeat_interval);
        Ok(body)
    }
}

pub(crate) async fn alerts(args: &AlertsArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(&args.connect).await,
        Some(AlertsCommand::List(connect)) => list(connect).await,
        Some(AlertsCommand::Show(alert)) => alert.show().await,
        Some(AlertsCommand::Set(args)) => set(args).await,
        Some(AlertsCommand::Pause(args)) => {
            args.run(|reason, expires| AlertPauseBody { reason, expires }).await
        }
        Some(AlertsCommand::Resume(alert)) => alert.act("resume").await,
        Some(AlertsCommand::Test(alert)) => alert.submit("test").await,
        Some(AlertsCommand::Delete(args)) => args.run().await,
    }
}

async fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let (client, object) = (args.object.connect.client()?, &args.object);
    let found = client.ask::<AlertView>(object.in_tenant(Call::get(&object.path()))).await;
    let current = match found {
        Ok(current) => Some(current),
        Err(failure) if failure.exit() == Exit::NotFound => None,
        Err(failure) => return Err(failure.into()),
    };
    // The one that was found, also if its tenant was not given.
    let tenant = current.as_ref().and_then(|current| current.tenant.clone()).or(object.tenant.clone());
    let call = Call::put(&object.path()).json(&args.body(current)?);
    let call = call.query_if("tenant", tenant.as_ref().map(|tenant| tenant.0.as_str()));
    print(client.show::<AlertView>(call).await?.as_ref(), client.now())
}

async fn list(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let Some(alerts) = client.show_all::<AlertView>("alerts").await? else { return Ok(Exit::Done.into()) };
    let mut table = Table::new(vec![
        Column::new("ALERT", 0).cut(10),
        Column::new("STATE", 1),
        Column::new("SINCE", 3),
        Column::new("VALUE", 4),
        Column::new("FIRES ON", 2).cut(16),
        Column::new("TO", 5).cut(10),
    ]);
    let now = client.now();
    for alert in alerts {
        table.row(vec![
            alert.name.to_string().into(),
            state(&alert),
            Cell::when(alert.since, now),
            or_dash(alert.value.as_ref()).into(),
            alert.description.clone().into(),
            host(&alert.url).to_owned().into(),
        ]);
    }
    table.print_or("no alerts; `windlass alerts set NAME --on dead_letters --to URL` creates one")
}

/// The state of an alert as a cell.
fn state(alert: &AlertView) -> Cell {
    match (&alert.paused, alert.state) {
        (Some(_), _) => Cell::painted("paused".to_owned(), Some(Colour::Warning)),
        (None, AlertStatus::Firing) => Cell::painted("firing".to_owned(), Some(Colour::Bad)),
        (None, AlertStatus::Ok) => "ok".into(),
    }
}

/// The host of a URL: its path may contain a secret, which does not belong on a screen.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

impl TenantObject for AlertView {
    const NOUN: &'static str = "alert";
    const PLURAL: &'static str = "alerts";
    const NAME_HELP: &'static str = "The alert";
    const TENANT_HELP: &'static str =
        "Of this tenant, for keys that can see several; about all tenants if not given";

    fn print(&self, now: Timestamp) -> anyhow::Result<ExitCode> {
        let mut facts = FactSheet::new(self.name.0.as_str());
        let value = self.value.as_ref().map_or_else(String::new, |value| format!(", with {value}"));
        facts.add("state", &format!("{} since {}{value}", api_name(&self.state), ago(self.since, now)));
        facts.add("fires on", &self.description);
        let pending = format!("after {}, resolves after {}", self.pending_for, self.keep_firing_for);
        facts.add("fires", &pending);
        facts.add(
            "repeats",
            &self.repeat_interval.map_or_else(|| "never".to_owned(), |span| format!("every {span}")),
        );
        facts.add("to", &format!("{} as {}", host(&self.url), api_name(&self.format)));
        if let Some(job) = &self.last_delivery {
            facts.add("delivery", &job.to_string());
        }
        if let Some(pause) = &self.paused {
            facts.add_pause(pause.at, &pause.by, pause.reason.as_deref(), now);
        }
        facts.print()
    }

    fn deleted(name: &str) -> String {
        format!("{name} is deleted")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        set: SetArgs,
    }

    fn body(flags: &[&str], current: Option<AlertView>) -> anyhow::Result<Value> {
        let flags = Flags::try_parse_from([&["windlass", "dead"], flags].concat())?;
        Ok(serde_json::to_value(flags.set.body(current)?)?)
    }

    fn current() -> AlertView {
        let view = json!({"name": "dead", "tenant": null, "condition": "dead_letters", "more_than": 10,
            "longer_than": null, "within": "10m", "min_attempts": null, "queue": "mail", "type": null,
            "description": "", "url": "https://example.com/a", "redacted": false, "format": "slack",
            "pending_for": "0s", "keep_firing_for": "5m", "repeat_interval": null, "state": "ok",
            "since": "2030-01-31T12:00:00Z", "turning_since": null, "value": null, "notified_at": null,
            "last_delivery": null, "paused": null, "created_at": "2030-01-31T12:00:00Z",
            "updated_at": "2030-01-31T12:00:00Z", "updated_by": "me", "added_later": 1});
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn a_change_keeps_what_is_not_given() {
        let changed = body(&["--more-than", "3", "--repeat-interval", "4h"], Some(current())).unwrap();
        assert_eq!((&changed["more_than"], &changed["within"]), (&json!(3), &json!("10m")));
        assert_eq!((&changed["queue"], &changed["format"]), (&json!("mail"), &json!("slack")));
        assert_eq!(
            (&changed["repeat_interval"], &changed["url"]),
            (&json!("4h"), &json!("https://example.com/a"))
        );
        let other = body(&["--on", "oldest_ready", "--longer-than", "5m"], Some(current())).unwrap();
        assert_eq!((other.get("more_than"), other.get("within")), (None, None));
        assert_eq!((&other["condition"], &other["longer_than"]), (&json!("oldest_ready"), &json!("5m")));
    }

    #[test]
    fn a_new_alert_has_a_condition_and_a_receiver() {
        let new = body(&["--on", "dead_letters", "--to", "https://example.com/a"], None).unwrap();
        assert_eq!(new, json!({"condition": "dead_letters", "url": "https://example.com/a"}));
        assert!(body(&["--to", "https://example.com/a"], None).is_err());
        assert!(body(&["--on", "dead_letters"], None).is_err());
        assert!(body(&["--on", "bad_weather", "--to", "https://example.com/a"], None).is_err());
    }

    #[test]
    fn only_the_host_of_a_url_is_shown() {
        assert_eq!(host("https://hooks.example.com:8443/services/SECRET?a"), "hooks.example.com:8443");
    }
}
