//! Makes the released binary smaller where linker and loader can: relocations are packed.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

/// Writes the relocations of vtables, 1.8 MB, as a bit map of 20 KB. glibc reads it from 2.36 on, musl from 1.2.4 on.
const PACKED: &str = "-Wl,-z,pack-relative-relocs";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Tests are to be linked quickly.
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && works(PACKED).unwrap_or(false) {
        println!("cargo:rustc-link-arg-bins={PACKED}");
    }
}

/// Whether a program that is linked with this option runs. Linkers differ in their options, and loaders in the relocations
/// they know; only trying tells. `None` if it could not be tried, as for another machine's processor.
fn works(option: &str) -> Option<bool> {
    let folder = PathBuf::from(env::var_os("OUT_DIR")?);
    let (source, program) = (folder.join("probe.rs"), folder.join("probe"));
    // The addresses in a table of functions are relocations: a loader that ignores them ends the program.
    let text = "static TABLE: [fn(i32) -> i32; 2] = [|n| n + 1, |n| n + 2];\n\
                fn main() { std::process::exit(std::hint::black_box(&TABLE).iter().fold(-3, |n, add| add(n))) }\n";
    fs::write(&source, text).ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    rustc.args(["--edition=2024", "--target"]).arg(env::var_os("TARGET")?);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.to_str()?));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    rustc.arg("-C").arg(format!("link-arg={option}")).arg("-o").arg(&program).arg(&source);
    let succeeds = |command: &mut Command| {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.ok().map(|status| status.success())
    };
    Some(succeeds(&mut rustc)? && succeeds(&mut Command::new(program))?)
}
