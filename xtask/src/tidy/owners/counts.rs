//! How much of a crate is without walls?
//!
//! A type whose functions stand in many files that call each other is no owner: its fields are everybody's.
//! Files that import each other in a circle can only be understood together.

use super::facts::Facts;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A type may stand in so many files without being listed, if none calls back.
const FILES_MAX: usize = 3;

/// Counts of one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    /// Files of the largest circle by `use`; 0 where there is none.
    pub(super) import_circle: usize,
    /// Pairs of files that import each other.
    pub(super) import_pairs: usize,
    /// Fields that other modules see, of types that have a method with `&mut self`.
    pub(super) open_fields: usize,
    /// Items and methods that are `pub`, for 1,000 lines of code.
    pub(super) public_items: usize,
    /// Assertions in a release build, for 1,000 lines of code. The only count that may rise.
    pub(super) asserts: usize,
    /// Types that are spread over files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) spread: BTreeMap<String, Spread>,
}

/// A type that is spread over files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spread {
    /// Files with `impl TYPE`.
    pub(super) files: usize,
    /// Calls of its own methods from one file to another one.
    pub(super) calls: usize,
    /// Files of the largest circle by such calls.
    pub(super) circle: usize,
}

pub(super) fn count(files: &[Facts], lines: usize) -> Counts {
    let imports = imports(files);
    let pairs = imports.all_edges().filter(|(a, b, ())| a < b && imports.contains_edge(*b, *a));
    let circle = largest_circle(&imports);
    let rate = |of: fn(&Facts) -> usize| files.iter().map(of).sum::<usize>() * 1_000 / lines.max(1);
    Counts {
        import_circle: if circle > 1 { circle } else { 0 },
        import_pairs: pairs.count(),
        open_fields: open_fields(files),
        public_items: rate(|file| file.public_items),
        asserts: rate(|file| file.asserts),
        spread: spread(files),
    }
}

/// Which file imports something of which other one? By position.
fn imports(files: &[Facts]) -> DiGraphMap<usize, ()> {
    let by_module: BTreeMap<&[String], usize> =
        files.iter().enumerate().map(|(index, file)| (&file.module[..], index)).collect();
    let mut graph = DiGraphMap::new();
    for (index, file) in files.iter().enumerate() {
        graph.add_node(index);
        for path in &file.imports {
            let to = target(&file.module, path).and_then(|path| owner(&by_module, &path));
            if let Some(to) = to.filter(|to| *to != index) {
                graph.add_edge(index, to, ());
            }
        }
    }
    graph
}

/// A path of this crate, from the root on.
fn target(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, mut rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "super" => module.split_last()?.1.to_vec(),
        "self" => module.to_vec(),
        _ => return None,
    };
    while let Some(("super", after)) =
        rest.split_first().map(|(name, after)| (name.as_str(), after))
    {
        base.pop();
        rest = after;
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// The file that declares what the path names: the longest beginning that is a module.
fn owner(by_module: &BTreeMap<&[String], usize>, path: &[String]) -> Option<usize> {
    (1..=path.len()).rev().find_map(|end| by_module.get(&path[..end]).copied())
}

fn open_fields(files: &[Facts]) -> usize {
    let methods = files.iter().flat_map(|file| &file.methods);
    let change: BTreeSet<&str> =
        methods.filter(|method| method.changes).map(|method| method.of.as_str()).collect();
    let structs = files.iter().flat_map(|file| &file.structs);
    let of_owners = structs.filter(|item| change.contains(item.name.as_str()));
    of_owners.map(|item| item.open_fields).sum()
}

fn spread(files: &[Facts]) -> BTreeMap<String, Spread> {
    let mut types: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        for method in &file.methods {
            types.entry(&method.of).or_default().insert(&method.name, index);
        }
    }
    let mut found = BTreeMap::new();
    for (name, stands_in) in types {
        let mut graph = DiGraphMap::<usize, ()>::new();
        let mut calls = 0;
        for (index, file) in files.iter().enumerate() {
            for method in file.methods.iter().filter(|method| method.of == name) {
                graph.add_node(index);
                let others = method.calls.iter().filter_map(|call| stands_in.get(call.as_str()));
                for other in others.filter(|other| **other != index) {
                    graph.add_edge(index, *other, ());
                    calls += 1;
                }
            }
        }
        let spread = Spread { files: graph.node_count(), calls, circle: largest_circle(&graph) };
        if spread.files > FILES_MAX || spread.circle > 1 {
            found.insert(name.to_owned(), spread);
        }
    }
    found
}

fn largest_circle(graph: &DiGraphMap<usize, ()>) -> usize {
    tarjan_scc(graph).iter().map(Vec::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::SourceFile;
    use crate::tidy::owners::facts;

    fn counts(files: &[(&str, &str)]) -> Counts {
        let files = files.iter().map(|(name, text)| SourceFile {
            path: format!("crates/a/src/{name}"),
            text: (*text).to_owned(),
        });
        let facts: Vec<Facts> =
            files.map(|file| facts::read(&file, "crates/a/src/").expect("Rust")).collect();
        count(&facts, 1_000)
    }

    #[test]
    fn files_that_import_each_other() {
        let counts = counts(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a/mod.rs", "use crate::b::B; mod in_a;"),
            ("a/in_a.rs", "use super::A; use super::super::c::C;"),
            ("b.rs", "use crate::a::in_a::D;"),
            ("c.rs", "use crate::b::{B};"),
        ]);
        assert_eq!((counts.import_circle, counts.import_pairs), (4, 0));
        let tree = self::counts(&[("a.rs", "use crate::b::B;"), ("b.rs", "use std::a::A;")]);
        assert_eq!((tree.import_circle, tree.import_pairs), (0, 0));
    }

    #[test]
    fn a_type_whose_files_call_each_other() {
        let one = "impl A { fn a(&self) { self.b(); self.d(); self.a(); } }";
        let counts = counts(&[
            ("a.rs", one),
            ("b.rs", "impl A { fn b(&self) { self.a(); } fn d(&self) {} }"),
        ]);
        assert_eq!(counts.spread["A"], Spread { files: 2, calls: 3, circle: 2 });
        let down = self::counts(&[("a.rs", one), ("b.rs", "impl A { fn b(&self) {} }")]);
        assert!(down.spread.is_empty(), "one way only, over two files");
    }

    #[test]
    fn fields_are_open_where_the_type_changes_itself() {
        let counts = counts(&[(
            "a.rs",
            "struct A { pub(crate) a: u8, b: u8 } impl A { fn c(&mut self) {} }
             struct Plain { pub a: u8 } impl Plain { fn d(&self) {} }",
        )]);
        assert_eq!(counts.open_fields, 1);
    }
}
