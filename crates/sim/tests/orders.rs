//! Does any order of service keep the promise of durability, and does it keep going?
//!
//! Source: design decision 5 (any combination runs). Four streams, with promises, a weight and a
//! limit, over pools in which everything happens; the swarm's arm `shared` does the same at every
//! event.

use tandem_block::{DeviceId, DurabilityClass, Duration};
use tandem_engine::Engine;
use tandem_engine::qos::ORDERS;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::Met;
use tandem_sim::swarm::{Run, SwarmConfig};

fn sampled() -> Campaign {
    Campaign { window: ALWAYS, stride: 13, recovery_stride: 30, lives: 2, more_requests: 40 }
}

#[test]
fn no_order_loses_anything() {
    for (turn, order) in ORDERS.iter().enumerate().skip(1) {
        for policy in ["ssd-first", "mios-d", "mios-e", "ect"] {
            let mut config = SwarmConfig::tiny(70 + turn as u64, policy, 120);
            config.tuning.order = order.name;
            let run = Run::new(config).expect("a pool");
            let met = sampled().run(run);
            let met = met.unwrap_or_else(|why| panic!("{} {policy}: {why}", order.name));
            assert!(met.get(Met::Crashes) > 60, "{} {policy}: {met}", order.name);
        }
    }
}

/// Full SSDs and logs: writes wait for space, and what makes it goes on, whatever the order.
#[test]
fn no_order_starves_what_makes_room() {
    for (turn, order) in ORDERS.iter().enumerate().skip(1) {
        for policy in ["ssd-first", "mios-e"] {
            let mut config = SwarmConfig::crowded(80 + turn as u64, policy, 300);
            config.tuning.order = order.name;
            let run = Run::new(config).expect("a pool");
            let campaign = Campaign { window: (600, 700), stride: 9, ..sampled() };
            let met = campaign.run(run);
            let met = met.unwrap_or_else(|why| panic!("{} {policy}: {why}", order.name));
            assert!(met.get(Met::BlocksHome) > 0, "{} {policy}: {met}", order.name);
        }
    }
}

/// The same without any failure of power: every request is answered, strict volumes and pauses too.
#[test]
fn every_request_is_answered() {
    for order in &ORDERS[1..] {
        for (seed, durability) in [(1, DurabilityClass::Strict), (2, DurabilityClass::Journaled)] {
            let mut config = SwarmConfig::tiny(seed, "mios-e", 400);
            (config.tuning.order, config.durability) = (order.name, durability);
            config.shape.depth = 8;
            config.shape.pause = Duration::from_us(40);
            let mut run = Run::new(config).expect("a pool");
            while run.step().unwrap_or_else(|why| panic!("{}: {why}", order.name)) {}
            let now = run.sim.now;
            let clients = run.sim.engine.clients(now).expect("streams are told apart");
            assert_eq!(clients.len(), 4);
            let answered: u64 = clients.iter().map(|client| client.delivery.requests).sum();
            assert!(answered > 300, "{}: {answered}", order.name);
            run.finish().unwrap_or_else(|why| panic!("{}: {why}", order.name));
        }
    }
}

/// Seen: where every SSD was gone, streams with a limit were a panic. Any order is as good as the first one there.
#[test]
fn streams_may_be_told_apart_where_no_ssd_is_left() {
    for format in [true, false] {
        let made = |order: &'static str| {
            let mut config = SwarmConfig::tiny(1, "ssd-first", 0);
            config.drives = (2, 2);
            config.tuning.order = order;
            let mut engine = config.engine(format);
            engine.gone = vec![DeviceId(0), DeviceId(1)];
            engine.qos.streams.iter_mut().for_each(|stream| stream.promise = None);
            Engine::new(engine).map(|_| ())
        };
        for order in &ORDERS[1..] {
            assert_eq!(made(order.name), made(ORDERS[0].name), "{} {format}", order.name);
            assert!(format || made(order.name).is_ok(), "{}", order.name);
        }
    }
}
