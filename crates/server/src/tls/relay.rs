//! Bytes between an encrypted connection and the socket that a device's thread serves.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

/// Bytes in one direction that are read and not written yet; several records of TLS, which have 16 KiB.
const BUFFER: usize = 128 << 10;
/// How often it is looked whether the device's thread has let go of a connection whose client takes nothing.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often that may be so before the connection is given up: what the client was told last should reach it.
const LOOKS_MAX: u32 = 5;

/// Carries bytes until the device's thread has let go of `plain` and its last bytes are sent, or the client is gone.
pub(super) async fn relay<S: AsyncRead + AsyncWrite>(client: S, plain: UnixStream) {
    let (mut client_in, mut client_out) = tokio::io::split(client);
    let (mut plain_in, mut plain_out) = plain.into_split();
    let inward = async {
        let mut buffer = vec![0; BUFFER];
        // A client that cannot be read from any more is gone.
        while let Ok(len) = client_in.read(&mut buffer).await {
            if len == 0 || plain_out.write_all(&buffer[..len]).await.is_err() {
                // One that says no more may still listen, and the device may have said something before it let go.
                let _ = plain_out.shutdown().await;
                return std::future::pending().await;
            }
        }
    };
    let outward = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            match plain_in.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(len) => {
                    let device = plain_in.as_ref();
                    if send(&mut client_out, &buffer[..len], device).await.is_err() {
                        return;
                    }
                }
            }
        }
        // So that it knows that nothing was cut off.
        let _ = tokio::time::timeout(LOOK_EVERY, client_out.shutdown()).await;
    };
    tokio::select! {
        () = inward => {}
        () = outward => {}
    }
}

/// Writes all of `bytes`, unless the client takes none of them while the device's thread has let go of it.
async fn send(
    client: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    device: &UnixStream,
) -> io::Result<()> {
    let mut looks = 0;
    loop {
        let step = async {
            match bytes {
                [] => client.flush().await.map(|()| 0),
                bytes => client.write(bytes).await,
            }
        };
        match tokio::time::timeout(LOOK_EVERY, step).await {
            Ok(Ok(0)) if bytes.is_empty() => return Ok(()),
            Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(Ok(len)) => (bytes, looks) = (&bytes[len..], 0),
            Ok(Err(error)) => return Err(error),
            Err(_) if is_let_go(device) => {
                looks += 1;
                if looks == LOOKS_MAX {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(_) => {}
        }
    }
}

/// Whether the other end of `device` has been closed.
fn is_let_go(device: &UnixStream) -> bool {
    let mut socket = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut socket, Some(&now)).is_ok() && socket[0].revents().contains(PollFlags::HUP)
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// What a device's thread has, and the relay's end of it.
    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().expect("a pair of sockets")
    }

    #[tokio::test]
    async fn both_directions_are_carried_and_the_last_bytes_reach_the_client() {
        let (mut device, plain) = pair();
        let (mut client, encrypted) = duplex(1000);
        let relay = tokio::spawn(relay(encrypted, plain));
        client.write_all(b"request").await.unwrap();
        let mut heard = [0; 7];
        device.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"request");
        let reply = vec![7; 100_000];
        device.write_all(&reply).await.unwrap();
        // It lets go while most of it is still on its way.
        drop(device);
        client.write_all(b"more, which has no reader").await.unwrap();
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert!(all == reply);
        relay.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_has_said_its_last_still_hears() {
        let (mut device, plain) = pair();
        let (mut client, encrypted) = duplex(1000);
        let relay = tokio::spawn(relay(encrypted, plain));
        client.write_all(b"last").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        device.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"last");
        device.write_all(b"reply").await.unwrap();
        drop(device);
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).await.unwrap();
        assert_eq!(reply, b"reply");
        relay.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_once_the_device_has_let_go() {
        let (mut device, plain) = pair();
        let (client, encrypted) = duplex(1000);
        let relay = tokio::spawn(relay(encrypted, plain));
        device.write_all(&[7; 100_000]).await.unwrap();
        tokio::time::sleep(LOOK_EVERY * (LOOKS_MAX + 5)).await;
        assert!(!relay.is_finished(), "a client may be slow");
        drop(device);
        relay.await.unwrap();
        drop(client);
    }
}
