//! TLS on a connection. When does it begin, and how do its bytes reach the session?

use super::super::access::peer;
use super::super::hub::{BUFFER_BYTES, Hub};
use super::super::tls::{Opened, Records};
use super::Connection;
use tandem_live::front::FrontContext;

impl Connection {
    /// The client wants TLS, and was told that it comes.
    pub(super) fn start_tls(&mut self, hub: &mut Hub, context: &FrontContext<'_>) -> bool {
        let (Some(server), Some(buffer)) = (&self.tls, &mut self.buffer) else {
            unreachable!("it is offered where there are certificates");
        };
        // whatever came behind the option is taken for TLS, so nobody can slip in plain words
        match Records::new(server, &buffer.bytes_mut(self.start..self.end)[..]) {
            Ok(records) => self.outbox.records = Some(Box::new(records)),
            Err(why) => self.turn_away(&why, hub, context),
        }
        (self.start, self.end) = (0, 0);
        true
    }

    /// The session has to hear more: true if there is more, or it has to be received.
    pub(in super::super) fn needs_more(
        &mut self,
        hub: &mut Hub,
        context: &FrontContext<'_>,
    ) -> bool {
        if self.outbox.records.is_none() {
            self.wants_receive = true;
            return false;
        }
        self.large = false;
        let length = self.make_room();
        let (Some(records), Some(buffer)) = (&mut self.outbox.records, &mut self.buffer) else {
            return false;
        };
        assert!(
            length > 0 && self.end + length <= BUFFER_BYTES,
            "a message is less than the buffer"
        );
        let opened = records.open(buffer.bytes_mut(self.end..self.end + length));
        let greeted = records.is_greeted().then(|| records.names());
        self.outbox.flush_records();
        if let Some(names) = greeted {
            let offered = hub.clients.offered(&names, self.session.exports());
            if offered.is_empty() && !self.session.exports().is_empty() {
                let who = names.join(", ");
                let what =
                    format!("{}: no [[client]] is called {who:?}; it may use nothing", self.told());
                hub.refusals.warn(context.now, what);
            }
            self.session.secured(offered);
        }
        match opened {
            Ok(Opened::Bytes(count)) => {
                self.end += count;
                return true;
            }
            Ok(Opened::Nothing) => self.wants_receive = true,
            Ok(Opened::Ended) => self.closing = true,
            Err(why) => self.turn_away(&why, hub, context),
        }
        false
    }

    fn turn_away(&mut self, why: &str, hub: &mut Hub, context: &FrontContext<'_>) {
        self.closing = true;
        let what = format!("{}: TLS failed: {why}", self.told());
        hub.refusals.warn(context.now, what);
    }

    /// What a person calls this client.
    fn told(&self) -> String {
        peer(&self.socket).map_or("an NBD client".into(), |peer| format!("NBD client {peer}"))
    }
}
