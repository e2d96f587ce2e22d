//! Every command in the documents is run. Blocks marked `console` run in order, file by file, in their own folder; a line
//! `<!-- not run: why -->` or `<!-- run by FILE -->` before a block excludes it here, and `<!-- file: NAME -->` writes it to a
//! program of that name for the commands after it. A block of commands with no mark fails.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use windlass_testkit::{PATIENCE, ServerProcess, binary, windlass};

fn documents() -> Vec<PathBuf> {
    let root = windlass_testkit::repository();
    let mut all = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("SECURITY.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

/// A fenced block: its word, its lines, and the line before it.
struct Block {
    word: String,
    lines: Vec<String>,
    before: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut open, mut before) = (Vec::new(), None::<Block>, String::new());
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => {
                blocks.push(block);
                // A mark applies to one block only.
                before.clear();
            }
            (Some(word), None) => {
                open =
                    Some(Block { word: word.trim().to_owned(), lines: Vec::new(), before: before.clone() });
            }
            (None, Some(mut block)) => {
                block.lines.push(line.to_owned());
                open = Some(block);
            }
            (None, None) if !line.trim().is_empty() => line.clone_into(&mut before),
            (None, None) => {}
        }
    }
    blocks
}

fn is_excused(block: &Block) -> bool {
    let reason =
        block.before.strip_prefix("<!-- not run: ").or_else(|| block.before.strip_prefix("<!-- run by "));
    file_name(block).is_some() || reason.is_some_and(|reason| reason.len() > "-->".len() + 3)
}

/// The name of the file that a block is written to.
fn file_name(block: &Block) -> Option<&str> {
    block.before.strip_prefix("<!-- file: ")?.strip_suffix(" -->")
}

/// Writes a block to a file that can be started.
fn write_program(path: &Path, block: &Block) {
    std::fs::write(path, block.lines.join("\n") + "\n").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for block in blocks(&text) {
            let has_prompt = block.lines.iter().any(|line| line.starts_with("$ "));
            let is_shell = ["sh", "bash", "shell", "zsh"].contains(&block.word.as_str());
            let is_marked = block.word == "console" || is_excused(&block);
            let shown = document.display();
            assert!(
                is_marked || !(has_prompt || is_shell),
                "{shown}: commands without a mark: {:?}",
                block.lines
            );
            let is_dialogue = block.word != "console" || has_prompt;
            assert!(is_dialogue, "{shown}: a `console` block without a `$ `: {:?}", block.lines);
        }
    }
}

/// Commands of a block; a line that ends with `\` continues.
fn commands(block: &Block) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut continues = false;
    for line in &block.lines {
        match line.strip_prefix("$ ") {
            Some(command) => all.push(command.to_owned()),
            None if continues => {
                let last = all.last_mut().unwrap();
                last.push('\n');
                last.push_str(line);
            }
            None => continue,
        }
        continues = line.ends_with('\\');
    }
    all
}

/// Runs the commands of one document.
async fn run_document(document: &Path) {
    let text = std::fs::read_to_string(document).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Without this curl exits with 0 when the server refuses a request.
    std::fs::write(folder.path().join(".curlrc"), "fail-with-body\n").unwrap();
    let mut served: Option<ServerProcess> = None;
    // Background processes of a document run until its end.
    let mut background = Vec::new();
    for block in &blocks(&text) {
        if let Some(name) = file_name(block) {
            write_program(&folder.path().join(name), block);
        }
        if block.word != "console" || is_excused(block) {
            continue;
        }
        for command in commands(block) {
            let shown = format!("{}: {command}", document.display());
            if let Some(arguments) = command.strip_prefix("windlass serve") {
                if let Some(served) = served.take() {
                    served.stop().await;
                }
                served = Some(serve(arguments, folder.path()).await);
                continue;
            }
            if served.is_none() {
                served = Some(serve("", folder.path()).await);
            }
            let address = served.as_ref().unwrap().address.to_string();
            let command = command.replace("localhost:7788", &address).replace("127.0.0.1:7788", &address);
            let program = binary();
            let mut shell = Command::new("sh");
            shell.current_dir(folder.path()).env_clear();
            shell.env("PATH", format!("{}:/usr/bin:/bin", program.parent().unwrap().display()));
            shell.env("WINDLASS_URL", format!("http://{address}"));
            shell.env("CURL_HOME", folder.path());
            if let Some(command) = command.strip_suffix('&') {
                shell.args(["-c", &format!("exec {command}")]).stdout(Stdio::null()).stderr(Stdio::null());
                background.push(shell.kill_on_drop(true).spawn().unwrap());
                continue;
            }
            shell.args(["-c", &command]);
            let ended = tokio::time::timeout(PATIENCE, shell.output())
                .await
                .unwrap_or_else(|_| panic!("{shown}: does not end"));
            let ended = ended.unwrap();
            assert!(ended.status.success(), "{shown}: {ended:?}");
        }
    }
    drop(background);
    if let Some(served) = served {
        served.stop().await;
    }
}

/// A server as a document starts it, but on a port of its own.
async fn serve(arguments: &str, folder: &Path) -> ServerProcess {
    let mut words: Vec<&str> = arguments.trim_end_matches('&').split_whitespace().collect();
    if let Some(at) = words.iter().position(|word| *word == "--listen") {
        words.drain(at..at + 2);
    }
    let mut command = windlass(&[&["serve", "--listen", "127.0.0.1:0"], &words[..]].concat());
    command.current_dir(folder);
    ServerProcess::start(command).await
}

#[tokio::test]
async fn what_the_documents_show_works() {
    for document in documents() {
        run_document(&document).await;
    }
}
