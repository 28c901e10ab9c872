//! One connection from its first byte to its last, server side.

use crate::export::Exports;
use crate::handshake::{CloseReason, Handshake, HandshakeState, Progress, TlsMode};
use crate::option_reply::greeting;
use crate::transmission::Transmission;

/// The protocol state of one connection of a server.
///
/// Send [`Session::greeting`], feed what arrives to [`Session::handle_handshake`], and from the
/// moment it says [`HandshakeState::Transmission`] to the [`Transmission`] inside. Owns a buffer
/// only while an option arrives in pieces, of at most twice [`crate::OPTION_DATA_MAX`].
#[derive(Debug)]
pub struct Session {
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Transmission),
    Closed(CloseReason),
}

impl Session {
    /// A connection without TLS on which nothing was sent or received yet.
    #[expect(clippy::new_without_default, reason = "a default connection means nothing")]
    pub fn new() -> Session {
        Session::with_tls(TlsMode::Off)
    }

    /// As [`Session::new`], where TLS is as `tls` says.
    pub fn with_tls(tls: TlsMode) -> Session {
        Session { phase: Phase::Handshake(Handshake::new(tls)) }
    }

    /// The TLS that [`HandshakeState::StartTls`] asked for has started: from now on, input is what it decrypts, and what is
    /// to be sent goes into it. The handshake begins anew after the client's flags: earlier options are forgotten.
    ///
    /// # Panics
    /// When the last answer of [`Session::handle_handshake`] was another one.
    pub fn tls_started(&mut self) {
        match &mut self.phase {
            Phase::Handshake(handshake) => handshake.tls_started(),
            Phase::Transmission(_) | Phase::Closed(_) => panic!("TLS starts in the handshake"),
        }
    }

    /// What the server sends first, unasked.
    pub fn greeting(&self) -> [u8; 18] {
        greeting()
    }

    /// Takes `input`, split or joined in any way, and appends what is to be sent to `out`, whose
    /// length at the call counts as not yet sent. Allocates only for a split option and in `out`.
    ///
    /// After the handshake it consumes nothing and tells the same outcome again.
    pub fn handle_handshake(
        &mut self,
        input: &[u8],
        exports: &(impl Exports + ?Sized),
        out: &mut Vec<u8>,
    ) -> Progress {
        let handshake = match &mut self.phase {
            Phase::Handshake(handshake) => handshake,
            Phase::Transmission(transmission) => {
                let state = HandshakeState::Transmission(*transmission.negotiated());
                return Progress { consumed: 0, state };
            }
            Phase::Closed(reason) => {
                return Progress { consumed: 0, state: HandshakeState::Closed(*reason) };
            }
        };
        let progress = handshake.handle_input(input, exports, out);
        match progress.state {
            HandshakeState::NeedInput | HandshakeState::NeedOutput | HandshakeState::StartTls => {}
            HandshakeState::Transmission(negotiated) => {
                let mut transmission = Transmission::new(negotiated);
                if handshake.is_shutting_down() {
                    transmission.shut_down();
                }
                self.phase = Phase::Transmission(transmission);
            }
            HandshakeState::Closed(reason) => self.phase = Phase::Closed(reason),
        }
        progress
    }

    /// The request parser, once the handshake is done.
    pub fn transmission(&mut self) -> Option<&mut Transmission> {
        match &mut self.phase {
            Phase::Transmission(transmission) => Some(transmission),
            Phase::Handshake(_) | Phase::Closed(_) => None,
        }
    }

    /// From now on options and requests are refused, saying that the server shuts down.
    pub fn shut_down(&mut self) {
        match &mut self.phase {
            Phase::Handshake(handshake) => handshake.shut_down(),
            Phase::Transmission(transmission) => transmission.shut_down(),
            Phase::Closed(_) => {}
        }
    }

    /// Bytes of heap this session holds: 0 in transmission, below twice
    /// [`crate::OPTION_DATA_MAX`] before.
    pub fn allocated_bytes(&self) -> usize {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.allocated_bytes(),
            Phase::Transmission(_) | Phase::Closed(_) => 0,
        }
    }
}
