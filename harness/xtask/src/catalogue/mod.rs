//! `xtask catalogue`: the fixtures of each rule, and rules without a fixture. A test of the suite fails if there is a
//! gap.

mod render;

use std::io::Write as _;

use plumbline::fixture::parse;
use plumbline_suite::catalogue::{Catalogue, CoverageMap};
use plumbline_suite::cli::CliError;
use plumbline_suite::cli::FixturesFolder;
use plumbline_suite::exit::Exit;

/// Formats of the map.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum CatalogueFormat {
    /// A line for each id
    #[default]
    Table,
    /// Tables with links
    Markdown,
    /// One HTML page
    Html,
    /// One JSON document (apiVersion plumbline/v1)
    Json,
}

/// Flags of `catalogue`.
#[derive(Debug, clap::Args)]
pub(crate) struct CatalogueArgs {
    /// Format of the map
    #[arg(long, value_enum, default_value_t)]
    format: CatalogueFormat,

    #[command(flatten)]
    folder: FixturesFolder,
}

/// Runs the verb.
pub(crate) fn main(args: &CatalogueArgs) -> Result<Exit, CliError> {
    let root = args.folder.find()?;
    let fixtures = parse::load(&root).map_err(CliError::BadFixtures)?;
    let catalogue = Catalogue::load(&root).map_err(CliError::BadFixtures)?;
    let map = CoverageMap::new(&catalogue, &fixtures, &root.with_file_name("snapshots"));
    let text = match args.format {
        CatalogueFormat::Table => render::table(&map),
        CatalogueFormat::Markdown => render::markdown(&map),
        CatalogueFormat::Html => render::html(&map),
        CatalogueFormat::Json => render::json(&map),
    };
    plumbline_suite::cli::stdout().write_all(text.as_bytes())?;
    if map.gaps.is_empty() { Ok(Exit::Ok) } else { Err(CliError::Refuted(map.gaps.join("\nxtask: "))) }
}
