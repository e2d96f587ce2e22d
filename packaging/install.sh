#!/bin/sh
# Installs a released binary of Windlass for this machine:
#   curl -fsSL https://github.com/windlass-rs/windlass/releases/latest/download/install.sh | sh
# Variables: WINDLASS_VERSION (such as 0.1.0; the latest release otherwise), WINDLASS_INSTALL_DIR (~/.local/bin),
# WINDLASS_DOWNLOAD_URL (the folder that the archives and SHA256SUMS are in), WINDLASS_TARGET (another build than this machine's).
# Nothing is installed unless the archive has the checksum that the release lists. Needs curl or wget, tar, and sha256sum or shasum.
set -eu

repository="https://github.com/windlass-rs/windlass"

fail() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}

target() {
  case "$(uname -s)/$(uname -m)" in
    Linux/x86_64) echo x86_64-unknown-linux-musl ;;
    Linux/aarch64 | Linux/arm64) echo aarch64-unknown-linux-musl ;;
    Darwin/x86_64) echo x86_64-apple-darwin ;;
    Darwin/arm64) echo aarch64-apple-darwin ;;
    *) fail "there is no released binary for $(uname -s) on $(uname -m); build it: cargo install windlass-cli" ;;
  esac
}

# download NAME: from the release into the working folder.
download() {
  if command -v curl >/dev/null 2>&1; then
    curl --fail --silent --show-error --location --retry 3 --output "$folder/$1" "$url/$1" || fail "cannot download $url/$1"
  elif command -v wget >/dev/null 2>&1; then
    wget --quiet --output-document="$folder/$1" "$url/$1" || fail "cannot download $url/$1"
  else
    fail "curl or wget is needed"
  fi
}

checksum() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif command -v shasum >/dev/null 2>&1; then
    shasum --algorithm 256 "$1" | cut -d ' ' -f 1
  else
    fail "sha256sum or shasum is needed: without one the download cannot be verified"
  fi
}

# In a function, so that a download of this script that was cut off does nothing.
main() {
  target="${WINDLASS_TARGET:-$(target)}"
  archive="windlass-$target.tar.gz"
  into="${WINDLASS_INSTALL_DIR:-$HOME/.local/bin}"
  if [ -n "${WINDLASS_DOWNLOAD_URL:-}" ]; then
    url="${WINDLASS_DOWNLOAD_URL%/}"
  elif [ -n "${WINDLASS_VERSION:-}" ]; then
    url="$repository/releases/download/v${WINDLASS_VERSION#v}"
  else
    url="$repository/releases/latest/download"
  fi

  folder="$(mktemp -d)"
  trap 'rm -rf "$folder"' EXIT
  download SHA256SUMS
  download "$archive"
  expected="$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$folder/SHA256SUMS")"
  [ -n "$expected" ] || fail "$url/SHA256SUMS does not list $archive"
  actual="$(checksum "$folder/$archive")"
  [ "$actual" = "$expected" ] || fail "$archive has checksum $actual, but the release lists $expected: nothing was installed"

  tar -xzf "$folder/$archive" -C "$folder"
  mkdir -p "$into"
  # Renamed into place, so that a running windlass is not written over.
  cp "$folder/windlass-$target/windlass" "$into/.windlass.new"
  chmod 755 "$into/.windlass.new"
  mv -f "$into/.windlass.new" "$into/windlass"
  printf 'installed %s in %s\n' "$("$into/windlass" --version)" "$into"
  case ":$PATH:" in
    *":$into:"*) ;;
    *) printf 'add %s to your PATH to run it by name\n' "$into" ;;
  esac
}

main
