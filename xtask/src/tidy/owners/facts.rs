//! What does one source file declare, call and import?
//!
//! Facts alone, read with `syn`; `counts` adds them up. Test code is left out.

use crate::tidy::SourceFile;
use anyhow::{Context as _, Result};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit::{self, Visit};

/// A struct and who sees its fields.
#[derive(Debug)]
pub(super) struct Struct {
    pub(super) name: String,
    pub(super) fields: usize,
    /// Fields that other modules see.
    pub(super) open_fields: usize,
}

/// A function in an `impl TYPE` block.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) of: String,
    pub(super) name: String,
    /// It takes `&mut self`.
    pub(super) changes: bool,
    /// Names of the functions that it calls on `self`.
    pub(super) calls: Vec<String>,
}

/// What is in one file, its tests not counted.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Names from the crate's root on; empty for the root.
    pub(super) module: Vec<String>,
    pub(super) structs: Vec<Struct>,
    pub(super) methods: Vec<Method>,
    /// Paths as `use` spells them, one for each name.
    pub(super) imports: Vec<Vec<String>>,
    /// Modules that only tests have.
    pub(super) test_modules: Vec<Vec<String>>,
    pub(super) public_items: usize,
    /// Assertions that stay in a release build.
    pub(super) asserts: usize,
}

/// Reads a file of the crate whose sources begin with `root`, such as `crates/engine/src/`.
pub(super) fn read(file: &SourceFile, root: &str) -> Result<Facts> {
    let parsed = syn::parse_file(&file.text).with_context(|| format!("reading {}", file.path))?;
    let module = module_of(file.path.strip_prefix(root).unwrap_or(&file.path));
    let mut reader = Reader { facts: Facts { module, ..Facts::default() }, method: None };
    reader.visit_file(&parsed);
    Ok(reader.facts)
}

/// `ops/commit/retry.rs` is `ops::commit::retry`; `ops/mod.rs` is `ops`, and `lib.rs` is the root.
fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut names: Vec<String> = path.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        names.pop();
    }
    names
}

struct Reader {
    facts: Facts,
    /// The function that is being read, if it is a method.
    method: Option<Method>,
}

impl Reader {
    fn count_public(&mut self, visibility: &syn::Visibility) {
        self.facts.public_items += usize::from(matches!(visibility, syn::Visibility::Public(_)));
    }

    /// `self.name(` in the tokens of a macro, which `syn` does not parse.
    fn calls_in(&mut self, tokens: TokenStream) {
        let Some(method) = &mut self.method else { return };
        let mut groups = Vec::new();
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, tree) in trees.iter().enumerate() {
            if let TokenTree::Group(group) = tree {
                groups.push(group.stream());
            }
            let [this, dot, name, TokenTree::Group(_)] = &trees[at..trees.len().min(at + 4)] else {
                continue;
            };
            if this.to_string() == "self" && dot.to_string() == "." {
                method.calls.push(name.to_string());
            }
        }
        for group in groups {
            self.calls_in(group);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, visibility) = parts(item);
        if attributes.iter().any(only_tests) {
            if let syn::Item::Mod(module) = item {
                let mut path = self.facts.module.clone();
                path.push(module.ident.to_string());
                self.facts.test_modules.push(path);
            }
            return;
        }
        if let Some(visibility) = visibility {
            self.count_public(visibility);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let open = |field: &&syn::Field| !matches!(field.vis, syn::Visibility::Inherited);
        self.facts.structs.push(Struct {
            name: item.ident.to_string(),
            fields: item.fields.len(),
            open_fields: item.fields.iter().filter(open).count(),
        });
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = match &*item.self_ty {
            syn::Type::Path(path) if item.trait_.is_none() => path.path.segments.last(),
            _ => None,
        };
        for inner in &item.items {
            let syn::ImplItem::Fn(function) = inner else { continue };
            if function.attrs.iter().any(only_tests) {
                continue;
            }
            let Some(of) = of else {
                visit::visit_block(self, &function.block);
                continue;
            };
            self.count_public(&function.vis);
            let receiver = function.sig.receiver();
            self.method = Some(Method {
                of: of.ident.to_string(),
                name: function.sig.ident.to_string(),
                changes: receiver
                    .is_some_and(|this| this.to_token_stream().to_string().contains("mut")),
                calls: Vec::new(),
            });
            visit::visit_block(self, &function.block);
            self.facts.methods.extend(self.method.take());
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let on_self =
            matches!(&*call.receiver, syn::Expr::Path(path) if path.path.is_ident("self"));
        if let Some(method) = &mut self.method
            && on_self
        {
            method.calls.push(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        const ASSERTS: [&str; 5] = ["assert", "assert_eq", "assert_ne", "unreachable", "panic"];
        let name = called.path.segments.last().map(|last| last.ident.to_string());
        let is_assert = name.is_some_and(|name| ASSERTS.contains(&name.as_str()));
        self.facts.asserts += usize::from(is_assert);
        self.calls_in(called.tokens.clone());
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        spell(&item.tree, &mut Vec::new(), &mut self.facts.imports);
    }
}

/// Every path that a `use` names.
fn spell(tree: &syn::UseTree, before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let end = |name: Option<String>| before.iter().cloned().chain(name).collect();
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            spell(&path.tree, before, paths);
            before.pop();
        }
        syn::UseTree::Name(name) => paths.push(end(Some(name.ident.to_string()))),
        syn::UseTree::Rename(name) => paths.push(end(Some(name.ident.to_string()))),
        syn::UseTree::Glob(_) => paths.push(end(None)),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                spell(tree, before, paths);
            }
        }
    }
}

/// `#[cfg(test)]` and `#[test]`.
fn only_tests(attribute: &syn::Attribute) -> bool {
    let spelt = attribute.to_token_stream().to_string().replace(' ', "");
    spelt == "#[cfg(test)]" || spelt == "#[test]"
}

fn parts(item: &syn::Item) -> (&[syn::Attribute], Option<&syn::Visibility>) {
    use syn::Item;
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.vis)),
        Item::Enum(item) => (&item.attrs, Some(&item.vis)),
        Item::Fn(item) => (&item.attrs, Some(&item.vis)),
        Item::Mod(item) => (&item.attrs, Some(&item.vis)),
        Item::Static(item) => (&item.attrs, Some(&item.vis)),
        Item::Struct(item) => (&item.attrs, Some(&item.vis)),
        Item::Trait(item) => (&item.attrs, Some(&item.vis)),
        Item::Type(item) => (&item.attrs, Some(&item.vis)),
        Item::Use(item) => (&item.attrs, Some(&item.vis)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> Facts {
        let path = "crates/a/src/b/c.rs".to_owned();
        read(&SourceFile { path, text: text.to_owned() }, "crates/a/src/").expect("Rust")
    }

    #[test]
    fn a_method_calls_in_macros_too() {
        let text =
            "impl A { fn b(&mut self) { self.c(); assert!(x && self.d(1), \"{}\", self.e()); } }";
        let facts = facts(text);
        assert_eq!(facts.methods[0].calls, ["c", "d", "e"]);
        assert!(facts.methods[0].changes);
        assert_eq!((facts.asserts, facts.module.join("::")), (1, "b::c".to_owned()));
    }

    #[test]
    fn tests_are_left_out() {
        let text = "#[cfg(test)] mod more; #[cfg(test)] mod tests { pub fn a() { panic!() } }
            impl A { #[cfg(test)] pub fn b(&self) { panic!() } }";
        let facts = facts(text);
        assert_eq!((facts.public_items, facts.asserts, facts.methods.len()), (0, 0, 0));
        assert_eq!(facts.test_modules[0].join("::"), "b::c::more");
    }

    #[test]
    fn every_name_of_a_use_is_a_path() {
        let facts = facts("use crate::a::{self, b::{C, D as E}, f::*};");
        let paths: Vec<_> = facts.imports.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::a::self", "crate::a::b::C", "crate::a::b::D", "crate::a::f"]);
    }

    #[test]
    fn open_fields_and_public_items() {
        let facts =
            facts("pub struct A { pub a: u8, pub(crate) b: u8, c: u8 } pub fn d() {} fn e() {}");
        assert_eq!(facts.structs[0].open_fields, 2);
        assert_eq!(facts.public_items, 2);
    }
}
