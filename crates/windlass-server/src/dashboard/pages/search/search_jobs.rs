//! What the search box finds in jobs themselves: the end of an id, and the text of errors. Neither has an index, so the
//! newest jobs are read, as many as fit into the time of a page.

use windlass::error::StoreError;
use windlass::job::{JobId, JobRecord, JobState};
use windlass::store::{Filter, ListRequest, Order};

use crate::dashboard::parts::failure::{self, Group};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// States whose jobs people look for by what is on a screen: running ones, and those with errors.
const SHOWN_STATES: [JobState; 4] =
    [JobState::Running, JobState::Retrying, JobState::Failed, JobState::DeadLetter];

/// A part of an id: its beginning and its end, hexadecimal digits only.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::dashboard) struct IdPart {
    head: String,
    tail: String,
}

impl IdPart {
    /// Reads `TAIL`, or `HEAD…TAIL` as tables show ids; None if it is too short or not part of an id.
    pub(in crate::dashboard) fn read(text: &str) -> Option<IdPart> {
        let (head, tail) = text.split_once('…').or_else(|| text.split_once("..")).unwrap_or(("", text));
        let digits = |part: &str| -> Option<String> {
            let digits: String = part.chars().filter(|c| *c != '-').collect();
            digits.chars().all(|c| c.is_ascii_hexdigit()).then(|| digits.to_ascii_lowercase())
        };
        let part = IdPart { head: digits(head)?, tail: digits(tail)? };
        let length = part.head.len() + part.tail.len();
        (limits::ID_PART_DIGITS_MIN..32).contains(&length).then_some(part)
    }

    fn matches(&self, id: JobId) -> bool {
        let digits = id.to_string().replace('-', "");
        digits.starts_with(&self.head) && digits.ends_with(&self.tail)
    }
}

/// Whether a job's id begins with this text; uses an index.
pub(in crate::dashboard) async fn has_prefix(
    board: &Dashboard,
    visitor: &Visitor,
    text: &str,
) -> Result<bool, StoreError> {
    let Some(ids) = JobId::beginning_with(&text.to_ascii_lowercase()) else { return Ok(false) };
    let filter = Filter { ids: Some(ids), ..Filter::default() };
    Ok(!newest(board, visitor, filter, 1).await?.is_empty())
}

/// The job whose id has this part, if it is one of the newest or of those with errors, and the only one.
pub(in crate::dashboard) async fn by_part(
    board: &Dashboard,
    visitor: &Visitor,
    part: &IdPart,
) -> Result<Option<JobId>, StoreError> {
    let ids = (!part.head.is_empty()).then(|| JobId::beginning_with(&part.head)).flatten();
    let mut groups = vec![(Filter { ids, ..Filter::default() }, limits::SEARCHED_NEWEST)];
    if ids.is_none() {
        let of_state =
            |state| (Filter { states: vec![state], ..Filter::default() }, limits::SEARCHED_PER_STATE);
        groups.extend(SHOWN_STATES.map(of_state));
    }
    let mut found = None;
    for (filter, limit) in groups {
        for job in newest(board, visitor, filter, limit).await? {
            match found {
                _ if !part.matches(job.id) => {}
                None => found = Some(job.id),
                Some(other) if other != job.id => return Ok(None),
                Some(_) => {}
            }
        }
    }
    Ok(found)
}

/// The errors of failed and retrying jobs that contain this text, in groups.
pub(in crate::dashboard) async fn errors(
    board: &Dashboard,
    visitor: &Visitor,
    text: &str,
) -> Result<Vec<Group>, StoreError> {
    let text = text.to_lowercase();
    let mut found = Vec::new();
    for state in [JobState::Failed, JobState::DeadLetter, JobState::Retrying] {
        let filter = Filter {
            states: vec![state],
            is_redriven: state.is_final().then_some(false),
            ..Filter::default()
        };
        let jobs = newest(board, visitor, filter, limits::SEARCHED_PER_STATE).await?;
        found.extend(jobs.into_iter().filter(|job| {
            let error = job.details.error.as_ref();
            let has = |found: &str| found.to_lowercase().contains(&text);
            error.is_some_and(|error| has(&error.message) || error.code.as_deref().is_some_and(has))
        }));
    }
    Ok(failure::group(&found, board.now()))
}

/// The newest matching jobs, page by page.
async fn newest(
    board: &Dashboard,
    visitor: &Visitor,
    filter: Filter,
    most: usize,
) -> Result<Vec<JobRecord>, StoreError> {
    let (mut found, mut cursor) = (Vec::new(), None);
    while found.len() < most {
        let limit = (most - found.len()).min(limits::DEAD_LETTERS_PER_READ);
        let request = ListRequest { filter: filter.clone(), order: Order::Newest, cursor, limit };
        let page = board.store().list(&visitor.caller, request).await?;
        let is_short = page.jobs.len() < limit;
        found.extend(page.jobs.into_iter().map(|snapshot| snapshot.job));
        cursor = page.next;
        if cursor.is_none() || is_short {
            break;
        }
    }
    Ok(found)
}

/// The state that a word means: its name with any separators, or a word that people use for it.
pub(in crate::dashboard) fn state_of(text: &str) -> Option<JobState> {
    let word = text.trim().to_lowercase().replace([' ', '-'], "_");
    let singular = word.strip_suffix('s').unwrap_or(&word);
    let known = |word: &str| {
        Some(match word {
            "dead" => JobState::DeadLetter,
            "done" | "succeeded" | "success" | "finished" => JobState::Completed,
            "ready" | "queued" => JobState::Scheduled,
            "held" | "on_hold" => JobState::Created,
            "blocked" => JobState::Pending,
            "canceled" => JobState::Cancelled,
            "failure" | "error" => JobState::Failed,
            "parked" | "sleeping" => JobState::Waiting,
            other => other.parse().ok()?,
        })
    };
    known(&word).or_else(|| known(singular))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_found_by_the_words_on_the_page() {
        let dead = Some(JobState::DeadLetter);
        for text in ["dead", "dead letter", "Dead letters", "dead_letter", "dead-letter"] {
            assert_eq!(state_of(text), dead, "{text}");
        }
        assert_eq!(state_of("Failed"), Some(JobState::Failed));
        assert_eq!(state_of("canceled"), Some(JobState::Cancelled));
        assert_eq!(state_of("mail"), None);
        for state in JobState::ALL {
            assert_eq!(state_of(&state.as_str().replace('_', " ")), Some(state));
        }
    }

    #[test]
    fn parts_of_ids_are_read_as_they_are_shown() {
        let part = |head: &str, tail: &str| Some(IdPart { head: head.into(), tail: tail.into() });
        assert_eq!(IdPart::read("13361c17"), part("", "13361c17"));
        assert_eq!(IdPart::read("019a8f3c…1C17"), part("019a8f3c", "1c17"));
        assert_eq!(IdPart::read("019a..1c17"), part("019a", "1c17"));
        assert_eq!(IdPart::read("1c17"), None, "too short");
        assert_eq!(IdPart::read("mail.send"), None);
        let id: JobId = "01990000-0000-4000-8000-00000000abcd".parse().unwrap();
        assert!(
            IdPart::read("0000abcd").unwrap().matches(id) && !IdPart::read("0000abce").unwrap().matches(id)
        );
    }
}
