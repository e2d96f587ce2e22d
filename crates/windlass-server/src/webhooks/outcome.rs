//! Maps a response, or its absence, to the outcome of the job: completed, retry, or permanent failure. Messages say what to
//! do, and contain neither secrets nor text from the receiver.

use std::time::{Duration, UNIX_EPOCH};

use hyper::StatusCode;
use hyper::header::HeaderValue;
use windlass::clock::Timestamp;
use windlass::job::{Category, Failure};
use windlass::store::DeliveryOutcome;
use windlass::webhook_url::WebhookUrl;

use super::client::{CallError, WebhookResponse};
use crate::limits;

/// Whether the receiver accepted it.
///
/// # Errors
/// The failure to report: temporary for `5xx`, `408`, `425`, `429`, redirects and non-final responses, permanent for every
/// other `4xx`.
pub fn of_answer(url: &str, answer: &WebhookResponse, now: Timestamp) -> Result<(), Failure> {
    let status = answer.status;
    let asked = answer.retry_after.as_ref().and_then(|value| delay(value, now));
    let asked = asked.map(|delay| delay.min(limits::RETRY_AFTER_MAX));
    let Some(failure) = Failure::from_http_status(status.as_u16(), asked) else { return Ok(()) };
    let message = format!("{} responded with {status}: {}", display_url(url), advice(status));
    Err(Failure { message, ..failure })
}

/// The failure to report if there was no response.
pub fn of_error(url: &str, error: &CallError) -> Failure {
    let (code, advice) = match error {
        CallError::Refused(refused) => {
            return Failure::permanent(
                "target_refused",
                format!("{}: the address {refused}", display_url(url)),
            );
        }
        CallError::Unresolved(_) => ("target_unresolved", "check the name and this server's resolver"),
        CallError::Unreachable(_) => {
            ("target_unreachable", "check that it listens and that no firewall blocks it")
        }
        CallError::Untrusted(_) => {
            ("target_untrusted", "check its certificate, or trust its authority on this server")
        }
        CallError::Broken(_) => ("answer_broken", "check that a web server listens there"),
        CallError::TooSlow(_) => ("answer_too_slow", "respond first and work later, or allow more time"),
    };
    Failure::temporary(format!("{}: {error}; {advice}", display_url(url))).with_code(code)
}

/// How a call ended, for metrics.
pub fn of_delivery(answer: &Result<WebhookResponse, CallError>) -> DeliveryOutcome {
    match answer {
        Ok(answer) => match Failure::from_http_status(answer.status.as_u16(), None) {
            None => DeliveryOutcome::Accepted,
            Some(failure) if failure.category == Category::Permanent => DeliveryOutcome::Rejected,
            Some(_) => DeliveryOutcome::Deferred,
        },
        Err(CallError::Refused(_)) => DeliveryOutcome::Refused,
        Err(_) => DeliveryOutcome::Unanswered,
    }
}

fn advice(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "redirects are not followed, use their target address",
        401 | 403 => "it must accept calls with a valid signature",
        404 | 405 => "check the path, and that it accepts POST",
        410 => "it accepts no more of these, use another address",
        413 => "it must accept larger bodies",
        408 | 425 | 429 | 503 => "will be retried later",
        400..=499 => "it rejects this call permanently: see its own log",
        500..=599 => "will be retried: see its own log",
        _ => "not a final response",
    }
}

/// The target without path and query, which may contain a secret.
fn display_url(url: &str) -> String {
    WebhookUrl::parse(url).map_or_else(|_| "the receiver".to_owned(), |target| target.to_string())
}

/// The delay of `Retry-After`: seconds, or until a date.
fn delay(value: &HeaderValue, now: Timestamp) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let since_epoch = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::MIN.plus(since_epoch).since(now))
}

#[cfg(test)]
mod tests {
    use windlass::job::Category;
    use windlass::webhook_url::TargetError;

    use super::super::client::Body;
    use super::*;

    const URL: &str = "https://example.com/hook?token=hunter2";
    /// 1994-11-06T08:49:37Z
    const NOW: Timestamp = Timestamp::MIN;

    fn judged(status: u16, retry_after: Option<&'static str>) -> Result<(), Failure> {
        let status = StatusCode::from_u16(status).unwrap();
        let retry_after = retry_after.map(HeaderValue::from_static);
        of_answer(
            URL,
            &WebhookResponse { status, retry_after, content_type: None, body: Body::Unread },
            NOW.plus(Duration::from_secs(784_111_777)),
        )
    }

    #[test]
    fn the_status_decides() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(judged(status, None), Ok(()));
        }
        for status in [400, 401, 403, 404, 405, 409, 410, 413, 415, 418, 422, 451] {
            assert_eq!(judged(status, None).unwrap_err().category, Category::Permanent, "{status}");
        }
        for status in [301, 302, 303, 307, 308, 304, 408, 425, 429, 500, 501, 502, 503, 504, 511, 599, 999] {
            assert_eq!(judged(status, None).unwrap_err().category, Category::Temporary, "{status}");
        }
        assert_eq!(judged(410, None).unwrap_err().code.as_deref(), Some("http_410"));
    }

    #[test]
    fn a_receiver_says_when_to_come_again() {
        let after = |text| judged(503, Some(text)).unwrap_err().retry_after;
        assert_eq!(after("0"), Some(Duration::ZERO));
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(after("Sun, 06 Nov 1994 08:51:37 GMT"), Some(Duration::from_secs(120)));
        assert_eq!(after("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO), "in the past");
        assert_eq!(after("18446744073709551615"), Some(limits::RETRY_AFTER_MAX));
        assert_eq!(after("Fri, 31 Dec 9999 23:59:59 GMT"), Some(limits::RETRY_AFTER_MAX));
        for nonsense in ["", "-1", "1.5", "soon", "99999999999999999999999"] {
            assert_eq!(after(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn messages_help_and_contain_no_secret() {
        let mut failures: Vec<Failure> =
            [302, 404, 410, 500, 999].map(|status| judged(status, None).unwrap_err()).into();
        let errors = [
            CallError::Refused(TargetError::Port(25)),
            CallError::Unresolved("no such host".into()),
            CallError::Unreachable("connection refused".into()),
            CallError::Untrusted("certificate expired".into()),
            CallError::Broken("connection reset".into()),
            CallError::TooSlow(Duration::from_secs(15)),
        ];
        failures.extend(errors.iter().map(|error| of_error(URL, error)));
        for failure in &failures {
            assert!(!failure.message.contains("hunter2"), "{failure}");
            assert!(failure.message.starts_with("https://example.com"), "{failure}");
            assert!(failure.code.is_some(), "{failure}");
        }
        assert_eq!(
            failures[5].category,
            Category::Permanent,
            "an address that is not allowed now is not allowed later"
        );
        assert!(failures[6..].iter().all(|failure| failure.category == Category::Temporary));
    }
}
