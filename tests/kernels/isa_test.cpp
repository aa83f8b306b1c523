#include <comera/base/error.h>
#include <comera/kernels/isa.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

using namespace comera;

TEST(Isa, ScalarIsAlwaysThereAndTheChoiceIsAvailable) {
  const auto names = kernels::available_isas();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "scalar");
  EXPECT_EQ(std::count(names.begin(), names.end(), kernels::isa()), 1);
  const char* wanted = std::getenv("COMERA_ISA");
  EXPECT_EQ(kernels::isa(), wanted ? wanted : names.front());
}

// The environment is read once, so a foreign name needs a process of its own.
TEST(IsaDeathTest, RefusesWhatTheMachineLacksAndNamesWhatItHas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("COMERA_ISA", "altivec", 1);
        try {
          kernels::isa();
        } catch (const Error& error) {
          std::fputs(error.what(), stderr);
          std::exit(3);
        }
      },
      testing::ExitedWithCode(3), "COMERA_ISA is 'altivec'; this machine can run .*scalar");
}
