#include "post/preferences/reference.h"

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"

namespace mt {

static std::string path_in(const std::string& folder) { return folder + "/reference.json"; }

void Reference::write(const std::string& folder, const std::string& hash) const {
  JsonWriter json;
  json.begin_object().member("schema", "mt-reference/1").member("data", hash);
  const auto numbers = [&](const char* name, const std::vector<double>& all) {
    json.key(name).begin_array();
    for (const double number : all) json.value(number);
    json.end_array();
  };
  numbers("train", train);
  numbers("valid", valid);
  write_file_atomically(path_in(folder), json.end_object().text() + "\n", true);
}

static std::vector<double> numbers_of(const JsonObject& object, const char* name,
                                      std::size_t count) {
  std::vector<double> numbers;
  simdjson::dom::array items;
  if (object.member(name).get(items)) object.refuse("\"", name, "\": expected a list of numbers");
  for (const simdjson::dom::element item : items)
    if (item.get(numbers.emplace_back()))
      object.refuse("\"", name, "\": expected a list of numbers");
  if (numbers.size() != count)
    object.refuse("\"", name, "\": ", numbers.size(), " numbers, expected ", count);
  return numbers;
}

// Calls body(object) with a folder's, which must have this schema.
template <class Body>
static void read_object(const std::string& folder, const char* schema, const Body& body) {
  const std::string path = path_in(folder), text = read_file(path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, text).get(root)) fail_json(text, path, error);
  const JsonObject object(root, path);
  if (object.text_or("schema", "") != schema) object.refuse("is no such reference of mt-finetune");
  body(object);
}

void Reference::read(const std::string& folder, const std::string& hash) {
  read_object(folder, "mt-reference/1", [&](const JsonObject& object) { take(object, hash); });
}

void Reference::take(const JsonObject& object, const std::string& hash) {
  if (object.text("data") != hash)
    object.refuse("is of other samples than this run's; go on with the data and options of before");
  train = numbers_of(object, "train", train.size());
  valid = numbers_of(object, "valid", valid.size());
}

void write_reference_model(const std::string& folder, const std::string& path) {
  JsonWriter json;
  json.begin_object()
      .member("schema", "mt-reference/2")
      .member("model", std::filesystem::absolute(path).lexically_normal().string());
  write_file_atomically(path_in(folder), json.end_object().text() + "\n", true);
}

std::string read_reference_model(const std::string& folder) {
  std::string path;
  read_object(folder, "mt-reference/2",
              [&](const JsonObject& object) { path = object.text("model"); });
  return path;
}

std::string hash_of(const Packed& train, const Packed* valid) {
  Hasher hasher;
  const auto add = [&](const auto& numbers) {
    hasher.update(Bytes(reinterpret_cast<const std::byte*>(numbers.data()),
                        numbers.size() * sizeof numbers[0]));
  };
  for (const Packed* const packed : {&train, valid}) {
    if (packed == nullptr) continue;
    for (const Bin& bin : packed->bins) {
      for (const Piece& piece : bin) {
        const Example& example = packed->examples[piece.text];
        add(example.ids);
        add(std::vector<char>(example.learnt.begin(), example.learnt.end()));
      }
      add(std::vector<std::int64_t>{std::ssize(bin)});
    }
  }
  return hasher.hex();
}

}  // namespace mt
