//! What may stand where: module files, SQL, the twin engines, the reading of time. Which module may use which is the
//! business of `layers`.

use std::collections::BTreeSet;

use super::lexer::{line_of, scan, whole_word_positions};
use super::tree::SourceFile;

/// Module files in the old spelling, which fills an editor with tabs of one name.
pub(super) fn mod_rs_files(tree: &[SourceFile]) -> Vec<String> {
    tree.iter()
        .filter(|file| file.name() == "mod.rs")
        .map(|file| format!("{}: write `foo.rs` beside `foo/` instead", file.path))
        .collect()
}

/// Modules that do not begin by saying what they are for.
pub(super) fn modules_without_opening_doc(tree: &[SourceFile]) -> Vec<String> {
    tree.iter()
        .filter(|file| file.is_rust() && file.path_in_crate().is_some())
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| format!("{}:1: must open with a `//!` comment", file.path))
        .collect()
}

/// Words that begin a statement. In capitals and before a space they begin no sentence that a program prints.
const SQL_WORDS: [&str; 10] =
    ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "PRAGMA", "BEGIN", "WITH"];

/// The engines: the only homes of SQL.
const ENGINES: [&str; 2] =
    ["crates/windlass/src/store/engines/sqlite", "crates/windlass/src/store/engines/postgres"];

/// SQL outside the engines, as a string or as a file of its own.
pub(super) fn stray_sql(tree: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in tree.iter().filter(|file| file.is_shipped()) {
        if ENGINES.iter().any(|engine| file.path.starts_with(engine)) {
            continue;
        }
        if file.has_extension(&["sql"]) {
            violations.push(format!("{}: SQL belongs to an engine", file.path));
        } else if file.is_rust() {
            let strings = scan(&file.text).strings;
            let found = strings.iter().filter(|string| is_sql(&string.text));
            violations.extend(
                found.map(|string| format!("{}:{}: SQL belongs to an engine", file.path, string.line)),
            );
        }
    }
    violations
}

fn is_sql(string: &str) -> bool {
    // A literal over several lines often begins with a line break, escaped or not.
    let statement = string.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
    SQL_WORDS.iter().any(|word| {
        statement
            .strip_prefix(word)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_whitespace() || c == '\\'))
    })
}

/// Where requests are answered.
const REQUESTS: [&str; 2] = ["crates/windlass-server/src/http", "crates/windlass-server/src/dashboard"];

/// Tasks that are not of one request, and how often each file starts one.
const SHARED_TASKS: [(&str, usize); 1] = [
    // One listener tells all open pages.
    ("crates/windlass-server/src/dashboard/requests/refresh.rs", 1),
];

/// Tasks of requests whose reads are not counted for the caller: one caller with many would delay all others.
pub(super) fn uncounted_tasks(tree: &[SourceFile]) -> Vec<String> {
    let files = tree.iter().filter(|file| REQUESTS.iter().any(|folder| file.path.starts_with(folder)));
    let mut violations = Vec::new();
    for file in files.filter(|file| file.is_rust()) {
        let allowed = SHARED_TASKS.iter().find(|(path, _)| *path == file.path).map_or(0, |(_, count)| *count);
        let found = file.text.matches("tokio::spawn(").count() + file.text.matches("task::spawn(").count();
        if found != allowed {
            violations.push(format!("{}: start tasks with `ReadSource::spawn`", file.path));
        }
    }
    violations
}

/// What only one of the engines can have, and why. Anything else has the same name in both, so that a reader who knows
/// one finds the way in the other.
const ALONE: &[(&str, &str)] = &[
    ("connection/address.rs", "a server has an address with options; a file has a path"),
    (
        "appends/appender.rs",
        "only where several machines take turns does it pay to store something without a turn",
    ),
    ("appends.rs", "only where several machines take turns does it pay to store something without a turn"),
    (
        "appends/backlog.rs",
        "only where several machines take turns does it pay to store something without a turn",
    ),
    ("appends/gathering.rs", "a file's one writer takes everything that waits"),
    (
        "appends/body.rs",
        "only where several machines take turns does it pay to store something without a turn",
    ),
    ("baseline/endpoint.rs", "only a server can be reached by another way"),
    ("baseline/plain.rs", "only a server has several nodes, and a distance to them"),
    ("connection.rs", "the connection to a server is driven, and can break"),
    ("idle_limit.rs", "a process that is stopped on a file keeps its lock, whatever others do"),
    ("writer/read_ahead.rs", "the lock of a server is waited for by other machines while its holder reads"),
    (
        "transaction/counts.rs",
        "on a server each commit stores its changes of counts; a file updates its counts",
    ),
    (
        "transaction/durability.rs",
        "others see a server's commits before they are on disk; a file's commit is there once it is seen",
    ),
    (
        "node_cache.rs",
        "what several machines may remember needs rules; processes on one file only compare a number",
    ),
    ("notifications.rs", "processes on one file see that it changed; nodes tell each other"),
    ("connection/waits.rs", "only a server can be away"),
    ("parameter.rs", "sets of rows are sent as columns"),
    ("tables/timer.rs", "a file keeps the timers in the index of its jobs"),
    ("connection/tls.rs", "only what goes over a network is to be hidden from it"),
    ("transaction.rs", "several machines take turns by a lock and learn what the others did"),
    ("backup.rs", "a server is backed up with its own tools"),
    ("checkpoint.rs", "a server moves its log by itself"),
    ("open.rs", "only a file has a file system under it"),
    ("connection/cluster.rs", "only a server can be replaced by another one under the same address"),
    ("sql_submit.rs", "only a server runs a function of ours inside the transactions of other programs"),
    ("prefetch.rs", "only a question to a server takes a while, so that it pays to ask before it is needed"),
    ("busy.rs", "a server's locks wait by themselves"),
    ("head_marker.rs", "a server's commits are known to have been there by what it says when asked"),
    (
        "tables/key_counts/tests.rs",
        "only a server keeps the plan of a statement for as long as it is connected",
    ),
    ("transactional_submit/sqlx.rs", "two copies of SQLite in one process must not open the same file"),
    ("migrate/tests.rs", "only a server is shared by builds of different age for any length of time"),
    ("filesystem.rs", "only a file can be on a network file system"),
    ("disk_reserve.rs", "a server's disk is not ours to hold back"),
    ("soundness.rs", "a server checks its own files"),
    ("damage.rs", "a server reports damage of its files to its operator, and keeps its log to itself"),
    ("log_length.rs", "a server keeps its log to itself"),
    ("life_tests.rs", "the life of a server is tested from outside"),
    ("life_tests/cut.rs", "the life of a server is tested from outside"),
    ("life_tests/left.rs", "the life of a server is tested from outside"),
    ("life_tests/time.rs", "the life of a server is tested from outside"),
    ("life_tests/faults.rs", "the life of a server is tested from outside"),
    ("tables/tests.rs", "rows on a server are tested through the conformance suite and by damaging them"),
    (
        "tables/tests/fields.rs",
        "rows on a server are tested through the conformance suite and by damaging them",
    ),
    (
        "tables/tests/search.rs",
        "rows on a server are tested through the conformance suite and by damaging them",
    ),
    (
        "tables/tests/side_tables.rs",
        "rows on a server are tested through the conformance suite and by damaging them",
    ),
    (
        "tables/tests/whole_file.rs",
        "rows on a server are tested through the conformance suite and by damaging them",
    ),
];

/// Modules that one engine has and the other has not, once there are two. Migrations may differ.
pub(super) fn unequal_engine_folders(tree: &[SourceFile]) -> Vec<String> {
    let modules_of = |engine: &str| -> BTreeSet<&str> {
        tree.iter()
            .filter(|file| file.is_rust())
            .filter_map(|file| file.path.strip_prefix(engine)?.strip_prefix('/'))
            .filter(|name| ALONE.iter().all(|(alone, _)| alone != name))
            .collect()
    };
    let [one, other] = ENGINES.map(|engine| (engine, modules_of(engine)));
    if one.1.is_empty() || other.1.is_empty() {
        return Vec::new();
    }
    let missing = |has: &(&str, BTreeSet<&str>), lacks: &(&str, BTreeSet<&str>)| -> Vec<String> {
        has.1
            .difference(&lacks.1)
            .map(|name| format!("{}/{name}: missing, {} has it", lacks.0, has.0))
            .collect()
    };
    [missing(&one, &other), missing(&other, &one)].concat()
}

/// Where the time is read; every other module is handed it.
const CLOCK: &str = "crates/windlass/src/clock.rs";

/// Reads of the time in what ships, outside the clock.
pub(super) fn stray_clock_reads(tree: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in tree.iter().filter(|file| file.is_rust() && file.is_shipped() && file.path != CLOCK) {
        let code = scan(&file.text).code;
        for read in ["SystemTime::now", "Instant::now"] {
            let found = whole_word_positions(&code, read);
            violations.extend(
                found
                    .into_iter()
                    .map(|at| format!("{}:{}: `{read}`; time is an argument", file.path, line_of(&code, at))),
            );
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &str, text: &str) -> [SourceFile; 1] {
        [SourceFile::sample(path, text)]
    }

    #[test]
    fn a_mod_rs_is_found_wherever_it_is() {
        assert_eq!(mod_rs_files(&sample("crates/windlass/tests/it/mod.rs", "")).len(), 1);
        assert_eq!(mod_rs_files(&sample("crates/windlass/src/remod.rs", "")).len(), 0);
    }

    #[test]
    fn a_module_must_open_with_its_doc() {
        let count = |path, text| modules_without_opening_doc(&sample(path, text)).len();
        assert_eq!(count("crates/windlass-core/src/job.rs", "//! Jobs.\n"), 0);
        assert_eq!(count("crates/windlass-core/src/job.rs", "use std::fmt;\n//! Jobs.\n"), 1);
        assert_eq!(count("crates/windlass-core/src/job.rs", ""), 1);
        assert_eq!(count("crates/windlass/tests/it/main.rs", "mod tidy;\n"), 0);
    }

    #[test]
    fn sql_outside_an_engine_is_found() {
        let count = |path, text| stray_sql(&sample(path, text)).len();
        let queue = "crates/windlass/src/queue.rs";
        assert_eq!(count(queue, r#"let sql = "SELECT id FROM job";"#), 1);
        assert_eq!(count(queue, "let sql = r\"\n    UPDATE\n job\";"), 1);
        assert_eq!(count(queue, "let sql = \"\\\n    INSERT INTO job\";"), 1);
        assert_eq!(count(queue, r#"bail!("Select a queue"); "DELETED"; "selects"; // "SELECT 1""#), 0);
        assert_eq!(count("crates/windlass-server/src/report.sql", ""), 1);
        assert_eq!(count("crates/windlass/src/store/engines/sqlite.rs", r#""PRAGMA user_version""#), 0);
        assert_eq!(count("crates/windlass/src/store/engines/postgres/claim.rs", r#""SELECT 1""#), 0);
        assert_eq!(count("crates/windlass/tests/it/crash.rs", r#""SELECT 1""#), 0);
    }

    #[test]
    fn the_engines_are_compared_once_both_exist() {
        let of = |paths: &[&str]| {
            let tree: Vec<_> = paths.iter().map(|path| SourceFile::sample(path, "")).collect();
            unequal_engine_folders(&tree)
        };
        let (sqlite, postgres) = (
            "crates/windlass/src/store/engines/sqlite/a.rs",
            "crates/windlass/src/store/engines/postgres/a.rs",
        );
        let alone = "crates/windlass/src/store/engines/sqlite/b.rs";
        let migration = "crates/windlass/src/store/engines/sqlite/migrations/1.sql";
        assert!(of(&[sqlite, alone]).is_empty());
        assert!(of(&[sqlite, postgres, migration]).is_empty());
        assert_eq!(
            of(&[sqlite, alone, postgres]),
            [
                "crates/windlass/src/store/engines/postgres/b.rs: missing, crates/windlass/src/store/engines/sqlite has it"
            ]
        );
    }

    #[test]
    fn a_read_of_the_time_is_found_outside_the_clock() {
        let count = |path: &str, text: &str| stray_clock_reads(&sample(path, text)).len();
        let reads = "let a = SystemTime::now(); let b = std::time::Instant::now();";
        assert_eq!(count("crates/windlass-server/src/http.rs", reads), 2);
        assert_eq!(count("crates/windlass-core/src/job.rs", "// never SystemTime::now()"), 0);
        for exempt in ["src/clock.rs", "tests/it/crash.rs", "benches/claim.rs", "examples/embed.rs"] {
            assert_eq!(count(&format!("crates/windlass/{exempt}"), reads), 0, "{exempt}");
        }
    }
}
