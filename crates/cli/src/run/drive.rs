//! What is a case of one drive alone: which drive, and which streams of requests are measured on it?
//!
//! Fields of a result are told in experiments/README.md.

use super::file;
use super::values::{bytes, does, measured_time, request_bytes, sectors};
use crate::replay::pace;
use crate::toml_fault::Fault;
use serde_json::{Map, Value, json};
use std::path::Path;
use tandem_block::{Duration, Quantity};
use tandem_drives::spec::{self, DriveKind, DriveSpec};
use tandem_drives::study::{self, Measured, RequestStream, Size, Times};
use tandem_drives::{BuildOptions, SsdState, build};
use toml::Spanned;

/// Requests of a stream that are measured at most. Each keeps its latency.
const REQUESTS_MAX: u64 = 10_000_000;
/// How many it is where the file does not say.
const REQUESTS: u64 = 100_000;
/// The whole, in millionths.
const WHOLE_PPM: u64 = 1_000_000;

/// A drive, and streams that are measured on it, each for itself.
#[derive(Clone, Debug)]
pub struct DriveCase {
    /// The drive.
    spec: DriveSpec,
    /// What an SSD holds at the start …
    ssd_state: SsdState,
    /// … and so many bytes from its beginning are written in sequence after that.
    fill_bytes: u64,
    seed: u64,
    /// With their names.
    streams: Vec<(String, RequestStream)>,
}

/// Reads a case; paths of drives are those of `folder`.
pub(super) fn case(file: &file::Case, folder: &Path) -> Result<DriveCase, Fault> {
    let wrong = |text: String| Fault::at(&file.name, text);
    if let Some(field) = foreign(file) {
        return Err(wrong(format!("a case of a drive alone has no `{field}`")));
    }
    let (name, kind) = match (file.ssd.as_slice(), file.hdd.as_slice()) {
        ([ssd], []) => (ssd, DriveKind::Ssd),
        ([], [hdd]) => (hdd, DriveKind::Hdd),
        _ => return Err(wrong("a case of a drive alone needs one ssd or one hdd".into())),
    };
    let mut spec = load(name, folder).map_err(|why| wrong(why.to_string()))?;
    if spec.kind() != kind {
        return Err(wrong(format!("{name} is no {kind}: it is of the kind {}", spec.kind())));
    }
    if kind == DriveKind::Hdd
        && let Some(field) = of_an_ssd(file)
    {
        return Err(wrong(format!("`{field}` goes with an ssd")));
    }
    if let Some(size) = &file.ssd_size {
        spec = spec
            .with_capacity_bytes(bytes(size)?)
            .map_err(|why| Fault::at(size, why.to_string()))?;
    }
    let ssd_state = match file.ssd_state.as_deref() {
        None => SsdState::default(),
        Some(state) => state.parse().map_err(wrong)?,
    };
    let fill_bytes = file.fill.as_ref().map(bytes).transpose()?.unwrap_or(0);
    if let Some(fill) = file.fill.as_ref().filter(|_| fill_bytes > spec.capacity_bytes()) {
        return Err(Fault::at(fill, "it fills more than the drive has"));
    }
    let duration =
        file.duration.as_ref().map(measured_time).transpose()?.unwrap_or(Duration::from_s(60));
    if let Some(text) = file.duration.as_ref().filter(|_| duration == Duration::ZERO) {
        return Err(Fault::at(text, "some time passes while a drive is measured"));
    }
    let mut case = DriveCase {
        spec,
        ssd_state,
        fill_bytes,
        seed: file.seed.unwrap_or(1),
        streams: Vec::new(),
    };
    for entry in &file.stream {
        let stream = case.stream(entry.get_ref(), duration)?;
        let name = entry.get_ref().name.get_ref();
        if case.streams.iter().any(|(known, _)| known == name) {
            return Err(Fault::at(entry, format!("there are two streams {name:?}")));
        }
        case.streams.push((name.clone(), stream));
    }
    if case.streams.is_empty() {
        return Err(wrong("a drive is measured by streams: a case needs [[case.stream]]".into()));
    }
    Ok(case)
}

/// A known drive, or the one in a file beside the experiment.
fn load(name: &str, folder: &Path) -> Result<DriveSpec, spec::SpecError> {
    match name.ends_with(".toml") {
        true => spec::load(&folder.join(name).to_string_lossy()),
        false => spec::load(name),
    }
}

/// A field of the case that belongs to cases of other kinds.
fn foreign(file: &file::Case) -> Option<&'static str> {
    let fields = [
        ("workload", file.workload.is_some()),
        ("trace", file.trace.is_some()),
        ("placement", file.placement.is_some()),
        ("resident", file.resident.is_some()),
        ("log", file.log.is_some()),
        ("padding", file.padding.is_some()),
        ("measure", file.measure.is_some()),
        ("speedup", file.speedup.is_some()),
        ("closed_loop", file.closed_loop.is_some()),
        ("read_back", file.read_back.is_some()),
        ("ssd_share", file.ssd_share.is_some()),
        ("at_home", file.at_home),
        ("policies", !file.policies.is_empty()),
        ("policy", file.policy.is_some()),
        ("size", file.size.is_some()),
        ("rounds", file.rounds.is_some()),
        ("round_bytes", file.round_bytes.is_some()),
        ("pair", file.pair.is_some()),
        ("orders", file.orders.is_some()),
        ("age", file.age.is_some()),
        ("warm_up", file.warm_up.is_some()),
        ("window", file.window.is_some()),
        ("confidence_percent", file.confidence_percent.is_some()),
        ("gc_cluster", file.gc_cluster.is_some()),
    ];
    named(&fields)
}

/// A field of the case that no hard drive has.
fn of_an_ssd(file: &file::Case) -> Option<&'static str> {
    named(&[
        ("ssd_size", file.ssd_size.is_some()),
        ("ssd_state", file.ssd_state.is_some()),
        ("fill", file.fill.is_some()),
    ])
}

/// A field of the stream that belongs to clients that share a drive.
fn of_a_client(file: &file::Stream) -> Option<&'static str> {
    named(&[
        ("trace", file.trace.is_some()),
        ("every", file.every.is_some()),
        ("burst", file.burst.is_some()),
        ("fua", file.fua),
        ("target", file.target.is_some()),
        ("weight", file.weight.is_some()),
        ("limit", file.limit.is_some()),
    ])
}

/// The first of the fields that is there.
fn named(fields: &[(&'static str, bool)]) -> Option<&'static str> {
    fields.iter().find(|(_, is_there)| *is_there).map(|(name, _)| *name)
}

/// A share of a mix. None: there is none.
fn share(text: Option<&Spanned<String>>) -> Result<u64, Fault> {
    let parse = |text: &Spanned<String>| {
        let ppm = Quantity::Share.within(text.get_ref(), 0..=WHOLE_PPM);
        ppm.map_err(|why| Fault::at(text, why))
    };
    text.map_or(Ok(0), parse)
}

impl DriveCase {
    fn stream(&self, file: &file::Stream, duration: Duration) -> Result<RequestStream, Fault> {
        let wrong = |text: String| Fault::at(&file.name, text);
        if let Some(field) = of_a_client(file) {
            return Err(wrong(format!("a stream to a drive alone has no `{field}`")));
        }
        if file.name.get_ref().contains(['.', '/']) || file.name.get_ref().is_empty() {
            return Err(wrong(
                "a stream's name stands in paths: it has no dot and no slash".into(),
            ));
        }
        let (from_bytes, range_bytes) = self.range(file)?;
        let size = size(file)?;
        let least_bytes = match size {
            Size::Fixed(bytes) => bytes,
            Size::Exponential { step_bytes, .. } => step_bytes,
        };
        if range_bytes < least_bytes {
            return Err(wrong("its range has no room for a request".into()));
        }
        let mix = Mix::of(file)?;
        if mix.reads_ppm > 0 && !self.holds(from_bytes + range_bytes) {
            return Err(wrong(format!(
                "it reads what was never written: the drive is {}, and {} bytes of it are filled",
                self.ssd_state, self.fill_bytes
            )));
        }
        let requests = file.requests.as_ref().map_or(REQUESTS, |requests| *requests.get_ref());
        if let Some(text) =
            file.requests.as_ref().filter(|_| !(1..=REQUESTS_MAX).contains(&requests))
        {
            return Err(Fault::at(text, format!("a stream has 1 to {REQUESTS_MAX} requests")));
        }
        let outstanding = file.outstanding.unwrap_or(1);
        if !(1..=4096).contains(&outstanding) {
            return Err(wrong("1 to 4096 requests are outstanding".into()));
        }
        Ok(RequestStream {
            reads_ppm: mix.reads_ppm,
            sequential_ppm: mix.sequential_ppm,
            local_ppm: mix.local_ppm,
            local_bytes: mix.near_bytes,
            size,
            from_bytes,
            range_bytes,
            outstanding: outstanding as usize,
            think_ns: file
                .think
                .as_ref()
                .map(measured_time)
                .transpose()?
                .unwrap_or(Duration::ZERO)
                .ns,
            requests,
            duration_ns: duration.ns,
        })
    }

    /// Where the range begins, and how long it is: to the end of the drive, if nothing is said.
    fn range(&self, file: &file::Stream) -> Result<(u64, u64), Fault> {
        let capacity_bytes = self.spec.capacity_bytes();
        let from_bytes = file.from.as_ref().map(sectors).transpose()?.unwrap_or(0);
        if let Some(text) = file.from.as_ref().filter(|_| from_bytes >= capacity_bytes) {
            return Err(Fault::at(text, format!("the drive ends at {capacity_bytes} bytes")));
        }
        let Some(range) = &file.range else {
            return Ok((from_bytes, capacity_bytes - from_bytes));
        };
        let range_bytes = sectors(range)?;
        if range_bytes == 0 || range_bytes > capacity_bytes - from_bytes {
            let text = format!("a range is above 0, and the drive ends at {capacity_bytes} bytes");
            return Err(Fault::at(range, text));
        }
        Ok((from_bytes, range_bytes))
    }

    /// Is there something to read in each place up to this byte? A hard drive reads any place alike. An SSD in part
    /// use holds pages at random places, and answers for the others without its flash.
    fn holds(&self, end_bytes: u64) -> bool {
        let is_whole = self.ssd_state == SsdState::Steady;
        self.spec.kind() != DriveKind::Ssd || is_whole || end_bytes <= self.fill_bytes
    }

    /// RAM that it needs at most: the drive, and the copy of it that is measured.
    pub fn need_bytes(&self) -> u64 {
        match self.spec.kind() {
            DriveKind::Ssd => 2 * pace::ssd_need_bytes(self.spec.capacity_bytes()),
            DriveKind::Hdd | DriveKind::Null => 0,
        }
    }

    /// Measures every stream, each on a drive that no other has used.
    ///
    /// # Errors
    /// If the drive cannot be built.
    pub fn run(&self) -> Result<Value, String> {
        let options =
            BuildOptions { seed: self.seed, ssd_state: self.ssd_state, ..BuildOptions::default() };
        let drive = build(&self.spec, options).map_err(|why| why.to_string())?;
        let (drive, begin_ns) = study::filled(drive, self.fill_bytes);
        let one = |(name, stream): &(String, RequestStream)| {
            let measured = study::measure(drive.fork(), begin_ns, stream, self.seed);
            (name.clone(), told(&measured))
        };
        Ok(Value::Object(self.streams.iter().map(one).collect()))
    }

    /// A result of nothing, with every field that one has.
    pub fn schema(&self) -> Value {
        let nothing = told(&Measured::default());
        let each = self.streams.iter().map(|(name, _)| (name.clone(), nothing.clone()));
        Value::Object(each.collect::<Map<_, _>>())
    }
}

/// What a stream's requests are, in shares.
struct Mix {
    reads_ppm: u64,
    sequential_ppm: u64,
    local_ppm: u64,
    near_bytes: u64,
}

impl Mix {
    fn of(file: &file::Stream) -> Result<Mix, Fault> {
        let of_a_mix = [
            ("reads", file.reads.is_some()),
            ("sequential", file.sequential.is_some()),
            ("local", file.local.is_some()),
            ("near", file.near.is_some()),
        ];
        let whole = |is_all: bool| if is_all { WHOLE_PPM } else { 0 };
        if let Some(kind) = does(&file.does, &["mix"])? {
            return match named(&of_a_mix) {
                Some(field) => {
                    Err(Fault::at(&file.name, format!("`{field}` goes with does = \"mix\"")))
                }
                None => Ok(Mix {
                    reads_ppm: whole(kind.read),
                    sequential_ppm: whole(kind.sequential),
                    local_ppm: 0,
                    near_bytes: 0,
                }),
            };
        }
        let mix = Mix {
            reads_ppm: share(file.reads.as_ref())?,
            sequential_ppm: share(file.sequential.as_ref())?,
            local_ppm: share(file.local.as_ref())?,
            near_bytes: file.near.as_ref().map(bytes).transpose()?.unwrap_or(0),
        };
        if file.reads.is_none() {
            return Err(Fault::at(&file.name, "a mix needs `reads`: the share that reads"));
        }
        if mix.sequential_ppm + mix.local_ppm > WHOLE_PPM {
            return Err(Fault::at(&file.name, "`sequential` and `local` are more than the whole"));
        }
        if (mix.local_ppm > 0) != (mix.near_bytes > 0) {
            return Err(Fault::at(&file.name, "`local` and `near` go together"));
        }
        Ok(mix)
    }
}

fn size(file: &file::Stream) -> Result<Size, Fault> {
    let Some(size) = &file.size else {
        return Err(Fault::at(&file.name, "a stream to a drive alone has a size"));
    };
    let size_bytes = request_bytes(size)?;
    match &file.step {
        None => Ok(Size::Fixed(size_bytes)),
        Some(step) => {
            Ok(Size::Exponential { mean_bytes: size_bytes, step_bytes: request_bytes(step)? })
        }
    }
}

fn told(measured: &Measured) -> Value {
    let Measured { per_s, bytes_per_s, all, reads, writes } = measured;
    let mut told = times(all);
    told.insert("per_s".into(), json!(per_s));
    told.insert("bytes_per_s".into(), json!(bytes_per_s));
    told.insert("reads".into(), Value::Object(times(reads)));
    told.insert("writes".into(), Value::Object(times(writes)));
    Value::Object(told)
}

fn times(times: &Times) -> Map<String, Value> {
    let Times { count, mean_ns, p50_ns, p90_ns, p99_ns, max_ns } = times;
    let fields = [
        ("count", count),
        ("mean_ns", mean_ns),
        ("p50_ns", p50_ns),
        ("p90_ns", p90_ns),
        ("p99_ns", p99_ns),
        ("max_ns", max_ns),
    ];
    fields.map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect()
}
