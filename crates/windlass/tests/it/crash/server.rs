//! The database server killed under load, its first process and others, and started again at once. Those who submit and work
//! are processes of their own; they wait, get no error, and acknowledged jobs stay.

use super::campaign::{Campaign, check};
use crate::fixture::cluster::{Cluster, schema_at};

const SEED: u64 = 0x5EED_0043;
/// Kills by default, of the first process and of others in turns; `WINDLASS_CRASH_RESTARTS` says otherwise.
const KILLS: usize = 6;
/// What must have been acknowledged since the last kill before the next.
const LINES_BETWEEN: usize = 100;

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test]
async fn a_database_server_killed_at_any_moment_loses_nothing_and_fails_no_call() {
    let wanted = std::env::var("WINDLASS_CRASH_RESTARTS").ok().and_then(|value| value.parse().ok());
    let kills = wanted.unwrap_or(KILLS);
    println!("seed {SEED:#x}, {kills} kills");
    let cluster = Cluster::start(&[]);
    let address = schema_at(&cluster.address());
    let mut campaign = Campaign::start(&address, SEED);
    for round in 0..kills {
        campaign.read_lines(LINES_BETWEEN);
        if round % 2 == 0 {
            cluster.kill_postmaster();
        } else {
            cluster.kill_backend();
        }
    }
    campaign.read_lines(LINES_BETWEEN);
    check(&address, &campaign.end()).await;
}
