#include <string>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "money.h"

namespace shop {
namespace {

class ParseTest : public testing::TestWithParam<std::pair<std::string_view, long>> {};

TEST_P(ParseTest, ReadsAmounts) {
  const auto [text, cents] = GetParam();
  EXPECT_EQ(Parse(text).cents(), cents);
}

INSTANTIATE_TEST_SUITE_P(Amounts, ParseTest,
                         testing::Values(std::pair{"0", 0L}, std::pair{"12.50", 1250L}, std::pair{"3.5", 350L},
                                         std::pair{"-7.01", -701L}));

class BadAmountTest : public testing::TestWithParam<std::string_view> {};

TEST_P(BadAmountTest, Throws) {
  try {
    Parse(GetParam());
    FAIL() << "no exception";
  } catch (const BadAmount& e) {
    EXPECT_EQ(e.what(), "no amount of money: " + std::string(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, BadAmountTest, testing::Values("", "-", ".5", "1.", "1.234", "one", "1.2.3"));

}  // namespace
}  // namespace shop
