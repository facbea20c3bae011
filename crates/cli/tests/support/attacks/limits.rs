//! What do attacks on other than the NBD sockets do: on the control socket, and on the memory that the
//! process may have?

use super::measured::{self, Line, Window};
use super::{Attack, IN_MEMORY, Outcome, Plan, Victim, beside, finish};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Answers to `status` a second beside clients of the control socket that never end their line.
pub fn beside_half_lines(attack: &Attack, plan: &Plan) -> Result<Outcome, String> {
    let victim = Victim::start(plan, IN_MEMORY, "")?;
    let socket = victim.control();
    let good = |window: &Window| status_rate(&socket, window);
    let outcome = beside(attack, plan, &victim, &good)?;
    finish(outcome, victim)
}

fn status_rate(socket: &Path, window: &Window) -> Result<f64, String> {
    let begin = Instant::now();
    let mut count = 0u64;
    while begin.elapsed() < window.length {
        status(socket).map_err(|error| format!("status: {error}"))?;
        count += 1;
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

fn status(socket: &Path) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(measured::PATIENCE))?;
    stream.write_all(b"{\"verb\":\"status\"}\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(std::io::Error::other("the answer has no end"));
    }
    Ok(())
}

/// A pool in a file, so that the limit is for what is served and not for the drive.
const IN_A_FILE: &str = r#"[pool]
name = "limited"
[[device]]
role = "ssd"
path = "ssd.img"
size = "512MiB"
[[volume]]
name = "vol0"
size = "128MiB"
[[volume]]
name = "vol1"
size = "128MiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// What the process may map, and what it is told that NBD may have.
const LIMIT_BYTES: u64 = 480 << 20;
const TOLD: &str = "nbd_memory = \"4GiB\"\n";
/// What a client is told that gets no memory.
const ENOMEM: &str = "[0, 0, 0, 12";

/// A good client beside attackers, while the process may map less than it is allowed to take.
pub fn under_a_memory_limit(attack: &Attack, plan: &Plan) -> Result<Outcome, String> {
    let keys = if plan.keys { TOLD } else { "" };
    let pool = super::PoolFixture::new(&format!("{IN_A_FILE}{keys}"));
    let format = Command::new(&plan.tandem).args(["format", pool.config()]).output();
    format.map_err(|error| error.to_string())?;
    let mut command = Command::new("prlimit");
    command.arg(format!("--as={LIMIT_BYTES}")).arg(&plan.tandem).arg("serve").arg(pool.config());
    let server = super::Server::run(command).map_err(|out| super::told(&out))?;
    let victim = Victim { pool, server };
    let socket = victim.nbd();
    measured::fill(&socket)?;
    let refused = AtomicU64::new(0);
    let good = |window: &Window| {
        let rate = measured::nbd_rate(&socket, window)?;
        // one that wants more than there is hears so, and is served again when there is some
        match Line::choose(&socket, "vol1")?.read(0, 32 << 20) {
            Ok(_) => {}
            Err(why) if why.contains(ENOMEM) => _ = refused.fetch_add(1, Ordering::Relaxed),
            Err(why) => return Err(why),
        }
        Ok(rate)
    };
    let mut outcome = beside(attack, plan, &victim, &good)?;
    // the limit bounds what is mapped, so it bounds what is resident
    outcome.bound_bytes = LIMIT_BYTES;
    if plan.keys && refused.load(Ordering::Relaxed) == 0 {
        outcome.wrong.push("memory was never short, so nothing was tried".into());
    }
    if let Err(why) = Line::choose(&socket, "vol1").and_then(|mut line| line.read(0, 32 << 20)) {
        outcome.wrong.push(format!("no service after the attack: {why}"));
    }
    finish(outcome, victim)
}
