//! Text of the demo.

use std::path::Path;

use super::plan::LIMIT;

/// Before the four begin.
pub(super) fn opening() -> String {
    format!(
        "\
Four tenants of one emulated disk, over NBD, each limited to {LIMIT} reads a second.
All do the same job at the same time: read 4 KiB, think for 4 ms (6 ms one time
in twenty: no program is a clock), repeat.

"
    )
}

/// Summary of the four: `p99` of each in milliseconds, and Weir's `blame`.
pub(super) fn moral(p99: [f64; 4], blame: &str) -> String {
    let [before, after, today, weir] = p99;
    format!(
        "
{LIMIT} reads a second leave 10 ms for each. 4 ms are thought away, so all wait 6 ms
on average. But how?
  before  Two reads pass in each slice of 20 ms. A third waits for the slice to
          end, and 10 ms more: up to {before:.0} ms.
  after   The fix of 2018: nobody waits past the end of the slice: {after:.0} ms.
  today   Slices have 100 ms now: ten reads pass at once, then none for {today:.0} ms.
  Weir    No slices. Each read has its time, 10 ms after the one before: {weir:.1} ms.

Weir knows what its tenant's reads waited for:
  {blame}

"
    )
}

/// Before the neighbour comes.
pub(super) fn neighbour() -> String {
    format!(
        "\
Now a backup joins Weir's tenant under the same limit: 32 reads at a time, no
thinking. In order of arrival the first job would get one turn in 33: {:.0} reads a
second.

",
        f64::from(LIMIT) / 33.0
    )
}

/// Before the weights change.
pub(super) fn weights() -> &'static str {
    "
And while both are at it, nine parts to one: weir set /weir/web io.weight 900

"
}

/// Note on a late machine: then the limiters have not caused all of it.
pub(super) fn busy(late_percent: f64) -> String {
    format!(
        "\
(This machine has other work: {late_percent:.0} % of the job's pauses ended more than 1 ms
late, and so did reads.)

"
    )
}

/// Next steps for the user. `program` is this program's name, `directory` that of its servers' sockets.
pub(super) fn next(program: &str, directory: &Path) -> String {
    let socket = directory.join("memory.sock");
    let socket = socket.display();
    format!(
        "
What to try next:

  # a disk of your own under a limit; leave it running
  {program} serve memory:1G --max riops=100

  # in other terminals: some load (Debian: apt install fio), and who waits
  fio --name=try --ioengine=nbd --uri='nbd+unix:///?socket={socket}' \\
      --rw=randread --bs=4k --time_based --runtime=60
  {program} status --watch

  # another limit, while it runs
  {program} set /main io.max riops=1000

  # your own images and block devices, several tenants
  {program} serve --help
"
    )
}
