// Where tests find the real data sets, and a temporary folder of their own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace comera::test {

/// Root of the real data sets: COMERA_DATA, or ../shared/data beside the source tree.
inline std::filesystem::path data_root() {
  if (const char* from_environment = std::getenv("COMERA_DATA"); from_environment && *from_environment)
    return from_environment;
  return std::filesystem::path(COMERA_SOURCE_DIR) / ".." / "shared" / "data";
}

inline bool in_ci() {
  const char* ci = std::getenv("CI");
  return ci && std::string(ci) == "true";
}

/// A folder that is deleted when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "comera-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace comera::test

/// Defines `name` as the path of a real data file; without the data the test is skipped, under CI=true it
/// fails.
#define COMERA_DATA_FILE(name, relative)                                                         \
  const std::filesystem::path name = comera::test::data_root() / relative;                       \
  if (!std::filesystem::exists(name)) {                                                          \
    if (comera::test::in_ci()) FAIL() << "CI needs the data sets; not found: " << name;          \
    GTEST_SKIP() << "no data at " << name << "; set COMERA_DATA to the folder of the data sets"; \
  }
