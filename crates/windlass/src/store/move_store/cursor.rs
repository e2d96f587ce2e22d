//! The progress of a move: the parts of a store in the order in which they are moved, and a position within each. It is
//! stored in the target, in the commit of the rows before it.

use serde::{Deserialize, Serialize};

use crate::job::Seq;
use crate::store::engine::{DocumentKind, Edge, JobDataPosition, Key};

/// What is read next: everything before it is in the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub(crate) enum Cursor {
    /// Settings, pauses, workers, schedules, API keys, secrets, statistics, buckets, budgets, audit checkpoints.
    Documents { kind: DocumentKind, after: Option<String> },
    /// The audit trail.
    Records { after: u64 },
    /// Jobs with their specs, leases and fences.
    Jobs { after: Seq },
    /// Attempts, checkpoints, signals, logs, results, groups.
    #[serde(rename = "facets")]
    JobData { after: Option<JobDataPosition> },
    /// Idempotency and unique keys.
    Keys { after: Option<Key> },
    /// Dependencies.
    Edges { after: Option<Edge> },
    /// The next sequence numbers.
    Numbers,
    /// Nothing is left.
    End,
}

impl Cursor {
    /// The start of a move.
    pub(crate) fn start() -> Cursor {
        Cursor::Documents { kind: DocumentKind::ALL[0], after: None }
    }

    /// The start of the part after this one.
    pub(crate) fn next_part(&self) -> Cursor {
        match self {
            Cursor::Documents { kind, .. } => next_kind(*kind)
                .map_or(Cursor::Records { after: 0 }, |kind| Cursor::Documents { kind, after: None }),
            Cursor::Records { .. } => Cursor::Jobs { after: Seq(0) },
            Cursor::Jobs { .. } => Cursor::JobData { after: None },
            Cursor::JobData { .. } => Cursor::Keys { after: None },
            Cursor::Keys { .. } => Cursor::Edges { after: None },
            Cursor::Edges { .. } => Cursor::Numbers,
            Cursor::Numbers | Cursor::End => Cursor::End,
        }
    }
}

/// The names of the parts, in their order.
pub(crate) const PARTS: [&str; 7] =
    ["documents", "audit records", "jobs", "side records", "keys", "dependencies", "numbers"];

/// The kind after this one; a store's own mark is not moved.
fn next_kind(kind: DocumentKind) -> Option<DocumentKind> {
    let place = DocumentKind::ALL.iter().position(|known| *known == kind)?;
    DocumentKind::ALL.get(place + 1).copied().filter(|kind| *kind != DocumentKind::Transfer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_document_but_the_mark_and_every_part_is_passed_once() {
        let (mut cursor, mut kinds, mut others) = (Cursor::start(), Vec::new(), 0);
        while cursor != Cursor::End {
            match &cursor {
                Cursor::Documents { kind, .. } => kinds.push(*kind),
                _ => others += 1,
            }
            cursor = cursor.next_part();
        }
        let last = DocumentKind::ALL.len() - 1;
        assert_eq!(kinds, DocumentKind::ALL[..last]);
        assert_eq!(DocumentKind::ALL[last], DocumentKind::Transfer);
        assert_eq!(others + 1, PARTS.len());
    }
}
