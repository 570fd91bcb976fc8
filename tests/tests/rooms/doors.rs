//! Which structs of a crate have more than one door (SPEC Q-1).
//!
//! A struct shows all of its fields, and is data that keeps no promise; or it shows none, and changes by its methods alone.
//! A folder's own file shares what is its own with those in it, as the language has it. Data that is lent to be changed is
//! changed by the file that declares it: who is handed `&mut` of it assigns none of its fields.

use std::collections::{BTreeMap, HashMap};

use syn::visit::{self, Visit};
use syn::{
    BinOp, Expr, FnArg, Ident, ImplItem, ImplItemFn, Item, ItemFn, ItemImpl, ItemStruct, Member, Pat,
    ReceiverKind, Signature, Type, Visibility,
};

use crate::source::{Module, Source, is_for_tests};

/// A struct: where it is declared, and its name.
type Name = (Module, String);

/// What others see of a struct.
#[derive(Default)]
struct Doors {
    open: Vec<String>,
    closed: Vec<String>,
    /// Methods that change it.
    changing: Vec<String>,
}

/// The structs that have more than one door, and fields that are assigned from outside, each with what would be right.
pub fn wrong(source: &Source) -> Vec<String> {
    let mut all: BTreeMap<Name, Doors> = BTreeMap::new();
    for (module, item) in source.contents() {
        match item {
            Item::Struct(item) => {
                note_fields(all.entry((module.clone(), item.ident.to_string())).or_default(), item)
            }
            Item::Impl(item) if item.trait_.is_none() => {
                if let Some(name) = source.named(module, &item.self_ty) {
                    all.entry(name).or_default().changing.extend(changing(item));
                }
            }
            _ => {}
        }
    }
    let mut wrong = Vec::new();
    for ((module, name), Doors { open, closed, changing }) in &all {
        let name = format!("{}::{name}", module.join("::"));
        let told = match (open.first(), closed.first(), changing.first()) {
            (Some(open), Some(closed), _) => {
                format!("shows its field `{open}` and hides `{closed}`: all, or none")
            }
            (Some(open), None, Some(method)) => format!(
                "shows its field `{open}`, and `{method}`, which changes it: hide its fields, or move the method"
            ),
            _ => continue,
        };
        wrong.push(format!("{name} {told}"));
    }
    for (module, item) in source.contents() {
        let mut assigned =
            Assigned { source, all: &all, module, impl_of: None, lent: HashMap::new(), found: Vec::new() };
        assigned.visit_item(item);
        wrong.extend(assigned.found);
    }
    wrong
}

fn note_fields(doors: &mut Doors, item: &ItemStruct) {
    for (at, field) in item.fields.iter().enumerate().filter(|(_, field)| !is_for_tests(&field.attrs)) {
        let name = field.ident.as_ref().map_or(at.to_string(), Ident::to_string);
        let hidden = matches!(field.vis, Visibility::Inherited);
        if hidden { &mut doors.closed } else { &mut doors.open }.push(name);
    }
}

/// Methods that others see and that change what they are of.
fn changing(item: &ItemImpl) -> impl Iterator<Item = String> {
    item.items.iter().filter_map(|item| {
        let ImplItem::Fn(ImplItemFn { attrs, vis, sig, .. }) = item else { return None };
        let hidden = matches!(vis, Visibility::Inherited) || is_for_tests(attrs);
        (!hidden && changes_self(sig)).then(|| sig.ident.to_string())
    })
}

fn changes_self(signature: &Signature) -> bool {
    signature.receiver().is_some_and(|it| matches!(it.kind, ReceiverKind::Reference(_, _, Some(_))))
}

/// Fields that functions assign of what they are lent.
struct Assigned<'s> {
    source: &'s Source,
    all: &'s BTreeMap<Name, Doors>,
    module: &'s Module,
    impl_of: Option<Name>,
    /// What of other files the function is lent, by the name that it has there.
    lent: HashMap<String, Name>,
    found: Vec<String>,
}

impl Assigned<'_> {
    /// What a function is lent to change and is declared neither in its file nor in one that shares its own with it.
    fn enter(&mut self, signature: &Signature) {
        let others = |name: &Name| !self.module.starts_with(&name.0);
        let own = self.impl_of.clone().filter(|name| changes_self(signature) && others(name));
        self.lent = own.map(|name| ("self".to_string(), name)).into_iter().collect();
        for argument in &signature.inputs {
            if let FnArg::Typed(typed) = argument
                && let (Pat::Ident(name), Type::Reference(lent)) = (&*typed.pat, &*typed.ty)
                && lent.mutability.is_some()
                && let Some(of) = self.source.named(self.module, &lent.elem).filter(others)
            {
                self.lent.insert(name.ident.to_string(), of);
            }
        }
    }

    fn assigned(&mut self, mut place: &Expr) {
        let mut field = None;
        loop {
            place = match place {
                Expr::Field(at) => {
                    field = Some(&at.member);
                    &at.base
                }
                Expr::Index(at) => &at.expr,
                Expr::Paren(at) => &at.expr,
                Expr::Tuple(all) => return all.elems.iter().for_each(|place| self.assigned(place)),
                _ => break,
            };
        }
        if let (Some(Member::Named(field)), Expr::Path(base)) = (field, place)
            && let Some(base) = base.path.get_ident().map(Ident::to_string)
            && let Some((module, name)) = self.lent.get(&base)
            && self
                .all
                .get(&(module.clone(), name.clone()))
                .is_some_and(|it| it.open.contains(&field.to_string()))
        {
            let (at, of) = (self.module.join("::"), module.join("::"));
            self.found.push(format!(
                "{of}::{name} is changed by {at}, which assigns `{base}.{field}`: that is for its own file"
            ));
        }
    }
}

impl<'a> Visit<'a> for Assigned<'_> {
    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        self.impl_of = self.source.named(self.module, &item.self_ty);
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'a ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.enter(&function.sig);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_fn(&mut self, function: &'a ItemFn) {
        if !is_for_tests(&function.attrs) {
            self.enter(&function.sig);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_expr_assign(&mut self, assign: &'a syn::ExprAssign) {
        self.assigned(&assign.left);
        visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        use BinOp::*;
        let assigns = matches!(
            binary.op,
            AddAssign(_)
                | SubAssign(_)
                | MulAssign(_)
                | DivAssign(_)
                | RemAssign(_)
                | BitXorAssign(_)
                | BitAndAssign(_)
                | BitOrAssign(_)
                | ShlAssign(_)
                | ShrAssign(_)
        );
        if assigns {
            self.assigned(&binary.left);
        }
        visit::visit_expr_binary(self, binary);
    }
}
