use super::*;
use crate::Data;
use pami::{Buffer, Shared};
use proptest::prelude::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

fn memory(len: usize) -> Shared {
    // A buffer takes its control block and alignment from the same memory.
    Buffer::new(Box::leak(vec![0u8; len + 256].into_boxed_slice())).unwrap().share()
}

fn types() -> Types {
    Types::on_heap(64, 64)
}

/// A type as a plain list of bytes' places, in order, and its bounds.
#[derive(Clone, Debug)]
struct Model {
    places: Vec<isize>,
    lb: isize,
    ub: isize,
}

impl Model {
    fn extent(&self) -> isize {
        self.ub - self.lb
    }

    /// Copies at these displacements; the bounds are given by hand, as every type of the test has them set.
    fn at(&self, displacements: &[isize]) -> Self {
        let places = displacements.iter().flat_map(|at| self.places.iter().map(move |place| place + at));
        let lb = displacements.iter().map(|at| at + self.lb).min().unwrap_or(0);
        let ub = displacements.iter().map(|at| at + self.ub).max().unwrap_or(0);
        Self { places: places.collect(), lb, ub }
    }
}

#[derive(Clone, Debug)]
enum Recipe {
    Basic(Basic),
    Vector(Box<Recipe>, usize, usize, isize),
    Indexed(Box<Recipe>, Vec<(usize, isize)>),
    Resized(Box<Recipe>, isize, isize),
    Struct(Vec<(usize, isize, Recipe)>),
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let basics = prop_oneof![
        Just(Recipe::Basic(Basic::I8)),
        Just(Recipe::Basic(Basic::I16)),
        Just(Recipe::Basic(Basic::F64)),
        Just(Recipe::Basic(Basic::LocatedF64))
    ];
    basics.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), 1usize..4, 1usize..3, 0isize..5)
                .prop_map(|(old, count, len, stride)| Recipe::Vector(Box::new(old), count, len, stride)),
            (inner.clone(), proptest::collection::vec((0usize..3, 0isize..6), 1..4))
                .prop_map(|(old, blocks)| Recipe::Indexed(Box::new(old), blocks)),
            (inner.clone(), -3isize..4, 1isize..40).prop_map(|(old, lb, extent)| Recipe::Resized(
                Box::new(old),
                lb,
                extent
            )),
            proptest::collection::vec((0usize..3, 0isize..40, inner), 1..4).prop_map(Recipe::Struct),
        ]
    })
}

/// Both sides set the bounds of every type, since the model does not know of markers.
fn make(types: &Types, recipe: &Recipe) -> Result<(Datatype, Model), TypeError> {
    let (made, model) = match recipe {
        Recipe::Basic(basic) => {
            let places = (0..basic.bytes() as isize).collect();
            (Datatype::basic(*basic), Model { places, lb: 0, ub: basic.bytes() as isize })
        }
        Recipe::Vector(old, count, len, stride) => {
            let (old, model) = make(types, old)?;
            let at: Vec<_> = (0..*count as isize)
                .flat_map(|block| (0..*len as isize).map(move |element| block * stride + element))
                .map(|element| element * model.extent())
                .collect();
            (types.vector(*count, *len, *stride, &old)?, model.at(&at))
        }
        Recipe::Indexed(old, blocks) => {
            let (old, model) = make(types, old)?;
            let (lens, displacements): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
            let at: Vec<_> = blocks
                .iter()
                .flat_map(|&(len, at)| (0..len as isize).map(move |element| at + element))
                .map(|element| element * model.extent())
                .collect();
            (types.indexed(&lens, &displacements, &old)?, model.at(&at))
        }
        Recipe::Resized(old, lb, extent) => {
            let (old, model) = make(types, old)?;
            (types.resized(&old, *lb, *extent)?, Model { lb: *lb, ub: lb + extent, ..model })
        }
        Recipe::Struct(fields) => {
            let made: Vec<_> = fields
                .iter()
                .map(|(len, at, old)| Ok((*len, *at, make(types, old)?)))
                .collect::<Result<_, TypeError>>()?;
            let list: Vec<_> = made.iter().map(|(len, at, (old, _))| (*len, *at, old)).collect();
            let mut places = Vec::new();
            for (len, at, (_, model)) in &made {
                let copies: Vec<_> =
                    (0..*len as isize).map(|element| at + element * model.extent()).collect();
                places.extend(model.at(&copies).places);
            }
            let model = Model { places, lb: 0, ub: 1 };
            (types.structure(&list)?, model)
        }
    };
    let (lb, extent) = (model.lb, model.extent());
    Ok((types.resized(&made, lb, extent)?, model))
}

proptest! {
    #[test]
    fn p10_packing_takes_the_bytes_of_the_type_map_in_order(recipe in recipes(), count in 0usize..4) {
        let types = types();
        let (datatype, model) = match make(&types, &recipe) {
            Ok(made) => made,
            // The recipe is larger than the pool: nothing else may be wrong with it.
            Err(TypeError::Runs { .. } | TypeError::Types { .. }) => return Ok(()),
            Err(error) => panic!("{error}"),
        };
        prop_assert_eq!((datatype.lb(), datatype.ub()), (model.lb, model.ub));
        prop_assert_eq!(datatype.size(), model.places.len());
        if let (Some(first), Some(last)) = (model.places.iter().min(), model.places.iter().max()) {
            prop_assert_eq!(datatype.true_extent(), (*first, last + 1 - first));
        }
        let whole = datatype.get_elements(2 * datatype.size() + datatype.signature().next().map_or(0, |one| one.0.bytes()));
        prop_assert_eq!(whole, Some(2 * datatype.elements() + usize::from(datatype.size() > 0)));
        let values: usize = datatype.signature().map(|(basic, count)| basic.bytes() * count).sum();
        prop_assert_eq!(values, datatype.size());
        let elements: Vec<_> = (0..count as isize).map(|element| element * model.extent()).collect();
        let places = model.at(&elements).places;
        let low = places.iter().min().copied().unwrap_or(0).min(0);
        let (offset, end) = (-low, places.iter().max().map_or(0, |last| last + 1));
        let (from, packed) = (memory((offset + end.max(0)) as usize), memory(places.len() + 7));
        let all: Vec<u8> = (0..from.len()).map(|at| (at * 7 + 3) as u8).collect();
        from.write(0, &all).unwrap();
        let data = Data::new(from.clone(), offset as usize, count, datatype.clone()).unwrap();
        prop_assert_eq!(data.pack(&packed, 7).unwrap(), places.len());
        let expected: Vec<u8> = places.iter().map(|place| all[(offset + place) as usize]).collect();
        let mut bytes = vec![0; places.len()];
        packed.read(7, &mut bytes).unwrap();
        prop_assert_eq!(&bytes, &expected);
        // Any part of it is the same bytes.
        for skip in [1, 3, 8, 17] {
            let skip = skip.min(expected.len());
            let mut bytes = vec![0; expected.len() - skip];
            data.pack_bytes(skip, &mut bytes).unwrap();
            prop_assert_eq!(&bytes[..], &expected[skip..]);
        }
        // There is always a layout, and it names the same bytes, of which it knows how many they are.
        let (first, layout) = data.layout();
        let (mut cursor, mut named) = (pami::layout::Cursor::default(), Vec::new());
        while named.len() < places.len() {
            let left = (places.len() - named.len()) as u32;
            let (at, len) = layout.next_run(&mut cursor, left).unwrap();
            named.extend((at..at + len).map(|at| all[first + at as usize]));
        }
        prop_assert_eq!(&named, &expected);
        let len = places.len() as u32;
        let reach = layout.reach(len).unwrap();
        prop_assert!(first + reach as usize <= from.len());
        prop_assert_eq!(layout.bytes_within(reach), Some(len));
        // And back, into memory of zeros: what the type does not name stays.
        let back = memory(from.len());
        let data = Data::new(back.clone(), offset as usize, count, datatype).unwrap();
        data.unpack(&packed, 7, places.len()).unwrap();
        let mut model = vec![0; all.len()];
        for &place in &places {
            model[(offset + place) as usize] = all[(offset + place) as usize];
        }
        let mut bytes = vec![0; all.len()];
        back.read(0, &mut bytes).unwrap();
        prop_assert_eq!(bytes, model);
    }
}

#[test]
fn p10_regular_types_are_one_run_and_have_a_layout() {
    let types = types();
    let double = Datatype::of::<f64>();
    let column = types.vector(100_000, 1, 7, &double).unwrap();
    assert_eq!(
        (column.run_count(), column.layout(1)),
        (1, Some((0, Layout::Strided { block: 8, stride: 56 })))
    );
    assert!(matches!(column.layout(2), Some((0, Layout::Table(_, 2)))));
    let columns = types.resized(&column, 0, 8).unwrap();
    assert!(matches!((columns.extent(), columns.layout(2)), (8, Some((0, Layout::Table(_, 2))))));
    let row = types.contiguous(1000, &double).unwrap();
    assert!(matches!(row.layout(17), Some((0, Layout::Contiguous))));
    let plane = types.subarray(&[10, 20, 30], &[4, 20, 30], &[2, 0, 0], &double).unwrap();
    assert_eq!((plane.layout(1), plane.extent()), (Some((2 * 4800, Layout::Contiguous)), 48_000));
    let face = types.subarray(&[10, 20, 30], &[10, 20, 1], &[0, 0, 29], &double).unwrap();
    assert_eq!(face.layout(3), Some((29 * 8, Layout::Strided { block: 8, stride: 240 })));
    let gaps = types.vector(3, 1, 2, &double).unwrap();
    let gaps = types.resized(&gaps, 0, 48).unwrap();
    assert_eq!(gaps.layout(5), Some((0, Layout::Strided { block: 8, stride: 16 })));
    let blocks = types.indexed(&[1; 4], &[0, 3, 6, 9], &double).unwrap();
    assert_eq!(blocks.run_count(), 1);
}

#[test]
fn q2_what_is_repeated_becomes_a_level_and_no_runs() {
    // There are more repetitions than the pool has cells.
    let types = types();
    let (byte, double) = (Datatype::of::<i8>(), Datatype::of::<f64>());
    let inner = types.subarray(&[100, 90, 80, 70], &[9, 8, 7, 6], &[1, 2, 0, 3], &double).unwrap();
    assert_eq!((inner.run_count(), inner.levels().count()), (1, 2));
    let pair = types.structure(&[(1, 0, &double), (1, 8, &byte)]).unwrap();
    let many = types.vector(1000, 50, 60, &pair).unwrap();
    assert_eq!((many.run_count(), many.levels().count(), many.elements()), (2, 2, 100_000));
    let many = types.contiguous(3, &many).unwrap();
    assert_eq!((many.run_count(), many.levels().count(), many.elements()), (2, 3, 300_000));
    assert_eq!(many.get_elements(9 * 50_000 + 8), Some(100_001));
    // Whatever is one of several is told by runs, and matches all the same.
    let small = types.vector(2, 2, 3, &pair).unwrap();
    let both = types.structure(&[(1, 0, &small), (1, 200, &byte)]).unwrap();
    assert_eq!((both.run_count(), both.levels().count(), small.run_count()), (8, 0, 2));
    assert!(small.matches(2, &pair, 8) && !small.matches(1, &pair, 3));
    // As deep as it may be, and then no deeper.
    let types = Types::on_heap(16, 4000);
    let mut deep = types.resized(&pair, 0, 16).unwrap();
    for depth in 0..8 {
        let extent = deep.extent();
        deep = types.hvector(2, 1, 2 * extent + 1, &deep).unwrap();
        assert_eq!(
            (deep.elements(), deep.levels().count()),
            (4 << depth, if depth < 7 { depth + 1 } else { 0 })
        );
    }
}

#[test]
fn p10_a_structure_has_the_extent_that_a_compiler_gives_it() {
    let types = types();
    let (byte, double) = (Datatype::of::<i8>(), Datatype::of::<f64>());
    let made = types.structure(&[(1, 0, &double), (1, 8, &byte)]).unwrap();
    assert_eq!((made.size(), made.extent(), made.true_extent()), (9, 16, (0, 9)));
    let three = types.contiguous(3, &made).unwrap();
    assert_eq!((three.size(), three.extent(), three.elements()), (27, 48, 6));
    // Bounds that were set outweigh those of the others.
    let narrow = types.resized(&double, 0, 4).unwrap();
    let mixed = types.structure(&[(1, 0, &narrow), (1, 30, &byte)]).unwrap();
    assert_eq!((mixed.lb(), mixed.ub(), mixed.true_extent()), (0, 4, (0, 31)));
    let empty = types.structure(&[]).unwrap();
    assert_eq!((empty.size(), empty.extent(), empty.get_count(0)), (0, 0, Some(0)));
}

#[test]
fn p10_counts_and_elements_are_undefined_where_the_standard_says_so() {
    let types = types();
    let made = types.structure(&[(2, 0, &Datatype::of::<i32>()), (1, 8, &Datatype::of::<f64>())]).unwrap();
    assert_eq!((made.get_count(32), made.get_count(24)), (Some(2), None));
    assert_eq!(
        (made.get_elements(32), made.get_elements(24), made.get_elements(20)),
        (Some(6), Some(5), Some(4))
    );
    assert_eq!((made.get_elements(18), made.get_elements(28)), (None, None));
}

#[test]
fn m6_signatures_match_value_by_value() {
    let types = types();
    let (int, double) = (Datatype::of::<i32>(), Datatype::of::<f64>());
    let a = types.structure(&[(2, 0, &int), (1, 8, &double)]).unwrap();
    let b = types.structure(&[(1, 0, &int), (1, 16, &int), (1, 24, &double)]).unwrap();
    let c = types.structure(&[(1, 0, &double), (2, 8, &int)]).unwrap();
    assert!(a.matches(2, &b, 2) && !a.matches(1, &c, 1) && !a.matches(2, &b, 1));
    assert!(types.contiguous(6, &int).unwrap().matches(2, &int, 12));
    assert!(!int.matches(2, &double, 1) && a.matches(1, &Basic::Byte.into(), 16));
}

#[test]
fn p11_a_place_is_free_when_the_last_handle_goes() {
    let types = Types::on_heap(2, 4);
    let int = Datatype::of::<i32>();
    let first = types.contiguous(2, &int).unwrap();
    let copy = first.clone();
    assert!(first == copy && !first.is_committed());
    copy.commit();
    assert!(first.is_committed());
    let second = types.contiguous(3, &int).unwrap();
    assert_eq!(types.contiguous(4, &int), Err(TypeError::Types { limit: 2 }));
    drop(first);
    assert_eq!(types.alive(), 2);
    drop(copy);
    let third = types.contiguous(4, &int).unwrap();
    assert!(!third.is_committed() && third != second);
    assert_eq!((second.size(), third.size()), (12, 16));
}

#[test]
fn r8_what_is_too_much_is_refused_by_name() {
    let types = types();
    let double = Datatype::of::<f64>();
    let displacements: Vec<isize> = (0..200).map(|n| n * n).collect();
    assert_eq!(types.indexed_block(1, &displacements, &double), Err(TypeError::Runs { limit: 64 }));
    assert_eq!(types.contiguous(usize::MAX, &double), Err(TypeError::Overflow));
    assert_eq!(types.vector(3, 1, isize::MAX / 2, &double), Err(TypeError::Overflow));
    assert_eq!(types.indexed(&[1, 2], &[0], &double), Err(TypeError::Lists(2, 1)));
    assert_eq!(types.subarray(&[4, 4], &[2, 3], &[0, 2], &double), Err(TypeError::Subarray(1)));
    assert_eq!(types.alive(), 0, "what is refused gives its place back");
}
