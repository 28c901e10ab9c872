//! Mirror: cgroups, clients and tasks of an engine, by slot, as the entries tell.

use std::collections::BTreeMap;

use parquet::data_type::ByteArray;
use weir_engine::structure::Structure;
use weir_engine::{Change, Config};

use crate::columns::Columns;
use crate::row::{Event, Row};
use crate::settings::{self, EngineText, SettingText};

/// The structure that each file begins with.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    config: Option<Config>,
    cgroups: BTreeMap<u32, Cgroup>,
    clients: BTreeMap<u32, Client>,
    tasks: Vec<Option<Task>>,
    clients_ever: u64,
    tasks_ever: u64,
}

#[derive(Debug)]
struct Cgroup {
    parent: Option<u32>,
    name: String,
    path: ByteArray,
    /// Removed, and not gone while it has clients.
    is_removed: bool,
    settings: BTreeMap<&'static str, String>,
}

#[derive(Debug)]
struct Client {
    number: u64,
    cgroup: u32,
    settings: BTreeMap<&'static str, String>,
}

/// A task, with what is looked up for each request.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) number: u64,
    client: u32,
    cgroup: u32,
    /// Of its cgroup.
    pub(crate) path: Option<ByteArray>,
}

impl Mirror {
    /// Forgets all, and is what `structure` says. Numbers of clients and tasks go on.
    pub(crate) fn replace(&mut self, structure: &Structure) {
        let Mirror { clients_ever, tasks_ever, .. } = *self;
        *self = Mirror { clients_ever, tasks_ever, ..Mirror::default() };
        self.config = Some(structure.config);
        for node in &structure.cgroups {
            let parent = node.parent.map(|parent| parent.slot());
            self.add_cgroup(node.id.slot(), parent, node.name.clone());
            let cgroup = self.cgroups.get_mut(&node.id.slot()).expect("it was added");
            cgroup.is_removed = node.is_removed;
            cgroup.settings.extend(settings::settings_of(node));
        }
        for node in &structure.clients {
            self.add_client(node.id.slot(), node.cgroup.slot());
        }
        for node in &structure.tasks {
            self.add_task(node.id.slot(), node.client.slot());
        }
    }

    /// Whether there is a structure at all.
    pub(crate) fn is_known(&self) -> bool {
        self.config.is_some()
    }

    pub(crate) fn add_cgroup(&mut self, slot: u32, parent: Option<u32>, name: String) {
        let settings = BTreeMap::new();
        let path = ByteArray::default();
        self.cgroups.insert(slot, Cgroup { parent, name, path, is_removed: false, settings });
        let path = self.path_of(slot);
        self.cgroups.entry(slot).and_modify(|cgroup| cgroup.path = path);
    }

    fn path_of(&self, slot: u32) -> ByteArray {
        let mut names = Vec::new();
        let mut at = self.cgroups.get(&slot);
        // No cgroup is deeper than there are cgroups, whatever the entries say.
        for _ in 0..self.cgroups.len() {
            let Some(cgroup) = at else { break };
            let Some(parent) = cgroup.parent else { break };
            names.push(cgroup.name.as_str());
            at = self.cgroups.get(&parent);
        }
        names.reverse();
        format!("/{}", names.join("/")).as_str().into()
    }

    pub(crate) fn path(&self, slot: u32) -> Option<ByteArray> {
        self.cgroups.get(&slot).map(|cgroup| cgroup.path.clone())
    }

    pub(crate) fn remove_cgroup(&mut self, slot: u32) {
        self.cgroups.entry(slot).and_modify(|cgroup| cgroup.is_removed = true);
    }

    /// O(cgroups + tasks): all paths are made anew.
    pub(crate) fn move_cgroup(&mut self, slot: u32, parent: u32) {
        self.cgroups.entry(slot).and_modify(|cgroup| cgroup.parent = Some(parent));
        let slots: Vec<u32> = self.cgroups.keys().copied().collect();
        for slot in slots {
            let path = self.path_of(slot);
            self.cgroups.entry(slot).and_modify(|cgroup| cgroup.path = path);
        }
        for task in self.tasks.iter_mut().flatten() {
            task.path = self.cgroups.get(&task.cgroup).map(|cgroup| cgroup.path.clone());
        }
    }

    pub(crate) fn set_cgroup(&mut self, slot: u32, (key, value): SettingText) {
        self.cgroups.entry(slot).and_modify(|cgroup| drop(cgroup.settings.insert(key, value)));
    }

    pub(crate) fn set_client(&mut self, slot: u32, (key, value): SettingText) {
        self.clients.entry(slot).and_modify(|client| drop(client.settings.insert(key, value)));
    }

    /// Takes note of a change of the device's settings.
    pub(crate) fn note_config(&mut self, change: &Change) {
        let Some(config) = &mut self.config else { return };
        match *change {
            Change::SetDepth(depth) => config.depth = depth,
            Change::SetScheduler(kind) => config.scheduler = kind,
            Change::SetBfq(bfq) => config.bfq = bfq,
            _ => {}
        }
    }

    /// The number of the new client.
    pub(crate) fn add_client(&mut self, slot: u32, cgroup: u32) -> u64 {
        self.clients_ever += 1;
        let number = self.clients_ever;
        self.clients.insert(slot, Client { number, cgroup, settings: BTreeMap::new() });
        number
    }

    pub(crate) fn client_number(&self, slot: u32) -> Option<u64> {
        self.clients.get(&slot).map(|client| client.number)
    }

    pub(crate) fn remove_client(&mut self, slot: u32) -> Option<u64> {
        self.clients.remove(&slot).map(|client| client.number)
    }

    /// The number of the new task.
    pub(crate) fn add_task(&mut self, slot: u32, client: u32) -> u64 {
        self.tasks_ever += 1;
        let number = self.tasks_ever;
        let cgroup = self.clients.get(&client).map_or(u32::MAX, |client| client.cgroup);
        let path = self.path(cgroup);
        let at = slot as usize;
        if at >= self.tasks.len() {
            self.tasks.resize_with(at + 1, || None);
        }
        self.tasks[at] = Some(Task { number, client, cgroup, path });
        number
    }

    pub(crate) fn task(&self, slot: u32) -> Option<&Task> {
        self.tasks.get(slot as usize)?.as_ref()
    }

    pub(crate) fn remove_task(&mut self, slot: u32) -> Option<u64> {
        self.tasks.get_mut(slot as usize)?.take().map(|task| task.number)
    }

    /// Writes all of it, as rows without a step.
    pub(crate) fn restate(&self, now_ns: u64, columns: &mut Columns) {
        let Some(config) = &self.config else { return };
        let text = EngineText::from(config);
        let text = serde_json::to_string(&text).expect("a configuration is plain data");
        columns.push(Row { detail: Some(text.as_str().into()), ..Row::new(now_ns, Event::Engine) });
        let set = |settings: &BTreeMap<&'static str, String>, row: Row, columns: &mut Columns| {
            for (key, value) in settings {
                let detail = Some(format!("{key} {value}").as_str().into());
                columns.push(Row { detail, event: Event::Set, ..row.clone() });
            }
        };
        // Parents have the shorter paths.
        let mut cgroups: Vec<&Cgroup> =
            self.cgroups.values().filter(|cgroup| !cgroup.is_removed).collect();
        cgroups.sort_by_key(|cgroup| cgroup.path.len());
        for cgroup in cgroups {
            let row = Row::new(now_ns, Event::CgroupCreated);
            let row = Row { cgroup: Some(cgroup.path.clone()), ..row };
            if cgroup.parent.is_some() {
                columns.push(row.clone());
            }
            set(&cgroup.settings, row, columns);
        }
        for client in self.clients.values() {
            let row = Row::new(now_ns, Event::ClientOpened);
            let row = Row { client: Some(client.number), ..row };
            columns.push(Row { cgroup: self.path(client.cgroup), ..row.clone() });
            set(&client.settings, row, columns);
        }
        for task in self.tasks.iter().flatten() {
            let client = self.client_number(task.client);
            let row = Row::new(now_ns, Event::TaskOpened);
            columns.push(Row { client, task: Some(task.number), ..row });
        }
    }
}
