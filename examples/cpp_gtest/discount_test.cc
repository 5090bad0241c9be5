#include "discount.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shop {
namespace {

using namespace literals;
using testing::ElementsAre;
using testing::NotNull;
using testing::Return;

TEST(Discount, Kinds) { EXPECT_THAT(Kinds(), ElementsAre("percent", "voucher")); }

TEST(Discount, Percent) {
  const auto discount = Make("percent", 10);
  ASSERT_THAT(discount, NotNull());
  EXPECT_EQ(discount->Apply(1000_ct), 900_ct);
  EXPECT_EQ(discount->Describe(), "10 % off");
}

TEST(Discount, Voucher) {
  const auto discount = Make("voucher", 500);
  ASSERT_THAT(discount, NotNull());
  EXPECT_EQ(discount->Apply(700_ct), 200_ct);
  EXPECT_EQ(discount->Apply(300_ct), Money());
  EXPECT_EQ(discount->Describe(), "discount");
}

TEST(Discount, NoSuchKind) { EXPECT_EQ(Make("luck", 1), nullptr); }

class MockDiscount : public Discount {
 public:
  MOCK_METHOD(Money, Apply, (Money), (const, override));
};

TEST(Discount, CanBeMocked) {
  MockDiscount mock;
  EXPECT_CALL(mock, Apply(7_ct)).WillOnce(Return(1_ct));
  const Discount& discount = mock;
  EXPECT_EQ(discount.Apply(7_ct), 1_ct);
}

}  // namespace
}  // namespace shop
