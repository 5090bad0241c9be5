#include "basket.h"

#include <string>

#include "gtest/gtest.h"

namespace shop {
namespace {

using namespace literals;

struct Fruit {
  std::string name;
  Money price;
};

class BasketTest : public testing::Test {
 protected:
  BasketTest() {
    basket_.Add({"apple", 40_ct}, 3);
    basket_.Add({"melon", 250_ct});
  }
  Basket<Fruit> basket_;
};

TEST_F(BasketTest, Total) { EXPECT_EQ(basket_.Total(), 370_ct); }

TEST_F(BasketTest, Take) {
  EXPECT_EQ(basket_.Take([](const Fruit& f) { return f.name == "apple"; }), 3);
  EXPECT_EQ(basket_.size(), 1);
  EXPECT_EQ(basket_.Total(), 250_ct);
}

}  // namespace
}  // namespace shop
