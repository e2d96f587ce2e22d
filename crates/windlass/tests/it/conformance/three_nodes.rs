//! The conformance suite on three nodes that share one PostgreSQL, each of which is asked in turns: what one was given, the next one is
//! asked about. Of the suite, what nodes could see differently: order, limits, fences, leases, keys, pauses and feeds. The other
//! tests hold as well, but for what each node counts or shows by itself: the current minute of statistics, and with it
//! alerts; when a key was last used; live events that are not kept; whose turn it is where too many jobs age.

/// Each module of the suite.
macro_rules! on_three_nodes {
    ($($tests:ident),* $(,)?) => {
        $(mod $tests {
            windlass_conformance::on_engines! { $tests; three_nodes: crate::fixture::ThreeNodes }
        })*
    };
}

on_three_nodes! {
    claims_claim,
    claims_concurrency,
    claims_fence,
    claims_fleet,
    claims_lease,
    events,
    jobs_children_ending,
    jobs_debounce,
    jobs_finish_together,
    jobs_keys,
    pauses,
    resume,
    smoke,
}
