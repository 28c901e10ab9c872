//! Ids, umask and capabilities that a thread takes for a call on behalf of a caller.

use rustix::fs::Mode;
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups, umask};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use weir_fuse_proto::Request;

/// Capabilities with which a file is made although the kernel's own check is done already, and may have known more groups.
const CREATING: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// The calling thread's own ids and capabilities, to come back to.
#[derive(Debug)]
pub(crate) struct Caller {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    capabilities: CapabilitySets,
    /// Whether `CAP_FSETID` is in force: with it writing leaves set-user-id and set-group-id bits.
    has_fsetid: bool,
}

impl Caller {
    /// Of the calling thread, which gets a umask of its own: 0.
    pub(crate) fn new() -> Result<Caller> {
        weir_uring::unshare_umask()
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        umask(Mode::empty());
        let capabilities = capabilities(None)?;
        let has_fsetid = capabilities.effective.contains(CapabilitySet::FSETID);
        let groups = getgroups()?;
        Ok(Caller { uid: geteuid(), gid: getegid(), groups, capabilities, has_fsetid })
    }

    /// Makes something new as the caller of `request`, with its umask.
    pub(crate) fn create<T>(
        &mut self,
        request: &Request<'_>,
        mask: u32,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let uid = Uid::from_raw(request.uid);
        let gid = Gid::from_raw(request.gid);
        let switches = uid != self.uid || gid != self.gid;
        if switches {
            let mut groups = [gid];
            if let Some(group) = request.supplementary_group {
                groups[0] = Gid::from_raw(group);
            }
            // The group before the user: afterwards it is not allowed.
            let switched = set_thread_groups(&groups)
                .and_then(|()| set_thread_res_gid(None, gid, None))
                .and_then(|()| set_thread_res_uid(None, uid, None));
            if let Err(error) = switched {
                self.come_back();
                return Err(error);
            }
            if uid != self.uid {
                let effective = self.capabilities.permitted & CREATING;
                let wanted = CapabilitySets { effective, ..self.capabilities };
                // Without them the caller's own permissions count, which is right but for groups that are not known here.
                let _ = set_capabilities(None, wanted);
            }
        }
        umask(Mode::from_raw_mode(mask & 0o777));
        let made = make();
        umask(Mode::empty());
        if switches {
            self.come_back();
        }
        made
    }

    /// # Panics
    /// Where the thread cannot have its own ids again: it would go on with another's permissions.
    fn come_back(&mut self) {
        let back = set_thread_res_uid(None, self.uid, None)
            .and_then(|()| set_thread_res_gid(None, self.gid, None))
            .and_then(|()| set_thread_groups(&self.groups))
            .and_then(|()| set_capabilities(None, self.capabilities));
        assert!(back.is_ok(), "the thread's own ids: {back:?}");
        self.has_fsetid = self.capabilities.effective.contains(CapabilitySet::FSETID);
    }

    /// Has a change of a file take its set-user-id and set-group-id bits away, or not, until the next call.
    pub(crate) fn kill_suidgid(&mut self, kills: bool) -> Result<()> {
        let can = self.capabilities.effective.contains(CapabilitySet::FSETID);
        if !can || self.has_fsetid != kills {
            return Ok(());
        }
        let mut effective = self.capabilities.effective;
        effective.set(CapabilitySet::FSETID, !kills);
        set_capabilities(None, CapabilitySets { effective, ..self.capabilities })?;
        self.has_fsetid = !kills;
        Ok(())
    }
}
