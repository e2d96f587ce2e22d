//! The guides for programs that embed the library, the first example of the README and the derive macro's, compiled as doc tests.

#[doc = include_str!("../../../docs/tutorials/embedded.md")]
struct TutorialEmbedded;

#[doc = include_str!("../../../docs/cookbook.md")]
struct Cookbook;

#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;

#[doc = include_str!("../../../docs/durable-steps.md")]
struct DurableSteps;

#[doc = include_str!("../../../docs/idempotency.md")]
struct Idempotency;

#[doc = include_str!("../../../docs/schedules.md")]
struct Schedules;

#[doc = include_str!("../../../docs/testing.md")]
struct Testing;

#[doc = include_str!("../../../docs/troubleshooting.md")]
struct Troubleshooting;

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../windlass-macros/src/job.md")]
struct DeriveJob;
