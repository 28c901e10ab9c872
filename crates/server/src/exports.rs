//! The exports of a server: what clients see, and which device and cgroup is behind each name.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use weir_engine::Path;
use weir_nbd::{Export, ExportId, Exports};

use crate::seats::{NoSeat, Seat};

/// One export.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// What clients are told.
    pub(crate) nbd: Export,
    /// Index of the device.
    pub(crate) device: usize,
    /// Where its connections belong.
    pub(crate) cgroup: Path,
    /// First byte of the device that is served.
    pub(crate) start: u64,
}

/// All exports; does not change while the server runs.
#[derive(Debug, Default)]
pub(crate) struct ExportTable {
    exports: Vec<Served>,
    by_name: BTreeMap<String, usize>,
}

impl ExportTable {
    /// Adds an export; its id is set here.
    pub(crate) fn push(&mut self, mut export: Served) {
        let index = self.exports.len();
        // The configuration bounds the number of exports far below 2^32.
        export.nbd.id = ExportId(index as u32);
        self.by_name.insert(export.nbd.name.clone(), index);
        self.exports.push(export);
    }

    pub(crate) fn get(&self, id: ExportId) -> &Served {
        &self.exports[id.0 as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Served> {
        self.exports.iter()
    }
}

impl Exports for ExportTable {
    /// By name; an empty name is the default export, which is the only one where there is only one.
    fn find(&self, name: &str) -> Option<&Export> {
        let found = self.by_name.get(name).map(|&index| &self.exports[index].nbd);
        match found {
            None if name.is_empty() && self.exports.len() == 1 => Some(&self.exports[0].nbd),
            found => found,
        }
    }

    fn list(&self, visit: &mut dyn FnMut(&Export)) {
        self.exports.iter().for_each(|export| visit(&export.nbd));
    }
}

/// The exports as one connection finds them: it needs a seat to be let in.
pub(crate) struct Admission<'a> {
    table: &'a ExportTable,
    seat: RefCell<&'a mut Result<Seat, NoSeat>>,
    refused: Cell<Option<NoSeat>>,
}

impl<'a> Admission<'a> {
    pub(crate) fn new(table: &'a ExportTable, seat: &'a mut Result<Seat, NoSeat>) -> Admission<'a> {
        Admission { table, seat: RefCell::new(seat), refused: Cell::new(None) }
    }

    /// Why the connection was not let in to an export, although it has a seat.
    pub(crate) fn refused(&self) -> Option<NoSeat> {
        self.refused.get()
    }
}

impl Exports for Admission<'_> {
    fn find(&self, name: &str) -> Option<&Export> {
        self.table.find(name)
    }

    fn list(&self, visit: &mut dyn FnMut(&Export)) {
        self.table.list(visit);
    }

    fn admit(&self, export: &Export) -> Result<(), &'static str> {
        match &mut **self.seat.borrow_mut() {
            Ok(seat) => seat.choose(export.id).map_err(|reason| {
                self.refused.set(Some(reason));
                reason.words()
            }),
            Err(reason) => Err(reason.words()),
        }
    }
}
