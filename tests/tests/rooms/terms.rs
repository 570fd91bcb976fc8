//! Which names of a crate stand for more than one type (SPEC Q-1).
//!
//! What the whole crate can see has a name of its own: a reader of any file meets one type of that name. Another name of the
//! same type, as `context::Send<P>` of `send::Send<Active<P>>`, is none; what each instruction set has its own of counts once.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Ident, Item, ItemType, Type, Visibility};

use crate::source::Source;

/// Modules of which a kernel has one.
const ALTERNATIVES: [&str; 3] = ["aarch64", "riscv64", "linux"];

/// The names of more than one type that the whole crate, or others, can see, each with the modules that define one.
pub fn twice(source: &Source) -> BTreeMap<String, Vec<String>> {
    let mut homes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, item) in source.contents() {
        if let Some((visibility, name)) = declared(item)
            && is_wide(visibility)
        {
            let alike = |part: &String| ALTERNATIVES.contains(&part.as_str());
            let module: Vec<_> = module.iter().map(|part| if alike(part) { "this" } else { part }).collect();
            homes.entry(name.to_string()).or_default().insert(module.join("::"));
        }
    }
    homes.retain(|_, modules| modules.len() > 1);
    homes.into_iter().map(|(name, modules)| (name, modules.into_iter().collect())).collect()
}

/// A type or a trait that an item defines.
fn declared(item: &Item) -> Option<(&Visibility, &Ident)> {
    Some(match item {
        Item::Struct(it) => (&it.vis, &it.ident),
        Item::Enum(it) => (&it.vis, &it.ident),
        Item::Union(it) => (&it.vis, &it.ident),
        Item::Trait(it) => (&it.vis, &it.ident),
        Item::Type(it) if !is_same(it) => (&it.vis, &it.ident),
        _ => return None,
    })
}

/// Whether it is another path to what has that name already.
fn is_same(alias: &ItemType) -> bool {
    matches!(&*alias.ty, Type::Path(of) if of.path.segments.last().is_some_and(|last| last.ident == alias.ident))
}

/// Whether the whole crate can see it.
fn is_wide(visibility: &Visibility) -> bool {
    match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(within) => within.path.is_ident("crate"),
        Visibility::Inherited => false,
    }
}
