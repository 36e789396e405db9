#!/bin/sh
# Installs plumbline from a release, after checking its checksum: no Rust is needed.
#
#   curl -fsSL https://github.com/plumbline/plumbline/releases/latest/download/install.sh | sh
#
# PLUMBLINE_VERSION   the release, such as 0.2.0 [default: the latest]
# PLUMBLINE_DIR       the folder of the program [default: ~/.local/bin]
# PLUMBLINE_RELEASES  the address of the releases, for a mirror
set -eu

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

releases=${PLUMBLINE_RELEASES:-https://github.com/plumbline/plumbline/releases}
version=${PLUMBLINE_VERSION:-latest}
folder=${PLUMBLINE_DIR:-${HOME:?set HOME or PLUMBLINE_DIR}/.local/bin}

[ "$(uname -s)" = Linux ] ||
  fail "there are programs for Linux only, this is $(uname -s): use the container image, or cargo install plumbline-suite"
case $(uname -m) in
  x86_64 | amd64) machine=x86_64 ;;
  aarch64 | arm64) machine=aarch64 ;;
  *) fail "there is no program for $(uname -m): use cargo install plumbline-suite" ;;
esac
case $version in
  latest) from=$releases/latest/download ;;
  *) from=$releases/download/v${version#v} ;;
esac

fetch() { # URL, file
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --output "$2" "$1"
  elif command -v wget >/dev/null; then
    wget --quiet --output-document="$2" "$1"
  else
    fail 'curl or wget is needed: install one of them'
  fi
}

temporary=$(mktemp -d) || fail 'no temporary folder: set TMPDIR to one that can be written'
trap 'rm -rf "$temporary"' EXIT
archive=plumbline-$machine-linux.tar.gz
fetch "$from/$archive" "$temporary/$archive" ||
  fail "release $version has no $archive at $from: check PLUMBLINE_VERSION and the network"
fetch "$from/SHA256SUMS" "$temporary/SHA256SUMS" || fail "release $version has no SHA256SUMS: nothing is installed"

wanted=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$archive\$/\1/p" "$temporary/SHA256SUMS")
[ -n "$wanted" ] || fail "SHA256SUMS of release $version does not name $archive: nothing is installed"
if command -v sha256sum >/dev/null; then
  found=$(sha256sum "$temporary/$archive")
else
  found=$(shasum -a 256 "$temporary/$archive") || fail 'sha256sum or shasum is needed: install one of them'
fi
[ "${found%% *}" = "$wanted" ] || fail "$archive has the checksum ${found%% *}, not $wanted: nothing is installed"

tar -xzf "$temporary/$archive" -C "$temporary" plumbline || fail "$archive contains no program: nothing is installed"
mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] || fail "$folder cannot be written: set PLUMBLINE_DIR to another one"
# Complete or absent, also while an older one runs.
mv "$temporary/plumbline" "$folder/.plumbline.new"
mv "$folder/.plumbline.new" "$folder/plumbline"
echo "installed $("$folder/plumbline" --version) as $folder/plumbline"
case :$PATH: in
  *:"$folder":*) ;;
  *) echo "add it to PATH: export PATH=\"$folder:\$PATH\"" ;;
esac
