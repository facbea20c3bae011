//! How are sockets written down? As an address, or as a table with who may use it.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A text, or a table of which the text is one value.
trait TextOrTable: Sized {
    type Table: DeserializeOwned;
    const EXPECTING: &'static str;
    fn of_text(text: &str) -> Self;
    fn of_table(table: Self::Table) -> Self;
}

struct Either<T>(PhantomData<T>);

impl<'de, T: TextOrTable> Visitor<'de> for Either<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTING)
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::of_text(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::Table::deserialize(MapAccessDeserializer::new(map)).map(T::of_table)
    }
}

/// `"unix:tandem.sock"`, or `{ listen = "0.0.0.0:10809", tls = "require", … }`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct ListenTable {
    pub listen: String,
    pub tls: Option<String>,
    pub allow: Option<Vec<String>>,
    pub mode: Option<String>,
    pub group: Option<String>,
}

/// One socket of NBD.
#[derive(Debug)]
pub(in super::super) struct Listen(pub ListenTable);

impl TextOrTable for Listen {
    type Table = ListenTable;
    const EXPECTING: &'static str = "an address such as \"unix:tandem.sock\", or a table such as { listen = \"unix:tandem.sock\", mode = \"0660\" }";

    fn of_text(text: &str) -> Listen {
        Listen(ListenTable { listen: text.into(), tls: None, allow: None, mode: None, group: None })
    }

    fn of_table(table: ListenTable) -> Listen {
        Listen(table)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either(PhantomData))
    }
}

/// `"pool.control"`, or `{ path = "pool.control", mode = "0660", group = "disk" }`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct ControlTable {
    pub path: String,
    pub mode: Option<String>,
    pub group: Option<String>,
}

/// The control socket.
#[derive(Debug)]
pub(in super::super) struct Control(pub ControlTable);

impl TextOrTable for Control {
    type Table = ControlTable;
    const EXPECTING: &'static str =
        "a path, or a table such as { path = \"pool.control\", mode = \"0660\", group = \"disk\" }";

    fn of_text(text: &str) -> Control {
        Control(ControlTable { path: text.into(), mode: None, group: None })
    }

    fn of_table(table: ControlTable) -> Control {
        Control(table)
    }
}

impl<'de> Deserialize<'de> for Control {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either(PhantomData))
    }
}

/// What a client with a certificate may use.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Client {
    pub name: toml::Spanned<String>,
    pub exports: Vec<toml::Spanned<String>>,
}
