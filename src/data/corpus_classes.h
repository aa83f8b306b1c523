// Which packages become classes of the corpus, and which functions are taken on either side.
#pragma once

#include "corpus_source.h"

#include <cstdint>
#include <string>
#include <vector>

namespace comera::data {

/// Functions of one file that are not duplicates of earlier ones.
struct HarvestedFile {
  CorpusFile file;
  struct Function {
    std::size_t begin = 0, end = 0;
    std::int64_t indent = 0;
    std::uint64_t hash = 0;  // of its text
    bool taken = false;
  };
  std::vector<Function> functions;
  std::int64_t label = -1;
  bool held_out = false;
};

/// Sets label, held_out and taken; returns the class names.
std::vector<std::string> choose_classes(std::vector<HarvestedFile>& files, const CorpusOptions& options);

}  // namespace comera::data
