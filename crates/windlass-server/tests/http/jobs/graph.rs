//! The jobs around a job, over HTTP.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fixture::Fixture;

/// The edges of a graph as `from need to`, each job by its name.
fn edges(graph: &Value, name: impl Fn(&Value) -> String) -> BTreeSet<String> {
    let edges = graph["edges"].as_array().unwrap().iter();
    edges
        .map(|edge| {
            format!("{} {} {}", name(&edge["from"]), edge["need"].as_str().unwrap(), name(&edge["to"]))
        })
        .collect()
}

/// Model: dependencies, child-groups. A graph has dependencies and children, seen from any of its jobs.
#[tokio::test]
async fn a_graph_joins_dependencies_parents_and_children() {
    let t = Fixture::new().await;
    let (parent, worker) = (t.submit(json!({"type": "parent"})).await, t.worker().await);
    let after = t.submit(json!({"type": "after", "after": [parent]})).await;
    let claimed = t.claim(&worker).await;
    let spawned = t
        .post_ok(
            201,
            &format!("/jobs/{parent}/children"),
            json!({"fence": claimed["fence"], "strategy": "collect_all",
                "jobs": [{"type": "one"}, {"type": "two"}]}),
        )
        .await;
    let child = |index: usize| spawned["children"][index]["id"].as_str().unwrap().to_owned();
    let names = [(parent.clone(), "parent"), (after, "after"), (child(0), "one"), (child(1), "two")];
    let name = |id: &Value| {
        let found = names.iter().find(|(known, _)| id == known);
        found.map_or_else(|| panic!("{id} is not a job of this test"), |(_, name)| (*name).to_owned())
    };
    let all = ["one child parent", "two child parent", "parent after after"];
    for id in [&names[0].0, &names[1].0, &names[2].0] {
        let graph = t.get_ok(&format!("/jobs/{id}/graph")).await;
        assert_eq!(edges(&graph, name), all.iter().map(|edge| (*edge).to_owned()).collect());
        assert_eq!((graph["nodes"].as_array().unwrap().len(), &graph["truncated"]), (4, &json!(false)));
    }
}

#[tokio::test]
async fn a_graph_ends_where_it_can_no_longer_be_drawn() {
    let t = Fixture::new().await;
    let (parent, worker) = (t.submit(json!({"type": "parent"})).await, t.worker().await);
    let claimed = t.claim(&worker).await;
    let jobs: Vec<Value> = (0..300).map(|_| json!({"type": "child"})).collect();
    let body = json!({"fence": claimed["fence"], "jobs": jobs});
    t.post_ok(201, &format!("/jobs/{parent}/children"), body).await;
    let graph = t.get_ok(&format!("/jobs/{parent}/graph")).await;
    assert_eq!((graph["nodes"].as_array().unwrap().len(), &graph["truncated"]), (200, &json!(true)));
}
