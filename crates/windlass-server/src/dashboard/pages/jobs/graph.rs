//! Dependencies as a drawing: jobs in columns from left to right, each to the right of the jobs it waits for. Limited to a
//! readable size; without recursion.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use windlass::job::{JobId, JobRecord, JobState, Need};

use crate::dashboard::page::PageError;
use crate::dashboard::parts::format::line;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// A job in the drawing.
pub(in crate::dashboard) struct Node {
    pub(in crate::dashboard) id: String,
    /// The end of its id, for small spaces.
    pub(in crate::dashboard) tail: String,
    pub(in crate::dashboard) job_type: String,
    pub(in crate::dashboard) state: &'static str,
    pub(in crate::dashboard) x: usize,
    pub(in crate::dashboard) y: usize,
    pub(in crate::dashboard) is_here: bool,
}

/// A line between two jobs.
pub(in crate::dashboard) struct Edge {
    pub(in crate::dashboard) path: String,
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) title: &'static str,
}

/// The drawing.
pub(in crate::dashboard) struct Drawing {
    pub(in crate::dashboard) nodes: Vec<Node>,
    pub(in crate::dashboard) edges: Vec<Edge>,
    pub(in crate::dashboard) width: usize,
    pub(in crate::dashboard) height: usize,
    pub(in crate::dashboard) is_cut: bool,
    /// Whether it is wider than a column of the page.
    pub(in crate::dashboard) is_wide: bool,
    pub(in crate::dashboard) label: String,
}

/// The kind of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    After,
    AfterAny,
    Child,
}

const NODE_WIDTH: usize = 172;
const NODE_HEIGHT: usize = 44;
const COLUMN: usize = NODE_WIDTH + 60;
const LINE: usize = NODE_HEIGHT + 14;
const MARGIN: usize = 6;
/// Columns besides the first that fit into the wider column of a page.
const WIDE_COLUMNS: usize = 3;

#[derive(Default)]
struct Graph {
    jobs: BTreeMap<JobId, (JobType, JobState)>,
    edges: BTreeSet<(JobId, JobId, Kind)>,
    is_cut: bool,
}

type JobType = String;

impl Graph {
    /// Adds a job if there is space; returns whether it is new.
    fn take(&mut self, job: &JobRecord) -> Option<bool> {
        if self.jobs.contains_key(&job.id) {
            return Some(false);
        }
        if self.jobs.len() >= limits::GRAPH_JOBS_MAX {
            self.is_cut = true;
            return None;
        }
        self.jobs.insert(job.id, (job.lane.job_type.to_string(), job.state));
        Some(true)
    }
}

/// The graph around a job; None if the job has no related jobs.
pub(in crate::dashboard) async fn load(
    board: &Dashboard,
    visitor: &Visitor,
    job: &JobRecord,
    children: &[JobRecord],
) -> Result<Option<Drawing>, PageError> {
    let mut graph = Graph::default();
    graph.take(job);
    if let Some(parent) = &job.parent
        && let Some(found) = board.store().get(&visitor.caller, parent.id).await?
        && graph.take(&found.job).is_some()
    {
        graph.edges.insert((found.job.id, job.id, Kind::Child));
    }
    let mut ahead = VecDeque::from([job.id]);
    while let Some(at) = ahead.pop_front() {
        let Some(found) = board.store().neighbours(&visitor.caller, at).await? else { continue };
        let before = found.dependencies.iter().map(|(need, other)| (other, other.id, at, *need));
        let after = found.dependents.iter().map(|(need, other)| (other, at, other.id, *need));
        for (other, from, to, need) in before.chain(after) {
            match graph.take(other) {
                Some(true) => ahead.push_back(other.id),
                Some(false) => {}
                None => continue,
            }
            let kind = if need == Need::After { Kind::After } else { Kind::AfterAny };
            graph.edges.insert((from, to, kind));
        }
    }
    for child in children {
        if graph.take(child).is_some() {
            graph.edges.insert((job.id, child.id, Kind::Child));
        }
    }
    Ok((graph.jobs.len() > 1).then(|| draw(&graph, job.id)))
}

/// The column of each job: one after the last of its predecessors.
fn columns(graph: &Graph) -> BTreeMap<JobId, usize> {
    let mut open: BTreeMap<JobId, usize> = graph.jobs.keys().map(|id| (*id, 0)).collect();
    let mut after: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
    for (from, to, _) in &graph.edges {
        *open.entry(*to).or_default() += 1;
        after.entry(*from).or_default().push(*to);
    }
    let mut columns: BTreeMap<JobId, usize> = BTreeMap::new();
    let mut ready: VecDeque<JobId> = open.iter().filter(|(_, open)| **open == 0).map(|(id, _)| *id).collect();
    while let Some(id) = ready.pop_front() {
        let column = *columns.entry(id).or_default();
        for next in after.get(&id).into_iter().flatten() {
            let place = columns.entry(*next).or_default();
            *place = (*place).max(column + 1);
            let left = open.entry(*next).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                ready.push_back(*next);
            }
        }
    }
    columns
}

fn draw(graph: &Graph, here: JobId) -> Drawing {
    let columns = columns(graph);
    let mut by_column: BTreeMap<usize, Vec<JobId>> = BTreeMap::new();
    for id in graph.jobs.keys() {
        by_column.entry(columns.get(id).copied().unwrap_or(0)).or_default().push(*id);
    }
    let tallest = by_column.values().map(Vec::len).max().unwrap_or(1);
    let mut places: BTreeMap<JobId, (usize, usize)> = BTreeMap::new();
    for (column, ids) in &mut by_column {
        // Near their predecessors: sorting by the sum of their rows avoids most crossing lines.
        ids.sort_by_key(|id| {
            let before: Vec<usize> = graph
                .edges
                .iter()
                .filter(|(_, to, _)| to == id)
                .filter_map(|(from, _, _)| Some(places.get(from)?.1))
                .collect();
            before.iter().sum::<usize>() / before.len().max(1)
        });
        let top = (tallest - ids.len()) * LINE / 2;
        for (line, id) in ids.iter().enumerate() {
            places.insert(*id, (MARGIN + column * COLUMN, MARGIN + top + line * LINE));
        }
    }
    let nodes = graph.jobs.iter().filter_map(|(id, (job_type, state))| {
        let (x, y) = *places.get(id)?;
        let text = id.to_string();
        let job_type = line(job_type, 22);
        let tail = text.get(24..28).unwrap_or_default().to_owned();
        Some(Node { tail, id: text, job_type, state: state.as_str(), x, y, is_here: *id == here })
    });
    let edges = graph.edges.iter().filter_map(|(from, to, kind)| {
        let ((x1, y1), (x2, y2)) = (*places.get(from)?, *places.get(to)?);
        let (x1, y1, y2) = (x1 + NODE_WIDTH, y1 + NODE_HEIGHT / 2, y2 + NODE_HEIGHT / 2);
        let bend = x1.midpoint(x2);
        let (class, title) = match kind {
            Kind::After => ("edge", "waits for"),
            Kind::AfterAny => ("edge any", "waits for any of"),
            Kind::Child => ("edge child", "spawned"),
        };
        Some(Edge { path: format!("M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}"), class, title })
    });
    let last = by_column.keys().max().copied().unwrap_or(0);
    let links = if graph.edges.len() == 1 { "link" } else { "links" };
    Drawing {
        nodes: nodes.collect(),
        edges: edges.collect(),
        width: 2 * MARGIN + last * COLUMN + NODE_WIDTH,
        height: 2 * MARGIN + tallest * LINE - (LINE - NODE_HEIGHT),
        is_cut: graph.is_cut,
        is_wide: last >= WIDE_COLUMNS,
        label: format!("{} jobs and {} {links} between them", graph.jobs.len(), graph.edges.len()),
    }
}
