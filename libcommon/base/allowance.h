// Allowance: the memory that what a file says may take, which is what the file has and a little
// more.  Readers take from it what they are about to allocate; a file that wants more is refused
// before it has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mt {

class Allowance {
 public:
  // With the program itself, and what allocators need beside what is asked for, 64 MiB.
  static constexpr std::uint64_t kMore = 44 << 20;

  explicit Allowance(std::uint64_t file_bytes) : left_(file_bytes + kMore) {}

  // Exit::bad_data if there is not so much left.
  void take(std::uint64_t bytes, const std::string& name);
  // What simdjson's parser makes of a text, if this has objects and arrays wherever they could be.
  void take_json(std::string_view text, const std::string& name);
  void give_back(std::uint64_t bytes) { left_ += bytes; }

 private:
  std::uint64_t left_;
};

}  // namespace mt
