//! `weir config check`.

use std::path::PathBuf;

use serde_json::{Value, json};
use weir_config::{Backend, Config, ConfigErrors, TlsMode};
use weir_server::tls::{CertificateError, CertificateFiles};
use weir_units::Bytes;

use crate::failure::Failure;
use crate::limiter;
use crate::output::{self, Format};
use crate::table::Table;

const EXAMPLES: &str = "\
Examples:
  weir config check weir.toml
  weir config check weir.toml --format json | jq '.errors[] | {line, message}'

Files in the directory beside it are read over it: weir.d for weir.toml.
JSON: `valid`; `errors`, each with file, line, column, key, message and hint;
`errors_more`, how many were only counted; and `warnings` and `config`, if it
is valid. A warning tells of settings that cost more than they may be worth.
Exit status: 0 valid, 2 not.";

/// Read a configuration, and say what is wrong with it or what it would serve
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration
    file: PathBuf,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let read = Config::from_file(&args.file);
    let certificates = match read.as_ref().map(|config| config.tls.as_ref()) {
        Ok(Some(tls)) => CertificateFiles::from(tls).read().map(|read| read.warnings),
        _ => Ok(Vec::new()),
    };
    let certificates = match certificates {
        Ok(warnings) => warnings,
        Err(error) => return refuse_certificates(&error, args.format),
    };
    match (read, args.format) {
        (Ok(config), Format::Table) => {
            let mut text = format!("{} is valid\n\n{}", args.file.display(), summary(&config));
            for warning in config.warnings().iter().chain(&certificates) {
                text.push_str(&format!("\nwarning: {warning}\n"));
            }
            output::print(&text)
        }
        (Ok(config), Format::Json) => output::print_json(&valid(&config, certificates), false),
        (Err(errors), Format::Table) => Err(Failure::Config(errors)),
        (Err(errors), Format::Json) => {
            output::print_json(&invalid(&errors), false)?;
            Err(Failure::Said(2))
        }
    }
}

fn listen(config: &Config) -> impl Iterator<Item = String> {
    config.server.listen.iter().map(ToString::to_string)
}

/// What the configuration names is as wrong as if it stood there.
fn refuse_certificates(error: &CertificateError, format: Format) -> Result<(), Failure> {
    let (message, hint) = (format!("tls: {error}"), error.hint());
    if format == Format::Table {
        return Err(Failure::wrong(message).hint(hint));
    }
    let error = json!({
        "file": error.file(), "line": null, "column": null, "key": "tls", "message": error.to_string(), "hint": hint,
    });
    output::print_json(&json!({ "valid": false, "errors": [error], "errors_more": 0 }), false)?;
    Err(Failure::Said(2))
}

fn invalid(errors: &ConfigErrors) -> Value {
    json!({ "valid": false, "errors": errors.errors(), "errors_more": errors.more() })
}

fn valid(config: &Config, certificates: Vec<String>) -> Value {
    let devices = config.devices.iter().map(|device| {
        json!({
            "device": device.name,
            "path": path(&device.backend),
            "depth": device.engine.depth,
            "read_only": device.read_only,
        })
    });
    let cgroups = config.cgroups.iter().map(|cgroup| {
        let limits = cgroup.limits.iter().map(|limits| {
            let text =
                |values: weir_engine::PerDimension| (!values.is_none()).then(|| values.to_string());
            json!({
                "device": config.devices[limits.device].name,
                "io_max": text(limits.limits.max),
                "io_burst": text(limits.limits.burst),
                "io_peak": text(limits.limits.peak),
            })
        });
        let weights = cgroup
            .device_weights
            .iter()
            .map(|(device, weight)| (config.devices[*device].name.clone(), json!(weight.get())));
        json!({
            "cgroup": cgroup.path.as_str(),
            "io_weight": cgroup.weight.get(),
            "io_weight_by_device": weights.collect::<serde_json::Map<String, Value>>(),
            "limiter": limiter::name(cgroup.limiter),
            "limits": limits.collect::<Vec<_>>(),
        })
    });
    let exports = config.exports.iter().map(|export| {
        json!({
            "export": export.name,
            "device": config.devices[export.device].name,
            "cgroup": export.cgroup.as_str(),
            "read_only": export.read_only,
            "start_bytes": export.range.start,
            "end_bytes": export.range.end,
        })
    });
    let warnings = [config.warnings(), certificates].concat();
    let server = json!({
        "socket": config.server.socket,
        "listen": listen(config).collect::<Vec<_>>(),
        "control": config.server.control,
        "tls": config.server.tls.name(),
        "control_listen": config.server.control_listen,
        "metrics": config.server.metrics,
        "metrics_listen": config.server.metrics_listen,
        "max_connections": config.server.max_connections,
        "max_connections_per_client": config.server.max_connections_per_client,
        "max_cgroups": config.server.max_cgroups,
    });
    json!({
        "valid": true,
        "errors": [],
        "errors_more": 0,
        "warnings": warnings,
        "config": {
            "server": server,
            "devices": devices.collect::<Vec<_>>(),
            "cgroups": cgroups.collect::<Vec<_>>(),
            "exports": exports.collect::<Vec<_>>(),
        },
    })
}

fn path(backend: &Backend) -> String {
    match backend {
        Backend::File { path, .. } => path.display().to_string(),
        Backend::Memory { size } => format!("memory:{}", Bytes(*size)),
        Backend::Emulated(spec) => format!("emulated:{spec}"),
    }
}

fn summary(config: &Config) -> String {
    let mut devices = Table::new(&["DEVICE", "PATH", "DEPTH", ""]);
    for device in &config.devices {
        let read_only = if device.read_only { "read-only" } else { "" };
        let depth = device.engine.depth.to_string();
        devices.row([device.name.clone(), path(&device.backend), depth, read_only.into()]);
    }
    let mut cgroups = Table::new(&["CGROUP", "WEIGHT", "LIMITER", "LIMITS"]);
    for cgroup in &config.cgroups {
        let limits: Vec<String> = cgroup
            .limits
            .iter()
            .map(|on| format!("{} {}", config.devices[on.device].name, on.limits.max))
            .collect();
        let own = cgroup.device_weights.iter();
        let weights: Vec<String> = std::iter::once(cgroup.weight.get().to_string())
            .chain(own.map(|(on, weight)| format!("{} {}", config.devices[*on].name, weight.get())))
            .collect();
        let (path, weight) = (cgroup.path.to_string(), weights.join("; "));
        cgroups.row([path, weight, limiter::name(cgroup.limiter), limits.join("; ")]);
    }
    let mut exports = Table::new(&["EXPORT", "DEVICE", "CGROUP", ""]);
    for export in &config.exports {
        let device = config.devices[export.device].name.clone();
        let read_only = if export.read_only { "read-only" } else { "" };
        exports.row([
            format!("{:?}", export.name),
            device,
            export.cgroup.to_string(),
            read_only.into(),
        ]);
    }
    let tables = [devices, cgroups, exports].map(|table| table.lines(&[]).join("\n") + "\n");
    let mut text = tables.join("\n");
    let unix = config.server.socket.iter().map(|path| path.display().to_string());
    let listens: Vec<String> = unix.chain(listen(config)).collect();
    if !listens.is_empty() {
        let tls = match config.server.tls {
            TlsMode::Off => "",
            TlsMode::Allowed => "; TLS allowed",
            TlsMode::Required => "; TLS required on TCP",
        };
        text.push_str(&format!("\nlistens on {}{tls}\n", listens.join(", ")));
    }
    let control: Vec<String> =
        config.server.control_listen.iter().map(ToString::to_string).collect();
    if !control.is_empty() {
        let tokens = match config.tokens.len() {
            1 => "1 token".to_owned(),
            count => format!("{count} tokens"),
        };
        text.push_str(&format!("control API over TLS on {}, for {tokens}\n", control.join(", ")));
    }
    let addresses = config.server.metrics_listen.iter().map(ToString::to_string);
    let metrics = config.server.metrics.iter().map(|path| path.display().to_string());
    let metrics: Vec<String> = metrics.chain(addresses).collect();
    if !metrics.is_empty() {
        text.push_str(&format!("metrics on {}\n", metrics.join(", ")));
    }
    text
}
