//! Where do arrivals come from? Files in any format, synthetic workloads, several overlaid.
//!
//! Everything is read once to be counted. What fits is kept, so that every policy replays from RAM;
//! what does not is read again for each of them, in bounded memory.

use crate::failure::Failure;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tandem_block::Arrival;
use tandem_sim::replay::Survey;
use tandem_traces::transform::{self, Speedup};
use tandem_traces::{OpenOptions, TraceError, open, synth};

/// Arrivals kept in RAM at most: 40 bytes each, so 640 MiB.
pub const KEPT_MAX: usize = 16 << 20;

/// One thing to replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A trace file.
    File(PathBuf),
    /// A synthetic workload with its settings.
    Synth(String),
}

impl Source {
    /// `synth:NAME[:settings]`, or a path.
    pub fn parse(text: &str) -> Source {
        match text.strip_prefix("synth:") {
            Some(spec) => Source::Synth(spec.to_owned()),
            None => Source::File(PathBuf::from(text)),
        }
    }

    /// As it was written.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Synth(spec) => format!("synth:{spec}"),
        }
    }
}

/// A file in the folder of traces. None: there is no such folder, or it has no such file.
///
/// # Errors
/// If the name is a path.
pub fn trace_in(folder: Option<&OsStr>, name: &str) -> Result<Option<PathBuf>, &'static str> {
    let file = Path::new(name);
    if file.file_name() != Some(file.as_os_str()) {
        return Err("a trace is named by its file in the folder of traces");
    }
    let path = folder.map(|folder| Path::new(folder).join(file));
    Ok(path.filter(|path| path.is_file()))
}

/// How to read the sources.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What to read; several are overlaid by time.
    pub sources: Vec<Source>,
    /// Format and bad lines.
    pub options: OpenOptions,
    /// Requests at most.
    pub limit: Option<u64>,
    /// Seeds synthetic workloads.
    pub seed: u64,
    /// Arrivals kept in RAM at most; a trace with more is read again for every policy.
    pub kept_max: usize,
}

/// What was found in the sources beside requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The formats, in the order of the sources.
    pub formats: Vec<String>,
    /// Malformed lines that were skipped.
    pub bad_lines: u64,
    /// Requests whose time went back and was clamped.
    pub clamped: u64,
    /// Requests that grew to whole sectors.
    pub rounded: u64,
    /// Requests of a single synthetic workload before those that it is about.
    warm_up_requests: u64,
}

/// A trace, counted and ready to be replayed any number of times.
pub struct Loaded {
    /// Its name or names.
    pub name: String,
    /// Counts and footprint.
    pub survey: Survey,
    /// Formats and oddities.
    pub found: Found,
    kept: Option<Vec<Arrival>>,
    reading: Reading,
}

type Arrivals = Box<dyn Iterator<Item = Result<Arrival, TraceError>>>;

/// Passes a reader's arrivals on and leaves its summary behind when it is dropped.
struct Noting {
    reader: tandem_traces::TraceReader,
    found: Rc<RefCell<Found>>,
}

impl Iterator for Noting {
    type Item = Result<Arrival, TraceError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.reader.next()
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        let summary = self.reader.summary();
        let mut found = self.found.borrow_mut();
        found.bad_lines += summary.bad_lines;
        found.clamped += summary.clamped;
        found.rounded += summary.rounded;
    }
}

impl Reading {
    fn open_one(&self, source: &Source, found: &Rc<RefCell<Found>>) -> Result<Arrivals, Failure> {
        match source {
            Source::File(path) => {
                let reader = open(path, &self.options).map_err(|error| match error {
                    TraceError::UnknownFormat { .. } => Failure::usage(error),
                    other => Failure::from(other),
                })?;
                found.borrow_mut().formats.push(reader.format().name.to_owned());
                Ok(Box::new(Noting { reader, found: Rc::clone(found) }))
            }
            Source::Synth(spec) => {
                // the workload's settings are behind the second colon, as in `zipf:reads=10%`
                let arrivals = synth::build(spec, self.seed).map_err(Failure::usage)?;
                let mut found = found.borrow_mut();
                if self.sources.len() == 1 {
                    found.warm_up_requests = arrivals.warm_up_requests();
                }
                found.formats.push("synth".to_owned());
                Ok(Box::new(arrivals.map(Ok)))
            }
        }
    }

    fn open(&self, found: &Rc<RefCell<Found>>) -> Result<Arrivals, Failure> {
        let mut opened = Vec::new();
        for source in &self.sources {
            opened.push(self.open_one(source, found)?);
        }
        let arrivals: Arrivals = match opened.len() {
            1 => opened.remove(0),
            _ => Box::new(transform::merge(opened)),
        };
        Ok(match self.limit {
            Some(limit) => Box::new(transform::limit(arrivals, limit)),
            None => arrivals,
        })
    }

    /// Counts everything, and keeps it if it fits. `progress` is told every so many arrivals.
    ///
    /// # Errors
    /// What is wrong with a source, with file and line.
    pub fn load(self, mut progress: impl FnMut(u64)) -> Result<Loaded, Failure> {
        let found = Rc::new(RefCell::new(Found::default()));
        let mut survey = Survey::default();
        let mut kept = Some(Vec::new());
        let mut count = 0u64;
        for arrival in self.open(&found)? {
            let arrival = arrival?;
            survey.count(&arrival);
            count += 1;
            if count.is_multiple_of(1 << 16) {
                progress(count);
            }
            kept = kept.take().filter(|kept| kept.len() < self.kept_max);
            if let Some(kept) = &mut kept {
                kept.push(arrival);
            }
        }
        let names: Vec<String> = self.sources.iter().map(Source::name).collect();
        let found = found.borrow().clone();
        survey.warm_up_requests = found.warm_up_requests;
        Ok(Loaded { name: names.join(" + "), survey, found, kept, reading: self })
    }
}

impl Loaded {
    /// Is it in RAM, so that several runs may share it?
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Runs `replay` over all arrivals, at this speed.
    ///
    /// # Errors
    /// What `replay` answers, or trouble when the sources are read again.
    pub fn replay<T, E: Into<anyhow::Error>>(
        &self,
        speedup: Speedup,
        replay: impl FnOnce(&mut dyn Iterator<Item = Arrival>) -> Result<T, E>,
    ) -> Result<T, Failure> {
        let at_speed = |arrival: Arrival| Arrival { at: speedup.apply(arrival.at), ..arrival };
        if let Some(kept) = &self.kept {
            return Ok(replay(&mut kept.iter().copied().map(at_speed))?);
        }
        let found = Rc::new(RefCell::new(Found::default()));
        let mut arrivals = self.reading.open(&found)?;
        // read before without an error: one now means that the file has changed since
        let trouble = Cell::new(None);
        let result = replay(&mut std::iter::from_fn(|| match arrivals.next()? {
            Ok(arrival) => Some(at_speed(arrival)),
            Err(error) => {
                trouble.set(Some(error));
                None
            }
        }))?;
        match trouble.take() {
            None => Ok(result),
            Some(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(kept_max: usize, limit: Option<u64>) -> Loaded {
        let sources = vec![
            Source::parse("synth:uniform:requests=500"),
            Source::parse("synth:zipf:requests=300,read_share=30%"),
        ];
        let reading =
            Reading { sources, options: OpenOptions::default(), limit, seed: 1, kept_max };
        match reading.load(|_| {}) {
            Ok(loaded) => loaded,
            Err(failure) => panic!("{failure:?}"),
        }
    }

    fn arrivals(loaded: &Loaded, speedup: &str) -> Vec<Arrival> {
        let speedup = Speedup::parse(speedup).expect("a speed-up");
        let all = |arrivals: &mut dyn Iterator<Item = Arrival>| {
            Ok::<_, std::convert::Infallible>(arrivals.collect())
        };
        match loaded.replay(speedup, all) {
            Ok(arrivals) => arrivals,
            Err(failure) => panic!("{failure:?}"),
        }
    }

    /// What does not fit in RAM is read again, and is the same.
    #[test]
    fn kept_and_reread_arrivals_are_equal() {
        for limit in [None, Some(123)] {
            let (kept, reread) = (load(KEPT_MAX, limit), load(100, limit));
            assert!(kept.is_kept() && !reread.is_kept());
            assert_eq!(kept.survey, reread.survey);
            let want = arrivals(&kept, "3");
            assert_eq!(want.len() as u64, limit.unwrap_or(800));
            assert_eq!(arrivals(&reread, "3"), want);
            assert_eq!(arrivals(&reread, "3"), want, "any number of times");
        }
    }

    #[test]
    fn counts_are_the_traces_not_the_speedups() {
        let loaded = load(KEPT_MAX, None);
        let last = arrivals(&loaded, "1").last().expect("some").at.ns;
        assert_eq!(loaded.survey.duration_ns, last);
        assert_eq!(arrivals(&loaded, "4").last().expect("some").at.ns, last / 4);
    }
}
