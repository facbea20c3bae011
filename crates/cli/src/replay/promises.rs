//! What does `tandem replay` promise to whom? `--qos`, `--stream`, `--overcommit`.
//!
//! Source: requirements I7. A stream is a volume of the trace: `NAME:reservation=250/s,window=1s`, with
//! the settings of a pool's `[[stream]]`. What is promised has to fit the SSDs, whose costs are measured
//! on their models.

use super::Arguments;
use crate::config::promise::{self, order_named};
use crate::failure::Failure;
use tandem_engine::Role;
use tandem_engine::qos::ORDERS;
use tandem_engine::qos::admit::{self, Side};
use tandem_engine::qos::reserve::{QosConfig, Selector, StreamConfig};
use tandem_sim::replay::{Plan, ReplayConfig, costs};
use tandem_traces::spell;

use tandem_block::{DeviceId, ObjectId};

/// Settings of a stream.
const SETTINGS: [&str; 7] =
    ["reservation", "size", "window", "does", "confidence", "weight", "limit"];
/// More streams than this are a slip.
const STREAMS_MAX: usize = 4096;

/// What the command line asks for, before there is a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Volumes and their settings.
    streams: Vec<(String, promise::Words)>,
    order: Option<&'static str>,
    overcommit: bool,
}

impl Wanted {
    /// Reads the words.
    ///
    /// # Errors
    /// What is wrong, and what would do.
    pub fn of(arguments: &Arguments) -> Result<Wanted, Failure> {
        let order = arguments.qos.as_deref().map(order_named).transpose();
        let order = order.map_err(|why| Failure::usage(format!("--qos: {why}")))?;
        let mut streams: Vec<(String, promise::Words)> = Vec::new();
        for text in &arguments.stream {
            let (name, words) =
                stream(text).map_err(|why| Failure::usage(format!("--stream {text}: {why}")))?;
            if streams.iter().any(|(known, _)| *known == name) {
                let text = format!("--stream: volume {name:?} is named twice");
                return Err(Failure::usage(text));
            }
            streams.push((name, words));
        }
        if streams.len() > STREAMS_MAX {
            return Err(Failure::usage(format!("--stream: at most {STREAMS_MAX} of them")));
        }
        if arguments.overcommit && streams.is_empty() {
            return Err(Failure::usage("--overcommit: nothing is promised; name a --stream"));
        }
        Ok(Wanted { streams, order, overcommit: arguments.overcommit })
    }

    /// Is anybody told apart, or served in another order?
    pub fn is_usual(&self) -> bool {
        self.streams.is_empty() && self.order.is_none()
    }

    /// What the engine is told for the volumes of a planned trace.
    ///
    /// # Errors
    /// A volume that the trace does not have, or a promise that does not fit.
    pub fn config(&self, config: &ReplayConfig, plan: &Plan) -> Result<QosConfig, Failure> {
        let wrong = |text: String| Failure::usage(format!("--stream: {text}"));
        let mut qos = QosConfig { overcommit: self.overcommit, ..QosConfig::default() };
        for (name, words) in &self.streams {
            let of = Selector::Volume(volume(name, plan).map_err(wrong)?);
            let shares = words.shares(name).map_err(wrong)?;
            qos.streams.push(StreamConfig { of, ..shares });
        }
        let usual = if qos.streams.is_empty() { ORDERS[0].name } else { "edf" };
        qos.order = self.order.unwrap_or(usual).into();
        if qos.promises() {
            if !plan.drives.iter().any(|drive| drive.role == Role::Ssd) {
                return Err(wrong("throughput is promised on SSDs: name an --ssd".into()));
            }
            crate::stderr::note("note: measuring what requests cost on the SSDs");
            qos.costs = costs(config, plan, &qos).map_err(anyhow::Error::from)?;
            for (id, drive) in plan.drives.iter().enumerate() {
                if drive.role == Role::Ssd {
                    admit::asked(&qos, DeviceId(id as u8), Side::All)
                        .map_err(|why| wrong(why.to_string()))?;
                }
            }
        }
        Ok(qos)
    }
}

/// The volume of this name.
fn volume(name: &str, plan: &Plan) -> Result<ObjectId, String> {
    let volumes = &plan.engine().volumes;
    let found = volumes.iter().find(|volume| volume.name == name);
    found.map(|volume| volume.object).ok_or_else(|| {
        let names = || volumes.iter().map(|volume| volume.name.as_str());
        let nearest = spell::nearest(name, names());
        let some: Vec<&str> = names().take(20).collect();
        let more = if volumes.len() > some.len() { ", …" } else { "" };
        let some = some.join(", ");
        format!(
            "the trace has no volume {name:?}; did you mean {nearest:?}? Its volumes are {some}{more}"
        )
    })
}

/// `NAME:setting=value,…`.
fn stream(text: &str) -> Result<(String, promise::Words), String> {
    let settings = SETTINGS.join(", ");
    let Some((name, rest)) = text.split_once(':') else {
        return Err(format!("it is VOLUME:SETTING=VALUE,...; the settings are {settings}"));
    };
    let mut words = promise::Words::default();
    for piece in rest.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        let Some((setting, value)) = piece.split_once('=') else {
            return Err(format!("{piece:?} is not of the form setting=value"));
        };
        let value = value.trim();
        let place = match setting.trim() {
            "reservation" => &mut words.reservation,
            "size" => &mut words.size,
            "window" => &mut words.window,
            "does" => &mut words.does,
            "confidence" => &mut words.confidence,
            "weight" => &mut words.weight,
            "limit" => &mut words.limit,
            unknown => {
                let nearest = spell::nearest(unknown, SETTINGS);
                return Err(format!("there is no setting {unknown:?}; did you mean {nearest:?}?"));
            }
        };
        if place.replace(value.to_owned()).is_some() {
            return Err(format!("{setting} is set twice"));
        }
    }
    let name = name.trim().to_owned();
    // so that slips are told before a trace is read
    words.shares(&name)?;
    Ok((name, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Duration;
    use tandem_engine::qos::reserve::{Does, Rate};

    fn told(text: &str) -> Result<StreamConfig, String> {
        stream(text).and_then(|(name, words)| words.shares(&name))
    }

    #[test]
    fn a_stream_has_the_settings_of_a_pools() {
        let text = "3:reservation=250/s,window=1s,size=64KiB,does=random-read,confidence=99.5%,weight=7,\
                    limit=100MB/s";
        let stream = told(text).expect(text);
        let promise = stream.promise.expect("it is promised something");
        assert_eq!((promise.rate, promise.does), (Rate::Requests(250), Does::Read));
        assert_eq!((promise.window, promise.size_bytes), (Duration::from_s(1), 64 << 10));
        assert_eq!((promise.confidence_ppm, promise.sequential), (995_000, false));
        assert_eq!((stream.name.as_str(), stream.weight), ("3", Some(7)));
        assert_eq!(stream.limit, Some(Rate::Bytes(100_000_000)));
        assert_eq!(told("0:weight=3").expect("a weight alone").promise, None);
    }

    #[test]
    fn slips_are_told_with_what_would_do() {
        for (text, part) in [
            ("0", "VOLUME:SETTING=VALUE"),
            ("0:", "a reservation, a weight or a limit"),
            ("0:weight", "setting=value"),
            ("0:wieght=3", "did you mean \"weight\""),
            ("0:weight=0", "a weight is 1 to"),
            ("0:weight=many", "a weight is 1 to"),
            ("0:weight=1,weight=2", "set twice"),
            ("0:reservation=fast", "250/s"),
            ("0:reservation=250/s,window=1ns", "a window is"),
            ("0:reservation=250/s,confidence=0", "a confidence is"),
            ("0:reservation=250/s,does=reads", "did you mean"),
            ("0:window=1s,weight=1", "belong to a reservation"),
            ("0:reservation=250/s,limit=20/s", "below what is reserved"),
        ] {
            let why = told(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
