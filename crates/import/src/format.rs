//! Formats that are imported.

/// Format of a text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Domain XML of libvirt: `<iotune>` of disks, and `<blkiotune>`.
    Libvirt,
    /// Units and drop-ins of systemd, and what `systemctl show` and `systemctl cat` print.
    Systemd,
    /// Command lines of `docker run`, also of Podman.
    Docker,
    /// Compose files: `blkio_config` of services.
    Compose,
    /// Lines of `io.max` and `io.weight`, also with their file before each, as `grep` prints them.
    Cgroup,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 5] =
        [Format::Libvirt, Format::Systemd, Format::Docker, Format::Compose, Format::Cgroup];

    /// The format of `text`, by what it begins with, the end of its file's name, and its words; `None` where that does not tell.
    pub fn guess(text: &str, file: Option<&str>) -> Option<Format> {
        let ends = |suffix: &str| file.is_some_and(|file| file.ends_with(suffix));
        let start = text.trim_start_matches('\u{feff}').trim_start();
        if start.starts_with('<') {
            return Some(Format::Libvirt);
        }
        if [".yml", ".yaml"].into_iter().any(ends) {
            return Some(Format::Compose);
        }
        if text.contains("--device-read-")
            || text.contains("--device-write-")
            || text.contains("--blkio-weight")
        {
            return Some(Format::Docker);
        }
        let has_line = |wanted: &dyn Fn(&str) -> bool| text.lines().any(|line| wanted(line.trim()));
        if has_line(&|line| line.starts_with("blkio_config:")) {
            return Some(Format::Compose);
        }
        if has_line(&|line| {
            let key = line.split('=').next().unwrap_or_default();
            line.contains('=') && (key.starts_with("IO") || key.starts_with("BlockIO"))
        }) {
            return Some(Format::Systemd);
        }
        let is_cgroup = |line: &str| {
            ["rbps=", "wbps=", "riops=", "wiops="].iter().any(|key| line.contains(key))
                || line.contains("/io.weight:")
                || line.contains("/io.bfq.weight:")
        };
        has_line(&is_cgroup).then_some(Format::Cgroup)
    }

    /// What it is, in a sentence.
    pub(crate) const fn described(self) -> &'static str {
        match self {
            Format::Libvirt => "libvirt's XML",
            Format::Systemd => "units of systemd",
            Format::Docker => "command lines of Docker",
            Format::Compose => "a Compose file",
            Format::Cgroup => "files of cgroup v2",
        }
    }

    /// What is looked for in it.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Format::Libvirt => "disks with <iotune>, and <blkiotune>",
            Format::Systemd => "IOReadBandwidthMax=, IOWeight= and their like",
            Format::Docker => "--device-read-bps, --blkio-weight and their like",
            Format::Compose => "`blkio_config` of services",
            Format::Cgroup => "lines of io.max and io.weight",
        }
    }

    /// What all limits of it mean otherwise than those of Weir: lines of comment.
    pub(crate) const fn meaning(self) -> &'static [&'static str] {
        match self {
            Format::Libvirt => &[
                "QEMU lets a tenth of a second of a rate go at once where no *_max says otherwise,",
                "Weir a hundredth and at least four requests; `io.burst` sets that.",
            ],
            _ => &[
                "The kernel limits what processes do with the device itself. Weir limits what comes through",
                "its exports: tenants are to use those, for example as /dev/nbdN, and not the device.",
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_a_text_is_guessed() {
        for (text, file, format) in [
            ("<domain/>", None, Some(Format::Libvirt)),
            ("services:\n  db:\n    blkio_config:\n      weight: 1\n", None, Some(Format::Compose)),
            ("services:\n", Some("compose.yaml"), Some(Format::Compose)),
            ("[Service]\nIOWeight=5\n", Some("x.service"), Some(Format::Systemd)),
            ("docker run --blkio-weight=300 x", None, Some(Format::Docker)),
            ("8:16 rbps=1 wbps=max riops=max wiops=max\n", None, Some(Format::Cgroup)),
            ("/sys/fs/cgroup/a/io.weight:default 100\n", None, Some(Format::Cgroup)),
            ("what is this?", None, None),
            ("", None, None),
        ] {
            assert_eq!(Format::guess(text, file), format, "{text}");
        }
    }
}
