//! The payload of a retried job: `retry ID --payload JSON`, and `retry ID --edit`, which opens the old one in an editor.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use windlass_api::actions::RedriveBody;
use windlass_api::job::Job;
use windlass_api::json::Json;

use crate::commands::jobs::submit::json_payload;
use crate::connection::client::{Call, ServerClient};
use crate::error::Failure;
use crate::output::raw;

/// The editor if neither `VISUAL` nor `EDITOR` names one.
const EDITOR: &str = "vi";

/// Sets the payload of the new job: JSON, or other content in base64 with its type.
pub(crate) fn set_payload(
    body: &mut RedriveBody,
    bytes: &[u8],
    content_type: Option<&str>,
) -> anyhow::Result<()> {
    match content_type {
        None => body.payload = Some(Json(json_payload(bytes)?)),
        Some(kind) => {
            body.payload_base64 = Some(STANDARD.encode(bytes));
            body.content_type = Some(kind.to_owned());
        }
    }
    Ok(())
}

/// Lets the user edit the job's payload. False if it came back as it was: then nothing is to be done.
pub(crate) async fn edit(client: &ServerClient, id: &str, body: &mut RedriveBody) -> anyhow::Result<bool> {
    let job: Job = client.ask(Call::get(&["jobs", id]).query("payload", "true")).await?;
    let (before, content_type) = match (&job.payload, &job.payload_base64) {
        (Some(json), _) => (pretty(json.bytes()), None),
        (None, Some(text)) => (
            STANDARD.decode(text).map_err(|error| anyhow::anyhow!("the server sent no base64: {error}"))?,
            Some(job.content_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned())),
        ),
        (None, None) => {
            let problem = "your key may not read the payload of this job; give one with --payload";
            return Err(Failure::usage(problem));
        }
    };
    let file = Draft::new(id, &before, content_type.is_none())?;
    loop {
        run_editor(&file.0)?;
        let after = std::fs::read(&file.0).context("cannot read the edited payload")?;
        if after == before {
            return Ok(false);
        }
        match set_payload(body, &after, content_type.as_deref()) {
            Ok(()) => return Ok(true),
            // What was typed is not thrown away for a forgotten comma.
            Err(problem) => {
                crate::output::note(&format!("windlass: {problem:#}"));
                if !super::actions::confirmed("Edit it again?")? {
                    return Ok(false);
                }
            }
        }
    }
}

fn pretty(json: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(json).ok().map(raw::pretty);
    let mut bytes = text.map_or_else(|| json.to_vec(), String::into_bytes);
    bytes.push(b'\n');
    bytes
}

/// A file that only its user can read; deleted with this value.
struct Draft(PathBuf);

impl Draft {
    fn new(id: &str, bytes: &[u8], is_json: bool) -> anyhow::Result<Draft> {
        let ending = if is_json { "json" } else { "txt" };
        let name = format!("windlass-{id}-{}.{ending}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
        let draft = Draft(path);
        file.write_all(bytes)?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _it_is_gone = std::fs::remove_file(&self.0);
    }
}

fn run_editor(path: &Path) -> anyhow::Result<()> {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| EDITOR.to_owned());
    // By the shell, since the variable may contain arguments, such as `code --wait`.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path).status();
    let status = status.with_context(|| format!("cannot start the editor {editor}"))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::usage(format!("the editor {editor} failed ({status}); nothing was retried")))
}
