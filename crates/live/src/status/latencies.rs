//! How long do requests take? In the report of a replay as in the status of a server.

use serde::{Deserialize, Serialize};
use tandem_engine::stats::recorder::{self, Recorder, Staged};

/// Requests since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latencies {
    pub read: StagedLatency,
    pub write: StagedLatency,
    pub flush: StagedLatency,
    pub write_to: WriteTo,
    pub read_from: ReadFrom,
}

impl From<&Recorder> for Latencies {
    fn from(recorded: &Recorder) -> Latencies {
        Latencies {
            read: (&recorded.read).into(),
            write: (&recorded.write).into(),
            flush: (&recorded.flush).into(),
            write_to: recorded.into(),
            read_from: recorded.into(),
        }
    }
}

/// How some requests fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    pub count: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub p9999_ns: u64,
    pub max_ns: u64,
}

impl From<&recorder::Latencies> for Latency {
    fn from(of: &recorder::Latencies) -> Latency {
        Latency {
            count: of.count(),
            mean_ns: of.mean_ns(),
            p50_ns: of.percentile_ns(5_000),
            p90_ns: of.percentile_ns(9_000),
            p95_ns: of.percentile_ns(9_500),
            p99_ns: of.percentile_ns(9_900),
            p999_ns: of.percentile_ns(9_990),
            p9999_ns: of.percentile_ns(9_999),
            max_ns: of.max_ns(),
        }
    }
}

/// … with its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StagedLatency {
    #[serde(flatten)]
    pub total: Latency,
    pub stages: Stages,
}

/// Before the first command of a request, and from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stages {
    pub wait: Latency,
    pub device: Latency,
}

impl From<&Staged> for StagedLatency {
    fn from(of: &Staged) -> StagedLatency {
        let stages = Stages { wait: (&of.wait).into(), device: (&of.device).into() };
        StagedLatency { total: (&of.total).into(), stages }
    }
}

/// Writes by where they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteTo {
    pub ssd: Latency,
    pub hdd_log: Latency,
}

impl From<&Recorder> for WriteTo {
    fn from(recorded: &Recorder) -> WriteTo {
        let [ssd, hdd_log] = recorded.write_to.each_ref().map(Latency::from);
        WriteTo { ssd, hdd_log }
    }
}

/// Reads by what answered them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadFrom {
    pub ram: Latency,
    pub ssd: Latency,
    pub ssd_copy: Latency,
    pub hdd_log: Latency,
    pub hdd_home: Latency,
}

impl From<&Recorder> for ReadFrom {
    fn from(recorded: &Recorder) -> ReadFrom {
        let [ram, ssd, ssd_copy, hdd_log, hdd_home] =
            recorded.read_from.each_ref().map(Latency::from);
        ReadFrom { ram, ssd, ssd_copy, hdd_log, hdd_home }
    }
}
