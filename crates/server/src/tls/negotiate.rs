//! Option haggling on the threads of TLS, with the bytes as they are and with what TLS decrypts.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tracing::{info, warn};
use weir_nbd::{HandshakeState, Negotiated, Session};

use super::accept::{Accept, End};
use crate::access::Access;
use crate::device::Peer;
use crate::exports::Admission;
use crate::log_limit::{LogLine, LogPermit};
use crate::seats::{NoSeat, Seat};

/// Bytes that are read at once: several options.
const READ_BYTES: usize = 4096;

/// One connection that has not chosen an export yet.
pub(super) struct Negotiation<'d> {
    pub(super) accept: &'d Accept,
    pub(super) peer: Peer,
    pub(super) seat: Result<Seat, NoSeat>,
    pub(super) access: Access,
}

/// How haggling ends well.
pub(super) enum Outcome {
    StartTls,
    /// With bytes that came after it.
    Chosen(Negotiated, Vec<u8>),
}

impl Negotiation<'_> {
    /// Answers options until the client asks for TLS or has chosen an export.
    pub(super) async fn run(
        &mut self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        session: &mut Session,
    ) -> Result<Outcome, End> {
        let (mut buffer, mut out) = (vec![0; READ_BYTES], Vec::new());
        loop {
            let len = stream.read(&mut buffer).await?;
            if len == 0 {
                return Err(End::Gone);
            }
            let mut input = &buffer[..len];
            loop {
                let (consumed, state) = self.step(session, input, &mut out);
                input = &input[consumed..];
                // Before anything is made of it: any machine on the way could have added bytes to STARTTLS.
                if state == HandshakeState::StartTls && !input.is_empty() {
                    return Err(End::Injected { bytes: input.len() });
                }
                stream.write_all(&out).await?;
                stream.flush().await?;
                out.clear();
                match state {
                    HandshakeState::NeedInput => break,
                    HandshakeState::NeedOutput => {}
                    HandshakeState::StartTls => return Ok(Outcome::StartTls),
                    HandshakeState::Transmission(negotiated) => {
                        return Ok(Outcome::Chosen(negotiated, input.to_vec()));
                    }
                    HandshakeState::Closed(reason) => {
                        // What it was told is to reach it.
                        let _ = stream.shutdown().await;
                        return Err(End::Closed(reason));
                    }
                }
            }
        }
    }

    /// One step of the handshake: bytes that were consumed, and what it came to.
    fn step(
        &mut self,
        session: &mut Session,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> (usize, HandshakeState) {
        let tables = self.accept.registry.tables();
        let exports = Admission::new(&tables.exports, &mut self.seat, &self.access);
        let progress = session.handle_handshake(input, &exports, out);
        let peer = self.peer;
        if let Some(reason) = exports.refused()
            && let Some(LogPermit { left_out }) = self.accept.permit(LogLine::ConnectionRefused)
        {
            warn!(%peer, left_out, %reason, "connection refused");
        }
        if let Some(export) = exports.unknown()
            && let Some(LogPermit { left_out }) = self.accept.permit(LogLine::ExportUnknown)
        {
            info!(export, %peer, left_out, "a client asked for an export that is not there");
        }
        if let Some(export) = exports.denied()
            && let Some(LogPermit { left_out }) = self.accept.permit(LogLine::ExportDenied)
        {
            let access = &self.access;
            info!(export, %peer, %access, left_out, "a client asked for an export that is not for it");
        }
        (progress.consumed, progress.state)
    }
}
