//! How tests are listed and run. A test is a private async function of a module; `tests!` lists the functions of a module
//! once, for running them here and for a `#[test]` of each name in the crate that is tested.

use std::any::Any;
use std::pin::Pin;

use windlass::Store;
use windlass::store::Environment;

use crate::fixture::Fixture;

/// What opens stores on the engine that is tested; a function from an [`Environment`] to a [`Store`] is one.
pub trait EngineUnderTest: Send + Sync + 'static {
    /// Opens a new, empty store.
    fn open(&self, env: Environment) -> TestStore;

    /// How many nodes each store has, with a clock in common. The others are opened at its address, and calls are spread over
    /// all of them.
    fn nodes(&self) -> u64 {
        1
    }
}

impl<F: Fn(Environment) -> Store + Send + Sync + 'static> EngineUnderTest for F {
    fn open(&self, env: Environment) -> TestStore {
        TestStore { store: self(env), address: String::new(), has_bounded_searches: false, keep: None }
    }
}

/// A store that was opened for a test.
pub struct TestStore {
    /// The store.
    pub store: Store,
    /// Where it can be opened once more; empty if only the engine knows.
    pub address: String,
    /// Whether searches without an index end at their reach, or read everything.
    pub has_bounded_searches: bool,
    /// Kept until the test has ended, such as a temporary folder.
    pub keep: Option<Box<dyn Any + Send + Sync>>,
}

/// A test of the suite.
pub struct Test {
    /// Its name within its module.
    pub name: &'static str,
    #[doc(hidden)]
    pub run: for<'a> fn(&'a Fixture) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// Runs a test of a module on an engine, checks all invariants, and closes the store.
///
/// # Panics
/// If the test fails.
pub fn run(engine: impl EngineUnderTest, tests: &[Test], name: &str) {
    let test = tests.iter().find(|test| test.name == name).expect("the module has a test of this name");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new(engine);
        (test.run)(&fixture).await;
        fixture.verify().await;
        fixture.store.close();
    });
}

/// Lists the tests of a module: `tests!(NAME, MODULE: test, test)`. NAME is the module's path with `_`, and is exported
/// as a macro that makes a `#[test]` of each; `engine` is what the tests run on where it is expanded.
macro_rules! tests {
    ($exported:ident, $($module:ident)::+: $($test:ident),* $(,)?) => {
        /// The tests of this module.
        pub const TESTS: &[$crate::Test] =
            &[$($crate::Test { name: stringify!($test), run: |t| Box::pin($test(t)) }),*];

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $exported {
            () => {
                use $crate::$($module)::+::TESTS;

                $(#[test]
                fn $test() {
                    $crate::run(engine, TESTS, stringify!($test));
                })*
            };
        }
    };
}

/// Makes a `#[test]` of every test of the suite, for each of these engines: `suite!(name: path)`. The name is the module
/// of the tests of that engine; the path, which starts with `crate::`, is that of an [`EngineUnderTest`], such as a
/// function that opens a store.
#[macro_export]
macro_rules! suite {
    ($($engine:ident: $open:path),+ $(,)?) => {
        mod access {
            $crate::on_engines! { access; $($engine: $open),+ }
        }
        mod alerts {
            $crate::on_engines! { alerts; $($engine: $open),+ }
        }
        mod audit {
            $crate::on_engines! { audit; $($engine: $open),+ }
            mod live {
                $crate::on_engines! { audit_live; $($engine: $open),+ }
            }
            mod trace {
                $crate::on_engines! { audit_trace; $($engine: $open),+ }
            }
        }
        mod audit_trail {
            $crate::on_engines! { audit_trail; $($engine: $open),+ }
        }
        mod claims {
            mod backlog {
                $crate::on_engines! { claims_backlog; $($engine: $open),+ }
            }
            mod budget {
                $crate::on_engines! { claims_budget; $($engine: $open),+ }
            }
            mod claim {
                $crate::on_engines! { claims_claim; $($engine: $open),+ }
            }
            mod concurrency {
                $crate::on_engines! { claims_concurrency; $($engine: $open),+ }
            }
            mod due {
                $crate::on_engines! { claims_due; $($engine: $open),+ }
            }
            mod fairness {
                $crate::on_engines! { claims_fairness; $($engine: $open),+ }
            }
            mod fence {
                $crate::on_engines! { claims_fence; $($engine: $open),+ }
            }
            mod fleet {
                $crate::on_engines! { claims_fleet; $($engine: $open),+ }
            }
            mod lease {
                $crate::on_engines! { claims_lease; $($engine: $open),+ }
            }
            mod rate {
                $crate::on_engines! { claims_rate; $($engine: $open),+ }
            }
            mod registry {
                $crate::on_engines! { claims_registry; $($engine: $open),+ }
            }
            mod starvation {
                $crate::on_engines! { claims_starvation; $($engine: $open),+ }
            }
            mod version {
                $crate::on_engines! { claims_version; $($engine: $open),+ }
            }
            mod worker_key {
                $crate::on_engines! { claims_worker_key; $($engine: $open),+ }
            }
        }
        mod events {
            $crate::on_engines! { events; $($engine: $open),+ }
        }
        mod jobs {
            mod callback {
                $crate::on_engines! { jobs_callback; $($engine: $open),+ }
            }
            mod cascade {
                $crate::on_engines! { jobs_cascade; $($engine: $open),+ }
                mod pause {
                    $crate::on_engines! { jobs_cascade_pause; $($engine: $open),+ }
                }
            }
            mod children {
                $crate::on_engines! { jobs_children; $($engine: $open),+ }
                mod beside {
                    $crate::on_engines! { jobs_children_beside; $($engine: $open),+ }
                }
                mod deletion {
                    $crate::on_engines! { jobs_children_deletion; $($engine: $open),+ }
                }
                mod ending {
                    $crate::on_engines! { jobs_children_ending; $($engine: $open),+ }
                }
                mod refusal {
                    $crate::on_engines! { jobs_children_refusal; $($engine: $open),+ }
                }
            }
            mod debounce {
                $crate::on_engines! { jobs_debounce; $($engine: $open),+ }
            }
            mod finish {
                $crate::on_engines! { jobs_finish; $($engine: $open),+ }
                mod cause {
                    $crate::on_engines! { jobs_finish_cause; $($engine: $open),+ }
                }
                mod lifetime {
                    $crate::on_engines! { jobs_finish_lifetime; $($engine: $open),+ }
                }
                mod retry {
                    $crate::on_engines! { jobs_finish_retry; $($engine: $open),+ }
                }
                mod start {
                    $crate::on_engines! { jobs_finish_start; $($engine: $open),+ }
                }
                mod together {
                    $crate::on_engines! { jobs_finish_together; $($engine: $open),+ }
                }
            }
            mod graph {
                $crate::on_engines! { jobs_graph; $($engine: $open),+ }
            }
            mod key_limit {
                $crate::on_engines! { jobs_key_limit; $($engine: $open),+ }
            }
            mod keys {
                $crate::on_engines! { jobs_keys; $($engine: $open),+ }
                mod removed {
                    $crate::on_engines! { jobs_keys_removed; $($engine: $open),+ }
                }
            }
            mod metadata {
                $crate::on_engines! { jobs_metadata; $($engine: $open),+ }
            }
            mod names {
                $crate::on_engines! { jobs_names; $($engine: $open),+ }
            }
            mod payload {
                $crate::on_engines! { jobs_payload; $($engine: $open),+ }
            }
            mod precondition {
                $crate::on_engines! { jobs_precondition; $($engine: $open),+ }
            }
            mod schemas {
                $crate::on_engines! { jobs_schemas; $($engine: $open),+ }
            }
            mod steps {
                $crate::on_engines! { jobs_steps; $($engine: $open),+ }
                mod signal {
                    $crate::on_engines! { jobs_steps_signal; $($engine: $open),+ }
                }
                mod stream {
                    $crate::on_engines! { jobs_steps_stream; $($engine: $open),+ }
                }
                mod timer {
                    $crate::on_engines! { jobs_steps_timer; $($engine: $open),+ }
                }
            }
            mod submit {
                $crate::on_engines! { jobs_submit; $($engine: $open),+ }
            }
            mod ticket {
                $crate::on_engines! { jobs_ticket; $($engine: $open),+ }
            }
        }
        mod actions {
            $crate::on_engines! { actions; $($engine: $open),+ }
            mod bulk {
                $crate::on_engines! { actions_bulk; $($engine: $open),+ }
            }
            mod pending {
                $crate::on_engines! { actions_pending; $($engine: $open),+ }
            }
            mod redrive {
                $crate::on_engines! { actions_redrive; $($engine: $open),+ }
            }
            mod suspend {
                $crate::on_engines! { actions_suspend; $($engine: $open),+ }
            }
        }
        mod pauses {
            $crate::on_engines! { pauses; $($engine: $open),+ }
        }
        mod reads {
            $crate::on_engines! { reads; $($engine: $open),+ }
            mod explain {
                $crate::on_engines! { reads_explain; $($engine: $open),+ }
            }
            mod errors {
                $crate::on_engines! { reads_errors; $($engine: $open),+ }
            }
            mod history {
                $crate::on_engines! { reads_history; $($engine: $open),+ }
            }
            mod types {
                $crate::on_engines! { reads_types; $($engine: $open),+ }
            }
            mod list {
                $crate::on_engines! { reads_list; $($engine: $open),+ }
            }
            mod retention {
                $crate::on_engines! { reads_retention; $($engine: $open),+ }
            }
            mod roles {
                $crate::on_engines! { reads_roles; $($engine: $open),+ }
            }
            mod tenants {
                $crate::on_engines! { reads_tenants; $($engine: $open),+ }
            }
        }
        mod reports {
            $crate::on_engines! { reports; $($engine: $open),+ }
        }
        mod resume {
            $crate::on_engines! { resume; $($engine: $open),+ }
        }
        mod schedule {
            $crate::on_engines! { schedule; $($engine: $open),+ }
            mod actions {
                $crate::on_engines! { schedule_actions; $($engine: $open),+ }
            }
        }
        mod settings {
            $crate::on_engines! { settings; $($engine: $open),+ }
        }
        mod smoke {
            $crate::on_engines! { smoke; $($engine: $open),+ }
        }
    };
}

/// The tests of one module on each engine.
#[doc(hidden)]
#[macro_export]
macro_rules! on_engines {
    ($tests:ident; $($engine:ident: $open:path),+) => {
        $(mod $engine {
            use $open as engine;
            $crate::$tests! {}
        })+
    };
}
