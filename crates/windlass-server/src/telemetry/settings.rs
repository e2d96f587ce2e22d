//! Trace settings, from OpenTelemetry's standard variables. Invalid settings are an error at startup, because missing
//! traces are noticed too late.

use std::time::Duration;

use anyhow::Context;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::resource;
use super::sampler::Sampler;
use crate::limits::{SPAN_CALL_TIME_MAX, SPANS_SENT_EVERY};

/// The collector and how to send to it.
#[derive(Debug)]
pub(super) struct Settings {
    /// The full URL.
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    /// What sends the traces.
    pub(super) resource: Vec<(String, String)>,
    pub(super) sampler: Sampler,
    pub(super) sent_every: Duration,
    pub(super) time_max: Duration,
}

impl Settings {
    /// The settings from the environment; None if it names no collector.
    pub(super) fn from_environment() -> anyhow::Result<Option<Settings>> {
        Settings::read(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<Settings>> {
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        let whole = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
        let below = |base: String| format!("{}/v1/traces", base.trim_end_matches('/'));
        let Some(url) = whole.or_else(|| base.map(below)).filter(|_| !is_off) else { return Ok(None) };
        let either = |end: &str| {
            variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{end}"))
                .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{end}")))
        };
        if let Some(protocol) = either("PROTOCOL") {
            anyhow::ensure!(
                protocol.starts_with("http/"),
                "OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, but traces are sent over HTTP only: use the \
                 collector's HTTP port (usually 4318) and unset it"
            );
        }
        let headers = headers(either("HEADERS").as_deref().unwrap_or_default())?;
        let time_max = millis("OTEL_EXPORTER_OTLP_TIMEOUT", either("TIMEOUT"), SPAN_CALL_TIME_MAX)?;
        let delay = "OTEL_BSP_SCHEDULE_DELAY";
        let sent_every = millis(delay, variable(delay), SPANS_SENT_EVERY)?;
        let given = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let resource = resource::attributes(variable("OTEL_SERVICE_NAME"), &given);
        let (sampler, argument) = (variable("OTEL_TRACES_SAMPLER"), variable("OTEL_TRACES_SAMPLER_ARG"));
        let sampler = Sampler::read(sampler.as_deref(), argument.as_deref())?;
        Ok(Some(Settings { url, headers, resource, sampler, sent_every, time_max }))
    }
}

fn millis(name: &str, text: Option<String>, default: Duration) -> anyhow::Result<Duration> {
    let Some(text) = text else { return Ok(default) };
    let millis = text.trim().parse().with_context(|| format!("{name} is not a number of milliseconds"))?;
    Ok(Duration::from_millis(millis))
}

/// `name=value,name=value`, the values percent-decoded; errors do not contain the values, which are usually secrets.
fn headers(text: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let wrong = "OTEL_EXPORTER_OTLP_HEADERS must be name=value,name=value";
        let (name, value) = pair.split_once('=').context(wrong)?;
        let name: HeaderName = name.trim().parse().ok().context(wrong)?;
        let mut value = HeaderValue::from_str(&resource::decoded(value.trim())).ok().context(wrong)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::Settings;

    fn read(variables: &[(&str, &str)]) -> anyhow::Result<Option<Settings>> {
        Settings::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_standard_variables_say_where_traces_go() {
        assert!(read(&[]).unwrap().is_none());
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        assert_eq!(read(&[base]).unwrap().unwrap().url, "http://collector:4318/v1/traces");
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other/x");
        assert_eq!(read(&[base, whole]).unwrap().unwrap().url, "https://other/x");
        assert!(read(&[base, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
        let headers =
            read(&[base, ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret, x=a=b%20c")]).unwrap().unwrap();
        assert_eq!(headers.headers["api-key"], "s3cret");
        assert_eq!(headers.headers["x"], "a=b c");
    }

    #[test]
    fn what_is_not_understood_is_refused_without_showing_secrets() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        for wrong in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x=s3cret\u{7}"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
        ] {
            let error = format!("{:#}", read(&[base, wrong]).unwrap_err());
            assert!(error.contains("OTEL_") && !error.contains("s3cret"), "{error}");
        }
    }
}
