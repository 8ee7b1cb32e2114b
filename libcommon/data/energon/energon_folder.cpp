#include "data/energon/energon_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "text/chat/chat_value.h"
#include "text/yaml.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNames = 1'000'000, kMostLetters = 4096;  // of a name with braces
constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;        // of a shard
constexpr auto kClasses = std::to_array<std::pair<EnergonType, const char*>>({
    {EnergonType::captioning, "CaptioningSample"},
    {EnergonType::vqa, "VQASample"},
    {EnergonType::multi_choice, "MultiChoiceVQASample"},
    {EnergonType::crude, "CrudeWebdataset"},
});

// The fields that a sample of a type must have, and those that it may have.
struct Fields {
  std::vector<std::string_view> needed, further;
};
Fields fields_of(EnergonType type) {
  if (type == EnergonType::captioning) return {{"image", "caption"}, {}};
  if (type == EnergonType::vqa) return {{"image", "context", "answers"}, {"answer_weights"}};
  if (type == EnergonType::multi_choice)
    return {{"image", "context", "choices", "correct_choice_idx"}, {}};
  return {};
}

// A file in .nv-meta, by its ending YAML or JSON; the first that is there.
struct Read {
  ChatValue value;
  std::string path;
};
Read read_meta(const std::string& folder, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const std::string path = concat(folder, "/", kEnergonMeta, "/", name);
    if (!fs::exists(path)) continue;
    const std::string text = read_regular_file(path);
    return {path.ends_with(".json") ? chat_value_of_json(text, path) : parse_yaml(text, path),
            path};
  }
  fail(Exit::no_input, folder, "/", kEnergonMeta, "/", *names.begin(), ": there is no such file");
}

const ChatValue::Pairs& members_of(const ChatValue& value, const std::string& place) {
  if (!value.is_dict()) fail(Exit::bad_data, place, ": expected a mapping");
  return *value.pairs();
}

const std::string& text_in(const ChatValue& value, const std::string& place) {
  if (value.text() == nullptr) fail(Exit::bad_data, place, ": expected a text");
  return *value.text();
}

// Returns the names of a list, braces expanded.  `before`: how many the lists in front of it have,
// which count towards the most that a folder may have.
std::vector<std::string> names_in(const ChatValue& list, const std::string& place,
                                  std::size_t before = 0) {
  if (!list.is_list()) fail(Exit::bad_data, place, ": expected a list of names");
  std::vector<std::string> names;
  for (const ChatValue& one : *list.items())
    for (std::string& name : expand_braces(text_in(one, place), place)) {
      names.push_back(std::move(name));
      if (before + names.size() > kMostNames)
        fail(Exit::bad_data, place, ": more than a million names");
    }
  return names;
}

// "{A..B}" with as many digits as the longer of both has, where one begins with 0.
std::optional<std::vector<std::string>> numbers_of(std::string_view inside,
                                                   std::string_view place) {
  const std::size_t dots = inside.find("..");
  if (dots == inside.npos) return {};
  const std::array ends = {inside.substr(0, dots), inside.substr(dots + 2)};
  std::array<std::int64_t, 2> numbers{};
  bool padded = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto [end, error] =
        std::from_chars(ends[i].data(), ends[i].data() + ends[i].size(), numbers[i]);
    if (error != std::errc() || end != ends[i].data() + ends[i].size()) return {};
    padded = padded || (ends[i].size() > 1 && ends[i][0] == '0');
  }
  const std::size_t width = padded ? std::max(ends[0].size(), ends[1].size()) : 0;
  if (numbers[0] < 0 || numbers[1] < 0 ||
      std::abs(numbers[1] - numbers[0]) >= std::int64_t{kMostNames})
    fail(Exit::bad_data, place, ": {", inside, "}: expected at most a million numbers");
  std::vector<std::string> texts;
  const std::int64_t step = numbers[0] <= numbers[1] ? 1 : -1;
  for (std::int64_t n = numbers[0];; n += step) {
    const std::string digits = std::to_string(n);
    texts.push_back(std::string(width > digits.size() ? width - digits.size() : 0, '0') + digits);
    if (n == numbers[1]) return texts;
  }
}

// Where the brace that opens at `open` closes, and the commas of its own; npos: nowhere.
std::size_t close_of(std::string_view text, std::size_t open, std::vector<std::size_t>& commas) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == ',' && depth == 1) commas.push_back(i);
    if (text[i] == '}' && --depth == 0) return i;
  }
  return text.npos;
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view text, std::string_view place) {
  if (text.size() > kMostLetters)
    fail(Exit::bad_data, place, ": a name of ", text.size(), " bytes, expected at most ",
         kMostLetters);
  if (std::ranges::count(text, '{') > 64)
    fail(Exit::bad_data, place, ": more than 64 braces in a name");
  for (std::size_t open = text.find('{'); open != text.npos; open = text.find('{', open + 1)) {
    std::vector<std::size_t> commas;
    const std::size_t close = close_of(text, open, commas);
    if (close == text.npos) fail(Exit::bad_data, place, ": ", text, ": a brace is not closed");
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    std::vector<std::string> middles;
    if (commas.empty()) {
      auto numbers = numbers_of(inside, place);
      if (!numbers) continue;
      middles = std::move(*numbers);
    } else {
      std::size_t begin = open + 1;
      commas.push_back(close);
      for (const std::size_t comma : commas) {
        for (std::string& one : expand_braces(text.substr(begin, comma - begin), place))
          middles.push_back(std::move(one));
        if (middles.size() > kMostNames) break;  // which is refused below
        begin = comma + 1;
      }
    }
    const std::vector<std::string> ends = expand_braces(text.substr(close + 1), place);
    if (middles.size() * ends.size() > kMostNames)
      fail(Exit::bad_data, place, ": more than a million names");
    std::vector<std::string> all;
    for (const std::string& middle : middles)
      for (const std::string& end : ends) all.push_back(concat(text.substr(0, open), middle, end));
    return all;
  }
  return {std::string(text)};
}

std::optional<EnergonName> energon_name(std::string_view member) {
  if (member.starts_with("__")) {
    const std::string_view first = member.substr(0, member.find('/'));
    if (first.size() >= 4 && first.ends_with("__")) return {};
  }
  const std::size_t slash = member.rfind('/'), begin = slash == member.npos ? 0 : slash + 1;
  const std::size_t point = member.find('.', begin);
  if (point == member.npos || point == begin) return {};
  return EnergonName{member.substr(0, point), member.substr(point + 1)};
}

bool climbs_out(std::string_view name) {
  return name.starts_with('/') || concat("/", name, "/").find("/../") != std::string::npos;
}

const char* energon_class(EnergonType type) {
  return std::ranges::find(kClasses, type, &std::pair<EnergonType, const char*>::first)->second;
}

EnergonField EnergonField::of(std::string_view text, std::string_view place) {
  EnergonField field;
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const std::string_view whole = one;
    Place from{std::string(one.substr(0, one.find('['))), {}};
    one.remove_prefix(from.part.size());
    while (one.starts_with('[') && one.find(']') != one.npos) {
      const std::size_t end = one.find(']');
      from.path.emplace_back(one.substr(1, end - 1));
      one.remove_prefix(end + 1);
    }
    if (!one.empty()) fail(Exit::bad_config, place, ": ", whole, ": expected PART[NAME][NAME]");
    field.places.push_back(std::move(from));
  }
  return field;
}

bool EnergonFolder::is(const std::string& path) {
  std::error_code none;
  return fs::is_directory(concat(path, "/", kEnergonMeta), none);
}

EnergonFolder::EnergonFolder(const std::string& path) : path_(path) {
  read_info();
  read_splits();
  read_type();
}

void EnergonFolder::read_info() {
  const auto [info, place] = read_meta(path_, {".info.json", ".info.yaml"});
  const ChatValue* const counts = info.find("shard_counts");
  if (counts == nullptr) fail(Exit::bad_data, place, ": has no shard_counts");
  std::set<std::string> names;
  for (const auto& [name, count] : members_of(*counts, place + ": shard_counts")) {
    if (name.text() == nullptr || count.integer() == nullptr || *count.integer() < 0 ||
        *count.integer() > kMostSamples)
      fail(Exit::bad_data, place, ": shard_counts: expected numbers of samples");
    if (climbs_out(*name.text()))
      fail(Exit::bad_data, place, ": ", *name.text(), ": a name that leaves the folder");
    if (!names.insert(*name.text()).second)
      fail(Exit::bad_data, place, ": ", *name.text(), ": twice");
    shards_.push_back({*name.text(), *count.integer()});
  }
}

void EnergonFolder::read_splits() {
  const auto [splits, place] = read_meta(path_, {"split.yaml", "split.json"});
  const ChatValue* const parts = splits.find("split_parts");
  if (parts == nullptr) fail(Exit::bad_data, place, ": has no split_parts");
  if (splits.has("exclude"))
    for (std::string& name : names_in(*splits.find("exclude"), place + ": exclude"))
      excluded_.insert(std::move(name));
  std::size_t names = 0;
  for (const auto& [key, list] : members_of(*parts, place + ": split_parts")) {
    const std::string& name = text_in(key, place + ": split_parts");
    part_names_.push_back(name);
    parts_[name] = names_in(list, concat(place, ": ", name), names);
    names += parts_[name].size();
    std::erase_if(parts_[name],
                  [&](const std::string& shard) { return excluded_.contains(shard); });
  }
}

void EnergonFolder::read_type() {
  const auto [dataset, place] = read_meta(path_, {"dataset.yaml"});
  const auto refuse = [&place = place](const auto&... parts) {
    fail(Exit::bad_config, place, ": ", parts...);
  };
  const ChatValue* const sample = dataset.find("sample_type");
  const ChatValue& named = sample == nullptr ? dataset : *sample;
  const ChatValue* const name = named.find("__class__");
  if (name == nullptr || name->text() == nullptr) refuse("has no sample_type with a __class__");
  // Before sample_type there were CaptioningWebdataset and so on.
  std::string wanted = *name->text();
  if (sample == nullptr && wanted.ends_with("Webdataset") && wanted != "CrudeWebdataset")
    wanted.replace(wanted.size() - 10, 10, "Sample");
  const auto found =
      std::ranges::find_if(kClasses, [&](const auto& one) { return wanted == one.second; });
  if (found == kClasses.end())
    refuse(*name->text(),
           ": expected CaptioningSample, VQASample, MultiChoiceVQASample or CrudeWebdataset");
  type_ = found->first;
  if (dataset.has("sample_loader"))
    refuse("sample_loader: is a program in Python; expected field_map, or CrudeWebdataset");
  const Fields fields = fields_of(type_);
  if (dataset.has("field_map"))
    for (const auto& [field, from] :
         members_of(*dataset.find("field_map"), place + ": field_map")) {
      const std::string& one = text_in(field, place + ": field_map");
      if (std::ranges::count(fields.needed, one) + std::ranges::count(fields.further, one) == 0)
        refuse("field_map: ", one, ": is no field of ", wanted);
      const std::string where = concat(place, ": field_map: ", one);
      fields_[one] = EnergonField::of(text_in(from, where), where);
    }
  for (const std::string_view one : fields.needed)
    if (!fields_.contains(std::string(one))) refuse("field_map: has no ", one);
}

std::vector<EnergonFolder::Shard> EnergonFolder::part(const std::string& name) const {
  const std::string place = concat(path_, "/", kEnergonMeta);
  if (!has(name)) fail(Exit::bad_data, place, "/split.yaml: has no shards for ", name);
  std::vector<Shard> shards;
  std::map<std::string, std::int64_t> counts;
  for (const Shard& shard : shards_) counts[shard.name] = shard.samples;
  for (const std::string& shard : parts_.at(name)) {
    if (!counts.contains(shard))
      fail(Exit::bad_data, place, "/split.yaml: ", name, ": ", shard,
           ": is no shard of .info.json");
    shards.push_back({shard, counts[shard]});
  }
  return shards;
}

}  // namespace mt
