//! Files and commands that the manual and the help show, tried: configurations, scenarios, models, runs of the lab.

use std::os::unix::fs::PermissionsExt;

use weir_config::GovernConfig;

use super::page::{self, Page, words};
use crate::support::Place;

/// Images of absolute paths are in the place of the test, as large as the configurations here want.
const IMAGE_BYTES: u64 = 1 << 40;

/// Kind of a block of TOML.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Configuration,
    Scenario,
    Model,
}

fn kind_of(block: &str) -> Kind {
    match block {
        _ if ["[server]", "[record]", "[device.", "[cgroup.", "[export."]
            .iter()
            .any(|section| block.contains(section)) =>
        {
            Kind::Configuration
        }
        _ if block.contains("\njob = ") => Kind::Scenario,
        _ => Kind::Model,
    }
}

/// What a block of a file in `weir.d` is read over.
const OVERLAID: &str = r#"
[device.disk0]
path = "memory:1G"
[cgroup."/vm1"]
"io.max" = "disk0 wiops=100"
[export.vm1]
device = "disk0"
cgroup = "/vm1"
[export.old]
device = "disk0"
cgroup = "/vm1"
"#;

/// A whole configuration from a block that may show a part of one.
fn completed(block: &str) -> String {
    let has = |text: &str| block.contains(text);
    let mut text = block.to_owned();
    if !has("path = ") {
        text.insert_str(0, "[device.disk0]\npath = \"memory:1G\"\n\n");
    }
    if !has("[export.") {
        let start = text.find("[device.").expect("a device") + "[device.".len();
        let device = text[start..].split([']', '.']).next().expect("a part").to_owned();
        text += &format!(
            "\n[cgroup.\"/added\"]\n\n[export.added]\ndevice = \"{device}\"\ncgroup = \"/added\"\n"
        );
    }
    text
}

/// Lays out what a page has its reader make, and what a configuration finds at absolute paths; gives the configuration
/// with those paths moved into the place.
fn laid_out(place: &Place, page: &Page, text: &str) -> String {
    let image = |name: &str, bytes| {
        let file = std::fs::File::create(place.path().join(name)).unwrap();
        file.set_len(bytes).unwrap();
    };
    for block in page.blocks() {
        for line in block.text.lines() {
            let words = words(line.trim_start_matches("$ "));
            let words: Vec<&str> = words.iter().map(String::as_str).take(4).collect();
            if let ["truncate", "-s", size, name] = words[..] {
                let size = size.strip_suffix('G').expect("a size in G");
                image(name, size.parse::<u64>().unwrap() << 30);
            }
        }
    }
    let mut moved = String::new();
    for line in text.lines() {
        match line.strip_prefix("path = \"/").and_then(|rest| rest.split_once('"')) {
            Some((path, rest)) => {
                let name = path.replace('/', "-");
                image(&name, IMAGE_BYTES);
                moved += &format!("path = \"{name}\"{rest}\n");
            }
            // A recording is made where its parent is there.
            None if line.starts_with("directory = ") => moved += "directory = \"recording\"\n",
            None => moved = moved + line + "\n",
        }
    }
    moved
}

/// Certificate and key of a server, and a CA, by the names that the manual gives them.
pub(crate) fn certify(place: &Place) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    place.file("ca.crt", &certificate);
    place.file("server.crt", &certificate);
    let path = place.file("server.key", &key.serialize_pem());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn the_files_of_the_manual_are_right() {
    let (mut configurations, mut others) = (0, 0);
    for page in page::all() {
        let place = Place::new("docs-files");
        let blocks: Vec<_> = page.blocks_in("toml").collect();
        let model = "size = 1000204886016\nrbps = 99171763\nrseqiops = 24197\nrrandiops = 197\n";
        for block in &blocks {
            // A device's model is a file beside the configuration.
            for line in block.text.lines().filter(|line| line.starts_with("model = ")) {
                place.file(line.split('"').nth(1).expect("a name"), model);
            }
        }
        if blocks.iter().any(|block| block.text.contains("[tls]")) {
            certify(&place);
        }
        place.file("any.fio", "[any]\nrw=randread\ndirect=1\nsize=1m\n");
        for block in &blocks {
            if block.text.starts_with("# weir.d/") {
                std::fs::create_dir(place.path().join("over.d")).unwrap();
                place.file("over.d/20.toml", block.text);
                place.file("over.toml", OVERLAID);
                let (status, _, err) = place.run_inside(&["config", "check", "over.toml"]);
                assert_eq!((status, err.as_str()), (0, ""), "{}:\n{}", page.name, block.text);
                continue;
            }
            if block.text.starts_with("watermark = ") {
                let path = place.file("govern.toml", block.text);
                if let Err(errors) = GovernConfig::from_file(path.as_ref()) {
                    panic!("{}:\n{}\n{errors}", page.name, block.text);
                }
                continue;
            }
            let kind = kind_of(block.text);
            let text = match kind {
                Kind::Configuration => laid_out(&place, &page, &completed(block.text)),
                Kind::Scenario | Kind::Model => block.text.to_owned(),
            };
            place.file("tried.toml", &text);
            let command: &[&str] = match kind {
                Kind::Configuration => &["config", "check", "tried.toml"],
                Kind::Scenario => &["lab", "run", "tried.toml"],
                Kind::Model => &["lab", "run", "any.fio", "--disk", "tried.toml"],
            };
            let (status, _, err) = place.run_inside(command);
            assert_eq!((status, err.as_str()), (0, ""), "{}:\n{text}", page.name);
            match kind {
                Kind::Configuration => configurations += 1,
                Kind::Scenario | Kind::Model => others += 1,
            }
        }
    }
    assert!(configurations >= 9 && others >= 2, "{configurations} and {others}");
}

/// Each example of `weir lab`'s help runs, where the files that it names are there, and says nothing on standard error.
#[test]
fn the_examples_of_the_labs_help_run() {
    let place = Place::new("docs-help");
    for name in ["job.fio", "before.fio", "after.fio"] {
        let global = "[global]\nrw=randread\ndirect=1\nsize=16m\nruntime=1\ntime_based\n";
        place.file(name, &format!("{global}[a]\ncgroup=vm1\n[b]\n"));
    }
    let trace = (0..100).map(|at| {
        format!("{},srv,0,Read,{},4096,100\n", 128_166_372_000_000_000u64 + at * 1000, at * 4096)
    });
    place.file("web_0.csv", &trace.collect::<String>());
    let gzip = std::process::Command::new("gzip")
        .args(["-c", "web_0.csv"])
        .current_dir(place.path())
        .output();
    std::fs::write(place.path().join("trace.csv.gz"), gzip.expect("gzip runs").stdout).unwrap();
    let configuration = "[device.disk0]
path = \"memory:1G\"
[cgroup.\"/vm1\"]
\"io.max\" = \"disk0 riops=50\"
";
    place.file(
        "weir.toml",
        &(configuration.to_owned()
            + "[export.a]
device = \"disk0\"
cgroup = \"/vm1\"
"),
    );
    let mut count = 0;
    for command in ["run", "compare", "sweep", "list"] {
        let (_, help, _) = place.run(&["lab", command, "--help"]);
        let (_, examples) = help.split_once("Examples:\n").expect("examples");
        for line in examples.lines().take_while(|line| line.starts_with("  ")) {
            // It takes a server that has recorded: the end-to-end tests have one.
            if line.contains("--from ") {
                continue;
            }
            let (line, _) = line.split_once('|').unwrap_or((line, ""));
            let words = words(&line.replace("/etc/weir/weir.toml", "weir.toml"));
            let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            let (status, out, err) = place.run_inside(&arguments);
            assert_eq!((status, err.as_str()), (0, ""), "{line}");
            assert!(!out.contains("had nothing to do"), "{line}:\n{out}");
            count += 1;
        }
    }
    assert!(count >= 15, "{count} examples");
}

#[test]
fn the_columns_of_traces_in_the_manual_are_right() {
    let mut count = 0;
    for page in page::all() {
        let codes = page.text.split(|letter: char| letter.is_whitespace() || letter == '`');
        for code in codes.map(|code| code.trim_start_matches("trace.format=")) {
            let is_whole = code.contains('=') && !code.contains('…');
            if is_whole && (code.starts_with("csv:") || code.starts_with("words:")) {
                let format = code.parse::<weir_trace::Format>();
                format.unwrap_or_else(|error| panic!("{}: {code}: {error}", page.name));
                count += 1;
            }
        }
    }
    assert!(count >= 9, "{count}");
}
