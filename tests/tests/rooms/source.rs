//! The modules of a crate as they stand in its sources, and which uses which.
//!
//! A module is a file, or a module within a file. It uses another if it names something that is defined there, by whatever
//! way: a name that is handed on (`pub use`) counts for where it is from. What only tests see is left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, Type, UseTree, Visibility};

/// A module by its names from the crate's root on.
pub type Module = Vec<String>;

/// What a name stands for.
#[derive(Clone, Debug)]
enum Meaning {
    Module(Module),
    /// Something that is defined in the module.
    Item,
    /// Another path, from this module on.
    Alias(Vec<String>),
}

/// The modules of a crate.
#[derive(Default)]
pub struct Source {
    names: HashMap<Module, HashMap<String, Meaning>>,
    /// Paths that are handed on as a whole, by module.
    globs: HashMap<Module, Vec<Vec<String>>>,
    paths: BTreeMap<Module, BTreeSet<Vec<String>>>,
    /// All but modules and uses.
    contents: Vec<(Module, Item)>,
}

impl Source {
    /// Reads the crate whose root this file is.
    pub fn read(root: &Path) -> Self {
        let mut source = Self::default();
        let folder = root.parent().unwrap().to_path_buf();
        source.file(root, folder, Vec::new());
        source
    }

    fn file(&mut self, path: &Path, folder: PathBuf, module: Module) {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let File { items, .. } =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.items(items, folder, module);
    }

    fn items(&mut self, items: Vec<Item>, folder: PathBuf, module: Module) {
        self.names.entry(module.clone()).or_default();
        self.paths.entry(module.clone()).or_default();
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            if let Item::Mod(inner) = item {
                self.module(inner, &folder, &module);
                continue;
            }
            if let Item::Use(used) = &item {
                let mut leaves = Vec::new();
                flatten(&used.tree, Vec::new(), &mut leaves);
                let public = !matches!(used.vis, Visibility::Inherited);
                for (path, name) in leaves {
                    match name {
                        Some(name) => {
                            self.define(&module, name, Meaning::Alias(path.clone()));
                            // What is only handed on is not used here.
                            if !public {
                                self.paths.get_mut(&module).unwrap().insert(path);
                            }
                        }
                        None => self.globs.entry(module.clone()).or_default().push(path),
                    }
                }
                continue;
            }
            if let Some(name) = defined(&item) {
                self.define(&module, name, Meaning::Item);
            }
            let mut paths = Paths::default();
            paths.visit_item(&item);
            self.paths.get_mut(&module).unwrap().extend(paths.found);
            self.contents.push((module.clone(), item));
        }
    }

    fn module(&mut self, inner: ItemMod, folder: &Path, module: &Module) {
        let name = inner.ident.to_string();
        let mut path = module.clone();
        path.push(name.clone());
        self.define(module, name.clone(), Meaning::Module(path.clone()));
        let below = folder.join(&name);
        if let Some((_, items)) = inner.content {
            return self.items(items, below, path);
        }
        let told = inner.attrs.iter().find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
                    Some(folder.join(text.value()))
                }
                _ => None,
            },
            _ => None,
        });
        let files = [told.unwrap_or_default(), folder.join(format!("{name}.rs")), below.join("mod.rs")];
        let file = files.into_iter().find(|file| file.is_file());
        let file = file.unwrap_or_else(|| panic!("no file for module {}", path.join("::")));
        self.file(&file, below, path);
    }

    fn define(&mut self, module: &Module, name: String, meaning: Meaning) {
        self.names.entry(module.clone()).or_default().entry(name).or_insert(meaning);
    }

    /// The module in which what a path names is defined, as seen from `from`, and its name there, unless it is the module
    /// itself.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<(Module, Option<String>)> {
        let (mut at, mut rest) = (from.clone(), path);
        match rest.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            _ => {}
        }
        while rest.first().is_some_and(|name| name == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        let Some((name, rest)) = rest.split_first() else { return Some((at, None)) };
        if depth == 0 {
            return None;
        }
        match self.names.get(&at)?.get(name) {
            Some(Meaning::Module(module)) if rest.is_empty() => Some((module.clone(), None)),
            Some(Meaning::Module(module)) => {
                let below: Vec<_> = ["self".to_string()].into_iter().chain(rest.iter().cloned()).collect();
                self.resolve(module, &below, depth - 1)
            }
            // What follows is an associated item, or a variant.
            Some(Meaning::Item) => Some((at, Some(name.clone()))),
            Some(Meaning::Alias(path)) => {
                let (whole, own) = ([path, rest].concat(), path.first() == Some(name) && path.len() == 1);
                if own { None } else { self.resolve(&at, &whole, depth - 1) }
            }
            None => self.globs.get(&at)?.iter().find_map(|glob| {
                let whole: Vec<_> = glob.iter().chain([name]).chain(rest).cloned().collect();
                self.resolve(&at, &whole, depth - 1)
            }),
        }
    }

    /// What is defined in the modules, but for modules and uses.
    pub fn contents(&self) -> &[(Module, Item)] {
        &self.contents
    }

    /// The type that this names, as seen from `from`: its module and name; `None` if it is of another crate, or not named.
    pub fn named(&self, from: &Module, named: &Type) -> Option<(Module, String)> {
        let Type::Path(named) = named else { return None };
        let path: Vec<_> = named.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let (module, name) = self.resolve(from, &path, 16)?;
        let name = name?;
        // Another name of a type stands for that.
        let other = self.contents.iter().find_map(|(at, item)| match item {
            Item::Type(item) if *at == module && item.ident == name => Some(&item.ty),
            _ => None,
        });
        other.map_or(Some((module.clone(), name)), |other| self.named(&module, other))
    }

    /// The modules of the root.
    pub fn rooms(&self) -> BTreeSet<String> {
        self.names.keys().filter(|module| module.len() == 1).map(|module| module[0].clone()).collect()
    }

    /// The names that the root hands on.
    pub fn handed_on(&self) -> BTreeSet<&str> {
        let root = self.names[&Vec::new()].iter();
        root.filter(|(_, meaning)| matches!(meaning, Meaning::Alias(_)))
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// The names that a `use` gives another.
    pub fn renamed(&self) -> impl Iterator<Item = &str> {
        let all = self.names.values().flatten();
        all.filter_map(|(name, meaning)| match meaning {
            Meaning::Alias(path) => path.last().filter(|last| *last != name).map(String::as_str),
            _ => None,
        })
    }

    /// Which module uses which.
    pub fn uses(&self) -> BTreeSet<(Module, Module)> {
        let all = self.paths.iter().flat_map(|(module, paths)| paths.iter().map(move |path| (module, path)));
        let uses = all.filter_map(|(module, path)| Some((module.clone(), self.resolve(module, path, 16)?.0)));
        uses.filter(|(from, to)| from != to).collect()
    }
}

/// Paths that are named in an item.
#[derive(Default)]
struct Paths {
    found: BTreeSet<Vec<String>>,
}

impl<'a> Visit<'a> for Paths {
    fn visit_path(&mut self, path: &'a syn::Path) {
        self.found.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_use_tree(&mut self, tree: &'a UseTree) {
        let mut leaves = Vec::new();
        flatten(tree, Vec::new(), &mut leaves);
        self.found.extend(leaves.into_iter().map(|(path, _)| path));
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        // The paths in what a macro is given are not parsed: those that begin at the crate's root are found as text.
        let text = called.tokens.to_string().replace(' ', "");
        for part in text.split("crate::").skip(1) {
            let end = part.find(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'));
            let path = part[..end.unwrap_or(part.len())].trim_end_matches(':');
            let path = ["crate"].into_iter().chain(path.split("::"));
            self.found.insert(path.map(str::to_string).collect());
        }
        visit::visit_macro(self, called);
    }
}

/// The paths of a use, and the names that they get; none for all that there is.
fn flatten(tree: &UseTree, mut path: Vec<String>, leaves: &mut Vec<(Vec<String>, Option<String>)>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, leaves);
        }
        UseTree::Name(part) => {
            let name = part.ident.to_string();
            if name == "self" {
                let name = path.last().cloned();
                leaves.push((path, name));
            } else {
                path.push(name.clone());
                leaves.push((path, Some(name)));
            }
        }
        UseTree::Rename(part) => {
            path.push(part.ident.to_string());
            leaves.push((path, Some(part.rename.to_string())));
        }
        UseTree::Glob(_) => leaves.push((path, None)),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, path.clone(), leaves));
        }
    }
}

/// An item's attributes.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Whether only tests, or a model checker, see it.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            ["test", "all(test,", "loom", "fuzzing"].iter().any(|word| condition.starts_with(word))
        }
        _ => false,
    })
}

fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
