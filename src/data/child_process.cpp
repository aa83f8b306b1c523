#include "child_process.h"

#include <comera/base/error.h>
#include <comera/base/file.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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
  std::vector<char*> arguments;
  for (const auto& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);

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

}  // namespace comera::data
