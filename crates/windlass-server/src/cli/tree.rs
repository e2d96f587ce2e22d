//! Jobs around a job as a tree: what it waits for above it, what waits for it and what it spawned below.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::paint::Paint;
use super::text::field;

/// Jobs that are drawn: more say nothing on a screen.
const JOBS_SHOWN: usize = 40;

/// The tree around a job; empty if there is nothing around it.
pub(super) fn drawn(id: &str, graph: &Value, children: &Value, paint: Paint) -> String {
    let jobs = Jobs::read(graph, children);
    let mut text = String::new();
    for before in jobs.before.get(id).into_iter().flatten() {
        let _always_fits = writeln!(text, "  {} {}", paint.faint("after"), jobs.told(before, paint));
    }
    let mut left = JOBS_SHOWN;
    let mut seen = BTreeSet::from([id.to_owned()]);
    let below = jobs.below(id, &mut seen, &mut left, paint);
    if text.is_empty() && below.is_empty() {
        return text;
    }
    let _always_fits = write!(text, "  {}\n{below}", jobs.told(id, paint));
    if left == 0 || graph["truncated"] == true {
        text.push_str("  …\n");
    }
    text
}

/// Jobs by id, and who comes before and after whom.
struct Jobs {
    names: BTreeMap<String, (String, String)>,
    before: BTreeMap<String, Vec<String>>,
    after: BTreeMap<String, Vec<String>>,
}

impl Jobs {
    fn read(graph: &Value, children: &Value) -> Jobs {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (nodes, edges, spawned) =
            (list(&graph["nodes"]), list(&graph["edges"]), list(&children["children"]));
        let known = |job: &Value| (field(&job["id"]), (field(&job["type"]), field(&job["state"])));
        let names = nodes.iter().chain(&spawned).map(known).collect();
        let mut jobs = Jobs { names, before: BTreeMap::new(), after: BTreeMap::new() };
        for edge in &edges {
            let (from, to) = (field(&edge["from"]), field(&edge["to"]));
            if edge["need"] == "child" {
                // A parent waits for its children, and yet they are its branches.
                jobs.after.entry(to).or_default().push(from);
                continue;
            }
            jobs.before.entry(to.clone()).or_default().push(from.clone());
            jobs.after.entry(from).or_default().push(to);
        }
        // The one whose graph it is, or nobody, spawned them; they hang below it.
        if let Some(parent) = nodes.iter().map(|node| field(&node["id"])).next().filter(|_| nodes.len() == 1)
        {
            jobs.after.entry(parent).or_default().extend(spawned.iter().map(|child| field(&child["id"])));
        }
        jobs
    }

    fn told(&self, id: &str, paint: Paint) -> String {
        let unknown = (String::new(), String::new());
        let (job_type, state) = self.names.get(id).unwrap_or(&unknown);
        format!("{id}  {job_type}  {}", paint.state(state))
    }

    /// What comes after a job, in depth, without recursion: graphs are made by users.
    fn below(&self, id: &str, seen: &mut BTreeSet<String>, left: &mut usize, paint: Paint) -> String {
        let mut text = String::new();
        let mut ahead: Vec<(String, String, bool)> = self.branches(id, "  ");
        while let Some((job, indent, is_last)) = ahead.pop() {
            if *left == 0 {
                break;
            }
            *left -= 1;
            let corner = if is_last { "└─ " } else { "├─ " };
            let is_new = seen.insert(job.clone());
            let again = if is_new { "" } else { "  (above)" };
            let _always_fits = writeln!(text, "{indent}{corner}{}{again}", self.told(&job, paint));
            if is_new {
                let indent = format!("{indent}{}", if is_last { "   " } else { "│  " });
                ahead.extend(self.branches(&job, &indent));
            }
        }
        text
    }

    /// The branches of a job, the first on top of the pile.
    fn branches(&self, id: &str, indent: &str) -> Vec<(String, String, bool)> {
        let all = self.after.get(id).map_or(&[][..], Vec::as_slice);
        let count = all.len();
        let branch = |(place, job): (usize, &String)| (job.clone(), indent.to_owned(), place + 1 == count);
        all.iter().enumerate().map(branch).rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_diamond_is_drawn_once() {
        let node = |id: &str| json!({"id": id, "type": "t", "state": "pending"});
        let edge = |from: &str, to: &str| json!({"from": from, "to": to});
        let graph = json!({
            "nodes": [node("a"), node("b"), node("c"), node("d"), node("z")],
            "edges": [edge("z", "a"), edge("a", "b"), edge("a", "c"), edge("b", "d"), edge("c", "d")],
        });
        let text = drawn("a", &graph, &json!({}), Paint::plain());
        let expected = "  after z  t  pending\n  a  t  pending\n  ├─ b  t  pending\n  │  └─ d  t  pending\n  \
                        └─ c  t  pending\n     └─ d  t  pending  (above)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_job_alone_has_no_tree_and_children_hang_below() {
        let graph = json!({"nodes": [{"id": "a", "type": "t", "state": "waiting"}], "edges": []});
        assert_eq!(drawn("a", &graph, &json!({"children": []}), Paint::plain()), "");
        let children = json!({"children": [{"id": "b", "type": "u", "state": "running"}]});
        let text = drawn("a", &graph, &children, Paint::plain());
        assert_eq!(text, "  a  t  waiting\n  └─ b  u  running\n");
    }
}
