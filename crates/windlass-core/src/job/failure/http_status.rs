//! What the HTTP status of a response means for the job that sent the request. The same rule for handlers and for the
//! server's own deliveries.

use std::time::Duration;

use super::Failure;

/// 4xx statuses after which the same request may succeed: timeout, too early, too many requests.
const MAY_PASS: [u16; 3] = [408, 425, 429];

impl Failure {
    /// The failure for an HTTP status; `None` for success (2xx).
    ///
    /// 408, 425, 429 and 5xx are temporary, and so are non-final responses (1xx, 3xx). Every other 4xx is permanent,
    /// because the same request would be refused again. `retry_after` is the response's `Retry-After`; it replaces the
    /// backoff of a temporary failure. The code is `http_` and the status.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use windlass_core as windlass;
    /// use windlass::job::{Category, Failure};
    ///
    /// assert!(Failure::from_http_status(204, None).is_none());
    /// let busy = Failure::from_http_status(429, Some(Duration::from_secs(30))).unwrap();
    /// assert_eq!((busy.category, busy.retry_after), (Category::Temporary, Some(Duration::from_secs(30))));
    /// let gone = Failure::from_http_status(410, None).unwrap();
    /// assert_eq!((gone.category, gone.code.as_deref()), (Category::Permanent, Some("http_410")));
    /// ```
    pub fn from_http_status(status: u16, retry_after: Option<Duration>) -> Option<Failure> {
        if (200..300).contains(&status) {
            return None;
        }
        let (code, message) =
            (format!("http_{status}"), format!("the server responded with status {status}"));
        if (400..500).contains(&status) && !MAY_PASS.contains(&status) {
            return Some(Failure::permanent(code, message));
        }
        let failure = Failure::temporary(message).with_code(code);
        Some(match retry_after {
            Some(delay) => failure.with_retry_after(delay),
            None => failure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Category;

    #[test]
    fn each_status_has_one_category() {
        let delay = Some(Duration::from_secs(7));
        for status in 100..=599 {
            let failure = Failure::from_http_status(status, delay);
            let expected = match status {
                200..300 => None,
                408 | 425 | 429 => Some(Category::Temporary),
                400..500 => Some(Category::Permanent),
                _ => Some(Category::Temporary),
            };
            assert_eq!(failure.as_ref().map(|failure| failure.category), expected, "{status}");
            let asked = failure.and_then(|failure| failure.retry_after);
            assert_eq!(asked, delay.filter(|_| expected == Some(Category::Temporary)), "{status}");
        }
    }
}
