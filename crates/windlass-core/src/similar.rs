//! Similar names, for hints such as "did you mean `mail`?". Pure and bounded: a hint must not cost more than the
//! response that contains it.

use crate::limits;

/// The names among `known` that are most similar to `name`, closest first, at most [`limits::SIMILAR_NAMES_MAX`].
///
/// A name is similar if few characters differ in relation to its length, or if one is a prefix of the other. After
/// [`limits::SIMILAR_STEPS_MAX`] steps no further names are compared.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    Search::new(name).run(name, known)
}

/// A search for similar names.
struct Search {
    wanted: Vec<char>,
    /// How many characters may differ.
    allowed: usize,
    /// Characters compared so far.
    steps: usize,
}

impl Search {
    fn new(name: &str) -> Search {
        let mut wanted = Vec::new();
        read(name, &mut wanted);
        let allowed = (wanted.len() / 3).clamp(1, limits::SIMILAR_EDITS_MAX);
        Search { wanted, allowed, steps: 0 }
    }

    fn run<'a>(&mut self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let mut found: Vec<(usize, &str)> = Vec::with_capacity(limits::SIMILAR_NAMES_MAX + 1);
        let mut chars = Vec::new();
        for other in known.into_iter().filter(|other| *other != name) {
            if self.steps >= limits::SIMILAR_STEPS_MAX {
                break;
            }
            read(other, &mut chars);
            let Some(distance) = self.distance(&chars) else { continue };
            let place = found.partition_point(|known| *known < (distance, other));
            if found.get(place) != Some(&(distance, other)) {
                found.insert(place, (distance, other));
                found.truncate(limits::SIMILAR_NAMES_MAX);
            }
        }
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// The edit distance of a name; `None` if it is not similar.
    fn distance(&mut self, chars: &[char]) -> Option<usize> {
        let wanted = &self.wanted;
        let same = wanted.iter().zip(chars).take_while(|(left, right)| left == right).count();
        self.steps += same + 1;
        let shorter = wanted.len().min(chars.len());
        let is_beginning = shorter >= 3 && same == shorter;
        let (left, right) = (&wanted[same..], &chars[same..]);
        let ends = left.iter().rev().zip(right.iter().rev());
        let end = ends.take_while(|(left, right)| left == right).count();
        self.steps += end + 1;
        let (left, right) = (&left[..left.len() - end], &right[..right.len() - end]);
        let distance = edits(left, right, self.allowed, &mut self.steps);
        distance.or_else(|| is_beginning.then_some(self.allowed + 1))
    }
}

/// The characters of a name, ignoring case.
fn read(name: &str, chars: &mut Vec<char>) {
    chars.clear();
    chars.extend(name.chars().take(limits::NAME_CHARS_MAX).map(|char| char.to_ascii_lowercase()));
}

/// The number of insertions, deletions, replacements and transpositions between two names; `None` if it is more than
/// `most`, or if one is longer than the comparison limit. Compares only pairs of characters whose positions differ by
/// at most `most`, and stops as soon as the result exceeds `most`.
fn edits(from: &[char], to: &[char], most: usize, steps: &mut usize) -> Option<usize> {
    const WIDTH: usize = limits::SIMILAR_CHARS_MAX + 1;
    if from.len().abs_diff(to.len()) > most || from.len().max(to.len()) >= WIDTH {
        return None;
    }
    let beyond = most + 1;
    let mut two_back = [beyond; WIDTH];
    let mut back: [usize; WIDTH] = std::array::from_fn(|column| column.min(beyond));
    for row in 1..=from.len() {
        let (first, last) = (row.saturating_sub(most).max(1), (row + most).min(to.len()));
        let mut now = [beyond; WIDTH];
        now[0] = row.min(beyond);
        for column in first..=last {
            let (left, right) = (from[row - 1], to[column - 1]);
            let replaced = back[column - 1] + usize::from(left != right);
            let mut best = replaced.min(back[column] + 1).min(now[column - 1] + 1);
            if row > 1 && column > 1 && left == to[column - 2] && from[row - 2] == right {
                best = best.min(two_back[column - 2] + 1);
            }
            now[column] = best.min(beyond);
        }
        *steps += (last + 1).saturating_sub(first);
        if now[..=last].iter().all(|distance| *distance > most) {
            return None;
        }
        (two_back, back) = (back, now);
    }
    Some(back[to.len()]).filter(|distance| *distance <= most)
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
    #[test]
    fn a_few_differences_in_a_long_name_are_found_and_many_are_not() {
        let long = "a".repeat(240);
        let (known, near) = (format!("{long}01234"), format!("{long}x1234"));
        assert_eq!(similar(&near, [known.as_str()]), [known.as_str()]);
        assert_eq!(similar(&format!("b{long}"), [format!("c{long}").as_str()]).len(), 1);
        // A third of its characters differ: no typing error.
        let far = "aab".repeat(80);
        assert!(similar(&long, [far.as_str()]).is_empty());
    }

    #[test]
    fn a_search_takes_a_bounded_number_of_steps() {
        // Names as alike as they can be without being close, as many as a tenant may have.
        let known: Vec<String> =
            (0..10_000).map(|number| format!("x{number:04}{}{number:04}", "ab".repeat(120))).collect();
        let name = format!("y{}", "ba".repeat(125));
        let mut search = Search::new(&name);
        search.run(&name, known.iter().map(String::as_str));
        let once =
            limits::NAME_CHARS_MAX * 2 + limits::SIMILAR_CHARS_MAX * (limits::SIMILAR_EDITS_MAX * 2 + 1);
        assert!(search.steps <= limits::SIMILAR_STEPS_MAX + once, "{} steps", search.steps);
        // Ordinary names are all compared, however many there are.
        let known: Vec<String> = (0..10_000).map(|number| format!("reports.daily.{number:05}")).collect();
        let mut search = Search::new("reports.dialy.09999");
        let found = search.run("reports.dialy.09999", known.iter().map(String::as_str));
        assert_eq!(found[0], "reports.daily.09999", "{} steps", search.steps);
    }
}
