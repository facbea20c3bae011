//! How fast is it, and is what was written read back? fio asks; this file spells its jobs and reads
//! its answers.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::process::{Command, Stdio};

/// A server that hangs must not hang the measurement too: `timeout` ends fio then, with status 124.
const MINUTES_MAX: &str = "60m";

/// One run of fio, made of `--name=value` words.
#[derive(Clone, Debug, Default)]
pub struct Fio {
    words: Vec<String>,
}

/// What one run told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Requests per second, of all jobs together.
    pub iops: u64,
    /// Bytes per second, of all jobs together.
    pub bytes_per_s: u64,
    /// Requests, of all jobs together.
    pub requests: u64,
    /// Mean nanoseconds from when fio sends a request until it has the answer.
    pub latency_ns: u64,
    /// Errors of all jobs.
    pub errors: u64,
}

impl Fio {
    /// A job of this name; options after it belong to it.
    #[must_use]
    pub fn job(mut self, name: &str) -> Fio {
        self.words.push(format!("--name={name}"));
        self
    }

    /// An option with its value.
    #[must_use]
    pub fn set(mut self, option: &str, value: impl std::fmt::Display) -> Fio {
        self.words.push(format!("--{option}={value}"));
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// If fio is not installed, fails, or reports an error of a job.
    pub fn run(&self) -> Result<Answer> {
        let output = Command::new("timeout")
            .args([MINUTES_MAX, "fio", "--output-format=json", "--group_reporting"])
            .args(&self.words)
            .current_dir(std::env::temp_dir()) // crash notes of its own go there
            .stdin(Stdio::null())
            .output()
            .context("starting fio (apt-get install fio)")?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("fio {} gave {}: {}", self.words.join(" "), output.status, brief(&said));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        // notes of an engine may stand before the document
        let json = text.find('{').map_or("", |at| &text[at..]);
        let answer = parse(json)?;
        if answer.errors > 0 {
            bail!("fio reports {} errors: {}", answer.errors, brief(&said));
        }
        Ok(answer)
    }
}

fn brief(text: &str) -> String {
    text.lines().filter(|line| !line.trim().is_empty()).take(3).collect::<Vec<_>>().join("; ")
}

fn parse(json: &str) -> Result<Answer> {
    let json: Value = serde_json::from_str(json).context("fio's JSON")?;
    let jobs = json["jobs"].as_array().context("fio's JSON has no jobs")?;
    let mut answer = Answer::default();
    let mut latency_sum_ns = 0.0;
    for job in jobs {
        for direction in ["read", "write"] {
            let of = &job[direction];
            answer.iops += of["iops"].as_f64().unwrap_or(0.0) as u64;
            answer.bytes_per_s += of["bw_bytes"].as_u64().unwrap_or(0);
            let requests = of["total_ios"].as_u64().unwrap_or(0);
            answer.requests += requests;
            latency_sum_ns += of["lat_ns"]["mean"].as_f64().unwrap_or(0.0) * requests as f64;
        }
        answer.errors += job["total_err"].as_u64().unwrap_or(0);
        answer.errors += u64::from(job["error"].as_u64().unwrap_or(0) != 0);
    }
    answer.latency_ns = (latency_sum_ns / answer.requests.max(1) as f64) as u64;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_errors_of_all_jobs_are_added() {
        let json = r#"{"jobs":[
            {"error":0,"total_err":0,"read":{"iops":1.9,"bw_bytes":4096,"total_ios":3,
                "lat_ns":{"mean":100.5}},"write":{"iops":2.0,"total_ios":1,"lat_ns":{"mean":300}}},
            {"error":5,"total_err":2,"read":{"iops":10},"write":{"bw_bytes":1}}]}"#;
        let wanted =
            Answer { iops: 13, bytes_per_s: 4097, requests: 4, latency_ns: 150, errors: 3 };
        assert_eq!(parse(json).unwrap(), wanted);
        assert!(parse("{}").is_err());
    }
}
