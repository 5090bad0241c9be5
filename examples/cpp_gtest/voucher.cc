#include <algorithm>

#include "discount.h"

namespace shop {
namespace {

// A fixed amount off, but never more than there is to pay.
class Voucher final : public Discount {
 public:
  explicit Voucher(int cents) : value_(cents) {}
  Money Apply(Money total) const override { return std::max(Money(), total - value_); }

 private:
  Money value_;
};

const Kind voucher("voucher", [](int n) -> std::unique_ptr<Discount> { return std::make_unique<Voucher>(n); });

}  // namespace
}  // namespace shop
