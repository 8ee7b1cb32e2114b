// JsonWriter: JSON text written from left to right, compact, keys in the order given.  Numbers are
// the shortest decimals that read back equal; a non-finite number becomes null.  (Reading is
// simdjson's.)
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace mt {

class JsonWriter {
 public:
  // A real number that is whole is written as 1, or as 1.0 for readers to whom 1 is an integer and
  // so of another type, as Python's are.
  enum class Wholes { plain, pointed };
  explicit JsonWriter(Wholes of_reals = Wholes::plain) : of_reals_(of_reals) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  // A key that is written already: a text, or another value, of which the key is made a text.
  JsonWriter& raw_key(std::string_view json);
  JsonWriter& value(std::string_view text);  // invalid UTF-8 is written as U+FFFD
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  // The shortest digits that are read as the number of its own type; null for one that is not
  // finite.
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  JsonWriter& value(std::integral auto number) { return raw(std::to_string(number)); }
  JsonWriter& null() { return raw("null"); }
  JsonWriter& raw(std::string_view json);  // a complete value, written as it is
  template <class T>
  JsonWriter& member(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  const std::string& text() const { return text_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  template <class T>
  JsonWriter& write_real(T number);
  Wholes of_reals_;
  std::string text_;
  bool comma_ = false;  // a value stands before the next one
};

}  // namespace mt
