//! Simulated client: speaks NBD with the server's own client side, remembers what it has asked, and checks the answers.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use weir_nbd::client::{Client as Protocol, Connecting, Reply, Wishes};
use weir_nbd::{Command, Context, Contexts, Cookie, ErrorCode, Op};

use super::checker::{Checker, Counts, UNIT, fill, values};
use super::plan::ClientPlan;
use super::rng::Rng;

#[derive(Debug)]
pub(super) struct Client {
    pub(super) plan: ClientPlan,
    pub(super) state: State,
    /// Its socket, while it is connected.
    pub(super) socket: Option<usize>,
    /// Bytes that the server has not been sent yet.
    pub(super) to_send: VecDeque<u8>,
    pub(super) asked: BTreeMap<u64, Asked>,
    /// Requests that it will still send.
    pub(super) left: u32,
    pub(super) reads: bool,
    /// The server has let it in to no export.
    pub(super) is_refused: bool,
    next_cookie: u64,
    /// Where a read's data goes that is arriving.
    data: Option<(u64, usize)>,
    /// Tick of the end of its handshake.
    since: u64,
    /// Tick of the last failed flush on its connection.
    flush_failed: u64,
    /// Failed syncs of the disk that its connection has been told of, or that were before it.
    told_failures: u64,
    /// First byte of its export on the device, and how many there are.
    start: u64,
    size: u64,
}

#[derive(Debug)]
pub(super) enum State {
    Away,
    Shaking(Connecting),
    Ready(Protocol),
    /// It will not come back.
    Done,
}

/// A request without an answer.
pub(super) struct Asked {
    command: Command,
    issued: u64,
    /// A write's number.
    write: Option<u32>,
    /// A read's bytes.
    bytes: Vec<u8>,
    error: Option<ErrorCode>,
    extents: Vec<(Context, Vec<weir_nbd::Extent>)>,
    /// Failed syncs of the disk when it was sent.
    sync_failures: u64,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of tick {}", self.command, self.issued)
    }
}

impl Client {
    pub(super) fn new(plan: ClientPlan, start: u64, size: u64) -> Client {
        Client {
            left: plan.requests,
            plan,
            state: State::Away,
            socket: None,
            to_send: VecDeque::new(),
            asked: BTreeMap::new(),
            reads: true,
            is_refused: false,
            next_cookie: 1,
            data: None,
            since: 0,
            flush_failed: 0,
            told_failures: 0,
            start,
            size,
        }
    }

    pub(super) fn connect(&mut self, socket: usize) {
        let wishes = Wishes {
            export: format!("e{}", self.plan.export),
            structured_replies: self.plan.structured,
            extended_headers: self.plan.extended,
            contexts: self.plan.contexts,
        };
        self.state = State::Shaking(Connecting::new(wishes));
        self.socket = Some(socket);
        self.to_send.clear();
        self.is_refused = false;
        self.data = None;
        self.flush_failed = 0;
    }

    /// Its connection has ended: what has no answer may have happened or not.
    pub(super) fn disconnected(&mut self, checker: &mut Checker) {
        for asked in std::mem::take(&mut self.asked).into_values() {
            if let Some(write) = asked.write {
                checker.lose_write(write);
            }
            if asked.command.op == Op::Flush {
                checker.lose_flush();
            }
        }
        self.socket = None;
        self.to_send.clear();
        self.state = if self.left > 0 { State::Away } else { State::Done };
    }

    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && (self.left == 0 || matches!(self.state, State::Done))
    }

    /// Sends the next request if it may.
    pub(super) fn issue(
        &mut self,
        checker: &mut Checker,
        sync_failures: u64,
        rng: &mut Rng,
    ) -> bool {
        let State::Ready(protocol) = &mut self.state else { return false };
        if self.left == 0 || self.asked.len() >= self.plan.depth || self.to_send.len() > 1 << 20 {
            return false;
        }
        self.left -= 1;
        let granted = protocol.connected().granted();
        // Without extended headers the server tells all that were selected.
        let some: Contexts = granted.iter().filter(|_| rng.chance(600)).collect();
        let contexts = match protocol.connected().extended_headers && !some.is_empty() {
            true => some,
            false => granted,
        };
        let op = match rng.below(100) {
            0..40 => Op::Read { whole: false },
            40..75 => Op::Write,
            75..85 => Op::Flush,
            85..89 => Op::Trim,
            89..94 => Op::WriteZeroes { no_hole: rng.chance(500), fast: rng.chance(200) },
            94..96 => Op::Cache,
            _ if !granted.is_empty() => Op::BlockStatus { one: rng.chance(500), contexts },
            _ => Op::Read { whole: false },
        };
        let units = self.size / UNIT;
        let most = (self.plan.len_max / UNIT).min(units);
        let most = if rng.chance(500) { 1.max(most / 8) } else { most };
        let len = rng.between(1, most);
        // Clients meet where the device is small.
        let first = rng.below(units - len + 1) & if rng.chance(300) { !63 } else { !0 };
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            _ => (first * UNIT, len * UNIT),
        };
        let fua = matches!(op, Op::Write | Op::Trim | Op::WriteZeroes { .. }) && rng.chance(150);
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let command = Command { cookie: Cookie(cookie), op, fua, offset, len };
        let units = (self.start + offset) / UNIT..(self.start + offset + len) / UNIT;
        let write = match op {
            Op::Write => Some(checker.issue_write(self.plan.export, units, false, false)),
            Op::WriteZeroes { .. } => {
                Some(checker.issue_write(self.plan.export, units, true, false))
            }
            Op::Trim => Some(checker.issue_write(self.plan.export, units, true, true)),
            _ => None,
        };
        let mut out = Vec::new();
        protocol.request(&command, &mut out);
        if let (Op::Write, Some(write)) = (op, write) {
            let mut payload = vec![0; len as usize];
            fill(&mut payload, u64::from(write));
            out.extend_from_slice(&payload);
        }
        self.to_send.extend(out);
        let bytes = match op {
            Op::Read { .. } => vec![0; len as usize],
            _ => Vec::new(),
        };
        let issued = checker.tick();
        let extents = Vec::new();
        let asked = Asked { command, issued, write, bytes, error: None, extents, sync_failures };
        self.asked.insert(cookie, asked);
        true
    }

    /// Politely ends the connection.
    pub(super) fn say_goodbye(&mut self) {
        if let State::Ready(protocol) = &mut self.state {
            let mut out = Vec::new();
            protocol.disconnect(&mut out);
            self.to_send.extend(out);
        }
    }

    /// Takes bytes from the server.
    ///
    /// # Errors
    /// What the server has answered and must not have.
    pub(super) fn take(
        &mut self,
        mut input: &[u8],
        checker: &mut Checker,
        sync_failures: u64,
    ) -> Result<(), String> {
        if let State::Shaking(connecting) = &mut self.state {
            let mut out = Vec::new();
            let Ok(progress) = connecting.handle_input(input, &mut out) else {
                // No seat, or the server ends.
                self.is_refused = true;
                return Ok(());
            };
            self.to_send.extend(out);
            input = &input[progress.consumed..];
            let Some(connected) = progress.connected else { return Ok(()) };
            self.state = State::Ready(Protocol::new(connected));
            self.since = checker.tick();
            self.told_failures = sync_failures;
        }
        while let State::Ready(protocol) = &mut self.state {
            let parsed = protocol.parse(input).map_err(|error| format!("a bad reply: {error}"))?;
            let (now, later) = input.split_at(parsed.consumed);
            input = later;
            match parsed.reply {
                Reply::NeedMore { .. } => return Ok(()),
                Reply::Data { cookie, offset, .. } => {
                    let asked = &self.asked[&cookie.0];
                    self.data = Some((cookie.0, (offset - asked.command.offset) as usize));
                }
                Reply::Payload { len } => {
                    let (cookie, at) = self.data.as_mut().expect("data comes before its payload");
                    let asked = self.asked.get_mut(cookie).expect("a read without an answer");
                    asked.bytes[*at..*at + len].copy_from_slice(now);
                    *at += len;
                }
                Reply::Hole { .. } => {}
                Reply::Status { cookie, context, extents } => {
                    self.asked.get_mut(&cookie.0).expect("asked").extents.push((context, extents));
                }
                Reply::Error { cookie, error, .. } => {
                    self.asked.get_mut(&cookie.0).expect("asked").error = Some(error);
                }
                Reply::Done { cookie } => {
                    let asked = self.asked.remove(&cookie.0).expect("asked");
                    self.answered(asked, checker, sync_failures)?;
                }
            }
        }
        Ok(())
    }

    fn answered(
        &mut self,
        asked: Asked,
        checker: &mut Checker,
        sync_failures: u64,
    ) -> Result<(), String> {
        let Asked { command, issued, write, bytes, error, extents, .. } = asked;
        let first = (self.start + command.offset) / UNIT;
        match (command.op, error) {
            (Op::Flush, None) => {
                if self.told_failures < asked.sync_failures {
                    return Err(format!(
                        "{command:?} is answered although the device has failed a sync before and the connection \
                         was not told"
                    ));
                }
                let export = self.plan.export;
                checker.ack_flush(export, issued, self.since, self.flush_failed);
            }
            (Op::Flush, Some(ErrorCode::Shutdown)) => {}
            (Op::Flush, Some(_)) => {
                self.flush_failed = checker.fail_flush();
                self.told_failures = sync_failures;
            }
            (Op::Read { .. }, None) => {
                for (at, value) in values(&bytes).enumerate() {
                    let unit = first + at as u64;
                    let value = value.ok_or_else(|| format!("unit {unit} is of two writes"))?;
                    checker.check(unit, value, issued, Counts::Acked).map_err(|error| {
                        format!("{command:?} issued at tick {issued} has read: {error}")
                    })?;
                }
            }
            (Op::BlockStatus { .. }, None) => {
                for (context, extents) in extents {
                    let mut at = first;
                    for extent in extents {
                        let end = (at + extent.len / UNIT).min(first + command.len / UNIT);
                        for unit in at..end {
                            if extent.zero || extent.hole {
                                let found = checker.check(unit, 0, issued, Counts::Acked);
                                found.map_err(|error| {
                                    format!("{} tells a hole where {error}", context.name())
                                })?;
                            }
                        }
                        at = end;
                    }
                }
            }
            _ => {}
        }
        if let Some(write) = write {
            match error {
                None => checker.ack_write(write, command.fua),
                Some(_) => checker.lose_write(write),
            }
        }
        Ok(())
    }
}
