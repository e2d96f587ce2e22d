//! The graph of related jobs: dependencies, parents and children, up to a maximum size.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use windlass::internal::wire::job_details::edge;
use windlass::job::{JobId, JobRecord};
use windlass::limits::PAGE_JOBS_MAX;
use windlass::store::caller::Caller;
use windlass::store::{Filter, ListRequest, Order};
use windlass_api::job_details::{Edge, Graph, Node};

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::path::JobPath;
use crate::limits::GRAPH_JOBS_MAX;

/// `GET /jobs/{id}/graph`
pub(crate) async fn graph(
    Call { app, caller }: Call,
    JobPath(id): JobPath,
) -> Result<JsonOk<Graph>, ApiError> {
    let found = app.store().get(&caller, id).await?;
    let found = found.ok_or_else(|| ApiError::not_found(format!("no job {id}")))?;
    let mut walk = Walk::from(found.job);
    while let Some(at) = walk.ahead.pop_front() {
        walk.follow(&app, &caller, at).await?;
    }
    let nodes = walk.nodes.values().map(Node::from).collect();
    Ok(JsonOk(Graph { nodes, edges: walk.edges.into_iter().collect(), truncated: walk.is_cut }))
}

/// A breadth-first traversal of the graph.
struct Walk {
    nodes: BTreeMap<JobId, JobRecord>,
    edges: BTreeSet<Edge>,
    /// Jobs whose neighbours were not read yet.
    ahead: VecDeque<JobId>,
    is_cut: bool,
}

impl Walk {
    fn from(job: JobRecord) -> Walk {
        let ahead = VecDeque::from([job.id]);
        Walk { nodes: BTreeMap::from([(job.id, job)]), edges: BTreeSet::new(), ahead, is_cut: false }
    }

    /// Adds an edge and its job, unless the graph is full.
    fn add(&mut self, edge: Edge, job: JobRecord) {
        if !self.nodes.contains_key(&job.id) {
            if self.nodes.len() >= GRAPH_JOBS_MAX {
                self.is_cut = true;
                return;
            }
            self.ahead.push_back(job.id);
            self.nodes.insert(job.id, job);
        }
        self.edges.insert(edge);
    }

    /// Adds all neighbours of a job.
    async fn follow(&mut self, app: &App, caller: &Caller, at: JobId) -> Result<(), ApiError> {
        let Some(found) = app.store().neighbours(caller, at).await? else { return Ok(()) };
        for (need, job) in found.dependencies {
            self.add(edge(job.id, at, Some(need)), job);
        }
        for (need, job) in found.dependents {
            self.add(edge(at, job.id, Some(need)), job);
        }
        let (parent, groups) = self.nodes.get(&at).map_or((None, 0), |job| (job.parent, job.details.groups));
        if let Some(parent) = parent
            && let Some(found) = app.store().get(caller, parent.id).await?
        {
            self.add(edge(at, parent.id, None), found.job);
        }
        if groups > 0 {
            self.follow_children(app, caller, at).await?;
        }
        Ok(())
    }

    async fn follow_children(&mut self, app: &App, caller: &Caller, at: JobId) -> Result<(), ApiError> {
        let filter = Filter { parent: Some(at), ..Filter::default() };
        // One more than the maximum shows whether there are more.
        let limit = (GRAPH_JOBS_MAX + 1).min(PAGE_JOBS_MAX);
        let page = ListRequest { filter, order: Order::Oldest, cursor: None, limit };
        for child in app.store().list(caller, page).await?.jobs {
            self.add(edge(child.job.id, at, None), child.job);
        }
        Ok(())
    }
}
