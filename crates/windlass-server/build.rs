//! Packs the guides of `docs/` into one compressed file, which the binary contains: 450 KB of Markdown take 130 KB.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() {
    let docs = folder();
    println!("cargo:rerun-if-changed={}", docs.display());
    let mut files = Vec::new();
    find(docs, &mut files);
    files.sort();
    assert!(!files.is_empty(), "no guide was found in `{}`", docs.display());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("guides.bin");
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        let text = std::fs::read_to_string(file).expect("a guide can be read");
        let name = file.strip_prefix(docs).expect("it was found there").with_extension("");
        let name = name.to_str().expect("names of guides are ASCII");
        // A line with the name and the length, then the text.
        write!(packed, "{name} {}\n{text}", text.len()).expect("memory can be written");
    }
    let packed = packed.finish().expect("memory can be written");
    std::fs::write(&out, packed).expect("the output directory can be written");
}

/// `docs` beside this file: a link in the repository, a folder in the published package. A checkout without links (Git
/// on Windows) has a file there and the folder two levels up.
fn folder() -> &'static Path {
    let folders = ["docs", "../../docs"].map(Path::new);
    folders.into_iter().find(|folder| folder.is_dir()).expect("the folder `docs` with the guides")
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            files.push(path);
        }
    }
}
