//! The graph of jobs: which job waits for which. Edges are removed with either of their jobs.

use serde::{Deserialize, Serialize};

use crate::job::{Need, Seq};
use crate::store::engine::EngineResult;

/// A dependency between two jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge {
    /// The job that must finish first.
    pub dependency: Seq,
    /// The job that waits.
    pub dependent: Seq,
    /// The outcome the dependent needs.
    pub need: Need,
}

/// The side of an edge that the given jobs are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The jobs are dependencies.
    Dependency,
    /// The jobs are dependents.
    Dependent,
}

/// Reading edges.
pub trait Graph {
    /// The edges that have one of these jobs on this side, ordered by `dependency`, `dependent`, `need`, each once.
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>>;
    /// Up to `max` edges of the jobs that depend on this one, ordered by `dependent`, `need`; only edges after `after`.
    fn dependents(
        &mut self,
        dependency: Seq,
        after: Option<(Seq, Need)>,
        max: usize,
    ) -> EngineResult<Vec<Edge>>;
}

/// Writing edges.
pub trait GraphMut: Graph {
    /// Adds edges.
    fn link(&mut self, edges: &[Edge]) -> EngineResult<()>;
}
