#include "command.h"

#include <comera/base/error.h>
#include <comera/base/machine.h>
#include <comera/base/text.h>
#include <comera/train/memory.h>
#include <comera/weights/torch.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace comera::cli {

std::atomic<bool> stop_requested{false};

namespace {

std::uint64_t idle = 0;

// The first signal asks for a clean end; the next one ends at once. A read that waits is interrupted.
void stop_at(int number) {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = true; };
  action.sa_flags = SA_RESETHAND;
  ::sigaction(number, &action, nullptr);
}

// CLI11 would only say that the arguments were not expected.
void check_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (name.starts_with("-") || std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string near = nearest_name(name, known);
  fail("there is no command '{}'{}", name,
       near.empty() ? fmt::format("; the commands are {}", fmt::join(known, ", "))
                    : "; did you mean '" + near + "'?");
}

}  // namespace

void stop_gently() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) stop_at(number);
}

std::uint64_t idle_bytes() { return idle; }

void set_threads(std::int64_t wanted) {
  const char* from_environment = std::getenv("OMP_NUM_THREADS");
  const std::int64_t environment = from_environment ? std::strtoll(from_environment, nullptr, 10) : 0;
  torch::set_num_threads(static_cast<int>(wanted > 0        ? wanted
                                          : environment > 0 ? environment
                                                            : available_cores()));
}

void say(bool json, const std::string& line) {
  std::FILE* stream = json ? stderr : stdout;
  std::fprintf(stream, "%s\n", line.c_str());
  std::fflush(stream);
}

void print_json(const Json& json) { std::cout << json.dump(2) << std::endl; }

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace comera::cli

int main(int argc, char** argv) {
  using namespace comera;
  using namespace comera::cli;
  CLI::App app("comera " COMERA_VERSION
               ": trains neural networks with their weights held as tensor-train cores.");
  app.require_subcommand(1);
  app.set_version_flag("--version", COMERA_VERSION);
  app.footer("`comera COMMAND --help` shows the options of a command with their defaults.");
  Action action;
  add_train(app, action);
  add_compare(app, action);
  add_eval(app, action);
  add_predict(app, action);
  add_export(app, action);
  add_plan(app, action);
  add_doctor(app, action);
  try {
    if (argc > 1) check_command(app, argv[1]);
    app.parse(argc, argv);
  } catch (const Error& error) {
    std::cerr << "comera: " << error.what() << std::endl;
    return 1;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away must not cost a run; it is told at the end
  try {
    train::install_allocation_counter();
    idle = train::measure_idle_bytes();
    const int status = action();
    std::cout.flush();
    const bool written = std::cout.good() && std::fflush(stdout) == 0 && !std::ferror(stdout);
    check(written || status != 0, "stdout: not all of the output could be written");
    return status;
  } catch (const Error& error) {
    std::cerr << "comera: " << error.what() << std::endl;
  } catch (const c10::Error& error) {
    std::cerr << "comera: torch: " << error.what_without_backtrace() << std::endl;
  } catch (const std::bad_alloc&) {
    std::cerr << "comera: out of memory; lower train.batch_size or raise train.micro_batches" << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "comera: " << error.what() << std::endl;
  }
  return 1;
}
