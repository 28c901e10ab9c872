//! Access of clients to exports, by `[peer.NAME]` of the configuration. Decided when a connection comes.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::net::sockopt::socket_peercred;
use weir_config::PeerConfig;
use weir_engine::Path;
use weir_nbd::Denial;

use crate::device::Peer;

/// The sections, in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    peers: Vec<Arc<PeerConfig>>,
}

/// What is known of the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) peer: Peer,
    /// User and group of a process on a Unix socket.
    user: Option<(u32, u32)>,
    /// Names in the certificate, if it has shown one that is valid.
    pub(crate) certificate: Option<Vec<String>>,
}

/// What a connection may use.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Everything: there is no `[peer]`.
    All,
    /// What this section says.
    Peer(Arc<PeerConfig>),
    /// Nothing: no section is for it. Some would be for holders of a certificate.
    Nothing { is_certificate_asked: bool },
}

impl Peers {
    pub(crate) fn new(peers: &[PeerConfig]) -> Peers {
        Peers { peers: peers.iter().cloned().map(Arc::new).collect() }
    }

    /// What a client may use; it is asked for only where there are sections. O(sections).
    pub(crate) fn access(&self, identity: impl FnOnce() -> Identity) -> Access {
        if self.peers.is_empty() {
            return Access::All;
        }
        let identity = identity();
        match self.peers.iter().find(|peer| identity.is(peer)) {
            Some(peer) => Access::Peer(Arc::clone(peer)),
            None => {
                let is_asked = |peer: &Arc<PeerConfig>| !peer.certificate.is_empty();
                Access::Nothing { is_certificate_asked: self.peers.iter().any(is_asked) }
            }
        }
    }

    /// Name of a section that puts connections into `cgroup` or below it.
    pub(crate) fn peer_below(&self, cgroup: &Path) -> Option<&str> {
        let is_below = |path: &Path| {
            let mut names = path.names();
            cgroup.names().all(|name| names.next() == Some(name))
        };
        let found = self.peers.iter().find(|peer| peer.cgroup.as_ref().is_some_and(is_below));
        found.map(|peer| peer.name.as_str())
    }
}

impl Identity {
    /// Asks the socket of `peer`.
    pub(crate) fn of(socket: BorrowedFd<'_>, peer: Peer) -> Identity {
        let user = match peer {
            Peer::Address(_) | Peer::Vsock(_) => None,
            Peer::Process(_) | Peer::Unknown(_) => socket_peercred(socket).ok(),
        };
        let user = user.map(|user| (user.uid.as_raw(), user.gid.as_raw()));
        Identity { peer, user, certificate: None }
    }

    /// Whether it is one of the clients that `peer` is for.
    fn is(&self, peer: &PeerConfig) -> bool {
        let PeerConfig { uid, gid, address, certificate, .. } = peer;
        let address_is = |own: IpAddr| address.iter().any(|network| network.contains(own));
        (uid.is_empty() || self.user.is_some_and(|(own, _)| uid.contains(&own)))
            && (gid.is_empty() || self.user.is_some_and(|(_, own)| gid.contains(&own)))
            && (address.is_empty() || matches!(self.peer, Peer::Address(own) if address_is(own)))
            && (certificate.is_empty() || self.has_name_of(certificate))
    }

    fn has_name_of(&self, patterns: &[String]) -> bool {
        let Some(names) = &self.certificate else { return false };
        let is_own = |pattern: &String| names.iter().any(|name| is_name(pattern, name));
        patterns.iter().any(|pattern| pattern == "*" || is_own(pattern))
    }
}

/// Whether `name` is `pattern`, or one name before what is after `*` in it. Letters count in either case, as in DNS.
fn is_name(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => name
            .split_once('.')
            .is_some_and(|(first, rest)| !first.is_empty() && rest.eq_ignore_ascii_case(parent)),
        None => name.eq_ignore_ascii_case(pattern),
    }
}

impl Access {
    /// Whether the export of this name may be used.
    pub(crate) fn check(&self, export: &str) -> Result<(), Denial> {
        match self {
            Access::All => Ok(()),
            Access::Peer(peer) if peer.lets_use(export) => Ok(()),
            Access::Peer(_) => Err(Denial::Policy("this export is not for this client")),
            Access::Nothing { is_certificate_asked: true } => Err(Denial::Certificate(
                "this client may use no export without another certificate",
            )),
            Access::Nothing { is_certificate_asked: false } => {
                Err(Denial::Policy("this client may use no export"))
            }
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Access::Peer(peer) if peer.read_only)
    }

    /// Cgroup of its connections, where that is not the export's.
    pub(crate) fn cgroup(&self) -> Option<&Path> {
        match self {
            Access::Peer(peer) => peer.cgroup.as_ref(),
            Access::All | Access::Nothing { .. } => None,
        }
    }
}

/// For the log.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::All => f.write_str("all"),
            Access::Peer(peer) => write!(f, "peer {}", peer.name),
            Access::Nothing { .. } => f.write_str("no peer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(sections: &str) -> Peers {
        let text = format!(
            "[device.d]\npath = 'memory:1M'\n[cgroup.\"/a/b\"]\n[export.vm1]\ndevice = 'd'\ncgroup = '/a'\n{sections}"
        );
        let config =
            weir_config::Config::from_str("x", &text).unwrap_or_else(|errors| panic!("{errors}"));
        Peers::new(&config.peers)
    }

    fn identity(
        address: Option<&str>,
        user: Option<(u32, u32)>,
        names: Option<&[&str]>,
    ) -> Identity {
        let peer = match address {
            Some(address) => Peer::Address(address.parse().unwrap()),
            None => Peer::Process(1),
        };
        let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Identity { peer, user, certificate: names }
    }

    #[test]
    fn the_first_section_whose_words_all_hold_counts() {
        let peers = peers(
            "[peer.both]\naddress = '10.0.0.0/8'\ncertificate = 'vm1.example'\n\
             [peer.user]\nuid = [7, 8]\ngid = 9\n\
             [peer.below]\ncertificate = ['*.Example', 'x y']\n\
             [peer.any]\ncertificate = '*'\n\
             [peer.near]\naddress = ['::1', '127.0.0.0/8']\n",
        );
        let user = |uid, gid| identity(None, Some((uid, gid)), None);
        let with = |address, names: &[&str]| identity(Some(address), None, Some(names));
        for (client, expected) in [
            (with("10.1.1.1", &["other", "VM1.example"]), "peer both"),
            (with("11.1.1.1", &["vm1.example"]), "peer below"),
            (with("11.1.1.1", &["x y"]), "peer below"),
            (with("11.1.1.1", &["a.vm1.example"]), "peer any"),
            (with("11.1.1.1", &[".example"]), "peer any"),
            (with("11.1.1.1", &[]), "peer any"),
            (identity(Some("10.1.1.1"), None, None), "no peer"),
            (identity(Some("127.3.3.3"), None, None), "peer near"),
            (identity(Some("::1"), None, None), "peer near"),
            (user(7, 9), "peer user"),
            (user(8, 9), "peer user"),
            (user(8, 7), "no peer"),
            (user(0, 0), "no peer"),
        ] {
            let said = format!("{client:?}");
            assert_eq!(peers.access(|| client).to_string(), expected, "{said}");
        }
    }

    #[test]
    fn a_section_says_which_exports_and_where() {
        let peers = peers(
            "[peer.a]\nuid = 1\nexports = ['vm1', 'tmp-*', '']\ncgroup = '/a/b'\nread_only = true\n\
             [peer.b]\nuid = 2\nexports = []\n[peer.c]\nuid = 3\n",
        );
        let of = |uid| peers.access(|| identity(None, Some((uid, 0)), None));
        for (uid, export, may) in [
            (1, "vm1", true),
            (1, "tmp-", true),
            (1, "tmp-7", true),
            (1, "", true),
            (1, "vm10", false),
            (1, "tmp", false),
            (2, "vm1", false),
            (3, "vm1", true),
            (4, "vm1", false),
        ] {
            assert_eq!(of(uid).check(export).is_ok(), may, "{uid} {export:?}");
        }
        assert!(of(1).is_read_only() && !of(3).is_read_only());
        assert_eq!(of(1).cgroup().map(Path::as_str), Some("/a/b"));
        let path = |text: &str| Path::parse(text).unwrap();
        assert_eq!(peers.peer_below(&path("/a")), Some("a"));
        assert_eq!(peers.peer_below(&path("/a/b")), Some("a"));
        assert_eq!(peers.peer_below(&path("/a/b/c")), None);
        assert!(matches!(
            Peers::default().access(|| unreachable!("nothing is asked")),
            Access::All
        ));
    }
}
