//! An image as boot loaders want it: the bytes of memory, from a Linux header on, without ELF around them (SPEC B-2).

use anyhow::{Context as _, Result, bail};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

/// Bytes of the header that a flat image begins with.
pub const HEADER_BYTES: usize = 64;

/// A piece of an image.
struct Piece<'a> {
    /// The address that it was linked for.
    linked: u64,
    /// The one that it is loaded to.
    loaded: u64,
    bytes: &'a [u8],
}

/// What an ELF file loads, by rising address.
fn pieces(file: &[u8]) -> Result<Vec<Piece<'_>>> {
    let header = elf::FileHeader64::<Endianness>::parse(file).context("no ELF file of 64 bits")?;
    let endian = header.endian().context("its byte order")?;
    let mut pieces = Vec::new();
    for segment in header.program_headers(endian, file).context("its segments")? {
        if segment.p_type(endian) != elf::PT_LOAD || segment.p_filesz(endian) == 0 {
            continue;
        }
        let bytes = segment.data(endian, file).ok().context("a segment that is not in the file")?;
        pieces.push(Piece { linked: segment.p_vaddr(endian), loaded: segment.p_paddr(endian), bytes });
    }
    pieces.sort_by_key(|piece| piece.linked);
    if pieces.is_empty() {
        bail!("the image has nothing to load");
    }
    Ok(pieces)
}

/// The flat image that is in the ELF file `file`.
///
/// # Errors
/// It is none of ours.
pub fn flat(file: &[u8]) -> Result<Vec<u8>> {
    let pieces = pieces(file)?;
    let start = pieces[0].linked;
    let mut image = Vec::new();
    for piece in pieces {
        let at = (piece.linked - start) as usize;
        if at < image.len() || at > 1 << 30 {
            bail!("the segments of the image lie over each other, or far apart");
        }
        image.resize(at, 0);
        image.extend_from_slice(piece.bytes);
    }
    if image.len() < HEADER_BYTES {
        bail!("the image is shorter than its header");
    }
    Ok(image)
}

/// How far what `file` has at an address is from there once it is loaded: to `at`, or where the file says.
///
/// # Errors
/// It is no ELF file.
pub fn moved_by(file: &[u8], at: Option<u64>) -> Result<u64> {
    let pieces = pieces(file)?;
    let first = &pieces[0];
    Ok(at.unwrap_or(first.loaded).wrapping_sub(first.linked))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file that loads `pieces`: where they are linked for, how far from there they go, bytes.
    fn file(pieces: &[(u64, u64, &[u8])]) -> Vec<u8> {
        let longs = |longs: &[u64]| longs.iter().flat_map(|long| long.to_le_bytes()).collect::<Vec<u8>>();
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([2, 0, 183, 0, 1, 0, 0, 0]);
        file.extend(longs(&[pieces[0].0, 64, 0]));
        file.extend([0, 0, 0, 0, 64, 0, 56, 0, pieces.len() as u8, 0, 64, 0, 0, 0, 0, 0]);
        let mut at = 64 + 56 * pieces.len() as u64;
        for (linked, moved, bytes) in pieces {
            let length = bytes.len() as u64;
            file.extend([1, 0, 0, 0, 7, 0, 0, 0]);
            file.extend(longs(&[at, *linked, linked + moved, length, length + 0x1000, 0x1000]));
            at += length;
        }
        pieces.iter().for_each(|(_, _, bytes)| file.extend_from_slice(bytes));
        file
    }

    #[test]
    fn b2_a_flat_image_is_what_elf_loads_and_ends_with_the_last_byte_of_the_file() {
        let (code, data) = ([7; 80], [9; 5]);
        let image = flat(&file(&[(0x4020_0000, 0, &code), (0x4020_1000, 0, &data)])).expect("an image");
        assert_eq!(image.len(), 0x1005);
        assert_eq!((&image[..80], &image[0x1000..]), (&code[..], &data[..]));
        assert!(image[80..0x1000].iter().all(|&byte| byte == 0));
        for (what, wrong) in [
            ("no ELF", b"Hello".to_vec()),
            ("too short for a header", file(&[(0x1000, 0, &[1; 63])])),
            ("overlapping", file(&[(0x1000, 0, &code), (0x1040, 0, &data)])),
            ("cut", file(&[(0x1000, 0, &code)])[..130].to_vec()),
        ] {
            assert!(flat(&wrong).is_err(), "{what}");
        }
    }

    #[test]
    fn b2_an_image_is_moved_to_where_it_is_put_or_where_its_file_says() {
        let file = file(&[(0x4020_0000, 0x60_0000, &[7; 80])]);
        assert_eq!(moved_by(&file, None).expect("an image"), 0x60_0000);
        assert_eq!(
            moved_by(&file, Some(0x20_0000)).expect("an image"),
            0x20_0000u64.wrapping_sub(0x4020_0000)
        );
    }
}
