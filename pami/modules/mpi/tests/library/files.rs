//! Files that processes have open together (SPEC S-2), over files in memory.

use crate::scene::{Library, numbers, room, run, values};
use mpi::{Amode, Basic, Class, Datatype, Error, File, Types, Whence};
use pami::files::{Errno, Files, OpenFile, OpenMode};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Pieces that a read or a write is cut in.
const PIECE: usize = 100;

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Files in memory, none of which grows beyond a limit.
#[derive(Clone, Copy)]
struct Disk(&'static Mutex<BTreeMap<String, Bytes>>, usize);

struct Open(Bytes, OpenMode, usize);

fn disk(limit: usize) -> Disk {
    Disk(Box::leak(Box::default()), limit)
}

impl Disk {
    fn content(&self, name: &str) -> Vec<u8> {
        self.0.lock().unwrap()[name].lock().unwrap().clone()
    }

    fn names(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Files for Disk {
    type Open = Open;

    fn open_file(&self, name: &str, mode: OpenMode) -> Result<Open, Errno> {
        assert!(mode.is_sound());
        let mut files = self.0.lock().unwrap();
        let there = files.get(name).cloned();
        let bytes = match there {
            Some(_) if mode.contains(OpenMode::EXCLUSIVE) => return Err(Errno::EEXIST),
            Some(bytes) => bytes,
            None if mode.contains(OpenMode::CREATE) => files.entry(name.to_owned()).or_default().clone(),
            None => return Err(Errno::ENOENT),
        };
        Ok(Open(bytes, mode, self.1))
    }

    fn remove(&self, name: &str) -> Result<(), Errno> {
        self.0.lock().unwrap().remove(name).map(drop).ok_or(Errno::ENOENT)
    }
}

impl OpenFile for Open {
    fn read_pieces(
        &self,
        offset: u64,
        len: usize,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<usize, Errno> {
        if !self.1.contains(OpenMode::READ) {
            return Err(Errno::EBADF);
        }
        let bytes = self.0.lock().unwrap();
        let there = bytes.get(offset as usize..).unwrap_or_default();
        let there = &there[..there.len().min(len)];
        there.chunks(PIECE).enumerate().for_each(|(number, piece)| take(number * PIECE, piece));
        Ok(there.len())
    }

    fn write_pieces(
        &self,
        offset: u64,
        len: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<usize, Errno> {
        if !self.1.contains(OpenMode::WRITE) {
            return Err(Errno::EBADF);
        }
        let mut bytes = self.0.lock().unwrap();
        let start = offset as usize;
        let end = (start + len).min(self.2);
        if end <= start && len > 0 {
            return Err(Errno::ENOSPC);
        }
        let size = bytes.len().max(end);
        bytes.resize(size, 0);
        bytes[start..end]
            .chunks_mut(PIECE)
            .enumerate()
            .for_each(|(number, piece)| fill(number * PIECE, piece));
        Ok(end - start)
    }

    fn bytes(&self) -> Result<u64, Errno> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn close(self) -> Result<(), Errno> {
        Ok(())
    }
}

const NEW: Amode = Amode::RDWR.union(Amode::CREATE);

fn open(mpi: &Library, disk: Disk, amode: Amode) -> mpi::Result<File<crate::machine::TestNode, Disk>> {
    File::open(&mpi.world(), disk, "data", amode)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn s2_processes_write_the_blocks_of_a_matrix_and_read_its_columns() {
    const SIDE: u32 = 12;
    let disk = disk(1 << 20);
    run(4, 2, move |mpi| {
        let (rank, types) = (mpi.world().rank(), mpi.types());
        let file = open(&mpi, disk, NEW).unwrap();
        let word = Datatype::of::<u32>();
        let half = SIDE as usize / 2;
        let corner = [rank as usize / 2 * half, rank as usize % 2 * half];
        let block = types.subarray(&[SIDE as usize; 2], &[half; 2], &corner, &word).unwrap();
        block.commit();
        file.set_view(8, &word, &block).unwrap();
        // In the order of the matrix, as each element's number.
        let number = |row: usize, column: usize| row as u32 * SIDE + column as u32;
        let own: Vec<u32> =
            (0..half * half).map(|at| number(corner[0] + at / half, corner[1] + at % half)).collect();
        assert_eq!(file.write_all(&numbers(&own)).unwrap().len, 4 * own.len());
        assert_eq!(file.position(), own.len() as u64);
        file.sync().unwrap();
        // Columns, of which each process reads every fourth, two at a time.
        let column = types.vector(SIDE as usize, 1, SIDE as isize, &word).unwrap();
        let column = types.resized(&column, 0, 4 * 4).unwrap();
        column.commit();
        file.set_view(8 + 4 * u64::from(rank), &word, &column).unwrap_err();
        let column = types.vector(SIDE as usize, 1, SIDE as isize, &word).unwrap();
        column.commit();
        for wanted in (rank..SIDE).step_by(4) {
            file.set_view(8 + 4 * u64::from(wanted), &word, &column).unwrap();
            let into = room(SIDE as usize);
            assert_eq!(file.read_all(&into).unwrap().len, 4 * SIDE as usize);
            assert!(values(&into).into_iter().eq((0..SIDE).map(|row| number(row as usize, wanted as usize))));
        }
        file.close().unwrap();
        assert!(words(&disk.content("data")[8..]).into_iter().eq(0..SIDE * SIDE));
    });
}

fn class<T>(outcome: mpi::Result<T>) -> Class {
    outcome.map(drop).unwrap_err().class()
}

#[test]
fn s2_what_one_process_cannot_do_all_hear_of() {
    let disk = disk(64);
    run(3, 1, move |mpi| {
        let rank = mpi.world().rank();
        for _ in 0..20 {
            let missing = open(&mpi, disk, Amode::RDWR).map(drop).unwrap_err();
            let own = Error::File(Errno::ENOENT);
            assert_eq!(missing, if rank == 0 { own } else { Error::Elsewhere(Class::NoSuchFile) });
        }
        assert_eq!(class(open(&mpi, disk, Amode::CREATE)), Class::Amode);
        assert_eq!(class(open(&mpi, disk, Amode::RDONLY | Amode::WRONLY)), Class::Amode);
        assert_eq!(class(open(&mpi, disk, Amode::RDONLY | Amode::CREATE)), Class::Amode);
        assert_eq!(class(open(&mpi, disk, Amode::RDWR | Amode::EXCL)), Class::Amode);
        assert_eq!(disk.names(), 0);
        open(&mpi, disk, NEW | Amode::EXCL).unwrap().close().unwrap();
        assert_eq!(class(open(&mpi, disk, NEW | Amode::EXCL)), Class::FileExists);

        let file = open(&mpi, disk, Amode::RDONLY).unwrap();
        assert_eq!(class(file.write_at_all(0, &numbers(&[1u32]))), Class::Access);
        file.close().unwrap();

        let file = open(&mpi, disk, NEW).unwrap();
        // The disk is full behind 64 bytes: at one process in the middle of what it writes, at the last at once.
        let written = file.write_at_all(24 * u64::from(rank), &numbers(&[rank; 7]));
        let full = if rank == 2 { Error::File(Errno::ENOSPC) } else { Error::Elsewhere(Class::NoSpace) };
        assert_eq!(written.map(drop), Err(full));
        let offset = if rank == 1 { 64 } else { 0 };
        let full = file.write_at_all(offset, &numbers(&[7u32])).map(drop).unwrap_err();
        assert_eq!(full.class(), Class::NoSpace);
        assert_eq!(full == Error::File(Errno::ENOSPC), rank == 1);
        // Not of whole elements, and past the end of all files.
        let (word, byte) = (Datatype::of::<u32>(), Datatype::from(Basic::Byte));
        file.set_view(0, &word, &word).unwrap();
        let odd = mpi::Data::new(room(2).memory().clone(), 0, 7, byte.clone()).unwrap();
        assert_eq!(file.write_at(0, &odd), Err(Error::Type));
        assert_eq!(file.read_at(u64::MAX / 2, &room(1)).unwrap_err().class(), Class::Arg);
        // A view in which data would lie in no order leaves the old one, at all.
        let backwards = mpi.types().hindexed(&[1, 1], &[4, 0], &word).unwrap();
        backwards.commit();
        let wrong = if rank == 1 { &backwards } else { &word };
        let refused = file.set_view(4, &word, wrong).unwrap_err();
        assert_eq!(refused, if rank == 1 { Error::Type } else { Error::Elsewhere(Class::Type) });
        assert_eq!(file.view().disp(), 0);
        file.close().unwrap();
    });
}

#[test]
fn s2_each_process_has_a_position_of_its_own() {
    let disk = disk(1 << 10);
    run(2, 1, move |mpi| {
        let rank = mpi.world().rank();
        let file = open(&mpi, disk, NEW | Amode::DELETE_ON_CLOSE).unwrap();
        let (word, types) = (Datatype::of::<u32>(), mpi.types());
        let every_second = types.resized(&word, 0, 8).unwrap();
        every_second.commit();
        file.set_view(4 * u64::from(rank), &word, &every_second).unwrap();
        for number in 0..5u32 {
            file.write(&numbers(&[10 * number + rank])).unwrap();
        }
        file.sync().unwrap();
        assert_eq!((file.position(), file.size()), (5, Ok(40)));
        assert_eq!(file.byte_offset(3), Ok(24 + 4 * u64::from(rank)));
        file.seek(-2, Whence::Cur).unwrap();
        let into = room(2);
        file.read(&into).unwrap();
        assert_eq!(values(&into), [30 + rank, 40 + rank]);
        file.seek(-1, Whence::End).unwrap();
        assert_eq!(file.position(), 4);
        assert_eq!(file.seek(-1, Whence::Set).unwrap_err().class(), Class::Arg);
        // There is less than what is asked for, and then nothing.
        assert_eq!(file.read(&into).map(|status| status.len), Ok(4));
        assert_eq!(values(&into), [40 + rank, 40 + rank]);
        assert_eq!(file.position(), 6);
        assert_eq!(file.read(&into).map(|status| status.len), Ok(0));
        file.close().unwrap();
        assert_eq!(disk.names(), 0);

        let file = open(&mpi, disk, NEW).unwrap();
        if rank == 0 {
            file.write(&numbers(&[1, 2, 3])).unwrap();
        }
        file.close().unwrap();
        let file = open(&mpi, disk, Amode::RDWR | Amode::APPEND).unwrap();
        assert_eq!((file.position(), file.name()), (12, "data"));
        assert_eq!(file.amode(), Amode::RDWR | Amode::APPEND);
        file.close().unwrap();
        if rank == 0 {
            File::<crate::machine::TestNode, _>::delete(disk, "data").unwrap();
            let again = File::<crate::machine::TestNode, _>::delete(disk, "data");
            assert_eq!(again.unwrap_err().class(), Class::NoSuchFile);
        }
    });
}

/// A tile of bytes by a list of blocks, each with the gap before it, and a gap at its end.
fn tile(types: &Types, blocks: &[(usize, usize)], behind: usize) -> (Datatype, Vec<usize>, usize) {
    let (mut lengths, mut places, mut bytes, mut end) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for &(gap, len) in blocks {
        places.push((end + gap) as isize);
        lengths.push(len);
        bytes.extend(end + gap..end + gap + len);
        end += gap + len;
    }
    let extent = end + behind;
    let blocks = types.hindexed(&lengths, &places, &Basic::Byte.into()).unwrap();
    let tile = types.resized(&blocks, 0, extent as isize).unwrap();
    tile.commit();
    (tile, bytes, extent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn s2_p10_a_view_shows_what_a_naive_reading_of_it_says(
        blocks in proptest::collection::vec((0usize..9, 1usize..40), 1..6),
        behind in 0usize..9,
        disp in 0u64..50,
        offset in 0usize..200,
        count in 0usize..300,
        old in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let disk = disk(1 << 20);
        disk.0.lock().unwrap().insert("data".to_owned(), Arc::new(Mutex::new(old.clone())));
        run(1, 1, move |mpi| {
            let (tile, bytes, extent) = tile(mpi.types(), &blocks, behind);
            let at = |position: usize| disp as usize + position / bytes.len() * extent + bytes[position % bytes.len()];
            let file = open(&mpi, disk, Amode::RDWR).unwrap();
            file.set_view(disp, &Basic::Byte.into(), &tile).unwrap();
            let before = (0..).take_while(|&position| at(position) < old.len()).count();
            file.seek(0, Whence::End).unwrap();
            assert_eq!(file.position(), before as u64);
            // What is there.
            let data = |content: &[u8]| {
                let words: Vec<u32> = content.iter().map(|&byte| byte.into()).collect();
                let byte_of_each = mpi.types().resized(&Basic::Byte.into(), 0, 4).unwrap();
                byte_of_each.commit();
                let words = numbers(&words);
                mpi::Data::new(words.memory().clone(), 0, content.len(), byte_of_each).unwrap()
            };
            let into = data(&vec![0xEE; count]);
            let there = (offset..offset + count).take_while(|&position| at(position) < old.len()).count();
            assert_eq!(file.read_at(offset as u64, &into).unwrap().len, there);
            let mut read = vec![0; count];
            into.pack_bytes(0, &mut read).unwrap();
            let wanted = |position| if position < offset + there { old[at(position)] } else { 0xEE };
            assert!(read.into_iter().eq((offset..offset + count).map(wanted)));
            // And what is put there.
            let new: Vec<u8> = (0..count).map(|number| number as u8 ^ 0x5A).collect();
            assert_eq!(file.write_at(offset as u64, &data(&new)).unwrap().len, count);
            let mut all = old.clone();
            for (number, &byte) in new.iter().enumerate() {
                let place = at(offset + number);
                all.resize(all.len().max(place + 1), 0);
                all[place] = byte;
            }
            file.close().unwrap();
            assert!(disk.content("data") == all);
        });
    }
}
