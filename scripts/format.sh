#!/usr/bin/env bash
# Formats all sources, or with --check names those that differ. One major version, since each formats differently.
set -euo pipefail
cd "$(dirname "$0")/.."
major=14

has_major() { command -v "$1" >/dev/null && "$1" --version | grep -q "version $major\."; }

formatter=
for candidate in "clang-format-$major" clang-format; do
  if has_major "$candidate"; then formatter=$candidate; break; fi
done
if [ -z "$formatter" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -q >/dev/null 2>&1 && apt-get install -q -y "clang-format-$major" >/dev/null 2>&1 &&
    formatter=clang-format-$major
fi
if [ -z "$formatter" ]; then
  echo "format: skipped: clang-format $major cannot be had here (Debian: apt-get install clang-format-$major)"
  exit 0
fi
git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.h' '*.cu' '*.cuh' |
  xargs -0 "$formatter" -i ${1:+--dry-run --Werror}
