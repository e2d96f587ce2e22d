//! The mark of a move, stored in both stores: it keeps a store from being served while its content is being moved, or
//! after it was moved. Every process that has the store open sees it in its next commit, so that the two stores are
//! never both served.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use crate::clock::Timestamp;
use crate::store::documents::config::{encode, parse};
use crate::store::engine::{DocumentKind, EngineResult, Read, Write};

/// The key of the only document of its kind.
const KEY: &str = "mark";

/// The state of a store in a move. `id` identifies the move, and is the same in both stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub(crate) enum MoveMarker {
    /// Its content is being copied to another store since `at`, the last time at which a worker could report.
    Leaving { id: String, to: String, at: Timestamp },
    /// Its content was moved to another store.
    Moved { id: String, to: String, at: Timestamp },
    /// It is being filled, and is complete up to `cursor`.
    Arriving { id: String, from: String, cursor: Cursor },
    /// It was filled, and is served like any other.
    Arrived { id: String, from: String, at: Timestamp },
    /// It was filled, completely or not, and the source was taken back instead.
    GivenUp { id: String, from: String },
}

impl MoveMarker {
    /// The mark of a store, if it has one.
    pub(crate) fn read(db: &mut (impl Read + ?Sized)) -> EngineResult<Option<MoveMarker>> {
        db.document(DocumentKind::Transfer, KEY)?.map(|document| parse(&document.body)).transpose()
    }

    /// Marks a store, or removes its mark.
    pub(crate) fn write(db: &mut dyn Write, mark: Option<&MoveMarker>) -> EngineResult<()> {
        db.put_document(DocumentKind::Transfer, KEY, mark.map(encode).as_deref())
    }

    /// Whether the store must not be served.
    pub(crate) fn is_shut(&self) -> bool {
        !matches!(self, MoveMarker::Arrived { .. })
    }

    /// The error message for opening the store.
    fn describe(&self) -> String {
        match self {
            MoveMarker::Leaving { to, .. } => format!(
                "this store is being moved to {to}: run the same `windlass move` again to continue, or undo it with \
                 `windlass move --undo`"
            ),
            MoveMarker::Moved { to, at, .. } => format!(
                "this store was moved to {to} ({at}): use that one; `windlass move --undo` takes this one back and \
                 loses later changes"
            ),
            MoveMarker::Arriving { from, .. } => format!(
                "this store is incomplete, it is being moved here from {from}: run the same `windlass move` \
                 again to continue"
            ),
            MoveMarker::Arrived { from, .. } => format!("this store was moved here from {from}"),
            MoveMarker::GivenUp { from, .. } => {
                format!("this store was moved here from {from}, and the move was undone: use that one")
            }
        }
    }
}

/// Why the store must not be served, if so.
pub(crate) fn refusal(db: &mut (impl Read + ?Sized)) -> EngineResult<Option<String>> {
    Ok(MoveMarker::read(db)?.filter(MoveMarker::is_shut).map(|mark| mark.describe()))
}
