#ifndef CPP_GTEST_BASKET_H_
#define CPP_GTEST_BASKET_H_

#include <concepts>
#include <utility>
#include <vector>

#include "money.h"

namespace shop {

template <class T>
concept Priced = requires(const T& item) {
  { item.price } -> std::convertible_to<Money>;
};

// A basket holds items with a price, and how many of each.
template <Priced Item>
class Basket {
 public:
  void Add(Item item, int count = 1) { lines_.emplace_back(std::move(item), count); }

  // Take removes the items for which the predicate holds, and returns their number.
  template <std::predicate<const Item&> P>
  int Take(P&& predicate) {
    int taken = 0;
    std::erase_if(lines_, [&](const auto& line) {
      if (!predicate(line.first)) return false;
      taken += line.second;
      return true;
    });
    return taken;
  }

  Money Total() const {
    Money total;
    for (const auto& [item, count] : lines_) total += item.price * count;
    return total;
  }

  int size() const {
    int n = 0;
    for (const auto& line : lines_) n += line.second;
    return n;
  }

 private:
  std::vector<std::pair<Item, int>> lines_;
};

}  // namespace shop

#endif  // CPP_GTEST_BASKET_H_
