//! `weir demo watermark`: limits that bind only when the disk is busy, live.

mod frame;
mod plan;
mod rates;
mod story;

use std::time::Duration;

use weir_server::control::Client;

use self::plan::Tenant;
use self::rates::{Rates, Reading};
use super::job::Working;
use super::server::Server;
use super::watch::Watch;
use super::{broken, check};
use crate::clock;
use crate::failure::Failure;
use crate::output::{self, Format};

/// Default time: 8 s for each of three parts.
const SECONDS: u64 = 24;

/// One part of the demo, for programs.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
struct Part {
    part: &'static str,
    /// Over the second half of the part, when all has settled.
    tenants: Vec<Figures>,
    utilisation_percent: f64,
    limit_multiplier: f64,
}

/// One tenant in one part.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
struct Figures {
    cgroup: String,
    limit_bytes_per_sec: Option<u64>,
    read_bytes_per_sec: f64,
}

/// Two with limits alone, then with a third that has none, then alone again.
pub(super) async fn run(
    watch: &mut Watch,
    seconds: Option<u64>,
    format: Format,
) -> Result<(), Failure> {
    let each = (seconds.unwrap_or(SECONDS) / 3).max(1);
    let server = Server::start(&plan::config()).map_err(broken)?;
    let control = Client::new(&server.control());
    let start =
        |tenant: &Tenant| Working::start(plan::JOB, &server.socket(), tenant.name).map_err(broken);
    let [one, two, three] = &plan::TENANTS;
    watch.screen.say(&story::opening())?;
    let mut working = vec![start(one)?, start(two)?];
    let mut rates = Rates::default();
    let mut parts = vec![part(watch, &control, &working, &mut rates, "alone", each).await?];
    watch.screen.say(story::arrives())?;
    working.push(start(three)?);
    parts.push(
        part(watch, &control, &working, &mut rates, "beside one without a limit", each).await?,
    );
    watch.screen.say(story::leaves())?;
    working.pop().into_iter().for_each(Working::end);
    parts.push(part(watch, &control, &working, &mut rates, "alone again", each).await?);
    watch.screen.say(&story::closing(&parts))?;
    match format {
        Format::Table => Ok(()),
        Format::Json => output::print_json(&parts, false),
    }
}

/// Lets time pass, and says how it was in the second half of it.
async fn part(
    watch: &mut Watch,
    control: &Client,
    working: &[Working],
    rates: &mut Rates,
    name: &'static str,
    seconds: u64,
) -> Result<Part, Failure> {
    // Pictures may be further apart than that.
    let asks = control.clone();
    let halfway = std::thread::spawn(move || {
        clock::sleep(Duration::from_secs(seconds) / 2);
        super::reading(&asks)
    });
    watch
        .run(seconds, |screen, _, elapsed| {
            check(working)?;
            rates.note(Reading::of(&super::reading(control)?)?);
            let mut picture = frame::picture(rates, |text| screen.dim(text));
            picture.push(String::new());
            picture.push(screen.dim(&super::frame::progress(elapsed, seconds)));
            Ok(picture)
        })
        .await?;
    let last = Reading::of(&super::reading(control)?)?;
    let from = halfway.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let from = Reading::of(&from)?;
    let tenants = plan::TENANTS.iter().zip(last.bytes_per_sec_since(&from));
    Ok(Part {
        part: name,
        tenants: tenants
            .map(|(tenant, read_bytes_per_sec)| Figures {
                cgroup: tenant.cgroup(),
                limit_bytes_per_sec: tenant.limit,
                read_bytes_per_sec,
            })
            .collect(),
        utilisation_percent: last.utilisation_percent_since(&from),
        limit_multiplier: last.multiplier,
    })
}
