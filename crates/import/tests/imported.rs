//! Texts of each format and their configurations, which a server takes.

use weir_config::Config;
use weir_import::{Format, Source, import};

/// The text without comments, of a text that says `file`; a server must take all of it.
fn imported(format: Format, text: &str, file: Option<&str>) -> String {
    let text = import(format, text, Source { file, cgroup: None }).unwrap();
    let config = Config::from_str("imported.toml", &text);
    assert!(config.is_ok(), "{}\n{text}", config.unwrap_err());
    text
}

/// The settings alone.
fn settings(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// The comments that begin with `line`.
fn notes(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| line.starts_with("line "))
        .collect()
}

const DOMAIN: &str = r#"<domain type='kvm'>
  <name>db</name>
  <blkiotune>
    <weight>300</weight>
    <device>
      <path>/dev/sdb</path>
      <weight>500</weight>
      <read_bytes_sec>10485760</read_bytes_sec>
    </device>
  </blkiotune>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/>
      <source file='/var/lib/libvirt/images/db.qcow2'/>
      <target dev='vda' bus='virtio'/>
      <iotune>
        <read_bytes_sec>10000000</read_bytes_sec>
        <write_bytes_sec>0</write_bytes_sec>
        <total_iops_sec>500</total_iops_sec>
        <total_iops_sec_max>2000</total_iops_sec_max>
        <total_iops_sec_max_length>60</total_iops_sec_max_length>
        <read_bytes_sec_max>20000000</read_bytes_sec_max>
        <size_iops_sec>16384</size_iops_sec>
        <read_iops_later>5</read_iops_later>
      </iotune>
    </disk>
    <disk type='block' device='disk'>
      <source dev='/dev/vg/db'/>
      <target dev='vdb'/>
      <iotune><group_name>both</group_name><total_bytes_sec>5242880</total_bytes_sec></iotune>
      <readonly/>
    </disk>
    <disk type='network' device='disk'>
      <source protocol='rbd' name='pool/db'/>
      <target dev='vdc'/>
      <iotune><group_name>both</group_name></iotune>
    </disk>
    <disk type='file'><source file='/free.img'/><target dev='vdd'/></disk>
  </devices>
</domain>"#;

#[test]
fn limits_of_libvirt() {
    let text = imported(Format::Libvirt, DOMAIN, None);
    assert_eq!(
        settings(&text),
        [
            r#"[device."db-vda"]"#,
            r#"path = "/var/lib/libvirt/images/db.qcow2""#,
            "iops_size = 16384",
            r#"[device."db-vdb"]"#,
            r#"path = "/dev/vg/db""#,
            "read_only = true",
            r#"[device."db-vdc"]"#,
            r#"path = "db-vdc.img""#,
            r#"[device."sdb"]"#,
            r#"path = "/dev/sdb""#,
            r#"[cgroup."/db/vda"]"#,
            r#""io.max" = "db-vda rbps=10000000 rwiops=500""#,
            r#""io.burst" = "db-vda rbps=20000000 rwiops=120000""#,
            r#""io.peak" = "db-vda rwiops=2000""#,
            r#"[cgroup."/db/vdb"]"#,
            r#""io.max" = "db-vdb rwbps=5242880""#,
            r#"[cgroup."/db/vdc"]"#,
            r#""io.max" = "db-vdc rwbps=5242880""#,
            r#"[cgroup."/db"]"#,
            r#""io.max" = "sdb rbps=10485760""#,
            r#""io.weight" = ["default 300", "sdb 500"]"#,
            r#"[export."db-vda"]"#,
            r#"device = "db-vda""#,
            r#"cgroup = "/db/vda""#,
            r#"[export."db-vdb"]"#,
            r#"device = "db-vdb""#,
            r#"cgroup = "/db/vdb""#,
            r#"[export."db-vdc"]"#,
            r#"device = "db-vdc""#,
            r#"cgroup = "/db/vdc""#,
            r#"[export."db"]"#,
            r#"device = "sdb""#,
            r#"cgroup = "/db""#,
        ]
    );
    let notes = notes(&text).join("\n");
    for part in [
        "line 5: <blkiotune> limits what the machine does on this device of the host",
        "line 12: the image is qcow2",
        "line 24: <read_iops_later> is not known here",
        "line 33: disk vdc: its source is no file and no device",
        "group_name \"both\": its 2 disks have this limit together in QEMU",
    ] {
        assert!(notes.contains(part), "{part}\n{notes}");
    }
}

#[test]
fn bursts_that_a_server_refuses_are_corrected() {
    let text = "<disk><source file='/a'/><target dev='vda'/><iotune>\
        <read_iops_sec>1</read_iops_sec><read_iops_sec_max>100000</read_iops_sec_max>\
        <read_iops_sec_max_length>10</read_iops_sec_max_length>\
        <write_bytes_sec_max>5</write_bytes_sec_max></iotune></disk>";
    let text = imported(Format::Libvirt, text, None);
    assert!(text.contains("\n\"io.burst\" = \"vm-vda riops=86400\"\n"), "{text}");
    assert!(text.contains("# vm-vda: wbps: a burst of 5 bytes without a rate"), "{text}");
}

#[test]
fn limits_of_a_unit() {
    let unit = "# /etc/systemd/system/backup.service\n[Service]\nSlice=batch-night.slice\n\
        IOReadBandwidthMax=/dev/sdb 20M\nIOWriteBandwidthMax=/dev/sdb \\\n  1.5G\n\
        IOReadIOPSMax=/dev/sdc 2K\nIOReadIOPSMax=\nIOWeight=50\n\
        # /etc/systemd/system/backup.service.d/50-io.conf\n[Service]\n\
        IODeviceWeight=/dev/sdb 20\nIODeviceLatencyTargetSec=/dev/sdb 25ms\nIOWriteIOPSMax=/srv/data infinity\n\
        BlockIOWeight=1000\nExecStart=/usr/bin/backup\n";
    let text = imported(Format::Systemd, unit, None);
    assert_eq!(
        settings(&text),
        [
            r#"[device."sdb"]"#,
            r#"path = "/dev/sdb""#,
            r#"[device."sdc"]"#,
            r#"path = "/dev/sdc""#,
            r#"[device."data"]"#,
            r#"path = "/srv/data""#,
            r#"[cgroup."/batch.slice/batch-night.slice/backup.service"]"#,
            r#""io.max" = "sdb rbps=20000000 wbps=1500000000""#,
            r#""io.weight" = ["default 200", "sdb 20"]"#,
            r#"[export."batch.slice-batch-night.slice-backup.service-sdb"]"#,
            r#"device = "sdb""#,
            r#"cgroup = "/batch.slice/batch-night.slice/backup.service""#,
            r#"[export."batch.slice-batch-night.slice-backup.service-sdc"]"#,
            r#"device = "sdc""#,
            r#"cgroup = "/batch.slice/batch-night.slice/backup.service""#,
            r#"[export."batch.slice-batch-night.slice-backup.service-data"]"#,
            r#"device = "data""#,
            r#"cgroup = "/batch.slice/batch-night.slice/backup.service""#,
        ]
    );
    let notes = notes(&text).join("\n");
    for part in [
        "line 13: IODeviceLatencyTargetSec=/dev/sdb 25ms is left out",
        "line 14: \"/srv/data\" is no device",
        "line 15: BlockIOWeight of 1000 is 200 here",
    ] {
        assert!(notes.contains(part), "{part}\n{notes}");
    }
}

#[test]
fn limits_that_systemctl_shows() {
    let shown = "Id=a.service\nControlGroup=/system.slice/a.service\nIOSchedulingClass=2\nIOSchedulingPriority=4\n\
        IOWeight=[not set]\nIOReadBandwidthMax=/dev/sda 1000000\nIOReadBytes=18446744073709551615\n\n\
        Id=b.service\nSlice=system.slice\nIOWeight=300\nIOReadBandwidthMax=/dev/sda 2000000\n\n\
        Id=c.service\nIOAccounting=no\nIOWeight=[not set]\n";
    let text = imported(Format::Systemd, shown, None);
    assert!(
        text.contains("\n# 2 exports have all of sda: give each its part of it, with `range`\n")
    );
    assert!(
        text.contains("[cgroup.\"/system.slice/a.service\"]\n\"io.max\" = \"sda rbps=1000000\"\n")
    );
    assert!(text.contains(
        "[cgroup.\"/system.slice/b.service\"]\n\"io.max\" = \"sda rbps=2000000\"\n\"io.weight\" = \"default 300\"\n"
    ));
    assert!(!text.contains("c.service"));
    assert!(notes(&text).is_empty(), "{text}");
}

#[test]
fn limits_of_command_lines() {
    let lines = "# what runs here: don't stop\n\
        docker run -d --name db --device-read-bps /dev/sda:10mb \\\n  --device-write-iops=/dev/sda:120 postgres\n\
        podman create --blkio-weight 300 --blkio-weight-device '/dev/sd b:400' img sh -c 'echo\n--name x'\n\
        docker run --name plain alpine\n";
    let text = imported(Format::Docker, lines, None);
    assert_eq!(
        settings(&text)[..10],
        [
            r#"[device."sda"]"#,
            r#"path = "/dev/sda""#,
            r#"[device."sd_b"]"#,
            r#"path = "/dev/sd b""#,
            r#"[cgroup."/db"]"#,
            r#""io.max" = "sda rbps=10485760 wiops=120""#,
            r#"[cgroup."/container"]"#,
            r#""io.weight" = ["default 300", "sd_b 400"]"#,
            r#"[export."db"]"#,
            r#"device = "sda""#,
        ]
    );
    assert!(notes(&text)[0].starts_with("line 4: --blkio-weight: only the ratio"), "{text}");
}

#[test]
fn limits_of_a_compose_file() {
    let file = "x-io: &io\n  device_read_bps:\n    - path: /dev/sda\n      rate: '12mb'\nservices:\n  db:\n    image: postgres\n\
        \x20   blkio_config:\n      <<: *io\n      weight: 300\n      device_write_iops: [{path: /dev/sda, rate: 30}]\n\
        \x20     weight_device:\n        - {path: /dev/sdb, weight: 400}\n      later: 1\n  web: {image: nginx}\n";
    let text = imported(Format::Compose, file, None);
    assert!(text.contains("[cgroup.\"/db\"]\n\"io.max\" = \"sda rbps=12582912 wiops=30\"\n\"io.weight\" = [\"default 300\", \"sdb 400\"]\n"), "{text}");
    assert!(text.contains("# line 14: later: not known here, left out\n"), "{text}");
    assert!(!text.contains("web"));
}

#[test]
fn limits_of_files_of_cgroup_v2() {
    let lines = "/sys/fs/cgroup/system.slice/a.service/io.max:8:16 rbps=2097152 wbps=max riops=max wiops=120\n\
        /sys/fs/cgroup/system.slice/a.service/io.weight:default 50\n\
        /sys/fs/cgroup/system.slice/a.service/io.latency:8:16 target=25000\n";
    let text = imported(Format::Cgroup, lines, None);
    assert_eq!(
        settings(&text)[..5],
        [
            r#"[device."disk-8-16"]"#,
            r#"path = "/dev/block/8:16""#,
            r#"[cgroup."/system.slice/a.service"]"#,
            r#""io.max" = "disk-8-16 rbps=2097152 wiops=120""#,
            r#""io.weight" = "default 50""#,
        ]
    );
    assert!(text.contains("# line 3: io.latency: 8:16 target=25000 is left out"), "{text}");

    let plain = import(
        Format::Cgroup,
        "8:0 rbps=max wbps=4194304\n8:0 200\n",
        Source { file: None, cgroup: Some("/vms/db") },
    );
    assert!(plain.unwrap().contains("[cgroup.\"/vms/db\"]\n\"io.max\" = \"disk-8-0 wbps=4194304\"\n\"io.weight\" = \"disk-8-0 200\"\n"));
}

/// What only weighs has a device all the same, to be filled in.
#[test]
fn weights_without_a_device() {
    let text = imported(Format::Docker, "docker run --blkio-weight=300 x", None);
    assert!(text.contains("# no device is named there"), "{text}");
    assert!(text.contains("[export.\"container\"]\ndevice = \"disk0\"\n"), "{text}");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (format, text, expected) in [
        (
            Format::Libvirt,
            "<disk><source file='/a'/>\n <iotune><read_iops_sec>5k</read_iops_sec></iotune></disk>",
            "2:10: read_iops_sec: \"5k\" is not a whole number",
        ),
        (Format::Libvirt, "<domain>", "1:1: the root node was opened but never closed"),
        (Format::Libvirt, "<a><b></a>", "1:7: expected 'b' tag, not 'a'"),
        (Format::Libvirt, "<domain/>", "1:1: no limit and no weight found"),
        (
            Format::Systemd,
            "[Service]\nIOReadBandwidthMax=/dev/sda 10k\n",
            "2:1: IOReadBandwidthMax: \"10k\" is not a whole number, with K, M, G, T, P or E for powers of 1000, or `infinity`",
        ),
        (
            Format::Systemd,
            "IOReadBandwidthMax=10M",
            "1:1: IOReadBandwidthMax: \"10M\" is not the path of a device and an amount",
        ),
        (
            Format::Docker,
            "docker run x\ndocker run --device-read-iops /dev/sda:10mb x",
            "2:1: --device-read-iops: \"10mb\" is not a whole number",
        ),
        (
            Format::Docker,
            "docker run --name 'x",
            "1:1: the command line has a quotation that does not end",
        ),
        (
            Format::Compose,
            "services:\n  a:\n    blkio_config:\n      device_read_bps:\n        - {path: /dev/sda, rate: fast}\n",
            "5:11: device_read_bps: \"fast\" is not a whole number, with k, m, g, t or p, and b behind, for powers of 1024",
        ),
        (Format::Compose, "services: {}\n", "1:1: no limit and no weight found"),
        (Format::Cgroup, "8:16 rbps=10M", "1:1: rbps: \"10M\" is not a whole number"),
        (
            Format::Cgroup,
            "sda rbps=10",
            "1:1: io.max: \"sda\" is not the number of a device, such as 8:16",
        ),
    ] {
        let error = import(format, text, Source::default()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!error.kind.hint().is_empty());
    }
    let long = " ".repeat(weir_import::TEXT_MAX + 1);
    assert!(import(Format::Docker, &long, Source::default()).is_err());
}
