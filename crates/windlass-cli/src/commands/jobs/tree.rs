//! The jobs related to a job as a tree: its predecessors above, its successors below. A job is a successor if it waits for
//! the other job or was spawned by it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use windlass::job::{JobId, JobState, JobType};
use windlass_api::job::Job;
use windlass_api::job_details::{Children, Graph};
use windlass_api::text::Text;

use crate::connection::client::{Call, ServerClient};
use crate::error::Failure;
use crate::output::color::{Colour, Paint};

/// Maximum number of jobs drawn.
const JOBS_SHOWN: usize = 40;
/// Maximum number of jobs whose children are read, one request each.
const FAMILIES_ASKED: usize = 20;

/// How a job follows another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    /// It waits for the other job.
    After,
    /// It waits for any of several jobs.
    AfterAny,
    /// It was spawned by the other job.
    Child,
}

impl Link {
    fn label(self) -> &'static str {
        match self {
            Link::After => "",
            Link::AfterAny => "  after any",
            Link::Child => "  child",
        }
    }
}

/// Jobs by id, and their links.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Type and state.
    names: BTreeMap<String, (String, JobState)>,
    /// The successors of each job, sorted.
    next: BTreeMap<String, BTreeSet<(Link, String)>>,
    /// The predecessors of each job.
    before: BTreeMap<String, BTreeSet<String>>,
    is_cut: bool,
}

impl Tree {
    /// Reads the related jobs: the job's parents, their dependencies and dependents, and the children of all of those, up
    /// to the limits.
    pub(crate) async fn load(client: &ServerClient, job: &Job) -> Result<Tree, Failure> {
        let mut tree = Tree::default();
        let own = job.id.to_string();
        tree.know(&job.id, &job.r#type, &job.state);
        tree.take_graph(client.ask(Call::get(&["jobs", &own, "graph"])).await?);
        let (mut child, mut next) = (own.clone(), job.parent.as_ref().map(ToString::to_string));
        while let Some(parent) = next.take().filter(|_| tree.has_room()) {
            let found: Job = match client.ask(Call::get(&["jobs", &parent])).await {
                Ok(found) => found,
                // The parent may have been deleted; its children stay.
                Err(Failure::Refused(refusal)) if refusal.status == 404 => break,
                Err(failure) => return Err(failure),
            };
            tree.know(&found.id, &found.r#type, &found.state);
            tree.take_graph(client.ask(Call::get(&["jobs", &parent, "graph"])).await?);
            tree.link(&parent, Link::Child, &child);
            (child, next) = (parent, found.parent.as_ref().map(ToString::to_string));
        }
        // Only the jobs known by now are read: grandchildren are shown on their parents' trees.
        let known: Vec<String> = tree.names.keys().cloned().collect();
        let others = known.iter().filter(|id| **id != own);
        for id in std::iter::once(&own).chain(others).take(FAMILIES_ASKED) {
            match client.ask(Call::get(&["jobs", id, "children"])).await {
                Ok(children) => tree.take_children(id, children),
                Err(Failure::Refused(refusal)) if refusal.status == 404 => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(tree)
    }

    fn has_room(&self) -> bool {
        self.names.len() < JOBS_SHOWN
    }

    fn know(&mut self, id: &Text<JobId>, job_type: &Text<JobType>, state: &Text<JobState>) {
        self.names.insert(id.to_string(), (job_type.to_string(), state.0));
    }

    fn link(&mut self, from: &str, link: Link, to: &str) {
        self.next.entry(from.to_owned()).or_default().insert((link, to.to_owned()));
        self.before.entry(to.to_owned()).or_default().insert(from.to_owned());
    }

    fn take_graph(&mut self, graph: Graph) {
        for node in graph.nodes {
            self.know(&node.id, &node.r#type, &node.state);
        }
        for edge in graph.edges {
            let (from, to) = (edge.from.to_string(), edge.to.to_string());
            match edge.need.as_str() {
                // A parent waits for its children, but in the tree it precedes them.
                "child" => self.link(&to, Link::Child, &from),
                "after_any" => self.link(&from, Link::AfterAny, &to),
                _ => self.link(&from, Link::After, &to),
            }
        }
        self.is_cut |= graph.truncated;
    }

    fn take_children(&mut self, parent: &str, children: Children) {
        for child in children.children {
            self.know(&child.id, &child.r#type, &child.state);
            self.link(parent, Link::Child, &child.id.to_string());
        }
    }

    /// The tree as lines; empty for a job without related jobs. Depth first from the first predecessor, without recursion:
    /// users can create deep graphs.
    pub(crate) fn drawn(&self, own: &str, paint: Paint) -> String {
        if self.names.len() < 2 {
            return String::new();
        }
        let mut text = String::new();
        let (mut seen, mut left) = (BTreeSet::new(), JOBS_SHOWN);
        for root in self.roots(own) {
            let mut ahead = vec![(root, None, String::new(), true)];
            while let Some((id, link, indent, is_last)) = ahead.pop() {
                if left == 0 {
                    break;
                }
                left -= 1;
                let corner = match (link, is_last) {
                    (None, _) => "",
                    (_, true) => "└─ ",
                    (_, false) => "├─ ",
                };
                let is_new = seen.insert(id.clone());
                let again = if is_new { "" } else { "  (above)" };
                let line = self.describe(&id, link, is_new && id == own, paint);
                let _always_fits = writeln!(text, "  {indent}{corner}{line}{again}");
                if is_new {
                    let below = match (link, is_last) {
                        (None, _) => indent,
                        (_, true) => format!("{indent}   "),
                        (_, false) => format!("{indent}│  "),
                    };
                    ahead.extend(self.branches(&id, &below));
                }
            }
        }
        if left == 0 || self.is_cut {
            text.push_str("  …\n");
        }
        text
    }

    /// The jobs without predecessors; those from which the job itself can be reached come first.
    fn roots(&self, own: &str) -> Vec<String> {
        let (mut above, mut ahead) = (BTreeSet::new(), vec![own.to_owned()]);
        while let Some(id) = ahead.pop() {
            if above.insert(id.clone()) {
                ahead.extend(self.before.get(&id).into_iter().flatten().cloned());
            }
        }
        let is_root = |id: &&String| self.before.get(*id).is_none_or(BTreeSet::is_empty);
        let first = above.iter().filter(is_root);
        let others = self.names.keys().filter(is_root).filter(|id| !above.contains(*id));
        first.chain(others).cloned().collect()
    }

    fn describe(&self, id: &str, link: Option<Link>, is_own: bool, paint: Paint) -> String {
        let name = self.names.get(id);
        let job_type = name.map_or("", |(job_type, _)| job_type.as_str());
        let state = name.map_or_else(String::new, |(_, state)| paint.state(*state));
        let link = paint.faint(link.map_or("", Link::label));
        let (shown, mark) = if is_own {
            (paint.strong(id), paint.paint("  ← this job", Some(Colour::Active)))
        } else {
            (id.to_owned(), String::new())
        };
        format!("{shown}  {}  {}{link}{mark}", crate::output::escaped(job_type), state)
    }

    /// The branches of a job, the first on top of the stack.
    fn branches(&self, id: &str, indent: &str) -> Vec<(String, Option<Link>, String, bool)> {
        let all = self.next.get(id).into_iter().flatten();
        let mut branches: Vec<_> =
            all.map(|(link, job)| (job.clone(), Some(*link), indent.to_owned(), false)).collect();
        if let Some(last) = branches.last_mut() {
            last.3 = true;
        }
        branches.reverse();
        branches
    }
}

#[cfg(test)]
mod tests;
