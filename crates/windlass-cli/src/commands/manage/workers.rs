//! `windlass workers`: who runs jobs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use windlass_api::worker::Worker;

use crate::connection::client::ServerClient;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output::color::Colour;
use crate::output::table::{Cell, Column, Table};

/// The names of the known workers by id; none if the key may not read them.
pub(crate) async fn names(client: &ServerClient) -> BTreeMap<String, String> {
    let workers = client.all::<Worker>("workers").await.unwrap_or_default();
    workers.into_iter().map(|worker| (worker.id.to_string(), worker.name)).collect()
}

/// Whether a worker is the server's own, which delivers callbacks and alerts and runs no jobs of users. It is listed, but
/// not counted.
pub(crate) fn is_built_in(worker: &Worker) -> bool {
    matches!(worker.queues.as_slice(), [queue] if queue.0.as_str() == windlass::callback::QUEUE)
}

pub(crate) async fn workers(connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let Some(workers) = client.show_all::<Worker>("workers").await? else { return Ok(Exit::Done.into()) };
    let mut table = Table::new(vec![
        Column::new("ID", 8).cut_middle(13),
        Column::new("NAME", 0).cut(10),
        Column::new("STATE", 2),
        Column::new("SLOTS", 5).right(),
        Column::new("SEEN", 3),
        Column::new("QUEUES", 6).cut(8),
        Column::new("TYPES", 7).cut(8),
    ]);
    let names = |names: Vec<String>| if names.is_empty() { "all".to_owned() } else { names.join(",") };
    for worker in workers {
        let (state, colour) = match (worker.alive, worker.paused.is_some()) {
            (false, _) => ("lost", Colour::Bad),
            (true, true) => ("paused", Colour::Warning),
            (true, false) => ("alive", Colour::Good),
        };
        table.row(vec![
            worker.id.to_string().into(),
            worker.name.into(),
            Cell::painted(state, Some(colour)),
            worker.concurrency.to_string().into(),
            Cell::when(worker.seen_at, client.now()),
            names(worker.queues.iter().map(ToString::to_string).collect()).into(),
            names(worker.types.iter().map(ToString::to_string).collect()).into(),
        ]);
    }
    table.print_or("no workers; `windlass work TYPE -- command` starts one")
}
