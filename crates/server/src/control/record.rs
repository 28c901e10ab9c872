//! Operations on the recording.

use super::api::{RecordReply, RecordRequest};
use super::caller::Change;
use super::host::Target;
use super::operations::Control;
use super::refuse::Refused;
use super::route::Call;

impl<T: Target> Control<T> {
    /// How the recording is.
    pub(super) async fn recording(&self) -> Result<RecordReply, Refused> {
        let generation = self.generation.text();
        match self.host.recording() {
            Some(recording) => Ok(RecordReply { recording, generation }),
            None => Err(Refused::bad("", "the configuration has no [record]").hint(
                "add `[record]` with `directory = \"...\"`, and restart the server".to_owned(),
            )),
        }
    }

    /// Begins the recording or ends it.
    pub(super) async fn record(
        &self,
        call: &Call,
        request: &RecordRequest,
    ) -> Result<RecordReply, Refused> {
        let turn = self.turn(call).await?;
        self.recording().await?;
        let word = |on| if on { "on" } else { "off" }.to_owned();
        let (old, new) = (Some(word(!request.on)), Some(word(request.on)));
        let change = Change { operation: "record", old, new, ..Change::default() };
        let changes = if self.host.record(request.on) { vec![change] } else { Vec::new() };
        turn.changed(&changes);
        drop(turn);
        self.recording().await
    }
}
