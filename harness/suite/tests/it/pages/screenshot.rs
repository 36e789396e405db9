//! Screenshots, compared coarsely: fonts differ between machines, so only the distribution of colour counts.
//!
//! A screenshot is reduced to cells; a cell is the mean colour of its pixels. Two reductions are compared by the part
//! of the reference's ink (what differs from the page's background) that is elsewhere or of another colour.

use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor};
use std::path::{Path, PathBuf};

/// Width and height of a page, in pixels.
pub(super) const PAGE: (u32, u32) = (1280, 800);
/// Width and height of a cell, in pixels.
const CELL: u32 = 40;
/// Maximum part of the ink that may differ.
pub(super) const TOLERANCE: f64 = 0.5;
/// Set to accept the pages as they are.
const ACCEPT: &str = "PLUMBLINE_ACCEPT_SCREENSHOTS";

/// A picture of 8-bit RGB pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    width: u32,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// Reads a PNG with 8 bits per channel.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut reader = png::Decoder::new(BufReader::new(Cursor::new(bytes))).read_info().expect("a PNG");
        let mut buffer = vec![0; reader.output_buffer_size().expect("a small picture")];
        let info = reader.next_frame(&mut buffer).expect("a PNG");
        assert_eq!(info.bit_depth, png::BitDepth::Eight);
        let pixels = buffer[..info.buffer_size()].chunks_exact(info.color_type.samples());
        Self { width: info.width, pixels: pixels.map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect() }
    }

    fn write(&self, path: &Path) {
        let height = self.pixels.len() as u32 / self.width;
        let file = BufWriter::new(File::create(path).expect("a writable file"));
        let mut encoder = png::Encoder::new(file, self.width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().expect("a writable file");
        writer.write_image_data(self.pixels.as_flattened()).expect("a writable file");
    }

    /// Returns the mean colours of the cells.
    pub(super) fn cells(&self) -> Self {
        let width = self.width / CELL;
        let height = self.pixels.len() as u32 / self.width / CELL;
        let cell = |row: u32, column: u32| {
            let rows = row * CELL..(row + 1) * CELL;
            let pixels = rows.flat_map(|y| {
                let begin = (y * self.width + column * CELL) as usize;
                &self.pixels[begin..begin + CELL as usize]
            });
            let sums = pixels.fold([0_u32; 3], |sums, pixel| [0, 1, 2].map(|at| sums[at] + u32::from(pixel[at])));
            sums.map(|sum| u8::try_from(sum / (CELL * CELL)).expect("a mean of bytes"))
        };
        let pixels = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
        Self { width, pixels: pixels.map(|(row, column)| cell(row, column)).collect() }
    }

    /// The part of the ink of `self` that differs in `other`.
    pub(super) fn difference(&self, other: &Self) -> f64 {
        assert_eq!((self.width, self.pixels.len()), (other.width, other.pixels.len()), "another size");
        let background = self.pixels.iter().max_by_key(|pixel| self.pixels.iter().filter(|one| one == pixel).count());
        let background = background.expect("a picture");
        let distance =
            |a: &[u8; 3], b: &[u8; 3]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b))).sum() };
        let ink: f64 = self.pixels.iter().map(|pixel| distance(pixel, background)).sum();
        let differs: f64 = self.pixels.iter().zip(&other.pixels).map(|(a, b)| distance(a, b)).sum();
        differs / ink.max(1.0)
    }
}

fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pages").join(format!("{name}.png"))
}

/// Returns the accepted picture of a page.
pub(super) fn accepted(name: &str) -> Picture {
    let path = reference(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; set {ACCEPT}=1", path.display()));
    Picture::read(&bytes)
}

/// Compares a screenshot with the accepted one, or accepts it. Returns the problem.
pub(super) fn compare(name: &str, screenshot: &[u8], folder: &Path) -> Option<String> {
    let cells = Picture::read(screenshot).cells();
    if std::env::var_os(ACCEPT).is_some() {
        cells.write(&reference(name));
    }
    let difference = accepted(name).difference(&cells);
    if difference <= TOLERANCE {
        return None;
    }
    let file = folder.join(format!("{name}.png"));
    std::fs::write(&file, screenshot).expect("a writable folder");
    Some(format!(
        "{name}: {difference:.2} of the ink differs, more than {TOLERANCE}: look at {}, then set {ACCEPT}=1",
        file.display()
    ))
}

#[test]
fn another_picture_is_another() {
    let picture = |text: &[u8]| Picture { width: 2, pixels: text.iter().map(|ink| [*ink; 3]).collect() };
    let page = picture(&[255, 255, 205, 255, 155, 255]);
    assert!(page.difference(&page) < 0.01);
    assert!((page.difference(&picture(&[255; 6])) - 1.0).abs() < 0.01, "an empty page lacks all ink");
    assert!((page.difference(&picture(&[255, 255, 205, 255, 205, 255])) - 1.0 / 3.0).abs() < 0.01);
    assert!(page.difference(&picture(&[0, 0, 50, 0, 100, 0])) > 1.0, "a dark page");
}
