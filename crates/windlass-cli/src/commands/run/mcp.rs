//! `windlass mcp`: the Model Context Protocol on standard input and output, for agents that start a program. Each line is one
//! message and goes to the server's `/mcp`; the tools are there, so that both ways offer the same.

use std::io::{self, BufRead, Read};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::limits::MCP_LINE_BYTES_MAX;
use crate::output;

/// Codes of JSON-RPC for what the server cannot answer.
const NOT_JSON: i64 = -32700;
const NO_ANSWER: i64 = -32000;

/// Arguments of `mcp`.
#[derive(Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn mcp(args: &McpArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    // Standard input has no other way to be read than by waiting for it.
    while let Some(line) = tokio::task::spawn_blocking(|| next_line(&mut io::stdin().lock())).await?? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(answer) = answer(&client, &line).await {
            output::line(&answer)?;
        }
    }
    Ok(Exit::Done.into())
}

/// The next line, cut where it is too long to be a message; None at the end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = MCP_LINE_BYTES_MAX as u64;
    if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    // The rest of it is not a message either.
    let mut is_whole = line.ends_with(b"\n") || (line.len() as u64) < most;
    while !is_whole {
        let mut rest = Vec::new();
        let read = input.by_ref().take(most).read_until(b'\n', &mut rest)?;
        is_whole = read == 0 || rest.ends_with(b"\n");
    }
    Ok(Some(line))
}

/// The answer to a message as one line; None for a notification. A failed call is an answer, too: the agent waits for one.
async fn answer(client: &ServerClient, line: &[u8]) -> Option<String> {
    let failure = |id: Value, code: i64, message: &str| {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
    };
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return Some(failure(Value::Null, NOT_JSON, "the line is not JSON, or too long"));
    };
    let call = Call::post_outside("/mcp").raw(message.to_string());
    match client.send(call).await {
        Ok(reply) if reply.bytes().is_empty() => None,
        // One line, whatever the server sends.
        Ok(reply) => Some(reply.read::<Value>().map_or_else(
            |error| failure(message["id"].clone(), NO_ANSWER, &error.to_string()),
            |value| value.to_string(),
        )),
        Err(error) => message.get("id").map(|id| failure(id.clone(), NO_ANSWER, &error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_one_line() {
        let long = "x".repeat(2 * MCP_LINE_BYTES_MAX + 7);
        let mut input = io::Cursor::new(format!("a\n{long}\n\nb"));
        let mut next = || next_line(&mut input).expect("it can be read");
        assert_eq!(next().as_deref(), Some(&b"a\n"[..]));
        assert_eq!(next().map(|line| line.len()), Some(MCP_LINE_BYTES_MAX));
        assert_eq!(next().as_deref(), Some(&b"\n"[..]));
        assert_eq!((next().as_deref(), next()), (Some(&b"b"[..]), None));
    }
}
