#include "discount.h"

namespace shop {
namespace {

// So many percent off.
class Percent final : public Discount {
 public:
  explicit Percent(int percent) : percent_(percent) {}
  Money Apply(Money total) const override { return total - total.Percent(percent_); }
  std::string Describe() const override { return std::to_string(percent_) + " % off"; }

 private:
  int percent_;
};

const Kind percent("percent", [](int n) -> std::unique_ptr<Discount> { return std::make_unique<Percent>(n); });

}  // namespace
}  // namespace shop
