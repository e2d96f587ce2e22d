//! Fuzzing of decoders on stable Rust: entries of a corpus, mutations of them, and a property that every input must have.
//! A decoder's test is beside the decoder; what it has in common with others is here.
//!
//! The corpus of a family is the folder `tests/corpus/FAMILY` and the seeds that its test names. Each entry is tried as it
//! is, then a fixed number of mutations, or as many as there is time for. `scripts/fuzz` sets the variables:
//!
//! - `WINDLASS_FUZZ_SECONDS`: how long each family is tried, instead of a fixed number of cases;
//! - `WINDLASS_FUZZ_SEED`: where the mutations begin, 1 by default;
//! - `WINDLASS_FUZZ_KEEP`: a folder like `tests/corpus`, where failing inputs are written.

mod corpus;
mod cost;
mod mutation;

use std::cell::Cell;
use std::time::Duration;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use corpus::Corpus;

/// Mutations of one family in an ordinary run.
const CASES: u32 = 2_000;
/// Processor time of one input. No decoder needs a hundredth of it; a busy machine does not count.
const CASE_TIME_MAX: Duration = Duration::from_secs(2);
/// Memory of the test process at its largest. Inputs are small: a decoder that needs this much has no bound.
const PROCESS_BYTES_MAX: u64 = 1 << 30;

/// The inputs of one decoder.
pub struct Family {
    name: &'static str,
    corpus: Corpus,
    words: Vec<Vec<u8>>,
    cases: u32,
    case_time_max: Duration,
}

impl Family {
    /// The inputs in the corpus folder of this name.
    pub fn new(name: &'static str) -> Family {
        Family {
            name,
            corpus: Corpus::read(name),
            words: Vec::new(),
            cases: CASES,
            case_time_max: CASE_TIME_MAX,
        }
    }

    /// Adds entries of the corpus.
    #[must_use]
    pub fn seeds<T: AsRef<[u8]>>(mut self, seeds: impl IntoIterator<Item = T>) -> Family {
        self.corpus.extend(seeds.into_iter().map(|seed| seed.as_ref().to_vec()));
        self
    }

    /// Adds pieces that mean something to the decoder; mutations insert them.
    #[must_use]
    pub fn words<T: AsRef<[u8]>>(mut self, words: impl IntoIterator<Item = T>) -> Family {
        self.words.extend(words.into_iter().map(|word| word.as_ref().to_vec()));
        self
    }

    /// Sets the number of mutations in an ordinary run, for decoders that take long.
    #[must_use]
    pub fn cases(mut self, cases: u32) -> Family {
        self.cases = cases;
        self
    }

    /// Sets the processor time of one input, for a decoder whose own limit takes longer without optimisation.
    #[must_use]
    pub fn case_time_max(mut self, time: Duration) -> Family {
        self.case_time_max = time;
        self
    }

    /// Tries bytes. The property panics or returns what is wrong.
    ///
    /// # Panics
    /// If an input does not have the property, takes too long, or needs too much memory.
    pub fn bytes(&self, property: impl Fn(&[u8]) -> Result<(), String>) {
        let (longest, tried) = (Cell::new(Duration::ZERO), Cell::new(0_u64));
        let check = |input: &[u8]| {
            self.corpus.note(input);
            let (outcome, took) = cost::measured(|| property(input));
            longest.set(longest.get().max(took));
            tried.set(tried.get() + 1);
            if took > self.case_time_max {
                return Err(format!("took {took:?} of processor time"));
            }
            outcome
        };
        for entry in self.corpus.entries() {
            if let Err(problem) = check(entry) {
                panic!("{}: an entry of the corpus, {:?}: {problem}", self.name, shown(entry));
            }
        }
        let inputs = mutation::inputs(self.corpus.entries().to_vec(), self.words.clone());
        self.mutations(&inputs, |input| check(&input).map_err(TestCaseError::fail), Clone::clone);
        self.corpus.forget();
        let bytes = cost::process_bytes_max();
        assert!(
            bytes <= PROCESS_BYTES_MAX,
            "{}: the process needed {bytes} bytes of memory at its largest",
            self.name
        );
        println!("fuzz {}: {} inputs, the longest took {:?}", self.name, tried.get(), longest.get());
    }

    /// Tries text: bytes that are not UTF-8 are replaced.
    ///
    /// # Panics
    /// As [`bytes`](Family::bytes).
    pub fn text(&self, property: impl Fn(&str) -> Result<(), String>) {
        self.bytes(|bytes| property(&String::from_utf8_lossy(bytes)));
    }

    /// Tries values of a strategy instead of the corpus.
    ///
    /// # Panics
    /// If a value does not have the property.
    pub fn values<S: Strategy>(&self, values: &S, property: impl Fn(S::Value) -> Result<(), String>)
    where
        S::Value: Clone,
    {
        let shown = |value: &S::Value| format!("{value:?}").into_bytes();
        self.mutations(values, |value| property(value).map_err(TestCaseError::fail), shown);
    }

    fn mutations<S: Strategy>(
        &self,
        inputs: &S,
        check: impl Fn(S::Value) -> Result<(), TestCaseError>,
        kept: impl Fn(&S::Value) -> Vec<u8>,
    ) {
        let first: u64 = number("WINDLASS_FUZZ_SEED").unwrap_or(1);
        let seconds = number("WINDLASS_FUZZ_SECONDS").map(Duration::from_secs);
        let start = cost::elapsed();
        for seed in first.. {
            let config = Config {
                cases: self.cases,
                failure_persistence: None,
                max_shrink_iters: 2_000,
                ..Config::default()
            };
            let mut runner = TestRunner::new_with_rng(config, rng(self.name, seed));
            match runner.run(inputs, &check) {
                Ok(()) => {}
                Err(TestError::Fail(reason, input)) => {
                    let input = kept(&input);
                    let place = self.corpus.keep(&input);
                    panic!(
                        "{} with seed {seed}: {reason}; the input is {:?}{place}",
                        self.name,
                        shown(&input)
                    );
                }
                Err(TestError::Abort(reason)) => panic!("{} with seed {seed}: {reason}", self.name),
            }
            if seconds.is_none_or(|seconds| cost::elapsed().saturating_sub(start) >= seconds) {
                return;
            }
        }
    }
}

/// A source of randomness for this family and seed.
fn rng(name: &str, seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    for (place, byte) in name.bytes().enumerate() {
        bytes[8 + place % 24] ^= byte.rotate_left(u32::try_from(place / 24).unwrap_or(0));
    }
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// The beginning of an input, as text.
fn shown(input: &[u8]) -> String {
    String::from_utf8_lossy(&input[..input.len().min(2_000)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_behind_a_word_is_found_and_made_small() {
        let found = std::panic::catch_unwind(|| {
            Family::new("nothing")
                .seeds(["a,b,c"])
                .words(["magic"])
                .text(|text| if text.contains("magic,") { Err("it is magic".to_owned()) } else { Ok(()) });
        });
        let message = *found.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("it is magic") && message.contains("magic,"), "{message}");
    }

    #[test]
    fn every_mutation_of_a_seed_is_the_same_in_every_run() {
        let inputs = || {
            let seen = std::cell::RefCell::new(Vec::new());
            Family::new("nothing").seeds(["abc"]).cases(50).bytes(|input| {
                seen.borrow_mut().push(input.to_vec());
                Ok(())
            });
            seen.into_inner()
        };
        let first = inputs();
        assert_eq!(first, inputs());
        let different: std::collections::BTreeSet<_> = first.into_iter().collect();
        assert!(different.len() > 20, "{}", different.len());
    }
}
