//! The reports for people.

use weir_lab::report::{compare, table};

use crate::sample::{many, nothing, one_request, tenants};

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn a_run_on_a_wide_terminal() {
    insta::assert_snapshot!(table(&tenants(1, 1), 140));
}

#[test]
fn a_run_on_a_narrow_terminal() {
    insta::assert_snapshot!(table(&tenants(1, 1), 80));
}

#[test]
fn nothing_and_one_request() {
    insta::assert_snapshot!(format!("{}\n{}", table(&nothing(), 80), table(&one_request(), 100)));
}

#[test]
fn two_runs() {
    insta::assert_snapshot!(compare(("none", &tenants(1, 1)), ("slow", &tenants(2, 2))).table(80));
}

#[test]
fn no_line_is_wider_than_asked() {
    for results in [tenants(1, 1), many(), nothing(), one_request()] {
        for width in [64, 80, 100, 120, 140, 200] {
            let text = table(&results, width);
            assert!(widest(&text) <= width, "{width}: {}\n{text}", widest(&text));
        }
        let text = compare(("one", &results), ("a name that is far too long", &results)).table(80);
        assert!(widest(&text) <= 80, "{text}");
    }
}

#[test]
fn names_from_files_cannot_write_to_the_terminal() {
    let mut results = tenants(1, 1);
    let evil = "\x1b[2J\r\u{7}evil";
    for text in [&mut results.title, &mut results.disk, &mut results.scheduler] {
        *text = evil.into();
    }
    results.notes.push(evil.into());
    results.rows[0].name = evil.into();
    results.rows[0].cgroup = evil.into();
    results.rows[0].error = Some(evil.into());
    results.cgroups[1].path = evil.into();
    results.cgroups[1].limit_waits[0].path = evil.into();
    for text in [table(&results, 80), table(&results, 200)] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.matches("evil").count() >= 8, "{text}");
    }
    let text = compare((evil, &results), (evil, &results)).table(80);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn a_long_list_says_what_it_leaves_out() {
    let mut results = many();
    for _ in 0..2 {
        results.rows.extend(results.rows.clone());
    }
    let text = table(&results, 140);
    assert!(text.contains("\nand 156 more; the JSON has all\n"), "{text}");
    assert_eq!(text.matches("tenant #").count(), 100);
}
