//! Cost of the ring: an NBD-shaped server of 4 KiB random reads over Unix sockets, and its CPU time an operation.
//!
//! `cargo run --release -p weir-uring --example echo_bench -- [key=value …]`, with
//! `connections=2 depth=32 seconds=3 store=file|memory direct=no|yes file_bytes=67108864 single=no|yes setup=auto|plain registered=yes|no`.
//! `single=yes` lets the client write each request by itself, as libnbd does. Only the server's thread is counted.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rustix::time::{ClockId, clock_gettime};
use weir_uring::{
    Backend, Completion, Config, DirectMode, Message, OpenOptions, Ring, Setup, Socket,
    monotonic_ns,
};

const REQUEST: usize = 28;
const HEADER: usize = 16;
const BLOCK: usize = 4096;

struct Settings {
    connections: usize,
    depth: usize,
    seconds: u64,
    memory: bool,
    file_bytes: u64,
    single: bool,
    direct: DirectMode,
    setup: Setup,
    registered: bool,
}

/// One client's end in the server.
struct Connection {
    socket: Socket,
    /// The start of a request whose rest has not come yet.
    partial: Vec<u8>,
    /// Replies for the next send.
    out: Option<Message>,
    sending: bool,
}

#[derive(Default, Debug)]
struct Counts {
    turns: u64,
    receives: u64,
    requests: u64,
    sends: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = parse()?;
    let backend = if settings.memory {
        Backend::memory(settings.file_bytes)?
    } else {
        let path = std::env::temp_dir().join(format!("weir-echo-bench-{}", std::process::id()));
        std::fs::write(&path, vec![7; settings.file_bytes as usize])?;
        let options = OpenOptions { direct: settings.direct, ..OpenOptions::default() };
        let backend = Backend::open(&path, options);
        // Open it stays; nothing is left behind however this ends.
        std::fs::remove_file(&path)?;
        backend?
    };
    run(&settings, backend)
}

fn run(settings: &Settings, backend: Backend) -> Result<(), Box<dyn Error>> {
    let mut sockets = Vec::new();
    let clients: Vec<_> = (0..settings.connections)
        .map(|number| {
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
            sockets.push(ours);
            let until = monotonic_ns() + settings.seconds * 1_000_000_000;
            let (depth, blocks) = (settings.depth, settings.file_bytes / BLOCK as u64);
            let single = settings.single;
            std::thread::spawn(move || client(theirs, depth, blocks, single, number as u64, until))
        })
        .collect();
    let (cpu, split) = (thread_cpu(), thread_ticks());
    let started = monotonic_ns();
    let counts = serve(settings, sockets, backend)?;
    let (wall, cpu) = ((monotonic_ns() - started) as f64 / 1e9, thread_cpu() - cpu);
    let (user, system) = thread_ticks();
    let (user, system) = (user - split.0, system - split.1);
    for client in clients {
        client.join().expect("a client").expect("its socket");
    }
    let ops = counts.requests as f64;
    println!("operations {}  per second {:.0}", counts.requests, ops / wall);
    println!(
        "server CPU {:.2} us an operation ({:.0} % user)",
        cpu * 1e6 / ops,
        100.0 * user / (user + system)
    );
    println!(
        "an operation: {:.3} turns, {:.3} receives, {:.3} sends",
        counts.turns as f64 / ops,
        counts.receives as f64 / ops,
        counts.sends as f64 / ops
    );
    Ok(())
}

fn serve(
    settings: &Settings,
    sockets: Vec<UnixStream>,
    backend: Backend,
) -> Result<Counts, Box<dyn Error>> {
    let mut config = Config { setup: settings.setup, ..Config::default() };
    if !settings.registered {
        (config.registered_files, config.fixed_buffers) = (0, false);
    }
    let mut ring = Ring::new(&config)?;
    let disk = ring.attach(backend);
    let mut counts = Counts::default();
    let mut connections = Vec::new();
    for (index, socket) in sockets.into_iter().enumerate() {
        let socket = ring.add_socket(socket)?;
        ring.receive(&socket, index as u64);
        connections.push(Connection { socket, partial: Vec::new(), out: None, sending: false });
    }
    let mut open = connections.len();
    while open > 0 {
        ring.wait(None)?;
        counts.turns += 1;
        while let Some(completion) = ring.poll_completion() {
            match completion {
                Completion::Received { token, result } => {
                    // A client that hangs up with replies on their way is a reset.
                    let Ok(Some(bytes)) = result else {
                        open -= 1;
                        continue;
                    };
                    counts.receives += 1;
                    let connection = &mut connections[token as usize];
                    let mut start = |request: &[u8]| {
                        let offset =
                            u64::from_be_bytes(request[16..24].try_into().expect("8 bytes"));
                        let buffer = ring.pool().get(BLOCK).expect("room for every request");
                        ring.read(&disk, offset, buffer, token);
                    };
                    let mut bytes = &bytes[..];
                    if !connection.partial.is_empty() {
                        let missing = bytes.len().min(REQUEST - connection.partial.len());
                        connection.partial.extend_from_slice(&bytes[..missing]);
                        bytes = &bytes[missing..];
                        if connection.partial.len() == REQUEST {
                            start(&connection.partial);
                            connection.partial.clear();
                        }
                    }
                    let mut requests = bytes.chunks_exact(REQUEST);
                    requests.by_ref().for_each(&mut start);
                    connection.partial.extend_from_slice(requests.remainder());
                    ring.receive(&connection.socket, token);
                }
                Completion::Read { token, buffer, result } => {
                    result?;
                    counts.requests += 1;
                    let connection = &mut connections[token as usize];
                    let out = connection.out.get_or_insert_with(|| ring.message());
                    out.push_bytes(&[1; HEADER]);
                    out.push_buffer(buffer, 0..BLOCK);
                }
                Completion::Sent { token, result } => {
                    // A client that has what it wants hangs up.
                    let _ = result;
                    connections[token as usize].sending = false;
                }
                other => unreachable!("{other:?}"),
            }
        }
        for (index, connection) in connections.iter_mut().enumerate() {
            if !connection.sending
                && let Some(out) = connection.out.take()
            {
                connection.sending = true;
                counts.sends += 1;
                ring.send(&connection.socket, out, index as u64);
            }
        }
    }
    Ok(counts)
}

/// Keeps `depth` requests in flight until the time is over.
fn client(
    mut stream: UnixStream,
    depth: usize,
    blocks: u64,
    single: bool,
    seed: u64,
    until: u64,
) -> std::io::Result<()> {
    let mut random = seed;
    let mut requests = vec![0; depth * REQUEST];
    let mut replies = vec![0; depth * (HEADER + BLOCK)];
    let (mut missing, mut received) = (depth, 0);
    while monotonic_ns() < until {
        for request in requests[..missing * REQUEST].chunks_exact_mut(REQUEST) {
            // Knuth's MMIX generator.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let offset = (random >> 20) % blocks * BLOCK as u64;
            request[16..24].copy_from_slice(&offset.to_be_bytes());
            if single {
                stream.write_all(request)?;
            }
        }
        if !single {
            stream.write_all(&requests[..missing * REQUEST])?;
        }
        received += stream.read(&mut replies[received..])?;
        missing = received / (HEADER + BLOCK);
        received %= HEADER + BLOCK;
    }
    Ok(())
}

fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// User and system time of this thread, in clock ticks.
fn thread_ticks() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let field =
        |index| after_name.split_whitespace().nth(index).and_then(|text: &str| text.parse().ok());
    (field(11).unwrap_or(0.0), field(12).unwrap_or(0.0))
}

fn parse() -> Result<Settings, Box<dyn Error>> {
    let mut given: HashMap<String, String> = HashMap::new();
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or("arguments are key=value")?;
        given.insert(key.into(), value.into());
    }
    let mut take = |key: &str, default: &str| given.remove(key).unwrap_or_else(|| default.into());
    let settings = Settings {
        connections: take("connections", "2").parse()?,
        depth: take("depth", "32").parse()?,
        seconds: take("seconds", "3").parse()?,
        memory: take("store", "file") == "memory",
        file_bytes: take("file_bytes", "67108864").parse()?,
        single: take("single", "no") == "yes",
        direct: if take("direct", "no") == "yes" { DirectMode::On } else { DirectMode::Off },
        registered: take("registered", "yes") == "yes",
        setup: if take("setup", "auto") == "plain" { Setup::Plain } else { Setup::Auto },
    };
    match given.keys().next() {
        Some(unknown) => Err(format!("unknown key {unknown}").into()),
        None => Ok(settings),
    }
}
