//! Pictures of a sample server, and what keys make of them.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use weir_server::control::SetRequest;

use super::draw::{self, draw};
use super::sample::{reading, status};
use super::state::{Effect, Event, Mode, Options, State};
use crate::status::SortKey;

fn state(columns: u16, rows: u16) -> State {
    let mut state = State::new(Options::default(), (columns, rows));
    for seconds in 2..5 {
        state.handle(Event::Read(Box::new(reading(seconds))));
    }
    state
}

/// The terminal as text.
fn picture(state: &State) -> String {
    let (columns, rows) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |row: u16| {
        let cells = (0..columns).map(|column| buffer[(column, row)].symbol());
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    (0..rows).map(row).collect()
}

fn press(state: &mut State, code: KeyCode) -> Option<Effect> {
    state.handle(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

/// Presses each letter.
fn type_in(state: &mut State, text: &str) {
    for letter in text.chars() {
        assert_eq!(press(state, KeyCode::Char(letter)), None, "{letter}");
    }
}

fn control(state: &mut State, letter: char) -> Option<Effect> {
    state.handle(Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)))
}

/// Paths in the list, the chosen one marked.
fn listed(state: &State) -> String {
    let view = state.view().unwrap();
    let path = |(place, &index): (usize, &usize)| {
        let mark = if place == state.cursor { ">" } else { "" };
        format!("{mark}{}", view.cgroup(index).cgroup)
    };
    state.listed.iter().enumerate().map(path).collect::<Vec<_>>().join(" ")
}

#[test]
fn devices_and_the_noisy_tenant_are_in_view_at_80_by_24() {
    let expected = "\
Weir top  0.1.0   5 cgroups   by share
  DEVICE     UTILISATION       IN FLIGHT FOR LIMIT FOR DEVICE WATERMARK   LIMITS
▸ store      ▇▇▇▇▇▇▇▇▇·   90%   21 of 32       412          3        90   × 1.50
  spare      ··········    0%     0 of 8         0          0         -     hold
CGROUP            READ WRITE  IOPS LIMIT               P50    P99 WAITS FOR
▾ /              24.6M     - 6.31k -                1.20ms 5.98ms riops …/noisy
  ▾ vms          23.5M     - 6.01k riops  ▇▇▇·  67% 1.20ms 5.98ms riops …/noisy
      noisy      23.4M     - 6.00k riops  ▇▇▇▇ 100% 1.20ms 5.98ms its own riops
      db         40.0K     -    10 riops  ▇···   3% 1.20ms 5.98ms the device
    batch        1.17M     -   300 -                1.20ms 5.98ms the device
    idle             -     -     - riops  ····   0%      -      - -







── /: weight 100, pace  ███ ────────────────────────────────────────────────────
 limits  none of its own
 reads   p50 1.20ms, p99 5.98ms, p99.9 8.10ms, max 12.0ms in the last seconds
 waited  for riops of /vms/noisy 1.90 ms (94 %), the device 120 us (6 %)

q quit  ? help  e limits  w weight  x exports  s sort  / filter  space freeze
";
    assert_eq!(picture(&state(80, 24)), expected);
}

#[test]
fn exports_are_listed_instead_of_cgroups() {
    let mut state = state(80, 18);
    type_in(&mut state, "x");
    let expected = "\
Weir top  0.1.0   2 exports   by share
";
    let shown = picture(&state);
    assert!(shown.starts_with(expected), "{shown}");
    let rows = "\
EXPORT    CONN DEPTH  READ WRITE  IOPS  R P50  R P99  W P50  W P99 WAITS FOR
noisy        1  12.7 23.4M     - 6.00k 1.20ms 5.98ms      -      - its own riops
db           1   0.0 40.0K     -    10 1.20ms 5.98ms      -      - the device
";
    assert!(shown.contains(rows), "{shown}");
    // Limits are changed of the cgroup behind it.
    type_in(&mut state, "/db");
    press(&mut state, KeyCode::Enter);
    type_in(&mut state, "e");
    assert!(picture(&state).contains("\n/vms/db io.max riops=200"), "{}", picture(&state));
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::Left);
    type_in(&mut state, "*jx");
    assert_eq!(listed(&state), ">/ /vms /vms/noisy /vms/db /batch /idle");
    type_in(&mut state, "x2");
    assert!(picture(&state).contains("unused"), "{}", picture(&state));
}

#[test]
fn the_manual_shows_the_picture_as_it_is() {
    let manual = include_str!("../../../../docs/top.md");
    let mut state = state(80, 18);
    type_in(&mut state, "jj");
    let shown = picture(&state);
    assert!(manual.contains(&shown), "docs/top.md does not have\n{shown}");
    type_in(&mut state, "e");
    control(&mut state, 'w');
    type_in(&mut state, "riops=1k");
    let shown = picture(&state);
    let edit = &shown[shown.find("── ").expect("a rule")..];
    assert!(manual.contains(edit), "docs/top.md does not have\n{edit}");
}

#[test]
fn a_wide_terminal_has_shares_and_sparklines() {
    let picture = picture(&state(120, 24));
    let noisy = picture.lines().find(|line| line.contains("  noisy")).unwrap();
    assert!(noisy.contains(" 95% 23.4M") && noisy.ends_with("███"), "{noisy}");
    assert_eq!(picture.lines().find(|line| line.chars().count() > 120), None);
}

#[test]
fn no_size_is_too_small() {
    for (columns, rows) in [(1, 1), (1, 24), (80, 1), (20, 5), (80, 8), (79, 17), (200, 60)] {
        let mut state = state(columns, rows);
        for keys in ["", "?", "?/x", "\u{1b}e", "riops=1"] {
            type_in(&mut state, keys);
            picture(&state);
        }
    }
    picture(&State::new(Options::default(), (80, 24)));
}

#[test]
fn once_is_the_same_as_text_without_what_is_idle() {
    let text = draw::text(&state(80, 0), 80, 3);
    // A backslash would take the blanks away.
    let expected =
        "  DEVICE     UTILISATION       IN FLIGHT FOR LIMIT FOR DEVICE WATERMARK   LIMITS
  store      ▇▇▇▇▇▇▇▇▇·   90%   21 of 32       412          3        90   × 1.50
  spare      ··········    0%     0 of 8         0          0         -     hold

store:
CGROUP            READ WRITE  IOPS LIMIT               P50    P99 WAITS FOR
▾ /              24.6M     - 6.31k -                1.20ms 5.98ms riops …/noisy
  ▾ vms          23.5M     - 6.01k riops  ▇▇▇·  67% 1.20ms 5.98ms riops …/noisy
      noisy      23.4M     - 6.00k riops  ▇▇▇▇ 100% 1.20ms 5.98ms its own riops
and 3 that do less

EXPORT    CONN DEPTH  READ WRITE  IOPS  R P50  R P99  W P50  W P99 WAITS FOR
noisy        1  12.7 23.4M     - 6.00k 1.20ms 5.98ms      -      - its own riops
db           1   0.0 40.0K     -    10 1.20ms 5.98ms      -      - the device

spare:
CGROUP            READ WRITE  IOPS LIMIT               P50    P99 WAITS FOR
  /                  -     -     - -                     -      - -
";
    assert_eq!(text, expected);
}

#[test]
fn colours_are_only_where_they_are_wanted() {
    let has_colour = |coloured: bool| {
        let mut state = state(80, 24);
        state.options.coloured = coloured;
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &state)).unwrap();
        let cells = terminal.backend().buffer().content();
        cells.iter().any(|cell| cell.fg != ratatui::style::Color::Reset)
    };
    assert_eq!([true, false].map(has_colour), [true, false]);
}

#[test]
fn the_list_is_sorted_turned_flattened_and_filtered() {
    let mut state = state(80, 24);
    assert_eq!(listed(&state), ">/ /vms /vms/noisy /vms/db /batch /idle");
    type_in(&mut state, "r");
    assert_eq!(listed(&state), ">/ /idle /batch /vms /vms/db /vms/noisy");
    type_in(&mut state, "rt");
    assert_eq!(listed(&state), ">/vms/noisy /batch /vms/db /idle");
    while state.sort != SortKey::Path {
        type_in(&mut state, "s");
    }
    assert_eq!(listed(&state), ">/batch /idle /vms/db /vms/noisy");
    type_in(&mut state, "t/NOIS");
    assert_eq!(listed(&state), ">/ /vms /vms/noisy");
    assert!(picture(&state).contains("those with \"NOIS\""));
    press(&mut state, KeyCode::Enter);
    assert_eq!(state.mode, Mode::Look);
    press(&mut state, KeyCode::Esc);
    assert_eq!(listed(&state), ">/ /batch /idle /vms /vms/db /vms/noisy");
}

#[test]
fn the_chosen_cgroup_stays_chosen_while_others_come_and_go() {
    let mut state = state(80, 24);
    type_in(&mut state, "jj");
    assert_eq!(listed(&state), "/ /vms >/vms/noisy /vms/db /batch /idle");
    type_in(&mut state, "r");
    assert_eq!(listed(&state), "/ /idle /batch /vms /vms/db >/vms/noisy");
    let mut after = status(6);
    after.devices[0].cgroups.pop();
    let reading = super::reading::Reading::between(&status(5), after);
    state.handle(Event::Read(Box::new(reading)));
    assert_eq!(listed(&state), "/ /idle /batch /vms >/vms/db");
    type_in(&mut state, "g");
    assert_eq!(state.cursor, 0);
    type_in(&mut state, "G");
    assert_eq!(state.cursor, 4);
}

#[test]
fn cgroups_are_folded_and_unfolded() {
    let mut state = state(80, 24);
    type_in(&mut state, "jj");
    press(&mut state, KeyCode::Left);
    assert_eq!(listed(&state), "/ >/vms /vms/noisy /vms/db /batch /idle");
    press(&mut state, KeyCode::Left);
    assert_eq!(listed(&state), "/ >/vms /batch /idle");
    assert!(picture(&state).contains("\n  ▸ vms "));
    press(&mut state, KeyCode::Right);
    assert_eq!(listed(&state), "/ >/vms /vms/noisy /vms/db /batch /idle");
    type_in(&mut state, "*");
    assert_eq!(listed(&state), "/ >/vms /batch /idle");
    type_in(&mut state, "*");
    assert_eq!(state.listed.len(), 6);
}

#[test]
fn the_list_scrolls_with_the_chosen_cgroup() {
    let mut state = state(80, 12);
    assert_eq!(state.layout().list, 6);
    state.handle(Event::Resized(80, 9));
    assert_eq!((state.layout().list, state.first), (3, 0));
    type_in(&mut state, "jjj");
    assert_eq!(state.first, 1);
    assert!(picture(&state).contains(" db ") && picture(&state).contains("▸ store"));
    type_in(&mut state, "g");
    assert_eq!(state.first, 0);
    press(&mut state, KeyCode::PageDown);
    assert_eq!(state.cursor, 3);
    state.handle(Event::Resized(80, 24));
    assert_eq!(state.first, 0, "there is room for all of them");
}

#[test]
fn a_frozen_picture_stands_still_and_goes_on_with_the_newest_reading() {
    let mut state = state(80, 24);
    type_in(&mut state, " ");
    let still = picture(&state);
    assert!(still.contains("FROZEN"));
    state.handle(Event::Read(Box::new(super::reading::Reading::between(&status(5), status(9)))));
    state.handle(Event::Read(Box::new(reading(8))));
    assert_eq!(picture(&state), still);
    type_in(&mut state, " ");
    assert_eq!(state.reading.as_ref().unwrap().status.uptime_secs, 8);
}

#[test]
fn devices_are_chosen() {
    let mut state = state(80, 24);
    press(&mut state, KeyCode::Tab);
    assert_eq!(listed(&state), ">/");
    assert!(picture(&state).contains("\n▸ spare"));
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.device, 0);
    press(&mut state, KeyCode::BackTab);
    assert_eq!(state.device, 1);
    type_in(&mut state, "19");
    assert_eq!(state.device, 0);
    let mut only_spare = status(6);
    press(&mut state, KeyCode::Tab);
    only_spare.devices.remove(0);
    let reading = super::reading::Reading::between(&status(5), only_spare);
    state.handle(Event::Read(Box::new(reading)));
    assert_eq!((state.device, state.view().unwrap().status.device.as_str()), (0, "spare"));
}

#[test]
fn the_mouse_chooses_and_scrolls() {
    let mut state = state(80, 24);
    let mouse = |state: &mut State, kind, row| {
        let event = MouseEvent { kind, column: 3, row, modifiers: KeyModifiers::NONE };
        state.handle(Event::Mouse(event));
        listed(state).split(' ').find(|path| path.starts_with('>')).unwrap().to_owned()
    };
    let click = MouseEventKind::Down(MouseButton::Left);
    assert_eq!(mouse(&mut state, click, 7), ">/vms/noisy");
    assert_eq!(mouse(&mut state, MouseEventKind::ScrollDown, 7), ">/idle");
    assert_eq!(mouse(&mut state, click, 20), ">/idle");
    assert_eq!(mouse(&mut state, click, 3), ">/");
    assert_eq!(state.device, 1);
}

#[test]
fn a_limit_is_set_after_it_was_said_what_that_does() {
    let mut state = state(80, 24);
    type_in(&mut state, "jje");
    assert!(picture(&state).contains("these are its limits now: nothing would change"));
    assert_eq!(press(&mut state, KeyCode::Enter), None, "there is nothing to set");
    control(&mut state, 'w');
    type_in(&mut state, "riops=1k");
    let expected = "\
── /vms/noisy on store: Enter sets it, Esc leaves it ───────────────────────────
 riops: 4.00k/s → 1.00k/s: it does 6.00k/s now, and would be held to 1.50k/s,
   25 % of that
 watermark 90: limits are multiplied by 1.50 now, by more when less of the
   device is used
 for itself: no cgroup is below it; 1 connection
/vms/noisy io.max riops=1k
";
    assert!(picture(&state).ends_with(expected), "{}", picture(&state));
    let Some(Effect::Set(request, generation)) = press(&mut state, KeyCode::Enter) else {
        panic!("nothing was sent");
    };
    assert_eq!(generation, "4-a");
    let SetRequest { cgroup, key, value, device, create, runtime } = request;
    assert_eq!(
        (cgroup.as_str(), key.as_str(), value.as_str()),
        ("/vms/noisy", "io.max", "riops=1k")
    );
    assert_eq!((device.as_deref(), create, runtime), (Some("store"), false, false));
    assert_eq!(press(&mut state, KeyCode::Enter), None, "it has been sent");
    state.handle(Event::Set(Ok((vec!["set: it".into()], "5-b".into()))));
    assert_eq!(state.mode, Mode::Look);
    assert!(picture(&state).ends_with("\nset: it\n"));
    // The next change is based on this one, until there is a reading that has it.
    type_in(&mut state, "w2");
    let Some(Effect::Set(_, generation)) = press(&mut state, KeyCode::Enter) else { panic!() };
    assert_eq!(generation, "5-b");
}

#[test]
fn a_refusal_is_shown_as_it_is_and_the_line_stays() {
    let mut state = state(80, 24);
    type_in(&mut state, "jjw0");
    press(&mut state, KeyCode::Enter);
    let refusal = vec!["this socket only reads".to_owned(), "changes go to another".to_owned()];
    state.handle(Event::Set(Err(refusal)));
    let shown = picture(&state);
    assert!(shown.contains("refused") && shown.contains("\n this socket only reads\n"), "{shown}");
    assert!(shown.ends_with("\n/vms/noisy io.weight 1000\n"), "{shown}");
    press(&mut state, KeyCode::Backspace);
    press(&mut state, KeyCode::Backspace);
    type_in(&mut state, "5");
    let shown = picture(&state);
    assert!(!shown.contains("this socket only reads"), "{shown}");
    press(&mut state, KeyCode::Esc);
    assert_eq!(state.mode, Mode::Look);
}

#[test]
fn one_change_is_made_at_a_time() {
    let mut state = state(80, 24);
    type_in(&mut state, "jjw1");
    assert!(press(&mut state, KeyCode::Enter).is_some());
    press(&mut state, KeyCode::Esc);
    type_in(&mut state, "w2");
    assert_eq!(press(&mut state, KeyCode::Enter), None, "the first has not been answered");
    state.handle(Event::Set(Err(vec!["too many".into()])));
    assert!(matches!(state.mode, Mode::Edit(_)), "that was about another line");
    assert!(press(&mut state, KeyCode::Enter).is_some());
}

#[test]
fn what_makes_no_sense_is_not_sent() {
    let mut state = state(80, 24);
    for (line, said) in [
        ("io.max riops=many", "\"many\""),
        ("io.max riobs=5", "riobs"),
        ("io.weight 0", "weight 0 is not between 1 and 10000"),
        ("io.max", "KEY VALUE"),
    ] {
        type_in(&mut state, ":");
        type_in(&mut state, line);
        let shown = picture(&state);
        assert!(shown.contains(said), "{line}:\n{shown}");
        assert_eq!(press(&mut state, KeyCode::Enter), None, "{line}");
        press(&mut state, KeyCode::Esc);
    }
}

#[test]
fn keys_end_it_and_help_is_left_with_any() {
    let mut state = state(80, 24);
    type_in(&mut state, "?");
    assert!(picture(&state).contains("fold, unfold"));
    type_in(&mut state, "x");
    assert_eq!(state.mode, Mode::Look);
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Effect::Quit));
    type_in(&mut state, "/q");
    assert_eq!(state.filter, "q");
    assert_eq!(control(&mut state, 'c'), Some(Effect::Quit));
}

#[test]
fn a_server_that_does_not_answer_leaves_the_last_picture() {
    let mut state = state(80, 24);
    state.handle(Event::NotRead("control.sock: gone".into()));
    let shown = picture(&state);
    assert!(shown.contains("NO ANSWER: control.sock: gone") && shown.contains("noisy"), "{shown}");
    state.handle(Event::Read(Box::new(reading(5))));
    assert!(!picture(&state).contains("NO ANSWER"));
}
