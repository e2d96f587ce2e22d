//! Workers in processes of their own: this program, started again with the address of the store.

use std::process::{Child, Command, Stdio};

use windlass::bench::{Figure, handlers};

use crate::place;

/// What a worker process is called with before the address.
pub(crate) const WORK: &str = "--work";
/// Handlers at once in each process.
const CONCURRENCY: usize = 50;
const JOBS: usize = 200_000;

/// A process that ends with this one.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Drains with so many processes.
pub(crate) async fn measure(processes: usize) -> anyhow::Result<Figure> {
    let (_files, address) = place::new();
    let start = || {
        let mut workers = Vec::with_capacity(processes);
        for _ in 0..processes {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([WORK, &address]).stdin(Stdio::null());
            workers.push(Process(command.spawn()?));
        }
        Ok(workers)
    };
    let what = format!("drained by {processes} worker processes, {CONCURRENCY} at once in each");
    handlers::drain_by(&address, JOBS, what, start).await
}

/// Works until it is killed.
pub(crate) async fn work(address: &str) -> anyhow::Result<()> {
    handlers::work(address, CONCURRENCY, std::future::pending::<()>()).await
}
