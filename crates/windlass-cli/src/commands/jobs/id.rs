//! Finds jobs by a part of their id. The server looks up a prefix among all jobs. A prefix with a suffix, `HEAD…TAIL` as
//! tables print it, is nearly always unique. A suffix alone has no index: it is searched among the newest jobs.

use serde::Deserialize;
use windlass::job::JobId;
use windlass_api::text::Text;
use windlass_server::number::grouped;

use crate::connection::client::{Call, ServerClient, read_known};
use crate::error::Failure;
use crate::limits;

/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 32;
/// How many candidates are printed if several jobs match.
const CANDIDATES_SHOWN: usize = 5;

/// A part of an id.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// The prefix, digits only.
    head: String,
    /// The suffix, digits only.
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
        let length = part.head.len() + part.tail.len();
        (1..=ID_DIGITS).contains(&length).then_some(part)
    }

    fn matches(&self, id: &str) -> bool {
        let digits: String = id.chars().filter(|c| *c != '-').collect();
        digits.starts_with(&self.head) && digits.ends_with(&self.tail)
    }

    /// The same text as a suffix, if it has no `…`.
    fn as_end(&self) -> Option<Part> {
        match (self.head.as_str(), self.tail.as_str()) {
            ("", tail) | (tail, "") => Some(Part { head: String::new(), tail: tail.to_owned() }),
            _ => None,
        }
    }
}

/// The only field of a job that is read here, so that no other can be unknown.
#[derive(Deserialize)]
struct HasId {
    id: Text<JobId>,
}

/// Matching ids.
#[derive(Default)]
struct Matches {
    ids: Vec<String>,
    /// Number of jobs that were read.
    looked: usize,
    /// Whether there are jobs that were not read.
    has_more: bool,
}

impl ServerClient {
    /// The full id of the job that a part of an id matches.
    pub(crate) async fn job_id(&self, text: &str) -> Result<String, Failure> {
        let text = text.trim();
        if let Ok(id) = text.parse::<JobId>() {
            return Ok(id.to_string());
        }
        let shown = crate::output::escaped(text);
        let Some(part) = Part::parse(text) else {
            return Err(Failure::NotFound(format!(
                "no job `{shown}`: ids consist of hexadecimal digits and dashes; `windlass list` prints them"
            )));
        };
        if !part.head.is_empty() {
            let call = Call::get(&["jobs"]).query("id_prefix", &part.head);
            let found = self.fitting(call, usize::MAX, &part).await?;
            match found.ids.as_slice() {
                [] => {}
                [id] => return Ok(id.clone()),
                several => return Err(Failure::NotFound(ambiguous(&shown, several))),
            }
        }
        let Some(end) = part.as_end() else {
            return Err(Failure::NotFound(format!("no job `{shown}`")));
        };
        let found = self.fitting(Call::get(&["jobs"]), limits::ID_SEARCH_PAGES_MAX, &end).await?;
        let searched = if found.has_more {
            format!("the newest {} jobs", grouped(found.looked as u64))
        } else {
            "all jobs".to_owned()
        };
        match found.ids.as_slice() {
            [] if part.head.is_empty() => {
                Err(Failure::NotFound(format!("none of {searched} has an id that ends with `{shown}`")))
            }
            [] => Err(Failure::NotFound(format!(
                "no job has an id that starts with `{shown}`, and none of {searched} has one that ends with it"
            ))),
            [id] => {
                if found.has_more {
                    crate::output::note(&format!(
                        "{id} is the only one of {searched} that ends with `{shown}`"
                    ));
                }
                Ok(id.clone())
            }
            several => Err(Failure::NotFound(ambiguous(&shown, several))),
        }
    }

    /// The ids of matching jobs on the first `pages` pages of a list, a few of them.
    async fn fitting(&self, call: Call, pages: usize, part: &Part) -> Result<Matches, Failure> {
        // One page of this size is enough for a prefix alone, unless it matches thousands of jobs.
        let is_listed_at_once = !part.head.is_empty() && part.tail.is_empty();
        let limit = if is_listed_at_once { CANDIDATES_SHOWN + 1 } else { limits::LIST_PAGE_JOBS };
        let call = call.query("limit", limit.to_string());
        let (mut found, mut cursor) = (Matches::default(), None::<String>);
        for _ in 0..pages {
            let page = self.page(call.clone().query_if("cursor", cursor.as_deref()), "jobs").await?;
            found.looked += page.items.len();
            let ids = read_known::<HasId>(page.items).0.into_iter().map(|job| job.id.to_string());
            found.ids.extend(ids.filter(|id| part.matches(id)));
            cursor = page.next_cursor;
            found.has_more = cursor.is_some();
            if !found.has_more || found.ids.len() > CANDIDATES_SHOWN {
                break;
            }
        }
        Ok(found)
    }
}

fn ambiguous(text: &str, several: &[String]) -> String {
    let shown: Vec<String> = several.iter().take(CANDIDATES_SHOWN).map(|id| format!("\n  {id}")).collect();
    let more = if several.len() > CANDIDATES_SHOWN { "\n  …" } else { "" };
    format!("`{text}` matches several jobs; give more of the id:{}{more}", shown.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0199a8c3-1f2e-4abc-8def-0123456789ab";

    #[test]
    fn a_part_of_an_id_is_a_beginning_an_end_or_both() {
        for part in ["0199a8c3", "0199A8C3-1F2E", "0199a8c3-1f2e…89ab", "0199a8c3..9ab", "…89ab", ID] {
            assert!(Part::parse(part).unwrap().matches(ID), "{part}");
        }
        let end = Part::parse("89ab").unwrap();
        assert!(!end.matches(ID) && end.as_end().unwrap().matches(ID));
        assert_eq!(Part::parse("0199…89ab").unwrap().as_end(), None);
        for part in ["", "…", "..", "xyz", "0199a8c3…xyz", "../keys"] {
            assert_eq!(Part::parse(part), None, "{part}");
        }
    }

    #[test]
    fn an_ambiguous_part_lists_candidates() {
        let ids: Vec<String> = (0..9).map(|n| format!("id-{n}")).collect();
        let message = ambiguous("0199", &ids);
        assert!(message.contains("id-4\n  …") && !message.contains("id-5"), "{message}");
    }
}
