//! Prompts: how to answer three common questions with the tools.

use serde_json::{Value, json};

use super::RpcError;
use super::arguments::shown;

struct Prompt {
    name: &'static str,
    about: &'static str,
    /// Its argument, and whether it is required.
    argument: (&'static str, bool),
    /// The text; `{}` is the argument.
    text: &'static str,
}

const PROMPTS: [Prompt; 3] = [
    Prompt {
        name: "why_is_a_queue_slow",
        about: "Find out why jobs of a queue wait.",
        argument: ("queue", true),
        text: "Find out why jobs of the queue `{}` wait. Call `queue_health` for it, then `list_jobs` with its oldest waiting states \
            (scheduled, retrying, waiting) and `explain_job` for a few of them. Say which of these it is: a pause, a limit or rate, \
            too few workers, failing jobs, dependencies. Propose one change; do not make it.",
    },
    Prompt {
        name: "triage_dead_letters",
        about: "Sort failed jobs by cause, and propose what to do with each group.",
        argument: ("queue", false),
        text: "Call `list_dead_letters` (queue: {}). For each group look at one job with `show_job`, without its payload. Say whether \
            the cause is temporary (redrive), in the data (fix and redrive with another payload) or in the code. Then do a dry run of \
            `redrive_jobs` for the temporary ones, and ask before you redrive.",
    },
    Prompt {
        name: "why_is_a_job_stuck",
        about: "Find out why one job does not finish.",
        argument: ("id", true),
        text: "Call `explain_job` and `show_job` for `{}`. Tell in two sentences why it is not done, with times, and what would let it \
            continue.",
    },
];

pub(super) fn list() -> Value {
    let prompt = |prompt: &Prompt| {
        let (name, is_required) = prompt.argument;
        json!({"name": prompt.name, "description": prompt.about, "arguments": [{"name": name, "required": is_required}]})
    };
    json!({"prompts": PROMPTS.iter().map(prompt).collect::<Vec<_>>()})
}

/// `prompts/get`
pub(super) fn get(params: &Value) -> Result<Value, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    let prompt = PROMPTS.iter().find(|prompt| prompt.name == name);
    let prompt = prompt.ok_or_else(|| RpcError::params(format!("no prompt {}", shown(name))))?;
    let (argument, is_required) = prompt.argument;
    let given = params["arguments"][argument].as_str();
    if is_required && given.is_none_or(str::is_empty) {
        return Err(RpcError::params(format!("{argument}: is required")));
    }
    let text = prompt.text.replace("{}", &shown(given.unwrap_or("all")));
    Ok(
        json!({"description": prompt.about, "messages": [{"role": "user", "content": {"type": "text", "text": text}}]}),
    )
}
