//! `windlass top`: a live view of a server in the terminal, with keys to act on jobs and queues. It uses the public API and
//! restores the terminal however it exits.

mod app;
mod command;
mod details;
mod draw;
mod format;
mod history;
mod key_bindings;
mod model;
mod mouse;
mod poller;
mod rates;
mod rows;
mod sort;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use ratatui::crossterm::event::Event;
use ratatui::layout::Rect;
use tokio::signal::unix::{SignalKind, signal};

use self::app::{Mode, Screen};
use self::key_bindings::Effect;
use self::poller::{Feed, Update};
use self::terminal::Console;
use self::theme::Theme;
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::limits::{TOP_NOTE_TIME, TOP_POLL_INTERVAL};
use crate::output::color::Paint;
use crate::output::escaped;

/// Arguments of `top`.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// Leave the mouse to the terminal, such as for selecting text
    #[arg(long)]
    no_mouse: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn top(args: &TopArgs) -> anyhow::Result<ExitCode> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Failure::usage(
            "top needs a terminal; use `windlass stats` or `windlass queues` instead",
        ));
    }
    let ConnectArgs { json, output, columns, watch, .. } = &args.connect;
    if *json || output.is_some() || !columns.is_empty() || watch.is_some() {
        return Err(Failure::usage(
            "top prints nothing; use `windlass stats` with --json, -o, --columns or --watch",
        ));
    }
    let client = Arc::new(args.connect.client()?);
    let mut screen = Screen::new(client.place().to_owned(), client.now());
    // Connection errors are reported like those of other commands, before the terminal is taken over.
    let snapshot = poller::read_snapshot(&client, screen.pane).await?;
    screen.now = client.now();
    screen.take(snapshot);
    let mut feed = Feed::start(client.clone());
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let theme = Theme { is_coloured: Paint::for_data().is_coloured() };
    let mut console = Console::open(theme, !args.no_mouse)?;
    let mut events = terminal::events()?;
    let mut tick = tokio::time::interval(TOP_POLL_INTERVAL);
    loop {
        console.show(&screen)?;
        tokio::select! {
            event = events.recv() => {
                screen.now = client.now();
                let Some(event) = event else { break };
                if !handle(&mut screen, &feed, &event, console.area()) {
                    break;
                }
            }
            update = feed.next() => {
                screen.now = client.now();
                apply(&mut screen, update?);
                // The selected row may be another one now.
                feed.watch(&screen);
            }
            _ = tick.tick() => {
                screen.now = client.now();
                screen.note = screen.note.take().filter(|note| screen.now.since(note.at) < TOP_NOTE_TIME);
            }
            _ = terminate.recv() => break,
            _ = hang_up.recv() => break,
        }
    }
    drop(console);
    Ok(ExitCode::SUCCESS)
}

/// Handles a terminal event; returns false to quit.
fn handle(screen: &mut Screen, feed: &Feed, event: &Event, area: Rect) -> bool {
    let wish = match event {
        Event::Key(key) => screen.press(*key),
        Event::Mouse(mouse) => screen.point(*mouse, area),
        // A resize needs only the redraw that follows.
        _ => None,
    };
    feed.watch(screen);
    match wish {
        Some(Effect::Quit) => false,
        Some(wish) => {
            feed.wish(wish);
            true
        }
        None => true,
    }
}

/// Applies an update to the screen.
fn apply(screen: &mut Screen, update: Update) {
    match update {
        Update::Polled(snapshot) => screen.take(*snapshot),
        Update::Lost(why) => screen.lose(&why),
        Update::Message { text, is_error } => screen.say(escaped(&text), is_error),
        Update::Job(job) => {
            let now = screen.now;
            if let Mode::Details(details) = &mut screen.mode
                && details.job.as_ref().is_some_and(|shown| shown.id == job.job.id)
            {
                details.complete(*job, now);
            }
        }
    }
}
