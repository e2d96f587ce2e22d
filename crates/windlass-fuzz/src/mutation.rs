//! Mutations of entries: bits, bytes, cuts, repeats, words of the decoder, numbers at the edges of their types, and
//! pieces of other entries.

use proptest::collection::vec;
use proptest::prelude::{Just, any};
use proptest::prop_oneof;
use proptest::sample::Index;
use proptest::strategy::{BoxedStrategy, Strategy};

/// Longest input: enough for every decoder to show what it does with a long one.
const INPUT_BYTES_MAX: usize = 128 << 10;

/// Pieces that are special to many decoders.
const WORDS: [&str; 36] = [
    "0",
    "-1",
    "+1",
    "1e999",
    "-0",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "NaN",
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\0",
    "\n",
    "\r\n",
    "\n\n",
    " ",
    "%00",
    "%",
    "\\",
    "\"",
    "é",
    "\u{202e}",
    "\u{fffd}",
    "../",
    "://",
    "_",
    ",",
];

#[derive(Debug, Clone)]
enum Mutation {
    /// Flips one bit.
    Flip(Index, u8),
    /// Replaces one byte.
    Set(Index, u8),
    /// Keeps the beginning.
    Truncate(Index),
    /// Removes a part.
    Cut(Index, Index),
    /// Inserts bytes.
    Insert(Index, Vec<u8>),
    /// Repeats a part.
    Repeat(Index, Index, u8),
    /// Replaces the digits at or after a place.
    Number(Index, u64),
    /// Replaces the end by that of another entry.
    Splice(Index, Index, Index),
}

/// Entries with up to six mutations each; now and then bytes without any entry.
pub(crate) fn inputs(mut entries: Vec<Vec<u8>>, words: Vec<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    if entries.is_empty() {
        entries.push(Vec::new());
    }
    let words: Vec<Vec<u8>> = words.into_iter().chain(WORDS.map(|word| word.as_bytes().to_vec())).collect();
    let word = any::<Index>().prop_map(move |at| words[at.index(words.len())].clone());
    let place = any::<Index>;
    let number = prop_oneof![
        any::<u64>(),
        any::<u8>().prop_map(u64::from),
        Just(u64::MAX),
        Just(1 << 63),
        Just(1 << 31)
    ];
    let mutation = prop_oneof![
        1 => (place(), 0_u8..8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        1 => (place(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        1 => place().prop_map(Mutation::Truncate),
        1 => (place(), place()).prop_map(|(from, to)| Mutation::Cut(from, to)),
        3 => (place(), word).prop_map(|(at, word)| Mutation::Insert(at, word)),
        1 => (place(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        1 => (place(), place(), 1_u8..16).prop_map(|(from, to, times)| Mutation::Repeat(from, to, times)),
        1 => (place(), number).prop_map(|(at, number)| Mutation::Number(at, number)),
        2 => (place(), place(), place()).prop_map(|(other, at, from)| Mutation::Splice(other, at, from)),
    ];
    let mutated = (place(), vec(mutation, 1..6)).prop_map(move |(entry, mutations)| {
        let mut input = entries[entry.index(entries.len())].clone();
        for mutation in mutations {
            apply(mutation, &mut input, &entries);
            input.truncate(INPUT_BYTES_MAX);
        }
        input
    });
    prop_oneof![15 => mutated, 1 => vec(any::<u8>(), 0..64)].boxed()
}

fn apply(mutation: Mutation, input: &mut Vec<u8>, entries: &[Vec<u8>]) {
    let length = input.len();
    let part = |from: Index, to: Index| {
        let (from, to) = (from.index(length + 1), to.index(length + 1));
        from.min(to)..from.max(to)
    };
    match mutation {
        Mutation::Flip(at, bit) if length > 0 => input[at.index(length)] ^= 1 << bit,
        Mutation::Set(at, byte) if length > 0 => input[at.index(length)] = byte,
        Mutation::Flip(..) | Mutation::Set(..) => {}
        Mutation::Truncate(at) => input.truncate(at.index(length + 1)),
        Mutation::Cut(from, to) => drop(input.drain(part(from, to))),
        Mutation::Insert(at, bytes) => {
            let at = at.index(length + 1);
            input.splice(at..at, bytes);
        }
        Mutation::Repeat(from, to, times) => {
            let part = part(from, to);
            let (end, piece) = (part.end, input[part].repeat(usize::from(times)));
            input.splice(end..end, piece);
        }
        Mutation::Number(at, number) => {
            let from = at.index(length + 1);
            let Some(start) = input[from..].iter().position(u8::is_ascii_digit).map(|place| from + place)
            else {
                return;
            };
            let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            input.splice(start..start + digits, number.to_string().into_bytes());
        }
        Mutation::Splice(other, at, from) => {
            let other = &entries[other.index(entries.len())];
            input.truncate(at.index(length + 1));
            input.extend_from_slice(&other[from.index(other.len() + 1)..]);
        }
    }
}
