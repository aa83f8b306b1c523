#include "memory_file.h"

#include <comera/base/error.h>
#include <comera/io/checkpoint.h>

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    comera::io::load_checkpoint(file.path());
  } catch (const comera::Error& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
