//! The documentation's picture and table of the lifecycle are generated from it; these tests hold them to that. On a
//! mismatch they print the text to paste.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::*;

/// What stands in the page between the markers of this name.
fn documented(name: &str) -> String {
    // Asked at run time first: checkouts that share a target directory share this binary, too.
    let manifest =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let page = std::fs::read_to_string(Path::new(&manifest).join("../../docs/concepts.md")).unwrap();
    let (begin, end) = (format!("<!-- {name}:begin -->\n"), format!("<!-- {name}:end -->"));
    let (_, rest) = page.split_once(&begin).expect("the page has the first marker");
    rest.split_once(&end).expect("the page has the second marker").0.to_owned()
}

fn is_documented(name: &str, expected: &str) {
    let found = documented(name);
    assert!(found == expected, "docs/concepts.md, between the {name} markers, should read:\n{expected}");
}

fn words(states: &[JobState]) -> String {
    states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ")
}

fn table() -> String {
    let mut text = "| event | from | to |\n|---|---|---|\n".to_owned();
    for (action, from, to) in LIFECYCLE {
        writeln!(text, "| {action} | {} | {} |", words(from), words(to)).unwrap();
    }
    text
}

/// One arrow for each pair of states, labelled with the events that lead along it.
fn diagram() -> String {
    let mut arrows: BTreeMap<(JobState, JobState), Vec<&str>> = BTreeMap::new();
    for (action, froms, tos) in LIFECYCLE {
        // They lead from every state that is not final to the same end; their arrows would cover all others.
        if matches!(action, JobAction::Cancel | JobAction::Expire) {
            continue;
        }
        for from in *froms {
            for to in *tos {
                arrows.entry((*from, *to)).or_default().push(action.as_str());
            }
        }
    }
    let mut text = "```mermaid\nstateDiagram-v2\n".to_owned();
    let (_, held, submitted) = LIFECYCLE[0];
    for first in held.iter().chain(submitted) {
        writeln!(text, "    [*] --> {first}").unwrap();
    }
    for ((from, to), events) in arrows {
        writeln!(text, "    {from} --> {to}: {}", events.join(", ")).unwrap();
    }
    for last in JobState::FINAL {
        writeln!(text, "    {last} --> [*]").unwrap();
    }
    text + "```\n"
}

/// Model: refused-changes. The page shows the table of the state machine.
#[test]
fn the_documented_lifecycle_is_the_real_one() {
    is_documented("lifecycle", &table());
}

/// Model: refused-changes. The page shows the picture of the same.
#[test]
fn the_documented_diagram_is_the_real_one() {
    is_documented("diagram", &diagram());
}
