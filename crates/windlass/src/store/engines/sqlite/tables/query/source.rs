//! Sources of candidates for lists, and the statements that read them: assembled from constant fragments, with all
//! caller input bound as parameters.

use rusqlite::types::Value;

use crate::job::{JobId, JobState, JobType, QueueName, Tenant, WorkerId};
use crate::store::engine::ClaimOrder;
use crate::store::engines::sql::columns::{code, worker_codes};
use crate::store::engines::sql::page::codes;
use crate::store::filter::{Filter, Order, Scan};

/// All jobs, in order of submission.
pub(super) const EVERYTHING: &str = "hot h NOT INDEXED";

/// A set of candidates: the tables and index they come from, the condition that uses it, and the column that orders
/// them by submission.
pub(super) struct Source {
    pub(super) from: &'static str,
    pub(super) condition: &'static str,
    pub(super) parameters: Vec<Value>,
    pub(super) seq: &'static str,
    /// Whether they come in claim order.
    pub(super) is_claim_order: bool,
    /// Whether their order is not usable.
    pub(super) is_loose: bool,
    /// How to count them, if there can be too many to read all: candidates that do not match are excluded by this part
    /// of the filter alone.
    pub(super) walk: Option<Walk>,
}

/// How to count the candidates of a source, and which part of the filter they all match.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    pub(super) from: &'static str,
    pub(super) without: fn(&mut Filter),
}

impl Source {
    pub(super) fn new(from: &'static str, condition: &'static str, parameters: Vec<Value>) -> Source {
        Source {
            from,
            condition,
            parameters,
            seq: "h.seq",
            is_claim_order: false,
            is_loose: false,
            walk: None,
        }
    }

    pub(super) fn joined(from: &'static str, condition: &'static str, parameters: Vec<Value>) -> Source {
        Source { seq: "d.seq", ..Source::new(from, condition, parameters) }
    }

    pub(super) fn walked(self, from: &'static str, without: fn(&mut Filter)) -> Source {
        Source { walk: Some(Walk { from, without }), ..self }
    }

    pub(super) fn state(state: i64) -> Source {
        let source = Source::new("hot h INDEXED BY hot_order", "h.state = ?", vec![state.into()]);
        Source { is_loose: true, ..source }
    }

    /// Running jobs of these workers, and running jobs whose worker is unknown.
    pub(super) fn leased(workers: &[WorkerId]) -> Source {
        let condition = "h.state = 4 AND h.worker IN (SELECT value FROM json_each(?))";
        let codes: Vec<String> = worker_codes(workers).iter().map(i64::to_string).collect();
        let parameters = vec![format!("[{}]", codes.join(",")).into()];
        let source = Source::new("hot h INDEXED BY hot_worker", condition, parameters);
        Source { is_loose: true, ..source }
    }

    /// Jobs in a final state that were redriven, or that were not; in both cases the index is in order of submission.
    pub(super) fn ended(state: i64, is_redriven: bool) -> Source {
        let condition = "h.state = ? AND h.order_key = ? AND h.rank = 0 AND h.at = 0";
        let parameters = vec![state.into(), i64::from(is_redriven).into()];
        let source = Source::new("hot h INDEXED BY hot_order", condition, parameters);
        source.walked("hot h INDEXED BY hot_order", |filter| {
            filter.states.clear();
            filter.is_redriven = None;
        })
    }

    /// Jobs of one lane, or blocked on one concurrency key.
    pub(super) fn pair(state: i64, order_key: i64) -> Source {
        let condition = "h.state = ? AND h.order_key = ?";
        let parameters = vec![state.into(), order_key.into()];
        Source { is_claim_order: true, ..Source::new("hot h INDEXED BY hot_order", condition, parameters) }
    }

    /// Claimable jobs of one lane, to be sorted by submission.
    pub(super) fn lane(lane: i64) -> Source {
        let source = Source::pair(code(JobState::Scheduled), lane);
        Source { is_claim_order: false, is_loose: true, ..source }
    }

    pub(super) fn everything() -> Source {
        Source::new(EVERYTHING, "true", Vec::new()).walked(EVERYTHING, |_| {})
    }
}

/// A statement assembled from constant fragments; all caller input is bound.
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) parameters: Vec<Value>,
}

impl Query {
    pub(super) fn and<const N: usize>(&mut self, condition: &str, parameters: [Value; N]) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.parameters.extend(parameters);
    }
}

pub(super) const SELECT: &str = "SELECT h.seq, h.id, h.lane, h.policy, h.record FROM";

/// The numbers of a source's candidates, in the requested order.
pub(super) fn numbers(source: &Source, from: &str, scan: &Scan) -> Query {
    let sql = format!("SELECT {} FROM {from} WHERE {}", source.seq, source.condition);
    let mut query = Query { sql, parameters: source.parameters.clone() };
    continue_after(&mut query, scan, source.seq);
    query
}

/// Adds the position to continue from and the order of submission.
pub(super) fn continue_after(query: &mut Query, scan: &Scan, column: &str) {
    let (beyond, order) = if scan.order == Order::Newest { ("<", " DESC") } else { (">", "") };
    if let Some(after) = scan.after {
        query.and(&format!("{column} {beyond} ?"), [after.seq.0.into()]);
    }
    query.sql.extend([" ORDER BY ", column, order]);
}

/// Adds the position to continue from in claim order.
pub(super) fn continue_claim_order(query: &mut Query, scan: &Scan) {
    if let Some(after) = scan.after {
        query.and("(h.rank, h.at, h.seq) > (?, ?, ?)", values_of(after));
    }
    query.sql.push_str(" ORDER BY h.rank, h.at, h.seq");
}

fn values_of(place: ClaimOrder) -> [Value; 3] {
    [i64::from(place.rank).into(), place.eligible_at.as_millis().into(), place.seq.0.into()]
}

pub(super) fn assemble(scan: &Scan, source: Source, end: Option<ClaimOrder>) -> Query {
    let sql = format!("{SELECT} {} WHERE {}", source.from, source.condition);
    let mut query = Query { sql, parameters: source.parameters };
    narrow(&mut query, &scan.filter);
    narrow_by_spec(&mut query, &scan.filter);
    match (scan.order, end) {
        (_, None) => {}
        (Order::Claim, Some(end)) => query.and("(h.rank, h.at, h.seq) < (?, ?, ?)", values_of(end)),
        (Order::Newest, Some(end)) => query.and(&format!("{} > ?", source.seq), [end.seq.0.into()]),
        (Order::Oldest, Some(end)) => query.and(&format!("{} < ?", source.seq), [end.seq.0.into()]),
    }
    if scan.order != Order::Claim {
        continue_after(&mut query, scan, source.seq);
    } else if source.is_claim_order {
        continue_claim_order(&mut query, scan);
    }
    query
}

pub(super) fn blob(id: JobId) -> Value {
    id.as_bytes().to_vec().into()
}

/// Conditions on the columns of `hot`, to avoid decoding jobs that do not match.
pub(super) fn narrow(query: &mut Query, filter: &Filter) {
    let names = [
        ("tenant = ?", filter.tenant.as_ref().map(Tenant::as_str)),
        ("queue = ?", filter.queue.as_ref().map(QueueName::as_str)),
        ("type = ?", filter.job_type.as_ref().map(JobType::as_str)),
    ];
    let names: Vec<(&str, &str)> = names.into_iter().filter_map(|(sql, name)| Some((sql, name?))).collect();
    if !names.is_empty() {
        let conditions: Vec<&str> = names.iter().map(|(sql, _)| *sql).collect();
        let condition = format!("h.lane IN (SELECT id FROM lanes WHERE {})", conditions.join(" AND "));
        query.and(&condition, []);
        query.parameters.extend(names.iter().map(|(_, name)| Value::from((*name).to_owned())));
    }
    let codes = codes(filter);
    if !filter.states.is_empty() {
        let codes: Vec<String> = codes.iter().map(i64::to_string).collect();
        query.and(&format!("+h.state IN ({})", codes.join(", ")), []);
    }
    if let Some((first, last)) = filter.ids {
        query.and("+h.id BETWEEN ? AND ?", [first, last].map(blob));
    }
    if let Some(at) = filter.created_after {
        query.and("h.created_at >= ?", [at.as_millis().into()]);
    }
    if let Some(at) = filter.created_before {
        query.and("h.created_at < ?", [at.as_millis().into()]);
    }
    if let Some(key) = filter.concurrency {
        query.and("+h.concurrency = ?", [key.0.into()]);
    }
}

/// Conditions that only the spec can answer.
pub(super) fn narrow_by_spec(query: &mut Query, filter: &Filter) {
    if let Some((name, value)) = &filter.tag {
        let condition = "EXISTS (SELECT 1 FROM tags t WHERE t.name = ? AND t.value = ? AND t.seq = h.seq)";
        query.and(condition, [name.clone().into(), value.clone().into()]);
    }
    if let Some(id) = &filter.correlation_id {
        query.and("(SELECT j.correlation_id FROM jobs j WHERE j.seq = h.seq) = ?", [id.clone().into()]);
    }
    if let Some(owner) = &filter.owner {
        query.and("(SELECT j.owner FROM jobs j WHERE j.seq = h.seq) = ?", [owner.clone().into()]);
    }
}
