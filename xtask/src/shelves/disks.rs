//! Disks of a known speed: files as block devices, held by the kernel to so many bytes a second.

use crate::load::undo::{Undo, quoted};
use crate::load::{LoadError, cannot};
use rustix::fs::{CWD, Mode, OFlags, openat, syncfs};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

/// Where cgroup v1 has its limits of block devices. Those of its root group hold for the kernel's own threads too, and
/// these are what writes out a page cache: a limit on the group of a server would not touch its buffered writes.
const BLKIO: &str = "/sys/fs/cgroup/blkio";

/// The kernel lets the first tenths of a second pass faster, so a measured limit is one of some seconds.
const MEASURE_BYTES: u64 = 128 << 20;

/// How far the measured speed may be from the one that was asked for, in either direction.
const LIMIT_TOLERANCE: f64 = 0.25;

/// How disks are made.
pub struct Sizes {
    /// How many.
    pub count: usize,
    /// Bytes of each.
    pub bytes: u64,
    /// Bytes a second each reads and each writes; 0 is as fast as it goes.
    pub rate: u64,
    /// Files each has room for, with ext4.
    pub files: u64,
    /// Bytes of the page cache that may wait to be written to each; 0 leaves it to the kernel.
    pub dirty: u64,
}

/// Disks of our own, taken away when dropped.
pub struct Disks {
    disks: Vec<Disk>,
    sizes: Sizes,
    folder: TempDir,
    /// After the folder, and before it is gone: fields are dropped in this order.
    _images: TempDir,
    _undo: Undo,
}

/// One of them.
struct Disk {
    /// `loop0`.
    name: String,
    mount: PathBuf,
}

/// File systems on disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// ext4 on the first.
    One,
    /// ext4 on each.
    Each,
    /// btrfs over all, every page in parts on all.
    Striped,
    /// btrfs over all, every page on two.
    Mirrored,
}

impl Layout {
    fn btrfs_profile(self) -> Option<&'static str> {
        match self {
            Layout::One | Layout::Each => None,
            Layout::Striped => Some("raid0"),
            Layout::Mirrored => Some("raid1"),
        }
    }
}

/// File systems that are mounted until this is dropped.
pub struct Mounted {
    /// Where, one for each file system.
    pub paths: Vec<PathBuf>,
    /// The devices below, as `/sys/block` names them.
    pub devices: Vec<String>,
}

impl Disks {
    /// Makes them of files in `dir`. Needs root.
    pub fn make(dir: &Path, sizes: Sizes) -> Result<Disks, LoadError> {
        if !rustix::process::geteuid().is_root() {
            return Err(LoadError::Usage("disks of known speed need root: losetup, mount and cgroups".into()));
        }
        let limits = Path::new(BLKIO).join("blkio.throttle.write_bps_device");
        if sizes.rate > 0 && !limits.exists() {
            return Err(LoadError::Usage(format!(
                "there is no {}, so disks cannot be slowed down: mount cgroup v1's blkio there, or take --rate 0",
                limits.display()
            )));
        }
        let mut undo = Undo::begin()?;
        let folder = tempfile::Builder::new().prefix("place-").tempdir().map_err(cannot("make a folder"))?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(cannot("open the folder"))?;
        fs::create_dir_all(dir).map_err(cannot("make the folder for the disks"))?;
        let images =
            tempfile::Builder::new().prefix("place-").tempdir_in(dir).map_err(cannot("make a folder for the disks"))?;
        undo.push(&format!("rm -rf --one-file-system {} {}", quoted(folder.path()), quoted(images.path())))?;
        if sizes.rate > 0 {
            // The limits of the root group hold for us and the servers only there.
            fs::write(Path::new(BLKIO).join("cgroup.procs"), std::process::id().to_string())
                .map_err(cannot("move to the root group of blkio"))?;
        }
        let mut disks = Vec::new();
        for number in 0..sizes.count {
            let image = images.path().join(format!("disk{number}"));
            let mount = folder.path().join(format!("d{number}"));
            fs::create_dir(&mount).map_err(cannot("make a folder to mount on"))?;
            run("fallocate", &["-l", &sizes.bytes.to_string(), &image.display().to_string()])?;
            let device = run("losetup", &["--find", "--show", "--direct-io=on", &image.display().to_string()])?;
            let device = device.trim().to_string();
            let name = device.trim_start_matches("/dev/").to_string();
            let disk = Disk { name, mount };
            // A server may still be ending when this runs.
            let at = quoted(&disk.mount);
            undo.push(&format!("losetup -d {device} 2>/dev/null"))?;
            for file in ["read", "write"] {
                undo.push(&format!("echo {} 0 2>/dev/null >{BLKIO}/blkio.throttle.{file}_bps_device", disk.number()?))?;
            }
            let bdi = disk.bdi()?;
            undo.push(&format!("echo 0 2>/dev/null >{bdi}/strict_limit; echo 100 2>/dev/null >{bdi}/max_ratio"))?;
            undo.push(&format!(
                "for try in 1 2 3 4 5 6 7 8 9 10; do mountpoint -q {at} || break; umount {at} 2>/dev/null || sleep 0.5; done; \
                 if mountpoint -q {at}; then umount -l {at}; fi"
            ))?;
            disks.push(disk);
        }
        Ok(Disks { disks, sizes, folder, _images: images, _undo: undo })
    }

    /// A folder that is not on them.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How fast the disks of `layout` are written to together, in bytes a second, by `dd` with direct I/O.
    ///
    /// A limit that does not hold is an error. Whatever was on the disks is lost.
    pub fn own_speed(&self, layout: Layout) -> Result<f64, LoadError> {
        self.limit(self.sizes.rate)?;
        let disks = self.below(layout);
        let bytes = if self.sizes.rate > 0 { MEASURE_BYTES.max(self.sizes.rate) } else { MEASURE_BYTES * 8 };
        let mib = (bytes.min(self.sizes.bytes) >> 20).max(1);
        let started = Instant::now();
        let mut writers = Vec::new();
        for disk in disks {
            let mut dd = Command::new("dd");
            dd.args(["if=/dev/zero", "bs=1M", "oflag=direct", "status=none", &format!("count={mib}")]);
            writers.push(dd.arg(format!("of=/dev/{}", disk.name)).spawn().map_err(cannot("run dd"))?);
        }
        for mut writer in writers {
            if !writer.wait().map_err(cannot("wait for dd"))?.success() {
                return Err(LoadError::Tool { tool: "dd", said: "that it failed".into() });
            }
        }
        let speed = (mib << 20) as f64 * disks.len() as f64 / started.elapsed().as_secs_f64();
        let asked = self.sizes.rate as f64 * disks.len() as f64;
        if asked > 0.0 && (speed / asked - 1.0).abs() > LIMIT_TOLERANCE {
            return Err(LoadError::Usage(format!(
                "the disks write {:.0} MB/s and not {:.0}: the limit does not hold here, or the disk below is slower",
                speed / 1e6,
                asked / 1e6
            )));
        }
        Ok(speed)
    }

    /// Makes new file systems and mounts them.
    pub fn mount(&self, layout: Layout) -> Result<Mounted, LoadError> {
        // Making a file system is not what is measured.
        self.limit(0)?;
        let disks = self.below(layout);
        let devices: Vec<String> = disks.iter().map(|disk| format!("/dev/{}", disk.name)).collect();
        let mut mounted = Mounted { paths: Vec::new(), devices: disks.iter().map(|disk| disk.name.clone()).collect() };
        if let Some(profile) = layout.btrfs_profile() {
            let mut words = vec!["-q", "-f", "-K", "-m", "raid1", "-d", profile];
            words.extend(devices.iter().map(String::as_str));
            run("mkfs.btrfs", &words)?;
            mounted.mount(disks.iter().take(1))?;
            self.limit_dirty_btrfs(disks.len() as u64)?;
        } else {
            let files = self.sizes.files.to_string();
            for device in &devices {
                // No thread of the kernel is to write tables while something is measured, and no blocks are to be given back.
                let options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
                run("mkfs.ext4", &["-q", "-F", "-E", options, "-N", &files, device])?;
            }
            mounted.mount(disks.iter())?;
            for disk in disks {
                limit_dirty(&disk.bdi()?, self.sizes.dirty)?;
            }
        }
        self.limit(self.sizes.rate)?;
        Ok(mounted)
    }

    /// Why there is no `layout` on this machine, if there is none.
    pub fn lacks(layout: Layout) -> Option<&'static str> {
        layout.btrfs_profile()?;
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known.contains("btrfs")
            && Command::new("modprobe").arg("btrfs").status().is_ok_and(|status| !status.success())
        {
            return Some("no btrfs in this kernel");
        }
        let has_tool = Command::new("mkfs.btrfs").arg("--version").output().is_ok();
        (!has_tool).then_some("no mkfs.btrfs (`apt install btrfs-progs`)")
    }

    fn below(&self, layout: Layout) -> &[Disk] {
        match layout {
            Layout::One => self.disks.get(..1).unwrap_or_default(),
            Layout::Each | Layout::Striped | Layout::Mirrored => &self.disks,
        }
    }

    /// Holds every disk to `rate` bytes a second; 0 lets it go.
    fn limit(&self, rate: u64) -> Result<(), LoadError> {
        if self.sizes.rate == 0 {
            return Ok(());
        }
        for disk in &self.disks {
            let line = format!("{} {rate}", disk.number()?);
            for file in ["read", "write"] {
                fs::write(format!("{BLKIO}/blkio.throttle.{file}_bps_device"), &line)
                    .map_err(cannot("limit the speed of a disk"))?;
            }
        }
        Ok(())
    }

    /// btrfs has one bound of its own for all its devices, which is the newest of its kind.
    fn limit_dirty_btrfs(&self, disks: u64) -> Result<(), LoadError> {
        let all = fs::read_dir("/sys/class/bdi").map_err(cannot("find the bounds of btrfs"))?;
        let number = |name: &str| name.strip_prefix("btrfs-")?.parse::<u64>().ok();
        let newest = all.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).max();
        match newest {
            Some(number) => limit_dirty(&format!("/sys/class/bdi/btrfs-{number}"), self.sizes.dirty * disks),
            None => Ok(()),
        }
    }
}

/// Lets at most `bytes` wait to be written, strictly; 0 changes nothing.
fn limit_dirty(bdi: &str, bytes: u64) -> Result<(), LoadError> {
    if bytes == 0 {
        return Ok(());
    }
    let set = |file: &str, value: u64| {
        fs::write(format!("{bdi}/{file}"), value.to_string())
            .map_err(cannot(format!("bound what waits to be written ({bdi}/{file}); --dirty 0 does not")))
    };
    set("max_bytes", bytes)?;
    set("strict_limit", 1)
}

impl Disk {
    /// `7:0`.
    fn number(&self) -> Result<String, LoadError> {
        let text =
            fs::read_to_string(format!("/sys/block/{}/dev", self.name)).map_err(cannot("find a block device"))?;
        Ok(text.trim().to_string())
    }

    fn bdi(&self) -> Result<String, LoadError> {
        Ok(format!("/sys/class/bdi/{}", self.number()?))
    }
}

impl Mounted {
    fn mount<'a>(&mut self, disks: impl Iterator<Item = &'a Disk>) -> Result<(), LoadError> {
        for disk in disks {
            run("mount", &[&format!("/dev/{}", disk.name), &disk.mount.display().to_string()])?;
            self.paths.push(disk.mount.clone());
        }
        Ok(())
    }

    /// Waits until all that was written to the file systems is on the disks.
    pub fn sync(&self) -> Result<(), LoadError> {
        for path in &self.paths {
            let open = openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
            open.and_then(syncfs).map_err(|error| cannot("write a file system out")(io::Error::from(error)))?;
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for path in &self.paths {
            // What is still mounted is unmounted at the end; the next attempt to use the disk says what is wrong.
            let _ = run("umount", &[&path.display().to_string()]);
        }
    }
}

/// Runs a tool and returns what it prints.
fn run(tool: &'static str, words: &[&str]) -> Result<String, LoadError> {
    let output = Command::new(tool).args(words).output().map_err(|_| LoadError::Missing(tool.into()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(LoadError::Tool { tool, said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
