//! `weir govern --check`: what would be governed.

use weir_govern::host::{Host, Observed};

use super::plan::{Plan, PlannedDisk};
use super::status::mode_name;
use super::walk::Walk;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;
use weir_govern::kernel::print_limits;

/// Most cgroups that are listed.
const LISTED_MAX: usize = 1_000;

pub(super) fn run(plan: &Plan) -> Result<(), Failure> {
    let mut text = String::new();
    for planned in &plan.disks {
        text.push_str(&of_disk(plan, planned));
    }
    output::print(&text)
}

fn of_disk(plan: &Plan, planned: &PlannedDisk) -> String {
    let PlannedDisk { disk, settings, rules, sections, .. } = planned;
    let mut text = format!(
        "{} ({})  watermark {}, {}; {} at {}\n",
        disk.name,
        disk.number,
        settings.watermark_permille / 10,
        mode_name(settings.mode),
        plan.tree.interface().name(),
        plan.tree.root().display(),
    );
    text.extend(disk.notes.iter().map(|note| format!("note: {note}\n")));
    let mut host = Host::new(plan.tree.interface(), *settings, rules.clone());
    let mut table = Table::new(&["CGROUP", "LIMITS", "FROM"]);
    let (mut found, mut is_used) = (0, vec![false; rules.len()]);
    let mut walk = Walk::new(&plan.tree);
    while !walk.is_over() {
        for path in walk.step(&plan.tree) {
            for (rule, used) in rules.iter().zip(&mut is_used) {
                *used |= rule.selector.is_match(&path);
            }
            let Ok(stands) = plan.tree.limits(&path, disk.number) else { continue };
            let Observed::Adopted(limits) = host.observe(&path, stands) else { continue };
            let is_chosen = |rule: &&weir_govern::host::Rule| {
                !rule.limits.is_max() && rule.selector.is_match(&path)
            };
            let rule = rules.iter().position(|rule| is_chosen(&rule));
            let from = match rule.filter(|_| stands.is_max()) {
                Some(rule) => format!("[{}]", sections[rule]),
                None => "the kernel".to_owned(),
            };
            found += 1;
            if found <= LISTED_MAX {
                table.row([path, print_limits(limits), from]);
            }
        }
    }
    if found > 0 {
        text.extend(table.lines(&[]).into_iter().map(|line| line + "\n"));
    }
    match found {
        0 => text.push_str(
            "no cgroup has a limit on it, or is selected: limits are adopted when they come\n",
        ),
        found if found > LISTED_MAX => text.push_str(&format!("and {} more\n", found - LISTED_MAX)),
        _ => {}
    }
    for (section, _) in sections.iter().zip(is_used).filter(|(_, used)| !used) {
        text.push_str(&format!("note: [{section}] selects no cgroup that is there now\n"));
    }
    text
}
