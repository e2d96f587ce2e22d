//! The guide for programs that embed the library, compiled and run like any example. It holds nothing else.

#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;
