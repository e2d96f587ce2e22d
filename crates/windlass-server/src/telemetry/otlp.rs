//! Spans in OTLP's JSON format: ids in hexadecimal, 64-bit numbers as strings.

use serde_json::{Value, json};

use super::layer::{Attribute, Span};

/// One request to a collector.
pub(super) fn request(resource: &[(String, String)], spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let texts = resource.iter().map(|(name, value)| json!({"key": name, "value": {"stringValue": value}}));
    let resource = json!({"attributes": texts.collect::<Vec<Value>>()});
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({"name": "windlass", "version": version});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

fn span(span: &Span) -> Value {
    let attributes: Vec<Value> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut written = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": span.began.to_string(),
        "endTimeUnixNano": span.ended.to_string(),
        "attributes": attributes,
        "status": if span.is_error { json!({"code": 2}) } else { json!({}) },
    });
    if let Some(link) = span.link {
        written["links"] = json!([{
            "traceId": format!("{:032x}", link.trace),
            "spanId": format!("{:016x}", link.span),
        }]);
    }
    if let Some(parent) = span.context.parent {
        written["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    written
}

fn attribute(name: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
        Attribute::Truth(truth) => json!({"boolValue": truth}),
    };
    json!({"key": name, "value": value})
}
