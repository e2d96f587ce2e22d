//! Reads answers whose parts a newer server extended: fields that this version does not know are left out. Requests are
//! read strictly, with the same types.

use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde_json::Value;

/// Reads a value without the fields that its type does not have.
pub(crate) fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let mut value = Value::deserialize(deserializer)?;
    if let (Value::Object(fields), Some(names)) = (&mut value, names::<T>()) {
        fields.retain(|name, _| names.contains(&name.as_str()));
    }
    serde_json::from_value(value).map_err(D::Error::custom)
}

/// Like [`known`], for a value that may be null.
pub(crate) fn known_or_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Option::<Value>::deserialize(deserializer)?;
    value.map(|value| known(value).map_err(D::Error::custom)).transpose()
}

/// The names of a type's fields, or of its variants if it is an enum.
fn names<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut names = None;
    let _nothing_is_read = T::deserialize(Probe(&mut names));
    names
}

/// Learns the names that a type asks for, and gives it nothing.
struct Probe<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("there is nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Some(variants);
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::job_details::Group;
    use crate::queue::{Queue, Type};
    use crate::schedule::JobTemplate;
    use crate::settings::{QueueBody, RateWire};

    #[test]
    fn a_field_that_a_newer_server_adds_hides_no_object() {
        let none = json!({"p50": null, "p95": null, "p99": null});
        let rates = json!({"submitted": 0, "claimed": 0, "completed": 0, "failed": 0, "retried": 0, "dead_letter": 0,
            "cancelled": 0, "reaped": 0, "waited": none, "ran": none});
        let rate = json!({"count": 5, "per": "1s", "burst": 9});
        let mut queue = json!({"name": "q", "type": "q", "known": true, "depth": {}, "rates": {"last_minute": rates, "last_hour": rates},
            "timeouts": {"of": 1}, "retention": {"more": 1}, "rate": rate, "rate_per_key": rate,
            "push": {"url": "https://example.com", "method": "PUT"}});
        let read: Queue = serde_json::from_value(queue.clone()).unwrap();
        assert_eq!(read.settings.rate.map(|rate| rate.count), Some(5));
        assert_eq!(read.settings.push.map(|push| push.url).as_deref(), Some("https://example.com"));
        let read: Type = serde_json::from_value(queue.clone()).unwrap();
        assert_eq!(read.settings.rate.map(|rate| rate.count), Some(5));
        for name in ["rate", "rate_per_key", "push"] {
            queue.as_object_mut().unwrap().remove(name);
        }
        assert!(serde_json::from_value::<Queue>(queue).unwrap().settings.rate.is_none());
        let job = json!({"type": "a", "queue": "q", "timeouts": {"lease": "1m", "idle": "1s"}});
        assert!(serde_json::from_value::<JobTemplate>(job).unwrap().timeouts.lease.is_some());
        let group = json!({"group": 1, "name": "g", "strategy": {"threshold": 2, "of": "completed"}, "total": 3, "open": 0,
            "completed": 2, "decided": null});
        serde_json::from_value::<Group>(group).unwrap();
    }

    #[test]
    fn a_request_with_an_unknown_field_is_refused_as_before() {
        assert!(serde_json::from_value::<RateWire>(json!({"count": 5, "per": "1s", "burst": 9})).is_err());
        let body = json!({"rate": {"count": 5, "per": "1s", "burst": 9}});
        assert!(serde_json::from_value::<QueueBody>(body).is_err());
    }
}
