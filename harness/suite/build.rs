//! Packs the fixtures into an archive, which the program carries: a quarter of the size of their texts.

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{env, io};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn main() -> Result<(), Box<dyn Error>> {
    let fixtures = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("fixtures").canonicalize()?;
    println!("cargo::rerun-if-changed={}", fixtures.display());
    let mut archive = ZipWriter::new(File::create(Path::new(&env::var("OUT_DIR")?).join("fixtures.zip"))?);
    add(&mut archive, &fixtures, &fixtures)?;
    archive.finish()?;
    Ok(())
}

/// Adds the files of a folder, in the order of their names, so that equal fixtures are an equal archive.
fn add(archive: &mut ZipWriter<File>, fixtures: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add(archive, fixtures, &path)?;
        } else {
            let name = path.strip_prefix(fixtures)?.to_str().ok_or("a name of a fixture is not UTF-8")?;
            archive.start_file(name, SimpleFileOptions::default().unix_permissions(0o644))?;
            io::copy(&mut File::open(&path)?, archive)?;
        }
    }
    Ok(())
}
