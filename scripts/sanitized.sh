#!/usr/bin/env bash
# Runs a command whose programs were built with sanitizers beside a torch that was not.
#   Leaks: torch keeps what it allocates once until the process ends. Containers: torch's code moves the ends of
#   vectors without telling the sanitizer.
export ASAN_OPTIONS="detect_leaks=0:detect_container_overflow=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
exec "$@"
