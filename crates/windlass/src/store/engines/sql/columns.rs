//! What both SQL databases store in the same form: the columns of a submission, the codes of states and kinds, and the
//! checksums of rows. Binding and reading them is up to each engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checksum::{Column, checksum};
use crate::audit::AuditEvent;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{
    JobId, JobMetadata, JobRecord, JobState, Need, Payload, PayloadDigest, Seq, Spec, WorkerId,
};
use crate::store::documents::config::{encode, parse};
use crate::store::engine::{
    DocumentKind, EngineResult, JobDataKind, Key, KeyHolder, KeyHolderCache, KeyKind,
};

/// The code of a scheduled job that is blocked on its concurrency key; one more than the last state's.
pub(crate) const SET_ASIDE: i64 = 12;
/// The code under which PostgreSQL's `slots` list jobs that wait for a time; their key is 0.
#[cfg(feature = "postgres")]
pub(crate) const TIMED: i64 = 13;
/// The offset of a final state's code for redriven jobs in PostgreSQL's `states`.
#[cfg(feature = "postgres")]
pub(crate) const REDRIVEN: i64 = 20;
/// A time that never comes.
pub(crate) const NEVER: i64 = i64::MAX;

/// The code of a state.
pub(crate) fn code(state: JobState) -> i64 {
    i64::from(state as u8)
}

/// The number stored with a leased job for its worker; two workers may share a number, and 0 means unknown.
pub(crate) fn worker_code(job: &JobRecord) -> i64 {
    let Some(lease) = job.lease.filter(|_| job.state == JobState::Running) else { return 0 };
    worker_id_code(lease.worker)
}

/// The number of a worker.
pub(crate) fn worker_id_code(worker: WorkerId) -> i64 {
    let last = worker.as_bytes().last_chunk().copied().unwrap_or_default();
    i64::from_be_bytes(last)
}

/// The numbers under which jobs of these workers may be stored.
pub(crate) fn worker_codes(workers: &[WorkerId]) -> Vec<i64> {
    workers.iter().map(|worker| worker_id_code(*worker)).chain([0]).collect()
}

/// The code of an event: its position in [`AuditEvent::ALL`], which only grows at the end.
pub(crate) fn event_code(event: AuditEvent) -> i64 {
    i64::from(event as u8)
}

/// The code of a key kind.
pub(crate) fn key_kind_code(kind: KeyKind) -> i64 {
    match kind {
        KeyKind::Idempotency => 0,
        KeyKind::Unique => 1,
    }
}

/// The key kind of a code.
pub(crate) fn key_kind_of(code: i64) -> Option<KeyKind> {
    [KeyKind::Idempotency, KeyKind::Unique].into_iter().find(|kind| key_kind_code(*kind) == code)
}

/// The code of a need; ordered as [`Need`] is.
pub(crate) fn need_code(need: Need) -> i64 {
    match need {
        Need::After => 0,
        Need::AfterAny => 1,
    }
}

/// The need of a code.
pub(crate) fn need_of(code: i64) -> Option<Need> {
    [Need::After, Need::AfterAny].into_iter().find(|need| need_code(*need) == code)
}

/// The code of a kind of job data.
pub(crate) fn job_data_kind_code(kind: JobDataKind) -> i64 {
    match kind {
        JobDataKind::Attempt => 0,
        JobDataKind::Checkpoint => 1,
        JobDataKind::Signal => 2,
        JobDataKind::Log => 3,
        JobDataKind::Result => 4,
        JobDataKind::Group => 5,
        JobDataKind::StepTime => 6,
        JobDataKind::Stream => 7,
    }
}

/// The kind of job data of a code.
pub(crate) fn job_data_kind_of(code: i64) -> Option<JobDataKind> {
    JobDataKind::ALL.into_iter().find(|kind| job_data_kind_code(*kind) == code)
}

/// The code of a document kind.
pub(crate) fn document_kind_code(kind: DocumentKind) -> i64 {
    match kind {
        DocumentKind::Queue => 0,
        DocumentKind::Type => 1,
        DocumentKind::Tenant => 2,
        DocumentKind::Hold => 3,
        DocumentKind::Worker => 4,
        DocumentKind::Rate => 5,
        DocumentKind::Seal => 6,
        DocumentKind::Cost => 7,
        DocumentKind::Schedule => 8,
        DocumentKind::ApiKey => 9,
        DocumentKind::Secret => 10,
        DocumentKind::Bucket => 11,
        DocumentKind::Transfer => 12,
        DocumentKind::Cascade => 13,
        DocumentKind::Clock => 14,
        DocumentKind::Resumption => 15,
        DocumentKind::Closed => 16,
        DocumentKind::AuditHead => 17,
        DocumentKind::Retention => 18,
        DocumentKind::Liveness => 19,
        DocumentKind::Grace => 20,
        DocumentKind::History => 21,
        DocumentKind::DeletedSchedule => 22,
        DocumentKind::Alert => 23,
    }
}

/// The columns of a key, for storage and lookup.
pub(crate) fn key_columns(key: &Key) -> (i64, &str, &str, &str) {
    (key_kind_code(key.kind), key.tenant.as_str(), key.job_type.as_str(), &key.text)
}

/// The checksum of a key and its holder.
pub(crate) fn key_check(key: (i64, &str, &str, &str), holder: &KeyHolder) -> u32 {
    let (kind, tenant, job_type, text) = key;
    let [tenant, job_type, text] = [tenant, job_type, text].map(|text| Column::Bytes(text.as_bytes()));
    let (seq, expires_at) = (Column::Number(holder.seq.0), Column::Number(holder.expires_at.as_millis()));
    let mut columns = vec![Column::Number(kind), tenant, job_type, text, seq, expires_at];
    if let Some(memory) = &holder.memory {
        columns.extend([Column::Bytes(memory.id.as_bytes()), Column::Bytes(&memory.payload.0)]);
        columns.push(Column::Number(state_code_of(holder).unwrap_or(-1)));
    }
    checksum(&columns)
}

/// The code of the final state of a key's removed job.
pub(crate) fn state_code_of(holder: &KeyHolder) -> Option<i64> {
    holder.memory.and_then(|memory| memory.ended).map(code)
}

/// The stored columns of a key's holder.
pub(crate) struct KeyRow<'r> {
    pub(crate) seq: i64,
    pub(crate) expires_at: i64,
    pub(crate) job: Option<&'r [u8]>,
    pub(crate) payload: Option<&'r [u8]>,
    pub(crate) ended: Option<i64>,
}

impl KeyRow<'_> {
    /// The holder of the key, if the checksum matches.
    pub(crate) fn into_holder(self, key: (i64, &str, &str, &str), check: u32) -> EngineResult<KeyHolder> {
        let wrong = |what: &str| damaged("keys", self.seq, what);
        let ended = match self.ended {
            Some(code) => {
                let state = usize::try_from(code).ok().and_then(|code| JobState::ALL.get(code)).copied();
                Some(state.ok_or_else(|| wrong("names no state"))?)
            }
            None => None,
        };
        let memory = match (self.job, self.payload) {
            (Some(job), Some(payload)) => {
                let id = job.try_into().map(JobId::from_bytes).map_err(|_| wrong("holds no id"))?;
                let payload = payload.try_into().map(PayloadDigest).map_err(|_| wrong("holds no digest"))?;
                Some(KeyHolderCache { id, payload, ended })
            }
            _ => None,
        };
        let expires_at = Timestamp::from_millis(self.expires_at);
        let holder = KeyHolder { seq: Seq(self.seq), expires_at, memory };
        if key_check(key, &holder) != check {
            return Err(wrong("does not match its checksum"));
        }
        Ok(holder)
    }
}

/// A document's checksum.
pub(crate) fn document_check(kind: i64, key: &str, body: &[u8]) -> u32 {
    checksum(&[Column::Number(kind), Column::Bytes(key.as_bytes()), Column::Bytes(body)])
}

/// The checksum of job data.
pub(crate) fn job_data_check(seq: i64, kind: i64, name: &str, at: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in [seq, kind, number(at), number(name.len() as u64)] {
        hasher.update(&part.to_le_bytes());
    }
    hasher.update(name.as_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// A count as stored; saturates at the maximum, which is never reached.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A row limit as a statement parameter.
pub(crate) fn limit(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The error for a row that differs from what was written.
pub(crate) fn damaged(table: &str, row: i64, what: &str) -> StoreError {
    StoreError::Damaged(format!("row {row} of {table} {what}"))
}

/// The columns of `jobs` in their order: owner, content type, idempotency key, unique key, concurrency key, tags,
/// correlation id, callback address, trace context; then the two lists of dependencies; then the payload.
pub(crate) struct SpecColumns<'a> {
    pub(crate) texts: [Option<&'a str>; 9],
    pub(crate) lists: [Option<&'a [u8]>; 2],
    pub(crate) payload: &'a [u8],
}

/// The parts of a [`Spec`] that have to be serialized before they can be columns.
pub(crate) struct SpecParts {
    pub(crate) tags: Option<String>,
    /// The trace context, if it is more than a `traceparent`.
    trace: Option<String>,
    after: Option<Vec<u8>>,
    after_any: Option<Vec<u8>>,
}

impl SpecParts {
    pub(crate) fn new(spec: &Spec) -> SpecParts {
        let list = |ids: &[JobId]| {
            (!ids.is_empty()).then(|| ids.iter().flat_map(|id| *id.as_bytes()).collect::<Vec<u8>>())
        };
        SpecParts {
            tags: tags_text(&spec.metadata),
            trace: trace_text(spec),
            after: list(&spec.after),
            after_any: list(&spec.after_any),
        }
    }
}

fn tags_text(metadata: &JobMetadata) -> Option<String> {
    (!metadata.tags.is_empty()).then(|| String::from_utf8_lossy(&encode(&metadata.tags)).into_owned())
}

/// `traceparent`, `tracestate` and `baggage` as lines of one text, which none of them can contain; `None` if the first is
/// all there is.
fn trace_text(spec: &Spec) -> Option<String> {
    let more = [&spec.tracestate, &spec.baggage];
    more.iter().any(|text| text.is_some()).then(|| {
        let lines = [&spec.traceparent, more[0], more[1]];
        lines.map(|line| line.as_deref().unwrap_or_default()).join("\n")
    })
}

/// The lines of [`trace_text`].
fn read_trace(text: Option<&str>) -> [Option<String>; 3] {
    let Some(text) = text.filter(|text| text.contains('\n')) else {
        return [text.map(str::to_owned), None, None];
    };
    let mut lines = text.splitn(3, '\n');
    [(); 3].map(|()| lines.next().filter(|line| !line.is_empty()).map(str::to_owned))
}

impl<'a> SpecColumns<'a> {
    /// The columns to write.
    pub(crate) fn new(spec: &'a Spec, parts: &'a SpecParts) -> SpecColumns<'a> {
        let content_type = &*spec.payload.content_type;
        SpecColumns {
            texts: [
                Some(&spec.owner),
                (content_type != Payload::JSON).then_some(content_type),
                spec.idempotency_key.as_deref(),
                spec.unique_key.as_deref(),
                spec.concurrency_key.as_deref(),
                parts.tags.as_deref(),
                spec.metadata.correlation_id.as_deref(),
                spec.metadata.callback_url.as_deref(),
                parts.trace.as_deref().or(spec.traceparent.as_deref()),
            ],
            lists: [parts.after.as_deref(), parts.after_any.as_deref()],
            payload: &spec.payload.bytes,
        }
    }

    /// A checksum over everything, with the lengths, so that the boundaries between texts are covered.
    pub(crate) fn crc(&self, seq: Seq) -> u32 {
        let texts = self.texts.iter().map(|text| text.map(str::as_bytes));
        let mut head = Vec::with_capacity(256);
        head.extend(seq.0.to_le_bytes());
        for field in texts.chain(self.lists) {
            let length = field.map_or(0, |bytes| bytes.len() as u64 + 1);
            head.extend(length.to_le_bytes());
            head.extend(field.unwrap_or_default());
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(self.payload);
        hasher.finalize()
    }

    /// The spec from the columns read; `check` is the stored checksum.
    pub(crate) fn into_spec(self, seq: Seq, check: u32) -> EngineResult<Spec> {
        if self.crc(seq) != check {
            return Err(damaged("jobs", seq.0, "does not match its checksum"));
        }
        self.into_unchecked_spec(seq)
    }

    /// The spec from the columns read, whether or not they match their checksum.
    pub(crate) fn into_unchecked_spec(self, seq: Seq) -> EngineResult<Spec> {
        let owned = |place: usize| self.texts[place].map(str::to_owned);
        let [traceparent, tracestate, baggage] = read_trace(self.texts[8]);
        Ok(Spec {
            payload: Payload {
                bytes: Arc::from(self.payload),
                content_type: Arc::from(self.texts[1].unwrap_or(Payload::JSON)),
            },
            idempotency_key: owned(2),
            unique_key: owned(3),
            concurrency_key: owned(4),
            metadata: JobMetadata {
                tags: self.texts[5].map_or_else(|| Ok(BTreeMap::new()), |text| parse(text.as_bytes()))?,
                correlation_id: owned(6),
                callback_url: owned(7),
            },
            owner: owned(0).unwrap_or_default(),
            traceparent,
            tracestate,
            baggage,
            after: read_ids(self.lists[0], seq)?,
            after_any: read_ids(self.lists[1], seq)?,
        })
    }
}

fn read_ids(list: Option<&[u8]>, seq: Seq) -> Result<Vec<JobId>, StoreError> {
    let (ids, rest) = list.unwrap_or_default().as_chunks::<16>();
    if !rest.is_empty() {
        return Err(damaged("jobs", seq.0, "holds half an id"));
    }
    Ok(ids.iter().map(|id| JobId::from_bytes(*id)).collect())
}
