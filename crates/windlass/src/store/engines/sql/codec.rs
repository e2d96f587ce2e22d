//! The binary encoding of a job: small numbers in few bytes, times relative to the submission, nothing for missing
//! values. A CRC-32 at the end also covers the row's sequence number, id, lane and policy. The same in every database;
//! contains no SQL.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::job::{
    ConcurrencyKey, Fence, JobFlags, JobId, JobRecord, JobState, Lane, Lease, Parent, Policy, Priority,
    RareFields, Seq, TraceId, WorkerId,
};

/// The version of the layout; stored as the first byte.
const LAYOUT: u8 = 1;
const CRC_BYTES: usize = 4;

/// Other parts of a row that its checksum covers.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) seq: Seq,
    pub(crate) id: JobId,
    pub(crate) lane: i64,
    pub(crate) policy: i64,
}

impl Head {
    fn crc(&self, body: &[u8]) -> u32 {
        let mut head = [0; 40];
        head[..8].copy_from_slice(&self.seq.0.to_le_bytes());
        head[8..24].copy_from_slice(self.id.as_bytes());
        head[24..32].copy_from_slice(&self.lane.to_le_bytes());
        head[32..].copy_from_slice(&self.policy.to_le_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(body);
        hasher.finalize()
    }
}

/// Flags for optional parts and booleans. The order of bits is part of the layout.
fn flags(job: &JobRecord, has_details: bool) -> u32 {
    let JobFlags { dependents, unique_key, checkpoints, children, result, callback, claim_ahead, lost_ahead } =
        job.has;
    let bits = [
        job.retry_at.is_some(),
        job.eligible_at.is_some(),
        job.scheduled_at.is_some(),
        job.first_started_at.is_some(),
        job.started_at.is_some(),
        job.completed_at.is_some(),
        job.lease.is_some(),
        job.any_unmet,
        job.concurrency.is_some(),
        job.is_blocked,
        job.parent.is_some(),
        has_details,
        dependents,
        unique_key,
        checkpoints,
        children,
        result,
        callback,
        job.completed_by.is_some(),
        job.trace.is_some(),
        claim_ahead,
        lost_ahead,
    ];
    bits.iter().enumerate().fold(0, |all, (place, bit)| all | (u32::from(*bit) << place))
}

/// Encodes a job into `into`, which is cleared first.
pub(crate) fn pack(job: &JobRecord, head: &Head, into: &mut Vec<u8>) {
    into.clear();
    let has_details = *job.details != RareFields::default();
    into.push(LAYOUT);
    put_number(into, u64::from(flags(job, has_details)));
    into.extend([job.state as u8, job.priority.value(), job.inherited.value()]);
    for number in [job.attempt, job.failures, job.crashes, job.after_unmet, job.depth] {
        put_number(into, u64::from(number));
    }
    put_number(into, job.fence.0);
    put_signed(into, job.cost_cents);
    let start = job.created_at.as_millis();
    put_signed(into, start);
    for moment in [job.updated_at, job.run_at, job.expires_at] {
        put_signed(into, moment.as_millis() - start);
    }
    let optional = [
        job.retry_at,
        job.eligible_at,
        job.scheduled_at,
        job.first_started_at,
        job.started_at,
        job.completed_at,
    ];
    for moment in optional.into_iter().flatten() {
        put_signed(into, moment.as_millis() - start);
    }
    if let Some(lease) = job.lease {
        into.extend(lease.worker.as_bytes());
        put_signed(into, lease.expires_at.as_millis() - start);
        put_signed(into, lease.deadline_at.as_millis() - start);
    }
    if let Some(worker) = job.completed_by {
        into.extend(worker.as_bytes());
    }
    if let Some(key) = job.concurrency {
        into.extend(key.0.to_le_bytes());
    }
    if let Some(parent) = job.parent {
        put_signed(into, parent.seq.0);
        into.extend(parent.id.as_bytes());
        put_number(into, parent.group);
        put_number(into, u64::from(parent.index));
    }
    if let Some(trace) = job.trace {
        into.extend(trace.to_bytes());
    }
    if has_details {
        into.extend(crate::store::documents::config::encode(&*job.details));
    }
    into.extend(head.crc(into).to_le_bytes());
}

/// Values of a job that are shared with other jobs and stored separately.
pub(crate) struct Shared {
    pub(crate) lane: Arc<Lane>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) no_details: Arc<RareFields>,
}

/// Whether the bytes are those that were encoded for this row.
pub(crate) fn is_whole(record: &[u8], head: &Head) -> bool {
    record
        .split_last_chunk::<CRC_BYTES>()
        .is_some_and(|(body, crc)| head.crc(body) == u32::from_le_bytes(*crc))
}

/// Decodes a job; `None` if the bytes are invalid.
pub(crate) fn unpack(record: &[u8], head: &Head, shared: Shared) -> Option<JobRecord> {
    let (body, _) = record.split_last_chunk::<CRC_BYTES>()?;
    let mut from = Cursor(body);
    if from.byte()? != LAYOUT {
        return None;
    }
    let flags = from.number()?;
    let has = |place: u32| flags & (1 << place) != 0;
    let state = *JobState::ALL.get(usize::from(from.byte()?))?;
    let [priority, inherited] = [from.priority()?, from.priority()?];
    let [attempt, failures, crashes, after_unmet, depth] =
        [from.small()?, from.small()?, from.small()?, from.small()?, from.small()?];
    let fence = Fence(from.number()?);
    let cost_cents = from.signed()?;
    let start = from.signed()?;
    Some(JobRecord {
        seq: head.seq,
        id: head.id,
        lane: shared.lane,
        policy: shared.policy,
        state,
        priority,
        inherited,
        attempt,
        failures,
        crashes,
        fence,
        created_at: Timestamp::from_millis(start),
        updated_at: from.moment(start)?,
        run_at: from.moment(start)?,
        expires_at: from.moment(start)?,
        retry_at: from.optional(has(0), start)?,
        eligible_at: from.optional(has(1), start)?,
        scheduled_at: from.optional(has(2), start)?,
        first_started_at: from.optional(has(3), start)?,
        started_at: from.optional(has(4), start)?,
        completed_at: from.optional(has(5), start)?,
        lease: if has(6) { Some(from.lease(start)?) } else { None },
        completed_by: if has(18) { Some(WorkerId::from_bytes(from.bytes()?)) } else { None },
        after_unmet,
        any_unmet: has(7),
        depth,
        concurrency: if has(8) { Some(ConcurrencyKey(i64::from_le_bytes(from.bytes()?))) } else { None },
        is_blocked: has(9),
        parent: if has(10) { Some(from.parent()?) } else { None },
        trace: if has(19) { Some(TraceId::from_bytes(from.bytes()?)) } else { None },
        cost_cents,
        has: JobFlags {
            dependents: has(12),
            unique_key: has(13),
            checkpoints: has(14),
            children: has(15),
            result: has(16),
            callback: has(17),
            claim_ahead: has(20),
            lost_ahead: has(21),
        },
        details: if has(11) { Arc::new(serde_json::from_slice(from.0).ok()?) } else { shared.no_details },
    })
}

/// Seven bits per byte, the lowest first; the top bit means that more follow.
fn put_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    into.push(number.to_le_bytes()[0]);
}

/// The sign is in the lowest bit, so that small negative numbers are short too.
fn put_signed(into: &mut Vec<u8>, number: i64) {
    put_number(into, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// The remaining bytes.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn priority(&mut self) -> Option<Priority> {
        Priority::new(i64::from(self.byte()?)).ok()
    }

    fn moment(&mut self, start: i64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(start.checked_add(self.signed()?)?))
    }

    /// The outer `None` means damage, the inner one a missing time.
    #[allow(clippy::option_option, reason = "two kinds of nothing")]
    fn optional(&mut self, is_there: bool, start: i64) -> Option<Option<Timestamp>> {
        if is_there { self.moment(start).map(Some) } else { Some(None) }
    }

    fn lease(&mut self, start: i64) -> Option<Lease> {
        Some(Lease {
            worker: WorkerId::from_bytes(self.bytes()?),
            expires_at: self.moment(start)?,
            deadline_at: self.moment(start)?,
        })
    }

    fn parent(&mut self) -> Option<Parent> {
        Some(Parent {
            seq: Seq(self.signed()?),
            id: JobId::from_bytes(self.bytes()?),
            group: self.number()?,
            index: self.small()?,
        })
    }
}
