//! The guides for programs that embed the library, as in the repository's `docs/`. They are part of the documentation
//! only; what they say about servers, other languages and operation is linked.

/// Defines a module that has no content but a guide.
macro_rules! guides {
    ($($name:ident: $file:literal)*) => {$(
        #[doc = include_str!(concat!(env!("OUT_DIR"), "/", $file))]
        pub mod $name {}
    )*};
}

guides! {
    tutorial: "tutorials_embedded.md"
    embedding: "embedding.md"
    durable_steps: "durable-steps.md"
    schedules: "schedules.md"
    limits: "limits.md"
    idempotency: "idempotency.md"
    testing: "testing.md"
    cookbook: "cookbook.md"
    troubleshooting: "troubleshooting.md"
    concepts: "concepts.md"
    model: "model.md"
    guarantees: "guarantees.md"
    glossary: "glossary.md"
}
