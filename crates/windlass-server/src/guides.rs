//! The guides of `docs/` as web pages: served at `/docs/guides`, or written as a static site by `windlass docs build`. Both
//! are the same pages; only their links differ. Pages need no script, except for the search of the static site.

mod markdown;
pub(crate) mod routes;
mod search;
mod site;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use flate2::read::DeflateDecoder;
use serde_json::{Value, json};

use self::markdown::RenderedGuide;
pub use self::site::build;

/// The order of the guides, by section. Guides that are not listed come last.
const SECTIONS: [(&str, &[&str]); 6] = [
    ("Tutorials", &["tutorials/served", "tutorials/embedded", "tutorials/python", "tutorials/typescript"]),
    (
        "Guides",
        &[
            "concepts",
            "embedding",
            "workers",
            "durable-steps",
            "schedules",
            "limits",
            "idempotency",
            "webhooks",
            "mcp",
            "python",
            "typescript",
            "testing",
            "development",
            "cookbook",
            "coming-from",
        ],
    ),
    (
        "Operation",
        &["operating", "alerts", "dashboard", "cli", "security", "postgresql", "scaling", "troubleshooting"],
    ),
    ("Reference", &["http-api", "protocol", "sdk-test", "model", "guarantees", "glossary", "performance"]),
    ("Background", &["comparison", "proof"]),
    ("Design", &[]),
];

/// The packed guides; `build.rs` writes them.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guides.bin"));

/// The section of guides in `docs/design`.
const DESIGN: &str = "Design";
/// The section of guides that no list names.
const OTHER: &str = "Other";

/// Most sections that programs are given for one query.
const FOUND: usize = 10;

/// One guide.
pub(crate) struct Guide {
    /// Its path below `docs/`, without an ending: `tutorials/served`.
    pub(crate) name: String,
    pub(crate) title: String,
    /// The beginning of its first paragraph.
    pub(crate) summary: String,
    pub(crate) section: &'static str,
    pub(crate) rendered: RenderedGuide,
}

/// All guides in order.
pub(crate) struct Guides(Vec<Guide>);

/// All guides; unpacked and rendered when the first one is needed.
pub(crate) static GUIDES: LazyLock<Guides> = LazyLock::new(|| Guides::from_texts(&unpack()));

/// The guides by name.
fn unpack() -> BTreeMap<String, String> {
    let mut text = String::new();
    DeflateDecoder::new(PACKED).read_to_string(&mut text).expect("build.rs packed them");
    let (mut guides, mut rest) = (BTreeMap::new(), text.as_str());
    while let Some((head, after)) = rest.split_once('\n') {
        let (name, length) = head.split_once(' ').expect("build.rs wrote name and length");
        let length = length.parse().expect("build.rs wrote a number");
        let (text, next) = after.split_at(length);
        guides.insert(name.to_owned(), text.to_owned());
        rest = next;
    }
    guides
}

/// The sections of guides that contain all words, as data for programs: title, heading, address and the text around the
/// first word.
pub(crate) fn found(query: &str) -> Vec<Value> {
    let hits = search::search(&GUIDES, query).into_iter().take(FOUND);
    hits.map(|hit| {
        let (name, anchor) = (&hit.guide.name, &hit.section.anchor);
        json!({"guide": hit.guide.title, "heading": hit.section.heading, "path": format!("/docs/guides/{name}#{anchor}"),
            "excerpt": hit.excerpt})
    })
    .collect()
}

impl Guides {
    /// The guides with these names and texts.
    fn from_texts(texts: &BTreeMap<String, String>) -> Guides {
        let names: Vec<&str> = texts.keys().map(String::as_str).collect();
        let guides = texts.iter().map(|(name, text)| {
            let rendered = markdown::render(name, text, &names);
            let title = rendered.sections.first().map_or(name.clone(), |first| first.heading.clone());
            let summary = rendered.summary.clone();
            Guide { name: name.clone(), title, summary, section: section_of(name), rendered }
        });
        let mut guides: Vec<Guide> = guides.collect();
        guides.sort_by_key(|guide| place_of(&guide.name));
        Guides(guides)
    }

    /// The guide of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Guide> {
        self.0.iter().find(|guide| guide.name == name)
    }

    /// The sections with their guides.
    pub(crate) fn sections(&self) -> Vec<(&'static str, Vec<&Guide>)> {
        let mut sections: Vec<(&'static str, Vec<&Guide>)> = Vec::new();
        for guide in &self.0 {
            match sections.last_mut() {
                Some((name, guides)) if *name == guide.section => guides.push(guide),
                _ => sections.push((guide.section, vec![guide])),
            }
        }
        sections
    }
}

fn section_of(name: &str) -> &'static str {
    let listed = SECTIONS.iter().find(|(_, names)| names.contains(&name)).map(|(section, _)| *section);
    listed.unwrap_or(if name.starts_with("design/") { DESIGN } else { OTHER })
}

fn place_of(name: &str) -> (usize, usize, String) {
    let section =
        SECTIONS.iter().position(|(section, _)| *section == section_of(name)).unwrap_or(SECTIONS.len());
    let listed = SECTIONS.get(section).map(|(_, names)| names.iter().position(|listed| *listed == name));
    (section, listed.flatten().unwrap_or(usize::MAX), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guide_is_there_and_every_listed_one_exists() {
        for (_, names) in SECTIONS {
            for name in names {
                assert!(GUIDES.get(name).is_some(), "docs/{name}.md is listed and missing");
            }
        }
        let other: Vec<&str> =
            GUIDES.0.iter().filter(|guide| guide.section == OTHER).map(|guide| guide.name.as_str()).collect();
        assert!(other.is_empty(), "add these to a section: {other:?}");
        assert!(GUIDES.0.iter().all(|guide| !guide.title.is_empty() && !guide.summary.is_empty()));
    }

    #[test]
    fn every_link_between_guides_leads_to_a_place_on_a_page() {
        let mut wrong = Vec::new();
        for guide in &GUIDES.0 {
            for (target, anchor) in &guide.rendered.links {
                let found = GUIDES.get(target).filter(|to| {
                    anchor.is_empty() || to.rendered.sections.iter().any(|section| section.anchor == *anchor)
                });
                if found.is_none() {
                    wrong.push(format!("{}: {target}#{anchor}", guide.name));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
