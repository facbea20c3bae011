//! The client of a control socket. What does it say of a server that does not answer?
//!
//! A server that was stopped (SIGSTOP) still has its socket, so connecting to it succeeds and nothing
//! comes back. Who waits there looks at the process now and then: see [`LOOK_EVERY`].

use crate::device::process_state;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A server that works has this long to answer: behind many requests and slow drives some take seconds
/// (guess).
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A connection that is not taken into the socket's queue is tried for this long.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
const CONNECT_RETRY: Duration = Duration::from_millis(20);
/// How often the process is looked at while it does not answer; one that is seen stopped twice running is
/// not waited for.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Sends one line and reads the answer.
///
/// # Errors
/// `NotFound` and `ConnectionRefused` if nobody serves there, `ResourceBusy` if the server takes no more
/// clients, `TimedOut` if it is stopped or hangs, with words that say what to do; what the system
/// answers; and an answer that is no JSON.
pub(super) fn send(socket: &Path, asked: &Value) -> io::Result<Value> {
    let mut stream = connect(socket)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    stream.set_write_timeout(Some(CONNECT_WITHIN))?;
    match stream.write_all(format!("{asked}\n").as_bytes()) {
        // a server without room closes at once, and what it said is there to be read
        Err(why) if why.kind() == ErrorKind::BrokenPipe => {}
        written => written?,
    }
    let answer: Value = serde_json::from_slice(&read_line(stream)?)?;
    match (answer["busy"].as_bool(), answer["error"].as_str()) {
        (Some(true), Some(why)) => Err(io::Error::new(ErrorKind::ResourceBusy, why)),
        _ => Ok(answer),
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let deadline = Instant::now() + CONNECT_WITHIN;
    loop {
        // a connect that may block would wait for as long as the queue is full
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let made = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&made, &address) {
            Ok(()) => {
                let stream = UnixStream::from(made);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(CONNECT_RETRY),
            Err(Errno::AGAIN) => {
                let text = "it takes no more connections, so it is stopped or hangs: `ss -xlp` names its \
                            process and those that wait; `kill -CONT PROCESS` lets a stopped one go on";
                return Err(io::Error::new(ErrorKind::TimedOut, text));
            }
            Err(why) => return Err(why.into()),
        }
    }
}

fn read_line(stream: UnixStream) -> io::Result<Vec<u8>> {
    let server = rustix::net::sockopt::socket_peercred(&stream).ok();
    let server = server.and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
    let deadline = Instant::now() + ANSWER_WITHIN;
    let (mut reader, mut line, mut stopped) = (BufReader::new(stream), Vec::new(), 0);
    loop {
        match reader.read_until(b'\n', &mut line) {
            Ok(_) if line.is_empty() => {
                let text = "it closed the connection without an answer";
                return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
            }
            Ok(_) => return Ok(line),
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let state = server.and_then(process_state);
                stopped = if matches!(state, Some('T' | 't')) { stopped + 1 } else { 0 };
                if stopped >= 2 || Instant::now() >= deadline {
                    let text = told(server.zip(state));
                    return Err(io::Error::new(ErrorKind::TimedOut, text));
                }
            }
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// Why no answer came, by the state of the process (proc(5), `/proc/PID/stat`).
fn told(server: Option<(u32, char)>) -> String {
    let seconds = ANSWER_WITHIN.as_secs();
    match server {
        Some((process, 'T' | 't')) => format!(
            "process {process} is stopped (SIGSTOP, or a debugger holds it): `kill -CONT {process}` lets \
             it go on"
        ),
        Some((process, 'D')) => format!(
            "process {process} did not answer within {seconds} s: it waits in the kernel for a drive; see \
             the kernel's log (`dmesg`)"
        ),
        Some((process, state)) => format!(
            "process {process} did not answer within {seconds} s (its state is {state}): see its log; \
             `kill {process}` stops it cleanly if it still hears that"
        ),
        None => format!(
            "it did not answer within {seconds} s, and its process is not seen from here: see its log"
        ),
    }
}
