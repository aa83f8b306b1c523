// tokenize_file KIND STATE TEXT: prints the token ids of every line of the file TEXT, for comparison with
// other programs. KIND and the file STATE are as for load_tokenizer, or KIND is cased or uncased and STATE a
// vocabulary.
#include <comera/base/file.h>
#include <comera/data/tokenizer.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

namespace {

void print_ids(const comera::data::Tokenizer& tokenizer, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    fmt::print("{}\n", fmt::join(tokenizer.encode(text.substr(0, end)), " "));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 4) {
    fmt::print(stderr, "usage: tokenize_file KIND STATE TEXT\n");
    return 2;
  }
  const std::string kind = arguments[1];
  const auto tokenizer = kind == "cased" || kind == "uncased"
                             ? comera::data::load_wordpiece(arguments[2], kind == "uncased")
                             : comera::data::load_tokenizer(kind, comera::read_file(arguments[2]));
  print_ids(*tokenizer, comera::read_file(arguments[3]));
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
