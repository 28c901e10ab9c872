//! Slow, obvious models of the engine, used as oracles by tests.
