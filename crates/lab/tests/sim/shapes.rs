//! Rows of reports: jobs, cgroups and files.

use super::support::*;

#[test]
fn clones_have_rows_of_their_own_unless_they_are_reported_together() {
    let jobs = "[j]\nrw=read\nbs=4k\ndirect=1\nsize=40k\nnumjobs=3\n";
    let apart = run(ONE_MS, &[], jobs);
    let rows: Vec<_> = apart.rows.iter().map(|row| (row.clone, row.read.ios)).collect();
    assert_eq!(rows, [(0, 10), (1, 10), (2, 10)]);
    let together = run(ONE_MS, &[], &format!("{jobs}group_reporting\n"));
    assert_eq!(together.rows.len(), 1);
    let row = &together.rows[0];
    assert_eq!((row.processes, row.read.ios, row.runtime_ns), (3, 30, 10 * MS));
    assert_eq!((row.read.iops(), row.processes_ns), (3000.0, 30 * MS));
}

#[test]
fn a_row_of_several_cgroups_has_their_common_parent() {
    let cgroup_of = |cgroups: &[&str]| {
        let mut jobs = "[global]\nrw=read\nbs=4k\ndirect=1\nsize=4k\ngroup_reporting\n".to_owned();
        for (at, cgroup) in cgroups.iter().enumerate() {
            jobs += &format!("[j{at}]\ncgroup={cgroup}\n");
        }
        run(ONE_MS, &[], &jobs).rows[0].cgroup.clone()
    };
    assert_eq!(cgroup_of(&["vms/db", "vms/db"]), "/vms/db");
    assert_eq!(cgroup_of(&["vms/db", "vms/web"]), "/vms");
    assert_eq!(cgroup_of(&["vms/db", "vms/db", "vms/db/log"]), "/vms/db");
    assert_eq!(cgroup_of(&["vms/db", "vms2/db"]), "/");
    assert_eq!(cgroup_of(&["db", "backup", "db"]), "/");
}

/// As in fio, rates are over the longest time of one of the jobs, even if they begin one after the other.
#[test]
fn a_row_lasts_from_its_first_start_to_its_last_end() {
    let jobs = "[global]\nbs=4k\ndirect=1\nsize=40k\ngroup_reporting\n[a]\nrw=read\n[b]\nrw=read\nstartdelay=50ms\n[c]\nrw=write\nsize=20k\n";
    let results = run(ONE_MS, &[], jobs);
    let row = &results.rows[0];
    assert_eq!((row.processes, row.runtime_ns, row.processes_ns), (3, 60 * MS, 25 * MS));
    assert_eq!((row.read.ios, row.read.runtime_ns), (20, 10 * MS));
    assert_eq!((row.write.ios, row.write.runtime_ns), (5, 5 * MS));
    let told = &weir_lab::report::fio_json(&results)["jobs"][0];
    assert_eq!((&told["job_runtime"], &told["read"]["runtime"]), (&25.into(), &10.into()));
}

/// As in fio.
#[test]
fn verification_has_its_own_runtime() {
    let runtimes = |options: &str| {
        let jobs = format!("[j]\nbs=4k\ndirect=1\nsize=40k\nverify=md5\n{options}");
        let results = run(ONE_MS, &[], &jobs);
        let row = &results.rows[0];
        [row.runtime_ns, row.read.runtime_ns, row.write.runtime_ns].map(|ns| ns / MS)
    };
    assert_eq!(runtimes("rw=write\n"), [20, 10, 10]);
    assert_eq!(runtimes("rw=write\nloops=3\n"), [60, 30, 30]);
    assert_eq!(runtimes("rw=write\nverify_only\n"), [10, 10, 0]);
    // What is read meanwhile has the time of the writes as well; fio counts none for it.
    assert_eq!(runtimes("rw=write\nverify_backlog=2\n"), [20, 20, 20]);
    // The first is read when the last is written.
    let queue = "rw=write\nioengine=libaio\niodepth=4\nnumber_ios=9\n";
    assert_eq!(runtimes(queue), [6, 3, 3]);
    // Reads that are not of the verification take the time of the writes, and then that.
    let [all, reads, writes] = runtimes("rw=rw\n");
    assert_eq!((all, reads, writes < 15 && writes > 9), (all, all, true));
}

#[test]
fn jobs_are_in_the_cgroups_they_name() {
    let jobs = "[global]\nrw=read\nbs=4k\ndirect=1\n[a]\nsize=40k\ncgroup=x/y\ncgroup_weight=300\n[b]\nsize=80k\n";
    let results = run(ONE_MS, &[], jobs);
    let bytes = |path| cgroup(&results, path).counters.read.bytes >> 10;
    assert_eq!((bytes("/x/y"), bytes("/x"), bytes("/main"), bytes("/")), (40, 40, 80, 120));
    assert_eq!((cgroup(&results, "/x/y").weight, cgroup(&results, "/main").weight), (300, 100));
    assert_eq!(
        (row(&results, "a").cgroup.as_str(), row(&results, "b").cgroup.as_str()),
        ("/x/y", "/main")
    );
    let results = run(ONE_MS, &[("home", "per-job")], jobs);
    assert_eq!(cgroup(&results, "/b").counters.read.bytes, 80 << 10);
}

#[test]
fn files_are_where_they_were_laid_out() {
    let sequential = "[j]\nrw=read\nbs=64k\ndirect=1\nsize=64m\n";
    let spread = format!("{sequential}nrfiles=16\nfile_service_type=random\n");
    let scattered = "[j]\nrw=read\nbs=64k\ndirect=1\nsize=4m\nnumjobs=16\noffset_increment=60g\nfilename=/dev/sdx\n";
    let times = [sequential, &spread, scattered].map(|jobs| {
        let results = run("hdd7200", &[], jobs);
        assert_eq!(results.device.bytes, 64 << 20);
        results.elapsed_ns
    });
    // The further the head has to go, the longer it takes.
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[2] > 5 * times[0], "{times:?}");
}

#[test]
fn clones_without_an_increment_read_the_same() {
    let jobs = "[j]\nrw=read\nbs=4k\nsize=400k\nnumjobs=2\nfilename=shared\nstartdelay=0\n";
    // The second finds in the page cache what the first has read, and the other way round.
    let results = run(ONE_MS, &[], jobs);
    assert_eq!(results.device.bytes, 400 << 10);
}

#[test]
fn random_file_sizes_come_from_the_seed() {
    let bytes = |options: &str| {
        let jobs = format!("[j]\nrw=read\nbs=4k\ndirect=1\nnrfiles=200\n{options}");
        run(ONE_MS, &[], &jobs).rows[0].read.bytes >> 10
    };
    // 200 files of 4 to 64 KiB: 6,700 KiB or so, with a deviation of 250.
    let all = bytes("filesize=4k-64k\n");
    assert!((5700..7700).contains(&all) && all % 4 == 0, "{all}");
    assert_eq!(bytes("filesize=4k-64k\n"), all);
    assert_ne!(bytes("filesize=4k-64k\nrandseed=7\n"), all);
    // What is left below a whole block is not asked for, unless no size has whole ones only.
    assert_eq!(bytes("filesize=64k-67k\n"), 200 * 64);
    assert_eq!(bytes("filesize=6k-7k\n"), 200 * 4);
    // Beside it `size` is how much of each in percent, or at most of all.
    assert_eq!(bytes("filesize=64k\nsize=25%\n"), 200 * 16);
    assert_eq!(bytes("filesize=64k\nsize=1m\n"), 1024);
}

#[test]
fn a_file_has_room_for_its_size_behind_an_offset_in_percent() {
    let jobs =
        "[j]\nrw=read\nbs=4k\ndirect=1\nsize=40k\noffset=50%\nnumjobs=2\noffset_increment=10%\n";
    let results = run(ONE_MS, &[], jobs);
    let ios: Vec<u64> = results.rows.iter().map(|row| row.read.ios).collect();
    assert_eq!(ios, [10, 10]);
}
