//! One log line: the event, and the ids of the trace and the job that it belongs to.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, Format, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;
use windlass::job::Traceparent;

/// Whether a span has the ids that its lines carry: those of a request and of a run.
pub(super) fn has_ids(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && matches!(metadata.name(), "request" | "handler")
}

/// The format of lines.
pub(super) enum Line {
    Text,
    Json(Format<Json>),
}

impl Line {
    pub(super) fn json() -> Line {
        let format = tracing_subscriber::fmt::format().json();
        Line::Json(format.flatten_event(true).with_current_span(false).with_span_list(false))
    }
}

impl<S> FormatEvent<S, SpanIds> for Line
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, SpanIds>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let ids = context.event_scope().and_then(|mut scope| {
            scope.find_map(|span| {
                let extensions = span.extensions();
                let ids = extensions.get::<FormattedFields<SpanIds>>()?;
                (!ids.fields.is_empty()).then(|| ids.fields.clone())
            })
        });
        let ids = ids.unwrap_or_default();
        match self {
            Line::Text => {
                SystemTime.format_time(&mut writer)?;
                write!(writer, " {:>5} ", event.metadata().level())?;
                DefaultFields::new().format_fields(writer.by_ref(), event)?;
                writeln!(writer, "{ids}")
            }
            Line::Json(format) => {
                let mut text = String::new();
                format.format_event(context, Writer::new(&mut text), event)?;
                let open = text.trim_end().strip_suffix('}').ok_or(fmt::Error)?;
                writeln!(writer, "{open}{ids}}}")
            }
        }
    }
}

/// The ids of a span, as the end of a line.
pub(super) enum SpanIds {
    Text,
    Json,
}

impl<'writer> FormatFields<'writer> for SpanIds {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut ids = Ids::default();
        fields.record(&mut ids);
        for (name, id) in [("trace_id", ids.trace), ("job_id", ids.job)] {
            // Digits and hyphens: there is nothing to escape.
            match (self, id) {
                (SpanIds::Text, Some(id)) => write!(writer, " {name}={id}")?,
                (SpanIds::Json, Some(id)) => write!(writer, ",\"{name}\":\"{id}\"")?,
                (_, None) => {}
            }
        }
        Ok(())
    }

    /// The ids are known when a span begins.
    fn add_fields(&self, _: &'writer mut FormattedFields<Self>, _: &Record<'_>) -> fmt::Result {
        Ok(())
    }
}

/// The ids in the fields of a span.
#[derive(Default)]
struct Ids {
    trace: Option<String>,
    job: Option<String>,
}

impl Visit for Ids {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "traceparent" | "own" | "link" => {
                if let Some(trace) = Traceparent::parse(value) {
                    self.trace = Some(trace.id().to_owned());
                }
            }
            "messaging.message.id" => self.job = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "messaging.message.id" {
            self.job = Some(format!("{value:?}"));
        }
    }
}
