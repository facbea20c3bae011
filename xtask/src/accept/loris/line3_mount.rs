//! Do programs live on a mounted volume of files, and does it keep what it was told to keep?
//!
//! Source: acceptance of tiers and caches, line 3. `tandem serve` mounts a volume of files over an emulated
//! SSD and hard drive; benchmarks of file systems, fio with verification, git, a large tree, and random
//! operations beside a file system of the kernel run on it. Then rounds of SIGKILL under writers that
//! fsync, and the same with drives that ignore flushes, whose loss must be seen. Every program has a time
//! limit, and so has the server: one that hangs is killed, which ends whoever waits for it.

use crate::accept::{Options, row};
use crate::row::Row;
use crate::served::{Pool, Server, Undo};
use crate::{bench, cargo, packages};
use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const POOL: &str = r#"
[pool]
name = "mount"
[[device]]
role = "ssd"
path = "ssd.img"
size = "16GiB"
emulate = "960evo"
profile = "960evo"
[[device]]
role = "hdd"
path = "hdd.img"
size = "32GiB"
emulate = "wd100efax"
profile = "wd100efax"
[[volume]]
name = "files"
files = true
mount = "mnt"
steer = "mios-d"
"#;

/// Seconds that one program may take.
const PROGRAM_MAX: &str = "900";
/// So long a server may be used.
const SERVER_MAX: Duration = Duration::from_secs(3000);
/// Files of the large tree, and how many lie in each of its directories.
const TREE_FILES: u64 = 50_000;
const FOLDER_FILES: u64 = 125;
/// The snapshot that is taken of it.
const SNAPSHOT: &str = ".snapshots/all";
/// Random operations beside another file system.
const OPERATIONS: &str = "18000";
/// Rounds of SIGKILL, and of those with drives that lie.
const KILLS: &str = "50";
const LYING_KILLS: &str = "10";

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    packages::install_all(packages::OF_FILES);
    let tandem = cargo::build_tandem(true)?;
    let example = |name| cargo::build(&["-p", "tandem", "--example", name, "--release"], name);
    let (beside, synced) = (example("beside")?, example("synced")?);
    let mut rows = on_a_mount(&tandem, &beside)?;
    rows.push(kills(&synced, &tandem, KILLS, false)?);
    rows.push(kills(&synced, &tandem, LYING_KILLS, true)?);
    Ok(rows)
}

/// A server that is killed when it was used for too long.
struct Watched {
    server: Server,
    over: mpsc::Sender<()>,
    watcher: std::thread::JoinHandle<()>,
}

impl Watched {
    fn new(server: Server) -> Watched {
        let (over, is_over) = mpsc::channel::<()>();
        let id = Pid::from_raw(server.id().cast_signed());
        let watcher = std::thread::spawn(move || {
            let late = is_over.recv_timeout(SERVER_MAX) == Err(mpsc::RecvTimeoutError::Timeout);
            if let (true, Some(id)) = (late, id) {
                eprintln!("the server was used for too long: it is killed");
                let _ = rustix::process::kill_process(id, Signal::KILL);
            }
        });
        Watched { server, over, watcher }
    }

    fn stop(self) -> Result<()> {
        drop(self.over);
        let _ = self.watcher.join();
        self.server.stop()
    }
}

/// Where things are.
struct Places {
    /// The mounted volume.
    mount: PathBuf,
    /// Beside the pool.
    work: PathBuf,
    beside: PathBuf,
}

fn on_a_mount(tandem: &Path, beside: &Path) -> Result<Vec<Row>> {
    let pool = Pool::new(tandem, &bench::folder(), POOL)?;
    let (mount, work) = (pool.folder().join("mnt"), pool.folder().join("work"));
    std::fs::create_dir_all(&mount)?;
    std::fs::create_dir_all(&work)?;
    pool.call(&["format", "--yes"])?;
    let point = mount.to_str().context("a path in UTF-8")?;
    let _mount = Undo::new(&["umount", "--lazy", point]);
    let places = Places { mount: mount.clone(), work, beside: beside.to_owned() };
    type Step = fn(&Places) -> Result<String>;
    let steps: [(&str, Step); 8] = [
        ("postmark runs to its end", postmark),
        ("dbench with four clients runs to its end", dbench),
        ("fio reads back what it wrote: buffered, O_DIRECT at depth, and through memory maps", fio),
        ("a git clone of this repository, and git fsck of it", git),
        ("cp -a of a tree of 50,000 files, and nothing differs", large_tree),
        ("a snapshot of all that, under a writer, and nothing differs", snapshot),
        ("18,000 random operations beside the kernel's tmpfs, and nothing differs", random),
        ("as many with another seed, all at once in four directories", random_together),
    ];
    let server = Watched::new(pool.serve()?);
    let mut rows: Vec<Row> =
        steps.iter().map(|(wanted, step)| row((*wanted).into(), timed(|| step(&places)))).collect();
    rows.push(row(
        "unmounted, and check is clean".into(),
        timed(|| {
            server.stop()?;
            checked(&pool)
        }),
    ));
    let server = Watched::new(pool.serve()?);
    rows.push(row(
        "mounted again, the tree and its snapshot are still the same; removed, one after the other; \
         unmounted, check is clean"
            .into(),
        timed(|| {
            same_tree(&places)?;
            run(&["rm", "-r", "tree"], &places.mount)?;
            same_in_snapshot(&places)?;
            std::fs::remove_dir(places.mount.join(SNAPSHOT))?;
            server.stop()?;
            checked(&pool)
        }),
    ));
    Ok(rows)
}

fn timed(step: impl FnOnce() -> Result<String>) -> Result<String> {
    let began = Instant::now();
    let said = step()?;
    Ok(format!("{said}; {} s", began.elapsed().as_secs()))
}

fn checked(pool: &Pool) -> Result<String> {
    let said = pool.call(&["check"])?;
    let names = said.lines().find(|line| line.contains("unmounted cleanly"));
    Ok(names.context("check says nothing of the files")?.trim().to_owned())
}

/// Runs a program for a bounded time; what it printed.
fn run(words: &[&str], folder: &Path) -> Result<String> {
    let output = Command::new("timeout")
        .args(["--kill-after=10", PROGRAM_MAX])
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", words[0]))?;
    let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    if !output.status.success() {
        let end: Vec<&str> = said[1].lines().rev().take(3).collect();
        bail!("{} gave {}: {}", words.join(" "), output.status, end.join("; "));
    }
    Ok(said.concat())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}

fn postmark(places: &Places) -> Result<String> {
    let folder = places.mount.join("postmark");
    std::fs::create_dir_all(&folder)?;
    let commands = format!(
        "set location {}\nset number 10000\nset transactions 20000\nset subdirectories 10\n\
         set size 4096 28672\nset read 4096\nset write 4096\nset seed 42\nrun\nquit\n",
        text(&folder)?
    );
    let file = places.work.join("postmark.txt");
    std::fs::write(&file, commands)?;
    let said = run(&["postmark", text(&file)?], &places.work)?;
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("Error")).collect();
    if !errors.is_empty() {
        bail!("{} errors: {}", errors.len(), errors[0]);
    }
    let rate = said.lines().find(|line| line.contains("of transactions"));
    let rate = rate.or_else(|| said.lines().find(|line| line.contains("per second")));
    let left = std::fs::read_dir(&folder)?.count();
    if left > 0 {
        bail!("postmark left {left} entries behind");
    }
    Ok(rate.context("postmark told no rate")?.trim().to_owned())
}

fn dbench(places: &Places) -> Result<String> {
    let folder = places.mount.join("dbench");
    std::fs::create_dir_all(&folder)?;
    let words = ["dbench", "-D", text(&folder)?, "-t", "30", "4"];
    let mut said = run(&words, &places.work)?;
    // the first semaphore that a machine ever makes has the number 0, which dbench takes for an error
    if said.contains("failed to create barrier semaphore") {
        said = run(&words, &places.work)?;
    }
    let rate = said.lines().find(|line| line.starts_with("Throughput"));
    let is_bad = |line: &&str| line.contains("ERROR") || line.contains("failed");
    if let Some(line) = said.lines().find(is_bad) {
        bail!("dbench met errors: {}", line.trim());
    }
    Ok(rate.context("dbench told no throughput")?.trim().to_owned())
}

fn fio(places: &Places) -> Result<String> {
    let folder = places.mount.join("fio");
    std::fs::create_dir_all(&folder)?;
    let place = format!("--directory={}", text(&folder)?);
    let common = ["fio", "--output-format=terse", "--size=128m", "--verify=crc32c", &place];
    let loads: [&[&str]; 4] = [
        &["--name=buffered", "--rw=randwrite", "--bsrange=512-64k", "--fsync=64", "--numjobs=2"],
        &[
            "--name=direct",
            "--rw=randwrite",
            "--bs=4k",
            "--direct=1",
            "--ioengine=io_uring",
            "--iodepth=32",
        ],
        &[
            "--name=large",
            "--rw=write",
            "--bs=1m",
            "--direct=1",
            "--ioengine=io_uring",
            "--iodepth=4",
        ],
        &["--name=mapped", "--rw=randwrite", "--bs=4k", "--ioengine=mmap", "--end_fsync=1"],
    ];
    for load in loads {
        run(&[&common[..], load].concat(), &places.work)?;
    }
    Ok(format!("{} loads", loads.len()))
}

fn git(places: &Places) -> Result<String> {
    let (root, clone) = (cargo::root(), places.mount.join("clone"));
    run(&["git", "clone", "--quiet", "--no-local", text(&root)?, text(&clone)?], &places.work)?;
    run(&["git", "fsck", "--full", "--strict"], &clone)?;
    let changed = run(&["git", "status", "--porcelain"], &clone)?;
    if !changed.trim().is_empty() {
        bail!("the clone differs from what was cloned: {}", changed.trim());
    }
    let commits = run(&["git", "rev-list", "--count", "HEAD"], &clone)?;
    Ok(format!("{} commits", commits.trim()))
}

/// A tree of small files of any bytes.
fn large_tree(places: &Places) -> Result<String> {
    let source = places.work.join("tree");
    for number in 0..TREE_FILES {
        let folder = source.join(format!("{:03}", number / FOLDER_FILES));
        if number % FOLDER_FILES == 0 {
            std::fs::create_dir_all(&folder)?;
        }
        let length = (number * 7919 % 6000) as usize;
        let byte = |at: usize| (number as usize * 31 + at * at) as u8;
        let bytes: Vec<u8> = (0..length).map(byte).collect();
        std::fs::write(folder.join(format!("file {number}")), bytes)?;
    }
    let began = Instant::now();
    run(&["cp", "-a", text(&source)?, text(&places.mount)?], &places.work)?;
    let copied = began.elapsed();
    same_tree(places)?;
    Ok(format!("copied in {} ms", copied.as_millis()))
}

/// Somebody appends to a file all the time; the snapshot has a beginning of it, and the tree whole.
fn snapshot(places: &Places) -> Result<String> {
    let path = places.mount.join("appended");
    let mut file = std::fs::File::create(&path)?;
    file.write_all(&[0; 8])?;
    let (stop, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let append = || -> Result<()> {
        for number in 1u64.. {
            // the last one is written behind the snapshot
            let is_last = stop.load(Ordering::Relaxed);
            let began = Instant::now();
            file.write_all(&number.to_le_bytes())?;
            let took = began.elapsed().as_millis() as u64;
            longest.fetch_max(took, Ordering::Relaxed);
            if is_last {
                break;
            }
        }
        Ok(())
    };
    let took = std::thread::scope(|scope| -> Result<Duration> {
        let appending = scope.spawn(append);
        std::fs::create_dir(places.mount.join(".snapshots"))?;
        let began = Instant::now();
        let made = std::fs::create_dir(places.mount.join(SNAPSHOT));
        let took = began.elapsed();
        stop.store(true, Ordering::Relaxed);
        appending.join().expect("it does not panic")?;
        made?;
        Ok(took)
    })?;
    same_in_snapshot(places)?;
    let appended = std::fs::read(&path)?;
    let kept = std::fs::read(places.mount.join(SNAPSHOT).join("appended"))?;
    if !appended.starts_with(&kept) || kept.is_empty() || kept.len() == appended.len() {
        bail!("the file had {} bytes in the snapshot, of {}", kept.len(), appended.len());
    }
    let ms = took.as_millis();
    let waited = longest.load(Ordering::Relaxed);
    Ok(format!("taken in {ms} ms, a write waited for {waited} ms at most"))
}

fn same_in_snapshot(places: &Places) -> Result<()> {
    let (one, other) = (places.work.join("tree"), places.mount.join(SNAPSHOT).join("tree"));
    run(&["diff", "-r", text(&one)?, text(&other)?], &places.work).map(|_| ())
}

fn same_tree(places: &Places) -> Result<()> {
    let (one, other) = (places.work.join("tree"), places.mount.join("tree"));
    run(&["diff", "-r", text(&one)?, text(&other)?], &places.work).map(|_| ())
}

/// A folder of the kernel's file system in memory, or of whichever one there is.
fn known() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    Ok(tempfile::Builder::new().prefix("beside-").tempdir_in(place)?)
}

fn random(places: &Places) -> Result<String> {
    beside(places, "random", "1")
}

fn beside(places: &Places, name: &str, seed: &str) -> Result<String> {
    let (folder, known) = (places.mount.join(name), known()?);
    std::fs::create_dir_all(&folder)?;
    let program = text(&places.beside)?;
    let words = [program, text(&folder)?, text(known.path())?, OPERATIONS, seed];
    Ok(run(&words, &places.work)?.trim().replace('\n', ", "))
}

fn random_together(places: &Places) -> Result<String> {
    std::thread::scope(|scope| {
        let one = |number: u32| {
            scope.spawn(move || beside(places, &format!("random-{number}"), &number.to_string()))
        };
        let all: Vec<_> = (2..6).map(one).collect();
        let mut said = Vec::new();
        for thread in all {
            said.push(thread.join().expect("it does not panic")?);
        }
        Ok(said.join("; "))
    })
}

/// Rounds of SIGKILL: exit 0 if nothing was lost, 1 if something was.
fn kills(synced: &Path, tandem: &Path, rounds: &str, lying: bool) -> Result<Row> {
    let output = Command::new("timeout")
        .args(["--kill-after=10", PROGRAM_MAX])
        .arg(synced)
        .arg(rounds)
        .args(lying.then_some("--ignore-flushes"))
        .arg("--tandem")
        .arg(tandem)
        .stdin(Stdio::null())
        .output()
        .context("starting the rounds of SIGKILL")?;
    let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    let (wanted, code) = match lying {
        false => {
            (format!("{rounds} times SIGKILL under writers that fsync: nothing fsynced is lost"), 0)
        }
        true => (format!("{rounds} times with drives that ignore flushes: the loss is seen"), 1),
    };
    let told: Vec<&str> = said[0].lines().filter(|line| !line.starts_with("LOST")).collect();
    let holds = output.status.code() == Some(code);
    Ok(Row::new(
        wanted,
        format!("{} {}; {}", told.join(", "), said[1].trim(), output.status),
        holds,
    ))
}
