//! The filter of the job list: parsed from the URL, written to it, and as chips that can be removed one by one. The URL
//! holds the whole filter, so that a list can be shared.

use windlass::clock::Timestamp;
use windlass::error::FieldProblem;
use windlass::job::{JobId, JobState, JobType, QueueName, Tenant, WorkerId};
use windlass::store::{Filter, Order};

use crate::dashboard::page::PageError;
use crate::dashboard::pages::limits;
use crate::dashboard::parts::format;
use crate::dashboard::requests::form::{Fields, address};

/// A filter as given: name and value of each part. Only states occur more than once.
#[derive(Debug, Clone, Default)]
pub(in crate::dashboard) struct FilterInput {
    pairs: Vec<(&'static str, String)>,
}

/// One part of a filter, and the URL without it.
pub(in crate::dashboard) struct FilterChip {
    pub(in crate::dashboard) name: &'static str,
    pub(in crate::dashboard) value: String,
    pub(in crate::dashboard) without: String,
}

/// The filter fields in display order.
const NAMES: [&str; 13] = [
    "state",
    "type",
    "queue",
    "tenant",
    "tag",
    "owner",
    "correlation_id",
    "parent",
    "worker",
    "redriven",
    "created_after",
    "created_before",
    "id",
];

impl FilterInput {
    /// Parses a URL or form. Only the first value of a field counts, except for states.
    pub(in crate::dashboard) fn read(fields: &Fields) -> Result<FilterInput, PageError> {
        let (mut pairs, mut bytes) = (Vec::new(), 0);
        for name in NAMES {
            let values_max = if name == "state" { JobState::ALL.len() } else { 1 };
            let mut taken: Vec<&str> = Vec::new();
            for value in fields.all(name).flat_map(|value| split(name, value)) {
                if taken.len() < values_max && !value.is_empty() && !taken.contains(&value) {
                    taken.push(value);
                }
            }
            bytes += taken.iter().map(|value| value.len()).sum::<usize>();
            pairs.extend(taken.into_iter().map(|value| (name, in_utc(name, value))));
        }
        // Every link on the page contains the whole filter.
        if bytes > limits::ASKED_BYTES_MAX {
            return Err(PageError::invalid("the filter is too long"));
        }
        Ok(FilterInput { pairs })
    }

    /// The value of a time as a browser's date field shows it, in the visitor's time zone.
    pub(in crate::dashboard) fn local(&self, name: &str) -> String {
        shown_locally(self.get(name))
    }

    /// The value of a field that occurs once.
    pub(in crate::dashboard) fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(found, _)| *found == name).map_or("", |(_, value)| value)
    }

    pub(in crate::dashboard) fn has(&self, name: &str, value: &str) -> bool {
        self.pairs.iter().any(|(found, asked)| *found == name && asked == value)
    }

    /// Whether it selects this state and no other.
    fn is_for_one_state(&self, state: JobState) -> bool {
        let mut states = self.pairs.iter().filter(|(name, _)| *name == "state");
        states.next().is_some_and(|(_, value)| value == state.as_str()) && states.next().is_none()
    }

    /// Whether it uses only these fields.
    pub(in crate::dashboard) fn is_only(&self, names: &[&str]) -> bool {
        self.pairs.iter().all(|(name, _)| names.contains(name))
    }

    pub(in crate::dashboard) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The URL with this filter added; None if it is there already, or if the URL would be too long for the links of a
    /// list.
    pub(in crate::dashboard) fn adding(&self, name: &'static str, value: &str) -> Option<String> {
        let others = self.pairs().filter(|(found, _)| *found != name);
        let adding = address("/jobs", others.chain([(name, value.to_owned())]));
        (!self.has(name, value) && adding.len() <= limits::LINK_BYTES_MAX).then_some(adding)
    }

    /// Name and value of each part.
    pub(in crate::dashboard) fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.pairs.iter().cloned()
    }

    /// The URL of this list.
    pub(in crate::dashboard) fn address(&self) -> String {
        address("/jobs", self.pairs())
    }

    /// The URL with another state.
    pub(in crate::dashboard) fn with_state(&self, state: Option<JobState>) -> String {
        let others = self.pairs().filter(|(name, _)| *name != "state");
        let state = state.map(|state| ("state", state.as_str().to_owned()));
        address("/jobs", state.into_iter().chain(others))
    }

    pub(in crate::dashboard) fn chips(&self) -> Vec<FilterChip> {
        let mut chips = Vec::new();
        for (place, (name, value)) in self.pairs.iter().enumerate() {
            let others = self.pairs().enumerate().filter(|(at, _)| *at != place).map(|(_, pair)| pair);
            let name = if *name == "redriven" { "retried as a new job" } else { *name };
            chips.push(FilterChip { name, value: value.clone(), without: address("/jobs", others) });
        }
        chips
    }

    /// The store's filter.
    pub(in crate::dashboard) fn filter(&self) -> Result<Filter, PageError> {
        let mut filter = Filter::default();
        for (name, value) in &self.pairs {
            let wrong = |problem: FieldProblem| PageError::invalid(format!("{name}: {problem}"));
            match *name {
                "state" => filter.states.push(value.parse().map_err(wrong)?),
                "type" => filter.job_type = Some(JobType::new(value).map_err(wrong)?),
                "queue" => filter.queue = Some(QueueName::new(value).map_err(wrong)?),
                "tenant" => filter.tenant = Some(Tenant::new(value).map_err(wrong)?),
                "tag" => filter.tag = Some(tag(value)?),
                "owner" => filter.owner = Some(value.clone()),
                "correlation_id" => filter.correlation_id = Some(value.clone()),
                "parent" => filter.parent = Some(parse_id(name, value)?),
                "worker" => filter.workers = vec![parse_worker(value)?],
                "redriven" => filter.is_redriven = Some(yes_or_no(name, value)?),
                "created_after" => filter.created_after = Some(moment(name, value)?),
                "created_before" => filter.created_before = Some(moment(name, value)?),
                "id" => filter.ids = Some(ids(value)?),
                _ => {}
            }
        }
        Ok(filter)
    }
}

/// Several states may be given in one value, as in the API.
fn split<'a>(name: &str, value: &'a str) -> Vec<&'a str> {
    if name == "state" { value.split(',').map(str::trim).collect() } else { vec![value] }
}

/// A time that was typed without a zone is the visitor's; in links it is in UTC, so that others see the same jobs.
fn in_utc(name: &str, value: &str) -> String {
    let is_time = matches!(name, "created_after" | "created_before");
    let typed = is_time.then(|| format::from_local(value)).flatten();
    typed.map_or_else(|| value.to_owned(), |at| at.to_string())
}

/// A time in a URL as a browser's date field shows it; other text is unchanged.
pub(in crate::dashboard) fn shown_locally(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(at) => format::local(at).get(..16).unwrap_or_default().replace(' ', "T"),
        Err(_) => text.to_owned(),
    }
}

fn tag(text: &str) -> Result<(String, String), PageError> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| PageError::invalid("tag: must have the form name:value"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_id(name: &str, text: &str) -> Result<JobId, PageError> {
    text.parse().map_err(|_| PageError::invalid(format!("{name}: `{text}` is not a job id")))
}

/// The range of ids that start with a text.
fn ids(text: &str) -> Result<(JobId, JobId), PageError> {
    let wrong = || PageError::invalid(format!("id: `{text}` is not a prefix of a job id"));
    JobId::beginning_with(&text.trim().to_ascii_lowercase()).ok_or_else(wrong)
}

fn parse_worker(text: &str) -> Result<WorkerId, PageError> {
    text.parse().map_err(|_| PageError::invalid(format!("worker: `{text}` is not a worker id")))
}

fn yes_or_no(name: &str, text: &str) -> Result<bool, PageError> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(PageError::invalid(format!("{name}: must be yes or no"))),
    }
}

/// A time as a browser's date field writes it, or in full. Without a zone it is in UTC.
pub(in crate::dashboard) fn moment(name: &str, text: &str) -> Result<Timestamp, PageError> {
    let whole = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        _ => text.to_owned(),
    };
    whole.parse().map_err(|problem: FieldProblem| PageError::invalid(format!("{name}: {problem}")))
}

/// The order of the list. Only claimable jobs can be sorted in claim order: sorting others would require reading all of
/// them.
pub(in crate::dashboard) fn order(fields: &Fields, asked: &FilterInput) -> Order {
    match fields.get("order") {
        Some("oldest") => Order::Oldest,
        Some("claim") if asked.is_for_one_state(JobState::Scheduled) => Order::Claim,
        _ => Order::Newest,
    }
}

/// The name of an order.
pub(in crate::dashboard) fn order_word(order: Order) -> &'static str {
    match order {
        Order::Newest => "newest",
        Order::Oldest => "oldest",
        Order::Claim => "claim",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> FilterInput {
        FilterInput::read(&Fields::parse(query.as_bytes())).unwrap()
    }

    #[test]
    fn what_a_job_has_one_of_is_asked_for_once() {
        let twice = asked("type=aa&type=bb&state=failed&state=failed,running");
        assert_eq!(twice.address(), "/jobs?state=failed&state=running&type=aa");
        assert_eq!(twice.filter().unwrap().job_type, Some(JobType::new("aa").unwrap()));
        let many: Vec<String> = (0..6_000).map(|number| format!("tag=a:{number}&state=s{number}")).collect();
        assert_eq!(asked(&many.join("&")).chips().len(), 13);
        assert!(FilterInput::read(&Fields::parse(format!("tag={}", "x".repeat(60_000)).as_bytes())).is_err());
    }

    #[test]
    fn a_list_can_ask_for_more_by_a_link() {
        let asked = asked("state=failed&type=aa");
        assert_eq!(asked.adding("queue", "q 1").unwrap(), "/jobs?state=failed&type=aa&queue=q+1");
        assert_eq!(asked.adding("type", "bb").unwrap(), "/jobs?state=failed&type=bb");
        assert_eq!(asked.adding("type", "aa"), None);
    }

    #[test]
    fn an_address_and_its_filter_are_the_same_thing() {
        let asked = asked("state=failed,dead_letter&type=email.send&tag=k%3Av&unknown=x&owner=");
        assert_eq!(asked.address(), "/jobs?state=failed&state=dead_letter&type=email.send&tag=k%3Av");
        let filter = asked.filter().unwrap();
        assert_eq!(filter.states, [JobState::Failed, JobState::DeadLetter]);
        assert_eq!(filter.tag, Some(("k".into(), "v".into())));
        let chips = asked.chips();
        assert_eq!(chips.len(), 4);
        assert_eq!(chips[0].without, "/jobs?state=dead_letter&type=email.send&tag=k%3Av");
    }

    #[test]
    fn the_beginning_of_an_id_is_understood_however_it_is_written() {
        let found = asked("id=019A8F3C-12").filter().unwrap().ids;
        assert!(found.is_some());
        assert_eq!(found, asked("id=019a8f3c12").filter().unwrap().ids);
        assert!(asked("id=nothex").filter().is_err());
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (query, field) in [
            ("state=gone", "state"),
            ("type=1x", "type"),
            ("tag=novalue", "tag"),
            ("redriven=perhaps", "redriven"),
            ("parent=x", "parent"),
            ("created_after=soon", "created_after"),
        ] {
            let refused = format!("{:?}", asked(query).filter().unwrap_err());
            assert!(refused.contains(field), "{refused}");
        }
    }

    #[test]
    fn a_calendar_s_moments_are_understood() {
        for text in ["2026-11-15", "2026-11-15T06:30", "2026-11-15T06%3A30%3A00", "2026-11-15T06:30:00Z"] {
            assert!(asked(&format!("created_after={text}")).filter().is_ok(), "{text}");
        }
    }
}
