//! What if a leg of a pair dies, and what if a new one takes its place?
//!
//! Source: requirements I13 to I18, B9. No request may fail while one leg lives that is not behind, and
//! what is flushed after a death survives a power cut on the other one alone. One that is behind says so.

use crate::campaign::MODES;
use crate::pool::SwarmConfig;
use crate::swarm::{Failure, Run};
use tandem_drives::media::CutMode;
use tandem_engine::StartError;
use tandem_engine::mirror::PairError;

/// Steps that a death may take to be noticed and made up for.
const PATIENCE: u64 = 1_000;
/// Steps in which the copying to a new leg must end.
const COPYING_STEPS_MAX: u64 = 200_000;

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deaths {
    /// Legs that died.
    pub deaths: u64,
    /// Power cuts after that, when the survivor had made up for it.
    pub cuts: u64,
}

/// Either leg dies at every event of the workload.
///
/// # Errors
/// The first violation.
pub fn deaths(config: SwarmConfig) -> Result<Deaths, Failure> {
    let mut run = Run::new(config)?;
    let mut found = Deaths::default();
    while run.step()? {
        for leg in 0..2 {
            let mut fork = run.clone();
            fork.lose_leg(leg);
            found.deaths += 1;
            for _ in 0..run.events % 40 {
                fork.step()?;
            }
            found.cuts += u64::from(cut_when_durable(fork.clone())?);
            fork.finish()?;
        }
    }
    run.finish()?;
    Ok(found)
}

/// The power fails on the survivor alone. A death that nobody noticed before that is two faults at
/// once, and so is one whose cache was not written to the survivor yet: false then.
fn cut_when_durable(mut run: Run) -> Result<bool, Failure> {
    run.flush_all()?;
    for _ in 0..PATIENCE {
        if !run.sim.engine.pairs()[0].exposed {
            break;
        }
        run.step()?;
    }
    let pair = run.sim.engine.pairs()[0];
    if pair.alive == [true; 2] || pair.exposed {
        return Ok(false);
    }
    run.crash(CutMode::RandomSubset, None)?;
    run.extend(20, 7);
    run.finish()?;
    Ok(true)
}

/// A leg dies, the pool goes on without it, and an empty drive takes its place: power cuts and deaths
/// while everything is copied to it, and then the other leg dies. Returns how many cuts.
///
/// # Errors
/// The first violation.
///
/// # Panics
/// If the copying does not end.
pub fn replacement(config: SwarmConfig, leg: u8, stride: u64) -> Result<u64, Failure> {
    let mut run = Run::new(config)?;
    while run.step()? {}
    run.lose_leg(leg);
    run.extend(30, 1);
    run.finish()?;
    run.replace_leg(leg);
    run.kill(None)?;
    run.leg_is_known();
    run.extend(200, 2);
    let mut cuts = 0;
    while run.step()? {
        if run.events.is_multiple_of(stride) {
            cuts += 1;
            let mut fork = run.clone();
            fork.crash(CutMode::RandomSubset, None)?;
            fork.extend(30, 3);
            fork.finish()?;
            // the new one dies while it is copied to
            let mut fork = run.clone();
            fork.lose_leg(leg);
            fork.finish()?;
        }
    }
    let is_copied = |run: &Run| run.sim.engine.pairs()[0].stale_bytes == [0, 0];
    run.extend(1_000_000, 4);
    for _ in 0..COPYING_STEPS_MAX {
        if is_copied(&run) {
            break;
        }
        run.step()?;
    }
    assert!(is_copied(&run), "the copying ends");
    run.flush_all()?;
    run.lose_leg(1 - leg);
    run.extend(50, 5);
    run.finish()?;
    Ok(cuts)
}

/// What was tried of survivors that lack something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Power cuts after a death, and the dead leg is back.
    pub returns: u64,
    /// Power cuts after a death, and the survivor starts alone.
    pub alone: u64,
    /// … and is refused, since it is behind
    pub refused: u64,
    /// Deaths of the leg that the other one was still copied from.
    pub copying: u64,
}

impl std::ops::AddAssign for Returns {
    fn add_assign(&mut self, other: Returns) {
        self.returns += other.returns;
        self.alone += other.alone;
        self.refused += other.refused;
        self.copying += other.copying;
    }
}

/// Either leg dies after every so many events, and some events later the power fails: with the dead one
/// back nothing is lost, and the survivor alone lacks nothing or says that it does.
///
/// # Errors
/// The first violation.
pub fn returns(mut run: Run, stride: u64) -> Result<Returns, Failure> {
    let mut found = Returns::default();
    while run.step()? {
        if !run.events.is_multiple_of(stride) {
            continue;
        }
        for leg in 0..2 {
            let mut fork = run.clone();
            fork.lose_leg(leg);
            for _ in 0..run.events % 60 {
                fork.step()?;
            }
            cut_both_ways(&fork, leg, &mut found)?;
        }
    }
    run.finish()?;
    Ok(found)
}

/// The power fails while one leg is dead.
fn cut_both_ways(run: &Run, dead: u8, found: &mut Returns) -> Result<(), Failure> {
    let mode = MODES[(run.events % 3) as usize];
    found.returns += 1;
    let mut fork = run.clone();
    fork.forbid_failures();
    fork.crash_and_return(dead, mode)?;
    fork.extend(20, 21);
    for _ in 0..run.events % 100 {
        fork.step()?;
    }
    // what was brought back is there to stay
    fork.crash(mode, None)?;
    fork.extend(8, 22);
    fork.finish()?;
    found.alone += 1;
    let view = run.sim.engine.pairs()[0];
    // a death that nobody noticed is not on record
    let is_whole = view.alive != [true; 2] && !view.exposed && view.stale_bytes == [0, 0];
    let mut fork = run.clone();
    fork.forbid_failures();
    match fork.crash(mode, None) {
        Err(Failure::Refused { error: StartError::Pair(PairError::Behind(_)), .. })
            if !is_whole =>
        {
            found.refused += 1;
            Ok(())
        }
        other => other.map(|_| ()),
    }
}

/// A leg is replaced, and while everything is copied to the new drive the other one dies, from which it
/// is copied. The new one goes on with what it has: a read of the rest is an error, never old data. With
/// the dead one back all is there, also what was written in between.
///
/// # Errors
/// The first violation.
pub fn death_of_the_source(mut run: Run, leg: u8, stride: u64) -> Result<Returns, Failure> {
    while run.step()? {}
    run.lose_leg(leg);
    run.extend(30, 31);
    run.finish()?;
    run.replace_leg(leg);
    run.kill(None)?;
    run.leg_is_known();
    run.extend(150, 32);
    let mut found = Returns::default();
    while run.step()? {
        if !run.events.is_multiple_of(stride) {
            continue;
        }
        found.copying += 1;
        let mut fork = run.clone();
        fork.lose_leg(1 - leg);
        fork.allow_failures();
        for event in 0..run.events % 200 {
            fork.step()?;
            if event % 16 == 15 {
                fork.write_and_read(run.events % 64)?;
            }
        }
        if (run.events / stride).is_multiple_of(2) {
            fork.flush_all()?;
        }
        cut_both_ways(&fork, 1 - leg, &mut found)?;
    }
    Ok(found)
}

/// What was tried with a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtOnce {
    /// Power cuts at the moment of a leg's death, or some events after it.
    pub cuts: u64,
    /// Power cuts, a start, and then a leg's death with another power cut, while the legs are made equal.
    pub resyncing: u64,
    /// Deaths of the journal, and a power cut then or later.
    pub journals: u64,
}

impl std::ops::AddAssign for AtOnce {
    fn add_assign(&mut self, other: AtOnce) {
        self.cuts += other.cuts;
        self.resyncing += other.resyncing;
        self.journals += other.journals;
    }
}

/// Power cuts together with the death of either leg, or of the journal, after every so many events:
/// what was flushed is there.
///
/// # Errors
/// The first violation.
pub fn at_once(mut run: Run, stride: u64) -> Result<AtOnce, Failure> {
    let mut found = AtOnce::default();
    while run.step()? {
        if !run.events.is_multiple_of(stride) {
            continue;
        }
        let nth = run.events / stride;
        let (mode, leg) = (MODES[(nth % 3) as usize], (nth / 3 % 2) as u8);
        found.cuts += 4;
        for which in 0..2 {
            die_and_cut(&run, which, 0, mode)?;
            die_and_cut(&run, which, 1 + run.events % 60, mode)?;
        }
        found.resyncing += 1;
        cut_and_die(&run, leg, mode)?;
        for later in [0, 1 + run.events % 60] {
            found.journals += 1;
            journal_dies(&run, later, mode)?;
        }
    }
    run.finish()?;
    Ok(found)
}

/// A leg dies, and so many events later the power fails.
fn die_and_cut(run: &Run, leg: u8, later: u64, mode: CutMode) -> Result<(), Failure> {
    let mut fork = run.clone();
    fork.lose_leg(leg);
    for _ in 0..later {
        fork.step()?;
    }
    fork.crash(mode, None)?;
    fork.extend(8, 11);
    for _ in 0..run.events % 50 {
        fork.step()?;
    }
    // the survivor alone, once more
    fork.crash(mode, None)?;
    if run.events.is_multiple_of(16) {
        fork.extend(20, 12);
        fork.finish()?;
    }
    Ok(())
}

/// The power fails, and a leg dies with it again before the legs were made equal.
fn cut_and_die(run: &Run, leg: u8, mode: CutMode) -> Result<(), Failure> {
    let mut fork = run.clone();
    fork.crash(mode, None)?;
    fork.extend(12, 13);
    for _ in 0..run.events % 40 {
        fork.step()?;
    }
    // it is noticed, or it is not
    fork.lose_leg(leg);
    for _ in 0..run.events % 3 * 20 {
        fork.step()?;
    }
    fork.crash(mode, None)?;
    fork.extend(12, 14);
    fork.finish()
}

/// The journal dies, and the pair is what it is without one.
fn journal_dies(run: &Run, later: u64, mode: CutMode) -> Result<(), Failure> {
    let mut fork = run.clone();
    fork.lose_journal();
    for _ in 0..later {
        fork.step()?;
    }
    if run.events.is_multiple_of(4) {
        fork.finish()?;
        return Ok(());
    }
    fork.crash(mode, None)?;
    fork.extend(20, 15);
    fork.finish()
}
