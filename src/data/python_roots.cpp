#include <comera/base/error.h>
#include <comera/base/json.h>
#include <comera/data/corpus.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace comera::data {
namespace {

// The folder Python is called in must not be searched for modules, so it leaves the path first.
constexpr const char* kScript = R"(
import sys
sys.path = [p for p in sys.path if p]
import json, os, sysconfig
packages = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages") and os.path.isdir(p)]
print(json.dumps({"stdlib": sysconfig.get_path("stdlib"), "packages": packages}))
)";

constexpr std::size_t kLongestAnswer = 1 << 20;

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { check(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno)); }
  ~Pipe() {
    ::close(ends[0]);
    close_writer();
  }
  void close_writer() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
};

// What a program writes to its standard output. No shell is involved.
std::string output_of(const std::string& program, const char* option, const char* argument) {
  Pipe pipe;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe.ends[1], STDOUT_FILENO);
  std::string words[] = {program, option, argument};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  check(failed == 0, "cannot run the Python interpreter '{}': {}", program, std::strerror(failed));
  pipe.close_writer();

  std::string output;
  char piece[4096];
  while (output.size() < kLongestAnswer) {
    const ssize_t got = ::read(pipe.ends[0], piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.append(piece, static_cast<std::size_t>(got));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "'{}' could not tell where its packages are; is it a Python 3?", program);
  return output;
}

}  // namespace

std::vector<CorpusRoot> python_roots(const std::string& python) {
  const Json answer = parse_json(output_of(python, "-c", kScript), python);
  check(answer.is_object() && answer.contains("stdlib") && answer["stdlib"].is_string() &&
            answer.contains("packages") && answer["packages"].is_array(),
        "'{}' could not tell where its packages are; is it a Python 3?", python);
  std::vector<CorpusRoot> roots{{answer["stdlib"].get<std::string>(), true}};
  for (const auto& path : answer["packages"])
    if (path.is_string()) roots.push_back({path.get<std::string>(), false});
  return roots;
}

}  // namespace comera::data
