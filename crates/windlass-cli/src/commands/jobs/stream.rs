//! `windlass stream`: prints the partial output of a job, and follows it. A read waits at the server for more output, so
//! nothing is polled.

use std::process::ExitCode;

use clap::Args;
use windlass::limits::SERVER_WAIT_MAX;
use windlass_api::stream::{StreamChunk, StreamPage};
use windlass_api::time::Span;

use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::connection::reconnect::RetryDeadline;
use crate::exit_code::Exit;
use crate::output::{self, escaped, raw};

/// Arguments of `stream`.
#[derive(Args)]
pub(crate) struct StreamArgs {
    /// Job id, or a prefix or suffix of one that matches one job
    id: String,
    /// Follow the output until the job is final
    #[arg(long, short)]
    follow: bool,
    /// Print only chunks after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What was printed so far.
struct PrintState {
    is_json: bool,
    /// The number of the last printed chunk.
    after: u64,
    count: u64,
    /// Whether the last line has not ended.
    is_open: bool,
}

pub(crate) async fn stream(args: &StreamArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let id = client.job_id(&args.id).await?;
    let mut printed = PrintState { is_json: args.connect.json, after: args.after, count: 0, is_open: false };
    let mut patience = RetryDeadline::default();
    loop {
        let looked = page(&client, &id, printed.after, args.follow).await;
        let Some(page) =
            (if args.follow { patience.retry_while_unavailable(looked).await? } else { Some(looked?) })
        else {
            continue;
        };
        printed.print(&page)?;
        let is_read = printed.after >= page.last;
        if is_read && (!args.follow || page.state.0.is_final()) {
            break;
        }
    }
    printed.end_line()?;
    if printed.count == 0 && !args.connect.json {
        output::note("there is no output");
    }
    Ok(Exit::Done.into())
}

async fn page(
    client: &ServerClient,
    id: &str,
    after: u64,
    waits: bool,
) -> Result<StreamPage, crate::error::Failure> {
    let call = Call::get(&["jobs", id, "stream"]).query("after", after.to_string());
    let call = if waits {
        call.query("wait", Span(SERVER_WAIT_MAX).to_string()).waiting(SERVER_WAIT_MAX)
    } else {
        call
    };
    client.ask(call).await
}

impl PrintState {
    fn print(&mut self, page: &StreamPage) -> anyhow::Result<()> {
        for chunk in &page.chunks {
            if self.is_json {
                output::json(chunk)?;
            } else {
                self.note_gap(page.dropped)?;
                self.print_text(chunk)?;
            }
            self.after = chunk.number;
            self.count += 1;
        }
        Ok(())
    }

    /// Says what is missing because the job wrote more than it may keep.
    fn note_gap(&mut self, dropped: u64) -> anyhow::Result<()> {
        if self.after < dropped {
            self.end_line()?;
            output::note(&format!("chunks {} to {dropped} were dropped", self.after + 1));
        }
        Ok(())
    }

    /// Texts continue each other; of other values each has a line.
    fn print_text(&mut self, chunk: &StreamChunk) -> anyhow::Result<()> {
        if chunk.restart {
            self.end_line()?;
            output::note(&format!("the output starts over in attempt {}", chunk.attempt));
        }
        match serde_json::from_str::<String>(chunk.chunk.0.get()) {
            Ok(text) => {
                output::text(&printable(&text))?;
                self.is_open = if text.is_empty() { self.is_open } else { !text.ends_with('\n') };
            }
            Err(_is_another_value) => {
                self.end_line()?;
                output::line(&escaped(&raw::compact(chunk.chunk.0.get())))?;
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_open) {
            output::line("")?;
        }
        Ok(())
    }
}

/// The text without characters that control a terminal, but with its lines and tabs.
fn printable(text: &str) -> String {
    let pieces = text.split_inclusive(['\n', '\t']).map(|piece| {
        let (line, end) = match piece.chars().last() {
            Some(end @ ('\n' | '\t')) => (&piece[..piece.len() - 1], Some(end)),
            _ => (piece, None),
        };
        escaped(line).chars().chain(end).collect::<String>()
    });
    pieces.collect()
}
