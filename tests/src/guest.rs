//! Virtual machine with a stock kernel, for what the kernel of the machine under the tests may lack or must be spared.
//!
//! Debian's cloud kernel under QEMU's software emulation, with nothing but memory and two serial ports: no network, and no disk
//! unless one is given. It is up after about 5 s; a program takes ten times as long as outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::debian::debian;
use crate::peer::{peer, skip};
use crate::run::{run, run_within};
use crate::{Peer, Place};

/// Longest life of a guest, a multiple of what one takes on a slow machine.
const LIFE: Duration = Duration::from_secs(180);

/// Memory of a guest, in QEMU's words.
const MEMORY: &str = "1G";

/// How much longer its QEMU may live: a guest that ends by itself tells what it was at.
const GRACE: Duration = Duration::from_secs(30);

/// First program of a guest. The kernel's messages go to the first serial port, those of the script to the second.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
stty -F /dev/ttyS1 raw
for module in /modules/*.ko; do insmod "$module" >/dev/ttyS1 2>&1; done
# Where the test has been killed, nothing else ends it.
(sleep LIFE; poweroff -f) &
cd /run
sh -eu /script </dev/null >/dev/ttyS1 2>&1
echo "exit $?" >/dev/ttyS1
poweroff -f
"#;

/// A guest before it is started: its kernel, and the files in its memory.
#[derive(Debug)]
pub struct Guest {
    qemu: Peer,
    busybox: PathBuf,
    kernel: PathBuf,
    /// Directory with the kernel's modules.
    modules: PathBuf,
    loaded: Vec<String>,
    root: PathBuf,
    /// Further arguments of QEMU.
    arguments: Vec<String>,
}

/// What a guest has said, and how its script has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status of the script; `None` where the guest ended without.
    pub code: Option<i32>,
    /// What the script has said.
    pub output: String,
    /// What the kernel has said: warnings and errors.
    pub console: String,
}

impl Guest {
    /// A guest with a shell; `None`, after [`skip`], where there cannot be one.
    ///
    /// # Panics
    /// With `CI=true` where QEMU, the kernel or busybox is missing.
    pub fn new(place: &Place) -> Option<Guest> {
        if std::env::consts::ARCH != "x86_64" {
            skip("guests are known for x86_64 only");
            return None;
        }
        let qemu = peer("qemu-system-x86_64")?;
        let busybox = debian("busybox-static")?;
        let busybox = ["bin/busybox", "usr/bin/busybox"].map(|at| busybox.join(at));
        let busybox = busybox.into_iter().find(|at| at.is_file()).expect("it is in its package");
        let image = debian("linux-image-cloud-amd64")?;
        let kernel = find(&image.join("boot"), &|name| name.starts_with("vmlinuz-"));
        let kernel = kernel.expect("a kernel's package has a kernel");
        let root = place.file("guest");
        for directory in ["bin", "dev", "lib", "mnt", "modules", "proc", "run", "sys", "tmp"] {
            fs::create_dir_all(root.join(directory)).expect("a directory can be made");
        }
        // As where /usr is merged, for programs that name theirs by a whole path.
        for (name, to) in [("sbin", "bin"), ("lib64", "lib")] {
            symlink(to, root.join(name)).expect("just made");
        }
        let (loaded, arguments) = (Vec::new(), Vec::new());
        let guest = Guest { qemu, kernel, modules: image, loaded, root, busybox, arguments };
        guest.file(&guest.busybox, "/bin/busybox");
        Some(guest)
    }

    /// Puts a copy of the file `from` at `to`.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn file(&self, from: &Path, to: &str) {
        let to = self.root.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("it is below the root")).expect("ours");
        fs::copy(from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }

    /// Puts a file with `text` at `to`.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn text(&self, text: &str, to: &str) {
        fs::write(self.root.join(to.trim_start_matches('/')), text).expect("ours");
    }

    /// Puts a program into `/bin`, without what is for debuggers, and the libraries that it needs.
    ///
    /// # Panics
    /// When it or one of its libraries is missing.
    #[track_caller]
    pub fn program(&self, from: &Path) {
        let name = from.file_name().expect("a program has a name").to_string_lossy();
        self.file(from, &format!("/bin/{name}"));
        // Information for debuggers would fill most of the memory.
        let _ = Command::new("strip").arg(self.root.join("bin").join(&*name)).output();
        // Says "not a dynamic executable" of one that needs none.
        let needed = run(Command::new("ldd").arg(from)).stdout;
        assert!(!needed.contains("not found"), "{}: {needed}", from.display());
        for library in needed.split_whitespace().filter(|word| word.starts_with('/')) {
            self.file(Path::new(library), library);
        }
    }

    /// Loads the kernel's module `name`, after those that it depends on, before the script begins.
    ///
    /// # Panics
    /// When the kernel has no such module.
    #[track_caller]
    pub fn module(&mut self, name: &str) {
        if self.loaded.iter().any(|loaded| loaded == name) {
            return;
        }
        let spelt =
            |file: &str| file.split('.').next().is_some_and(|stem| stem.replace('-', "_") == name);
        let found = find(&self.modules, &|file| file.contains(".ko") && spelt(file));
        let found = found.unwrap_or_else(|| panic!("the kernel has no module {name}"));
        let plain = self.root.join("tmp").join(name);
        fs::copy(&found, &plain).expect("ours");
        if found.extension().is_some_and(|kind| kind == "xz") {
            let packed = plain.with_extension("xz");
            fs::rename(&plain, &packed).expect("ours");
            let ran = run(Command::new(&self.busybox).arg("unxz").arg(&packed));
            assert!(ran.status.success(), "{ran:?}");
        }
        for needed in needed_modules(&fs::read(&plain).expect("ours")) {
            self.module(&needed);
        }
        let at = self.root.join(format!("modules/{:02}-{name}.ko", self.loaded.len()));
        fs::rename(&plain, at).expect("ours");
        self.loaded.push(name.to_owned());
    }

    /// Gives it a disk that is served at `socket` as vhost-user-blk, with a PCI bus and memory that the server can map.
    ///
    /// # Panics
    /// When the kernel lacks a driver.
    #[track_caller]
    pub fn vhost_user_disk(&mut self, socket: &Path) {
        self.module("virtio_pci");
        self.module("virtio_blk");
        let socket = format!("socket,id=disk,path={}", socket.display());
        let arguments = [
            "-object",
            &format!("memory-backend-memfd,id=memory,size={MEMORY},share=on"),
            "-machine",
            "q35,memory-backend=memory",
            "-chardev",
            &socket,
            "-device",
            "vhost-user-blk-pci,chardev=disk",
        ];
        self.arguments.extend(arguments.map(str::to_owned));
    }

    /// Gives it what [`crate::CGROUPS`] makes a disk of.
    ///
    /// # Panics
    /// When the kernel lacks the driver.
    #[track_caller]
    pub fn null_disk(&mut self) {
        self.module("null_blk");
    }

    /// Starts it, runs `script` in its `/run` with `sh -eu`, and waits for its end, which comes with the script's.
    ///
    /// # Panics
    /// When it does not end. It is killed then.
    #[track_caller]
    pub fn run(self, script: &str) -> Ended {
        self.text(&INIT.replace("LIFE", &LIFE.as_secs().to_string()), "/init");
        self.text(script, "/script");
        let init = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.root.join("init"), init).expect("ours");
        let memory = self.root.with_extension("cpio");
        let pack = "find . | \"$0\" cpio -o -H newc >\"$1\"";
        let mut packer = Command::new("sh");
        packer.args(["-c", pack]).args([&self.busybox, &memory]).current_dir(&self.root);
        let packed = run(&mut packer);
        assert!(packed.status.success(), "{packed:?}");
        let (console, output) =
            (self.root.with_extension("console"), self.root.with_extension("output"));
        let mut qemu = Command::new(self.qemu.program());
        qemu.args(["-accel", "tcg", "-cpu", "max", "-m", MEMORY, "-no-reboot"])
            .args(["-nodefaults", "-no-user-config", "-display", "none"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&memory)
            // A host that is busy keeps the timer so long that the kernel takes it for broken.
            .args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"]);
        qemu.args(&self.arguments);
        for port in [&console, &output] {
            qemu.arg("-serial").arg(format!("file:{}", port.display()));
        }
        let ran = run_within(&mut qemu, LIFE + GRACE);
        assert!(ran.status.success(), "{ran:?}");
        let read =
            |path| String::from_utf8_lossy(&fs::read(path).expect("QEMU made it")).into_owned();
        let mut output = read(output);
        let code = output.trim_end().rsplit_once("exit ").and_then(|(before, code)| {
            let code = code.parse().ok()?;
            Some((before.len(), code))
        });
        if let Some((length, _)) = code {
            output.truncate(length);
        }
        Ended { code: code.map(|(_, code)| code), output, console: read(console) }
    }
}

impl Ended {
    /// What the script has said, which must have ended well.
    ///
    /// # Panics
    /// When it has not, with all that it and the kernel have said.
    #[track_caller]
    pub fn output(self) -> String {
        let Ended { code, output, console } = self;
        assert_eq!(code, Some(0), "the guest's script failed:\n{output}\nits kernel:\n{console}");
        output
    }
}

/// Names of the modules that a module's own description says it needs.
fn needed_modules(module: &[u8]) -> Vec<String> {
    let key = b"\0depends=";
    let Some(at) = module.windows(key.len()).position(|bytes| bytes == key) else {
        return Vec::new();
    };
    let list = module[at + key.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(list).into_owned();
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// The first file below `directory` with a name that is `wanted`.
fn find(directory: &Path, wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.map_while(Result::ok);
    entries.into_iter().find_map(|entry| match entry.file_type().ok()? {
        kind if kind.is_dir() => find(&entry.path(), wanted),
        kind if kind.is_file() && wanted(&entry.file_name().to_string_lossy()) => {
            Some(entry.path())
        }
        _ => None,
    })
}
