//! Jobs by a part of their id. The first 12 hexadecimal digits of an id are the millisecond of submission, so that a prefix
//! names a short time in which to look, and a prefix with an end, `PREFIX…END` as tables show it, is nearly always unique.

use windlass::clock::Timestamp;
use windlass::job::JobId;

use super::client::{Call, Client};
use super::failure::Failure;
use crate::limits;

/// Hexadecimal digits that are the millisecond.
const TIME_DIGITS: usize = 12;
/// Candidates that are shown of those that fit.
const CANDIDATES_SHOWN: usize = 5;

/// A part of an id.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// Its beginning, digits only.
    head: String,
    /// Its end, digits only.
    tail: String,
}

impl Part {
    fn parse(text: &str) -> Option<Part> {
        let cut = text.split_once('…').or_else(|| text.split_once(".."));
        let (head, tail) = cut.unwrap_or((text, ""));
        let digits = |part: &str| -> Option<String> {
            let digits: String = part.chars().filter(|c| *c != '-').collect();
            let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
            is_hex.then(|| digits.to_ascii_lowercase())
        };
        let part = Part { head: digits(head)?, tail: digits(tail)? };
        (!part.head.is_empty() || !part.tail.is_empty()).then_some(part)
    }

    fn fits(&self, id: &str) -> bool {
        let digits: String = id.chars().filter(|c| *c != '-').collect();
        digits.starts_with(&self.head) && digits.ends_with(&self.tail)
    }

    /// Also with the beginning taken for an end.
    fn fits_either(&self, id: &str) -> bool {
        let digits: String = id.chars().filter(|c| *c != '-').collect();
        self.fits(id) || (self.tail.is_empty() && digits.ends_with(&self.head))
    }

    /// The first and the last millisecond in which a job with this beginning can have been submitted.
    fn times(&self) -> Option<(Timestamp, Timestamp)> {
        if self.head.is_empty() {
            return None;
        }
        let known = &self.head[..self.head.len().min(TIME_DIGITS)];
        let bound = |filler: &str| -> Option<Timestamp> {
            let digits = format!("{known}{}", filler.repeat(TIME_DIGITS - known.len()));
            let millis = i64::from_str_radix(&digits, 16).ok()?;
            Some(Timestamp::from_millis(millis.min(Timestamp::MAX.as_millis())))
        };
        Some((bound("0")?, bound("f")?))
    }
}

impl Client {
    /// The whole id of the job that a part of an id means.
    pub(crate) async fn job_id(&self, text: &str) -> Result<String, Failure> {
        let text = text.trim();
        if let Ok(id) = text.parse::<JobId>() {
            return Ok(id.to_string());
        }
        let missing = || Failure::NotFound(format!("no job `{}`", super::output::escaped(text)));
        let part = Part::parse(text).ok_or_else(missing)?;
        let mut found = Vec::new();
        if let Some((first, last)) = part.times() {
            let call =
                Call::get(&["jobs"]).query("order", "oldest").query("created_after", first.to_string());
            // The end of a list is exclusive, and ids that were drawn before their job was stored are a little older.
            let last = last.plus(limits::ID_TIME_SLACK);
            let call = call.query("created_before", last.to_string());
            found = self.fitting(call, limits::ID_SEARCH_PAGES_MAX, &|id| part.fits(id)).await?;
        }
        if found.is_empty() {
            // Not a beginning that is known: perhaps the end of a recent one.
            let call = Call::get(&["jobs"]);
            found = self.fitting(call, 1, &|id| part.fits_either(id)).await?;
        }
        match found.as_slice() {
            [] => Err(missing()),
            [id] => Ok(id.clone()),
            several => Err(Failure::NotFound(ambiguous(text, several))),
        }
    }

    /// The ids of the jobs on the first pages of a list that fit, a few of them.
    async fn fitting(
        &self,
        call: Call,
        pages: usize,
        fits: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Vec<String>, Failure> {
        let call = call.query("limit", limits::LIST_PAGE_JOBS.to_string());
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..pages {
            let page = self.value(call.clone().query_if("cursor", cursor.as_deref())).await?;
            let jobs = page["jobs"].as_array().map_or(&[][..], Vec::as_slice);
            let ids = jobs.iter().filter_map(|job| job["id"].as_str()).filter(|id| fits(id));
            found.extend(ids.map(str::to_owned));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() || found.len() > CANDIDATES_SHOWN {
                break;
            }
        }
        Ok(found)
    }
}

fn ambiguous(text: &str, several: &[String]) -> String {
    let shown: Vec<String> = several.iter().take(CANDIDATES_SHOWN).map(|id| format!("\n  {id}")).collect();
    let more = if several.len() > CANDIDATES_SHOWN { "\n  …" } else { "" };
    format!("`{text}` fits several jobs; give more of the id:{}{more}", shown.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0199a8c3-1f2e-4abc-8def-0123456789ab";

    #[test]
    fn a_part_of_an_id_is_a_beginning_an_end_or_both() {
        for part in ["0199a8c3", "0199A8C3-1F2E", "0199a8c3-1f2e…89ab", "0199a8c3..9ab", "…89ab", ID] {
            assert!(Part::parse(part).unwrap().fits(ID), "{part}");
        }
        assert!(!Part::parse("89ab").unwrap().fits(ID));
        assert!(Part::parse("89ab").unwrap().fits_either(ID));
        for part in ["", "…", "..", "xyz", "0199a8c3…xyz", "../keys"] {
            assert_eq!(Part::parse(part), None, "{part}");
        }
    }

    #[test]
    fn a_beginning_says_when_the_job_was_submitted() {
        let exact = i64::from_str_radix("0199a8c31f2e", 16).unwrap();
        let (first, last) = Part::parse("0199a8c3-1f2e-4").unwrap().times().unwrap();
        assert_eq!((first.as_millis(), last.as_millis()), (exact, exact));
        let (first, last) = Part::parse("0199a8c3").unwrap().times().unwrap();
        assert_eq!(last.as_millis() - first.as_millis(), 0xffff);
        assert!(first.as_millis() <= exact && exact <= last.as_millis());
        assert_eq!(Part::parse("…89ab").unwrap().times(), None);
        assert!(Part::parse("f").unwrap().times().is_some(), "far beyond the calendar, and no panic");
    }

    #[test]
    fn an_ambiguous_part_lists_candidates() {
        let ids: Vec<String> = (0..9).map(|n| format!("id-{n}")).collect();
        let told = ambiguous("0199", &ids);
        assert!(told.contains("id-4\n  …") && !told.contains("id-5"), "{told}");
    }
}
