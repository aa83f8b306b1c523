// What the commands share: each adds itself to the program and says what to run.
#pragma once

#include <comera/base/json.h>
#include <comera/train/recipe.h>

#include <CLI/CLI.hpp>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace comera::cli {

/// Returns the exit status: 0 fine, 1 an error in what was asked for, 130 stopped by a signal.
using Action = std::function<int()>;

void add_train(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

/// From here SIGINT, SIGTERM and SIGHUP ask for a clean end, by `stop_requested`; a second one ends at once.
/// Before, and in commands that have nothing to save, they end the program as they always do.
void stop_gently();
extern std::atomic<bool> stop_requested;

/// Resident bytes after loading torch and one small product, measured at the start of main.
std::uint64_t idle_bytes();

/// Threads for torch: `wanted`, or OMP_NUM_THREADS, or the cores available.
void set_threads(std::int64_t wanted);

/// Lines for people: to stderr when stdout carries JSON.
void say(bool json, const std::string& line);
void print_json(const Json& json);

/// Path of this program, to start it again.
std::string own_program();

}  // namespace comera::cli
