// ShownSample: a sample of sentences as people and programs see it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/item_range.h"

namespace mt {

class JsonWriter;
class Tokenizer;

struct ShownSample {
  struct Fact {
    std::string_view name;
    std::int64_t value;
  };
  struct Field {  // as Megatron-LM's datasets have it, by its name
    std::string_view name;
    std::vector<std::int32_t> values;
  };
  struct Text {
    std::string_view name;
    std::string text;
  };
  std::string file;
  ItemRange sentences = {};
  std::string what;  // for people, after the sentences
  std::vector<Fact> facts = {};
  std::vector<Field> fields = {};
  std::vector<Text> texts = {};

  std::vector<std::string> lines() const;
  void write(JsonWriter& json) const;
};

// Exit::out_of_memory where one of so many fields of so many tokens each has no room.
void expect_room_for_fields(std::int64_t fields, std::int64_t tokens);

// The text of tokens; at those with a label, which is not negative, the label in braces behind.
std::string marked_text(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens,
                        std::span<const std::int32_t> labels = {});

}  // namespace mt
