//! Chromium without a screen, driven over WebDriver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::{PATIENCE, Place, peer};

/// A browser with one window, ended when dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    /// Held, so that the driver can write there.
    _said: BufReader<ChildStdout>,
    port: u16,
    session: String,
}

impl Browser {
    /// `None` where Chromium or its driver is not installed, as [`peer`].
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(place: &Place) -> Option<Browser> {
        let (chromium, driver) = (peer("chromium")?, peer("chromedriver")?);
        let mut driver = Command::new(driver.program())
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the driver starts");
        let mut said = BufReader::new(driver.stdout.take().expect("it is piped"));
        let started = said.by_ref().lines().map_while(Result::ok);
        let port = started
            .filter_map(|line| line.split("successfully on port ").nth(1).map(str::to_owned))
            .find_map(|port| port.trim_end_matches('.').parse().ok())
            .expect("the driver says its port");
        let mut browser = Browser { driver, _said: said, port, session: String::new() };
        let profile = format!("--user-data-dir={}", place.file("profile").display());
        let arguments = [
            "--headless=new",
            // Root has no sandbox of user namespaces, and the page is ours.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            &profile,
        ];
        let made = browser.ask(
            "POST",
            "/session",
            &json!({ "capabilities": { "alwaysMatch": {
                "goog:chromeOptions": { "binary": chromium.program(), "args": arguments },
                "goog:loggingPrefs": { "browser": "ALL" },
            } } }),
        );
        let session = made["sessionId"].as_str().expect("it has a session");
        browser.session = format!("/session/{session}");
        Some(browser)
    }

    /// Shows a page, once that has been loaded.
    pub fn open(&self, url: &str) {
        self.tell("/url", &json!({ "url": url }));
    }

    /// What `script` returns, the body of a function; of a promise its value.
    pub fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What it returns, as text.
    pub fn text(&self, script: &str) -> String {
        match self.run(script) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// Gives the window this size, in CSS pixels, as on a phone or not.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.command("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Whether pages are to see a system with dark colours.
    pub fn set_dark(&self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.command("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// What has been said on the console since the last call: errors, and violations of a policy.
    pub fn console(&self) -> Vec<String> {
        let log = self.tell("/se/log", &json!({ "type": "browser" }));
        let lines = log.as_array().into_iter().flatten();
        lines.map(|line| format!("{}: {}", line["level"], line["message"])).collect()
    }

    /// The whole page as a PNG in base64.
    pub fn screenshot(&self) -> String {
        let how = json!({ "format": "png", "captureBeyondViewport": true });
        let shot = self.command("Page.captureScreenshot", &how);
        shot["data"].as_str().expect("it is text").to_owned()
    }

    /// A command of Chromium's own protocol.
    fn command(&self, name: &str, parameters: &Value) -> Value {
        self.tell("/goog/cdp/execute", &json!({ "cmd": name, "params": parameters }))
    }

    fn tell(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.exchange(method, path, body).expect("the driver answers");
        let value: Value = serde_json::from_slice(&answer).expect("it answers with JSON");
        assert!(value["value"]["error"].is_null(), "{path}: {value:.2000}");
        value["value"].clone()
    }

    fn exchange(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        // The first start of a browser takes long on a busy machine.
        stream.set_read_timeout(Some(2 * PATIENCE))?;
        let body = body.to_string();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut stream = BufReader::new(stream);
        let mut len = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            if let Some(("content-length", value)) =
                line.to_ascii_lowercase().split_once(':').map(|(name, value)| (name, value.trim()))
            {
                len = value.parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; len];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session, and not with its driver.
        if !self.session.is_empty() {
            let _ = self.exchange("DELETE", &self.session, &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
