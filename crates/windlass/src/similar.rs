//! Names that look alike, for hints such as "did you mean `mail`?". Pure, and bounded in what it compares.

use crate::limits;

/// The names among `known` that are most like `name`, the closest first, at most [`limits::SIMILAR_NAMES_MAX`].
///
/// A name is like another one if few characters differ in relation to its length, or if one begins with the other.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(limits::NAME_CHARS_MAX).collect();
    let allowed = (wanted.len() / 3).max(1);
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter(|other| *other != name)
        .filter_map(|other| {
            let text = other.to_lowercase();
            let chars: Vec<char> = text.chars().take(limits::NAME_CHARS_MAX).collect();
            let is_beginning = wanted.len() >= 3
                && chars.len() >= 3
                && (chars.starts_with(&wanted) || wanted.starts_with(&chars));
            match distance(&wanted, &chars, allowed) {
                Some(distance) => Some((distance, other)),
                None if is_beginning => Some((allowed + 1, other)),
                None => None,
            }
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(limits::SIMILAR_NAMES_MAX);
    found.into_iter().map(|(_, name)| name).collect()
}

/// How many insertions, removals, replacements and swaps of neighbours make one of the other; none if more than `most`.
fn distance(from: &[char], to: &[char], most: usize) -> Option<usize> {
    if from.len().abs_diff(to.len()) > most {
        return None;
    }
    let mut two_back: Vec<usize> = Vec::new();
    let mut back: Vec<usize> = (0..=to.len()).collect();
    for (row, left) in from.iter().enumerate() {
        let mut now = vec![row + 1];
        for (column, right) in to.iter().enumerate() {
            let replaced = back[column] + usize::from(left != right);
            let mut best = replaced.min(back[column + 1] + 1).min(now[column] + 1);
            let is_swap = row > 0 && column > 0 && *left == to[column - 1] && from[row - 1] == *right;
            if is_swap {
                best = best.min(two_back[column - 1] + 1);
            }
            now.push(best);
        }
        two_back = std::mem::replace(&mut back, now);
    }
    back.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_names_come_first() {
        let known = ["mail", "mails", "main", "report", "email", "default", "reports.daily"];
        assert_eq!(similar("mial", known), ["mail"]);
        assert_eq!(similar("mai", known), ["mail", "main", "mails"]);
        assert_eq!(similar("MAIL", known)[0], "mail");
        assert_eq!(similar("reprot", known), ["report"]);
        assert_eq!(similar("reports", known), ["report", "reports.daily"]);
        assert_eq!(similar("stat", ["state", "strict", "wait"]), ["state"]);
        assert!(similar("invoice", known).is_empty());
        assert!(similar("", known).is_empty());
        assert!(similar("mail", ["mail"]).is_empty(), "a name is not like itself");
    }
}
