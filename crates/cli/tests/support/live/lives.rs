//! What is one run of the live arm? A pool is made, served, used and killed again and again, until its time
//! is over; after each start everything is read and compared.

use super::files::{self, Files};
use super::full::Small;
use super::pools::{self, Behind, Kind, PoolPlan, VOLUME_MIB};
use super::server::Server;
use super::verbs::{self, Administrator};
use super::volume::{self, Pulse, Volume};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tandem_block::Rng;

/// Requests in flight that nobody answers for so long hang.
const HUNG_AFTER: Duration = Duration::from_secs(180);
/// How long users have to go before a server is asked to end.
const QUIET: Duration = Duration::from_millis(100);
/// Sectors of a MiB.
const SECTORS_PER_MIB: u64 = 2048;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub tandem: PathBuf,
    /// Where runs have their folders.
    pub place: PathBuf,
    /// How long a run takes.
    pub run: Duration,
    /// The drives ignore flushes: what is promised is lost, and that must be seen.
    pub ignore_flushes: bool,
    /// All drives are put back to what they were when the first server had ended: a loss that no start can
    /// see, since they fit each other.
    pub rolls_back: bool,
    /// Only this kind of pool, and this behind its drives.
    pub kind: Option<Kind>,
    pub behind: Option<Behind>,
    /// Whether a volume of files is mounted and used; if it is not said, in every other run.
    pub files: Option<bool>,
    /// The first server lives so long, and its memory is watched.
    pub long_life: Option<Duration>,
}

/// Resident memory of a server in a long life: medians of its second and its last quarter, by when all that
/// grows with use alone has grown, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    pub early_kib: u64,
    pub late_kib: u64,
}

impl Growth {
    /// From samples at even times.
    fn of(samples_kib: &[u64]) -> Option<Growth> {
        let quarter = samples_kib.len() / 4;
        let median = |part: &[u64]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part.get(part.len() / 2).copied()
        };
        let early_kib = median(&samples_kib[quarter..2 * quarter])?;
        let late_kib = median(&samples_kib[samples_kib.len() - quarter..])?;
        Some(Growth { early_kib, late_kib })
    }

    /// The last quarter, in per cent of the second one.
    pub fn percent(self) -> u64 {
        self.late_kib * 100 / self.early_kib.max(1)
    }
}

/// What happened in a run, or in several.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub runs: u64,
    /// Servers that were started, and how they ended.
    pub lives: u64,
    pub killed: u64,
    pub stopped: u64,
    pub requests: volume::Counts,
    pub verbs: verbs::Counts,
    /// Operations on files.
    pub files: files::Counts,
    /// Runs in which something was lost, mixed up or refused, and in which something hung.
    pub lost: u64,
    pub hung: u64,
    /// How memory grew in each long life.
    pub growth: Vec<Growth>,
    /// The most memory that any server had.
    pub most_kib: u64,
    /// What was wrong, each with all that is known.
    pub reports: Vec<String>,
}

impl Outcome {
    /// Adds another run.
    pub fn add(&mut self, other: Outcome) {
        self.runs += other.runs;
        self.lives += other.lives;
        self.killed += other.killed;
        self.stopped += other.stopped;
        self.requests += other.requests;
        for (verb, counts) in other.verbs {
            let sums = self.verbs.entry(verb).or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
        }
        for (op, count) in other.files {
            *self.files.entry(op).or_default() += count;
        }
        self.lost += other.lost;
        self.hung += other.hung;
        self.growth.extend(other.growth);
        self.most_kib = self.most_kib.max(other.most_kib);
        self.reports.extend(other.reports);
    }
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    Stopped,
}

/// What became of a life.
struct Lived {
    /// Why nothing went on any more, if so.
    hung: Option<String>,
    /// How the server ended, or why it did not.
    ended: Result<(End, Option<ExitStatus>), String>,
    /// Its memory each second, and the most that it had.
    samples_kib: Vec<u64>,
    most_kib: u64,
    /// What users and the administrator say.
    troubles: Vec<Result<(), String>>,
}

/// How a server lives and ends.
struct Life {
    length: Duration,
    /// SIGTERM at the end, not SIGKILL.
    is_stopped: bool,
    /// Users have gone by then; or else they are in the middle of their work.
    is_quiet: bool,
}

impl Life {
    fn draw(rng: &mut Rng) -> Life {
        let is_long = rng.below(5) == 0;
        let ms = if is_long { rng.between(2_000, 8_000) } else { rng.between(100, 2_500) };
        let is_stopped = rng.below(5) < 2;
        let is_quiet = is_stopped && rng.below(2) == 0;
        Life { length: Duration::from_millis(ms), is_stopped, is_quiet }
    }
}

/// What stops a run.
enum Trouble {
    /// Something is not as it must be.
    Lost(String),
    /// Nobody answers any more.
    Hung(String),
}

struct Run<'a> {
    plan: &'a Plan,
    seed: u64,
    rng: Rng,
    pool: PoolPlan,
    folder: PathBuf,
    volumes: Vec<Volume>,
    files: Option<Files>,
    administrator: Administrator,
    outcome: Outcome,
    /// The last server ended cleanly, so that a drive may die now.
    is_clean: bool,
    /// The second drive of the pair is gone.
    leg_gone: bool,
    /// A file system that is too small for what lies in it.
    small: Option<Small>,
}

/// Runs a seed.
///
/// # Errors
/// If it cannot be tried: no room, no program.
pub fn run(plan: &Plan, seed: u64) -> Result<Outcome, String> {
    let folder = tempfile::Builder::new().prefix("live-").tempdir_in(&plan.place);
    let folder = folder.map_err(|error| format!("{}: {error}", plan.place.display()))?;
    let mut rng = Rng::new(seed);
    let kinds = [Kind::Plain, Kind::Plain, Kind::Many, Kind::Pair];
    let drawn = kinds[rng.below(kinds.len() as u64) as usize];
    let behinds = [Behind::Files, Behind::Files, Behind::Emulated];
    let behind = behinds[rng.below(behinds.len() as u64) as usize];
    let (kind, behind) = (plan.kind.unwrap_or(drawn), plan.behind.unwrap_or(behind));
    let has_files = plan.files.unwrap_or(rng.below(2) == 0) && Path::new("/dev/fuse").exists();
    let pool = PoolPlan::new(kind, behind, has_files, &mut rng);
    let sectors = VOLUME_MIB * SECTORS_PER_MIB;
    let volumes = (0..).zip(&pool.volumes).map(|(number, volume)| {
        let numbers = (seed, number);
        Volume::new(&volume.name, numbers, sectors, volume.is_strict, volume.load.clone())
    });
    let volumes = volumes.collect();
    let files = has_files.then(|| Files::new(folder.path(), seed, &mut rng));
    let administrator = Administrator::new(&plan.tandem, folder.path(), &pool);
    let outcome = Outcome { runs: 1, ..Outcome::default() };
    let small = match behind {
        Behind::Full => Some(Small::mount(&folder.path().join(pools::SMALL))?),
        Behind::Files | Behind::Emulated => None,
    };
    let (path, is_clean, leg_gone) = (folder.path().to_owned(), false, false);
    let mut run = Run {
        plan,
        seed,
        rng,
        pool,
        folder: path,
        volumes,
        files,
        administrator,
        outcome,
        is_clean,
        leg_gone,
        small,
    };
    run.format()?;
    let trouble = run.lives().err();
    if let Some(files) = &run.files {
        files.clear();
        for user in &files.users {
            user.counts.iter().for_each(|(op, n)| *run.outcome.files.entry(op).or_default() += n);
        }
    }
    run.outcome.verbs = std::mem::take(&mut run.administrator.counts);
    for volume in &run.volumes {
        run.outcome.requests += volume.counts();
    }
    if let Some(trouble) = trouble {
        // the folder stays, for whoever looks into it
        let kept = folder.keep();
        run.report(trouble, &kept);
    }
    Ok(run.outcome)
}

impl Run<'_> {
    fn format(&self) -> Result<(), String> {
        let config = self.folder.join("pool.toml");
        if let Some(files) = &self.files {
            std::fs::create_dir(&files.mount).map_err(|error| error.to_string())?;
        }
        std::fs::write(&config, &self.pool.text).map_err(|error| error.to_string())?;
        let formatted = Command::new(&self.plan.tandem).arg("format").arg(&config).output();
        let formatted = formatted.map_err(|error| error.to_string())?;
        if formatted.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&formatted.stderr).into_owned();
        Err(format!("the pool of seed {} cannot be made: {said}\n{}", self.seed, self.pool.text))
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("tandem.sock")
    }

    fn lives(&mut self) -> Result<(), Trouble> {
        let end = Instant::now() + self.plan.run;
        loop {
            let server = self.start()?;
            self.verify()?;
            if let Some(small) = &self.small {
                small.shrink().map_err(Trouble::Lost)?;
            }
            if Instant::now() >= end {
                self.stop(server)?;
                return self.check();
            }
            self.live(server)?;
        }
    }

    fn start(&mut self) -> Result<Server, Trouble> {
        if self.plan.rolls_back {
            self.roll_back().map_err(Trouble::Lost)?;
        }
        self.administrator.clear();
        let mut words = self.change_leg();
        if let Some(small) = &self.small {
            small.grow().map_err(Trouble::Lost)?;
        }
        if self.plan.ignore_flushes {
            words.push("--ignore-flushes".to_owned());
        }
        self.administrator.note(&format!("tandem serve {}", words.join(" ")));
        self.outcome.lives += 1;
        Server::start(&self.plan.tandem, &self.folder, &words).map_err(|why| {
            let log = std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            Trouble::Lost(format!("the pool cannot be served: {why}: {}", last.join(" | ")))
        })
    }

    /// Keeps what the drives hold after the first server, and brings it back after the second one.
    fn roll_back(&mut self) -> Result<(), String> {
        let kept = self.folder.join("kept");
        let (from, to) = match self.outcome.lives {
            1 => (&self.folder, &kept),
            2 => (&kept, &self.folder),
            _ => return Ok(()),
        };
        std::fs::create_dir_all(to).map_err(|error| error.to_string())?;
        for entry in std::fs::read_dir(from).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.extension().is_none_or(|it| it != "img" && it != "toml") {
                continue;
            }
            let copied = Command::new("cp").arg("--sparse=always").args([&path, to]).status();
            if !copied.is_ok_and(|status| status.success()) {
                return Err(format!("{} is not copied", path.display()));
            }
        }
        self.administrator.note("the drives are copied");
        Ok(())
    }

    /// Takes the second drive of a pair away, or brings a new one: what the server is told then. A pair
    /// holds against the death of a drive or a power cut, so it dies when all is durable.
    fn change_leg(&mut self) -> Vec<String> {
        if self.pool.kind != Kind::Pair || !self.is_clean || self.rng.below(3) > 0 {
            return Vec::new();
        }
        let path = self.folder.join(pools::LEG);
        self.leg_gone = !self.leg_gone;
        if self.leg_gone {
            self.administrator.note("the second drive of the pair is taken away");
            // it is made anew by the server that is told of it
            let _ = std::fs::remove_file(&path);
            return Vec::new();
        }
        vec!["--new-leg".to_owned(), path.to_string_lossy().into_owned()]
    }

    /// All of all volumes, and of their snapshots.
    fn verify(&mut self) -> Result<(), Trouble> {
        let socket = self.socket();
        let read: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let readers: Vec<_> =
                self.volumes.iter().map(|volume| scope.spawn(|| volume.verify(&socket))).collect();
            readers.into_iter().map(|reader| reader.join().expect("it does not panic")).collect()
        });
        read.into_iter().collect::<Result<(), String>>().map_err(Trouble::Lost)?;
        let snapshots = &mut self.administrator.snapshots;
        snapshots.verify(&socket, &self.volumes).map_err(Trouble::Lost)?;
        self.files.as_mut().map_or(Ok(()), Files::verify).map_err(Trouble::Lost)
    }

    /// The pool is used and administered until the server is killed or stopped.
    fn live(&mut self, server: Server) -> Result<(), Trouble> {
        let lived = self.use_pool(server);
        self.administrator.snapshots.end_of_server(&self.volumes);
        self.outcome.most_kib = self.outcome.most_kib.max(lived.most_kib);
        if self.plan.long_life.is_some() && self.outcome.lives == 1 {
            self.outcome.growth.extend(Growth::of(&lived.samples_kib));
        }
        if let Some(why) = lived.hung {
            return Err(Trouble::Hung(why));
        }
        let (end, status) = lived.ended.map_err(Trouble::Hung)?;
        self.administrator.note(&format!("the server was {end:?}"));
        self.tell_end(end);
        for trouble in lived.troubles {
            trouble.map_err(Trouble::Lost)?;
        }
        for volume in &self.volumes {
            let trouble = volume.trouble.lock().expect("no one panics with it").take();
            if let Some(trouble) = trouble {
                return Err(Trouble::Lost(trouble));
            }
        }
        match status {
            Some(status) if !status.success() => {
                Err(Trouble::Lost(format!("the server ended with {status} after SIGTERM")))
            }
            _ => Ok(()),
        }
    }

    /// All who know what must be there are told of the end of a server.
    fn tell_end(&mut self, end: End) {
        self.is_clean = end == End::Stopped;
        for volume in &self.volumes {
            match end {
                End::Killed => volume.crashed(),
                End::Stopped => volume.stopped(),
            }
        }
        if let Some(files) = &mut self.files {
            files.users.iter_mut().for_each(|user| user.end_of_server(end == End::Stopped));
        }
        match end {
            End::Killed => self.outcome.killed += 1,
            End::Stopped => self.outcome.stopped += 1,
        }
    }

    /// Users and an administrator at work, and then the end of the server.
    fn use_pool(&mut self, mut server: Server) -> Lived {
        let mut life = Life::draw(&mut self.rng);
        if self.outcome.lives == 1 {
            life.length = self.plan.long_life.unwrap_or(life.length);
        }
        let (stop, ending, pulse) = (AtomicBool::new(false), AtomicBool::new(false), Pulse::new());
        let socket = self.socket();
        let mut rngs: Vec<Rng> =
            (0..=self.volumes.len() as u64).map(|n| self.rng.split(n)).collect();
        let mut for_verbs = rngs.pop().expect("there is one more than volumes");
        let (volumes, administrator) = (&self.volumes, &mut self.administrator);
        let (mount, users) = match &mut self.files {
            Some(files) => (files.mount.clone(), &mut files.users[..]),
            None => (PathBuf::new(), &mut [][..]),
        };
        std::thread::scope(|scope| {
            let (stop, ending, pulse, socket) = (&stop, &ending, &pulse, &socket);
            let mount = &mount;
            let clients = volumes.iter().zip(rngs).map(|(volume, mut rng)| {
                scope.spawn(move || {
                    let worked = volume.work(socket, &mut rng, stop, pulse);
                    // a server that is being ended takes nobody in
                    worked.or_else(|why| if is_set(ending) { Ok(()) } else { Err(why) })
                })
            });
            let mut working: Vec<_> = clients.collect();
            for user in users {
                working.push(scope.spawn(move || user.work(mount, stop, ending, pulse)));
            }
            working.push(scope.spawn(move || administrator.work(volumes, &mut for_verbs, ending)));
            let mut samples_kib = Vec::new();
            let hung = watch(&mut server, volumes, life.length, pulse, &mut samples_kib);
            // a life is too short to see who waits for ever
            let hung = hung.or_else(|| server.answers().err());
            let most_kib = server.memory().most_kib;
            if life.is_quiet && hung.is_none() {
                stop.store(true, Ordering::Relaxed);
                std::thread::sleep(QUIET);
            }
            ending.store(true, Ordering::Relaxed);
            let ended = if life.is_stopped && hung.is_none() {
                server.ask_to_end();
                server.wait().map(|status| (End::Stopped, Some(status)))
            } else {
                server.kill();
                Ok((End::Killed, None))
            };
            stop.store(true, Ordering::Relaxed);
            let troubles = working.into_iter().map(|it| it.join().expect("it does not panic"));
            Lived { hung, ended, samples_kib, most_kib, troubles: troubles.collect() }
        })
    }

    fn stop(&mut self, server: Server) -> Result<(), Trouble> {
        server.ask_to_end();
        let status = server.wait().map_err(Trouble::Hung)?;
        self.tell_end(End::Stopped);
        if status.success() {
            return Ok(());
        }
        Err(Trouble::Lost(format!("the server ended with {status} after SIGTERM")))
    }

    /// The offline check agrees that all is well.
    fn check(&mut self) -> Result<(), Trouble> {
        let output = Command::new(&self.plan.tandem)
            .arg("check")
            .arg(self.folder.join("pool.toml"))
            .output()
            .map_err(|error| Trouble::Lost(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
        Err(Trouble::Lost(format!("tandem check: {}", said.concat())))
    }

    /// All that is known of what went wrong.
    fn report(&mut self, trouble: Trouble, kept: &Path) {
        let (what, text) = match trouble {
            Trouble::Lost(text) => {
                self.outcome.lost += 1;
                ("LOST", text)
            }
            Trouble::Hung(text) => {
                self.outcome.hung += 1;
                ("HUNG", text)
            }
        };
        let told = &self.administrator.told;
        let last = told[told.len().saturating_sub(25)..].join("\n    ");
        let volumes: Vec<String> =
            self.pool.volumes.iter().map(|it| format!("{}: {}", it.name, it.what)).collect();
        let (kind, behind) = (self.pool.kind, self.pool.behind);
        self.outcome.reports.push(format!(
            "{what} seed {}, {kind:?} over {behind:?}: {text}\n  the volumes:\n    {}\n  what was \
             called last:\n    {last}\n  the drives, the configuration, the server's log and, where it hung, its status are in \
             {}\n  again: cargo xtask campaign --arm live --seed {} --runs 1 --run-seconds {}",
            self.seed,
            volumes.join("\n    "),
            kept.display(),
            self.seed,
            self.plan.run.as_secs(),
        ));
    }
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

/// Lets everybody work for so long, and looks at the server's memory every second. What comes back is why
/// nothing goes on any more, if so.
fn watch(
    server: &mut Server,
    volumes: &[Volume],
    length: Duration,
    pulse: &Pulse,
    samples_kib: &mut Vec<u64>,
) -> Option<String> {
    let began = Instant::now();
    while began.elapsed() < length && !volumes.iter().any(Volume::has_trouble) {
        std::thread::sleep(Duration::from_millis(10));
        if began.elapsed().as_secs() > samples_kib.len() as u64 {
            samples_kib.push(server.memory().now_kib);
        }
        if !server.is_alive() {
            volumes[0].complain("the server has ended by itself".to_owned());
        }
        if pulse.silent() > HUNG_AFTER {
            let s = HUNG_AFTER.as_secs();
            server.keep_status();
            return Some(format!("no request in flight was answered for {s} s"));
        }
    }
    // the life is over, but nobody may be left waiting in it
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_grows_to_the_end_is_seen_and_what_fills_at_first_is_not() {
        let of = |kib: fn(u64) -> u64| Growth::of(&(0..60).map(kib).collect::<Vec<_>>()).unwrap();
        assert_eq!(of(|_| 50_000).percent(), 100);
        assert_eq!(of(|s| 20_000 + 2_000 * s.min(15)).percent(), 100);
        assert!(of(|s| 50_000 + 500 * s).percent() > 120, "a leak");
        // one sample of a moment with much in flight
        assert_eq!(of(|s| if s == 59 { 90_000 } else { 50_000 }).percent(), 100);
        assert_eq!(Growth::of(&[]), None);
    }
}
