//! What product code holds for tests alone (SPEC Q-2).
//!
//! A function or a constant that others may see is used by some product code: a crate, a job, the host tool. A crate's
//! interface is for whoever comes: what its root hands on, and what is defined on a type that it hands on. Names are
//! compared, so of two things of one name the one that is used hides the other.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Attribute, ExprMethodCall, Ident, ImplItem, Item, Macro, Path, TraitItem, Type, Visibility};

use crate::source::{Source, attributes, is_for_tests};

/// The names that code uses.
#[derive(Default)]
pub struct Used {
    /// By a path of one name: what a module defines, and what is local.
    alone: BTreeSet<String>,
    /// By a longer path, a call of a method, another name, or in what a macro or an attribute is given.
    any: BTreeSet<String>,
}

impl Used {
    /// Notes what a crate uses.
    pub fn note(&mut self, source: &Source) {
        source.contents().iter().for_each(|(_, item)| self.visit_item(item));
        self.any.extend(source.renamed().map(str::to_owned));
    }

    fn words(&mut self, text: &str) {
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        self.any.extend(words.map(str::to_owned));
    }
}

impl<'a> Visit<'a> for Used {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        if !is_for_tests(of_impl(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'a Path) {
        let names = if path.segments.len() == 1 { &mut self.alone } else { &mut self.any };
        names.extend(path.segments.last().map(|last| last.ident.to_string()));
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        self.any.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, called: &'a Macro) {
        self.words(&called.tokens.to_string());
        visit::visit_macro(self, called);
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.words(&list.tokens.to_string());
        }
    }
}

fn of_impl(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(it) => &it.attrs,
        ImplItem::Fn(it) => &it.attrs,
        _ => &[],
    }
}

/// What others may see of a crate, is outside its interface, and is not used.
pub fn unused(source: &Source, used: &Used) -> Vec<String> {
    let interface = source.handed_on();
    let mut found = Vec::new();
    for (module, item) in source.contents() {
        for (of, name) in seen(item) {
            let name = name.to_string();
            let is_used = used.any.contains(&name) || of.is_none() && used.alone.contains(&name);
            let of = of.map(ToString::to_string);
            if !is_used && !interface.contains(of.as_ref().unwrap_or(&name).as_str()) {
                let path: Vec<_> = module.iter().chain(&of).chain([&name]).map(String::as_str).collect();
                found.push(path.join("::"));
            }
        }
    }
    found
}

/// Functions and constants of an item that others may see, each with the type or the trait that it is of.
fn seen(item: &Item) -> Vec<(Option<&Ident>, &Ident)> {
    let plain = |vis: &Visibility| !matches!(vis, Visibility::Inherited);
    match item {
        Item::Const(it) if plain(&it.vis) => vec![(None, &it.ident)],
        Item::Fn(it) if plain(&it.vis) => vec![(None, &it.sig.ident)],
        Item::Static(it) if plain(&it.vis) => vec![(None, &it.ident)],
        Item::Trait(it) => {
            let names = it.items.iter().filter_map(|item| match item {
                TraitItem::Const(it) => Some(&it.ident),
                TraitItem::Fn(it) => Some(&it.sig.ident),
                _ => None,
            });
            names.map(|name| (Some(&it.ident), name)).collect()
        }
        Item::Impl(it) if it.trait_.is_none() => {
            let Type::Path(of) = &*it.self_ty else { return Vec::new() };
            let of = of.path.segments.last().map(|last| &last.ident);
            let items = it.items.iter().filter(|item| !is_for_tests(of_impl(item)));
            let names = items.filter_map(|item| match item {
                ImplItem::Const(it) if plain(&it.vis) => Some(&it.ident),
                ImplItem::Fn(it) if plain(&it.vis) => Some(&it.sig.ident),
                _ => None,
            });
            names.map(|name| (of, name)).collect()
        }
        _ => Vec::new(),
    }
}
