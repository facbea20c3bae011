//! Does a good client keep its service while others misbehave, and does the server's memory stay bounded?
//!
//! Each attack runs the real program over a pool in memory. A good client is measured before the attack,
//! beside it, and after it; what it does beside is compared with the lesser of the other two. The memory
//! is the peak of what the process had resident during the attack, less what it had before.

pub mod attackers;
pub mod files;
pub mod limits;
pub mod measured;

use super::program::{self, told};
use super::{PoolFixture, Server};
use attackers::{Attackers, Shape};
use measured::{Resident, Window};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub tandem: PathBuf,
    /// Keys of `[serve]` are written into the configuration; a program of before them knows none.
    pub keys: bool,
    /// How long a window of measuring lasts.
    pub window: Duration,
    /// Windows beside the attack at most; measuring ends early when the good client keeps its rate.
    pub windows: u32,
}

/// What an attack did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// Cycles of the good client a second: the lesser of before and after.
    pub alone_per_s: f64,
    /// The same beside the attack.
    pub beside_per_s: f64,
    /// Resident bytes during the attack at most, less those before it.
    pub peak_bytes: u64,
    /// What they may be.
    pub bound_bytes: u64,
    /// What else must hold and does not.
    pub wrong: Vec<String>,
}

impl Outcome {
    /// What the good client keeps of its rate.
    pub fn ratio(&self) -> f64 {
        if self.alone_per_s > 0.0 { self.beside_per_s / self.alone_per_s } else { 0.0 }
    }

    /// What does not hold if at least `ratio` of the rate must be kept.
    pub fn faults(&self, ratio: f64) -> Vec<String> {
        let mut faults = self.wrong.clone();
        if self.ratio() < ratio {
            faults.push(format!(
                "the good client keeps {:.2} of its rate ({:.0}/s of {:.0}/s), not {ratio:.2}",
                self.ratio(),
                self.beside_per_s,
                self.alone_per_s
            ));
        }
        if self.peak_bytes > self.bound_bytes {
            faults.push(format!(
                "{} MiB became resident, more than {} MiB",
                self.peak_bytes >> 20,
                self.bound_bytes >> 20
            ));
        }
        faults
    }
}

/// One attack.
pub struct Attack {
    /// Its name, for the command line and the table.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub what: &'static str,
    run: fn(&Attack, &Plan) -> Result<Outcome, String>,
    shape: Shape,
}

impl Attack {
    const fn nbd(name: &'static str, what: &'static str, shape: Shape) -> Attack {
        Attack { name, what, run: beside_nbd, shape }
    }

    const fn files(name: &'static str, what: &'static str, shape: Shape) -> Attack {
        Attack { name, what, run: files::beside_files, shape }
    }

    /// Does it.
    ///
    /// # Errors
    /// What could not be measured: the good client may have found no way in at all.
    pub fn run(&self, plan: &Plan) -> Result<Outcome, String> {
        (self.run)(self, plan)
    }
}

/// All of them.
pub const ATTACKS: &[Attack] = &[
    Attack::nbd("silent", "300 connections that say nothing", Shape::Silent { count: 300 }),
    Attack::nbd(
        "byte-by-byte",
        "100 connections that negotiate a byte every 50 ms",
        Shape::SlowNegotiation { count: 100 },
    ),
    Attack::nbd(
        "options",
        "16 connections that ask for the list of exports without end",
        Shape::Options { count: 16, reads: true },
    ),
    Attack::nbd(
        "options-unread",
        "64 connections that ask for the list of exports and read nothing",
        Shape::Options { count: 64, reads: false },
    ),
    Attack::nbd(
        "half-headers",
        "120 connections that send half of a request",
        Shape::HalfHeaders { count: 120 },
    ),
    Attack::nbd(
        "bodies",
        "20 clients that announce 32 MiB and send a byte",
        Shape::Bodies { count: 20, trickle: false },
    ),
    Attack::nbd(
        "bodies-trickle",
        "40 clients that announce 32 MiB and send a byte every 50 ms",
        Shape::Bodies { count: 40, trickle: true },
    ),
    Attack::nbd(
        "unread-small",
        "60 clients that read 4 KiB blocks and never take the answers",
        Shape::Unread { count: 60, request_bytes: 4096 },
    ),
    Attack::nbd(
        "unread-large",
        "60 clients that read 8 MiB at a time and never take the answers",
        Shape::Unread { count: 60, request_bytes: 8 << 20 },
    ),
    Attack::nbd(
        "unread-flush",
        "60 clients that flush without end and never take the answers",
        Shape::UnreadFlush { count: 60 },
    ),
    Attack::nbd(
        "unread-status",
        "60 clients that ask for the state of all blocks and never take the answers",
        Shape::UnreadStatus { count: 60 },
    ),
    Attack::nbd(
        "comes-and-goes",
        "a client that connects and leaves in a loop",
        Shape::ComesAndGoes { negotiates: false },
    ),
    Attack::nbd(
        "negotiates-and-goes",
        "a client that chooses an export and leaves, in a loop",
        Shape::ComesAndGoes { negotiates: true },
    ),
    Attack::nbd(
        "control-unread",
        "16 clients of the control socket that ask for the status and never read it",
        Shape::ControlUnread { count: 16 },
    ),
    Attack {
        name: "control-half-lines",
        what: "200 clients of the control socket that send half a line; the good one asks for the status",
        run: limits::beside_half_lines,
        shape: Shape::ControlHalfLines { count: 200 },
    },
    Attack::files(
        "files-bodies",
        "16 users of a mount beside 20 clients that announce 32 MiB and send a byte",
        Shape::Bodies { count: 20, trickle: false },
    ),
    Attack::files(
        "files-unread",
        "16 users of a mount beside 60 clients that never take their answers",
        Shape::Unread { count: 60, request_bytes: 8 << 20 },
    ),
    Attack {
        name: "memory-limit",
        what: "3 clients that never take their answers, of a server that may map 480 MiB and believes \
               that it has 4 GiB",
        run: limits::under_a_memory_limit,
        shape: Shape::Unread { count: 3, request_bytes: 17 << 20 },
    },
    Attack {
        name: "memory-limit-to-the-end",
        what: "the same with requests of 1 MiB, which leave less than 1 MiB of what large requests may take",
        run: limits::under_a_memory_limit,
        shape: Shape::Unread { count: 3, request_bytes: 1 << 20 },
    },
];

/// The attack of this name.
pub fn named(name: &str) -> Option<&'static Attack> {
    ATTACKS.iter().find(|attack| attack.name == name)
}

/// A pool in memory with two volumes, one of which is filled and used by the good client.
const IN_MEMORY: &str = r#"[pool]
name = "attacked"
[[device]]
role = "ssd"
path = "ram:512MiB"
emulate = "960evo"
[[volume]]
name = "vol0"
size = "128MiB"
[[volume]]
name = "vol1"
size = "128MiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// Most that the server may hold for its NBD clients, by its default.
const NBD_MEMORY_BYTES: u64 = 256 << 20;
/// What else may become resident beside: buffers of connections, what the engine keeps of requests, and
/// what an allocator does not give back.
const SLACK_BYTES: u64 = 64 << 20;

/// A server under attack.
pub struct Victim {
    pub pool: PoolFixture,
    pub server: Server,
}

impl Victim {
    /// Serves a pool that is described so, with these keys of `[serve]` behind it.
    ///
    /// # Errors
    /// What the server said, if it does not come up.
    pub fn start(plan: &Plan, text: &str, keys: &str) -> Result<Victim, String> {
        let text = if plan.keys { format!("{text}{keys}") } else { text.to_owned() };
        let pool = PoolFixture::new(&text);
        let server = Server::start(&plan.tandem, &[pool.config()]).map_err(|out| told(&out))?;
        Ok(Victim { pool, server })
    }

    pub fn nbd(&self) -> PathBuf {
        self.pool.at("tandem.sock")
    }

    pub fn control(&self) -> PathBuf {
        self.pool.at("pool.control")
    }

    pub fn folder(&self) -> &Path {
        self.pool.folder.path()
    }

    /// Stops it; what is wrong with how it ended.
    pub fn end(self) -> Option<String> {
        // it panics if the server does not end, which is one more thing that an attack can do
        let stop = std::panic::AssertUnwindSafe(|| self.server.stop());
        let Ok((status, said)) = std::panic::catch_unwind(stop) else {
            return Some("the server did not end".to_owned());
        };
        (!status.success()).then(|| format!("the server ended with {status}: {said}"))
    }
}

/// The program under test, with the settings of the tests.
pub fn tested() -> Plan {
    let tandem = program::program().to_owned();
    Plan { tandem, keys: true, window: Duration::from_millis(250), windows: 24 }
}

/// A good NBD client beside attackers.
fn beside_nbd(attack: &Attack, plan: &Plan) -> Result<Outcome, String> {
    let victim = Victim::start(plan, IN_MEMORY, "")?;
    let socket = victim.nbd();
    measured::fill(&socket)?;
    let good = |window: &Window| measured::nbd_rate(&socket, window);
    let outcome = beside(attack, plan, &victim, &good)?;
    finish(outcome, victim)
}

/// Measures `good` before, beside and after the attack.
pub fn beside(
    attack: &Attack,
    plan: &Plan,
    victim: &Victim,
    good: &dyn Fn(&Window) -> Result<f64, String>,
) -> Result<Outcome, String> {
    let window = Window { length: plan.window };
    let before = measured::median_of_three(good, &window)?;
    let resident = Resident::begin(victim.server.id())?;
    let attackers = Attackers::begin(&attack.shape, victim)?;
    // until all of them have come as far as they come
    std::thread::sleep(plan.window);
    let mut wrong = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..plan.windows {
        match good(&window) {
            Ok(rate) => rates.push(rate),
            Err(why) => {
                wrong.push(format!("the good client was not served: {why}"));
                break;
            }
        }
        // three windows are enough, unless the machine does something else just now
        if rates.len() >= 3 && measured::median(&rates) >= before / 2.0 {
            break;
        }
    }
    let peak_bytes = resident.peak_bytes()?;
    drop(attackers);
    let after = measured::median_of_three(good, &window).unwrap_or(before);
    Ok(Outcome {
        name: attack.name,
        alone_per_s: before.min(after),
        beside_per_s: measured::upper_half(&rates),
        peak_bytes,
        bound_bytes: NBD_MEMORY_BYTES + SLACK_BYTES,
        wrong,
    })
}

/// Ends the server and says so if it did not end well.
pub fn finish(mut outcome: Outcome, victim: Victim) -> Result<Outcome, String> {
    outcome.wrong.extend(victim.end());
    Ok(outcome)
}

/// One line of a table for an outcome.
pub fn row(outcome: &Outcome) -> String {
    format!(
        "| {} | {:.0} | {:.0} | {:.2} | {} | {} | {} |",
        outcome.name,
        outcome.alone_per_s,
        outcome.beside_per_s,
        outcome.ratio(),
        outcome.peak_bytes >> 20,
        outcome.bound_bytes >> 20,
        if outcome.wrong.is_empty() { "-".to_owned() } else { outcome.wrong.join("; ") }
    )
}

/// The head of that table.
pub const HEAD: &str = "| attack | alone /s | beside /s | ratio | peak MiB | bound MiB | wrong |\n\
                        |---|---|---|---|---|---|---|";
