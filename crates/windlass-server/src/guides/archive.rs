//! The packed guides; `build.rs` writes them.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::DeflateDecoder;

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guides.bin"));

/// The guides by name.
pub(super) fn unpack() -> BTreeMap<String, String> {
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
