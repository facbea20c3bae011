//! Where are the real traces that a case replays, or whose requests clients have?
//!
//! Real traces are not part of the project: `TANDEM_TRACES` names the folder that they are in. Without
//! it a case that wants one is skipped, and says so.

use crate::input::{Reading, Source, trace_in};
use crate::toml_fault::Fault;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tandem_block::{Arrival, Op};
use tandem_sim::sharing::{ClientSpec, Recorded};
use tandem_traces::OpenOptions;
use tandem_traces::transform::Speedup;
use toml::Spanned;

/// Requests of a trace that are kept at most.
const REQUESTS_MAX: usize = 1 << 20;
/// Bytes of each that are asked for at most.
const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// The traces of a case.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By client.
    pub paths: Vec<Option<PathBuf>>,
    /// Why the case cannot be run, if so.
    pub skipped: Option<String>,
}

impl Found {
    /// Looks for the trace of the next client, or of a case.
    pub fn look(&mut self, name: Option<&Spanned<String>>) -> Result<(), Fault> {
        self.look_in(std::env::var_os("TANDEM_TRACES").as_deref(), name)
    }

    fn look_in(
        &mut self,
        folder: Option<&OsStr>,
        name: Option<&Spanned<String>>,
    ) -> Result<(), Fault> {
        let Some(name) = name else {
            self.paths.push(None);
            return Ok(());
        };
        let path = trace_in(folder, name.get_ref()).map_err(|why| Fault::at(name, why))?;
        if path.is_none() {
            let why = format!("skipped: TANDEM_TRACES names no folder with {}", name.get_ref());
            self.skipped.get_or_insert(why);
        }
        self.paths.push(path);
        Ok(())
    }
}

/// Reads the requests of those clients that have a trace.
pub(super) fn read(paths: &[Option<PathBuf>], clients: &mut [ClientSpec]) -> Result<(), String> {
    for (path, client) in paths.iter().zip(clients) {
        let Some(path) = path else { continue };
        let wanted = if client.kind.read { Op::Read } else { Op::Write };
        let list = requests(path, wanted)?;
        let bytes: u64 = list.iter().map(|(_, bytes)| bytes).sum();
        let Some(mean) = bytes.checked_div(list.len() as u64) else {
            return Err(format!("{}: no {wanted:?} in it", path.display()));
        };
        client.size_bytes = mean.next_multiple_of(512);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        client.recorded = Some(Recorded { name, list: list.into() });
    }
    Ok(())
}

fn requests(path: &Path, wanted: Op) -> Result<Vec<(u64, u64)>, String> {
    let reading = Reading {
        sources: vec![Source::File(path.to_owned())],
        options: OpenOptions::default(),
        limit: None,
        seed: 1,
        kept_max: 0,
    };
    let of = |arrivals: &mut dyn Iterator<Item = Arrival>| {
        let of_kind = arrivals.filter(|arrival| arrival.op == wanted && arrival.length_bytes > 0);
        // devices of a trace lie behind one another, far enough apart to be told apart
        let place = |arrival: Arrival| {
            let offset = arrival.offset_bytes + (arrival.object.0 << 36);
            (offset, arrival.length_bytes.min(REQUEST_BYTES_MAX))
        };
        Ok::<_, std::convert::Infallible>(of_kind.map(place).take(REQUESTS_MAX).collect())
    };
    let speed = Speedup::parse("1").expect("one is a speed-up");
    let loaded = reading.load(|_| {}).map_err(crate::failure::said)?;
    loaded.replay(speed, of).map_err(crate::failure::said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_without_its_traces_is_skipped_and_says_so() {
        let mut found = Found::default();
        let name = |name: &str| Spanned::new(0..0, name.to_owned());
        found.look_in(None, None).expect("no trace is asked for");
        assert_eq!(found.skipped, None);
        found.look_in(None, Some(&name("a.csv"))).expect("a name");
        let why = found.skipped.expect("skipped");
        assert!(why.contains("TANDEM_TRACES names no folder with a.csv"), "{why}");
        assert_eq!(found.paths, [None, None]);
        for wrong in ["../a.csv", "/etc/a.csv", ""] {
            assert!(Found::default().look_in(None, Some(&name(wrong))).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_and_writes_of_a_trace_are_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("two.csv");
        let line = |time: u64, what: &str, offset: u64, bytes: u64| {
            format!("{},host,0,{what},{offset},{bytes},100\n", 128_166_372_000_000_000 + time)
        };
        let text =
            line(0, "Read", 4096, 8192) + &line(10, "Write", 0, 512) + &line(20, "Read", 0, 4096);
        std::fs::write(&path, text).expect("written");
        let client = |read| ClientSpec {
            name: "one".into(),
            kind: tandem_engine::qos::cost::Kind { read, sequential: false },
            size_bytes: 4096,
            from_bytes: 0,
            range_bytes: 0,
            outstanding: 1,
            arrives: None,
            think: tandem_block::Duration::from_ns(0),
            recorded: None,
            fua: false,
            target: None,
            weight: None,
            limit: None,
        };
        let mut clients = [client(true), client(false), client(true)];
        read(&[Some(path.clone()), Some(path), None], &mut clients).expect("read");
        let bytes = |client: &ClientSpec| -> Vec<u64> {
            client.recorded.iter().flat_map(|r| r.list.iter().map(|(_, bytes)| *bytes)).collect()
        };
        assert_eq!(clients.each_ref().map(bytes), [vec![8192, 4096], vec![512], vec![]]);
        assert_eq!(clients[0].size_bytes, 6144);
    }
}
