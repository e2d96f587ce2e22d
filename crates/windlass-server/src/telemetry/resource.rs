//! What sends the traces: the attributes that all spans of a process share.

use windlass::entropy::Entropy;

/// Attributes of this process: `OTEL_SERVICE_NAME` before `OTEL_RESOURCE_ATTRIBUTES` before what is known here.
pub(super) fn attributes(service: Option<String>, given: &str) -> Vec<(String, String)> {
    let version = env!("CARGO_PKG_VERSION");
    let mut found: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| {
        if !found.iter().any(|(known, _)| known == name) {
            found.push((name.to_owned(), value));
        }
    };
    let given: Vec<(&str, String)> = pairs(given).collect();
    let own_name = given.iter().find(|(name, _)| *name == "service.name").map(|(_, value)| value.clone());
    add("service.name", service.or(own_name).unwrap_or_else(|| "windlass".to_owned()));
    for (name, value) in given {
        add(name, value);
    }
    add("service.version", version.to_owned());
    let instance = Entropy::from_system().bits();
    add("service.instance.id", format!("{instance:032x}"));
    if let Ok(host) = rustix::system::uname().nodename().to_str() {
        add("host.name", host.to_owned());
    }
    add("process.pid", std::process::id().to_string());
    add("telemetry.sdk.name", "windlass".to_owned());
    add("telemetry.sdk.language", "rust".to_owned());
    add("telemetry.sdk.version", version.to_owned());
    found
}

/// `name=value,name=value`, the values percent-decoded; what is not a pair is left out.
fn pairs(text: &str) -> impl Iterator<Item = (&str, String)> {
    text.split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.trim(), decoded(value.trim())))
}

/// Percent-decoded text; what is not an escape stays.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = hex.filter(|hex| *first == b'%' && !hex.starts_with('+'));
        if let Some(byte) = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{attributes, decoded};

    #[test]
    fn a_process_is_named_by_what_is_given_and_what_is_known() {
        let found = attributes(None, "service.name=jobs,deployment.environment.name=a%20b, x");
        let value =
            |name: &str| found.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(value("service.name"), Some("jobs"));
        assert_eq!(value("deployment.environment.name"), Some("a b"));
        assert_eq!(value("telemetry.sdk.language"), Some("rust"));
        assert!(value("service.instance.id").is_some() && value("x").is_none(), "{found:?}");
        assert_eq!(attributes(Some("own".into()), "service.name=jobs")[0].1, "own");
        assert_eq!(attributes(None, "")[0].1, "windlass");
    }

    #[test]
    fn what_is_not_an_escape_stays() {
        for (text, expected) in
            [("a%2Cb%3d", "a,b="), ("100%", "100%"), ("%zz%+1", "%zz%+1"), ("%ff", "%ff"), ("", "")]
        {
            assert_eq!(decoded(text), expected);
        }
    }
}
