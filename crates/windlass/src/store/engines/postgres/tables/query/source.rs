//! Sources of candidates for lists, and the statements that read them: assembled from constant fragments, with all
//! caller input bound as parameters.

use crate::store::engine::ClaimOrder;
use crate::store::engines::postgres::parameter::{Column, Parameter};
use crate::store::engines::sql::columns::{SET_ASIDE, limit};
use crate::store::engines::sql::page::codes;
use crate::store::filter::{Filter, Order, Scan};

/// All jobs, in order of submission.
pub(super) const EVERYTHING: &str = "@.hot h";

/// The rows of a table, each with its job, which is looked up by itself (see `advance::UPDATE`).
macro_rules! with_jobs {
    ($table:literal) => {
        concat!("@.", $table, " d CROSS JOIN LATERAL (SELECT * FROM @.hot o WHERE o.seq = d.seq OFFSET 0) h")
    };
}
pub(super) use with_jobs;

/// A set of candidates: the table next to `hot` they come from, and the condition that uses its index.
pub(super) struct Source {
    pub(super) from: &'static str,
    pub(super) condition: &'static str,
    pub(super) parameters: Vec<Parameter>,
    /// Their numbers, if known, the first submitted first.
    pub(super) seqs: Vec<i64>,
    pub(super) order: Sequence,
    /// How to count them, if there can be too many to read all.
    pub(super) walk: Option<Walk>,
}

/// How to count the candidates of a source, and which part of the filter they all match.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    pub(super) from: &'static str,
    pub(super) without: fn(&mut Filter),
}

/// The order in which candidates are available.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequence {
    /// By submission, using this column.
    Submission(&'static str),
    /// In claim order.
    Claim,
    /// Unordered: all of them are read.
    Unsorted,
    /// By their numbers.
    Numbered,
}

impl Source {
    pub(super) fn new(from: &'static str, condition: &'static str, parameters: Vec<Parameter>) -> Source {
        let order = Sequence::Submission("d.seq");
        Source { from, condition, parameters, seqs: Vec::new(), order, walk: None }
    }

    pub(super) fn walked(self, from: &'static str, without: fn(&mut Filter)) -> Source {
        Source { walk: Some(Walk { from, without }), ..self }
    }

    pub(super) fn hot(condition: &'static str, parameters: Vec<Parameter>) -> Source {
        Source { order: Sequence::Submission("h.seq"), ..Source::new("@.hot h", condition, parameters) }
    }

    pub(super) fn unsorted(self) -> Source {
        Source { order: Sequence::Unsorted, ..self }
    }

    /// Jobs of a state that is listed in `states`, or those of them that were redriven.
    pub(super) fn listed(state: i64) -> Source {
        let from = with_jobs!("states");
        let source = Source::new(from, "d.state = $1::bigint", vec![state.into()]);
        source.walked("@.states d", |filter| {
            filter.states.clear();
            filter.is_redriven = None;
        })
    }

    /// Claimable jobs of a lane.
    pub(super) fn ready(lane: i64) -> Source {
        let from = with_jobs!("ready");
        Source { order: Sequence::Claim, ..Source::new(from, "d.lane = $1", vec![lane.into()]) }
    }

    /// Claimable jobs of these lanes, unordered.
    pub(super) fn lanes(lanes: Vec<i64>) -> Source {
        let from = with_jobs!("ready");
        Source::new(from, "d.lane = ANY($1::bigint[])", vec![Column::from_numbers(lanes).into()]).unsorted()
    }

    /// Jobs that are blocked on any concurrency key.
    pub(super) fn aside() -> Source {
        let from = with_jobs!("slots");
        Source::new(from, "d.state = $1::bigint", vec![SET_ASIDE.into()]).unsorted()
    }

    /// Jobs that run with a concurrency key, or are blocked on it.
    pub(super) fn slots(key: i64, state: i64) -> Source {
        let from = with_jobs!("slots");
        Source::new(from, "d.key = $1 AND d.state = $2::bigint", vec![key.into(), state.into()]).unsorted()
    }

    /// Jobs with these numbers, if they run.
    pub(super) fn running(seqs: Vec<i64>) -> Source {
        let source = Source::hot("h.seq = ANY($1) AND h.state = 4", Vec::new());
        Source { seqs, order: Sequence::Numbered, ..source }
    }

    pub(super) fn everything() -> Source {
        Source::hot("true", Vec::new()).walked(EVERYTHING, |_| {})
    }
}

/// A statement assembled from constant fragments; all caller input is bound.
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) parameters: Vec<Parameter>,
}

impl Query {
    /// Adds a condition in which `?` stands for the value.
    pub(super) fn and(&mut self, condition: &str, parameter: impl Into<Parameter>) {
        self.parameters.push(parameter.into());
        let place = format!("${}", self.parameters.len());
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition.replace('?', &place));
    }

    /// Adds the condition that a job comes before or after a claim position.
    pub(super) fn and_place(&mut self, beyond: &str, place: ClaimOrder) {
        let numbers = [i64::from(place.rank), place.eligible_at.as_millis()];
        let [rank, at] = numbers.map(|number| {
            self.parameters.push(number.into());
            self.parameters.len()
        });
        self.and(&format!("(d.rank, d.at, d.seq) {beyond} (${rank}, ${at}, ?)"), place.seq.0);
    }
}

/// The same sources with all of their jobs, to be sorted here.
pub(super) fn unsorted(sources: Vec<Source>) -> Vec<Source> {
    let unsorted = |source: Source| match source.order {
        Sequence::Numbered => source,
        _ => source.unsorted(),
    };
    sources.into_iter().map(unsorted).collect()
}

/// The values of a source that is read in several rounds; none of them is a whole column.
pub(super) fn copies(parameters: Option<&Vec<Parameter>>) -> Vec<Parameter> {
    let copy = |parameter: &Parameter| match parameter {
        Parameter::Number(number) => Parameter::Number(*number),
        Parameter::Bytes(bytes) => Parameter::Bytes(bytes.clone()),
        Parameter::Text(text) => Parameter::Text(text.clone()),
        Parameter::Id(id) => Parameter::Id(*id),
        Parameter::Truth(truth) => Parameter::Truth(*truth),
        Parameter::Column(_) => Parameter::Number(None),
    };
    parameters.into_iter().flatten().map(copy).collect()
}

pub(super) fn assemble(
    scan: &Scan,
    (from, condition, order, end): (&str, &str, Sequence, Option<ClaimOrder>),
    parameters: Vec<Parameter>,
    lanes: Option<&[i64]>,
    after: Option<ClaimOrder>,
    at_once: Option<usize>,
) -> Query {
    let sql = format!("SELECT h.seq, h.id, h.lane, h.policy, h.record FROM {from} WHERE {condition}");
    let mut query = Query { sql, parameters };
    narrow(&mut query, &scan.filter, lanes);
    match (end, order) {
        (Some(end), Sequence::Submission(column)) => {
            let before = if scan.order == Order::Newest { ">" } else { "<" };
            query.and(&format!("{column} {before} ?"), end.seq.0);
        }
        (Some(end), Sequence::Claim) => query.and_place("<", end),
        _ => {}
    }
    if let Some(place) = after {
        let seq = place.seq.0;
        match (scan.order, order) {
            (Order::Newest, Sequence::Submission(column)) => query.and(&format!("{column} < ?"), seq),
            (Order::Oldest, Sequence::Submission(column)) => query.and(&format!("{column} > ?"), seq),
            (Order::Newest, _) => query.and("h.seq < ?", seq),
            (Order::Oldest, _) => query.and("h.seq > ?", seq),
            (Order::Claim, Sequence::Claim) => query.and_place(">", place),
            (Order::Claim, _) => {}
        }
    }
    let Some(at_once) = at_once else { return query };
    match (scan.order, order) {
        (Order::Newest, Sequence::Submission(column)) => query.sql.extend([" ORDER BY ", column, " DESC"]),
        (Order::Oldest, Sequence::Submission(column)) => query.sql.extend([" ORDER BY ", column]),
        _ => query.sql.push_str(" ORDER BY d.rank, d.at, d.seq"),
    }
    query.parameters.push(limit(at_once).into());
    query.sql.extend([" LIMIT $", &query.parameters.len().to_string()]);
    query
}

/// Conditions on columns, to avoid decoding jobs that do not match, and conditions on the spec.
fn narrow(query: &mut Query, filter: &Filter, lanes: Option<&[i64]>) {
    if let Some(lanes) = lanes {
        query.and("h.lane = ANY(?)", Column::from_numbers(lanes.iter().copied()));
        if lanes.is_empty() {
            query.sql.push_str(" AND false");
        }
    }
    if !filter.states.is_empty() {
        query.and("h.state = ANY(?::bigint[])", Column::from_numbers(codes(filter)));
    }
    if let Some((first, last)) = filter.ids {
        // Written so that the index of ids is not used: it would return them all, to be sorted.
        query.and("(h.id >= ?) IS TRUE", Parameter::Id(*first.as_bytes()));
        query.and("(h.id <= ?) IS TRUE", Parameter::Id(*last.as_bytes()));
    }
    if let Some(at) = filter.created_after {
        query.and("h.created_at >= ?", at.as_millis());
    }
    if let Some(at) = filter.created_before {
        query.and("h.created_at < ?", at.as_millis());
    }
    if let Some((name, value)) = &filter.tag {
        query.parameters.push(name.as_bytes().into());
        let place = query.parameters.len();
        let condition = format!(
            "EXISTS (SELECT 1 FROM @.tags t WHERE t.name = ${place} AND t.value = ? AND t.seq = h.seq OFFSET 0)"
        );
        query.and(&condition, value.as_bytes());
    }
    if let Some(id) = &filter.correlation_id {
        query.and("(SELECT j.correlation_id FROM @.jobs j WHERE j.seq = h.seq) = ?", id.as_bytes());
    }
    if let Some(owner) = &filter.owner {
        query.and("(SELECT j.owner FROM @.jobs j WHERE j.seq = h.seq) = ?", owner.as_bytes());
    }
}
