//! `weir page`.

use std::net::{IpAddr, SocketAddr, TcpListener};

use weir_server::control::PageProxy;

use crate::client_args::ServerArgs;
use crate::failure::Failure;
use crate::{output, signals};

const EXAMPLES: &str = "\
Examples:
  weir page
  weir page --listen 127.0.0.1:8090
  weir page --control https://store.example:10810 --token-file panel.token

Prints the address of a page that shows what the server does, live and for the
last hour: bandwidth of cgroups with their limits, latency, utilisation, what
requests wait for. It can be read alone; nothing is changed there.

The address is of this machine and has a random part. Whoever knows it sees the
page, for as long as this command runs. From another machine:
  ssh -L 8090:/run/weir/control-read.sock store.example
and then http://localhost:8090/page, without this command.

Exit status: 1 no answer, 2 wrong usage.";

/// Show a running server on a page for a browser on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Loopback address of the page; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "is not ADDRESS:PORT, as 127.0.0.1:8090".to_owned())?;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ok(address),
        IpAddr::V6(ip) if ip.is_loopback() => Ok(address),
        _ => Err("is reached from other machines: use 127.0.0.1 and a tunnel of ssh".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = args.server.reader()?;
    // A server that is not there is told here rather than in the browser.
    client.devices()?;
    let listener = TcpListener::bind(args.listen)
        .map_err(|error| Failure::failed(format!("--listen {}: {error}", args.listen)))?;
    signals::runtime()?.block_on(async {
        let proxy = PageProxy::new(listener, client).map_err(Failure::failed)?;
        output::print(&format!("{}\n", proxy.url()))?;
        proxy.serve().await.map_err(Failure::failed)
    })
}

#[cfg(test)]
mod tests {
    use super::loopback;

    #[test]
    fn only_loopback_addresses_are_taken() {
        for text in ["127.0.0.1:0", "127.8.8.8:80", "[::1]:8090"] {
            assert!(loopback(text).is_ok(), "{text}");
        }
        for text in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "localhost:80", "80", ""] {
            assert!(loopback(text).is_err(), "{text}");
        }
    }
}
