//! `windlass top`: a terminal full of what is going on, with keys to intervene. It asks like any other client, and leaves
//! the terminal as it found it, however it ends.

mod app;
mod command;
mod details;
mod draw;
mod format;
mod key_bindings;
mod model;
mod poller;
mod rates;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use ratatui::crossterm::event::Event;
use tokio::signal::unix::{SignalKind, signal};

use self::app::{Mode, Screen};
use self::key_bindings::Effect;
use self::poller::{Feed, Update};
use self::terminal::Console;
use self::theme::Theme;
use super::color::Paint;
use super::connection::connect::ConnectArgs;
use super::error::Failure;
use super::output::escaped;
use crate::limits::{TOP_NOTE_TIME, TOP_POLL_INTERVAL};

/// Which server to look at.
#[derive(Args)]
pub(super) struct TopArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) async fn top(args: &TopArgs) -> anyhow::Result<ExitCode> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Failure::usage(
            "top needs a terminal; `windlass stats` and `windlass queues` print to anything",
        ));
    }
    if args.connect.json {
        return Err(Failure::usage("top is for people; `windlass stats --json` is for programs"));
    }
    let client = Arc::new(args.connect.client()?);
    let mut screen = Screen::new(client.place().to_owned(), client.now());
    // Who cannot be reached at all is told as by any other command, before the terminal is taken over.
    let look = poller::read_snapshot(&client).await?;
    screen.now = client.now();
    screen.take(look);
    let mut feed = Feed::start(client.clone());
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let mut console = Console::open(Theme { is_coloured: Paint::for_data().is_coloured() })?;
    let mut events = terminal::events()?;
    let mut tick = tokio::time::interval(TOP_POLL_INTERVAL);
    loop {
        console.show(&screen)?;
        tokio::select! {
            event = events.recv() => {
                screen.now = client.now();
                let Some(event) = event else { break };
                if !heed(&mut screen, &feed, &event) {
                    break;
                }
            }
            news = feed.next() => {
                screen.now = client.now();
                hear(&mut screen, news?);
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

/// Does what a key stands for; false if that is to quit.
fn heed(screen: &mut Screen, feed: &Feed, event: &Event) -> bool {
    // A changed size needs nothing but the drawing that follows.
    let Event::Key(key) = event else { return true };
    match screen.press(*key) {
        Some(Effect::Quit) => false,
        Some(wish) => {
            feed.wish(wish);
            true
        }
        None => true,
    }
}

/// Takes in what was heard.
fn hear(screen: &mut Screen, news: Update) {
    match news {
        Update::Look(look) => screen.take(*look),
        Update::Lost(why) => screen.lose(&why),
        Update::Said { text, is_trouble } => screen.say(escaped(&text), is_trouble),
        Update::Job(look) => {
            let now = screen.now;
            if let Mode::Details(details) = &mut screen.mode
                && details.job.as_ref().is_some_and(|job| job.id == look.job.id)
            {
                details.complete(*look, now);
            }
        }
    }
}
