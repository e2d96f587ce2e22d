//! Appended jobs as bytes: the encodings of their rows, with lanes and policies spelled out, because their numbers belong
//! to a commit. A CRC-32 at the end covers everything.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::audit::Record;
use crate::clock::Timestamp;
use crate::job::{JobId, JobType, Lane, Policy, QueueName, RareFields, Seq, Tenant};
use crate::store::documents::config;
use crate::store::engine::{AppendedJobs, NewRow};
use crate::store::engines::sql::codec::{Head, Shared, is_whole, pack, unpack};
use crate::store::engines::sql::columns::{SpecColumns, SpecParts};

/// The version of the layout; stored as the first byte.
const LAYOUT: u8 = 1;
const CRC_BYTES: usize = 4;
/// The length of a missing part.
const MISSING: u32 = u32::MAX;
const TEXTS: usize = 9;
const LISTS: usize = 2;

/// An audit record without a number.
#[derive(Serialize, Deserialize)]
struct RecordParts {
    event: String,
    alias: Option<String>,
    at: i64,
    actor_type: String,
    actor_id: String,
    tenant: Tenant,
    job: Option<JobId>,
    queue: Option<QueueName>,
    job_type: Option<JobType>,
    trace_id: Option<String>,
    context: String,
    is_kept: bool,
}

impl RecordParts {
    fn new((record, is_kept): &(Record, bool)) -> RecordParts {
        let record = record.clone();
        RecordParts {
            event: record.event.to_string(),
            alias: record.alias,
            at: record.at.as_millis(),
            actor_type: record.actor_type,
            actor_id: record.actor_id,
            tenant: record.tenant,
            job: record.job,
            queue: record.queue,
            job_type: record.job_type,
            trace_id: record.trace_id,
            context: record.context,
            is_kept: *is_kept,
        }
    }

    fn into_record(self) -> Option<(Record, bool)> {
        let record = Record {
            seq: 0,
            event: self.event.parse().ok()?,
            alias: self.alias,
            at: Timestamp::from_millis(self.at),
            actor_type: self.actor_type,
            actor_id: self.actor_id,
            tenant: self.tenant,
            job: self.job,
            queue: self.queue,
            job_type: self.job_type,
            trace_id: self.trace_id,
            context: self.context,
        };
        Some((record, self.is_kept))
    }
}

/// The parts of a row's record that a commit decides.
fn head(id: JobId) -> Head {
    Head { seq: Seq(0), id, lane: 0, policy: 0 }
}

/// The bytes of appended jobs; they hold no keys.
pub(in crate::store::engines::postgres) fn encode(jobs: &AppendedJobs) -> Vec<u8> {
    let mut body = vec![LAYOUT];
    body.extend(jobs.at.as_millis().to_le_bytes());
    put(&mut body, Some(&config::encode(&jobs.records.iter().map(RecordParts::new).collect::<Vec<_>>())));
    let mut record = Vec::with_capacity(256);
    // Most jobs of a group share them.
    let mut shared: Option<(&Arc<Lane>, &Arc<Policy>)> = None;
    for NewRow { job, spec, .. } in &jobs.rows {
        put(&mut body, Some(job.id.as_bytes()));
        // Each submission has made its own policy.
        let is_same = shared == Some((&job.lane, &job.policy));
        shared = Some((&job.lane, &job.policy));
        put(&mut body, (!is_same).then(|| config::encode(&*job.lane)).as_deref());
        put(&mut body, (!is_same).then(|| config::encode(&*job.policy)).as_deref());
        pack(job, &head(job.id), &mut record);
        put(&mut body, Some(&record));
        let parts = SpecParts::new(spec);
        let columns = SpecColumns::new(spec, &parts);
        columns.texts.iter().for_each(|text| put(&mut body, text.map(str::as_bytes)));
        columns.lists.iter().for_each(|list| put(&mut body, *list));
        put(&mut body, Some(columns.payload));
    }
    let crc = crc32fast::hash(&body);
    body.extend(crc.to_le_bytes());
    body
}

fn put(body: &mut Vec<u8>, part: Option<&[u8]>) {
    let length = part.map_or(MISSING, |part| u32::try_from(part.len()).expect("parts are limited"));
    body.extend(length.to_le_bytes());
    body.extend(part.unwrap_or_default());
}

/// A lane and a policy with their encodings.
type Decoded = ([Vec<u8>; 2], (Arc<Lane>, Arc<Policy>));

/// The last lane and policy that were decoded, with their encodings: most bodies have the same.
#[derive(Default)]
pub(super) struct Recent(Option<Decoded>);

impl Recent {
    fn decode(&mut self, lane: &[u8], policy: &[u8]) -> Option<(Arc<Lane>, Arc<Policy>)> {
        if let Some((bytes, known)) = &self.0
            && bytes[0] == lane
            && bytes[1] == policy
        {
            return Some(known.clone());
        }
        let read: (Lane, Policy) = (serde_json::from_slice(lane).ok()?, serde_json::from_slice(policy).ok()?);
        let known = (Arc::new(read.0), Arc::new(read.1));
        self.0 = Some(([lane.to_vec(), policy.to_vec()], known.clone()));
        Some(known)
    }
}

/// The bytes are not those that were encoded.
struct Damaged;

/// What is left to be read.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// The next part, which may be missing.
    fn next(&mut self) -> Result<Option<&'a [u8]>, Damaged> {
        let (length, rest) = self.0.split_first_chunk::<4>().ok_or(Damaged)?;
        let length = u32::from_le_bytes(*length);
        if length == MISSING {
            self.0 = rest;
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Damaged)?;
        let (part, rest) = rest.split_at_checked(length).ok_or(Damaged)?;
        self.0 = rest;
        Ok(Some(part))
    }

    fn text(&mut self) -> Result<Option<&'a str>, Damaged> {
        let bytes = self.next()?;
        bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| Damaged)).transpose()
    }
}

/// The jobs in these bytes; `None` if they are damaged.
pub(super) fn decode(body: &[u8], recent: &mut Recent) -> Option<AppendedJobs> {
    let (whole, crc) = body.split_last_chunk::<CRC_BYTES>()?;
    if crc32fast::hash(whole) != u32::from_le_bytes(*crc) {
        return None;
    }
    let (&layout, rest) = whole.split_first()?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    if layout != LAYOUT {
        return None;
    }
    let mut parts = Parts(rest);
    let records: Vec<RecordParts> = serde_json::from_slice(parts.next().ok()??).ok()?;
    let records = records.into_iter().map(RecordParts::into_record).collect::<Option<Vec<_>>>()?;
    let (mut rows, mut shared) = (Vec::new(), None);
    while !parts.0.is_empty() {
        rows.push(row(&mut parts, &mut shared, recent)?);
    }
    Some(AppendedJobs { at: Timestamp::from_millis(i64::from_le_bytes(*at)), rows, records })
}

fn row(
    parts: &mut Parts<'_>,
    shared: &mut Option<(Arc<Lane>, Arc<Policy>)>,
    recent: &mut Recent,
) -> Option<NewRow> {
    let id = JobId::from_bytes(parts.next().ok()??.try_into().ok()?);
    let (lane, policy) = (parts.next().ok()?, parts.next().ok()?);
    if let (Some(lane), Some(policy)) = (lane, policy) {
        *shared = Some(recent.decode(lane, policy)?);
    }
    let (lane, policy) = shared.clone()?;
    let (record, head) = (parts.next().ok()??, head(id));
    if !is_whole(record, &head) {
        return None;
    }
    let no_details: Arc<RareFields> = Arc::default();
    let job = unpack(record, &head, Shared { lane, policy, no_details })?;
    let (mut texts, mut lists) = ([None; TEXTS], [None; LISTS]);
    for text in &mut texts {
        *text = parts.text().ok()?;
    }
    for list in &mut lists {
        *list = parts.next().ok()?;
    }
    let columns = SpecColumns { texts, lists, payload: parts.next().ok()?? };
    let check = columns.crc(Seq(0));
    let spec = columns.into_spec(Seq(0), check).ok()?;
    Some(NewRow { job, spec, keys: Vec::new() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::{JobFlags, JobMetadata, JobRecord, Payload, Spec};

    fn decode(body: &[u8]) -> Option<AppendedJobs> {
        super::decode(body, &mut Recent::default())
    }

    fn appended() -> AppendedJobs {
        let lane = Arc::new(Lane::new(
            Tenant::new("acme").unwrap(),
            QueueName::new("mail").unwrap(),
            JobType::new("send").unwrap(),
        ));
        let now = Timestamp::from_millis(1_000_000);
        let id = JobId::new(now, 7);
        let job = JobRecord {
            eligible_at: Some(now),
            run_at: now.plus(Duration::from_secs(3)),
            has: JobFlags { callback: true, ..JobFlags::default() },
            ..JobRecord::new(Seq(0), id, lane.clone(), Arc::default(), now)
        };
        let spec = Spec {
            payload: Payload::bytes([0, 1, 255], "application/octet-stream"),
            owner: "owner".to_owned(),
            metadata: JobMetadata {
                tags: [("a".to_owned(), "b".to_owned())].into(),
                correlation_id: Some("c".to_owned()),
                callback_url: Some("https://example.com/".to_owned()),
            },
            baggage: Some("k=v".to_owned()),
            ..Spec::unknown()
        };
        let other = JobRecord { id: JobId::new(now, 8), ..job.clone() };
        let rows = [job, other].map(|job| NewRow { job, spec: spec.clone(), keys: Vec::new() });
        let record = Record {
            seq: 0,
            event: crate::audit::AuditEvent::Submitted,
            alias: None,
            at: now,
            actor_type: "user".to_owned(),
            actor_id: "owner".to_owned(),
            tenant: lane.tenant.clone(),
            job: Some(id),
            queue: Some(lane.queue.clone()),
            job_type: Some(lane.job_type.clone()),
            trace_id: None,
            context: "{}".to_owned(),
        };
        AppendedJobs { at: now, rows: rows.into(), records: vec![(record, true)] }
    }

    #[test]
    fn jobs_are_read_as_they_were_appended() {
        let given = appended();
        let read = decode(&encode(&given)).unwrap();
        assert_eq!((read.at, read.records), (given.at, given.records));
        for (read, given) in read.rows.iter().zip(&given.rows) {
            assert_eq!((&read.job, &read.spec), (&given.job, &given.spec));
        }
        assert_eq!(read.rows.len(), 2);
    }

    /// Damage is noticed by the checksum; decoding what passes it does not panic, and what it finds can be written.
    #[test]
    fn changed_bodies_are_noticed_or_read_without_harm() {
        let whole = encode(&appended());
        let (body, _) = whole.split_last_chunk::<CRC_BYTES>().unwrap();
        let words = [&[0xff; 4][..], &[0; 4], &[0xff, 0xff, 0xff, 0x7f], &[16, 0, 0, 0]];
        windlass_fuzz::Family::new("appended-jobs").seeds([body]).words(words).cases(4_000).bytes(|bytes| {
            if decode(bytes).is_some() && bytes != whole {
                return Err("the checksum does not tell".to_owned());
            }
            let Some(read) = decode(&[bytes, &crc32fast::hash(bytes).to_le_bytes()].concat()) else {
                return Ok(());
            };
            let again = decode(&encode(&read)).ok_or("what was read cannot be written")?;
            let is_same =
                again.at == read.at && again.records == read.records && again.rows.len() == read.rows.len();
            if is_same { Ok(()) } else { Err("is not read again".to_owned()) }
        });
    }

    /// Each submission has a policy of its own, and most are equal.
    #[test]
    fn equal_policies_are_written_once_and_read_once() {
        let mut given = appended();
        given.rows[1].job.policy = Arc::default();
        let body = encode(&given);
        assert_eq!(body.windows(6).filter(|part| part == b"tenant").count(), 2, "lane and record");
        let mut recent = Recent::default();
        let [one, other] = [(); 2].map(|()| super::decode(&body, &mut recent).unwrap().rows.remove(1).job);
        assert!(Arc::ptr_eq(&one.policy, &other.policy) && Arc::ptr_eq(&one.lane, &other.lane));
        given.rows[1].job.policy = Arc::new(Policy { crashes_max: 7, ..Policy::default() });
        let read = super::decode(&encode(&given), &mut recent).unwrap();
        assert_eq!(read.rows[1].job.policy, given.rows[1].job.policy);
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let body = encode(&appended());
        for place in 0..body.len() {
            let mut damaged = body.clone();
            damaged[place] ^= 1;
            assert!(decode(&damaged).is_none(), "byte {place}");
        }
        assert!(decode(&body[..body.len() - 1]).is_none());
    }
}
