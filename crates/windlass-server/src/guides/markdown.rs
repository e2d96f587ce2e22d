//! Markdown to HTML. Raw HTML of a guide is left out, headings get the anchors that GitHub gives them, and links to other
//! guides get a mark that the site replaces by its own form of link.

use std::collections::BTreeMap;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Links to files of the repository that are not guides.
const REPOSITORY: &str = "https://github.com/windlass-rs/windlass/blob/main/";
/// Begins the address of a guide in rendered HTML; the site replaces it. No guide contains it.
pub(super) const GUIDE_MARK: &str = "guide:";
/// Ends the name of a guide after [`GUIDE_MARK`].
pub(super) const NAME_END: &str = ":guide";

/// Characters of the summary of a guide.
const SUMMARY_CHARS: usize = 160;

/// A part of a guide below one heading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) anchor: String,
    pub(crate) level: usize,
    /// Its text without markup.
    pub(crate) text: String,
}

/// A guide as HTML.
#[derive(Debug, Default)]
pub(crate) struct RenderedGuide {
    pub(crate) html: String,
    pub(crate) sections: Vec<Section>,
    pub(crate) summary: String,
    /// The guides that it links to, with the anchor.
    pub(crate) links: Vec<(String, String)>,
}

/// Renders a guide; `names` are all guides.
pub(crate) fn render(name: &str, text: &str, names: &[&str]) -> RenderedGuide {
    let mut page = Writer { name, names, rendered: RenderedGuide::default(), anchors: BTreeMap::new() };
    let events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    let events = page.events(&events);
    html::push_html(&mut page.rendered.html, events.into_iter());
    page.rendered
}

struct Writer<'a> {
    name: &'a str,
    names: &'a [&'a str],
    rendered: RenderedGuide,
    /// How often each anchor was used.
    anchors: BTreeMap<String, usize>,
}

impl Writer<'_> {
    fn events<'e>(&mut self, events: &[Event<'e>]) -> Vec<Event<'e>> {
        let mut written = Vec::with_capacity(events.len());
        let (mut is_rust, mut in_summary, mut in_heading) = (false, false, false);
        for (index, event) in events.iter().enumerate() {
            match event {
                Event::Start(Tag::Heading { .. }) => in_heading = true,
                Event::End(TagEnd::Heading(_)) => in_heading = false,
                Event::Start(Tag::CodeBlock(kind)) => {
                    is_rust = matches!(kind, CodeBlockKind::Fenced(info) if info.starts_with("rust"));
                }
                Event::Start(Tag::Paragraph) => in_summary = self.rendered.summary.is_empty(),
                Event::End(TagEnd::Paragraph) => in_summary = false,
                _ => {}
            }
            match event {
                Event::Text(text) if is_rust && in_code(&events[..index]) => {
                    let shown = without_hidden_lines(text);
                    self.add_text(&shown);
                    written.push(Event::Text(shown.into()));
                }
                Event::Text(text) | Event::Code(text) if !in_heading => {
                    self.add_text(text);
                    if in_summary {
                        self.rendered.summary.push_str(text);
                    }
                    written.push(event.clone());
                }
                Event::SoftBreak | Event::HardBreak => {
                    self.add_text(" ");
                    if in_summary {
                        self.rendered.summary.push(' ');
                    }
                    written.push(event.clone());
                }
                other => written.extend(self.tag(other, &events[index..])),
            }
        }
        cut(&mut self.rendered.summary);
        written
    }

    /// What is written for a tag; `rest` are the events from it on.
    fn tag<'e>(&mut self, event: &Event<'e>, rest: &[Event<'e>]) -> Vec<Event<'e>> {
        if matches!(event, Event::End(_)) {
            self.add_text(" ");
        }
        match event {
            Event::Html(_) | Event::InlineHtml(_) => Vec::new(),
            Event::Start(Tag::Heading { level, .. }) => {
                let heading = text_until(rest, TagEnd::Heading(*level));
                let anchor = self.anchor(&heading);
                let level = *level as usize;
                let html = format!("<h{level} id=\"{anchor}\"><a class=\"anchor\" href=\"#{anchor}\">");
                self.rendered.sections.push(Section { heading, anchor, level, text: String::new() });
                vec![Event::Html(html.into())]
            }
            Event::End(TagEnd::Heading(level)) => {
                vec![Event::Html(format!("</a></h{}>\n", *level as usize).into())]
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = CowStr::from(self.link(dest_url));
                let (title, id) = (title.clone(), id.clone());
                vec![Event::Start(Tag::Link { link_type: *link_type, dest_url, title, id })]
            }
            // The binary has no pictures: a link to it, with its description as text.
            Event::Start(Tag::Image { dest_url, .. }) => {
                let to = self.link(dest_url);
                vec![Event::Html(format!("<a href=\"{}\">Picture: ", escaped(&to)).into())]
            }
            Event::End(TagEnd::Image) => vec![Event::Html("</a>".into())],
            // What can be scrolled can be reached by keyboard.
            Event::Start(Tag::CodeBlock(_)) => vec![Event::Html("<pre tabindex=\"0\"><code>".into())],
            Event::End(TagEnd::CodeBlock) => vec![Event::Html("</code></pre>\n".into())],
            Event::Start(Tag::Table(_)) => {
                vec![Event::Html("<div class=\"scroll\" tabindex=\"0\">".into()), event.clone()]
            }
            Event::End(TagEnd::Table) => vec![event.clone(), Event::Html("</div>\n".into())],
            other => vec![other.clone()],
        }
    }

    fn add_text(&mut self, text: &str) {
        if let Some(section) = self.rendered.sections.last_mut() {
            // A tag ends with a space, and the text after it often begins with one.
            let is_double = section.text.ends_with(' ') && text.starts_with(' ');
            section.text.push_str(if is_double { &text[1..] } else { text });
        }
    }

    /// The anchor of a heading, as GitHub makes it.
    fn anchor(&mut self, heading: &str) -> String {
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>();
        let plain = kept.replace(' ', "-");
        let used = self.anchors.entry(plain.clone()).or_default();
        let anchor = if *used == 0 { plain } else { format!("{plain}-{used}") };
        *used += 1;
        anchor
    }

    /// Where a link leads to.
    fn link(&mut self, to: &str) -> String {
        if to.starts_with('#') || to.starts_with("https://") || to.starts_with("http://") {
            if let Some(anchor) = to.strip_prefix('#') {
                self.rendered.links.push((self.name.to_owned(), anchor.to_owned()));
            }
            return to.to_owned();
        }
        let (path, anchor) = to.split_once('#').unwrap_or((to, ""));
        let path = resolved(self.name, path);
        let guide = path.strip_prefix("docs/").and_then(|path| path.strip_suffix(".md"));
        match guide.filter(|guide| self.names.contains(guide)) {
            Some(guide) => {
                self.rendered.links.push((guide.to_owned(), anchor.to_owned()));
                let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
                format!("{GUIDE_MARK}{guide}{NAME_END}{anchor}")
            }
            None => format!("{REPOSITORY}{path}"),
        }
    }
}

/// A path in the repository, of a link in this guide.
fn resolved(name: &str, to: &str) -> String {
    let mut path: Vec<&str> = ["docs"].into_iter().chain(name.split('/')).collect();
    path.pop();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.join("/")
}

fn text_until(events: &[Event<'_>], end: TagEnd) -> String {
    let inner = events.iter().take_while(|event| !matches!(event, Event::End(tag) if *tag == end));
    let text = inner.filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
        _ => None,
    });
    text.collect()
}

/// Whether the last of these events began a block of code.
fn in_code(before: &[Event<'_>]) -> bool {
    let last = before.iter().rev().find(|event| !matches!(event, Event::Text(_)));
    matches!(last, Some(Event::Start(Tag::CodeBlock(_))))
}

/// Without the lines that only tests of documentation need.
fn without_hidden_lines(code: &str) -> String {
    let shown = code.split_inclusive('\n').filter(|line| !line.starts_with("# ") && line.trim_end() != "#");
    shown.collect()
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(SUMMARY_CHARS) {
        text.truncate(end);
        text.truncate(text.rfind(' ').unwrap_or(text.len()));
        text.push('…');
    }
}

/// Text in HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        render("tutorials/one", text, &["tutorials/one", "limits"]).html
    }

    #[test]
    fn headings_have_anchors_and_repeated_ones_a_number() {
        let page = render("one", "# A `b` & c!\n\ntext *of* it\n\n## Twice\n\n## Twice\n", &["one"]);
        let anchors: Vec<&str> = page.sections.iter().map(|section| section.anchor.as_str()).collect();
        assert_eq!(anchors, ["a-b--c", "twice", "twice-1"]);
        assert_eq!((page.sections[0].heading.as_str(), page.summary.as_str()), ("A b & c!", "text of it"));
        assert!(page.html.contains("<h2 id=\"twice-1\">"), "{}", page.html);
        assert_eq!(page.sections[0].text.trim(), "text of it", "without the heading");
    }

    #[test]
    fn links_lead_to_guides_or_to_the_repository() {
        let page = html("[a](../limits.md#rates) [b](../../README.md) [c](https://example.com/x) [d](#here)");
        assert!(page.contains("href=\"guide:limits:guide#rates\""), "{page}");
        assert!(
            page.contains("blob/main/README.md\"") && page.contains("href=\"https://example.com/x\""),
            "{page}"
        );
        let picture = html("![A job](../dashboard/job.png)");
        assert!(
            !picture.contains("<img") && picture.contains("docs/dashboard/job.png\">Picture: A job</a>"),
            "{picture}"
        );
    }

    #[test]
    fn raw_html_and_other_schemes_are_left_out() {
        let page = html(
            "a <script>alert(1)</script> <!-- not run --> b\n\n<img src=x onerror=alert(1)>\n\n[x](javascript:alert(1))",
        );
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("not run"), "{page}");
        assert!(!page.contains("href=\"javascript:"), "{page}");
        assert!(html("`<b>` & 1 < 2").contains("&lt;b&gt;"), "text is escaped");
    }

    /// Whatever a guide contains, its page has no script, no picture, and links to pages alone.
    #[test]
    fn a_page_of_any_text_is_safe() {
        let seeds = [
            "# A `b`\n\ntext *of* [it](../limits.md#rates) ![p](x.png)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
            "a <script>alert(1)</script>\n\n[x](javascript:alert(1)) <javascript:alert(1)>\n\n```rust\n# x\n```\n",
            "[r]: JavaScript:alert(1) \"t\"\n\n> - 1. [r] <b onclick=x>\n\n***\nSet\n===\n",
        ];
        let words = [
            "<",
            "](",
            "javascript:",
            "data:text/html,",
            "\"",
            "&quot;",
            "```",
            "\n# ",
            "\n\n",
            "![",
            "<!--",
            "[r]: ",
        ];
        windlass_fuzz::Family::new("markdown").seeds(seeds).words(words).cases(1_500).text(|text| {
            let page = html(text);
            let lower = page.to_lowercase();
            if ["<script", "<img", "<iframe", "<!--"].iter().any(|tag| lower.contains(tag)) {
                return Err(page);
            }
            let mut links = page.split("href=\"").skip(1);
            let is_page = |link: &str| {
                ["#", "https://", "http://", GUIDE_MARK].iter().any(|start| link.starts_with(start))
            };
            if links.all(is_page) { Ok(()) } else { Err(page) }
        });
    }

    #[test]
    fn hidden_lines_of_samples_are_not_shown() {
        let page = html("```rust\n# use x;\n#[derive(Job)]\nstruct A;\n#\n```\n\n```sh\n# a comment\n```\n");
        assert!(page.contains("#[derive(Job)]\nstruct A;\n</code>"), "{page}");
        assert!(!page.contains("use x") && page.contains("# a comment"), "{page}");
    }
}
