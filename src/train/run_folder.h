// The folder of a run: one process at a time writes there, and an earlier run in it is kept.
#pragma once

#include <filesystem>

namespace comera::train {

class RunFolder {
 public:
  /// Makes the folder and holds its lock until destroyed (the system releases it however the process ends).
  /// Throws Error when another process holds it.
  explicit RunFolder(std::filesystem::path folder);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Moves the files of an earlier run into the folder "previous", over those of the one before. True when
  /// there was one.
  bool set_aside() const;

 private:
  std::filesystem::path folder_;
  int lock_ = -1;
};

}  // namespace comera::train
