//! The exports of a server: what clients see, and which device and cgroup is behind each name.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use weir_engine::{Path, PerDimension};
use weir_nbd::{Denial, Export, ExportId, Exports, Features};

use crate::access::Access;
use crate::seats::{NoSeat, Seat};
use crate::view::ExportCounters;

/// Number of a device, which no other has while the server runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DeviceId(pub(crate) u32);

/// One export.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// What clients are told; its id is the server's for as long as it runs.
    pub(crate) nbd: Export,
    pub(crate) device: DeviceId,
    /// Where its connections belong.
    pub(crate) cgroup: Path,
    /// First byte of the device that is served.
    pub(crate) start: u64,
    /// Connections that it may have.
    pub(crate) connections_max: u32,
    /// Limits of each of its clients.
    pub(crate) client_max: PerDimension,
    /// What its clients have had.
    pub(crate) counters: Arc<ExportCounters>,
}

/// Where connections to an export belong, as the thread of its device knows it.
#[derive(Clone, Debug)]
pub struct ExportPlace {
    pub(crate) export: ExportId,
    pub(crate) name: String,
    pub(crate) cgroup: Path,
    pub(crate) client_max: PerDimension,
}

impl Served {
    /// Whether a client finds the same, but for its limits and how many others there may be.
    pub(crate) fn is_like(&self, other: &Served) -> bool {
        (&self.nbd, self.device, &self.cgroup, self.start)
            == (&other.nbd, other.device, &other.cgroup, other.start)
    }

    pub(crate) fn place(&self) -> ExportPlace {
        let (export, name) = (self.nbd.id, self.nbd.name.clone());
        ExportPlace { export, name, cgroup: self.cgroup.clone(), client_max: self.client_max }
    }
}

/// All exports at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExportTable {
    /// In the order of the configuration.
    exports: Vec<Arc<Served>>,
    by_name: BTreeMap<String, usize>,
    by_id: BTreeMap<ExportId, usize>,
}

impl ExportTable {
    pub(crate) fn push(&mut self, export: Arc<Served>) {
        let index = self.exports.len();
        self.by_name.insert(export.nbd.name.clone(), index);
        self.by_id.insert(export.nbd.id, index);
        self.exports.push(export);
    }

    /// `None` once it has been removed.
    pub(crate) fn get(&self, id: ExportId) -> Option<&Arc<Served>> {
        self.by_id.get(&id).map(|&index| &self.exports[index])
    }

    /// By its own name: there is no default here.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Served>> {
        self.by_name.get(name).map(|&index| &self.exports[index])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.exports.iter()
    }
}

impl FromIterator<Arc<Served>> for ExportTable {
    fn from_iter<I: IntoIterator<Item = Arc<Served>>>(exports: I) -> ExportTable {
        let mut table = ExportTable::default();
        exports.into_iter().for_each(|export| table.push(export));
        table
    }
}

impl Exports for ExportTable {
    /// By name; an empty name is the default export, which is the only one where there is only one.
    fn find(&self, name: &str) -> Option<&Export> {
        match (self.named(name), &self.exports[..]) {
            (None, [only]) if name.is_empty() => Some(&only.nbd),
            (found, _) => found.map(|export| &export.nbd),
        }
    }

    fn list(&self, visit: &mut dyn FnMut(&Export)) {
        self.exports.iter().for_each(|export| visit(&export.nbd));
    }
}

/// The exports as one connection finds them: those that it may use, and it needs a seat to be let in.
pub(crate) struct Admission<'a> {
    table: &'a ExportTable,
    seat: RefCell<&'a mut Result<Seat, NoSeat>>,
    access: &'a Access,
    refused: Cell<Option<NoSeat>>,
    unknown: RefCell<Option<String>>,
    denied: RefCell<Option<String>>,
}

/// Longest part of a name that is kept for the log, in characters.
const NAME_MAX: usize = 80;

impl<'a> Admission<'a> {
    pub(crate) fn new(
        table: &'a ExportTable,
        seat: &'a mut Result<Seat, NoSeat>,
        access: &'a Access,
    ) -> Admission<'a> {
        Admission {
            table,
            seat: RefCell::new(seat),
            access,
            refused: Cell::new(None),
            unknown: RefCell::default(),
            denied: RefCell::default(),
        }
    }

    /// Why the connection was not let in to an export, although it has a seat.
    pub(crate) fn refused(&self) -> Option<NoSeat> {
        self.refused.get()
    }

    /// A name that was asked for and is no export's; the beginning of it, where it is long.
    pub(crate) fn unknown(&self) -> Option<String> {
        self.unknown.take()
    }

    /// The name of an export that was asked for and that the connection may not use.
    pub(crate) fn denied(&self) -> Option<String> {
        self.denied.take()
    }
}

impl Exports for Admission<'_> {
    fn find(&self, name: &str) -> Option<&Export> {
        let found = self.table.find(name);
        if found.is_none() {
            *self.unknown.borrow_mut() = Some(name.chars().take(NAME_MAX).collect());
        }
        found
    }

    fn list(&self, visit: &mut dyn FnMut(&Export)) {
        self.table.list(&mut |export| {
            if self.access.check(&export.name).is_ok() {
                visit(export);
            }
        });
    }

    fn may_use(&self, export: &Export) -> Result<(), Denial> {
        self.access.check(&export.name).inspect_err(|_| {
            *self.denied.borrow_mut() = Some(export.name.chars().take(NAME_MAX).collect());
        })
    }

    fn features(&self, export: &Export) -> Features {
        let read_only = export.features.read_only || self.access.is_read_only();
        Features { read_only, ..export.features }
    }

    fn admit(&self, export: &Export) -> Result<(), &'static str> {
        let max = self.table.get(export.id).map_or(0, |export| export.connections_max);
        match &mut **self.seat.borrow_mut() {
            Ok(seat) => seat.choose(export.id, max).map_err(|reason| {
                self.refused.set(Some(reason));
                reason.words()
            }),
            Err(reason) => Err(reason.words()),
        }
    }
}
