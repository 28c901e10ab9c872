//! Interleavings of a writer and a reader of a few updates, with up to three preemptions, by loom.

/// The atomics of the model instead of the processor's.
mod atomic {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

#[expect(unreachable_pub, reason = "public in the library")]
#[path = "../src/counters.rs"]
mod counters;

use counters::Counters;
use loom::sync::Arc;
use loom::thread;

/// A writer that keeps two counters equal, and readers that must not see them otherwise.
#[test]
fn a_reader_sees_updates_whole_and_in_order() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let shared = Arc::new(Counters::<2>::default());
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut last = 0;
                for _ in 0..2 {
                    if let Some([one, other]) = shared.try_read() {
                        assert_eq!(one, other, "half of an update");
                        assert!(one >= last, "an older one than before");
                        last = one;
                    }
                }
            })
        };
        shared.update(|values| values.iter_mut().for_each(|value| *value += 1));
        shared.add_each([(0, 1), (1, 1)]);
        assert_eq!(shared.read(), [2, 2], "what the writer has written it reads");
        reader.join().expect("its assertions hold");
        shared.add(1, 5);
        assert_eq!(shared.load(), [2, 7]);
    });
}
