//! The pages around the guides, and writing them as a static site.

use std::path::{Path, PathBuf};

use anyhow::Context;
use askama::Template;
use serde_json::json;

use super::markdown::{GUIDE_MARK, NAME_END, Section};
use super::search::Hit;
use super::{GUIDES, Guide};

/// The style of the pages.
pub(super) const STYLE: &str =
    concat!(include_str!("../../assets/color.css"), include_str!("../../assets/guide.css"));
/// The search of the static site.
const SCRIPT: &str = include_str!("../../assets/guide-search.js");

/// Ends the title of a guide; the list of its headings comes after it.
const TITLE_END: &str = "</h1>";

/// How pages are linked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// By the server, below `/docs/guides`.
    Served,
    /// As files; the number of folders that the page is in.
    Files(usize),
}

impl Links {
    /// The address of a guide; of the index for an empty name.
    fn to(self, name: &str) -> String {
        match (self, name) {
            (Links::Served, "") => "/docs/guides".to_owned(),
            (Links::Served, name) => format!("/docs/guides/{name}"),
            (Links::Files(depth), "") => format!("{}index.html", "../".repeat(depth)),
            (Links::Files(depth), name) => format!("{}{name}.html", "../".repeat(depth)),
        }
    }

    /// The address of another file.
    fn file(self, name: &str) -> String {
        match self {
            Links::Served => format!("/docs/guides/{name}"),
            Links::Files(depth) => format!("{}{name}", "../".repeat(depth)),
        }
    }

    /// The HTML of a guide with its links to others.
    fn within(self, html: &str) -> String {
        let mut parts = html.split(GUIDE_MARK);
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            match part.split_once(NAME_END) {
                Some((name, rest)) => {
                    text.push_str(&self.to(name));
                    text.push_str(rest);
                }
                None => text.extend([GUIDE_MARK, part]),
            }
        }
        text
    }
}

/// A link with its text.
struct Entry {
    to: String,
    text: String,
    note: String,
    is_here: bool,
}

enum Content<'a> {
    /// The first page: where guides and the reference are.
    Entry,
    /// A list of all guides.
    Index,
    Guide(&'a Guide),
    /// The words that were searched for, and what was found; `None` if a script searches.
    Search(&'a str, Option<Vec<Hit<'a>>>),
}

#[derive(Template)]
#[template(path = "documents/guide.html")]
struct GuidePage {
    title: String,
    home: String,
    style: String,
    /// The address of the search.
    search: String,
    query: String,
    /// The scripts of the static search.
    scripts: Vec<String>,
    is_served: bool,
    menu: Vec<(&'static str, Vec<Entry>)>,
    /// The headings of this page.
    headings: Vec<(usize, String, String)>,
    /// The title of a guide, and what follows it.
    head: String,
    body: String,
    /// The sections of the index.
    is_index: bool,
    is_entry: bool,
    results: Option<Vec<Entry>>,
}

fn page(links: Links, content: &Content<'_>) -> String {
    let here = if let Content::Guide(guide) = content { guide.name.as_str() } else { "" };
    let menu = GUIDES.sections().into_iter().map(|(section, guides)| {
        let entries = guides.into_iter().map(|guide| Entry {
            to: links.to(&guide.name),
            text: guide.title.clone(),
            note: guide.summary.clone(),
            is_here: guide.name == here,
        });
        (section, entries.collect())
    });
    let found = |hit: &Hit<'_>| Entry {
        to: format!("{}#{}", links.to(&hit.guide.name), hit.section.anchor),
        text: shown_place(hit.guide, hit.section),
        note: hit.excerpt.clone(),
        is_here: false,
    };
    let (title, query, results) = match content {
        Content::Entry => ("Documentation".to_owned(), "", None),
        Content::Index => ("Guides".to_owned(), "", None),
        Content::Guide(guide) => (guide.title.clone(), "", None),
        Content::Search(query, hits) => {
            let hits = hits.as_ref().map_or_else(Vec::new, |hits| hits.iter().map(found).collect());
            ("Search".to_owned(), *query, Some(hits))
        }
    };
    let headings = match content {
        Content::Guide(guide) => {
            guide.rendered.sections.iter().filter(|section| section.level == 2).collect()
        }
        _ => Vec::new(),
    };
    let headings =
        headings.into_iter().map(|section| (section.level, section.anchor.clone(), section.heading.clone()));
    let is_static_search = matches!(content, Content::Search(_, None));
    let html =
        if let Content::Guide(guide) = content { links.within(&guide.rendered.html) } else { String::new() };
    let end = html.find(TITLE_END).map_or(0, |at| at + TITLE_END.len());
    let (head, body) = html.split_at(end);
    let page = GuidePage {
        title,
        home: links.to(""),
        style: links.file("guide.css"),
        search: if links == Links::Served { links.to("") } else { links.file("search.html") },
        query: query.to_owned(),
        scripts: if is_static_search {
            ["search-index.js", "search.js"].map(|name| links.file(name)).into()
        } else {
            Vec::new()
        },
        is_served: links == Links::Served,
        menu: menu.collect(),
        headings: headings.collect(),
        head: head.to_owned(),
        body: body.to_owned(),
        is_index: matches!(content, Content::Index),
        is_entry: matches!(content, Content::Entry),
        results,
    };
    page.render().expect("writing to memory cannot fail")
}

fn shown_place(guide: &Guide, section: &Section) -> String {
    if section.level <= 1 { guide.title.clone() } else { format!("{} › {}", guide.title, section.heading) }
}

/// The page that leads to the guides and to the reference.
pub(super) fn served_entry() -> String {
    page(Links::Served, &Content::Entry)
}

/// The list of all guides, as the server sends it.
pub(super) fn served_index() -> String {
    page(Links::Served, &Content::Index)
}

/// A guide, as the server sends it.
pub(super) fn served_guide(name: &str) -> Option<String> {
    GUIDES.get(name).map(|guide| page(Links::Served, &Content::Guide(guide)))
}

/// The results of a search, as the server sends them.
pub(super) fn served_search(query: &str) -> String {
    page(Links::Served, &Content::Search(query, Some(super::search::search(&GUIDES, query))))
}

/// Writes the guides as a static site into a folder, which may be opened as files or put on any web server. Returns the
/// number of pages.
///
/// # Errors
/// If a file cannot be written; the message names it.
pub fn build(folder: &Path) -> anyhow::Result<usize> {
    let mut files: Vec<(PathBuf, String)> = vec![
        ("index.html".into(), page(Links::Files(0), &Content::Index)),
        ("search.html".into(), page(Links::Files(0), &Content::Search("", None))),
        ("guide.css".into(), STYLE.to_owned()),
        ("search.js".into(), SCRIPT.to_owned()),
        ("search-index.js".into(), index()),
    ];
    let others = files.len() - 1;
    for (_, guides) in GUIDES.sections() {
        for guide in guides {
            let links = Links::Files(guide.name.matches('/').count());
            files.push((format!("{}.html", guide.name).into(), page(links, &Content::Guide(guide))));
        }
    }
    for (name, text) in &files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(files.len() - others)
}

/// The search index as a script, which also works where pages are opened as files.
fn index() -> String {
    let sections = GUIDES.0.iter().flat_map(|guide| {
        guide.rendered.sections.iter().map(move |section| {
            let to = format!("{}.html#{}", guide.name, section.anchor);
            let text = section.text.split_whitespace().collect::<Vec<_>>().join(" ");
            json!([to, shown_place(guide, section), text])
        })
    });
    format!("const GUIDE_SECTIONS = {};\n", serde_json::Value::Array(sections.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_site_has_all_pages_and_no_address_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let pages = build(folder.path()).unwrap();
        assert!(pages > 30, "{pages}");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let tutorial = read("tutorials/served.html");
        assert!(tutorial.contains("href=\"../guide.css\"") && tutorial.contains("href=\"../index.html\""));
        assert!(!tutorial.contains(GUIDE_MARK) && !tutorial.contains("/docs/guides"), "{tutorial}");
        assert!(!tutorial.contains("<script"), "a guide needs no script");
        assert!(read("search.html").contains("<script src=\"search-index.js\""));
        assert!(read("search-index.js").contains("schedules.html#"));
        for (name, text) in [("index.html", read("index.html")), ("limits.html", read("limits.html"))] {
            let loaded = text.matches("src=\"http").count()
                + text.matches("<link rel=\"stylesheet\" href=\"http").count();
            assert_eq!(loaded, 0, "{name} loads something from another server");
        }
    }

    #[test]
    fn links_between_guides_fit_their_place() {
        let html = format!("<a href=\"{GUIDE_MARK}limits{NAME_END}#rates\">x</a>");
        assert_eq!(Links::Served.within(&html), "<a href=\"/docs/guides/limits#rates\">x</a>");
        assert_eq!(Links::Files(1).within(&html), "<a href=\"../limits.html#rates\">x</a>");
    }
}
