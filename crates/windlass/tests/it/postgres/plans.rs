//! How PostgreSQL finds rows. A plan is made once and kept; one that was made while a table was nearly empty must be
//! good for a million rows. So no statement may need the planner to know how many there are.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixture::cluster::{Cluster, schema_at};
use crate::random::walk_at;

/// The walk whose statements are looked at.
const SEED: u64 = 2;
const STEPS: usize = 300;
/// Fewer statements than this, and the walk did not go far.
const STATEMENTS_MIN: usize = 60;

/// Tables that always have few rows, and the lanes, of which lists search the names.
const READ_WHOLE: [&str; 4] = ["migrations", "inbox_options", "cluster", "lanes"];

/// PostgreSQL forgets how many rows there were, and takes every table for empty, as after `ANALYZE` at a quiet moment.
/// Then verbs by chance are done, and the plan of each statement is read from the server's log.
#[test]
fn a_plan_from_empty_tables_looks_up_each_row_by_an_index() {
    let cluster = Cluster::start(&[
        "-c fsync=off -c autovacuum=off -c shared_preload_libraries=auto_explain",
        "-c auto_explain.log_min_duration=0 -c auto_explain.log_format=json -c auto_explain.log_nested_statements=on",
    ]);
    let address = schema_at(&cluster.address());
    super::open(&address).close();
    cluster.query("ANALYZE");
    walk_at(&address, SEED, STEPS);
    let log = std::fs::read_to_string(cluster.folder().join("log")).expect("the server writes a log");
    let (mut statements, mut findings) = (BTreeSet::new(), BTreeSet::new());
    for (explained, is_nested) in plans(&log) {
        let text = explained["Query Text"].as_str().expect("a plan is of a statement");
        if !is_nested && !text.contains("$1") {
            continue;
        }
        if !statements.insert(text.to_owned()) {
            continue;
        }
        read_last_commit(&explained["Plan"], false, &mut |finding| {
            findings.insert(format!("{finding}\n  in {text}"));
        });
    }
    let listed: Vec<String> = findings.into_iter().collect();
    assert!(listed.is_empty(), "{} findings:\n{}", listed.len(), listed.join("\n"));
    assert!(statements.len() >= STATEMENTS_MIN, "only {} statements were looked at", statements.len());
}

/// The plans in a log of `auto_explain`, and whether their statements are those of a function: a line that announces one,
/// then JSON in lines that begin with a tab, then the function. A statement with neither function nor parameters is
/// planned again whenever it is run.
fn plans(log: &str) -> impl Iterator<Item = (Value, bool)> {
    log.split("  plan:\n").skip(1).map(|rest| {
        let plan: Vec<&str> = rest.lines().take_while(|line| line.starts_with('\t')).collect();
        let is_nested =
            rest.lines().nth(plan.len()).is_some_and(|line| line.contains("CONTEXT:  PL/pgSQL function"));
        (serde_json::from_str(&plan.join("\n")).expect("a plan is JSON"), is_nested)
    })
}

/// Reports each node that reads rows which it does not need; `is_repeated` below a loop over several rows.
fn read_last_commit(node: &Value, is_repeated: bool, report: &mut dyn FnMut(String)) {
    let (kind, table) = (node["Node Type"].as_str().unwrap_or(""), node["Relation Name"].as_str());
    if let Some(filter) = node["Join Filter"].as_str()
        && has_table(node)
    {
        report(format!("{kind}: compares every pair by {filter}"));
    }
    if let Some(table) = table
        && is_large(table)
    {
        let has_condition = !node["Index Cond"].is_null();
        match kind {
            "Seq Scan" => report(format!("reads all of {table}")),
            "Index Scan" | "Index Only Scan" if is_repeated && !has_condition => {
                report(format!("reads all of {table} in a loop"));
            }
            _ => {}
        }
    }
    let is_repeated = match kind {
        "Nested Loop" => true,
        // What is above takes a few rows of it.
        "Limit" => false,
        _ => is_repeated,
    };
    for below in node["Plans"].as_array().into_iter().flatten() {
        read_last_commit(below, is_repeated, report);
    }
}

/// Whether a node reads from a table that grows.
fn has_table(node: &Value) -> bool {
    node["Relation Name"].as_str().is_some_and(is_large)
        || node["Plans"].as_array().into_iter().flatten().any(has_table)
}

fn is_large(table: &str) -> bool {
    !READ_WHOLE.contains(&table) && !table.starts_with("pg_")
}
