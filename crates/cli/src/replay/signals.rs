//! Ctrl-C and SIGTERM: the first asks for the end, the second does not ask.

use std::sync::mpsc::Sender;

use tokio::signal::unix::{SignalKind, signal};

use super::Message;
use crate::failure::Failure;

/// From here on signals come as messages.
pub(super) fn send(to: Sender<Message>) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot wait for signals: {error}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        let listen = |kind| signal(kind).map_err(failed);
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    let wait = move || {
        runtime.block_on(async move {
            let mut asked = false;
            loop {
                let number = tokio::select! {
                    _ = interrupt.recv() => 2,
                    _ = terminate.recv() => 15,
                };
                if asked || to.send(Message::Signal(number)).is_err() {
                    std::process::exit(128 + i32::from(number));
                }
                asked = true;
            }
        });
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok(())
}
