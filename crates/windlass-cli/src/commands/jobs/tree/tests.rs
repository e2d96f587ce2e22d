//! Trees of graphs and children, as text.

use serde_json::{Value, json};

use super::*;

/// Ids that differ in their last digits, which stand for them here.
const HEAD: &str = "00000000-0000-4000-8000-000000000";

fn job(id: &str, state: &str) -> Value {
    json!({"id": format!("{HEAD}{id}"), "type": "t", "state": state})
}

fn child(id: &str, state: &str) -> Value {
    let mut child = job(id, state);
    for (name, value) in
        [("group", json!(1)), ("index", json!(0)), ("redacted", json!(false)), ("omitted", json!(false))]
    {
        child[name] = value;
    }
    child
}

fn graph(nodes: &[Value], edges: &[(&str, &str, &str)]) -> Graph {
    let edge = |(from, to, need): &(&str, &str, &str)| json!({"from": format!("{HEAD}{from}"), "to": format!("{HEAD}{to}"), "need": need});
    let edges: Vec<Value> = edges.iter().map(edge).collect();
    serde_json::from_value(json!({"nodes": nodes, "edges": edges, "truncated": false})).unwrap()
}

fn children(children: &[Value]) -> Children {
    serde_json::from_value(json!({"children": children, "groups": []})).unwrap()
}

fn drawn(tree: &Tree, own: &str) -> String {
    tree.drawn(&format!("{HEAD}{own}"), Paint::plain()).replace(HEAD, "")
}

#[test]
fn a_diamond_is_drawn_once_from_where_it_begins() {
    let mut tree = Tree::default();
    tree.take_graph(graph(
        &["00a", "00b", "00c", "00d", "00e", "00f"].map(|id| job(id, "pending")),
        &[
            ("00f", "00a", "after"),
            ("00a", "00b", "after"),
            ("00a", "00c", "after"),
            ("00b", "00d", "after"),
            ("00c", "00d", "after_any"),
            ("00e", "00d", "after"),
        ],
    ));
    let expected = [
        "  00f  t  pending",
        "  └─ 00a  t  pending  ← this job",
        "     ├─ 00b  t  pending",
        "     │  └─ 00d  t  pending",
        "     └─ 00c  t  pending",
        "        └─ 00d  t  pending  after any  (above)",
        "  00e  t  pending",
        "  └─ 00d  t  pending  (above)",
        "",
    ]
    .join("\n");
    assert_eq!(drawn(&tree, "00a"), expected);
}

#[test]
fn a_job_alone_has_no_tree_and_children_hang_below_their_parents() {
    let mut tree = Tree::default();
    tree.take_graph(graph(&[job("00b", "waiting")], &[]));
    assert_eq!(drawn(&tree, "00b"), "");
    tree.take_graph(graph(&[job("00a", "waiting")], &[]));
    tree.link(&format!("{HEAD}00a"), Link::Child, &format!("{HEAD}00b"));
    let both = children(&[child("00b", "waiting"), child("00c", "running")]);
    tree.take_children(&format!("{HEAD}00a"), both);
    tree.take_graph(graph(&[job("00d", "running")], &[("00d", "00b", "child"), ("00b", "00a", "child")]));
    let expected = [
        "  00a  t  waiting",
        "  ├─ 00b  t  waiting  child  ← this job",
        "  │  └─ 00d  t  running  child",
        "  └─ 00c  t  running  child",
        "",
    ]
    .join("\n");
    assert_eq!(drawn(&tree, "00b"), expected);
}

#[test]
fn more_than_fits_a_screen_is_left_out() {
    let mut tree = Tree::default();
    tree.take_graph(graph(&[job("fff", "waiting")], &[]));
    let many: Vec<Value> = (0..100).map(|n| child(&format!("{n:03}"), "running")).collect();
    tree.take_children(&format!("{HEAD}fff"), children(&many));
    let text = drawn(&tree, "fff");
    assert_eq!(text.lines().count(), JOBS_SHOWN + 1);
    assert!(text.ends_with("  …\n"), "{text}");
}
