//! The format of what a command prints: a table, or documents for programs. Chosen once per process by `-o` and `--columns`.

use std::sync::OnceLock;

use clap::ValueEnum;

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    #[default]
    Table,
    /// The API's JSON
    Json,
    /// The API's answers as YAML
    Yaml,
    /// Tables as comma-separated values
    Csv,
}

/// What the command line chose.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) format: Format,
    /// Titles of the columns to print, in this order; all if empty.
    pub(crate) columns: Vec<String>,
    /// Whether only errors are wanted beside the data.
    pub(crate) is_quiet: bool,
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();

/// Sets the format of this process; the first call counts.
pub(crate) fn choose(chosen: Chosen) {
    let _was_chosen_before = CHOSEN.set(chosen);
}

/// The format of this process.
pub(crate) fn chosen() -> &'static Chosen {
    CHOSEN.get_or_init(Chosen::default)
}

/// A line of comma-separated values (RFC 4180).
pub(crate) fn csv_line<'a>(fields: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |field: &str| {
        if field.contains([',', '"', '\n', '\r']) || field.trim() != field {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.to_owned()
        }
    };
    fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_would_be_read_otherwise() {
        assert_eq!(csv_line(["a", "b,c", "say \"hi\"", " d", ""]), "a,\"b,c\",\"say \"\"hi\"\"\",\" d\",\n");
    }
}
