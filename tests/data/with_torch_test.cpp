// This program links torch. Torch and the library libsentencepiece cannot share a process
// (sentencepiece_train.cpp says why), so training must work here without that library being loaded.
#include <comera/data/tokenizer.h>

#include <gtest/gtest.h>
#include <link.h>

#include <string>

namespace comera::data {
namespace {

bool is_loaded(const std::string& library) {
  struct Search {
    const std::string& library;
    bool found = false;
  } search{library};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& search = *static_cast<Search*>(data);
        search.found |= std::string(info->dlpi_name).find(search.library) != std::string::npos;
        return 0;
      },
      &search);
  return search.found;
}

TEST(TokenizerBesideTorch, TrainsAndLoads) {
  SentencePieceTrainer trainer({.vocabulary_size = 300});
  for (int i = 0; i < 100; ++i) trainer.add("def value" + std::to_string(i) + "(self): return self.value");
  const auto tokenizer = trainer.train();
  EXPECT_EQ(load_tokenizer("sentencepiece", tokenizer->state())->decode(tokenizer->encode("return value7")),
            "return value7");
  EXPECT_TRUE(is_loaded("libtorch_cpu"));
  EXPECT_FALSE(is_loaded("libsentencepiece"));
}

}  // namespace
}  // namespace comera::data
