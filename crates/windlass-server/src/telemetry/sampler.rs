//! Which traces are sent, by OpenTelemetry's `OTEL_TRACES_SAMPLER`.

use anyhow::Context;

/// Decides whether a trace is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampler {
    /// Follow the decision of the caller if there is one.
    is_parent_based: bool,
    /// The share of the other traces, from 0 to 1.
    share: f64,
}

/// Follows the caller; sends all traces that begin here.
impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { is_parent_based: true, share: 1.0 }
    }
}

impl Sampler {
    /// Reads the names of the specification and their argument.
    pub(super) fn read(name: Option<&str>, argument: Option<&str>) -> anyhow::Result<Sampler> {
        let Some(name) = name else { return Ok(Sampler::default()) };
        let (is_parent_based, rule) = match name.strip_prefix("parentbased_") {
            Some(rule) => (true, rule),
            None => (false, name),
        };
        let share = match rule {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => argument.map_or(Ok(1.0), parse_ratio)?,
            _ => anyhow::bail!(
                "OTEL_TRACES_SAMPLER is {name}; known are always_on, always_off and traceidratio, also with \
                 parentbased_ before them"
            ),
        };
        Ok(Sampler { is_parent_based, share })
    }

    /// Whether a trace is sent; `caller` is the decision of the caller, if there is one.
    pub(super) fn samples(self, trace: u128, caller: Option<bool>) -> bool {
        if let (true, Some(is_sampled)) = (self.is_parent_based, caller) {
            return is_sampled;
        }
        // By the id, so that every process decides the same: its lower 63 bits, as a share of all of them.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "53 bits are enough")]
        let place = (trace as u64 >> 1) as f64 / (1_u64 << 63) as f64;
        place < self.share
    }
}

fn parse_ratio(text: &str) -> anyhow::Result<f64> {
    let wrong = || format!("OTEL_TRACES_SAMPLER_ARG is {text}, not a number from 0 to 1");
    let share: f64 = text.trim().parse().with_context(wrong)?;
    anyhow::ensure!((0.0..=1.0).contains(&share), wrong());
    Ok(share)
}

#[cfg(test)]
mod tests {
    use windlass::entropy::Entropy;

    use super::Sampler;

    fn sampler(name: &str, argument: Option<&str>) -> Sampler {
        Sampler::read(Some(name), argument).unwrap()
    }

    #[test]
    fn a_caller_is_followed_if_the_sampler_says_so() {
        for (sampler, alone, sampled, unsampled) in [
            (Sampler::read(None, None).unwrap(), true, true, false),
            (sampler("parentbased_always_on", None), true, true, false),
            (sampler("parentbased_always_off", None), false, true, false),
            (sampler("parentbased_traceidratio", Some("0")), false, true, false),
            (sampler("always_on", None), true, true, true),
            (sampler("always_off", None), false, false, false),
        ] {
            let found = [None, Some(true), Some(false)].map(|caller| sampler.samples(7, caller));
            assert_eq!(found, [alone, sampled, unsampled], "{sampler:?}");
        }
    }

    #[test]
    fn a_ratio_is_the_share_of_traces() {
        let (entropy, quarter) = (Entropy::seeded(1), sampler("traceidratio", Some("0.25")));
        let count = (0..10_000).filter(|_| quarter.samples(entropy.bits(), None)).count();
        assert!((2_300..2_700).contains(&count), "{count}");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (name, argument) in
            [("sometimes", None), ("traceidratio", Some("2")), ("parentbased_traceidratio", Some("x"))]
        {
            let error = Sampler::read(Some(name), argument).unwrap_err().to_string();
            assert!(error.starts_with("OTEL_TRACES_SAMPLER"), "{error}");
        }
    }
}
