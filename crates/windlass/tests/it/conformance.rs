//! The conformance suite on the engines of this repository, and the same promises where they need more than the contract:
//! the rows of a file, several processes on one store.

mod damage;
mod file;
mod nodes;
mod processes;
mod three_nodes;

windlass_conformance::suite!(
    memory: crate::fixture::On::Memory,
    sqlite: crate::fixture::On::Sqlite,
    postgres: crate::fixture::On::Postgres,
);
