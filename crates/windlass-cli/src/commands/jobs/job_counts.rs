//! Job counts per queue, type and tenant: the list and the columns that these commands share.

use std::process::ExitCode;

use serde_json::Value;
use windlass::clock::Timestamp;

use crate::commands::manage::operations::{finish, running};
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::Colour;
use crate::output::table::{Cell, Column, Table};

/// States of jobs that are neither final, running nor ready.
const WAITING: [&str; 6] = ["created", "pending", "delayed", "waiting", "retrying", "suspended"];

/// Prints all objects of a kind, one per row; `kind` is its word in the API, `nothing` is printed if there are none.
pub(crate) async fn list(
    connect: &ConnectArgs,
    kind: &str,
    columns: Vec<Column>,
    row: impl Fn(&Value, Timestamp) -> Vec<Cell>,
    nothing: &str,
) -> anyhow::Result<ExitCode> {
    let client = connect.client()?;
    let answer = client.whole(kind).await?;
    if connect.json {
        output::json(&answer)?;
        return Ok(Exit::Done.into());
    }
    let mut table = Table::new(columns);
    for one in answer[kind].as_array().map_or(&[][..], Vec::as_slice) {
        table.row(row(one, client.now()));
    }
    finish(&table, nothing)
}

/// The numbers of ready, running and waiting jobs and of dead letters.
pub(crate) fn depths(look: &Value) -> [Cell; 4] {
    let sum =
        |states: &[&str]| -> u64 { states.iter().filter_map(|state| look["depth"][state].as_u64()).sum() };
    let (ready, waiting) = (sum(&["scheduled"]).to_string(), sum(&WAITING).to_string());
    [ready.into(), running(look), waiting.into(), bad(sum(&["dead_letter"]))]
}

/// A number that should be zero.
pub(crate) fn bad(count: u64) -> Cell {
    Cell::painted(count.to_string(), (count > 0).then_some(Colour::Bad))
}
