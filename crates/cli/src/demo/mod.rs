//! `weir demo`: the story of the 2018 blk-throttle fix, live; and that of the watermark.

mod figures;
mod frame;
mod job;
mod nbd;
mod outcome;
mod plan;
mod screen;
mod server;
mod story;
mod watch;
mod watermark;

use std::io;

use weir_lab::report::wrap;
use weir_server::control::{Client, SetRequest};
use weir_server::status::DeviceStatus;

use self::frame::Plot;
use self::job::Working;
use self::outcome::{Outcome, Shared};
use self::server::Server;
use self::watch::Watch;
use crate::failure::Failure;
use crate::output::Format;
use crate::signals;
use crate::status::{Cause, CgroupRates, breakable, sentence};
use crate::{clock, output, runtime_dir};

const EXAMPLES: &str = "\
Examples:
  weir demo
  weir demo --seconds 60
  weir demo --format json
  weir demo watermark

The first shows what a limit feels like: the same job under Linux's limiter,
three times, and under Weir's. `watermark` shows limits that bind only when the
disk is busy: two tenants with limits take all of an idle disk, a third without
one arrives, and leaves again.

It starts a server of its own on an emulated disk, needs no root, and leaves
nothing behind, also when it is interrupted. Without a terminal it prints a
picture every 5 s; as JSON, only the figures at the end.";

/// Show what a limit feels like, under Linux's limiters and under Weir's; or what a watermark does
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to show
    #[arg(value_enum, default_value_t)]
    story: Story,
    /// How long: 20 s for the four of `limits`, and 14 s more at most for the neighbour at the end; 24 s for `watermark`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What there is to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
enum Story {
    /// The same job under four limiters
    #[default]
    Limits,
    /// Limits that bind only when the disk is busy
    Watermark,
}

/// Default time of the four.
const FOUR_SECONDS: u64 = 20;
/// How long the neighbour stays, and how long with other weights, unless the whole demo is shorter.
const NEIGHBOUR_SECONDS: u64 = 8;
const WEIGHTS_SECONDS: u64 = 6;
/// Late pauses worth telling: fewer do not reach p99.
const LATE_PERCENT: f64 = 1.0;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let runtime = signals::runtime()?;
    runtime.block_on(async {
        // Before the server starts, so that an early Ctrl-C ends it too.
        let mut watch = Watch::new(args.format == Format::Json)?;
        if args.story == Story::Watermark {
            return watermark::run(&mut watch, args.seconds, args.format).await;
        }
        let seconds = args.seconds.unwrap_or(FOUR_SECONDS);
        let server = Server::start(&plan::config()).map_err(broken)?;
        let control = Client::new(&server.control());
        let (mut outcome, web) = four(&mut watch, &server, &control, seconds).await?;
        outcome.shared = neighbour(&mut watch, &server, &control, web, seconds).await?;
        let program = std::env::args().next().unwrap_or_else(|| "weir".into());
        watch.screen.say(&story::next(&program, &runtime_dir::path()))?;
        match args.format {
            Format::Table => Ok(()),
            Format::Json => output::print_json(&outcome, false),
        }
    })
}

fn broken(error: io::Error) -> Failure {
    Failure::failed(format!("the demo broke: {error}"))
}

/// The device as the server sees it.
fn reading(control: &Client) -> Result<DeviceStatus, Failure> {
    let status = control.status()?;
    status
        .devices
        .into_iter()
        .next()
        .ok_or_else(|| Failure::failed("the demo's server has no device"))
}

/// Waits of `cgroup` between two readings, by cause.
fn blame(before: &DeviceStatus, after: &DeviceStatus, cgroup: &str) -> Vec<Cause> {
    let found = after.cgroups.iter().find(|status| status.cgroup == cgroup);
    found.map(|status| CgroupRates::between(before, after, status).waited_for).unwrap_or_default()
}

/// A job that the server has failed ends the demo with its error.
fn check(working: &[Working]) -> Result<(), Failure> {
    match working.iter().find_map(Working::error) {
        Some(error) => Err(Failure::failed(format!("the demo broke: {error}"))),
        None => Ok(()),
    }
}

/// Runs the same job under four limiters; Weir's continues.
async fn four(
    watch: &mut Watch,
    server: &Server,
    control: &Client,
    seconds: u64,
) -> Result<(Outcome, Working), Failure> {
    watch.screen.say(&story::opening())?;
    let before = reading(control)?;
    let mut working = Vec::new();
    for tenant in plan::TENANTS {
        working.push(Working::start(plan::POLITE, &server.socket(), tenant.name).map_err(broken)?);
    }
    watch
        .run(seconds, |screen, now, elapsed| {
            check(&working)?;
            let mut picture = vec![screen.dim(&frame::head(Plot::Yes))];
            for (working, tenant) in working.iter().zip(plan::TENANTS) {
                let row = frame::row(tenant.title, &working.figures(), now, Plot::Yes);
                picture.push(if tenant.name == "weir" { screen.green(&row) } else { row });
            }
            picture.push(String::new());
            picture.push(screen.dim(&frame::progress(elapsed, seconds)));
            Ok(picture)
        })
        .await?;
    let now = clock::now_ns();
    let blame = blame(&before, &reading(control)?, plan::WEB);
    let p99 = [0, 1, 2, 3].map(|index| working[index].figures().percentile_ms(99.0));
    let late = working[3].figures().late_percent();
    let tenants = working.iter().zip(plan::TENANTS).map(|(working, tenant)| {
        let figures = working.figures().summary(now);
        outcome::Tenant { cgroup: format!("/{}", tenant.name), limiter: tenant.limiter, figures }
    });
    let outcome = Outcome { tenants: tenants.collect(), shared: Vec::new() };
    watch.screen.say(&story::moral(p99, &sentence(&blame)))?;
    if late > LATE_PERCENT {
        watch.screen.say(&story::busy(late))?;
    }
    let web = working.pop().ok_or_else(|| Failure::failed("nobody worked"))?;
    working.into_iter().for_each(Working::end);
    Ok((outcome, web))
}

/// A greedy neighbour under Weir's limit, first with equal weights, then not.
async fn neighbour(
    watch: &mut Watch,
    server: &Server,
    control: &Client,
    web: Working,
    seconds: u64,
) -> Result<Vec<Shared>, Failure> {
    watch.screen.say(&story::neighbour())?;
    let backup = Working::start(plan::GREEDY, &server.socket(), "backup").map_err(broken)?;
    let both = [web, backup];
    let equal = pair(watch, control, &both, 100, NEIGHBOUR_SECONDS.min(seconds)).await?;
    watch.screen.say(story::weights())?;
    let (cgroup, key) = (plan::WEB.into(), "io.weight".into());
    let value = "900".into();
    control.set(&SetRequest { cgroup, key, value, device: None, create: false, runtime: false })?;
    let unequal = pair(watch, control, &both, 900, WEIGHTS_SECONDS.min(seconds)).await?;
    Ok(equal.into_iter().chain(unequal).collect())
}

/// Both under one limit; `weight` is that of the first.
async fn pair(
    watch: &mut Watch,
    control: &Client,
    both: &[Working; 2],
    weight: u16,
    seconds: u64,
) -> Result<[Shared; 2], Failure> {
    let who = [(plan::WEB, "1 at a time"), (plan::BACKUP, "32 at a time")];
    let before = reading(control)?;
    both.iter().for_each(|working| working.figures().begin_anew(clock::now_ns()));
    watch
        .run(seconds, |screen, now, elapsed| {
            check(both)?;
            let after = reading(control)?;
            let mut picture = vec![screen.dim(&frame::head(Plot::No))];
            for (working, (cgroup, how)) in both.iter().zip(who) {
                let title = format!("{cgroup:13} {how}");
                picture.push(frame::row(&title, &working.figures(), now, Plot::No));
            }
            picture.push(String::new());
            for (cgroup, _) in who {
                let blame = breakable(&blame(&before, &after, cgroup));
                let told = format!("{cgroup:13} waits for {blame}");
                picture.extend(wrap(&told, frame::WIDTH, 14));
            }
            picture.push(screen.dim(&frame::progress(elapsed, seconds)));
            Ok(picture)
        })
        .await?;
    let (now, after) = (clock::now_ns(), reading(control)?);
    Ok([0, 1].map(|index| Shared {
        cgroup: who[index].0,
        io_weight: if index == 0 { weight } else { 100 },
        figures: both[index].figures().summary(now),
        waited_for: blame(&before, &after, who[index].0),
    }))
}
