//! Compose files: `blkio_config` of services.

use weir_engine::Dimension;
use weir_units::clip;

use crate::error::{ImportError, ImportErrorKind};
use crate::plan::Plan;
use crate::yaml::{Id, Tree};
use crate::{Source, amounts, docker};

/// Keys with lists of devices and their rates.
const RATES: [(&str, Dimension); 4] = [
    ("device_read_bps", Dimension::Rbps),
    ("device_write_bps", Dimension::Wbps),
    ("device_read_iops", Dimension::Riops),
    ("device_write_iops", Dimension::Wiops),
];

pub(crate) fn read(text: &str, _: Source<'_>, plan: &mut Plan) -> Result<(), ImportError> {
    let tree = Tree::parse(text)?;
    let services = tree.root().and_then(|root| tree.get(root, "services"));
    let Some(services) = services else { return Ok(()) };
    for (name, service) in tree.pairs(services) {
        if let Some(blkio) = tree.get(service, "blkio_config") {
            Service { tree: &tree, plan, name }.read(blkio)?;
        }
    }
    Ok(())
}

struct Service<'r> {
    tree: &'r Tree,
    plan: &'r mut Plan,
    name: &'r str,
}

impl Service<'_> {
    fn read(mut self, blkio: Id) -> Result<(), ImportError> {
        let tree = self.tree;
        let cgroup = self.plan.cgroup(&[self.name], tree.at(blkio))?;
        for (key, dimension) in RATES {
            for entry in self.entries(blkio, key) {
                let device = self.device(entry)?;
                let (text, at) = (scalar(tree, entry, "rate")?, tree.at(entry));
                let rate = docker::rate(at, key, text, dimension)?;
                self.plan.limit(cgroup, device, dimension, Some(rate), at)?;
            }
        }
        for entry in self.entries(blkio, "weight_device") {
            let device = self.device(entry)?;
            let (text, at) = (scalar(tree, entry, "weight")?, tree.at(entry));
            let weight = docker::number(at, "weight_device", text)?;
            self.plan.weigh(cgroup, Some(device), weight, at)?;
        }
        if let Some(weight) = tree.get(blkio, "weight") {
            let (text, at) = (tree.text(weight).unwrap_or_default(), tree.at(weight));
            let weight = docker::number(at, "weight", text)?;
            if weight > 0 {
                self.plan.note_on(cgroup, at, format!("weight: {}", docker::WEIGHT))?;
                self.plan.weigh(cgroup, None, weight, at)?;
            }
        }
        for (key, value) in tree.pairs(blkio) {
            let is_known = ["weight", "weight_device", "<<"].contains(&key)
                || RATES.iter().any(|(known, _)| *known == key);
            if !is_known {
                let text = format!("{}: not known here, left out", clip(key));
                self.plan.note_on(cgroup, tree.at(value), text)?;
            }
        }
        Ok(())
    }

    fn entries(&self, blkio: Id, key: &str) -> Vec<Id> {
        self.tree.get(blkio, key).map(|list| self.tree.items(list).to_vec()).unwrap_or_default()
    }

    fn device(&mut self, entry: Id) -> Result<usize, ImportError> {
        let path = scalar(self.tree, entry, "path")?;
        self.plan.device_at(path, self.tree.at(entry))
    }
}

/// The text of `key` in the mapping `entry`.
fn scalar<'t>(tree: &'t Tree, entry: Id, key: &str) -> Result<&'t str, ImportError> {
    let text = tree.get(entry, key).and_then(|value| tree.text(value));
    let at = tree.at(entry);
    text.ok_or_else(|| match key {
        "path" => at.error(ImportErrorKind::Path { path: String::new() }),
        _ => at.wrong(key, "", amounts::PLAIN),
    })
}
