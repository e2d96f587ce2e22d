//! Traces: which texts name one.

use super::*;

#[test]
fn a_malformed_traceparent_counts_as_none() {
    let fine = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let parsed = Traceparent::parse(fine).unwrap();
    assert_eq!(parsed.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(parsed.trace_id().to_string(), parsed.id());
    assert_eq!((parsed.span_id(), parsed.is_sampled(), parsed.as_str()), ("00f067aa0ba902b7", true, fine));
    for bad in [
        "",
        "00",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
    ] {
        assert_eq!(Traceparent::parse(bad), None, "{bad}");
    }
}

#[test]
fn a_traceparent_that_was_made_is_well_formed() {
    for (trace, span) in [(0, 0), (u128::MAX, u64::MAX), (7, 9)] {
        let made = Traceparent::new(trace, span);
        assert_eq!(Traceparent::parse(made.as_str()), Some(made.clone()));
        let id = made.trace_id();
        assert_eq!(TraceId::from_bytes(id.to_bytes()), id);
    }
}
