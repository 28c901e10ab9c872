//! Comparison with the installed fio on the same files. Without it each test is a named skip.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_fio::{
    Amount, BlockSize, CommandLine, Input, Job, JobText, Problem, alias_of, ignored_options, parse,
    parse_input, refused_options, typed_options,
};

use support::{Written, fio};

fn read(text: &str) -> Result<Vec<Job>, weir_fio::FioErrors> {
    let env = BTreeMap::from([("DIR".into(), "/srv".into()), ("NAME".into(), "monday".into())]);
    parse("x", text.as_bytes(), &env).map(|file| file.jobs)
}

/// By a main name or a second one.
#[test]
fn every_option_of_fio_is_known() {
    let Some((_, help)) = fio(&["--cmdhelp"]) else { return };
    let known: Vec<_> = typed_options()
        .chain(ignored_options().map(|(name, _)| name))
        .chain(refused_options().map(|(name, _)| name))
        .collect();
    let names = help.lines().filter_map(|line| line.split_whitespace().next());
    let mut count = 0;
    for name in names.map(|name| name.trim_end_matches(':')) {
        count += 1;
        assert!(known.contains(&alias_of(name).unwrap_or(name)), "{name}");
    }
    assert!(count > 150, "{help}");
}

/// Nor is one of its engines' options.
#[test]
fn every_unlisted_option_of_fio_is_known() {
    let known = |name: &str| {
        !matches!(read(&format!("[a]\nsize=1m\n{name}=1\n")), Err(errors)
        if errors.errors.iter().any(|error| matches!(error.problem, Problem::UnknownOption { .. })))
    };
    for name in [
        "bs_is_seq_rand",
        "iomem_align",
        "mem_align",
        "verifysort",
        "verifysort_nr",
        "flow_watermark",
    ] {
        let file = Written::new(&format!("off-{name}"), &format!("[a]\nsize=1m\n{name}=1\n"));
        let Some((accepted, _)) = fio(&["--parse-only", file.path()]) else { return };
        assert!(accepted && known(name), "{name}");
    }
    let Some((_, engines)) = fio(&["--enghelp"]) else { return };
    let mut count = 0;
    for engine in engines.lines().skip(1).map(str::trim) {
        let Some((_, help)) = fio(&[&format!("--enghelp={engine}")]) else { return };
        // An engine without options has a line without a colon.
        let names = help.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
        for name in names {
            count += 1;
            assert!(known(name), "{engine}: {name}");
        }
    }
    assert!(count > 40, "{count}\n{engines}");
}

#[test]
fn job_files_are_accepted_and_refused_as_by_fio() {
    for (index, text) in [
        include_str!("../jobs/r2.job"),
        include_str!("../jobs/stages.fio"),
        include_str!("../jobs/replay.fio"),
        "[a]\nsize=4kb\n",
        "[a]\nbsrange=8k-4k\nsize=1m\n",
        "[a]\nsize=abc\n",
        "[a]\nsize=1m\nnot_an_option=1\n",
        "[a]\nsize=1m\nRW=read\n",
        "[a]\nsize=1m\nrw=READ\n",
        "[a]\nsize=1m\niodepth=0\n",
        "[a]\nsize=1m\nrwmixread=101\n",
        "[a]\nsize=1m\ndirect\n",
        "[a]\nsize=1m\ndirect=2\n",
        "[a]\nsize=1m\ntime_based=1\n",
        "[a]\nsize=1m\nnorandommap=7\n",
        "[a]\nsize=1m\nprioclass=5\n",
        "[a]\nsize=1m\nbs=0\n",
        "[a]\nsize=1m\nrandom_distribution=zipf:1\n",
        "[a]\nsize=1m\nrandom_distribution=pareto:1\n",
        "[a]\nsize=1m\nrandom_distribution=zoned:50/50:30/50\n",
        "[a]\nsize=1m\ncgroup_weight=99\n",
        "[a]\nsize=1m\nzonemode=strided\nzonesize=4k\nzonerange=8k\nzoneskip=1k\n",
        "[a]\nsize=1m\nzonerange=4k\nzoneskip=1k\n",
        "rw=read\n[a]\nsize=1m\n",
    ]
    .into_iter()
    .enumerate()
    {
        let file = Written::new(&format!("alike{index}"), text);
        let Some((accepted, _)) = fio(&["--parse-only", file.path()]) else { return };
        let ours = read(text);
        assert_eq!(ours.is_ok(), accepted, "{text}\n{:?}", ours.map_err(|e| e.to_string()));
    }
}

/// Group, pattern, block sizes and depth, as fio writes them before it starts.
#[test]
fn jobs_are_the_same_as_in_fio() {
    let text = "[global]\nioengine=null\nsize=64k\nname=nobody\n[a]\nstonewall\nrw=randrw:3\nbs=4k,8k\n\
                [b]\nbsrange=1k-4k,2k-8k,\n[c]\nname=sea\nbssplit=2k/50:4k/50,4k/90:8k/10\niodepth=7\nstonewall\n\
                [global]\nnew_group\nkb_base=1000\n[d]\nbs=,8k,\nrw=write\n[a]\nbs=8kib # 2^13\nsize=1g\nio_size=1mib\n\
                [globals]\niodepth=0x10\n[e]\nwait_for=sea\nwait_for_previous=1\n";
    let file = Written::new("jobs", text);
    let Some((_, output)) = fio(&[file.path()]) else { return };
    let theirs: Vec<_> = output.lines().filter(|line| line.contains(": (g=")).collect();
    let size = |size: &BlockSize| format!("{}B-{}B", size.min(), size.max());
    let ours: Vec<_> = read(text)
        .unwrap_or_else(|errors| panic!("{errors}"))
        .iter()
        .map(|job| {
            let bs = job.options.block_size();
            let (read, write, trim) = (size(&bs.read), size(&bs.write), size(&bs.trim));
            format!(
                "{}: (g={}): bs=(R) {read}, (W) {write}, (T) {trim}, ioengine=null, iodepth={}",
                job.name,
                job.group,
                job.options.depth()
            )
        })
        .collect();
    // The pattern's name is the one thing that our model does not keep.
    let theirs: Vec<_> = theirs
        .iter()
        .map(|line| {
            let (before, after) = line.split_once("rw=").expect("fio names the pattern");
            format!("{before}{}", after.split_once(", ").expect("fio names the blocks").1)
        })
        .collect();
    assert_eq!(ours, theirs, "{output}");
}

#[test]
fn numbers_are_the_same_as_in_fio() {
    for text in ["4096", "4k", "4K", "4kb", "1m", "1mi", "1mib", "1G", "3t", "1p", "0x10000"] {
        for base in ["1024", "1000"] {
            let job = format!("[a]\nkb_base={base}\nbs=1\nsize={text}\n");
            let file = Written::new(&format!("number-{base}-{text}"), &job);
            let Some((_, trace)) = fio(&["--parse-only", "--debug=parse", file.path()]) else {
                return;
            };
            // The result stands on the line after the call.
            let mut lines = trace.lines().skip_while(|line| !line.contains("__handle_option=size"));
            let out = lines.nth(1).and_then(|line| line.split_once("out="));
            let theirs: u64 = out.and_then(|(_, out)| out.trim().parse().ok()).expect(&trace);
            let jobs = read(&job).unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(jobs[0].options.size, Some(Amount::Bytes(theirs)), "{job}");
        }
    }
}

/// Keeps the list in the README true.
#[test]
fn some_values_are_refused_that_fio_accepts() {
    for (index, line) in
        ["size=1.5m", "size=0x10k", "runtime=10x", "size=4*1024", "numjobs=0", "cgroup=a${NO_SUCH}"]
            .into_iter()
            .enumerate()
    {
        let text = format!("[a]\nsize=1m\n{line}\n");
        let file = Written::new(&format!("strict{index}"), &text);
        let Some((accepted, _)) = fio(&["--parse-only", file.path()]) else { return };
        assert!(accepted, "{line}");
        let errors = read(&text).expect_err(line);
        assert!(
            matches!(
                errors.errors[0].problem,
                Problem::Value { .. } | Problem::UnsetVariable { .. }
            ),
            "{errors}"
        );
    }
}

#[test]
fn included_files_and_command_lines_give_the_same_jobs_as_in_fio() {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("included-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("parts")).expect("the target directory can be written");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    write("top.fio", "[global]\nioengine=null\nsize=64k\ninclude parts/all.fio\n[a]\n[b]\nbs=2k\n");
    write("parts/all.fio", "bs=8k\ninclude=deep.fio\n");
    write("parts/deep.fio", "iodepth=3 # so\nrw=randread\n");
    let top = folder.join("top.fio").display().to_string();
    let read_included = &mut |path: &str, including: &str| {
        let found = std::path::Path::new(including).parent().expect("a folder").join(path);
        let bytes = std::fs::read(&found).map_err(|error| error.to_string())?;
        Ok((found.display().to_string(), bytes))
    };
    for line in [
        &[top.as_str()][..],
        &[
            "--bs=1k",
            "--ioengine=null",
            "--size=64k",
            "--name=first",
            "--name=global",
            "--iodepth",
            "5",
            "--name=second",
            "-rw=write",
            &top,
        ],
        &["--section=b", &top],
        &[
            "--ioengine=null",
            "--size=64k",
            "--group_reporting",
            "--name=x",
            "--time_based=0",
            "--stonewall",
            "--name=y",
            "--stonewall=1",
        ],
    ] {
        let Some((_, output)) = fio(line) else { return };
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let command = CommandLine::read(&words).unwrap_or_else(|error| panic!("{error}"));
        let texts = command.files.iter().map(|file| {
            JobText::load(file.as_str(), std::fs::read(file).expect("written"), read_included)
        });
        let input = Input { files: texts.collect(), command, env: BTreeMap::new() };
        let file = parse_input(&input, &[]).unwrap_or_else(|errors| panic!("{errors}"));
        let ours: Vec<String> = file
            .jobs
            .iter()
            .map(|job| {
                let size = job.options.block_size().read.min();
                format!("{}: (g={}) {size} {}", job.name, job.group, job.options.depth())
            })
            .collect();
        let theirs: Vec<String> = output
            .lines()
            .filter(|line| line.contains(": (g="))
            .map(|line| {
                let (name, rest) = line.split_once(": rw=").expect("fio names the pattern");
                let size = rest.split_once("(R) ").and_then(|(_, rest)| rest.split_once("B-"));
                let depth = rest.rsplit_once("iodepth=").expect("fio names the depth").1;
                format!("{name} {} {depth}", size.expect("fio names the blocks").0)
            })
            .collect();
        assert_eq!(ours, theirs, "{line:?}\n{output}");
    }
    std::fs::remove_dir_all(folder).expect("removed");
}
