//! The live page in a real browser, with fio behind it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use weir_tests::{Browser, Peer, Place, Server, eventually, peer, pypi_file, weir};

/// The package that has axe-core, which looks for what a person with a screen reader or without a mouse could not use.
const AXE: (&str, &str) = ("axe-playwright-python==0.1.8", "axe_playwright_python/axe.min.js");

/// A program that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(place: &Place) -> Server {
    Server::config(
        place,
        r#"
        [device.disk0]
        path = "emulated:null,latency=2ms,size=64M"
        scheduler = "bfq"
        [cgroup."/tenants/noisy"]
        [cgroup."/tenants/quiet"]
        "io.max" = "disk0 riops=50"
        [cgroup."/tenants/<b>&amp;"]
        [export.noisy]
        device = "disk0"
        cgroup = "/tenants/noisy"
        [export.quiet]
        device = "disk0"
        cgroup = "/tenants/quiet"
        "#,
    )
}

/// `weir page`, and the address that it prints.
fn page(server: &Server) -> (Running, String) {
    let mut child = Command::new(weir())
        .args(["page", "--control"])
        .arg(server.control())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut url = String::new();
    let said = child.stdout.take().expect("it is piped");
    BufReader::new(said).read_line(&mut url).expect("it prints an address");
    (Running(child), url.trim().to_owned())
}

/// fio reads from an export for as long as it is held.
fn load(fio: &Peer, uri: &str, depth: u32) -> Running {
    let child = Command::new(fio.program())
        .args(["--name=load", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--size=64m"])
        .args(["--time_based", "--runtime=300", &format!("--iodepth={depth}")])
        .arg(format!("--uri={uri}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("fio starts");
    Running(child)
}

/// Findings of axe-core that are serious.
fn serious(browser: &Browser, axe: &str) -> Vec<String> {
    browser.run(axe);
    let found = browser.run(
        "return axe.run({resultTypes: ['violations']}).then((all) => all.violations
           .filter(({impact}) => impact === 'serious' || impact === 'critical')
           .map(({id, help, nodes}) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html).join(' ')}`))",
    );
    let found = found.as_array().expect("a list").iter();
    found.map(ToString::to_string).collect()
}

/// The words in an element.
fn words(browser: &Browser, selector: &str) -> String {
    browser.text(&format!("return document.querySelector({selector:?})?.innerText ?? ''"))
}

#[test]
fn the_page_names_the_noisy_tenant_and_says_when_the_server_is_gone() {
    let Some(fio) = peer("fio") else { return };
    let place = Place::new();
    let Some(browser) = Browser::start(&place) else { return };
    let axe =
        pypi_file(AXE.0, AXE.1).map(|path| std::fs::read_to_string(path).expect("it is text"));
    let server = serve(&place);
    let (shown, url) = page(&server);
    browser.resize(1280, 900);
    browser.set_dark(false);
    browser.open(&url);
    eventually("it shows that nothing happens", || {
        words(&browser, "#findings").contains("No cgroup had any requests")
    });

    let loads = [load(&fio, &server.uris()[0], 32), load(&fio, &server.uris()[1], 4)];
    eventually("it names the noisy tenant", || {
        let first = words(&browser, "#findings li");
        let percent =
            first.strip_prefix("/tenants/noisy had ").and_then(|rest| rest.split(' ').next());
        percent.and_then(|percent| percent.parse::<u32>().ok()).is_some_and(|percent| percent > 80)
    });
    eventually("it says what holds the other one", || {
        words(&browser, "#findings").contains("/tenants/quiet waited")
            && words(&browser, "#findings").contains("its own limit")
    });
    assert_eq!(words(&browser, "#state"), "live");
    let legend = words(&browser, "#reads .legend");
    assert!(legend.contains("/tenants/noisy") && legend.contains("(riops)"), "{legend}");
    let matrix = words(&browser, "#waits thead");
    assert!(
        matrix.contains("limit of /tenants/quiet") && matrix.contains("the device"),
        "{matrix}"
    );
    let table = words(&browser, "#cgroups");
    assert!(table.contains("/tenants/<b>&amp;"), "names are text: {table}");
    // What is left and what other widths have is seen to be whole.
    let drawn = browser.run(
        "return ['#reads', '#percentiles', '#p99', '#utilisation', '#requests', '#merges']
           .filter((id) => !document.querySelector(`${id} .line`))",
    );
    assert_eq!(drawn, serde_json::json!([]), "these have no line");
    let is_hot = "const canvas = document.querySelector('#heat canvas');
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.some((value) => value > 0)";
    assert_eq!(browser.run(is_hot), true, "the heat map is empty");

    for (name, width, is_dark) in
        [("light", 1280, false), ("dark", 1280, true), ("phone", 360, false)]
    {
        browser.resize(width, 900);
        browser.set_dark(is_dark);
        eventually("it is drawn anew", || {
            browser.run("return document.querySelector('#heat canvas').width <= innerWidth") == true
        });
        let scrolls = browser.run("return document.documentElement.scrollWidth - innerWidth");
        assert!(scrolls.as_i64() <= Some(0), "{name}: it is {scrolls} pixels too wide");
        if let Some(axe) = &axe {
            assert_eq!(serious(&browser, axe), [""; 0], "{name}");
        }
    }
    assert_eq!(browser.console(), [""; 0]);

    drop(loads);
    server.stop();
    eventually("it says that the server is gone", || {
        let state = words(&browser, "#state");
        state.contains("is ending") || state.contains("does not answer")
    });
    let server = Server::again(&place, 2);
    eventually("it comes back", || words(&browser, "#state") == "live");
    let said = browser.console();
    assert!(!said.iter().any(|line| line.contains("Content Security Policy")), "{said:?}");
    drop((browser, shown));
    server.stop();
}

#[test]
fn the_page_is_there_for_those_that_know_its_address() {
    let Some(curl) = peer("curl") else { return };
    let place = Place::new();
    let server = serve(&place);
    let (shown, url) = page(&server);
    let status = |arguments: &[&str]| {
        let flags = ["-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}"];
        curl.run(&[&flags, arguments].concat())
    };
    let (beginning, _) = url.rsplit_once('/').expect("it has a path");
    let (root, _) = beginning.rsplit_once('/').expect("it has a secret");
    assert_eq!(status(&[&url]), "200");
    assert_eq!(status(&["-H", "Host: evil.example", &url]), "403");
    assert_eq!(status(&["-H", "Origin: http://evil.example", &url]), "403");
    assert_eq!(status(&[&format!("{root}/page")]), "404");
    assert_eq!(status(&[&format!("{beginning}/v1/status")]), "404");
    assert_eq!(status(&["-d", "{}", &url]), "405");
    let events = curl.ends(&["-sS", "-N", "-m", "4", &format!("{beginning}/v1/live")]).stdout;
    assert!(events.contains("retry: 250") && events.contains("event: live"), "{events}");
    drop(shown);
    server.stop();
}
