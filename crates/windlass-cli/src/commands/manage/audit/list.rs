//! Lists of audit records: `windlass audit` lists stored records, `windlass events` also follows new events.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_api::json::Json;
use windlass_api::record::RecordView;
use windlass_api::time::Span;

use crate::commands::manage::workers::names;
use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::connection::reconnect::ReconnectingStream;
use crate::exit_code::Exit;
use crate::limits::AUDIT_PAGE_RECORDS;
use crate::output;
use crate::output::color::{Colour, Paint};
use crate::output::table::{cut_end, terminal_width};
use crate::output::text::moment;

/// Filters for records.
#[derive(Args, Clone)]
#[command(next_help_heading = "Filters")]
pub(crate) struct AuditFlags {
    /// About this job: an id, or a part of one
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// With this event name, such as job.lifecycle.failed
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// By this actor
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// About this queue or its jobs
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// About this type or its jobs
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
}

impl AuditFlags {
    async fn query(&self, client: &ServerClient, call: Call) -> anyhow::Result<Call> {
        let job = match &self.job {
            Some(text) => Some(client.job_id(text).await?),
            None => None,
        };
        let call = call.query_if("job", job).query_if("event", self.event.as_deref());
        let call = call.query_if("actor", self.actor.as_deref()).query_if("tenant", self.tenant.as_deref());
        Ok(call.query_if("queue", self.queue.as_deref()).query_if("type", self.job_type.as_deref()))
    }
}

/// Arguments of `audit list`.
#[derive(Args)]
pub(crate) struct AuditListArgs {
    /// Since this time, or this long ago, such as 1h
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Maximum number of records
    #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT")]
    limit: usize,
    /// List all records
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    which: AuditFlags,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `events`.
#[derive(Args)]
pub(crate) struct EventsArgs {
    /// Start with stored records since this time, or this long ago
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Follow new events until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    which: AuditFlags,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Parses a time given as such or as a duration in the past.
fn when(client: &ServerClient, text: &str) -> String {
    match text.parse::<Span>() {
        Ok(span) => client.now().minus(span.0).to_string(),
        Err(_) => text.to_owned(),
    }
}

pub(crate) async fn audit(args: &AuditListArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let since = args.since.as_deref().map(|text| when(&client, text));
    let until = args.until.as_deref().map(|text| when(&client, text));
    let call = Call::get(&["audit"]).query_if("since", since).query_if("until", until);
    let call = args.which.query(&client, call).await?;
    let most = if args.all { usize::MAX } else { args.limit };
    let (count, is_more, _) =
        kept(&client, call, most, &Shape::detect(&client, args.connect.json).await).await?;
    if !args.connect.json {
        match (count, is_more) {
            (0, _) => output::note("no matching records"),
            (_, true) => output::note(&format!("showing the first {count}; use --all or --limit for more")),
            _ => {}
        }
    }
    Ok(Exit::Done.into())
}

/// How records are printed.
struct Shape {
    is_json: bool,
    /// Names of workers by id, for people.
    workers: BTreeMap<String, String>,
}

impl Shape {
    async fn detect(client: &ServerClient, is_json: bool) -> Shape {
        Shape { is_json, workers: if is_json { BTreeMap::new() } else { names(client).await } }
    }
}

/// Prints stored records page by page. Returns how many were printed, whether there are more, and the number of the last.
async fn kept(
    client: &ServerClient,
    call: Call,
    most: usize,
    shape: &Shape,
) -> anyhow::Result<(usize, bool, Option<u64>)> {
    let (mut left, mut cursor, mut count, mut last) = (most, None::<String>, 0, None);
    while left > 0 {
        let page = call.clone().query("limit", left.min(AUDIT_PAGE_RECORDS).to_string());
        let page = client.page(page.query_if("cursor", cursor.as_deref()), "records").await?;
        for record in page.items {
            last = print(&record, shape)?.or(last);
            count += 1;
            left -= 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok((count, cursor.is_some(), last))
}

pub(crate) async fn events(args: &EventsArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let shape = Shape::detect(&client, args.connect.json).await;
    let call = args.which.query(&client, Call::get(&["events"])).await?;
    let mut last = None;
    // The stream is opened before the stored records are read, so that no event is missed in between.
    let stream = if args.follow { Some(ReconnectingStream::open(&client, call).await?) } else { None };
    if !args.follow || args.since.is_some() {
        let since = when(&client, args.since.as_deref().unwrap_or("1h"));
        let call = args.which.query(&client, Call::get(&["audit"]).query("since", since)).await?;
        let (count, _, at) = kept(&client, call, usize::MAX, &shape).await?;
        if count == 0 && !args.follow {
            output::note("no events in the last hour; --since goes further back, -f follows new events");
        }
        last = at;
    }
    if let Some(mut stream) = stream {
        output::note(&format!("following {}; stop with Ctrl-C", client.place()));
        stream.received(last);
        loop {
            if let Some(event) = stream.next().await? {
                print(serde_json::from_str(&event.data)?, &shape)?;
            }
        }
    }
    Ok(Exit::Done.into())
}

/// Prints one record as one line, and returns its number. A record that only a newer version can read is printed as JSON.
fn print(record: &RawValue, shape: &Shape) -> anyhow::Result<Option<u64>> {
    match serde_json::from_str::<RecordView>(record.get()) {
        Ok(read) if !shape.is_json => {
            output::line(&line(&read, &shape.workers, terminal_width(), Paint::for_data()))?;
            Ok(Some(read.seq))
        }
        read => {
            output::json(record)?;
            Ok(read.ok().map(|read| read.seq))
        }
    }
}

/// A value for people: durations as everywhere else, objects as `name:value`, without what is not set.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => output::escaped(text),
        Value::Object(fields) => {
            if let Some(duration) = duration(value) {
                return Span(duration).to_string();
            }
            let said = fields.iter().filter(|(_, value)| !value.is_null());
            let each: Vec<String> =
                said.map(|(name, value)| format!("{}:{}", output::escaped(name), plain(value))).collect();
            format!("{{{}}}", each.join(" "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        other => other.to_string(),
    }
}

/// A duration in the form in which records store it.
fn duration(value: &Value) -> Option<Duration> {
    let fields = value.as_object().filter(|fields| fields.len() == 2)?;
    let nanos = u32::try_from(fields.get("nanos")?.as_u64()?).ok()?;
    Some(Duration::new(fields.get("secs")?.as_u64()?, nanos))
}

fn line(
    record: &RecordView,
    workers: &BTreeMap<String, String>,
    room: Option<usize>,
    paint: Paint,
) -> String {
    let context = record.context.as_ref().map(Json::value).unwrap_or_default();
    let fields = context.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let context: Vec<String> = fields.map(|(name, value)| format!("{name}={}", plain(value))).collect();
    let job = record.job.as_ref().map_or_else(String::new, ToString::to_string);
    let actor = workers.get(&record.actor.id).unwrap_or(&record.actor.id);
    let rest = format!("{job}  {}  {}", output::escaped(actor), context.join(" "));
    let rest = room.map_or_else(|| rest.clone(), |room| cut_end(&rest, room.saturating_sub(47).max(10)));
    let colour = match record.severity.as_str() {
        "error" | "critical" => Some(Colour::Bad),
        "warning" | "warn" => Some(Colour::Warning),
        _ => None,
    };
    let name = format!("{:<24}", output::escaped(&record.event));
    let at = paint.faint(&moment(record.at));
    format!("{at}  {}  {}", paint.paint(&name, colour), rest.trim()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_read_as_people_write() {
        let timeouts = json!({"execution": {"nanos": 0, "secs": 300}, "lease": null, "start": {"nanos": 500_000_000, "secs": 1}});
        assert_eq!(plain(&timeouts), "{execution:5m start:1s500ms}");
        assert_eq!(plain(&json!(["a", 1])), "[a 1]");
        assert_eq!(plain(&json!("bell\u{7}")), "bell\\u{7}");
    }
}
