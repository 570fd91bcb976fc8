//! The result is that of the operation as a whole, to the bit (SPEC L-5).

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn l5_every_split_has_the_unsplit_operations_bits(
        local in any::<bool>(), operation in operations(), split in splits(), count in 1usize..400, offset in 0usize..4,
        start in 0usize..9, idles in (0u16..1001, 0u16..1001), seed in any::<u64>()
    ) {
        let (recipe, element, foreign) = (operation.recipe(), operation.element, operation.foreign);
        let size = element.bytes();
        let old = numbers(element, foreign == Foreign::Target, count + 8, seed);
        let new = numbers(element, foreign == Foreign::Message, count, !seed);
        let other = numbers(element, foreign == Foreign::Message, count, seed ^ 0x5555);
        let other = if recipe.has_operand() { other } else { Vec::new() };
        let mut expected = old.clone();
        operation.apply(&mut expected[offset * size..], &new, &other);
        // No broken word in the region.
        let mut memory = old.clone();
        memory.resize(memory.len().next_multiple_of(8), 0);
        let mut stage = own_pair(local);
        idle(&stage, idles.0, idles.1);
        let region = region(&mut stage, &memory);
        let message = filled(&[vec![0xee; start], new].concat()).share();
        // Elsewhere in a word than the message.
        let second = filled(&[vec![0xdd; start / 2], other].concat()).share();
        let operand = recipe.has_operand().then(|| Operand { memory: second.clone(), start: start / 2 });
        let (local_done, remote_done) = (stage.done(1), stage.done(2));
        let all = process(stage.at(1), &region, &message, recipe, split);
        let (offset, range) = ((offset * size) as u32, start..message.len());
        stage.process(0, Process { offset, range, operand, local_done, remote_done, ..all });
        prop_assert_eq!(stage.ends(), []);
        stage.quiet();
        prop_assert_eq!(stage.ends(), [(1, None, Ok(())), (2, None, Ok(()))]);
        prop_assert_eq!(&bytes(region.memory())[..expected.len()], &expected);
        // Message and operand are the caller's again.
        prop_assert!(message.reclaim().is_ok() && second.reclaim().is_ok());
    }

    #[test]
    fn l5_operations_of_one_context_are_added_in_their_order(
        local in any::<bool>(), list in proptest::collection::vec((splits(), 0usize..40, 1usize..300), 2..8), seed in any::<u64>()
    ) {
        let mut stage = pair(local);
        idle(&stage, 1000, 500);
        let old = numbers(RecipeElement::F64, false, 400, seed);
        let mut expected = old.clone();
        let region = region(&mut stage, &old);
        let factor = Some(factor_of(RecipeElement::F64));
        let operation = Unsplit::plain(RecipeElement::F64, factor, Foreign::Neither);
        for (number, (split, at, count)) in list.into_iter().enumerate() {
            let new = numbers(RecipeElement::F64, false, count, seed ^ number as u64);
            operation.apply(&mut expected[8 * at..], &new, &[]);
            let message = filled(&new).share();
            let all = process(stage.at(1), &region, &message, operation.recipe(), split);
            stage.process(0, Process { offset: 8 * at as u32, ..all });
            if seed >> number & 1 == 1 {
                stage.turn(&[0]);
            }
        }
        stage.quiet();
        prop_assert_eq!(bytes(region.memory()), expected);
    }

    /// Of integers, whatever is merged with what.
    #[test]
    fn l1_l5_messages_that_may_be_merged_add_up_to_the_same(
        local in any::<bool>(), list in proptest::collection::vec((splits(), 0usize..3, 1usize..3), 2..12),
        scaled in any::<bool>(), seed in any::<u64>()
    ) {
        let mut stage = pair(local);
        idle(&stage, 1000, 500);
        let old = numbers(RecipeElement::I64, false, 400, seed);
        let mut expected = old.clone();
        let region = region(&mut stage, &old);
        let factor = scaled.then(|| factor_of(RecipeElement::I64));
        let operation = Unsplit::plain(RecipeElement::I64, factor, Foreign::Neither);
        let mut messages = Vec::new();
        for (number, (split, at, count)) in list.into_iter().enumerate() {
            let (at, count) = (100 * at, 60 * count);
            let new = numbers(RecipeElement::I64, false, count, seed ^ number as u64);
            operation.apply(&mut expected[8 * at..], &new, &[]);
            let message = filled(&new).share();
            let all = process(stage.at(1), &region, &message, operation.recipe(), split);
            let remote_done = stage.done(number);
            stage.process(0, Process { offset: 8 * at as u32, remote_done, ..all });
            messages.push(message);
            if seed >> number & 3 == 1 {
                stage.turn(&[0]);
            }
        }
        stage.quiet();
        prop_assert_eq!(bytes(region.memory()), expected);
        let mut ends: Vec<_> = stage.ends().into_iter().map(|(number, _, result)| (number, result)).collect();
        ends.sort_by_key(|end| end.0);
        prop_assert_eq!(ends, (0..messages.len()).map(|number| (number, Ok(()))).collect::<Vec<_>>());
        prop_assert!(messages.into_iter().all(|message| message.reclaim().is_ok()));
    }

    #[test]
    fn l3_hostile_chunks_change_nothing_outside_their_region(
        header in any::<[u8; 24]>(), sane in any::<bool>(), data in proptest::collection::vec(any::<u8>(), 0..64),
        offset in 0u32..80, total in 0u32..100, kind in 0usize..4
    ) {
        let mut stage = own_pair(true);
        let before = [7; 64];
        let bystander = stage.region(1, &before, Rights::READ);
        let region = region(&mut stage, &before);
        let mut header = header;
        if sane {
            header[..4].copy_from_slice(&region.handle().id().index.get().to_le_bytes());
            header[4..8].copy_from_slice(&region.handle().id().generation.get().to_le_bytes());
            let place = u32::from(header[8]) % 80;
            header[8..12].copy_from_slice(&place.to_le_bytes());
            header[12] %= 64;
            (header[13], header[14], header[15]) = (header[13] % 24, header[14] | 4, header[15] & 31 | 4);
        }
        let kind = [Kind::Chunk, Kind::Refused, Kind::AskAdvice, Kind::Advice][kind];
        let packet = envelope(kind, stage.at(0), stage.at(1));
        stage.forge(Envelope { dispatch: header[0], message: 5, offset, total, ..packet }, &header, &data);
        stage.quiet();
        prop_assert_eq!(bytes(bystander.memory()), before);
        prop_assert!(bytes(region.memory()) == before || sane);
    }
}
