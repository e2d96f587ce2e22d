//! The whole conformance suite on the toy engine.

use std::convert::Infallible;

use windlass::Store;
use windlass::store::Environment;
use windlass_toy_engine::ToyEngine;

fn open(env: Environment) -> Store {
    let Ok(store) = Store::with_engine(env, |env| Ok::<_, Infallible>(ToyEngine::new(env)));
    store
}

windlass_conformance::suite!(toy: crate::open);
