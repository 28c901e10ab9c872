//! Random mixes: a kernel, a disk, tenants with limits, a tenant without that comes and goes.

use weir_fio::random::Random;

/// When the tenant without a limit comes and goes, and the end; in milliseconds.
pub(crate) const COMES_MS: u64 = 8_000;
pub(crate) const GOES_MS: u64 = 11_000;
pub(crate) const END_MS: u64 = 15_000;

const MODEL: &str = "size = 17179869184\nrbps = 200000000\nrseqiops = 20000\nrrandiops = 8000\n\
    wbps = 120000000\nwseqiops = 15000\nwrandiops = 5000\nlatency = \"80us\"\nstreams = 8\n";

/// Disks: settings, or a model by which the governor knows its cost.
const DISKS: [(&str, Option<&str>); 6] = [
    ("null,rate=20M", None),
    ("null,rate=150M,latency=100us", None),
    ("hdd7200", None),
    ("hdd7200,ncq=1", None),
    ("ssd-sata,channels=2", None),
    ("", Some(MODEL)),
];

pub(crate) struct Tenant {
    pub(crate) name: String,
    rw: &'static str,
    block_kib: u64,
    depth: u64,
    /// Wants all it can get.
    pub(crate) is_open: bool,
    /// What it asks for at most, as a part of what it gets without limits.
    wants: f64,
    pub(crate) starts_ms: u64,
    /// Its limit, as a part of what it gets without limits; whether it is one of I/Os.
    pub(crate) part: f64,
    pub(crate) has_ios: bool,
}

pub(crate) struct Mix {
    pub(crate) seed: u64,
    pub(crate) kernel: &'static str,
    pub(crate) version: &'static str,
    pub(crate) disk: &'static str,
    pub(crate) model: Option<&'static str>,
    pub(crate) tenants: Vec<Tenant>,
    /// The one without a limit, if any.
    pub(crate) other: Option<Tenant>,
}

impl Tenant {
    pub(crate) fn block_bytes(&self) -> f64 {
        (self.block_kib * 1024) as f64
    }
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

fn tenant(random: &mut Random, name: &str, is_slow: bool) -> Tenant {
    let blocks: &[u64] = if is_slow { &[4, 16, 64, 256] } else { &[16, 64, 128, 256] };
    Tenant {
        name: name.into(),
        rw: pick(random, &["read", "randread", "randread", "write", "randwrite"]),
        block_kib: pick(random, blocks),
        depth: pick(random, &[1, 1, 2, 4, 8, 16, 32]),
        is_open: random.below(4) > 0,
        wants: 0.3 + random.fraction() * 0.6,
        starts_ms: if random.below(4) == 0 { 1_000 + random.below(2_000) } else { 0 },
        part: 0.1 + random.fraction() * 0.5,
        has_ios: random.below(3) == 0,
    }
}

impl Mix {
    pub(crate) fn new(seed: u64) -> Mix {
        let random = &mut Random::new(seed);
        let (disk, model) = pick(random, &DISKS);
        let is_slow = disk.starts_with("hdd") || disk.contains("20M");
        let count = 1 + random.below(5);
        let names = (0..count).map(|number| format!("t{number}"));
        let mut tenants: Vec<Tenant> = names.map(|name| tenant(random, &name, is_slow)).collect();
        tenants[0].starts_ms = 0;
        let other = (random.below(10) < 8).then(|| {
            let mut other = tenant(random, "other", is_slow);
            other.starts_ms = COMES_MS;
            if other.is_open {
                other.depth = other.depth.max(8);
            }
            other
        });
        Mix {
            seed,
            kernel: pick(random, &["6.1", "6.12", "6.15"]),
            version: pick(random, &["1", "2"]),
            disk,
            model,
            tenants,
            other,
        }
    }

    /// The jobs. `wants` has what each asks for at most, in bytes a second.
    pub(crate) fn jobs(&self, has_other: bool, ends_ms: u64, wants: Option<&[f64]>) -> String {
        let mut text = "[global]\ndirect=1\nioengine=libaio\nsize=600m\ntime_based\n".to_owned();
        let others = self.other.iter().filter(|_| has_other);
        for (index, tenant) in self.tenants.iter().chain(others).enumerate() {
            let Tenant { name, rw, block_kib, depth, starts_ms, .. } = tenant;
            let ends_ms = if name == "other" { GOES_MS } else { ends_ms };
            let runs_ms = ends_ms - starts_ms;
            text += &format!(
                "[{name}]\ncgroup={name}\nrw={rw}\nbs={block_kib}k\niodepth={depth}\n\
                 startdelay={starts_ms}ms\nruntime={runs_ms}ms\n"
            );
            if let Some(wants) = wants
                && !tenant.is_open
            {
                let bytes = (wants[index] * tenant.wants).max(65_536.0) as u64;
                text += &format!("rate={bytes},{bytes}\n");
            }
        }
        text
    }

    /// The job of the other by itself.
    pub(crate) fn job_of_other(&self) -> String {
        let jobs = self.jobs(true, END_MS, None);
        let own = jobs.find("[other]").expect("it has another");
        let global = jobs.find("[t0]").expect("there is a tenant");
        format!("{}{}", &jobs[..global], &jobs[own..])
    }

    /// Limits as settings, from what each tenant gets without.
    pub(crate) fn limits(&self, gets: &[f64]) -> Vec<String> {
        let lines = self.tenants.iter().zip(gets).map(|(tenant, gets)| {
            let bytes = (gets * tenant.part).max(4096.0);
            let ios = bytes / (tenant.block_kib * 1024) as f64;
            // Linux counts whole I/Os in each tenth of a second.
            if tenant.has_ios && ios >= 50.0 {
                let ios = (ios / 10.0).round() as u64 * 10;
                format!("/{} riops={ios} wiops={ios}", tenant.name)
            } else {
                let bytes = bytes as u64;
                format!("/{} rbps={bytes} wbps={bytes}", tenant.name)
            }
        });
        lines.collect()
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let disk = if self.model.is_some() { "model" } else { self.disk };
        write!(f, "seed {}: {disk}, {} v{};", self.seed, self.kernel, self.version)?;
        for tenant in self.tenants.iter().chain(&self.other) {
            let Tenant { name, rw, block_kib, depth, is_open, part, starts_ms, has_ios, .. } =
                tenant;
            let open = if *is_open { "" } else { " little" };
            let kind = if *has_ios { "ios" } else { "bytes" };
            write!(f, " {name} {rw} {block_kib}k x{depth}{open} {part:.2} {kind} @{starts_ms};")?;
        }
        Ok(())
    }
}
