#!/usr/bin/env bash
# Runs the operator tests with every instruction set that the kernels can use on this machine. (The kernel tests do so
# by themselves.)  scripts/isa_test.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
isas=$(build/comera doctor --json |
  "$1" -c 'import json, sys; print(*json.load(sys.stdin)["kernel_instruction_sets"])')
for isa in $isas; do
  echo "COMERA_ISA=$isa"
  COMERA_ISA=$isa ctest --test-dir build --output-on-failure --no-tests=error -L operator
done
