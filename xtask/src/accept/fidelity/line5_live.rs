//! Does the server on emulated drives do what the engine does in virtual time, with each policy?
//!
//! Source: acceptance of fidelity, line 5. fio sends a job over NBD to a server on emulated drives. The server
//! notes what it is asked, and when. The notes are replayed in virtual time, over the same drives and under the same
//! policy. There processors take no time, so the costs of client and server are measured with the same job over drives
//! that answer at once, sent right before:
//!
//! - Server: its own statistics of that job. They are taken off its statistics over the emulated drives, and the rest is
//!   compared with the replay: reads and writes each for themselves, and which share of the writes was redirected.
//! - Client and socket: what fio measures beyond the server's statistics. This is no part of what is compared. But it may
//!   not be more over emulated drives than over those that answer at once, beyond what the comparison allows.
//!
//! The drives take so many times as long as those that they are named after, and so do the pauses between bursts.
//! Otherwise client and server take 4 ms of a request on two processors, and drives 0.2 ms. A tenth of the cost that is
//! taken off is twice what is compared then (measured).
//!
//! A hard drive has one command at a time, and waits for the server between any two. What requests in its queue wait
//! for that is no part of these costs, as drives that answer at once have no queues. It stays in the difference.
//!
//! A server that waits for a processor answers late, which says nothing of it. The kernel tells how long it waited.
//! Where that was too long, the job is sent again, and a row says so in the end.

mod slower;

use crate::accept::Options;
use crate::fio::Fio;
use crate::row::Row;
use crate::served::Pool;
use crate::{bench, cargo, packages};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Live and virtual means may differ by this much …
const PERCENT_MAX: u64 = 15;
/// … and the shares of writes that go to the hard drive by so many points.
const POINTS_MAX: u64 = 5;
/// What a server was asked, and when.
const NOTES: &str = "asked.csv";
/// The part of the volume that is filled, and that jobs read and write.
const SPAN: &str = "256m";
/// The policy under which pools are filled: what is read lies on the SSD then, as in the replay.
const FILLED_UNDER: &str = "ssd-first";
/// The drives that those of the pools are made of, and their sizes.
const SSD: (&str, &str) = ("x25e", "8GiB");
const HDD: (&str, &str) = ("wd100efax", "16GiB");
/// They take so many times as long as their namesakes.
const SLOWER: u32 = 20;
/// The spec of drives that answer at once.
const NULL: &str = "null";
/// A job ends after this time, whatever it has sent: a hard drive alone would take minutes.
const JOB_MAX: &str = "90s";
/// Bursts are sent at once, so many blocks each, whatever was answered of them: so many that drives take longer for
/// them than a server can be late.
const BURST_BLOCKS: u32 = 256;
/// Between bursts, as often longer as the drives take longer. A hard drive is flushed after each burst, which takes
/// 200 ms of the drive that is not slow. If the next burst finds it busy, fio waits, and a replay does not: it sends what
/// was sent, when it was sent. Then the least difference adds up from burst to burst, and means are of that alone …
const PAUSE_MS: u32 = 300 * SLOWER;
/// … which drives that answer at once do not need.
const PAUSE_OF_NULL_MS: u32 = 100;
/// A start of a server may take so long until the hard drives rest.
const READY_MAX: Duration = Duration::from_secs(120);
/// A hard drive that rested for so long has emptied its buffer: ten times `idle` of its spec, times `SLOWER`.
const EMPTY_AFTER: Duration = Duration::from_millis(500 * SLOWER as u64);
/// Reads before a job, which is not about them.
const FIRST_READS: u64 = 1;
/// The server may wait so long for a processor, of the time of a job without its pauses. On a quiet machine of two
/// processors it waited for 76 in a job of `mios-d` (measured), since it shares them with fio and with the kernel's
/// threads that write files.
const WAITED_PERMILLE_MAX: u64 = 100;
/// A job whose server waited longer is sent again, so many times in all …
const ATTEMPTS: usize = 3;
/// … while the line has not taken so long yet.
const AGAIN_UNTIL: Duration = Duration::from_secs(1_200);

/// What fio sends.
struct Job {
    name: &'static str,
    /// As words of fio.
    requests: &'static [(&'static str, &'static str)],
}

const JOBS: [Job; 2] = [
    Job {
        name: "bursts of 4 KiB",
        requests: &[("rw", "randwrite"), ("bs", "4k"), ("io_size", "8m")],
    },
    Job {
        name: "bursts of 4 to 64 KiB beside reads",
        requests: &[
            ("rw", "randrw"),
            ("rwmixread", "50"),
            ("bssplit", "4k/70:16k/20:64k/10"),
            ("io_size", "24m"),
        ],
    },
];

/// One that is not compared by fidelity.
const WRITES: Job = Job {
    name: "bursts of 16 to 64 KiB",
    requests: &[("rw", "randwrite"), ("bssplit", "16k/50:64k/50"), ("io_size", "32m")],
};

impl Job {
    fn words(&self, fio: Fio, is_null: bool) -> Fio {
        let fio = self.requests.iter().fold(fio, |fio, (name, value)| fio.set(name, value));
        fio.set("randseed", 7)
            .set("runtime", JOB_MAX)
            .set("iodepth", BURST_BLOCKS)
            .set("thinktime", format!("{}ms", pause_ms(is_null)))
            .set("thinktime_blocks", BURST_BLOCKS)
            .set("thinktime_blocks_type", "issue")
    }
}

/// Between bursts of a job.
fn pause_ms(is_null: bool) -> u32 {
    if is_null { PAUSE_OF_NULL_MS } else { PAUSE_MS }
}

/// A policy, and how many SSDs it needs.
struct Policy {
    name: String,
    ssds: usize,
}

/// Mean latency of requests, and how many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mean {
    ns: u64,
    count: u64,
}

/// What the engine says of a job, live or in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answered {
    reads: Mean,
    writes: Mean,
    /// Writes that went to the hard drive's log.
    redirected: u64,
}

/// What a job took over some drives: by fio, and by the server.
#[derive(Clone, Copy, Debug)]
struct Served {
    client_ns: u64,
    server: Answered,
    /// How long the server waited for a processor, of the time of the job without its pauses.
    waited_permille: u64,
}

/// What one job under one policy came to.
#[derive(Clone, Copy, Debug)]
struct Measured {
    live: Served,
    /// Over drives that answer at once.
    null: Served,
    model: Answered,
}

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let tandem = cargo::build_tandem(true)?;
    let began = Instant::now();
    let drives = Drives::new()?;
    let mut pools = Pools { tandem: tandem.clone(), drives, filled: BTreeMap::new() };
    let mut rows = vec![Row::info("others that wanted the processors at the start", bench::load())];
    for policy in policies(&tandem)? {
        for job in &JOBS {
            let wanted = format!("{}, {}: within {PERCENT_MAX} %", policy.name, job.name);
            let again = || began.elapsed() < AGAIN_UNTIL;
            let row = match quietly(&mut pools, &policy, job, again) {
                Ok(measured) => Row::new(wanted, measured.told(), measured.holds()),
                Err(error) => Row::broken(wanted, &error),
            };
            rows.push(row.shown());
        }
    }
    rows.push(Row::info("others that wanted the processors at the end", bench::load()));
    Ok(rows)
}

/// The mean of the writes of a policy, in ns.
#[derive(Clone, Copy, Debug)]
pub(in crate::accept) struct WriteMean {
    pub policy: &'static str,
    pub live_ns: u64,
    /// In virtual time.
    pub model_ns: u64,
}

/// The mean of the writes of each policy, by job.
pub(in crate::accept) fn write_means(
    policies: &[&'static str],
) -> Result<Vec<(&'static str, Vec<WriteMean>)>> {
    packages::install();
    let (tandem, drives) = (cargo::build_tandem(true)?, Drives::new()?);
    let mut pools = Pools { tandem, drives, filled: BTreeMap::new() };
    let began = Instant::now();
    let mut means = Vec::new();
    for job in JOBS.iter().chain([&WRITES]) {
        let mut of_job = Vec::new();
        for &name in policies {
            let policy = Policy { name: name.to_owned(), ssds: 1 };
            let measured = quietly(&mut pools, &policy, job, || began.elapsed() < AGAIN_UNTIL)?;
            let writes = measured.sides().find(|(side, ..)| *side == "writes");
            let (_, live_ns, model_ns) = writes.context("the job has no writes")?;
            of_job.push(WriteMean { policy: name, live_ns, model_ns });
        }
        means.push((job.name, of_job));
    }
    Ok(means)
}

/// Every steering policy of this version.
fn policies(tandem: &Path) -> Result<Vec<Policy>> {
    let told = printed(Command::new(tandem).args(["policies", "--json"]))?;
    let steers = told.as_array().into_iter().flatten().filter(|one| one["kind"] == "steer");
    let policies: Vec<Policy> = steers
        .filter_map(|one| one["name"].as_str())
        // two SSDs that have the same each
        .map(|name| Policy { name: name.to_owned(), ssds: 1 + usize::from(name == "even-split") })
        .collect();
    if policies.is_empty() {
        bail!("tandem policies tells of none");
    }
    Ok(policies)
}

/// The JSON that a program printed.
fn printed(command: &mut Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Pools that were filled once, to be copied: filling takes longer than a job. They are filled over drives that answer
/// at once, since what they hold then is the same.
struct Pools {
    tandem: PathBuf,
    /// Specs and profiles of the drives.
    drives: Drives,
    /// By their SSDs.
    filled: BTreeMap<usize, Pool>,
}

impl Pools {
    /// A copy of a filled pool, with this policy.
    fn copy(&mut self, policy: &Policy, is_null: bool) -> Result<Pool> {
        if !self.filled.contains_key(&policy.ssds) {
            let pool = self.filled(policy.ssds)?;
            self.filled.insert(policy.ssds, pool);
        }
        let config = self.config(&policy.name, policy.ssds, is_null);
        let copy = Pool::new(&self.tandem, &bench::folder(), &config)?;
        for entry in std::fs::read_dir(self.filled[&policy.ssds].folder())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "img") {
                let words = ["--sparse=always", "--reflink=auto"];
                let copied = Command::new("cp").args(words).arg(&path).arg(copy.folder()).status();
                if !copied.context("starting cp")?.success() {
                    bail!("{} could not be copied", path.display());
                }
            }
        }
        Ok(copy)
    }

    fn filled(&self, ssds: usize) -> Result<Pool> {
        let config = self.config(FILLED_UNDER, ssds, true);
        let pool = Pool::new(&self.tandem, &bench::folder(), &config)?;
        pool.call(&["format", "--yes"])?;
        let server = pool.serve()?;
        let fio = nbd(&pool, "fill").set("rw", "write").set("bs", "1m").set("iodepth", 4);
        fio.set("end_fsync", 1).run()?;
        server.stop()?;
        Ok(pool)
    }

    fn config(&self, policy: &str, ssds: usize, is_null: bool) -> String {
        let device = |role: &str, number: usize, drive: &Drive| {
            let emulate = if is_null { NULL.into() } else { drive.spec.display().to_string() };
            format!(
                "[[device]]\nrole = \"{role}\"\npath = \"{role}{number}.img\"\nsize = \"{}\"\n\
                 emulate = \"{emulate}\"\nprofile = \"{}\"\n",
                drive.size,
                drive.profile.display()
            )
        };
        let Drives { ssd, hdd, .. } = &self.drives;
        let ssds: String = (0..ssds).map(|number| device("ssd", number, ssd)).collect();
        format!(
            "[pool]\nname = \"accept\"\n{ssds}{}[[volume]]\nname = \"vol0\"\nsize = \"1GiB\"\n\
             steer = \"{policy}\"\n[serve]\nnbd = [\"unix:tandem.sock\"]\n",
            device("hdd", 0, hdd)
        )
    }
}

/// Specs and profiles of the slow drives, as files.
struct Drives {
    ssd: Drive,
    hdd: Drive,
    _folder: tempfile::TempDir,
}

struct Drive {
    spec: PathBuf,
    profile: PathBuf,
    size: &'static str,
}

impl Drives {
    fn new() -> Result<Drives> {
        std::fs::create_dir_all(bench::folder())?;
        let folder = tempfile::Builder::new().prefix("drives-").tempdir_in(bench::folder())?;
        let drive = |(name, size): (&str, &'static str)| -> Result<Drive> {
            let written = |of: &str, from: &str| -> Result<PathBuf> {
                let path = cargo::root().join(from).join(format!("{name}.toml"));
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("reading {}", path.display()))?;
                let slow = folder.path().join(format!("{name}-{of}.toml"));
                std::fs::write(&slow, slower::slower(&text, SLOWER)?)?;
                Ok(slow)
            };
            let spec = written("spec", "crates/drives/specs")?;
            Ok(Drive { spec, profile: written("profile", "profiles")?, size })
        };
        let (ssd, hdd) = (drive(SSD)?, drive(HDD)?);
        Ok(Drives { ssd, hdd, _folder: folder })
    }
}

fn nbd(pool: &Pool, job: &str) -> Fio {
    let fio = Fio::default().job(job).set("ioengine", "nbd").set("uri", pool.uri("vol0"));
    fio.set("size", SPAN)
}

/// The job when nothing else had the processors, or what the least disturbed attempt came to.
fn quietly(
    pools: &mut Pools,
    policy: &Policy,
    job: &Job,
    again: impl Fn() -> bool,
) -> Result<Measured> {
    let mut best = one(pools, policy, job)?;
    for _ in 1..ATTEMPTS {
        if best.waited_permille() <= WAITED_PERMILLE_MAX || !again() {
            break;
        }
        let next = one(pools, policy, job)?;
        if next.waited_permille() < best.waited_permille() {
            best = next;
        }
    }
    Ok(best)
}

fn one(pools: &mut Pools, policy: &Policy, job: &Job) -> Result<Measured> {
    let (null, _) = served(&pools.copy(policy, true)?, job, true)?;
    let pool = pools.copy(policy, false)?;
    let (live, notes) = served(&pool, job, false)?;
    let mut replay = Command::new(&pools.tandem);
    replay.args(["replay", "--json", "--policy", &policy.name, "--resident", "ssd"]);
    let Drives { ssd, hdd, .. } = &pools.drives;
    for _ in 0..policy.ssds {
        replay.arg("--ssd").arg(&ssd.spec).arg("--ssd-profile").arg(&ssd.profile);
    }
    replay.arg("--hdd").arg(&hdd.spec).arg("--hdd-profile").arg(&hdd.profile);
    replay.args(["--ssd-size", ssd.size, "--hdd-size", hdd.size]).arg(notes);
    let replayed = printed(&mut replay)?;
    let run = &replayed["runs"][0];
    Ok(Measured { live, null, model: answered_of(run, run)? })
}

/// Reads a block from the SSD. A replay begins with the first request that was noted, and its hard drive is ready only
/// after a while, as a server's is. So this is the first, and the job follows when the drive is ready.
fn read_one_block(pool: &Pool) -> Result<()> {
    let one = nbd(pool, "first").set("rw", "read").set("bs", "4k").set("io_size", "4k");
    let answer = one.run()?;
    if answer.requests != FIRST_READS {
        bail!("fio sent {} requests where {FIRST_READS} was wanted", answer.requests);
    }
    Ok(())
}

/// Waits until the start of a server is over: hard drives rest, and their buffers are empty. A replay does so, too.
fn begin(pool: &Pool) -> Result<()> {
    let began = Instant::now();
    loop {
        let status: Value = serde_json::from_str(&pool.call(&["status", "--json"])?)?;
        if is_ready(&status) {
            return Ok(());
        }
        if began.elapsed() > READY_MAX {
            let (rest, of) = (&status["rest"], &status["controllers"]);
            bail!("the hard drives do not come to rest after the start: {rest}, {of}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// By a status: has every hard drive rested for so long that its buffer is empty? Where nobody controls the buffer, its
/// state is `off`.
fn is_ready(status: &Value) -> bool {
    let all = |list: &str, holds: fn(&Value) -> bool| {
        let list = status[list].as_array();
        list.is_some_and(|list| list.iter().filter(|one| !one.is_null()).all(holds))
    };
    let rests = |one: &Value| {
        let idle = one["idle_ns"].as_u64().map(Duration::from_nanos);
        one["awake_for"].is_null() && idle.is_some_and(|idle| idle >= EMPTY_AFTER)
    };
    all("rest", rests) && all("controllers", |one| one["state"] == "fast" || one["state"] == "off")
}

/// Sends the job to a server over this pool; what it took, and the server's notes.
fn served(pool: &Pool, job: &Job, is_null: bool) -> Result<(Served, PathBuf)> {
    let server = pool.serve_with(&["--record", NOTES])?;
    read_one_block(pool)?;
    begin(pool)?;
    let (began, before_ns) = (Instant::now(), waited_ns(server.id())?);
    let answer = job.words(nbd(pool, "job"), is_null).run()?;
    let waited_ns = waited_ns(server.id())?.saturating_sub(before_ns);
    let took_ns = began.elapsed().as_nanos().max(1);
    let status: Value = serde_json::from_str(&pool.call(&["status", "--json"])?)?;
    server.stop()?;
    let answered = answered_of(&status["latencies"], &status)?;
    if answer.requests + FIRST_READS != answered.count() {
        // what they have of different requests cannot be compared
        bail!("fio sent {} requests, and the server had {}", answer.requests, answered.count());
    }
    let pauses = answer.requests / u64::from(BURST_BLOCKS);
    let pauses_ns = u128::from(pauses * u64::from(pause_ms(is_null))) * 1_000_000;
    let busy_ns = took_ns.saturating_sub(pauses_ns).max(1);
    let served = Served {
        client_ns: answer.latency_ns,
        server: answered,
        waited_permille: (u128::from(waited_ns) * 1000 / busy_ns) as u64,
    };
    Ok((served, pool.folder().join(NOTES)))
}

/// How long the threads of a process have been ready to run without a processor. One that ends meanwhile counts nothing.
fn waited_ns(process: u32) -> Result<u64> {
    let (mut sum_ns, mut threads) = (0, 0);
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let path = thread?.path().join("schedstat");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        sum_ns += second_number(&text).with_context(|| format!("{}: {text:?}", path.display()))?;
        threads += 1;
    }
    if threads == 0 {
        bail!("the kernel does not tell how long process {process} waited (schedstat)");
    }
    Ok(sum_ns)
}

/// Of "on a processor, waiting for one, times": nanoseconds of waiting.
fn second_number(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// What a status or a replay has: `latencies` by side, and `redirected` in `all`.
fn answered_of(latencies: &Value, all: &Value) -> Result<Answered> {
    let redirected = &all["redirected"]["requests"];
    let told = Answered {
        reads: mean_of(latencies, "read")?,
        writes: mean_of(latencies, "write")?,
        redirected: redirected.as_u64().with_context(|| format!("redirected: {redirected}"))?,
    };
    if told.count() == 0 {
        bail!("no request was counted");
    }
    Ok(told)
}

fn mean_of(latencies: &Value, side: &str) -> Result<Mean> {
    let of = &latencies[side];
    let number = |number: &Value| {
        number.as_u64().with_context(|| format!("no count or mean of {side}s in {of}"))
    };
    Ok(Mean { ns: number(&of["mean_ns"])?, count: number(&of["count"])? })
}

impl Answered {
    fn count(&self) -> u64 {
        self.reads.count + self.writes.count
    }

    /// Of reads and writes together.
    fn mean_ns(&self) -> u64 {
        let sum = |of: &Mean| u128::from(of.ns) * u128::from(of.count);
        let mean = (sum(&self.reads) + sum(&self.writes)) / u128::from(self.count().max(1));
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    fn redirected_percent(&self) -> u64 {
        self.redirected * 100 / self.writes.count.max(1)
    }
}

impl Measured {
    /// What fio has beyond the server: of the job, and of the same over drives that answer at once.
    fn client_ns(&self) -> [u64; 2] {
        [self.live, self.null].map(|it| it.client_ns.saturating_sub(it.server.mean_ns()))
    }

    /// Reads and writes, as far as there are any: their name, the live mean without the server's cost, and the virtual
    /// one, in nanoseconds.
    fn sides(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let side = |name, live: Mean, null: Mean, model: Mean| {
            let has_some = live.count > FIRST_READS;
            has_some.then(|| (name, live.ns.saturating_sub(null.ns), model.ns))
        };
        let (live, null, model) = (self.live.server, self.null.server, self.model);
        let reads = side("reads", live.reads, null.reads, model.reads);
        let writes = side("writes", live.writes, null.writes, model.writes);
        reads.into_iter().chain(writes)
    }

    fn waited_permille(&self) -> u64 {
        self.live.waited_permille.max(self.null.waited_permille)
    }

    /// Near enough, of a server that had the processors.
    fn holds(&self) -> bool {
        self.waited_permille() <= WAITED_PERMILLE_MAX && self.faults().is_empty()
    }

    /// What differs more than it may.
    fn faults(&self) -> Vec<&'static str> {
        let part = |ns: u64| ns * PERCENT_MAX / 100;
        let [client_ns, of_null_ns] = self.client_ns();
        let (live, model) = (self.live.server, self.model);
        let counts = |of: Answered| (of.reads.count, of.writes.count);
        let far = self.sides().any(|(_, live, model)| live.abs_diff(model) > part(model));
        let elsewhere = live.redirected_percent().abs_diff(model.redirected_percent()) > POINTS_MAX;
        [
            (counts(live) != counts(model), "other requests"),
            (far, "latency"),
            (elsewhere, "share redirected"),
            (client_ns > of_null_ns + part(model.mean_ns()), "client and socket"),
        ]
        .into_iter()
        .filter_map(|(differs, what)| differs.then_some(what))
        .collect()
    }

    fn told(&self) -> String {
        let ms = |ns: u64| format!("{}.{:02}", ns / 1_000_000, ns % 1_000_000 / 10_000);
        let sides = self.sides().map(|(name, live, model)| {
            let percent = (live as f64 / model.max(1) as f64 - 1.0) * 100.0;
            format!("{name} live {} ms, virtual {} ms, {percent:+.1} %", ms(live), ms(model))
        });
        let sides = sides.collect::<Vec<_>>().join("; ");
        let [client, of_null] = self.client_ns();
        let permille = self.waited_permille();
        let quiet = if permille > WAITED_PERMILLE_MAX { "NOT QUIET: " } else { "" };
        let faults = match self.faults() {
            faults if faults.is_empty() => String::new(),
            faults => format!("; differs: {}", faults.join(", ")),
        };
        format!(
            "{sides}; redirected {} and {} %; taken off: server {} ms; client and socket {} ms ({} over null drives); \
             {} requests; {quiet}waited for a processor {}.{} % of the time{faults}",
            self.live.server.redirected_percent(),
            self.model.redirected_percent(),
            ms(self.null.server.mean_ns()),
            ms(client),
            ms(of_null),
            self.live.server.count(),
            permille / 10,
            permille % 10
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MS: u64 = 1_000_000;

    /// 9 reads and 9 writes of each; 3 of the writes were redirected.
    fn measured(client_ms: u64, in_server_ms: u64, model_ms: u64) -> Measured {
        let told = |ms: u64| {
            let mean = Mean { ns: ms * MS, count: 9 };
            Answered { reads: mean, writes: mean, redirected: 3 }
        };
        let served = |client_ms: u64, server_ms| Served {
            client_ns: client_ms * MS,
            server: told(server_ms),
            waited_permille: 3,
        };
        Measured {
            live: served(client_ms, in_server_ms),
            null: served(30, 9),
            model: told(model_ms),
        }
    }

    #[test]
    fn costs_are_taken_off_before_means_are_compared() {
        let near = measured(150, 125, 101);
        assert_eq!(near.client_ns(), [25 * MS, 21 * MS]);
        assert_eq!(near.sides().next(), Some(("reads", 116 * MS, 101 * MS)));
        assert!(near.holds(), "{}", near.told());
        for part in ["reads live 116.00 ms, virtual 101.00 ms, +14.9 %", "redirected 33 and 33 %"] {
            assert!(near.told().contains(part), "{part}: {}", near.told());
        }
        let mut disturbed = near;
        disturbed.null.waited_permille = WAITED_PERMILLE_MAX + 1;
        assert!(!disturbed.holds(), "nobody knows what it would have been");
        assert!(disturbed.told().contains("NOT QUIET"), "{}", disturbed.told());
        assert!(!near.told().contains("NOT QUIET"), "{}", near.told());
    }

    /// Each way in which live and virtual can differ is seen.
    #[test]
    fn what_differs_is_named() {
        let differs = |change: fn(&mut Measured)| {
            let mut measured = measured(150, 125, 101);
            change(&mut measured);
            assert_eq!(measured.holds(), measured.faults().is_empty());
            measured.faults()
        };
        assert!(differs(|_| {}).is_empty());
        assert_eq!(differs(|it| it.live.server.writes.ns += 2 * MS), ["latency"], "more");
        assert_eq!(
            differs(|it| it.live.server.reads.ns -= 40 * MS),
            ["latency", "client and socket"]
        );
        // as much slower here as it is faster there
        let crosswise = |it: &mut Measured| {
            it.live.server.reads.ns += 30 * MS;
            it.live.server.writes.ns -= 30 * MS;
        };
        assert_eq!(differs(crosswise), ["latency"]);
        assert_eq!(differs(|it| it.live.server.redirected = 4), ["share redirected"]);
        assert_eq!(differs(|it| it.model.reads.count = 8), ["other requests"]);
        // a server that holds its answers back does so unseen by its own statistics
        assert_eq!(differs(|it| it.live.client_ns += 12 * MS), ["client and socket"]);
    }

    #[test]
    fn a_job_begins_when_the_drives_rest() {
        let status = |awake_for: Value, idle: Duration, state: &str| {
            let idle_ns = idle.as_nanos() as u64;
            let rest = json!([null, { "idle_ns": idle_ns, "awake_for": awake_for }]);
            json!({ "rest": rest, "controllers": [null, { "state": state }] })
        };
        for state in ["fast", "off"] {
            assert!(is_ready(&status(Value::Null, EMPTY_AFTER, state)), "{state}");
        }
        assert!(!is_ready(&status(Value::Null, EMPTY_AFTER / 2, "off")));
        assert!(!is_ready(&status(Value::Null, EMPTY_AFTER, "draining")));
        assert!(!is_ready(&status(json!("flush"), EMPTY_AFTER, "fast")) && !is_ready(&json!({})));
    }

    #[test]
    fn the_kernel_says_how_long_a_process_waited() {
        assert_eq!(second_number("12 345 6\n"), Some(345));
        assert_eq!(second_number("12"), None);
        // while threads end
        for _ in 0..200 {
            let ends = std::thread::spawn(|| {});
            assert!(waited_ns(std::process::id()).is_ok());
            ends.join().expect("it does nothing");
        }
        assert!(waited_ns(u32::MAX).is_err());
    }

    #[test]
    fn both_sides_and_what_was_redirected_are_read() {
        let side = |count: u64, mean_ns: u64| json!({ "count": count, "mean_ns": mean_ns });
        let of = |reads, writes| json!({ "read": side(reads, 100), "write": side(writes, 200), "redirected": { "requests": 2 } });
        let told = answered_of(&of(1, 3), &of(1, 3)).unwrap();
        assert_eq!((told.mean_ns(), told.count(), told.redirected_percent()), (175, 4, 66));
        assert!(
            answered_of(&of(0, 0), &of(0, 0)).is_err()
                && answered_of(&json!({}), &json!({})).is_err()
        );
    }
}
