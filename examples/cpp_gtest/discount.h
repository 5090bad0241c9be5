#ifndef CPP_GTEST_DISCOUNT_H_
#define CPP_GTEST_DISCOUNT_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "money.h"

namespace shop {

// A discount is a rule that lowers a price.
class Discount {
 public:
  virtual ~Discount() = default;
  virtual Money Apply(Money total) const = 0;
  virtual std::string Describe() const { return "discount"; }
};

// A kind of discount registers itself under a name, and whoever links it has it.
class Kind {
 public:
  using Factory = std::unique_ptr<Discount> (*)(int);
  Kind(std::string name, Factory factory);
};

// Make makes a discount of a registered kind; null if there is no such kind.
std::unique_ptr<Discount> Make(std::string_view kind, int argument);

// Kinds lists the registered kinds, sorted.
std::vector<std::string> Kinds();

}  // namespace shop

#endif  // CPP_GTEST_DISCOUNT_H_
