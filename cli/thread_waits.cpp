// How long threads spin before they sleep. By default libgomp's spin for milliseconds, which is fine on an
// idle machine; where something else runs, each of the many small parallel regions of a step then waits for a
// thread that has no core, and steps take up to 40 times as long. libgomp reads its settings when it is
// loaded, before main: the program starts itself again with the setting in its environment, before any
// library has begun.
#include <unistd.h>

#include <cstring>

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
namespace {

constexpr const char* kSetting = "GOMP_SPINCOUNT=1000";  // some 20 microseconds

bool is_set(char** environment, const char* name) {
  const std::size_t length = std::strlen(name);
  for (; *environment; ++environment)
    if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') return true;
  return false;
}

// Nothing is initialised here: no allocation, no exceptions, system calls only.
void start_with_setting(int, char** arguments, char** environment) {
  if (is_set(environment, "GOMP_SPINCOUNT") || is_set(environment, "OMP_WAIT_POLICY")) return;
  char program[4096];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return;
  program[length] = 0;
  std::size_t count = 0;
  while (environment[count]) ++count;
  constexpr std::size_t kMost = 4096;
  const char* extended[kMost];
  if (count + 2 > kMost) return;
  std::memcpy(extended, environment, count * sizeof *environment);
  extended[count] = kSetting;
  extended[count + 1] = nullptr;
  ::execve(program, arguments, const_cast<char**>(extended));  // where it fails, threads wait as they do
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = start_with_setting;

}  // namespace
#endif
