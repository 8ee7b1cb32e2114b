#include "data/samples/data_sources.h"

#include <simdjson.h>

#include <algorithm>
#include <sstream>

#include "base/command.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_parse.h"

namespace mt {
namespace {

constexpr const char* kDefaultSplit = "969, 30, 1";
constexpr const char* kPathOptions[] = {"--train-data-path", "--valid-data-path",
                                        "--test-data-path"};
constexpr const char* kKeys[] = {"train", "valid", "test"};

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// A list of strings, a text of words, or null.
std::vector<std::string> words_of(const std::string& path, const char* key,
                                  simdjson::dom::element value) {
  std::string_view text;
  if (value.is_null()) return {};
  if (value.get(text) == simdjson::SUCCESS) return words_of(text);
  std::vector<std::string> words;
  simdjson::dom::array list;
  bool strings = value.get(list) == simdjson::SUCCESS;
  if (strings)
    for (const simdjson::dom::element word : list) {
      strings &= word.get(text) == simdjson::SUCCESS;
      words.emplace_back(text);
    }
  if (!strings)
    fail(Exit::bad_data, path, ": \"", key, "\": expected a list of strings, a string or null");
  return words;
}

void read_per_split_file(const std::string& path, DataSources& sources) {
  const std::string content = read_file(path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, content).get(root))
    fail_json(content, path, error, "an object of lists");
  simdjson::dom::object object;
  if (root.get(object)) fail(Exit::bad_data, path, ": expected a JSON object");
  for (int i = 0; i < kSplits; ++i) {
    simdjson::dom::element value;
    if (object[kKeys[i]].get(value) != simdjson::SUCCESS)
      fail(Exit::bad_data, path, ": \"", kKeys[i],
           "\" is missing, expected it to be null at least");
    const std::vector<std::string> words = words_of(path, kKeys[i], value);
    if (!words.empty()) sources.split_blends[i] = parse_blend(concat(path, ": ", kKeys[i]), words);
  }
}

bool any_split_path(const DataSourceOptions& o) {
  return std::ranges::any_of(o.split_paths, [](const auto& words) { return !words.empty(); });
}

// The names of the sources that are given.
std::vector<std::string> given_sources(const DataSourceOptions& o) {
  std::vector<std::string> names;
  if (!o.data_path.empty()) names.push_back("--data-path");
  if (!o.data_args_path.empty()) names.push_back("--data-args-path");
  for (int i = 0; i < kSplits; ++i)
    if (!o.split_paths[i].empty()) {
      names.push_back(kPathOptions[i]);
      break;  // they are one source
    }
  if (!o.per_split_data_args_path.empty()) names.push_back("--per-split-data-args-path");
  if (o.mock_data) names.push_back("--mock-data");
  return names;
}

}  // namespace

void DataSourceOptions::add_to(CommandLine& cl) {
  cl.option("--data-path", &data_path, "PREFIX",
            "token files PREFIX.bin, PREFIX.idx: one, or several to blend by their sizes, or a "
            "weight before each");
  cl.option("--train-data-path", &split_paths[0], "PREFIX", "the same, of training alone");
  cl.option("--valid-data-path", &split_paths[1], "PREFIX", "the same, of validation alone");
  cl.option("--test-data-path", &split_paths[2], "PREFIX", "the same, of test alone");
  cl.option("--data-args-path", &data_args_path, "FILE", "what --data-path would be given");
  cl.option("--per-split-data-args-path", &per_split_data_args_path, "FILE",
            "JSON object of train, valid and test: lists of what their options would be given");
  cl.flag("--mock-data", &mock_data, "made-up text instead of token files");
  cl.option("--split", &split, "A,B,C",
            concat("shares of training, validation and test; default with --data-path ",
                   kDefaultSplit, "; --mock-data is divided evenly all the same"));
}

bool names_a_source(const DataSourceOptions& options) { return !given_sources(options).empty(); }

DataSources read_sources(const DataSourceOptions& o) {
  const std::vector<std::string> given = given_sources(o);
  if (given.empty()) fail(Exit::usage, "--data-path: required, or another source of data");
  if (given.size() > 1)
    fail(Exit::usage, given[0], ", ", given[1], ": expected a single source of data");
  const bool per_split = any_split_path(o) || !o.per_split_data_args_path.empty();
  if (o.split && per_split) fail(Exit::usage, "--split: divides --data-path, not ", given[0]);

  DataSources sources;
  sources.mock = o.mock_data;
  sources.split_option = o.split_option;
  sources.split_is_default = !o.split;
  sources.split = o.mock_data ? "1,1,1" : o.split.value_or(kDefaultSplit);
  if (!o.data_path.empty()) sources.blend = parse_blend("--data-path", o.data_path);
  if (!o.data_args_path.empty()) {
    if (!o.split) fail(Exit::usage, "--data-args-path: needs --split");
    sources.blend = parse_blend(o.data_args_path, words_of(read_file(o.data_args_path)));
  }
  for (int i = 0; i < kSplits; ++i)
    if (!o.split_paths[i].empty())
      sources.split_blends[i] = parse_blend(kPathOptions[i], o.split_paths[i]);
  if (!o.per_split_data_args_path.empty()) read_per_split_file(o.per_split_data_args_path, sources);
  if (per_split && !sources.split_blends[0])
    fail(Exit::usage, given[0], ": names nothing to train on, expected ", kPathOptions[0],
         " or \"train\"");
  return sources;
}

std::vector<std::string> DataSources::prefixes() const {
  std::vector<std::string> result;
  const auto add = [&](const std::optional<Blend>& from) {
    if (!from) return;
    for (const std::string& prefix : from->prefixes)
      if (!std::ranges::count(result, prefix)) result.push_back(prefix);
  };
  add(blend);
  for (const auto& part : split_blends) add(part);
  return result;
}

}  // namespace mt
