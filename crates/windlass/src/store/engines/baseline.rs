//! What a bare database does with the same rows, beside which the store is measured. Each engine measures its own.

/// Rates of a bare database, in jobs a second.
#[derive(Debug, Clone, Copy)]
pub struct Baseline {
    /// Jobs written in batches of a thousand.
    pub insert: f64,
    /// Jobs claimed by the hundred, and finished.
    pub claim_and_finish: f64,
}
