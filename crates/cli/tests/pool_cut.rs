//! What if the file behind a drive is cut while it is served? It is told of at once, by name, no FLUSH
//! succeeds any more, and the pool is not called closed cleanly.

use crate::support::program::{TWO, program};
use crate::support::sigkill::over_nbd;
use crate::support::{PATIENCE, PoolFixture};
use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Bytes of one read and write.
const STEP: usize = 64 << 10;
const STEPS: u64 = 300;

/// What a server said until its end, line by line, and its exit code.
struct Told {
    before_stop: Vec<String>,
    all: Vec<String>,
    code: Option<i32>,
}

/// A server that does not outlive its test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills a volume, cuts the drive's file, reads all of it, flushes, stops. Returns how many reads failed,
/// whether the flush succeeded, and what was told.
fn cut(pool: &PoolFixture, drive: &str, bytes: u64) -> (usize, bool, Told) {
    let mut serve = Command::new(program());
    let serve = serve.args(["serve", pool.config()]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut killed = Killed(serve.stderr(Stdio::piped()).spawn().unwrap());
    let child = &mut killed.0;
    let (sender, lines) = mpsc::channel();
    let err = std::io::BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        std::io::BufRead::lines(err).map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let mut client = None;
    crate::support::synced::until("it serves", || {
        client = over_nbd(pool.folder.path()).ok();
        client.is_some()
    });
    let mut client = client.unwrap();
    for step in 0..STEPS {
        client.write(step * STEP as u64, &vec![(step % 251) as u8 + 1; STEP], false).unwrap();
    }
    client.flush().unwrap();
    let file = File::options().write(true).open(pool.at(drive)).unwrap();
    file.set_len(bytes).unwrap();
    let failed = (0..STEPS).filter(|step| client.read(step * STEP as u64, STEP).is_err()).count();
    let flushed = client.flush().is_ok();
    // the line is there before the end
    let mut before_stop: Vec<String> = Vec::new();
    while let Ok(line) = lines.recv_timeout(match before_stop.is_empty() {
        true => PATIENCE,
        false => Duration::from_millis(100),
    }) {
        before_stop.push(line);
    }
    drop(client);
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let mut code = None;
    crate::support::synced::until("it ends", || {
        let ended = child.try_wait().unwrap();
        code = ended.and_then(|status| status.code());
        ended.is_some()
    });
    let mut all = before_stop.clone();
    all.extend(lines.iter());
    (failed, flushed, Told { before_stop, all, code })
}

#[test]
fn a_file_that_is_cut_is_told_of_at_once() {
    // an SSD that keeps all that was written, on a file and behind a model
    let emulated = "size = \"64MiB\"\nemulate = \"960evo\"";
    for text in [TWO.to_owned(), TWO.replacen("size = \"64MiB\"", emulated, 1)] {
        let pool = PoolFixture::formatted(&text);
        let (failed, flushed, told) = cut(&pool, "ssd.img", 12 << 20);
        let named: Vec<&String> =
            told.before_stop.iter().filter(|line| line.contains("ssd.img: ")).collect();
        println!(
            "measured: of {STEPS} reads {failed} failed, flush ok: {flushed}, lines by name before the \
             stop: {}, exit code {:?}",
            named.len(),
            told.code
        );
        let all = told.all.join("\n");
        assert!(failed > 30, "the cut was not met: {all}");
        assert!(!flushed, "a flush says that all is durable: {all}");
        assert!((1..=4).contains(&named.len()), "told at once, and not for each command: {all}");
        let line = named[0];
        // what met the cut first: a read, or what a commit in the background sends
        let is_named = line.contains(" bytes at ") || line.contains("ssd.img: flush failed");
        assert!(is_named, "{line}");
        assert!(
            line.contains("the file was cut: it has 12582912 bytes and had 67108864"),
            "{line}"
        );
        assert_eq!(told.code, Some(1), "{all}");
        assert!(!all.contains("closed cleanly"), "{all}");
        assert!(told.all.last().unwrap().contains("ssd.img"), "{all}");
    }
}
