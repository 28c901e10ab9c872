//! Entries: calls of an engine and its answers, as a device's thread appends them.

use weir_engine::structure::Structure;
use weir_engine::{Change, Class, Op, Outcome, Part, Request};

/// A call of an engine, or an answer. Ids are slots.
#[derive(Debug)]
pub(crate) enum Entry {
    /// The engine's part of a turn begins; what is dispatched follows.
    Turn {
        now_ns: u64,
    },
    /// `slot` is `None` where the engine was full.
    Submit {
        now_ns: u64,
        offset: u64,
        slot: Option<Slot>,
        task: u32,
        len: u32,
        op: Op,
        marks: Marks,
    },
    Dispatch {
        slot: u32,
    },
    Complete {
        now_ns: u64,
        slot: u32,
        outcome: Outcome,
        is_whole: bool,
    },
    Withdraw {
        now_ns: u64,
        slot: u32,
    },
    /// `slot` is `None` where the task had no request to withdraw.
    WithdrawNext {
        now_ns: u64,
        task: u32,
        slot: Option<Slot>,
    },
    Promote {
        now_ns: u64,
        slot: u32,
        task: u32,
        class: Class,
    },
    Rare(Box<Rare>),
}

// Half a line of cache: four of them are written for a request.
const _: () = assert!(size_of::<Entry>() <= 32);

/// A slot, one more: so that an optional one takes no more room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(std::num::NonZeroU32);

impl Slot {
    pub(crate) fn new(slot: u32) -> Option<Slot> {
        slot.checked_add(1).and_then(std::num::NonZeroU32::new).map(Slot)
    }

    pub(crate) fn get(self) -> u32 {
        self.0.get() - 1
    }
}

/// What does not happen for each request.
#[derive(Debug)]
pub(crate) enum Rare {
    /// The structure of the engine, at the beginning and after a gap.
    Structure {
        now_ns: u64,
        structure: Box<Structure>,
    },
    Cgroup {
        slot: u32,
        parent: u32,
        name: String,
    },
    Client {
        slot: u32,
        cgroup: u32,
    },
    Task {
        slot: u32,
        client: u32,
    },
    CloseTask {
        slot: u32,
    },
    CloseClient {
        slot: u32,
    },
    Change {
        now_ns: u64,
        change: Box<Change>,
    },
    /// So many entries are missing here.
    Dropped {
        entries: u64,
    },
}

/// Class, part and synchrony of a request, in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks(u8);

/// Each with its name in a file. None is set for a plain request.
const NAMES: [(u8, &str); 4] = [(1, "async"), (2, "metadata"), (4, "owed"), (8, "remainder")];

impl Marks {
    pub(crate) fn of(request: &Request) -> Marks {
        let class = match request.class {
            Class::Data => 0,
            Class::Metadata => 2,
            Class::Owed => 4,
        };
        let part = if request.part == Part::Remainder { 8 } else { 0 };
        Marks(u8::from(!request.sync) | class | part)
    }

    pub(crate) fn apply(self, request: &mut Request) {
        request.sync = self.0 & 1 == 0;
        request.class = match self.0 & 6 {
            0 => Class::Data,
            2 => Class::Metadata,
            _ => Class::Owed,
        };
        request.part = if self.0 & 8 == 0 { Part::Whole } else { Part::Remainder };
    }

    /// `None` for a plain request.
    pub(crate) fn text(self) -> Option<String> {
        let set = NAMES.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| *name);
        let words: Vec<&str> = set.collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// What [`Marks::text`] has written.
    pub(crate) fn parse(text: Option<&str>) -> Option<Marks> {
        let mut marks = 0;
        for word in text.unwrap_or_default().split_ascii_whitespace() {
            marks |= NAMES.iter().find(|(_, name)| *name == word)?.0;
        }
        Some(Marks(marks))
    }
}

/// The name of an operation in a file.
pub(crate) const fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
        Op::WriteZeroes => "write_zeroes",
        Op::Cache => "cache",
        Op::Status => "status",
    }
}

/// All operations.
pub(crate) const OPS: [Op; 7] =
    [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes, Op::Cache, Op::Status];

/// The name of a class in a file.
pub(crate) const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Data => "data",
        Class::Metadata => "metadata",
        Class::Owed => "owed",
    }
}

/// The class of that name.
pub(crate) fn class_from_name(name: &str) -> Option<Class> {
    [Class::Data, Class::Metadata, Class::Owed].into_iter().find(|class| class_name(*class) == name)
}
