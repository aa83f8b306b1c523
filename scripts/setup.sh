#!/usr/bin/env bash
# Makes the machine ready to build: Debian packages, and a Python that has torch. Quick when nothing is missing.
#   scripts/setup.sh [build|test]     test adds the Python packages that tests compare against
# From the environment:
#   PYTHON            an interpreter with its own torch >= 2.11; nothing is installed into it
#   PIP_EXTRA_INDEX   one more package index for pip
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-build}

fail() { echo "setup: $*" >&2; exit 1; }

missing_packages() {
  local package
  while read -r package; do
    dpkg -s "$package" 2>/dev/null | grep -q '^Status: .* installed$' || echo "$package"
  done < <(grep -v '^#' scripts/packages.txt; [ -n "${PYTHON:-}" ] || python_packages)
}

# A virtual environment needs a python3 with venv; Debian packs both apart.
python_packages() {
  python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

install_packages() {
  if ! command -v dpkg >/dev/null; then
    echo "setup: not a Debian-like system; install the equivalents of scripts/packages.txt yourself" >&2
    return
  fi
  local missing
  missing=$(missing_packages | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    fail "these packages are missing; install them and try again: sudo apt-get install $missing"
  fi
  echo "setup: installing $missing"
  # shellcheck disable=SC2086
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
}

check_own_python() {
  local version
  command -v "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON is no program; give the path of an interpreter"
  version=$("$PYTHON" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null) ||
    fail "$PYTHON has no torch; install torch 2.11 or later into it, or leave PYTHON out to get one in .venv"
  [ "$(printf '2.11\n%s\n' "$version" | sort -V | head -n 1)" = 2.11 ] ||
    fail "$PYTHON has torch $version; comera needs 2.11 or later"
}

make_environment() {
  local stamp requirements=(requirements.txt)
  [ "$purpose" != test ] || requirements+=(requirements-test.txt)
  # What tests need includes what the build needs.
  for stamp in .venv/installed-test ".venv/installed-$purpose"; do
    cmp -s "$stamp" <(cat requirements*.txt) && return 0
  done
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "python3 is older than 3.10, for which there is no torch; give a newer one: PYTHON=/path/to/python, with torch"
  if [ ! -x .venv/bin/python ]; then
    echo "setup: making .venv"
    python3 -m venv .venv ||
      fail "python3 has no venv module; install it (Debian: python3-venv), or give PYTHON=, a Python with torch"
  fi
  echo "setup: installing what ${requirements[*]} name into .venv"
  .venv/bin/python -m pip install --disable-pip-version-check \
    ${PIP_EXTRA_INDEX:+--extra-index-url "$PIP_EXTRA_INDEX"} "${requirements[@]/#/-r}"
  cat requirements*.txt > "$stamp"
}

install_packages
if [ -n "${PYTHON:-}" ]; then check_own_python; else make_environment; fi
