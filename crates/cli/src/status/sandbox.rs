//! Sandbox of the server, in one line.

use weir_server::status::SandboxStatus;

/// What is in force, and what is not; `None` of a server that does not say.
pub(super) fn line(sandbox: &SandboxStatus) -> Option<String> {
    let SandboxStatus { mode, landlock, seccomp, ring_restrictions, no_new_privs, .. } = sandbox;
    match mode.as_str() {
        "" => return None,
        "off" => return Some("sandbox: off".to_owned()),
        _ => {}
    }
    let landlock = landlock.as_ref().map(|landlock| format!("landlock {}", landlock.abi));
    let switches = [
        (seccomp, "seccomp"),
        (ring_restrictions, "restricted rings"),
        (no_new_privs, "no new privileges"),
    ];
    let switches =
        switches.into_iter().filter(|(is_on, _)| **is_on).map(|(_, name)| name.to_owned());
    let capabilities = sandbox.capabilities.as_ref().map(|kept| match &kept[..] {
        [] => "no capabilities".to_owned(),
        kept => format!("only {}", kept.join(" and ")),
    });
    let parts: Vec<String> = landlock.into_iter().chain(switches).chain(capabilities).collect();
    let missing: Vec<&str> = sandbox.missing.iter().map(|missing| missing.what.as_str()).collect();
    let missing = match &missing[..] {
        [] => String::new(),
        missing => format!("; missing: {}", missing.join(", ")),
    };
    let parts = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
    Some(format!("sandbox: {parts}{missing}"))
}

#[cfg(test)]
mod tests {
    use weir_server::status::{LandlockStatus, MissingStatus};

    use super::*;

    #[test]
    fn the_line_says_what_is_in_force_and_what_is_missing() {
        let full = SandboxStatus {
            mode: "auto".to_owned(),
            landlock: Some(LandlockStatus { abi: 7, rights: Vec::new() }),
            seccomp: true,
            ring_restrictions: true,
            no_new_privs: true,
            capabilities: Some(Vec::new()),
            ..SandboxStatus::default()
        };
        assert_eq!(
            line(&full).unwrap(),
            "sandbox: landlock 7, seccomp, restricted rings, no new privileges, no capabilities"
        );
        let kept = ["cap_dac_override", "cap_ipc_lock"].map(str::to_owned).to_vec();
        let missing = MissingStatus { what: "landlock".to_owned(), reason: String::new() };
        let part = SandboxStatus {
            landlock: None,
            capabilities: Some(kept),
            missing: vec![missing],
            ..full.clone()
        };
        assert_eq!(
            line(&part).unwrap(),
            "sandbox: seccomp, restricted rings, no new privileges, only cap_dac_override and cap_ipc_lock; \
             missing: landlock"
        );
        let off = SandboxStatus { mode: "off".to_owned(), ..SandboxStatus::default() };
        assert_eq!(line(&off).unwrap(), "sandbox: off");
        assert_eq!(line(&SandboxStatus::default()), None);
    }
}
