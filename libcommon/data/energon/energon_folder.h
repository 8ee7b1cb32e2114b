// EnergonFolder: a folder of samples of images and text in tar files, shards, as Megatron-Energon
// prepares it:
//   .nv-meta/.info.json    {"shard_counts":{"shard_0.tar":3}}: how many samples; or .info.yaml
//   .nv-meta/split.yaml    split_parts: {train: ["shard_{0..8}.tar"], val: [...]}, exclude: [...];
//                          or split.json
//   .nv-meta/dataset.yaml  what a sample is: sample_type: {__module__: megatron.energon,
//                          __class__: VQASample}, and field_map: {image: jpg,png, context: txt,
//                          answers: json[answers]}; or __class__: CrudeWebdataset
//   shard_0.tar            of a sample some files, one behind the other: KEY.jpg, KEY.json
//   shard_0.tar.idx        u64, little-endian: where each sample begins, and where the last ends
// What else is there (.nv-meta/index.sqlite, by which Energon joins folders) is not needed to read
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

inline constexpr const char* kEnergonMeta = ".nv-meta";

// What a sample is for, by its class.
enum class EnergonType : std::uint8_t {
  captioning,    // image, caption
  vqa,           // image, context, answers, answer_weights
  multi_choice,  // image, context, choices, correct_choice_idx
  crude,         // a line of training data in its .json, and its images
};
const char* energon_class(EnergonType type);

// Where a field of a sample comes from: a file of it by its ending, and of JSON what is in it.
struct EnergonField {
  struct Place {
    std::string part;
    std::vector<std::string> path;
  };
  std::vector<Place> places;  // the first that is there

  // A text is as "jpg,png" or "json[0][value]"; Exit::bad_config, from `place` on, for others.
  static EnergonField of(std::string_view text, std::string_view place);
};

class EnergonFolder {
 public:
  struct Shard {
    std::string name;  // below the folder
    std::int64_t samples = 0;
  };

  static bool is(const std::string& path);
  // Throws Exit::no_input where a file of it is missing, Exit::bad_data for what makes no sense and
  // Exit::bad_config for what is made by Python.
  explicit EnergonFolder(const std::string& path);

  const std::string& path() const { return path_; }
  EnergonType type() const { return type_; }
  const std::map<std::string, EnergonField>& fields() const { return fields_; }
  const std::vector<Shard>& shards() const { return shards_; }  // all
  const std::vector<std::string>& parts() const { return part_names_; }
  bool has(const std::string& part) const {  // and it has shards
    return parts_.contains(part) && !parts_.at(part).empty();
  }
  // The shards of "train" say; Exit::bad_data where there are none.
  std::vector<Shard> part(const std::string& name) const;
  // Whether a sample of a shard, by its key, is left out.
  bool excludes(const std::string& shard, const std::string& key) const {
    return excluded_.contains(shard + "/" + key);
  }

 private:
  void read_info();
  void read_splits();
  void read_type();

  std::string path_;
  EnergonType type_ = EnergonType::crude;
  std::map<std::string, EnergonField> fields_;
  std::vector<Shard> shards_;
  std::vector<std::string> part_names_;
  std::map<std::string, std::vector<std::string>> parts_;
  std::set<std::string> excluded_;
};

// A member's key and part: what stands before and behind the first point of its name.  Nothing for
// what is of no sample, as a name like __this__ is not.
struct EnergonName {
  std::string_view key, part;
};
std::optional<EnergonName> energon_name(std::string_view member);

// Whether a name leaves the folder that it is below, as "../a" and "/a" do.
bool climbs_out(std::string_view name);

// "a{0..2}{x,y}" as bash expands it.  Exit::bad_data for more than a million names, and for a brace
// that is not closed.
std::vector<std::string> expand_braces(std::string_view text, std::string_view place);

}  // namespace mt
