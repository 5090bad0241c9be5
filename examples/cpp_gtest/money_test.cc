#include "money.h"

#include <sstream>

#include "gtest/gtest.h"

namespace shop {
namespace {

using namespace literals;

static_assert(5_ct + 7_ct == 12_ct);

TEST(Money, Arithmetic) {
  EXPECT_EQ(3_ct * 4, 12_ct);
  EXPECT_LT(1_ct - 2_ct, Money());
  EXPECT_EQ((250_ct).Percent(10), 25_ct);
  EXPECT_EQ((5_ct).Percent(50), 3_ct);
}

TEST(Money, Printing) {
  std::ostringstream out;
  out << 1205_ct;
  EXPECT_EQ(out.str(), "12.05");
  EXPECT_EQ(Format(Money(-5)), "-0.05");
}

}  // namespace
}  // namespace shop
