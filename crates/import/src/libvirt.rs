//! Domain XML of libvirt: `<iotune>` of each disk, and the domain's `<blkiotune>`.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use roxmltree::{Document, Node, ParsingOptions};
use weir_engine::Dimension;
use weir_units::clip;

use crate::error::{At, ImportError, ImportErrorKind};
use crate::plan::Plan;
use crate::{Source, amounts, default_cgroup};

/// Most elements, attributes and texts: more than a text of the longest length has that means something.
const NODES_MAX: u32 = 200_000;

/// Longest message of the parser that is kept, in characters: names of the text are in it.
const MESSAGE_MAX: usize = 200;

/// Smallest and largest `iops_size` of a device.
const IOPS_SIZE: std::ops::RangeInclusive<u64> = 512..=32 << 20;

/// Limits on a disk, by the beginning of their elements' names.
const RATES: [(&str, Dimension); 6] = [
    ("total_bytes_sec", Dimension::Rwbps),
    ("read_bytes_sec", Dimension::Rbps),
    ("write_bytes_sec", Dimension::Wbps),
    ("total_iops_sec", Dimension::Rwiops),
    ("read_iops_sec", Dimension::Riops),
    ("write_iops_sec", Dimension::Wiops),
];

pub(crate) fn read(text: &str, source: Source<'_>, plan: &mut Plan) -> Result<(), ImportError> {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let (line, column) = (error.pos().row as usize, error.pos().col as usize);
        let message: String =
            error.to_string().chars().filter(|c| !c.is_control()).take(MESSAGE_MAX).collect();
        // The place is told anyway.
        let place = format!(" at {line}:{column}");
        let message = message.strip_suffix(&place).unwrap_or(&message).to_owned();
        At { line, column }.error(ImportErrorKind::Xml { message })
    })?;
    let reader = Reader { lines: Lines::new(text), plan };
    reader.domain(document.root_element(), source)
}

/// Where lines begin.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Lines<'t> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines { text, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    /// The line of `node`; its column costs a walk along the line, and errors alone have it.
    fn line(&self, node: Node<'_, '_>) -> At {
        At::line(self.starts.partition_point(|start| *start <= node.range().start))
    }

    fn exact(&self, node: Node<'_, '_>) -> At {
        let line = self.line(node).line;
        let before = self.text.get(self.starts[line - 1]..node.range().start).unwrap_or_default();
        At { line, column: before.chars().count() + 1 }
    }
}

/// `<iotune>` of a disk.
#[derive(Clone, Default)]
struct Tune {
    rates: [Rate; RATES.len()],
    size: Option<u64>,
    group: Option<String>,
}

#[derive(Clone, Copy, Default)]
struct Rate {
    average: u64,
    max: u64,
    length: u64,
}

struct Reader<'p, 't> {
    lines: Lines<'t>,
    plan: &'p mut Plan,
}

/// A disk with limits.
struct Disk<'a, 'i> {
    node: Node<'a, 'i>,
    target: &'a str,
    cgroup: usize,
    tune: Tune,
}

impl Reader<'_, '_> {
    fn domain(mut self, root: Node<'_, '_>, source: Source<'_>) -> Result<(), ImportError> {
        let name = child(root, "name").and_then(|name| name.text()).map(str::trim);
        let names = match name {
            Some(name) if root.has_tag_name("domain") && source.cgroup.is_none() => vec![name],
            _ => default_cgroup(source, "vm"),
        };
        let mut disks = Vec::new();
        for node in root.descendants().filter(|node| node.has_tag_name("disk")) {
            let Some(iotune) = child(node, "iotune") else { continue };
            let target = child(node, "target").and_then(|target| target.attribute("dev"));
            let target = target.unwrap_or("disk");
            let path = [names.as_slice(), &[target]].concat();
            let cgroup = self.plan.cgroup(&path, self.lines.line(node))?;
            let tune = self.tune(iotune, cgroup)?;
            disks.push(Disk { node, target, cgroup, tune });
        }
        self.share_groups(&mut disks)?;
        for disk in &disks {
            self.disk(&names, disk)?;
        }
        for node in root.children().filter(|node| node.has_tag_name("throttlegroups")) {
            let text = "<throttlegroups> are left out: write the limits of each on a cgroup above its disks";
            self.plan.note(self.lines.line(node), text.to_owned())?;
        }
        if let Some(blkiotune) = child(root, "blkiotune") {
            self.blkiotune(blkiotune, &names)?;
        }
        Ok(())
    }

    fn tune(&mut self, iotune: Node<'_, '_>, cgroup: usize) -> Result<Tune, ImportError> {
        let mut tune = Tune::default();
        for node in iotune.children().filter(Node::is_element) {
            let name = node.tag_name().name();
            if name == "group_name" {
                tune.group = node.text().map(|text| text.trim().to_owned());
                continue;
            }
            let found = RATES
                .iter()
                .enumerate()
                .find_map(|(index, (start, _))| name.strip_prefix(start).map(|rest| (index, rest)));
            match found {
                Some((index, "")) => tune.rates[index].average = self.number(node)?,
                Some((index, "_max")) => tune.rates[index].max = self.number(node)?,
                Some((index, "_max_length")) => tune.rates[index].length = self.number(node)?,
                _ if name == "size_iops_sec" => tune.size = Some(self.number(node)?),
                _ => {
                    let text = format!("<{}> is not known here: left out", clip(name));
                    self.plan.note_on(cgroup, self.lines.line(node), text)?;
                }
            }
        }
        Ok(tune)
    }

    /// Disks of one group have one limit together in QEMU, whichever of them says it.
    fn share_groups(&mut self, disks: &mut [Disk<'_, '_>]) -> Result<(), ImportError> {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, disk) in disks.iter().enumerate() {
            if let Some(group) = &disk.tune.group {
                groups.entry(group.clone()).or_default().push(index);
            }
        }
        for (group, members) in groups {
            let is_set = |tune: &Tune| tune.rates.iter().any(|rate| rate.average > 0);
            let said = members.iter().map(|index| &disks[*index].tune).find(|tune| is_set(tune));
            let Some(said) = said.cloned() else { continue };
            for index in &members {
                let disk = &mut disks[*index];
                if !is_set(&disk.tune) {
                    disk.tune.clone_from(&said);
                }
                let text = match members.len() {
                    1 => {
                        format!("group_name {:?} has one disk, so it changes nothing", clip(&group))
                    }
                    count => format!(
                        "group_name {:?}: its {count} disks have this limit together in QEMU, and each by itself here; \
                         parts of one device (`range`) can have one together",
                        clip(&group)
                    ),
                };
                let at = self.lines.line(disk.node);
                self.plan.note_on(disk.cgroup, at, text)?;
            }
        }
        Ok(())
    }

    fn disk(&mut self, names: &[&str], disk: &Disk<'_, '_>) -> Result<(), ImportError> {
        let (node, at) = (disk.node, self.lines.line(disk.node));
        let source = child(node, "source");
        let path = source.and_then(|node| node.attribute("file").or(node.attribute("dev")));
        let name = format!("{}-{}", names.last().copied().unwrap_or_default(), disk.target);
        // A path that no file has, so that what is limited is still there to be filled in.
        let missing = format!("{name}.img");
        let device = self.plan.device(path.unwrap_or(&missing), &name, at)?;
        if path.is_none() {
            let text = format!(
                "disk {}: its source is no file and no device: write the path of one that Weir is to serve",
                clip(disk.target)
            );
            self.note_on_device(device, at, text);
        }
        let driver = child(node, "driver").and_then(|driver| driver.attribute("type"));
        if let Some(kind) = driver.filter(|kind| *kind != "raw") {
            let text = format!(
                "the image is {}: Weir serves the bytes of the file, and QEMU goes on to read them as that; it cannot grow",
                clip(kind)
            );
            self.note_on_device(device, at, text);
        }
        self.plan.devices[device].is_read_only |= child(node, "readonly").is_some();
        self.rates(&disk.tune, disk.cgroup, device, at)?;
        if let Some(size) = disk.tune.size.filter(|size| *size > 0) {
            let fitting = size.clamp(*IOPS_SIZE.start(), *IOPS_SIZE.end());
            self.plan.devices[device].iops_size = Some(fitting);
            if fitting != size {
                let text = format!("size_iops_sec of {size} is {fitting} here");
                self.note_on_device(device, at, text);
            }
        }
        Ok(())
    }

    fn note_on_device(&mut self, device: usize, at: At, text: String) {
        self.plan.devices[device].notes.push(format!("line {}: {text}", at.line));
    }

    /// A burst of QEMU is `max` for `max_length` seconds. Of one second it goes at once, a longer one at the rate `max`.
    fn rates(
        &mut self,
        tune: &Tune,
        cgroup: usize,
        device: usize,
        at: At,
    ) -> Result<(), ImportError> {
        for ((start, dimension), rate) in RATES.into_iter().zip(tune.rates) {
            if rate.average > 0 {
                self.plan.limit(cgroup, device, dimension, Some(rate.average), at)?;
            }
            if rate.length > 0 && rate.max == 0 {
                let text = format!("{start}_max_length is left out: there is no {start}_max");
                self.plan.note_on(cgroup, at, text)?;
            }
            let most = |value: u64| NonZeroU64::new(value.min(dimension.largest()));
            let length = rate.length.max(1);
            let limits = &mut self.plan.on(cgroup, device, at)?.limits;
            limits.burst.set(dimension, most(rate.max.saturating_mul(length)));
            let peak = if length > 1 { most(rate.max) } else { None };
            limits.peak.set(dimension, peak);
        }
        Ok(())
    }

    /// Weight and limits of the domain's cgroup, on devices of the host.
    fn blkiotune(&mut self, blkiotune: Node<'_, '_>, names: &[&str]) -> Result<(), ImportError> {
        let cgroup = self.plan.cgroup(names, self.lines.line(blkiotune))?;
        for node in blkiotune.children().filter(Node::is_element) {
            let at = self.lines.line(node);
            match node.tag_name().name() {
                "weight" => {
                    let weight = self.number(node)?;
                    self.plan.weigh(cgroup, None, weight, at)?;
                }
                "device" => self.host_device(node, cgroup)?,
                name => {
                    let text = format!("<{}> is not known here: left out", clip(name));
                    self.plan.note_on(cgroup, at, text)?;
                }
            }
        }
        Ok(())
    }

    fn host_device(&mut self, node: Node<'_, '_>, cgroup: usize) -> Result<(), ImportError> {
        let at = self.lines.line(node);
        let path = child(node, "path").and_then(|path| path.text()).unwrap_or_default().trim();
        let known = self.plan.devices.len();
        let device = self
            .plan
            .device_at(path, at)
            .map_err(|error| self.lines.exact(node).error(error.kind))?;
        if device == known {
            let text = "<blkiotune> limits what the machine does on this device of the host, whatever else is on it: \
                        take its export out unless all of it is the machine's";
            self.note_on_device(device, at, text.to_owned());
        }
        for node in node.children().filter(Node::is_element) {
            let (name, at) = (node.tag_name().name(), self.lines.line(node));
            let rate = RATES.iter().find(|(rate, dimension)| *rate == name && !dimension.is_rw());
            match (name, rate) {
                ("path", _) => {}
                ("weight", _) => {
                    let weight = self.number(node)?;
                    self.plan.weigh(cgroup, Some(device), weight, at)?;
                }
                (_, Some((_, dimension))) => {
                    let value = self.number(node)?;
                    if value > 0 {
                        self.plan.limit(cgroup, device, *dimension, Some(value), at)?;
                    }
                }
                _ => {
                    let text = format!("<{}> is not known here: left out", clip(name));
                    self.plan.note_on(cgroup, at, text)?;
                }
            }
        }
        Ok(())
    }

    fn number(&self, node: Node<'_, '_>) -> Result<u64, ImportError> {
        let text = node.text().unwrap_or_default().trim();
        amounts::plain(text).ok_or_else(|| {
            self.lines.exact(node).wrong(node.tag_name().name(), text, amounts::PLAIN)
        })
    }
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}
