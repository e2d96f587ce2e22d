//! Settings forms: only changed fields are saved. Every field is sent with the value the page showed, as `was_…`; if both
//! are equal the setting is not changed, even if another person changed it meanwhile.

pub(in crate::dashboard) mod fields;

use std::time::Duration;

use windlass::settings::Rate;
use windlass::settings::patch::{Field, RetentionPatch, TimeoutsPatch};

use crate::dashboard::page::PageError;
use crate::dashboard::requests::form::Fields;

/// Whether a field differs from the value the page showed; a field that was not sent does not.
pub(in crate::dashboard) fn is_touched(form: &Fields, name: &str) -> bool {
    let was = format!("was_{name}");
    let is_sent = form.all(name).next().is_some();
    is_sent && (form.all(&was).next().is_none() || form.get(name) != form.get(&was))
}

/// The change of a setting: none unless the field changed, cleared if it is empty, otherwise the result of `read`.
pub(in crate::dashboard) fn field<T>(
    form: &Fields,
    name: &str,
    read: impl FnOnce(&str) -> Result<T, PageError>,
) -> Result<Field<T>, PageError> {
    if !is_touched(form, name) {
        return Ok(Field::Keep);
    }
    form.get(name).map_or(Ok(Field::Clear), |text| read(text).map(Field::Set))
}

/// A whole number.
pub(in crate::dashboard) fn number(form: &Fields, name: &str) -> Result<Field<u64>, PageError> {
    field(form, name, |text| parse_integer(name, text))
}

/// Parses the number in a field.
pub(in crate::dashboard) fn parse_integer(name: &str, text: &str) -> Result<u64, PageError> {
    text.parse().map_err(|_| PageError::invalid(format!("{name}: `{text}` is not a whole number")))
}

/// A rate; number and period belong together.
pub(in crate::dashboard) fn rate(
    form: &Fields,
    [count, per]: [&str; 2],
    label: &str,
) -> Result<Field<Rate>, PageError> {
    if !is_touched(form, count) && !is_touched(form, per) {
        return Ok(Field::Keep);
    }
    let number = form.get(count).map(|text| parse_integer(count, text)).transpose()?;
    match (number, form.duration(per)?) {
        (Some(number), Some(per)) => Ok(Field::Set(Rate::new(number, per))),
        (Some(_), None) => {
            Err(PageError::invalid(format!("{label}: the period is missing, such as 1s or 1m")))
        }
        (None, Some(_)) if !is_touched(form, count) => {
            Err(PageError::invalid(format!("{label}: the number is missing")))
        }
        (None, _) => Ok(Field::Clear),
    }
}

/// A duration.
pub(in crate::dashboard) fn duration(form: &Fields, name: &str) -> Result<Field<Duration>, PageError> {
    if is_touched(form, name) { Ok(form.duration(name)?.into()) } else { Ok(Field::Keep) }
}

/// Time limits.
pub(in crate::dashboard) fn timeouts(form: &Fields) -> Result<Field<TimeoutsPatch>, PageError> {
    Ok(Field::Set(TimeoutsPatch {
        execution: duration(form, "execution")?,
        max_execution: duration(form, "max_execution")?,
        lease: duration(form, "lease")?,
        start: duration(form, "start")?,
        lifetime: duration(form, "lifetime")?,
    }))
}

/// How long jobs are kept, by final state.
pub(in crate::dashboard) fn retention(form: &Fields) -> Result<Field<RetentionPatch>, PageError> {
    Ok(Field::Set(RetentionPatch {
        completed: duration(form, "retention_completed")?,
        failed: duration(form, "retention_failed")?,
        dead_letter: duration(form, "retention_dead_letter")?,
        cancelled: duration(form, "retention_cancelled")?,
    }))
}

/// A checkbox; None if it did not change. Browsers do not send unchecked boxes.
pub(in crate::dashboard) fn tick(form: &Fields, name: &str) -> Option<bool> {
    let is_ticked = form.get(name).is_some();
    let was = format!("was_{name}");
    match form.all(&was).next() {
        Some(was) => (is_ticked == was.is_empty()).then_some(is_ticked),
        None => is_ticked.then_some(true),
    }
}

/// An amount such as `250` or `250.50`, in cents.
pub(in crate::dashboard) fn amount(form: &Fields, name: &str) -> Result<Field<u64>, PageError> {
    field(form, name, |text| {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let is_plain = !whole.is_empty() && part.len() <= 2 && !text.ends_with('.');
        let is_plain = is_plain && (whole.chars().chain(part.chars())).all(|c| c.is_ascii_digit());
        let cents = is_plain.then(|| format!("{whole}{part:0<2}").parse().ok()).flatten();
        cents.ok_or_else(|| PageError::invalid(format!("{name}: must be an amount such as 250 or 250.50")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Fields {
        Fields::parse(text.as_bytes())
    }

    #[test]
    fn a_field_that_shows_what_it_showed_is_kept() {
        let read = |text: &str| number(&form(text), "n").ok();
        assert_eq!(read("n=5&was_n=5"), Some(Field::Keep));
        assert_eq!(read("n=&was_n="), Some(Field::Keep));
        assert_eq!(read("was_n=5"), Some(Field::Keep));
        assert_eq!(read("n=6&was_n=5"), Some(Field::Set(6)));
        assert_eq!(read("n=&was_n=5"), Some(Field::Clear));
        assert_eq!(read("n=5&was_n="), Some(Field::Set(5)));
        // Sent without the shown value, as by a script: the value is set.
        assert_eq!(read("n=5"), Some(Field::Set(5)));
        assert_eq!(read("n="), Some(Field::Clear));
        assert_eq!(read("n=five"), None);
    }

    #[test]
    fn a_box_left_alone_says_nothing() {
        let read = |text: &str| tick(&form(text), "b");
        assert_eq!([read("b=1&was_b=1"), read("was_b="), read("")], [None; 3]);
        assert_eq!([read("b=1&was_b="), read("b=1")], [Some(true); 2]);
        assert_eq!(read("was_b=1"), Some(false));
    }

    #[test]
    fn amounts_are_read_to_the_cent() {
        let read = |text: &str| amount(&form(&format!("a={text}")), "a").ok();
        assert_eq!(read("250"), Some(Field::Set(25_000)));
        assert_eq!(read("250.5"), Some(Field::Set(25_050)));
        assert_eq!(read("0.05"), Some(Field::Set(5)));
        assert_eq!(read(""), Some(Field::Clear));
        for wrong in ["1,5", "1.234", "-3", ".5", "5.", "x", "99999999999999999999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
