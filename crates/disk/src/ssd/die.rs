//! Schedule of a flash die.

use alloc::collections::VecDeque;

/// The part of a read that one unit holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) unit: u64,
    /// The read's number.
    pub(super) read: u32,
    pub(super) bytes: u32,
}

/// Data to program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    /// Buffered data.
    Data { epoch: u64, bytes: u32 },
    /// A unit of a write with FUA, by its number.
    Durable { write: u32, bytes: u32 },
    /// A valid page of another block.
    Copy,
}

/// A die: does one operation at a time, and keeps the unit read last in its register.
#[derive(Clone, Default, Debug)]
pub(super) struct Die {
    is_busy: bool,
    reads: VecDeque<Part>,
    sensing: Option<Part>,
    register: Option<u64>,
    /// Queued programs, with their time.
    program: Option<(Program, u64)>,
    /// Programs since a block was erased.
    pub(super) programs: u64,
}

/// Next operation of a die.
pub(super) enum Next {
    /// None: it is busy, or has no work.
    Nothing,
    /// Transfer from the register.
    Held(Part),
    /// Read a unit into the register.
    Sense,
    /// Program, or read a page to copy.
    Program(Program),
}

impl Die {
    /// Another part of a read.
    pub(super) fn push(&mut self, part: Part) {
        self.reads.push_back(part);
    }

    /// Adds data to program.
    pub(super) fn assign(&mut self, program: Program, now_ns: u64) {
        self.program = Some((program, now_ns));
    }

    /// Begins the next operation: a read, unless a program has waited for `age_ns` or there is no read.
    pub(super) fn next(&mut self, now_ns: u64, age_ns: u64) -> Next {
        if self.is_busy {
            return Next::Nothing;
        }
        if let Some((program, since_ns)) = self.program
            && (self.reads.is_empty() || since_ns.saturating_add(age_ns) <= now_ns)
        {
            // The register is overwritten by the program's data.
            (self.is_busy, self.register) = (true, None);
            return Next::Program(program);
        }
        let Some(part) = self.reads.pop_front() else { return Next::Nothing };
        if self.register == Some(part.unit) {
            return Next::Held(part);
        }
        (self.is_busy, self.sensing) = (true, Some(part));
        Next::Sense
    }

    /// Ends a read; returns its reason.
    pub(super) fn sensed(&mut self) -> Option<Part> {
        self.is_busy = false;
        self.register = self.sensing.map(|part| part.unit);
        self.sensing.take()
    }

    /// Ends a program; returns its data.
    pub(super) fn programmed(&mut self) -> Option<Program> {
        self.is_busy = false;
        self.program.take().map(|(program, _)| program)
    }
}
