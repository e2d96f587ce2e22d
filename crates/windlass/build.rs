//! Prepares the guides that the documentation of the crate contains (`src/guides.rs`): links between guides lead to their
//! modules, all other links to the repository.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The guides of `src/guides.rs`, without their ending. Links to others lead to the repository.
const GUIDES: [&str; 12] = [
    "concepts",
    "cookbook",
    "durable-steps",
    "embedding",
    "glossary",
    "guarantees",
    "idempotency",
    "limits",
    "model",
    "schedules",
    "testing",
    "troubleshooting",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let repository = env::var("CARGO_PKG_REPOSITORY").expect("cargo sets it");
    for name in GUIDES.into_iter().chain(["tutorials/embedded"]) {
        let source = folder().join(name).with_extension("md");
        println!("cargo:rerun-if-changed={}", source.display());
        let text = fs::read_to_string(&source).expect("a guide can be read");
        let target = out.join(name.replace('/', "_")).with_extension("md");
        fs::write(target, linked(&text, name, &repository)).expect("the output directory can be written");
    }
}

/// `docs` beside this file: a link in the repository, a folder in the published package. A checkout without links (Git
/// on Windows) has a file there and the folder two levels up.
fn folder() -> &'static Path {
    let folders = ["docs", "../../docs"].map(Path::new);
    folders.into_iter().find(|folder| folder.is_dir()).expect("the folder `docs` with the guides")
}

/// The text with its relative links as they are on docs.rs.
fn linked(text: &str, name: &str, repository: &str) -> String {
    let mut linked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        linked.push_str(before);
        linked.push_str("](");
        let end = after.find(')').unwrap_or(0);
        linked.push_str(&target(&after[..end], name, repository));
        rest = &after[end..];
    }
    linked + rest
}

/// Where a link leads: a guide's own module, or the file in the repository.
fn target(link: &str, name: &str, repository: &str) -> String {
    if link.is_empty() || link.starts_with('#') || link.contains("://") {
        return link.to_owned();
    }
    let (path, anchor) = link.split_once('#').map_or((link, ""), |(path, anchor)| (path, anchor));
    let mut place: Vec<&str> = vec!["docs"];
    place.extend(name.split('/'));
    place.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                place.pop();
            }
            part => place.push(part),
        }
    }
    let hash = if anchor.is_empty() { "" } else { "#" };
    let place = place.join("/");
    let guide = place.strip_prefix("docs/").and_then(|place| place.strip_suffix(".md"));
    match guide.filter(|guide| GUIDES.contains(guide)) {
        Some(guide) => format!("../{}/index.html{hash}{anchor}", guide.replace('-', "_")),
        None => format!("{repository}/blob/main/{place}{hash}{anchor}"),
    }
}
