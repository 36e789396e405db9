//! The flag `--color`.

use clap::ValueEnum;

/// The flag for colours.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ColourArgs {
    /// Colours in text for a terminal; `auto` is for terminals only, and off if `NO_COLOR` is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColourChoice::Auto)]
    color: ColourChoice,
}

/// Use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColourChoice {
    Auto,
    Always,
    Never,
}

impl ColourArgs {
    /// Returns true if an output has colours.
    pub(super) fn is_on(self, is_terminal: bool) -> bool {
        match self.color {
            ColourChoice::Auto => is_on_by_default(is_terminal),
            ColourChoice::Always => true,
            ColourChoice::Never => false,
        }
    }
}

/// Returns true if an output without a flag has colours: terminals do, unless `NO_COLOR` is set.
pub(super) fn is_on_by_default(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
