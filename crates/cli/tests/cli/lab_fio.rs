//! Job files that include others, and command lines of fio, as `weir lab` takes them.

use std::fs;

use crate::support::Place;

const JOB: &str = "[global]\ndirect=1\nsize=1m\ninclude parts/common.fio\n[a]\nrw=randread\n[b]\n";

#[test]
fn included_files_are_found_beside_the_job_file_and_in_the_working_directory() {
    let place = Place::new("included");
    fs::create_dir_all(place.path().join("jobs/parts")).unwrap();
    place.file("jobs/job.fio", JOB);
    place.file("jobs/parts/common.fio", "bs=8k\ninclude deep.fio\n");
    place.file("jobs/parts/deep.fio", "thread\n");
    let (status, out, err) = place.run_inside(&["lab", "run", "jobs/job.fio"]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("jobs/parts/deep.fio line 1: `thread` has no effect"), "{out}");
    assert!(out.contains("256 requests"), "{out}");
    // As in fio, one of the working directory goes first.
    fs::create_dir(place.path().join("parts")).unwrap();
    place.file("parts/common.fio", "bs=4k\n");
    let (_, out, _) = place.run_inside(&["lab", "run", "jobs/job.fio"]);
    assert!(out.contains("512 requests"), "{out}");

    place.file("jobs/none.fio", "[a]\ninclude nowhere.fio\ninclude ../parts\ninclude none.fio\n");
    let (status, out, err) = place.run_inside(&["lab", "run", "jobs/none.fio"]);
    assert_eq!((status, out.as_str()), (2, ""));
    for words in [
        "jobs/none.fio:2:1: include \"nowhere.fio\": there is no such file, neither in the working directory nor beside",
        "jobs/none.fio:3:1: include \"../parts\": ",
        "jobs/none.fio:4:1: include \"none.fio\": jobs/none.fio includes itself",
    ] {
        assert!(err.contains(words), "{err}");
    }
    place.file("mine.toml", "about = \"x\"\njob = \"[a]\\ninclude parts/common.fio\\n\"\n");
    let (status, _, err) = place.run_inside(&["lab", "run", "mine.toml"]);
    assert!(status == 2 && err.contains("no files are included here"), "{err}");
}

#[test]
fn a_command_line_of_fio_runs() {
    let place = Place::new("command-line");
    place.file("job.fio", "[of_file]\nbs=8k\n");
    let words = |line: &str| -> Vec<String> { line.split_whitespace().map(Into::into).collect() };
    let run = |line: &str| {
        let words = words(line);
        place.run_inside(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (status, out, err) =
        run("lab run --disk null,latency=1ms -- fio --name=x --rw=randread --size=1m \
         --direct=1 --bs 16k --group_reporting --output-format=json --thread");
    assert_eq!((status, err.as_str()), (0, ""));
    for words in [
        "fio --name=x --rw=randread",
        "64 requests",
        "--output-format=json: `output-format` has no effect",
        "--thread: `thread` has no effect",
    ] {
        assert!(out.contains(words), "{words}:\n{out}");
    }
    // A job file before `--` is the first of the command line's.
    let (status, out, _) = run("lab run job.fio -- --size=1m --direct=1 --name=x --bs=4k");
    assert!(status == 0 && out.contains("384 requests") && out.contains("of_file"), "{out}");
    // A setting of every job holds here, too, and a sweep has it for its values.
    let (status, out, _) =
        run("lab sweep --set fio.bs=4k,64k --format json -- --name=x --size=1m --direct=1");
    assert!(status == 0 && out.contains("\"fio.bs\": \"64k\""), "{out}");
    let (status, out, _) =
        run("lab compare --a fio.bs=4k --b fio.bs=8k -- --name=x --size=1m --direct=1");
    assert!(status == 0 && out.contains("fio.bs=8k / fio.bs=4k"), "{out}");
    let (status, out, _) = run("lab compare job.fio --set fio.size=1m -- --name=of_file --bs=4k");
    assert!(status == 0 && out.contains("/ job.fio"), "{out}");
    for (line, words) in [
        ("lab run", "JOB|SCENARIO|TRACE"),
        ("lab run -- --rw=read", "fio command line: the command line has no job"),
        ("lab run -- --name=x --iodpeth=3", "did you mean --iodepth?"),
        ("lab run -- --name=x --client=far", "on other machines"),
        ("lab run -- --name=x --size=1m --rw=raed", "--rw=raed: rw:"),
        ("lab run -- --name=x --filename", "--filename needs a value"),
        ("lab run noisy-neighbour -- --runtime=3", "noisy-neighbour is no job file"),
        ("lab run -- nowhere.fio", "nowhere.fio: "),
        ("lab run -- --name=x --size=9t --direct=1", "the jobs' files take"),
        ("lab compare job.fio job.fio -- --name=x", "are three things"),
        ("lab compare job.fio", "<B>"),
    ] {
        let (status, out, err) = run(line);
        assert_eq!((status, out.as_str()), (2, ""), "{line}");
        assert!(err.contains(words), "{line}: {err}");
    }
}
