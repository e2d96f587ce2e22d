//! Configuration files. Their values replace the defaults of the flags, so that one parser checks every value and one
//! precedence applies: flag, environment, file, default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use serde_json::Value;

/// Arguments that are not settings: a file cannot name itself.
const NO_SETTINGS: [&str; 4] = ["config", "help", "json", "version"];

/// A configuration file: the value of each flag, by the flag's name with `_` for `-`.
pub(crate) struct ConfigFile {
    path: PathBuf,
    values: BTreeMap<String, Vec<String>>,
}

impl ConfigFile {
    /// Reads a file and checks it against the flags of `command`, which is at the path `words`.
    pub(crate) fn read(path: &Path, command: &Command, words: &[&str]) -> anyhow::Result<ConfigFile> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let file =
            ConfigFile::parse(path, &text, at(command, words)).with_context(|| format!("in {shown}"))?;
        file.check(command, words).with_context(|| format!("in {shown}"))?;
        Ok(file)
    }

    fn parse(path: &Path, text: &str, command: &Command) -> anyhow::Result<ConfigFile> {
        let table: BTreeMap<String, Value> = toml::from_str(text)
            .map_err(|error| anyhow::anyhow!("not valid TOML: {}", toml_error(text, &error)))?;
        let mut values = BTreeMap::new();
        for (key, value) in table {
            let setting = settings(command).find(|setting| setting.get_id().as_str() == key);
            let setting = setting.with_context(|| {
                let known: Vec<&str> = settings(command).map(|setting| setting.get_id().as_str()).collect();
                format!("unknown setting `{key}`; known settings are {}", known.join(", "))
            })?;
            let all = texts(&value).with_context(|| {
                format!("`{key}` must be a string, an integer, true or false, or a list of those")
            })?;
            let delimiter = setting.get_value_delimiter();
            let split = |text: String| match delimiter {
                Some(delimiter) => text.split(delimiter).map(str::to_owned).collect(),
                None => vec![text],
            };
            values.insert(key, all.into_iter().flat_map(split).collect());
        }
        Ok(ConfigFile { path: path.to_owned(), values })
    }

    /// Lets the parser of the flags check every value, as if it had been given as a flag.
    fn check(&self, command: &Command, words: &[&str]) -> anyhow::Result<()> {
        let flags = self.values.iter().flat_map(|(key, values)| {
            let name = key.replace('_', "-");
            values.iter().map(move |value| format!("--{name}={value}"))
        });
        let line = std::iter::once("windlass").chain(words.iter().copied()).map(str::to_owned).chain(flags);
        command.clone().try_get_matches_from(line).map(drop).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            anyhow::anyhow!("{}", first.strip_prefix("error: ").unwrap_or(first).to_owned())
        })
    }

    /// The command with the file's values as defaults.
    pub(crate) fn apply(&self, command: Command) -> Command {
        self.values.iter().fold(command, |command, (key, values)| {
            command.mut_arg(key, |setting| setting.default_values(values.clone()))
        })
    }
}

/// The problem of a TOML file and its line. The error's own text quotes that line, which may contain a password.
pub(crate) fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim();
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message.to_owned(),
    }
}

/// An effective setting.
pub(crate) struct Setting {
    /// As in a file.
    pub(crate) name: String,
    /// None if it is not set.
    pub(crate) value: Option<String>,
    /// Where it comes from.
    pub(crate) source: String,
}

/// Every effective setting of `command`, and where it comes from.
pub(crate) fn in_force(command: &Command, matches: &ArgMatches, file: Option<&ConfigFile>) -> Vec<Setting> {
    let setting = |argument: &clap::Arg| {
        let name = argument.get_id().as_str();
        let raw = matches.get_raw(name);
        let value = raw.map(|values| {
            let all: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
            shown(&all.join(","))
        });
        let from_file = file.filter(|file| file.values.contains_key(name));
        let source = match (matches.value_source(name), from_file, argument.get_env()) {
            (Some(ValueSource::CommandLine), _, _) => format!("flag --{}", name.replace('_', "-")),
            (Some(ValueSource::EnvVariable), _, Some(variable)) => {
                format!("environment {}", variable.to_string_lossy())
            }
            (_, Some(file), _) => format!("file {}", file.path.display()),
            _ => "default".to_owned(),
        };
        Setting { name: name.to_owned(), value, source }
    };
    settings(command).map(setting).collect()
}

/// A value without the password that an address may contain.
pub(crate) fn shown(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    // A password may contain any character, even if it should be escaped: it ends at the last `@`.
    let rest = match rest.rsplit_once('@') {
        Some((user, rest)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:***@{rest}"),
            None => format!("{user}@{rest}"),
        },
        None => rest.to_owned(),
    };
    let (place, query) =
        rest.split_once('?').map_or((rest.as_str(), None), |(place, query)| (place, Some(query)));
    let query = query.map_or(String::new(), |query| {
        let parts = query.split('&').map(|part| match part.split_once('=') {
            Some((name, _)) if name.to_lowercase().contains("password") => format!("{name}=***"),
            // The address past a pooler, with escapes: it may have a password of its own.
            Some((name @ "listen", value)) if value.to_lowercase().contains("%40") => format!("{name}=***"),
            _ => part.to_owned(),
        });
        format!("?{}", parts.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{place}{query}")
}

fn at<'a>(command: &'a Command, words: &[&str]) -> &'a Command {
    words.iter().fold(command, |command, word| {
        command.find_subcommand(word).expect("settings are read for existing commands")
    })
}

fn settings(command: &Command) -> impl Iterator<Item = &clap::Arg> {
    command.get_arguments().filter(|argument| !NO_SETTINGS.contains(&argument.get_id().as_str()))
}

fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Bool(is_so) => Some(vec![is_so.to_string()]),
        Value::Number(number) if !number.is_f64() => Some(vec![number.to_string()]),
        Value::Array(values) => {
            let all: Option<Vec<Vec<String>>> =
                values.iter().map(|value| if value.is_array() { None } else { texts(value) }).collect();
            all.map(|all| all.concat())
        }
        Value::Number(_) | Value::Object(_) | Value::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::{ConfigFile, shown, toml_error};

    /// A file is taken, or refused in few words.
    #[test]
    fn any_settings_file_is_taken_or_refused_in_words() {
        let command = crate::commands::Cli::command();
        let serve = super::at(&command, &["serve"]);
        let known: Vec<&str> = super::settings(serve).map(|setting| setting.get_id().as_str()).collect();
        let seeds = [
            "listen = \"127.0.0.1:7780\"\nstore = \"sqlite:jobs.db\"\n",
            "store = \"postgres://ann:s3cret@db/jobs\"\n# comment\n",
            "listen = [\"a\", 5, true]\n",
            "[table]\na = 1\n",
            "a.b = 1979-05-27T07:32:00Z\nc = 0x7fffffffffffffff\n",
        ];
        let words =
            known.iter().copied().chain([" = ", "\n", "\"\"\"", "[[", "{", "nan", "--help", "=true\n"]);
        windlass_fuzz::Family::new("settings-file").seeds(seeds).words(words).cases(300).text(|text| {
            let read = ConfigFile::parse(Path::new("windlass.toml"), text, serve);
            let outcome = read.and_then(|file| file.check(&command, &["serve"]));
            // The names of all settings are listed for one that does not exist.
            let length = outcome.err().map_or(1, |problem| format!("{problem:#}").len());
            if (1..=3_000 + text.len()).contains(&length) {
                Ok(())
            } else {
                Err(format!("{length} bytes of words"))
            }
        });
    }

    #[test]
    fn an_error_in_a_file_names_the_line_and_not_what_it_says() {
        let text = "store = \"memory:\"\nkey = \"secret\n";
        let error = toml::from_str::<std::collections::BTreeMap<String, String>>(text).expect_err("no end");
        let problem = toml_error(text, &error);
        assert!(problem.starts_with("line 2: "), "{problem}");
        assert!(!problem.contains("secret"), "{problem}");
    }

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        for (value, expected) in [
            ("sqlite:/var/lib/windlass/jobs.db", "sqlite:/var/lib/windlass/jobs.db"),
            ("postgres://ann@db/jobs", "postgres://ann@db/jobs"),
            ("postgres://ann:s3cret@db:5432/jobs", "postgres://ann:***@db:5432/jobs"),
            ("postgres://ann:s3/c?r@et@db/jobs?schema=a", "postgres://ann:***@db/jobs?schema=a"),
            (
                "postgres://db/jobs?user=ann&password=s3cret&schema=a",
                "postgres://db/jobs?user=ann&password=***&schema=a",
            ),
            (
                "postgres://db/jobs?listen=postgres%3A%2F%2Fann%3As3cret%40direct%2Fjobs&schema=a",
                "postgres://db/jobs?listen=***&schema=a",
            ),
        ] {
            assert_eq!(shown(value), expected);
        }
    }
}
