//! Searching the guides: every word must be in a section; titles and headings count more than text.

use super::markdown::Section;
use super::{Guide, Guides};

/// Characters of a query that are read.
const QUERY_CHARS: usize = 100;
/// Results shown.
const RESULTS: usize = 30;
/// Characters of text around the first word that was found.
const EXCERPT_CHARS: usize = 160;

/// A section that was found.
pub(crate) struct Hit<'a> {
    pub(crate) guide: &'a Guide,
    pub(crate) section: &'a Section,
    pub(crate) excerpt: String,
}

/// The sections that contain all words of the query, the best first.
pub(crate) fn search<'a>(guides: &'a Guides, query: &str) -> Vec<Hit<'a>> {
    let query: String = query.chars().take(QUERY_CHARS).collect::<String>().to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    if words.is_empty() {
        return Vec::new();
    }
    let sections =
        guides.0.iter().flat_map(|guide| guide.rendered.sections.iter().map(move |section| (guide, section)));
    let mut found: Vec<(usize, &Guide, &Section)> = sections
        .filter_map(|(guide, section)| Some((score(guide, section, &words)?, guide, section)))
        .collect();
    // Stable: equal ones stay in the order of the guides.
    found.sort_by_key(|(score, ..)| std::cmp::Reverse(*score));
    let shown = found.into_iter().take(RESULTS);
    shown
        .map(|(_, guide, section)| Hit { guide, section, excerpt: excerpt(&section.text, words[0]) })
        .collect()
}

fn score(guide: &Guide, section: &Section, words: &[&str]) -> Option<usize> {
    let (title, heading) = (guide.title.to_lowercase(), section.heading.to_lowercase());
    let text = section.text.to_lowercase();
    let mut sum = 0;
    for word in words {
        let in_text = text.matches(word).take(3).count();
        let score = 6 * usize::from(title.contains(word)) + 9 * usize::from(heading.contains(word)) + in_text;
        // A section is not found by the title of its guide alone, except the first one.
        if in_text == 0 && !heading.contains(word) {
            return None;
        }
        sum += score;
    }
    Some(sum)
}

/// The text around the first occurrence of a word.
fn excerpt(text: &str, word: &str) -> String {
    let flat: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let lower: String = flat.iter().flat_map(|c| c.to_lowercase()).collect();
    let at = lower.find(word).map_or(0, |bytes| lower[..bytes].chars().count());
    let start = at.saturating_sub(EXCERPT_CHARS / 3).min(flat.len());
    let end = (start + EXCERPT_CHARS).min(flat.len());
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < flat.len() { "…" } else { "" });
    format!("{before}{}{after}", flat[start..end].iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guides::GUIDES;

    #[test]
    fn a_heading_is_found_before_text_and_all_words_count() {
        let guides = Guides::from_texts(
            &[
                ("limits", "# Limits\n\nSomething about queues.\n\n## Rate limits\n\nTokens for queues."),
                ("other", "# Other\n\nA rate, and limits far away, for queues."),
            ]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
        );
        let names = |query: &str| -> Vec<String> {
            let hits = search(&guides, query);
            hits.iter().map(|hit| format!("{}#{}", hit.guide.name, hit.section.anchor)).collect()
        };
        assert_eq!(names("rate LIMITS"), ["limits#rate-limits", "other#other"]);
        assert_eq!(names("queues tokens"), ["limits#rate-limits"]);
        assert!(names("  ").is_empty() && names("nothing such").is_empty());
    }

    #[test]
    fn the_words_of_users_find_their_guides() {
        for (query, expected) in [
            ("cron", "schedules"),
            ("dead letter", "glossary"),
            ("backup", "operating"),
            ("Celery", "coming-from"),
            ("signal", "durable-steps"),
        ] {
            let hits = search(&GUIDES, query);
            assert!(hits.iter().any(|hit| hit.guide.name == expected), "{query}");
        }
        assert!(search(&GUIDES, "the").len() <= RESULTS);
    }

    #[test]
    fn an_excerpt_shows_the_word() {
        let text = format!("{} NEEDLE {}", "é ".repeat(200), "é ".repeat(200));
        let shown = excerpt(&text, "needle");
        assert!(shown.contains("NEEDLE") && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
    }
}
