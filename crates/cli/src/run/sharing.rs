//! What is a case of several clients on one SSD, or on a pair?
//!
//! Fields of a result are told in experiments/README.md.

mod told;

use super::values::{bytes, does, request_bytes, time};
use super::{file, traces};
use crate::failure::said;
use crate::policy;
use crate::rate;
use crate::replay::arguments::choices;
use crate::toml_fault::Fault;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use tandem_block::{Duration, Quantity};
use tandem_drives::SsdState;
use tandem_drives::spec::{self, ModelSpec, Sourced};
use tandem_engine::SteerConfig;
use tandem_engine::mirror::{Answer, Idle, PairConfig, RoleRule};
use tandem_engine::profile::throughput::BIN_NS;
use tandem_engine::qos;
use tandem_engine::qos::cost::CostTable;
use tandem_engine::qos::reserve::CONFIDENCE_PPM;
use tandem_sim::sharing::{
    self, Arrives, CACHE_PERIODS, ClientSpec, PairOf, Prepared, SharingConfig, Target,
};
use tandem_traces::spell;
use toml::Spanned;

/// How long each row of the drive's costs is measured.
const ROW: Duration = Duration::from_s(120);

/// Everything but the order with the requests of traces, the drives, and what their requests cost.
struct Ready {
    config: SharingConfig,
    prepared: Mutex<Prepared>,
    costs: Arc<CostTable>,
}

/// Clients on one SSD or a pair, under each order of service.
pub struct Sharing {
    /// Everything but the order.
    pub config: SharingConfig,
    /// The orders.
    pub orders: Vec<String>,
    /// Why it cannot be run here, if so: its traces are not part of the project.
    pub skipped: Option<String>,
    /// Every order is served as this one, where it is a null that runs.
    served_as: Option<&'static str>,
    /// What requests cost is what they cost on one drive, also where there are two.
    profiled_alone: bool,
    /// Of each client: whose requests it has.
    traces: Vec<Option<PathBuf>>,
    ready: OnceLock<Result<Ready, String>>,
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = f.debug_struct("Sharing");
        all.field("config", &self.config).field("traces", &self.traces);
        all.field("skipped", &self.skipped).field("profiled_alone", &self.profiled_alone);
        all.finish_non_exhaustive()
    }
}

/// Reads a case.
pub(super) fn case(file: &file::Case) -> Result<Sharing, Fault> {
    let wrong = |text: &str| Fault::at(&file.name, text);
    let [ssd] = file.ssd.as_slice() else { return Err(wrong("clients share one ssd")) };
    let mut spec = spec::load(ssd).map_err(|error| wrong(&error.to_string()))?;
    if let Some(size) = &file.size {
        let fault = |why: String| Fault::at(size, why);
        let bytes = bytes(size)?;
        spec = spec.with_capacity_bytes(bytes).map_err(|why| fault(why.to_string()))?;
    }
    let ModelSpec::Ssd(model) = &mut spec.model else { return Err(wrong("clients share one ssd")) };
    if let Some((high_lines, gap_pages)) = file.gc_cluster {
        model.gc.high_lines = Sourced::of(high_lines, "fitted: the experiment");
        model.gc.gap_pages = Sourced::of(gap_pages, "fitted: the experiment");
    }
    let state = match file.ssd_state.as_deref() {
        None => SsdState::Steady,
        Some(name) => name.parse().map_err(|why: String| wrong(&why))?,
    };
    let time_or =
        |given: &Option<Spanned<String>>, usual: Duration| given.as_ref().map_or(Ok(usual), time);
    let (clients, found) = clients(file)?;
    let orders = orders(file)?;
    let hdds = choices(&file.hdd, None, "--hdd").map_err(|failure| wrong(&said(failure)))?;
    let steer = match &file.policy {
        None => SteerConfig::default(),
        Some(name) => policy::parse("--policy", name.get_ref())
            .map_err(|failure| Fault::at(name, said(failure)))?,
    };
    if let Some(why) = steer.entry().and_then(|known| known.lacks(1, hdds.len())) {
        return Err(wrong(&why));
    }
    let config = SharingConfig {
        spec,
        pair: file.pair.as_ref().map(|entry| pair(entry.get_ref())).transpose()?,
        hdds,
        steer,
        state,
        age_bytes: match &file.age {
            None => (0, 0),
            Some((all, range)) => (bytes(all)?, bytes(range)?),
        },
        fill_bytes: file.fill.as_ref().map(bytes).transpose()?.unwrap_or(0),
        warm_up: time_or(&file.warm_up, Duration::from_s(5))?,
        duration: time_or(&file.duration, Duration::from_s(60))?,
        clients,
        order: String::new(),
        window: time_or(&file.window, Duration::from_s(10))?,
        confidence_ppm: file.confidence_percent.map_or(Ok(CONFIDENCE_PPM), |percent| {
            let ppm = (percent * 10_000.0).round();
            let sound = (1.0..=1e6).contains(&ppm);
            if sound { Ok(ppm as u32) } else { Err(wrong("a confidence is above 0 and up to 100")) }
        })?,
        seed: file.seed.unwrap_or(1),
    };
    if config.duration.ns < 10 * BIN_NS {
        return Err(wrong("a case lasts a second at least"));
    }
    let traces::Found { paths, skipped } = found;
    Ok(Sharing {
        config,
        orders,
        skipped,
        served_as: None,
        profiled_alone: false,
        traces: paths,
        ready: OnceLock::new(),
    })
}

fn clients(file: &file::Case) -> Result<(Vec<ClientSpec>, traces::Found), Fault> {
    if file.stream.is_empty() {
        return Err(Fault::at(&file.name, "clients share the drive: a case needs [[case.stream]]"));
    }
    let mut clients: Vec<ClientSpec> = Vec::new();
    let mut found = traces::Found::default();
    for entry in &file.stream {
        let client = client(entry.get_ref())?;
        found.look(entry.get_ref().trace.as_ref())?;
        if clients.iter().any(|known| known.name == client.name) {
            return Err(Fault::at(entry, format!("there are two streams {:?}", client.name)));
        }
        clients.push(client);
    }
    Ok((clients, found))
}

fn orders(file: &file::Case) -> Result<Vec<String>, Fault> {
    let orders = file.orders.clone().unwrap_or_else(|| vec!["edf".into()]);
    for order in &orders {
        if qos::named(order).is_none() {
            let nearest = spell::nearest(order, qos::ORDERS.iter().map(|known| known.name));
            let text = format!("there is no order {order:?}; did you mean {nearest:?}?");
            return Err(Fault::at(&file.name, text));
        }
    }
    Ok(orders)
}

fn pair(file: &file::Pair) -> Result<PairOf, Fault> {
    let usual = PairConfig::default();
    let period = file.period.as_ref().map(time).transpose()?.unwrap_or(usual.period);
    let idle = match &file.idle {
        None => usual.idle,
        Some(text) if text.get_ref() == "adaptive" => {
            Idle::Adaptive(Duration::from_ns(period.ns / 4))
        }
        Some(text) => {
            let idle = time(text)?;
            if idle.ns > period.ns / 2 {
                return Err(Fault::at(text, "at most half of the period is without writes"));
            }
            Idle::Fixed(idle)
        }
    };
    // as in the paper, unless the case says otherwise
    let answer = match file.answer.as_ref().map(|text| (text, text.get_ref().as_str())) {
        None | Some((_, "cached")) => Answer::Cached,
        Some((_, "written")) => Answer::Written,
        Some((text, _)) => return Err(Fault::at(text, "an answer is \"cached\" or \"written\"")),
    };
    let role_rule = match file.roles.as_ref().map(|text| (text, text.get_ref().as_str())) {
        None | Some((_, "change")) => RoleRule::Alternate,
        Some((_, "none")) => RoleRule::Alike,
        Some((text, _)) => return Err(Fault::at(text, "roles are \"change\" or \"none\"")),
    };
    Ok(PairOf {
        role_rule,
        period,
        idle,
        settles: file.settles.unwrap_or(usual.settles),
        answer,
        cache_periods: file.cache_periods.unwrap_or(CACHE_PERIODS).clamp(1, 16),
        absent: file.absent.map(|leg| leg.min(1)),
    })
}

/// A field of the stream that only a drive alone has.
fn of_a_drive_alone(file: &file::Stream) -> Option<&'static str> {
    let fields = [
        ("requests", file.requests.is_some()),
        ("think", file.think.is_some()),
        ("step", file.step.is_some()),
        ("reads", file.reads.is_some()),
        ("sequential", file.sequential.is_some()),
        ("local", file.local.is_some()),
        ("near", file.near.is_some()),
    ];
    fields.into_iter().find(|(_, is_there)| *is_there).map(|(name, _)| name)
}

fn client(file: &file::Stream) -> Result<ClientSpec, Fault> {
    if let Some(field) = of_a_drive_alone(file) {
        let text = format!("`{field}` belongs to a stream of kind = \"drive\"");
        return Err(Fault::at(&file.name, text));
    }
    let kind = does(&file.does, &[])?.expect("there is no other word");
    let size_bytes = match (&file.size, &file.trace) {
        (Some(size), None) => request_bytes(size)?,
        // until the trace was read
        (None, Some(_)) => 4096,
        _ => return Err(Fault::at(&file.name, "a stream has either a size or a trace")),
    };
    let arrives = match (&file.every, file.burst) {
        (None, None) => None,
        (Some(every), burst) => {
            let time = time(every)?;
            if time == Duration::ZERO {
                return Err(Fault::at(every, "some time passes between requests"));
            }
            let burst = burst.unwrap_or(1).clamp(1, 4096);
            Some(Arrives { every: time, burst })
        }
        (None, Some(_)) => return Err(Fault::at(&file.name, "a burst needs `every`")),
    };
    let target = match &file.target {
        None => None,
        Some(text) => Some(match text.get_ref().ends_with('%') {
            true => Quantity::Share
                .within(text.get_ref(), 1..=1_000_000)
                .map(Target::SharePpm)
                .map_err(|why| Fault::at(text, why))?,
            false => Target::Rate(rate::parse(text.get_ref()).map_err(|why| Fault::at(text, why))?),
        }),
    };
    let limit = file
        .limit
        .as_ref()
        .map(|text| rate::parse(text.get_ref()).map_err(|why| Fault::at(text, why)));
    Ok(ClientSpec {
        name: file.name.get_ref().clone(),
        kind,
        size_bytes,
        from_bytes: file.from.as_ref().map(bytes).transpose()?.unwrap_or(0),
        range_bytes: file.range.as_ref().map(bytes).transpose()?.unwrap_or(0),
        outstanding: file.outstanding.unwrap_or(31).clamp(1, 4096),
        arrives,
        think: Duration::from_ns(0),
        recorded: None,
        fua: file.fua,
        target,
        weight: file.weight,
        limit: limit.transpose()?,
    })
}

impl Sharing {
    /// The same case. Its drives are prepared anew, if it runs.
    pub fn again(&self) -> Sharing {
        Sharing {
            config: self.config.clone(),
            orders: self.orders.clone(),
            skipped: self.skipped.clone(),
            served_as: self.served_as,
            profiled_alone: self.profiled_alone,
            traces: self.traces.clone(),
            ready: OnceLock::new(),
        }
    }

    /// The same clients where nobody is protected: one drive, which serves whoever comes first and takes
    /// every write.
    pub fn unprotected(&self) -> Sharing {
        let mut case = self.again();
        case.config.pair = None;
        case.config.steer = SteerConfig::named("ssd-first");
        case.served_as = Some("fifo");
        case
    }

    /// The same clients where both drives of a pair are written and either is read, so that nothing keeps
    /// reads from writes. Shares are of one drive, as they are of a pair that has one for reads.
    pub fn both_legs(&self) -> Sharing {
        let mut case = self.unprotected();
        // legs without roles never rest or settle: equal runs are done once
        let usual = PairConfig::default();
        case.config.pair = self.config.pair.map(|pair| PairOf {
            role_rule: RoleRule::Alike,
            answer: Answer::Written,
            idle: usual.idle,
            settles: usual.settles,
            ..pair
        });
        case.profiled_alone = case.config.pair.is_some();
        case
    }

    /// The order in which clients are served, where the file says this one.
    pub fn served<'a>(&self, order: &'a str) -> &'a str {
        self.served_as.unwrap_or(order)
    }

    /// The drives and what their requests cost, made once for all orders.
    fn ready(&self) -> Result<&Ready, String> {
        let ready = self.ready.get_or_init(|| {
            let mut config = self.config.clone();
            traces::read(&self.traces, &mut config.clients)?;
            let prepared = sharing::prepare(&config).map_err(|why| why.to_string())?;
            let plan = sharing::plan(&config, ROW);
            let pair = config.pair.filter(|_| !self.profiled_alone);
            let profiled = SharingConfig { pair, ..config.clone() };
            let costs = sharing::costs(&profiled, &prepared, &plan);
            let costs = costs.map_err(|why| why.to_string())?;
            Ok(Ready { config, prepared: Mutex::new(prepared), costs: Arc::new(costs) })
        });
        ready.as_ref().map_err(Clone::clone)
    }

    /// Runs it under one order.
    ///
    /// # Errors
    /// If the drives cannot be built, or a trace cannot be read.
    pub fn run(&self, order: &str) -> Result<Value, String> {
        if let Some(why) = &self.skipped {
            return Err(why.clone());
        }
        let Ready { config, prepared, costs } = self.ready()?;
        let config = SharingConfig { order: self.served(order).to_owned(), ..config.clone() };
        let prepared = prepared.lock().map_err(|why| why.to_string())?.fork();
        let result = sharing::run(&config, &prepared, costs).map_err(|why| why.to_string())?;
        Ok(told::told(&result, &config, sharing::refused(&config, costs)))
    }

    /// A result of nothing, with every field that one has.
    pub fn schema(&self) -> Value {
        told::told(&told::nothing(&self.config), &self.config, None)
    }
}
