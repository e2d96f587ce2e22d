//! Display names of workers.

use windlass::job::WorkerId;
use windlass::store::documents::config::Config;

/// The name of a worker; the end of its id if it has no name or is no longer known; any other text unchanged.
pub(in crate::dashboard) fn worker_name(config: &Config, id: &str) -> String {
    let Ok(worker) = id.parse::<WorkerId>() else { return id.to_owned() };
    match config.workers.get(&worker).map(|worker| worker.name.as_str()) {
        Some(name) if !name.is_empty() => name.to_owned(),
        // The beginning is the registration time; the end distinguishes workers.
        _ => id.get(24..).unwrap_or(id).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_forgotten_is_told_by_the_end_of_its_id() {
        let config = Config::default();
        assert_eq!(worker_name(&config, "019a8f3c-1234-7abc-8def-0123456789ab"), "0123456789ab");
        assert_eq!(worker_name(&config, "ada"), "ada");
    }
}
