//! From flags to a configuration.

use std::num::NonZeroU32;
use std::path::Path;

use weir_config::{Backend, Config, ServerConfig, SingleExport};

use super::Args;
use crate::failure::Failure;

/// Image or configuration to serve.
#[derive(Debug)]
pub(super) enum Plan {
    /// A configuration with the flags applied, and as in the file.
    File(Config, Box<Config>),
    /// An image, and a name for its sockets.
    Image(Config, String),
}

impl Plan {
    pub(super) fn server(&self) -> &ServerConfig {
        let (Plan::File(config, _) | Plan::Image(config, _)) = self;
        &config.server
    }
}

/// Longest name taken from an image, in bytes: a socket's path has at most 107.
const NAME_MAX: usize = 40;

pub(super) fn read(args: Args) -> Result<Plan, Failure> {
    if args.what.ends_with(".toml") { file(&args) } else { image(args) }
}

fn file(args: &Args) -> Result<Plan, Failure> {
    let misplaced = [
        ("--socket", args.socket.is_some()),
        ("--socket-mode", args.socket_mode.is_some()),
        ("--listen", !args.listen.is_empty()),
        ("--allow-remote", args.allow_remote),
        ("--max", args.max.is_some()),
        ("--burst", args.burst.is_some()),
        ("--peak", args.peak.is_some()),
        ("--weight", args.weight.is_some()),
        ("--limiter", args.limiter.is_some()),
        ("--scheduler", args.scheduler.is_some()),
        ("--bfq", args.bfq.is_some()),
        ("--watermark", args.watermark.is_some()),
        ("--model", args.model.is_some()),
        ("--cache", args.cache.is_some()),
        ("--cache-size", args.cache_size.is_some()),
        ("--read-only", args.read_only),
        ("--depth", args.depth.is_some()),
        ("--direct", args.direct.is_some()),
        ("--sandbox", args.sandbox.is_some()),
        ("--drain-time", args.drain_time.is_some()),
    ];
    if let Some((flag, _)) = misplaced.iter().find(|(_, given)| *given) {
        let message = format!("{flag} is for serving one image; {} is a configuration", args.what);
        return Err(Failure::wrong(message).hint("say it in the file".to_owned()));
    }
    let read = read_file(Path::new(&args.what))?;
    let mut config = read.clone();
    if let Some(control) = &args.control {
        config.server.control = Some(control.into());
    }
    config.server.exit_last |= args.exit_last;
    Ok(Plan::File(config, Box::new(read)))
}

/// The configuration at `path`. Of several devices some may not be there: the others are served.
fn read_file(path: &Path) -> Result<Config, Failure> {
    Config::from_file(path).or_else(|errors| match Config::plan_from_file(path) {
        Ok(config) if config.devices.len() > 1 => {
            errors.errors().iter().for_each(|error| tracing::warn!("{error}"));
            Ok(config)
        }
        _ => Err(Failure::Config(errors)),
    })
}

fn image(args: Args) -> Result<Plan, Failure> {
    let name = name(&args.what);
    let single = SingleExport {
        image: args.what,
        read_only: args.read_only,
        max: args.max,
        burst: args.burst,
        peak: args.peak,
        weight: args.weight,
        limiter: args.limiter,
        scheduler: args.scheduler,
        bfq: args.bfq,
        watermark: args.watermark,
        model: args.model,
        cache: args.cache,
        cache_size: args.cache_size,
        socket: args.socket,
        socket_mode: args.socket_mode,
        listen: args.listen,
        allow_remote: args.allow_remote,
        control: args.control,
        drain_time: args.drain_time,
    };
    let mut config = Config::single(&single).map_err(Failure::Config)?;
    config.server.exit_last = args.exit_last;
    config.server.sandbox = args.sandbox.map(Into::into).unwrap_or_default();
    for device in &mut config.devices {
        if let Some(depth) = args.depth.and_then(NonZeroU32::new) {
            device.engine.depth = depth;
        }
        match (&mut device.backend, args.direct) {
            (_, None) => {}
            (Backend::File { direct, .. }, Some(when)) => *direct = when.into(),
            (_, Some(_)) => {
                let message = "--direct: only files and block devices can be opened directly";
                return Err(Failure::wrong(message));
            }
        }
    }
    Ok(Plan::Image(config, name))
}

/// `disk` for `/srv/disk.img`, `memory` for `memory:1G`.
fn name(image: &str) -> String {
    let stem = match image.split_once(':') {
        Some((kind @ ("memory" | "emulated"), _)) => kind.into(),
        _ => Path::new(image).file_stem().unwrap_or_default().to_string_lossy(),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = stem.chars().map(plain).take(NAME_MAX).collect();
    // A dot in front would hide the socket.
    let name = name.trim_start_matches('.');
    if name.is_empty() { "disk".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn sockets_are_named_after_the_image() {
        for (image, expected) in [
            ("/srv/disk0.img", "disk0"),
            ("disk", "disk"),
            ("memory:1G", "memory"),
            ("emulated:null,rate=4M", "emulated"),
            ("/dev/vg/my disk/ü.raw", "_"),
            ("..", "disk"),
            (".hidden.img", "hidden"),
            (&"x".repeat(300), &"x".repeat(40)),
        ] {
            assert_eq!(name(image), expected, "{image}");
        }
    }
}
