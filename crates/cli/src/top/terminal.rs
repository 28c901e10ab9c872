//! Terminal: raw mode, events, and the way back whatever happens.

use std::io::stdout;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crossterm::event::{self, DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use weir_server::control::{Client, ClientError, SetReply};

use super::draw::draw;
use super::reading::Reading;
use super::state::{Effect, Event, Options, State};
use crate::failure::Failure;
use crate::signals;
use crate::status::human;

/// Exit status of a program that panicked.
const PANICKED: i32 = 101;

/// Whether the terminal is to be left.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// What comes to the thread that draws.
enum Message {
    Event(Event),
    Signal(u8),
    /// The terminal gives no more events.
    Gone,
}

/// Runs until the user quits or a signal comes.
pub(super) fn run(
    client: Client,
    options: Options,
    interval: Duration,
    mouse: bool,
) -> Result<(), Failure> {
    // A server that does not answer is told of where that can be read.
    let first = client.status()?;
    let (sender, messages) = mpsc::channel();
    let told = sender.clone();
    signals::on_thread(move |number| told.send(Message::Signal(number)).is_ok())?;
    let _screen = Screen::enter(mouse)?;
    let mut terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(broken)?;
    let mut state = State::new(options, size().map_err(broken)?);
    let keys = sender.clone();
    start("keys", move || read_keys(&keys))?;
    let (reader, readings) = (client.clone(), sender.clone());
    // Rests end when this function does.
    let (_rests, rest) = mpsc::channel::<()>();
    start("readings", move || {
        let rested = || rest.recv_timeout(interval) == Err(RecvTimeoutError::Timeout);
        read_statuses(&reader, first, &readings, rested);
    })?;
    loop {
        terminal.draw(|frame| draw(frame, &state)).map_err(broken)?;
        // Of many events only the last one is drawn.
        let Ok(message) = messages.recv() else { break };
        for message in std::iter::once(message).chain(messages.try_iter()) {
            let event = match message {
                Message::Event(event) => event,
                Message::Signal(number) => return Err(Failure::Signal(number)),
                Message::Gone => return Ok(()),
            };
            match state.handle(event) {
                Some(Effect::Quit) => return Ok(()),
                Some(Effect::Set(request, generation)) => {
                    let (client, sender) = (client.clone().based_on(&generation), sender.clone());
                    start("change", move || {
                        let answer = client.set(&request).map(said).map_err(refusal);
                        // After `q` there is no receiver.
                        let _ = sender.send(Message::Event(Event::Set(answer)));
                    })?;
                }
                None => {}
            }
        }
    }
    Ok(())
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.into()).spawn(run);
    started.map(drop).map_err(|error| Failure::failed(format!("no thread can be started: {error}")))
}

fn read_keys(sender: &Sender<Message>) {
    loop {
        let message = match event::read() {
            Ok(event::Event::Key(key)) => Message::Event(Event::Key(key)),
            Ok(event::Event::Mouse(mouse)) => Message::Event(Event::Mouse(mouse)),
            Ok(event::Event::Resize(columns, rows)) => {
                Message::Event(Event::Resized(columns, rows))
            }
            Ok(_) => continue,
            Err(_) => Message::Gone,
        };
        let is_gone = matches!(message, Message::Gone);
        if sender.send(message).is_err() || is_gone {
            return;
        }
    }
}

/// Compares each status with the one before it, until there is no receiver or `rest` ends.
fn read_statuses(
    client: &Client,
    mut before: weir_server::status::Status,
    sender: &Sender<Message>,
    rest: impl Fn() -> bool,
) {
    while rest() {
        let event = match client.status() {
            Ok(after) => {
                let reading = Reading::between(&before, after.clone());
                before = after;
                Event::Read(Box::new(reading))
            }
            Err(error) => Event::NotRead(error.to_string()),
        };
        if sender.send(Message::Event(event)).is_err() {
            return;
        }
    }
}

/// What holds after a change, and its generation.
fn said(reply: SetReply) -> (Vec<String>, String) {
    let is_limit = ["io.max", "io.burst", "io.peak"].contains(&reply.key.as_str());
    let lines = reply.devices.iter().map(|device| {
        let value = if is_limit { human(&device.value) } else { device.value.clone() };
        let value = if value.is_empty() { "max" } else { &value };
        format!("set: {} {} is {value} on {}", reply.cgroup, reply.key, device.device)
    });
    (lines.collect(), reply.generation)
}

/// The server's own words.
fn refusal(error: ClientError) -> Vec<String> {
    match error {
        ClientError::Refused { refusal, .. } => {
            std::iter::once(refusal.message).chain(refusal.hint).collect()
        }
        error => vec![error.to_string()],
    }
}

fn broken(error: std::io::Error) -> Failure {
    Failure::failed(format!("the terminal: {error}"))
}

/// The alternate screen, left when dropped, and at a panic before its message is printed.
struct Screen;

impl Screen {
    fn enter(mouse: bool) -> Result<Screen, Failure> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
            // A thread that goes on would draw over the message.
            std::process::exit(PANICKED);
        }));
        let screen = Screen;
        IS_TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode().map_err(broken)?;
        execute!(stdout(), EnterAlternateScreen).map_err(broken)?;
        if mouse {
            execute!(stdout(), EnableMouseCapture).map_err(broken)?;
        }
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Once only: a second time would put the cursor back to where it was before. There is nothing to tell if the terminal is gone.
fn leave() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, crossterm::cursor::Show);
    let _ = disable_raw_mode();
}
