#include "base/parquet/scalars.h"

#include <array>
#include <bit>
#include <cstdio>

#include "base/half.h"
#include "base/utf8.h"

namespace mt::parquet {
namespace {

constexpr std::int64_t kSecondsOfDay = 86400;

std::int64_t floor_divided(std::int64_t number, std::int64_t by) {
  return number / by - (number % by < 0 ? 1 : 0);
}

// The Gregorian date of a day since 1970, for years of any number (Howard Hinnant,
// chrono-Compatible Low-Level Date Algorithms, civil_from_days).
std::string date_text(std::int64_t day) {
  constexpr std::int64_t kEra = 146097, kToMarchOfYear0 = 719468;  // days
  day += kToMarchOfYear0;
  const std::int64_t era = floor_divided(day, kEra), of_era = day - era * kEra;
  const std::int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const std::int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
  const std::int64_t march = (5 * of_year + 2) / 153;  // months since March
  const std::int64_t month = march < 10 ? march + 3 : march - 9;
  std::array<char, 40> text;
  const int size = std::snprintf(text.data(), text.size(), "%04lld-%02lld-%02lld",
                                 static_cast<long long>(year + era * 400 + (month <= 2 ? 1 : 0)),
                                 static_cast<long long>(month),
                                 static_cast<long long>(of_year - (153 * march + 2) / 5 + 1));
  return {text.data(), static_cast<std::size_t>(size)};
}

// Of `units` since midnight, with as many digits behind the seconds as units have.
std::string time_text(std::int64_t units, std::int64_t a_second) {
  std::array<char, 64> text;
  const std::int64_t seconds = floor_divided(units, a_second);
  const int digits = a_second == 1000 ? 3 : a_second == 1000000 ? 6 : 9;
  const int size =
      std::snprintf(text.data(), text.size(), "%02lld:%02lld:%02lld.%0*lld",
                    static_cast<long long>(seconds / 3600),
                    static_cast<long long>(seconds / 60 % 60), static_cast<long long>(seconds % 60),
                    digits, static_cast<long long>(units - seconds * a_second));
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string moment_text(std::int64_t day, std::int64_t units, std::int64_t a_second, bool is_utc) {
  return date_text(day) + "T" + time_text(units, a_second) + (is_utc ? "Z" : "");
}

std::string timestamp_text(const Leaf& leaf, std::int64_t units) {
  const std::int64_t of_day = kSecondsOfDay * leaf.a_second, day = floor_divided(units, of_day);
  return moment_text(day, units - day * of_day, leaf.a_second, leaf.is_utc);
}

// Eight bytes of nanoseconds since midnight and four of the Julian day.
std::string old_timestamp_text(const Cell& cell) {
  constexpr std::int64_t kDayOf1970 = 2440588, kNanoseconds = 1000000000;
  std::int64_t nanoseconds = 0;
  std::uint32_t day = 0;
  std::memcpy(&nanoseconds, cell.bytes, sizeof nanoseconds);
  std::memcpy(&day, cell.bytes + sizeof nanoseconds, sizeof day);
  const std::int64_t of_day = kSecondsOfDay * kNanoseconds;
  const std::int64_t days = floor_divided(nanoseconds, of_day);
  return moment_text(day - kDayOf1970 + days, nanoseconds - days * of_day, kNanoseconds, false);
}

// The digits of a number of two's complement whose highest byte comes first.
std::string decimal_digits(std::string_view bytes) {
  std::string digits;  // the lowest first
  std::string number(bytes);
  const bool is_negative = !number.empty() && (static_cast<unsigned char>(number[0]) & 0x80) != 0;
  if (is_negative) {
    int carry = 1;
    for (std::size_t i = number.size(); i-- > 0;) {
      carry += static_cast<unsigned char>(~number[i]);
      number[i] = static_cast<char>(carry);
      carry >>= 8;
    }
  }
  for (bool is_zero = false; !is_zero;) {
    is_zero = true;
    unsigned rest = 0;
    for (char& byte : number) {
      rest = rest << 8 | static_cast<unsigned char>(byte);
      byte = static_cast<char>(rest / 10);
      is_zero &= byte == 0;
      rest %= 10;
    }
    digits += static_cast<char>('0' + rest);
  }
  if (is_negative) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

std::string decimal_text(std::string digits, int scale) {
  const bool is_negative = digits.starts_with('-');
  if (is_negative) digits.erase(0, 1);
  const auto behind = static_cast<std::size_t>(scale);
  if (digits.size() <= behind) digits.insert(0, behind + 1 - digits.size(), '0');
  if (behind > 0) digits.insert(digits.size() - behind, ".");
  return (is_negative ? "-" : "") + digits;
}

std::string uuid_text(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

void write_number(JsonWriter& json, const Leaf& leaf, std::int64_t number) {
  switch (leaf.stored) {
    case Stored::truth:
      json.value(number != 0);
      return;
    case Stored::real:
      json.value(std::bit_cast<float>(static_cast<std::uint32_t>(number)));
      return;
    case Stored::wide_real:
      json.value(std::bit_cast<double>(number));
      return;
    default:
      json.value(number);
      return;
  }
}

}  // namespace

bool write_cell(JsonWriter& json, const Leaf& leaf, const Cell& cell) {
  const bool is_bytes = leaf.stored == Stored::bytes || leaf.stored == Stored::fixed_bytes;
  switch (leaf.meaning) {
    case Meaning::text:
      if (!is_valid_utf8(cell.text())) return false;
      json.value(cell.text());
      break;
    case Meaning::without_sign:
      if (leaf.stored == Stored::int32)
        json.value(static_cast<std::uint32_t>(cell.number));
      else
        json.value(static_cast<std::uint64_t>(cell.number));
      break;
    case Meaning::decimal:
      json.raw(decimal_text(is_bytes ? decimal_digits(cell.text()) : std::to_string(cell.number),
                            leaf.scale));
      break;
    case Meaning::date:
      json.value(date_text(cell.number));
      break;
    case Meaning::time:
      json.value(time_text(cell.number, leaf.a_second));
      break;
    case Meaning::timestamp:
      json.value(timestamp_text(leaf, cell.number));
      break;
    case Meaning::old_timestamp:
      json.value(old_timestamp_text(cell));
      break;
    case Meaning::uuid:
      json.value(uuid_text(cell.text()));
      break;
    case Meaning::half: {
      Fp16 half;
      std::memcpy(&half.bits, cell.bytes, sizeof half.bits);
      json.value(static_cast<float>(half));
      break;
    }
    case Meaning::number:
      write_number(json, leaf, cell.number);
      break;
    case Meaning::other:
      json.null();
      break;
  }
  return true;
}

}  // namespace mt::parquet
