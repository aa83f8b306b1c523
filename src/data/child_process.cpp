#include "child_process.h"

#include <comera/base/error.h>
#include <comera/base/file.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace comera::data {
namespace {
namespace fs = std::filesystem;

struct FileActions {
  posix_spawn_file_actions_t value;
  FileActions() { posix_spawn_file_actions_init(&value); }
  ~FileActions() { posix_spawn_file_actions_destroy(&value); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
};

std::string last_line(const fs::path& log) {
  std::string text = read_file(log);
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::vector<char*> argument_list(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const auto& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

// Both ends of a pipe; closed on every way out.
struct Pipe {
  int reader = -1, writer = -1;
  Pipe() {
    int ends[2];
    const bool made = ::pipe2(ends, O_CLOEXEC) == 0;
    check(made, "cannot make a pipe: {}", std::strerror(errno));
    reader = ends[0];
    writer = ends[1];
  }
  ~Pipe() {
    shut(reader);
    shut(writer);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void shut(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

int wait_for(pid_t child, const std::string& program) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    check(errno == EINTR, "[{}] cannot wait for the program: {}", program, std::strerror(errno));
  return status;
}

}  // namespace

void run_program(const std::vector<std::string>& command, const fs::path& folder, const std::string& log,
                 const std::string& package) {
  const std::string& program = command.front();
  const auto arguments = argument_list(command);

  FileActions actions;
  posix_spawn_file_actions_addchdir_np(&actions.value, folder.c_str());
  posix_spawn_file_actions_addopen(&actions.value, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions.value, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions.value, STDOUT_FILENO, STDERR_FILENO);

  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, program.c_str(), &actions.value, nullptr, arguments.data(), environ);
  check(error != ENOENT, "[{0}] program not found; install the package {1}, for example: apt install {1}",
        program, package);
  check(error == 0, "[{}] cannot start the program: {}", program, std::strerror(error));
  const int status = wait_for(child, program);
  if (WIFSIGNALED(status))
    fail("[{}] ended by signal {}: {}", program, WTERMSIG(status), last_line(folder / log));
  check(WEXITSTATUS(status) == 0, "[{}] failed: {}", program, last_line(folder / log));
}

std::string program_output(const std::vector<std::string>& command, std::size_t limit) {
  const std::string& program = command.front();
  const auto arguments = argument_list(command);
  Pipe pipe;
  FileActions actions;
  posix_spawn_file_actions_addopen(&actions.value, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions.value, pipe.writer, STDOUT_FILENO);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, program.c_str(), &actions.value, nullptr, arguments.data(), environ);
  check(error == 0, "[{}] cannot start the program: {}", program, std::strerror(error));
  Pipe::shut(pipe.writer);

  std::string output;
  char piece[4096];
  while (output.size() < limit) {
    const ssize_t got = ::read(pipe.reader, piece, std::min(sizeof piece, limit - output.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.append(piece, static_cast<std::size_t>(got));
  }
  // A program that has more to say is ended by its next write.
  Pipe::shut(pipe.reader);
  const int status = wait_for(child, program);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "[{}] failed with wait status {}", program, status);
  return output;
}

}  // namespace comera::data
