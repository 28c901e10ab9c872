//! Report of a replay, for people and for programs.

use std::fmt::Write;

use serde::Serialize;
use weir_units::{Bytes, Nanos};

use super::Args;
use super::figures::Summary;
use super::run::{Ended, OPS, Outcome};
use crate::output;
use crate::table::{Align, Table};

/// The report; names are stable and have their units. `docs/traces.md` lists them.
#[derive(Serialize)]
pub(super) struct Report {
    trace: Trace,
    target: Target,
    time: String,
    depth: u32,
    /// `whole`, `seconds`, `signal` or `failed`.
    ended: &'static str,
    elapsed_ns: u64,
    issued: u64,
    reads: Summary,
    writes: Summary,
    discards: Summary,
    flushes: Summary,
    /// `null` where no time was to be kept.
    late: Option<Late>,
    wrapped: u64,
    clipped: u64,
    widened: u64,
    left_out: u64,
    unsupported: u64,
}

#[derive(Serialize)]
struct Trace {
    path: String,
    format: String,
    passes: u64,
    streams: usize,
    lines: u64,
    skipped_lines: u64,
    reordered: u64,
    bad_lines: u64,
    first_bad_lines: Vec<BadLine>,
    /// Notes on how the trace was read.
    notes: Vec<String>,
    /// Time of the last record that was read, over all passes.
    at_ns: u64,
}

#[derive(Serialize)]
struct BadLine {
    line: u64,
    text: String,
    reason: String,
}

#[derive(Serialize)]
struct Target {
    name: String,
    size_bytes: u64,
}

/// How long after its time a request was issued.
#[derive(Serialize)]
struct Late {
    late_ns_p50: Option<u64>,
    late_ns_p99: Option<u64>,
    late_ns_p99_9: Option<u64>,
    late_ns_max: Option<u64>,
}

impl Report {
    pub(super) fn new(args: &Args, outcome: &Outcome) -> Report {
        let Outcome { source, room, measured } = outcome;
        let (lines, skipped_lines, bad) = source.lines();
        let first_bad_lines = bad.first.iter().map(|(line, text, reason)| BadLine {
            line: *line,
            text: text.clone(),
            reason: reason.to_string(),
        });
        let elapsed_ns = measured.end_ns - measured.start_ns;
        let [reads, writes, discards, flushes] =
            measured.figures.each_ref().map(|figures| figures.summary(elapsed_ns));
        let late = (measured.late.count() > 0).then(|| Late {
            late_ns_p50: measured.late.percentile(50.0),
            late_ns_p99: measured.late.percentile(99.0),
            late_ns_p99_9: measured.late.percentile(99.9),
            late_ns_max: measured.late.max(),
        });
        Report {
            trace: Trace {
                path: args.trace.display().to_string(),
                format: source.format().to_string(),
                passes: source.passes(),
                streams: source.streams(),
                lines,
                skipped_lines,
                reordered: source.reordered(),
                bad_lines: bad.count,
                first_bad_lines: first_bad_lines.collect(),
                notes: source.notes(),
                at_ns: source.latest_ns(),
            },
            target: Target { name: args.to.clone(), size_bytes: room.size() },
            time: args.time.clone(),
            depth: args.depth,
            ended: match measured.ended {
                Ended::Whole => "whole",
                Ended::Seconds => "seconds",
                Ended::Signal(_) => "signal",
                Ended::Failed(_) => "failed",
            },
            elapsed_ns,
            issued: measured.issued,
            reads,
            writes,
            discards,
            flushes,
            late,
            wrapped: measured.adjusted.wrapped,
            clipped: measured.adjusted.clipped,
            widened: measured.adjusted.widened,
            left_out: source.left_out(),
            unsupported: measured.adjusted.unsupported,
        }
    }

    /// The bad lines, on standard error, as a compiler would tell them.
    pub(super) fn complain(&self) {
        let Trace { path, bad_lines, first_bad_lines, .. } = &self.trace;
        for BadLine { line, text, reason } in first_bad_lines {
            output::tell(&format!("{path}:{line}: {reason}: {text}"));
        }
        let more = bad_lines - first_bad_lines.len() as u64;
        if more > 0 {
            output::tell(&format!("{path}: and {more} more bad lines"));
        }
    }

    /// The report for people: at most 100 columns, but for names.
    pub(super) fn table(&self) -> String {
        let Trace {
            path,
            format,
            passes,
            streams,
            lines,
            skipped_lines,
            reordered,
            bad_lines,
            notes,
            at_ns,
            ..
        } = &self.trace;
        // Writing into a string cannot fail, here and below.
        let mut text = String::new();
        let plural = if *streams == 1 { "" } else { "s" };
        let _ = writeln!(text, "{path}  {format}  {streams} stream{plural}");
        let _ = writeln!(
            text,
            "  {lines} lines, {bad_lines} of them bad, {skipped_lines} no requests; {reordered} records ran back in time"
        );
        for note in notes {
            let _ = writeln!(text, "  {note}");
        }
        let _ = writeln!(text, "{}  {}", self.target.name, Bytes(self.target.size_bytes).rounded());
        let _ = writeln!(
            text,
            "  {} in {}, of a trace of {}; {}",
            match self.ended {
                "whole" if *passes > 1 => format!("{passes} passes"),
                "whole" => "whole".to_owned(),
                ended => format!("ended early ({ended})"),
            },
            Nanos(self.elapsed_ns).rounded(),
            Nanos(*at_ns).rounded(),
            self.time,
        );
        text.push('\n');

        let mut table = Table::new(&[
            "", "REQUESTS", "ERRORS", "BYTES", "BYTES/s", "IO/s", "P50", "P99", "P99.9", "MAX",
        ]);
        let names = ["read", "write", "discard", "flush"];
        let all = [&self.reads, &self.writes, &self.discards, &self.flushes];
        debug_assert_eq!(names.len(), OPS.len());
        for (name, summary) in names.into_iter().zip(all) {
            if summary.requests + summary.errors == 0 {
                continue;
            }
            table.row([
                name.to_owned(),
                summary.requests.to_string(),
                summary.errors.to_string(),
                Bytes(summary.bytes).rounded().to_string(),
                Bytes(summary.bytes_per_sec as u64).rounded().to_string(),
                format!("{:.0}", summary.ios_per_sec),
                time(summary.latency_ns_p50),
                time(summary.latency_ns_p99),
                time(summary.latency_ns_p99_9),
                time(summary.latency_ns_max),
            ]);
        }
        if let Some(late) = &self.late {
            let nothing = || String::new();
            table.row([
                "late".to_owned(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                time(late.late_ns_p50),
                time(late.late_ns_p99),
                time(late.late_ns_p99_9),
                time(late.late_ns_max),
            ]);
        }
        let mut align = vec![Align::Left];
        align.resize(10, Align::Right);
        let lines = table.lines(&align);
        // A head without a row says nothing.
        if lines.len() > 1 {
            for line in lines {
                let _ = writeln!(text, "{line}");
            }
        }

        let notes = [
            (self.wrapped, "lay beyond the target's end and were wrapped"),
            (self.clipped, "were longer than the target and were cut"),
            (self.widened, "were widened to whole blocks"),
            (self.left_out, "writes and discards were left out"),
            (self.unsupported, "were left out because the server does not offer them"),
        ];
        let notes: Vec<_> = notes.iter().filter(|(count, _)| *count > 0).collect();
        if !notes.is_empty() {
            text.push('\n');
        }
        for (count, what) in notes {
            let _ = writeln!(text, "{count} {what}");
        }
        text
    }
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| Nanos(ns).rounded().to_string())
}
