//! A process that has no descriptor left. A file of its own, as the limit is the process's.

mod support;

use std::fs::{self, File};
use std::iter;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Fs, TOP};

#[test]
fn a_listing_without_descriptors_loses_no_entry() {
    for by_name in [false, true] {
        let mut fs = Fs::new(by_name);
        for index in 0..300 {
            fs::write(fs.path(&format!("file-{index}")), "").unwrap();
        }
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
        let mut others: Vec<_> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
        // One for the directory itself.
        others.pop();
        let entries = fs.list(TOP, 4096, true);
        setrlimit(Resource::Nofile, limit).unwrap();
        assert_eq!(entries.len(), 302);
        assert!(
            entries.iter().all(|(_, node)| *node == 0),
            "there was no descriptor for attributes"
        );
        assert_eq!(fs.list(TOP, 4096, true).len(), 302);
    }
}
