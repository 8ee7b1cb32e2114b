#include "data/energon/metadataset.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "data/energon/energon_folder.h"
#include "text/chat/chat_value.h"
#include "text/yaml.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 16;        // of files that name each other
constexpr double kMostOften = 1e4;  // that a sample comes in an epoch
constexpr std::size_t kMostFolders = 10000;

struct Leaf {
  EnergonSource source;
  std::optional<double> weight = {};  // of a blend by weights
  bool is_repeated = false;           // of one by repetitions
};

// One file.
class Metadataset {
 public:
  Metadataset(const std::string& path, int depth) : path_(path), depth_(depth) {
    if (depth > kDeepest)
      fail(Exit::bad_data, path, ": more than ", kDeepest, " files that name each other");
    file_ = parse_yaml(read_regular_file(path), path);
    const ChatValue* const kind = file_.is_dict() ? file_.find("__class__") : nullptr;
    if (kind == nullptr || kind->text() == nullptr ||
        (*kind->text() != "MetadatasetV2" && *kind->text() != "Metadataset"))
      fail(Exit::bad_data, path, ": expected a __class__, MetadatasetV2 or Metadataset");
    splits_ = file_.find("splits");
    if (splits_ == nullptr || !splits_->is_dict())
      fail(Exit::bad_data, path, ": splits: expected a mapping");
  }

  bool has(const std::string& part) const { return splits_->has(part); }

  std::vector<Leaf> leaves(const std::string& part) const {
    if (!has(part)) fail(Exit::bad_data, path_, ": splits: has no ", part);
    const ChatValue& node = *splits_->find(part);
    const std::string place = concat(path_, ": ", part);
    if (!node.is_dict()) fail(Exit::bad_data, place, ": expected a mapping");
    for (const char* const list : {"blend", "datasets"})
      if (node.has(list)) return blend(node, list, part, place);
    if (node.has("blend_epochized")) return repeat(node, part, place);
    return of_reference(node, part, place, {});
  }

 private:
  [[noreturn]] static void refuse(const std::string& place, std::string_view what) {
    fail(Exit::bad_config, place, ": ", what,
         ": is not read here; expected blend, blend_epochized ",
         "or a path, with weight or repetitions, split_part, subflavors and ",
         "shuffle_over_epochs_multiplier");
  }

  // Refuses members of a mapping that are none of these.
  static void check_members(const ChatValue& node, std::initializer_list<std::string_view> known,
                            const std::string& place) {
    for (const auto& [name, value] : *node.pairs())
      if (name.text() == nullptr || std::ranges::find(known, *name.text()) == known.end())
        refuse(place, name.text() == nullptr ? "a name that is no text" : *name.text());
  }

  static double number_in(const ChatValue& node, const char* name, const std::string& place) {
    const ChatValue* const value = node.find(name);
    if (value == nullptr) return 1;
    double number = std::numeric_limits<double>::quiet_NaN();
    if (value->integer() != nullptr) number = static_cast<double>(*value->integer());
    if (value->real() != nullptr) number = *value->real();
    if (!(number >= 0 && std::isfinite(number)))
      fail(Exit::bad_data, place, ": ", name, ": expected a number, at least 0");
    return number;
  }

  const std::vector<ChatValue>& list_in(const ChatValue& node, const char* name,
                                        const std::string& place) const {
    check_members(node, {name}, place);
    const ChatValue& list = *node.find(name);
    if (!list.is_list() || list.items()->empty() ||
        !std::ranges::all_of(*list.items(), &ChatValue::is_dict))
      fail(Exit::bad_data, place, ": ", name, ": expected a list of mappings");
    return *list.items();
  }

  static void add(std::vector<Leaf>& all, Leaf leaf, const std::string& place) {
    if (all.size() == kMostFolders)
      fail(Exit::bad_data, place, ": more than ", kMostFolders, " folders");
    all.push_back(std::move(leaf));
  }

  std::vector<Leaf> blend(const ChatValue& node, const char* name, const std::string& part,
                          const std::string& place) const {
    const std::vector<ChatValue>& list = list_in(node, name, place);
    double sum = 0;
    for (const ChatValue& one : list) sum += number_in(one, "weight", place);
    if (!(sum > 0)) fail(Exit::bad_data, place, ": ", name, ": the weights are all 0");
    std::vector<Leaf> all;
    for (const ChatValue& one : list)
      for (Leaf& leaf : of_reference(one, part, place, "weight")) {
        if (leaf.is_repeated)
          fail(Exit::bad_data, place, ": ", name, ": ", leaf.source.folder,
               ": comes by repetitions, and here by weights");
        leaf.weight = leaf.weight.value_or(1) * number_in(one, "weight", place) / sum;
        add(all, std::move(leaf), place);
      }
    return all;
  }

  std::vector<Leaf> repeat(const ChatValue& node, const std::string& part,
                           const std::string& place) const {
    std::vector<Leaf> all;
    for (const ChatValue& one : list_in(node, "blend_epochized", place))
      for (Leaf& leaf : of_reference(one, part, place, "repetitions")) {
        if (leaf.weight)
          fail(Exit::bad_data, place, ": blend_epochized: ", leaf.source.folder,
               ": comes by weights, and here by repetitions");
        leaf.is_repeated = true;
        leaf.source.repetitions *= number_in(one, "repetitions", place);
        add(all, std::move(leaf), place);
      }
    return all;
  }

  std::vector<Leaf> of_reference(const ChatValue& node, const std::string& part,
                                 const std::string& place, std::string_view number) const {
    check_members(node,
                  {"path", "split_part", "subflavors", "shuffle_over_epochs_multiplier", number},
                  place);
    const auto text = [&](const char* name) {
      const ChatValue* const value = node.find(name);
      if (value == nullptr || value->text() == nullptr)
        fail(Exit::bad_data, place, ": ", name, ": expected a text");
      return *value->text();
    };
    if (const ChatValue* const flavors = node.find("subflavors");
        flavors != nullptr && flavors->is_dict())
      for (const char* const flavor : {"is_llava_training", "SplitByLine"})
        if (flavors->has(flavor)) refuse(place, concat("subflavors: ", flavor));
    const std::string named = node.has("split_part") ? text("split_part") : part,
                      path = (fs::path(path_).parent_path() / text("path")).string();
    if (EnergonFolder::is(path)) return {{.source = {.folder = path, .part = named}}};
    return Metadataset(path, depth_ + 1).leaves(named);
  }

  std::string path_;
  int depth_;
  ChatValue file_;
  const ChatValue* splits_ = nullptr;
};

double samples_of(const EnergonSource& source) {
  double samples = 0;
  for (const EnergonFolder::Shard& shard : EnergonFolder(source.folder).part(source.part))
    samples += static_cast<double>(shard.samples);
  return samples;
}

// Weights become repetitions.
void weigh(std::vector<Leaf>& leaves) {
  std::vector<double> often;
  for (const Leaf& leaf : leaves) {
    const double samples = samples_of(leaf.source);
    often.push_back(samples > 0 ? *leaf.weight / samples : 0);
  }
  double least = std::numeric_limits<double>::infinity();
  for (const double one : often)
    if (one > 0) least = std::min(least, one);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    leaves[i].source.repetitions = often[i] > 0 ? often[i] / least : 0;
}

void check_repetitions(const std::vector<Leaf>& leaves, const std::string& path) {
  for (const auto& [source, weight, is_repeated] : leaves)
    if (source.repetitions > kMostOften)
      fail(Exit::bad_data, path, ": ", source.folder, ": its samples would come ",
           source.repetitions, " times", is_repeated ? "" : " before others have come once",
           ", at most ", std::llround(kMostOften));
}

}  // namespace

bool names_energon(const std::string& path) {
  return EnergonFolder::is(path) || path.ends_with(".yaml") || path.ends_with(".yml");
}

std::vector<EnergonSource> energon_sources(const std::string& path, const std::string& part) {
  if (EnergonFolder::is(path)) return {{.folder = path, .part = part}};
  std::vector<Leaf> leaves = Metadataset(path, 1).leaves(part);
  if (part == "train" && leaves.front().weight) weigh(leaves);
  if (part == "train") check_repetitions(leaves, path);
  std::vector<EnergonSource> sources;
  for (Leaf& leaf : leaves) {
    if (part != "train") leaf.source.repetitions = 1;
    sources.push_back(std::move(leaf.source));
  }
  return sources;
}

bool has_energon_part(const std::string& path, const std::string& part) {
  if (EnergonFolder::is(path)) return EnergonFolder(path).has(part);
  return Metadataset(path, 1).has(part);
}

}  // namespace mt
