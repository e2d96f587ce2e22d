//! Queues, types and tenants: objects with a name, job counts and settings. The commands `list`, `show` and `set` are
//! the same for all three; a [`Kind`] says how they differ.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass_api::known::KnownView;
use windlass_api::pause::{Pause, Resumption};
use windlass_api::retry::EffectiveRetry;
use windlass_api::stats::{Counts, QueueRates};

use crate::commands::manage::settings::{Line, is_empty, nothing_to_set};
use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::output::color::{Colour, Paint};
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{ago, measured, spent};
use crate::output::{self, escaped};
use windlass_server::number::grouped;

/// Queues, types or tenants; the implementor is the flags of their settings.
pub(crate) trait Kind: Args {
    /// The singular, for people.
    const NOUN: &'static str;
    /// The plural: the path of the API, and the command.
    const PLURAL: &'static str;
    /// Help of the subcommands and of the name.
    const HELP: Help;
    /// An object in a list.
    type Object: DeserializeOwned + Into<Facts>;
    /// An object after a change.
    type Response: DeserializeOwned + Into<Facts>;
    /// Changes of settings.
    type Body: Serialize;

    /// The columns of the list.
    fn columns() -> Vec<Column>;
    /// The cells of one object.
    fn row(object: &Self::Object, now: Timestamp) -> Vec<Cell>;
    /// Whether the change needs the current retry policy.
    fn needs_policy(&self) -> bool;
    /// The changes that the flags ask for; `current` is the retry policy so far.
    fn body(&self, current: Option<EffectiveRetry>) -> anyhow::Result<Self::Body>;
}

/// Help texts.
pub(crate) struct Help {
    pub(crate) list: &'static str,
    pub(crate) show: &'static str,
    pub(crate) set: &'static str,
    pub(crate) name: &'static str,
}

/// Arguments of the command; lists the objects if no subcommand is given.
#[derive(Args)]
pub(crate) struct NamedArgs<K: Kind> {
    #[command(subcommand)]
    command: Option<NamedCommand<K>>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Subcommand)]
enum NamedCommand<K: Kind> {
    #[command(about = K::HELP.list)]
    List(ConnectArgs),
    #[command(about = K::HELP.show)]
    Show {
        #[arg(help = K::HELP.name)]
        name: String,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    #[command(about = K::HELP.set)]
    Set(Box<SetArgs<K>>),
}

#[derive(Args)]
struct SetArgs<K: Kind> {
    #[arg(help = K::HELP.name)]
    name: String,
    /// Configure it even if no job, setting or worker uses this name yet
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    settings: K,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What is printed of one object. Kinds and responses that do not have a field leave it empty.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) is_changed: Option<bool>,
    pub(crate) paused: Option<Pause>,
    pub(crate) resumed: Option<Resumption>,
    pub(crate) depth: Option<Counts>,
    pub(crate) rates: Option<QueueRates>,
    pub(crate) cost_cents: Option<i64>,
    pub(crate) retry: Option<EffectiveRetry>,
    pub(crate) settings: Vec<Line>,
}

pub(crate) async fn run<K: Kind>(args: &NamedArgs<K>) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list::<K>(&args.connect).await,
        Some(NamedCommand::List(connect)) => list::<K>(connect).await,
        Some(NamedCommand::Show { name, connect }) => show::<K>(name, connect).await,
        Some(NamedCommand::Set(args)) => set(args).await,
    }
}

async fn list<K: Kind>(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let Some(all) = client.show_all::<K::Object>(K::PLURAL).await? else { return Ok(Exit::Done.into()) };
    let mut table = Table::new(K::columns());
    for one in &all {
        table.row(K::row(one, client.now()));
    }
    table.print_or(&format!("no {} yet: the first job creates one", K::PLURAL))
}

async fn show<K: Kind>(name: &str, connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let answer = client.send(Call::get(&[K::PLURAL, name])).await?;
    let known = answer.read::<KnownView>()?;
    if !known.known {
        output::note(&unknown(K::NOUN, name, &known));
    }
    if connect.json {
        answer.print()?;
    } else {
        let facts: Facts = answer.read::<K::Object>()?.into();
        output::text(&facts.describe(K::NOUN, client.now(), Paint::for_data()))?;
    }
    Ok(Exit::Done.into())
}

async fn set<K: Kind>(args: &SetArgs<K>) -> anyhow::Result<ExitCode> {
    let mut body = args.settings.body(None)?;
    if is_empty(&body) {
        return Err(nothing_to_set(K::PLURAL));
    }
    let client = args.connect.client()?;
    must_be_known(&client, (K::NOUN, K::PLURAL), &args.name, args.create).await?;
    if args.settings.needs_policy() {
        let current: Facts = client.ask::<K::Object>(Call::get(&[K::PLURAL, &args.name])).await?.into();
        body = args.settings.body(current.retry)?;
    }
    let call = Call::put(&[K::PLURAL, &args.name]).json(&body);
    if let Some(acted) = client.show::<K::Response>(call).await? {
        let facts: Facts = acted.into();
        if facts.is_changed == Some(false) {
            output::note("already in that state");
        }
        output::text(&facts.describe(K::NOUN, client.now(), Paint::for_data()))?;
    }
    Ok(Exit::Done.into())
}

/// Refuses to configure an object with an unknown name, which is usually a typing error.
pub(crate) async fn must_be_known(
    client: &ServerClient,
    (noun, plural): (&str, &str),
    name: &str,
    create: bool,
) -> anyhow::Result<()> {
    if create {
        return Ok(());
    }
    let known: KnownView = client.ask(Call::get(&[plural, name])).await?;
    if known.known {
        return Ok(());
    }
    let message = format!("{}; pass --create to configure it anyway", unknown(noun, name, &known));
    Err(Failure::NotFound(message).into())
}

/// The message for an unknown name, with similar names.
fn unknown(noun: &str, name: &str, known: &KnownView) -> String {
    let similar: Vec<String> = known.similar.iter().map(|name| format!("`{}`", escaped(name))).collect();
    let hint =
        if similar.is_empty() { String::new() } else { format!("; did you mean {}?", similar.join(", ")) };
    format!("unknown {noun} `{}`: no job, setting or worker uses it{hint}", escaped(name))
}

impl Facts {
    /// The object as text: its name and pause, jobs, rates and settings.
    fn describe(&self, noun: &str, now: Timestamp, paint: Paint) -> String {
        let held = self.paused.as_ref().map(|pause| format!("  {}", escaped(&paused(pause, now))));
        let held = paint.paint(&held.unwrap_or_default(), Some(Colour::Warning));
        let mut text = format!("{noun} {}{held}\n", paint.strong(&escaped(&self.name)));
        if let Some(end) = &self.resumed {
            let end = format!("last resumed {} by {}", ago(end.at, now), escaped(&end.by));
            let _always_fits = writeln!(text, "  {}", paint.faint(&end));
        }
        let mut line = |name: &str, value: &str| {
            let _always_fits = writeln!(text, "{}  {value}", paint.faint(&format!("{name:>20}")));
        };
        if let Some(depth) = &self.depth {
            let part = |(state, count)| format!("{} {}", grouped(count), paint.state(state));
            let all: Vec<String> = depth.iter().filter(|(_, count)| *count > 0).map(part).collect();
            line("jobs", &if all.is_empty() { "none".to_owned() } else { all.join(", ") });
        }
        if let Some(cents) = self.cost_cents {
            line("cost", &spent(cents));
        }
        for (name, value) in self.rates.iter().flat_map(rate_lines) {
            line(name, &value);
        }
        let set = self.settings.iter().filter_map(|(flag, value)| Some((*flag, value.as_ref()?)));
        let set: Vec<_> = set.collect();
        let _always_fits = writeln!(text, "{}", paint.strong("settings"));
        if set.is_empty() {
            text.push_str("  no settings\n");
        }
        for (flag, value) in set {
            let flag = paint.faint(&format!("{flag:>20}"));
            let _always_fits = writeln!(text, "{flag}  {}", escaped(value));
        }
        text
    }
}

/// Counts of the last minute and hour, and how long jobs waited and ran.
fn rate_lines(rates: &QueueRates) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for (name, period) in [("last minute", &rates.last_minute), ("last hour", &rates.last_hour)] {
        let counts = [
            (period.submitted, "submitted"),
            (period.completed, "completed"),
            (period.failed, "failed"),
            (period.retried, "retried"),
            (period.dead_letter, "dead_letter"),
            (period.cancelled, "cancelled"),
            (period.reaped, "reaped"),
        ];
        let counted = counts.iter().filter(|(count, _)| *count > 0);
        let counted: Vec<String> =
            counted.map(|(count, word)| format!("{} {word}", grouped(*count))).collect();
        if counted.is_empty() {
            continue;
        }
        lines.push((name, counted.join(", ")));
        for (name, spread) in [("waited", &period.waited), ("ran", &period.ran)] {
            if let (Some(p50), Some(p95), Some(p99)) = (spread.p50, spread.p95, spread.p99) {
                let [p50, p95, p99] = [p50, p95, p99].map(|span| measured(span.0));
                lines.push((name, format!("{p50} median, {p95} p95, {p99} p99")));
            }
        }
    }
    lines
}

/// States of jobs that are neither final, running nor ready.
const WAITING: [JobState; 6] = [
    JobState::Created,
    JobState::Pending,
    JobState::Delayed,
    JobState::Waiting,
    JobState::Retrying,
    JobState::Suspended,
];

/// The numbers of ready, running and waiting jobs and of dead letters; `max_running` is shown beside the running ones.
pub(crate) fn depths(depth: &Counts, max_running: Option<u64>) -> [Cell; 4] {
    let running = depth.sum(&[JobState::Running]);
    let text = max_running.map_or_else(|| running.to_string(), |most| format!("{running}/{most}"));
    [
        depth.sum(&[JobState::Scheduled]).to_string().into(),
        Cell::painted(text, (running > 0).then_some(Colour::Active)),
        depth.sum(&WAITING).to_string().into(),
        // Not in red: those that were retried count as well.
        depth.sum(&[JobState::DeadLetter]).to_string().into(),
    ]
}

/// A number that should be zero.
pub(crate) fn bad(count: u64) -> Cell {
    Cell::painted(count.to_string(), (count > 0).then_some(Colour::Bad))
}

/// The pause of an object, if it has one.
pub(crate) fn held(pause: Option<&Pause>, now: Timestamp) -> Cell {
    let description = pause.map(|pause| paused(pause, now)).unwrap_or_default();
    Cell::painted(description, Some(Colour::Warning))
}

fn paused(pause: &Pause, now: Timestamp) -> String {
    let reason = pause.reason.as_ref().map(|reason| format!(": {reason}"));
    format!("paused {}{}", ago(pause.at, now), reason.unwrap_or_default())
}
