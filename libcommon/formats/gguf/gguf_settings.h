// GgufSettings: the key-values of a file that its architecture's name is in front of.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ckpt/gguf.h"

namespace mt {

class GgufSettings {
 public:
  // The file must outlive it.
  GgufSettings(const GgufReader& file, std::string_view architecture)
      : file_(file), architecture_(architecture) {}

  const GgufReader& file() const { return file_; }
  std::string own(std::string_view key) const { return concat(architecture_, ".", key); }
  bool has(std::string_view key) const { return file_.find_value(own(key)) != nullptr; }
  std::string where(std::string_view key) const { return concat(file_.path(), ": ", own(key)); }
  const GgufValue& value(std::string_view key) const { return file_.value(own(key)); }
  std::int64_t size(std::string_view key) const { return value(key).as_integer(where(key)); }
  std::int64_t size_or(std::string_view key, std::int64_t other) const {
    return has(key) ? size(key) : other;
  }
  double real(std::string_view key) const {
    const double number = value(key).as_real(where(key));
    if (!std::isfinite(number)) fail(Exit::bad_data, where(key), ": is not finite");
    return number;
  }
  // The decimal that was rounded to float32.
  std::string digits(std::string_view key) const {
    real(key);
    return value(key).json();
  }
  std::string text_or(std::string_view key, const char* other) const {
    return has(key) ? value(key).as_text(where(key)) : other;
  }
  bool flag_or(std::string_view key, bool other) const {
    return has(key) ? value(key).as_flag(where(key)) : other;
  }

 private:
  const GgufReader& file_;
  std::string architecture_;
};

// Writes such key-values.
class GgufSettingsWriter {
 public:
  GgufSettingsWriter(GgufKeyValues& to, std::string_view architecture)
      : to_(to), architecture_(architecture) {}

  void size(std::string_view key, std::int64_t value) {
    to_.integer(own(key), static_cast<std::uint32_t>(value));
  }
  void real(std::string_view key, double value) { to_.real(own(key), static_cast<float>(value)); }
  void flag(std::string_view key, bool value) { to_.flag(own(key), value); }
  void text(std::string_view key, std::string_view value) { to_.text(own(key), value); }

 private:
  std::string own(std::string_view key) const { return concat(architecture_, ".", key); }
  GgufKeyValues& to_;
  std::string architecture_;
};

}  // namespace mt
