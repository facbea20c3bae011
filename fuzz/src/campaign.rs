//! How is one decoder tried, so that whatever happens the input is known afterwards?
//!
//! The decoder runs in a process of its own with bounded memory. Before each try the input is written
//! to a file; when the process panics, overflows its stack, runs out of memory or hangs, the file
//! still holds the input that did it.

use crate::mutate::{BYTES_MAX, mutate};
use crate::targets::Target;
use anyhow::{Context as _, Result, bail};
use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tandem_block::Rng;

/// Address space of the process that decodes.
const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// One try takes microseconds; a decoder that needs so long hangs.
const TRY_MAX: Duration = Duration::from_secs(10);
/// Inputs kept because they led to an answer not seen before.
const CORPUS_MAX: usize = 4096;
/// Number of the try and length of its input, before the input.
const HEAD_BYTES: usize = 16;
/// Tries between two looks at the clock.
const TRIES_PER_LOOK: u64 = 64;

/// What came out.
pub struct Outcome {
    /// Tries made.
    pub tries: u64,
    /// What happened and where the input lies, if it ended badly.
    pub failure: Option<(String, PathBuf)>,
}

/// Tries a target for so many milliseconds in a process of its own. The input of a failure goes into
/// `folder`.
///
/// # Errors
/// If the process cannot be started or watched.
pub fn run(target: &Target, millis: u64, seed: u64, folder: &Path) -> Result<Outcome> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let current = folder.join(format!(".{}.current", target.name));
    File::create(&current)?.write_all_at(&[0; HEAD_BYTES], 0)?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--child")
        .arg(&current)
        .args([&target.name, "--seconds", &millis.to_string(), "--seed", &seed.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .context("starting the process that decodes")?;
    let (mut last_try, mut since) = (0, Instant::now());
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break (!status.success()).then(|| format!("it ended with {status}"));
        }
        std::thread::sleep(Duration::from_millis(20));
        let (number, _) = read_current(&current)?;
        if number != last_try {
            (last_try, since) = (number, Instant::now());
        } else if since.elapsed() > TRY_MAX {
            child.kill()?;
            child.wait()?;
            break Some(format!("it hangs: no answer within {} s", TRY_MAX.as_secs()));
        }
    };
    let (tries, input) = read_current(&current)?;
    std::fs::remove_file(&current)?;
    let failure = match ended {
        None => None,
        Some(what) => {
            let name = format!("{}-{:016x}.bin", target.name, hash(&input));
            let path = folder.join(name);
            std::fs::write(&path, &input)?;
            Some((what, path))
        }
    };
    Ok(Outcome { tries, failure })
}

fn read_current(path: &Path) -> Result<(u64, Vec<u8>)> {
    let bytes = std::fs::read(path)?;
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
        bail!("{} is cut short", path.display());
    };
    let number = |part: &[u8]| u64::from_le_bytes(part.try_into().expect("eight bytes"));
    let length = (number(&head[8..]) as usize).min(rest.len());
    Ok((number(&head[..8]), rest[..length].to_vec()))
}

fn hash(what: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The answer without its numbers: two inputs with the same lead through the same code, roughly.
fn mark(answer: &Result<u64, String>) -> u64 {
    match answer {
        Ok(count) => hash(&(0, count.checked_ilog2())),
        Err(said) => {
            let words: String = said.chars().filter(|c| !c.is_ascii_digit()).take(200).collect();
            hash(&(1, words))
        }
    }
}

/// What the process does: tries inputs for so many milliseconds. The number of tries stays in
/// `current`.
///
/// # Errors
/// If the seeds cannot be read or `current` not be written.
///
/// # Panics
/// If the decoder does: that is what is looked for.
pub fn child(target: &Target, millis: u64, seed: u64, current: &Path) -> Result<()> {
    let limit = Some(MEMORY_BYTES_MAX);
    let limits = rustix::process::Rlimit { current: limit, maximum: limit };
    rustix::process::setrlimit(rustix::process::Resource::As, limits).context("limiting memory")?;
    let file = File::options().write(true).open(current)?;
    let mut frame = Vec::with_capacity(HEAD_BYTES + BYTES_MAX);
    let mut tries = 0u64;
    let mut attempt = |input: &[u8]| -> Result<Result<u64, String>> {
        tries += 1;
        frame.clear();
        frame.extend_from_slice(&tries.to_le_bytes());
        frame.extend_from_slice(&(input.len() as u64).to_le_bytes());
        frame.extend_from_slice(input);
        file.write_all_at(&frame, 0)?;
        Ok((target.run)(input))
    };
    let mut corpus = (target.seeds)()?;
    let mut marks = HashSet::new();
    for input in &corpus {
        let answer = attempt(input)?;
        if let Err(said) = &answer {
            bail!("{}: a sound input was refused, so little would be tried: {said}", target.name);
        }
        marks.insert(mark(&answer));
    }
    let mut rng = Rng::new(seed);
    let until = Instant::now() + Duration::from_millis(millis);
    while Instant::now() < until {
        for _ in 0..TRIES_PER_LOOK {
            let pick = |rng: &mut Rng| rng.below(corpus.len() as u64) as usize;
            let mut input = corpus[pick(&mut rng)].clone();
            let other = pick(&mut rng);
            mutate(&mut input, &corpus[other], &mut rng);
            let answer = attempt(&input)?;
            if corpus.len() < CORPUS_MAX && marks.insert(mark(&answer)) {
                corpus.push(input);
            }
        }
    }
    Ok(())
}
