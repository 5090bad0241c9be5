#ifndef CPP_GTEST_MONEY_H_
#define CPP_GTEST_MONEY_H_

#include <compare>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>

namespace shop {

// An amount of money, in cents.
class Money {
 public:
  constexpr Money() = default;
  constexpr explicit Money(long cents) : cents_(cents) {}

  constexpr long cents() const { return cents_; }

  constexpr Money& operator+=(Money other) {
    cents_ += other.cents_;
    return *this;
  }
  friend constexpr Money operator+(Money a, Money b) { return a += b; }
  friend constexpr Money operator-(Money a, Money b) { return Money(a.cents_ - b.cents_); }
  friend constexpr Money operator*(Money a, long n) { return Money(a.cents_ * n); }
  friend constexpr auto operator<=>(Money, Money) = default;

  // A share of the amount, rounded half up.
  constexpr Money Percent(int percent) const { return Money((cents_ * percent + 50) / 100); }

 private:
  long cents_ = 0;
};

// What Parse throws.
class BadAmount : public std::invalid_argument {
 public:
  explicit BadAmount(std::string_view text);
};

// Parse reads an amount such as "12.50" or "-3".
Money Parse(std::string_view text);

// Format is the opposite of Parse, always with two digits behind the point.
std::string Format(Money money);

std::ostream& operator<<(std::ostream& out, Money money);

namespace literals {
constexpr Money operator""_ct(unsigned long long cents) { return Money(static_cast<long>(cents)); }
}  // namespace literals

}  // namespace shop

#endif  // CPP_GTEST_MONEY_H_
