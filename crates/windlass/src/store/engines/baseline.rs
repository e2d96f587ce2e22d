//! Baseline benchmark: what the bare database does with the same rows, for comparison with the store. Each engine
//! measures its own.

/// Rates of a bare database, in jobs per second.
#[derive(Debug, Clone, Copy)]
pub struct Baseline {
    /// Jobs inserted in batches of a thousand.
    pub insert: f64,
    /// Jobs claimed by the hundred and finished.
    pub claim_and_finish: f64,
}
