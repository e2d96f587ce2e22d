//! Profiles: named servers with their keys, in a file that only its owner can read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

/// The profile used if none is named or chosen.
const DEFAULT: &str = "default";

/// A server and its key.
#[derive(Clone, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) url: String,
    pub(crate) key: Option<String>,
}

/// Profiles by name, and the one that `windlass context use` chose.
#[derive(Default, Deserialize)]
pub(crate) struct Profiles {
    #[serde(rename = "use")]
    pub(crate) chosen: Option<String>,
    #[serde(flatten)]
    pub(crate) all: BTreeMap<String, Profile>,
}

impl Profiles {
    /// The name of the profile that is used if none is named.
    pub(crate) fn used(&self) -> &str {
        self.chosen.as_deref().unwrap_or(DEFAULT)
    }
}

/// The path of the file: `windlass/profiles.toml` below `XDG_CONFIG_HOME` or `~/.config`; None if neither is known.
pub(crate) fn place(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
    let folder = filled("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| filled("HOME").map(|home| Path::new(&home).join(".config")));
    Some(folder?.join("windlass").join("profiles.toml"))
}

/// The profile with this name; without one the chosen profile, or the default one if it exists.
pub(crate) fn find(file: Option<&Path>, name: Option<&str>) -> anyhow::Result<Option<Profile>> {
    let Some(file) = file.filter(|file| file.exists()) else {
        return match name {
            None => Ok(None),
            Some(name) => {
                let place =
                    file.map_or("~/.config/windlass/profiles.toml".into(), |file| file.display().to_string());
                Err(crate::error::Failure::usage(format!("no profile `{name}`: {place} does not exist")))
            }
        };
    };
    let mut profiles = read(file)?;
    let wanted = name.unwrap_or(profiles.used()).to_owned();
    let found = profiles.all.remove(&wanted);
    if let (None, Some(name)) = (&found, name.or(profiles.chosen.as_deref())) {
        let known: Vec<String> = profiles.all.into_keys().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("no profile `{name}` in {}; known profiles: {known}", file.display());
        return Err(crate::error::Failure::usage(message));
    }
    Ok(found)
}

fn read(file: &Path) -> anyhow::Result<Profiles> {
    check_owner(file)?;
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).map_err(|error| {
        let problem = crate::config::toml_error(&text, &error);
        crate::error::Failure::usage(format!("in {}: {problem}", file.display()))
    })
}

/// The file of this user.
fn own_place() -> anyhow::Result<PathBuf> {
    place(&|name| std::env::var(name).ok())
        .ok_or_else(|| crate::error::Failure::usage("neither XDG_CONFIG_HOME nor HOME is set"))
}

/// All profiles of this user.
pub(crate) fn all() -> anyhow::Result<Profiles> {
    match place(&|name| std::env::var(name).ok()).filter(|file| file.exists()) {
        Some(file) => read(&file),
        None => Ok(Profiles::default()),
    }
}

/// Adds or replaces a profile.
pub(crate) fn set(name: &str, profile: Profile) -> anyhow::Result<()> {
    if name == "use" {
        return Err(crate::error::Failure::usage(
            "no profile can be called `use`: the file names the chosen one so",
        ));
    }
    let mut profiles = all()?;
    profiles.all.insert(name.to_owned(), profile);
    write(&own_place()?, &profiles)
}

/// Makes a profile the one that is used if none is named. The others stay as they are.
pub(crate) fn choose(name: &str) -> anyhow::Result<()> {
    let file = own_place()?;
    find(Some(&file), Some(name))?;
    write(&file, &Profiles { chosen: Some(name.to_owned()), ..all()? })
}

/// Replaces the file in one step, readable by its owner alone: it holds keys.
fn write(file: &Path, profiles: &Profiles) -> anyhow::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let cannot = || format!("cannot write {}", file.display());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text =
        profiles.chosen.as_deref().map_or_else(String::new, |name| format!("use = {}\n", quoted(name)));
    for (name, Profile { url, key }) in &profiles.all {
        let _always_fits = writeln!(text, "[{}]\nurl = {}", quoted(name), quoted(url));
        if let Some(key) = key {
            let _always_fits = writeln!(text, "key = {}", quoted(key));
        }
    }
    let draft = file.with_extension(format!("new-{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut new = options.write(true).create_new(true).mode(0o600).open(&draft).with_context(cannot)?;
    let written = std::io::Write::write_all(&mut new, text.as_bytes()).and_then(|()| new.sync_all());
    let moved = written.and_then(|()| std::fs::rename(&draft, file));
    if moved.is_err() {
        let _it_is_gone = std::fs::remove_file(&draft);
    }
    moved.with_context(cannot)
}

/// Refuses a file of keys that others can read or write.
fn check_owner(file: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let data = std::fs::metadata(file)
        .with_context(|| format!("cannot read the permissions of {}", file.display()))?;
    let mode = data.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let shown = file.display();
        return Err(crate::error::Failure::usage(format!(
            "{shown} holds keys and others can read it (mode {mode:03o}); run: chmod 600 {shown}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profiles.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn a_profile_is_found_by_name_and_the_default_one_without() {
        let text = "[default]\nurl = 'http://a'\n[far]\nurl = 'https://b'\nkey = 'wl_1'\n";
        let (_folder, path) = file(text, 0o600);
        assert_eq!(find(Some(&path), None).unwrap().unwrap().url, "http://a");
        let far = find(Some(&path), Some("far")).unwrap().unwrap();
        assert_eq!((far.url.as_str(), far.key.as_deref()), ("https://b", Some("wl_1")));
        let refused = find(Some(&path), Some("near")).err().unwrap().to_string();
        assert!(refused.contains("near") && refused.contains("default, far"), "{refused}");
        let (_folder, path) = file("[far]\nurl = 'https://b'\n", 0o600);
        assert!(find(Some(&path), None).unwrap().is_none());
        assert!(find(Some(Path::new("/nowhere/profiles.toml")), None).unwrap().is_none());
        assert!(find(Some(Path::new("/nowhere/profiles.toml")), Some("far")).is_err());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_what_to_do() {
        let (_folder, path) = file("[default]\nurl = 'http://a'\n", 0o640);
        let refused = find(Some(&path), None).err().unwrap().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        for text in ["[a]\nkey = 'x'\n", "[a]\nurl = 'http://a'\nport = 1\n", "url = 'http://a'\n", "["] {
            let (_folder, path) = file(text, 0o600);
            assert!(find(Some(&path), None).is_err(), "{text}");
        }
    }

    #[test]
    fn the_file_is_where_programs_keep_their_settings() {
        let environment = |xdg: Option<&str>, home: Option<&str>| {
            let (xdg, home) = (xdg.map(str::to_owned), home.map(str::to_owned));
            place(&move |name| if name == "HOME" { home.clone() } else { xdg.clone() })
        };
        assert_eq!(environment(None, None), None);
        assert_eq!(environment(None, Some("/h")), Some("/h/.config/windlass/profiles.toml".into()));
        assert_eq!(environment(Some("/x"), Some("/h")), Some("/x/windlass/profiles.toml".into()));
        assert_eq!(environment(Some(""), Some("/h")), Some("/h/.config/windlass/profiles.toml".into()));
    }
}
