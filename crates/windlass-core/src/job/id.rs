//! Ids that the system assigns. A caller cannot choose any of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::limits;

/// A job id: a UUID of version 4.
///
/// Its first 48 bits are the submission time in milliseconds, the other 74 are random. Ids created together are
/// adjacent, so that lookups and inserts touch the same few index pages however many jobs there are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// A new id, from the time and 128 random bits.
    pub fn new(now: Timestamp, random: u128) -> JobId {
        let millis = u128::from(now.as_millis().unsigned_abs()) << 80;
        let bits = (random & ((1 << 80) - 1)) | millis;
        JobId(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// The first and the last id with this prefix of hexadecimal digits, with or without dashes. `None` if no id has
    /// it.
    pub fn beginning_with(text: &str) -> Option<(JobId, JobId)> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
        if digits.is_empty() || digits.len() > 32 || !is_hex {
            return None;
        }
        let filled = |filler: &str| {
            let whole = format!("{digits}{}", filler.repeat(32 - digits.len()));
            u128::from_str_radix(&whole, 16).ok().map(|bits| JobId::from_bytes(bits.to_be_bytes()))
        };
        Some((filled("0")?, filled("f")?))
    }

    /// The submission time, in milliseconds.
    pub fn submitted_at(&self) -> Timestamp {
        let bits = u128::from_be_bytes(*self.as_bytes()) >> 80;
        Timestamp::from_millis(i64::try_from(bits).unwrap_or(i64::MAX))
    }

    /// The id with these 16 bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> JobId {
        JobId(Uuid::from_bytes(bytes))
    }

    /// The id's 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

/// A worker id, new at every start, so that two runs of a program have different ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(Uuid);

impl WorkerId {
    /// A new id, from 128 random bits.
    pub fn new(random: u128) -> WorkerId {
        WorkerId(uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid())
    }

    /// The id with these 16 bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> WorkerId {
        WorkerId(Uuid::from_bytes(bytes))
    }

    /// The id's 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

macro_rules! shown_as_uuid {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<$name, uuid::Error> {
                Uuid::try_parse(text).map($name)
            }
        }
    };
}

shown_as_uuid!(JobId);
shown_as_uuid!(WorkerId);

/// A job's sequence number of submission; internal to engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub i64);

/// The fencing token: it grows with every claim, suspension or cancellation of a running job and is never reused.
///
/// The bits above [`Fence::COUNTER_BITS`] are the store's generation, those below are a counter. Every claim
/// increases the counter by a random amount, so a database that was silently restored to an earlier state issues
/// different fences, and no worker can guess the fence of another. A fence stays below 2^53, so that every JSON parser
/// reads it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl Fence {
    /// Bits of the counter within one generation.
    pub const COUNTER_BITS: u32 = 41;
    /// A claim uses at most this fraction of the counter's remaining values, as a power of two: the first claims of a
    /// job differ by 27 random bits, and a generation has room for 300 000 claims of one job.
    const SHARE_BITS: u32 = 14;

    /// The fence after a suspension or cancellation of a running job. No worker receives it, so it needs no random
    /// part.
    #[must_use]
    pub fn next(self) -> Fence {
        Fence(self.0.saturating_add(1))
    }

    /// The fence of the next claim, in a store of this generation, from random bits.
    #[must_use]
    pub fn claimed(self, generation: u64, random: u64) -> Fence {
        let last = self.0.max(generation.min(limits::GENERATION_MAX) << Fence::COUNTER_BITS);
        let counter_max = (1 << Fence::COUNTER_BITS) - 1;
        let room = counter_max - (last & counter_max);
        let step = 1 + random % (room >> Fence::SHARE_BITS).max(1);
        Fence(last.saturating_add(step))
    }

    /// The generation of the store that issued it. Fences of stores without generations belong to the first.
    pub fn generation(self) -> u64 {
        (self.0 >> Fence::COUNTER_BITS).max(1)
    }
}

/// The id of an attempt: the job and the attempt number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// The attempt number, from 1.
    pub number: u32,
}

impl AttemptId {
    /// The previous attempt, if any.
    pub fn previous(self) -> Option<AttemptId> {
        (self.number > 1).then(|| AttemptId { job: self.job, number: self.number - 1 })
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.number)
    }
}
