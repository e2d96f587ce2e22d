//! How PostgreSQL finds the rows of keys.

use super::*;
use crate::store::engines::postgres::connection::address::Address;
use crate::store::engines::postgres::connection::{Connection, get};
use crate::store::engines::postgres::migrate::{migrate, tests::cluster};

/// The lines of the plan that PostgreSQL keeps for a statement.
fn kept_plan(link: &mut Connection, types: &str, sql: &str, values: &str) -> Vec<String> {
    link.run(&format!("PREPARE kept ({types}) AS {sql}")).unwrap();
    let rows = link.fetch(&format!("EXPLAIN EXECUTE kept ({values})"), Vec::new()).unwrap();
    link.run("DEALLOCATE kept").unwrap();
    rows.iter().map(|row| get::<&str>(row, 0).unwrap().to_owned()).collect()
}

/// A plan is made once and kept; one that was made while there was hardly a key must be good for a hundred thousand.
#[test]
fn a_plan_from_an_almost_empty_table_finds_each_key_by_the_whole_index_key() {
    let address = Address::parse(&cluster::new_schema()).unwrap();
    let mut link = Connection::connect(&address).unwrap();
    migrate(&mut link, &address).unwrap();
    link.run("INSERT INTO @.concurrency_keys VALUES ('default', 1, 1); ANALYZE @.concurrency_keys").unwrap();
    link.run(
        "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
         SET enable_mergejoin = off; SET enable_bitmapscan = off; SET enable_memoize = off",
    )
    .unwrap();
    let plans = [
        kept_plan(&mut link, "text[], bigint[], bigint[]", MOVE, "'{default}', '{1}', '{1}'"),
        kept_plan(&mut link, "text, bigint[]", JOBS, "'default', '{1}'"),
    ];
    for plan in plans {
        let text = plan.join("\n");
        let conditions: Vec<&String> = plan.iter().filter(|line| line.contains("Index Cond:")).collect();
        assert!(!conditions.is_empty(), "{text}");
        for condition in conditions {
            assert!(condition.contains("tenant = ") && condition.contains("key = "), "{text}");
        }
        assert!(!text.contains("Seq Scan") && !text.contains("Join Filter"), "{text}");
    }
}
