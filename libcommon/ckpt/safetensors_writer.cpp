#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "ckpt/safetensors.h"
#include "ckpt/safetensors_types.h"

namespace mt {

constexpr std::size_t kLarge = 1 << 20;  // bytes that are written back at once

using Entry = SafetensorsWriter::Entry;

static std::uint64_t bytes_of(const Entry& entry) {
  return static_cast<std::uint64_t>(entry.shape.numel()) * size_of(entry.dtype);
}

static std::string_view name_in_header(DType dtype) {
  return std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                      [&](const SafetensorsType& type) { return type.dtype == dtype; })
      ->name;
}

static std::string header_of(const std::vector<Entry>& entries) {
  JsonWriter json;
  json.begin_object().key(kSafetensorsMetadata).begin_object().member("format", "pt").end_object();
  std::uint64_t begin = 0;
  for (const Entry& entry : entries) {
    json.key(entry.name).begin_object().member("dtype", name_in_header(entry.dtype));
    json.key("shape").begin_array();
    for (const std::int64_t extent : entry.shape.extents()) json.value(extent);
    json.end_array().key("data_offsets").begin_array().value(begin);
    json.value(begin += bytes_of(entry)).end_array().end_object();
  }
  std::string text = json.end_object().text();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Entries by file: as many in each as fit.
static std::vector<std::vector<Entry>> shards_of(const std::vector<Entry>& entries,
                                                 std::uint64_t most) {
  std::vector<std::vector<Entry>> shards(1);
  std::uint64_t size = 0;
  for (const Entry& entry : entries) {
    if (shards.back().size() == kMostSafetensors || (size > 0 && size + bytes_of(entry) > most)) {
      shards.emplace_back();
      size = 0;
    }
    size += bytes_of(entry);
    shards.back().push_back(entry);
  }
  return shards;
}

static std::string shard_name(std::size_t number, std::size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", number + 1, count);
  return name;
}

SafetensorsWriter::SafetensorsWriter(const std::string& folder, const std::vector<Entry>& entries,
                                     std::uint64_t most) {
  const std::vector<std::vector<Entry>> shards = shards_of(entries, most);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    names_.push_back(shard_name(i, shards.size()));
    begin_file(folder + "/" + names_.back(), shards[i]);
  }
  for (const Entry& entry : entries) total += bytes_of(entry);
  if (shards.size() > 1) write_index(folder, total);
}

SafetensorsWriter::SafetensorsWriter(const std::string& folder, const std::vector<Entry>& entries,
                                     const char* file) {
  names_.emplace_back(file);
  begin_file(concat(folder, "/", file), entries);
}

void SafetensorsWriter::begin_file(const std::string& path, std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return size_of(a.dtype) > size_of(b.dtype);
  });
  const std::string header = header_of(entries);
  std::string size(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) size[i] = static_cast<char>(header.size() >> 8 * i);
  files_.push_back(File::create(path));
  files_.back().write(size + header);
  std::uint64_t offset = 8 + header.size();
  for (const Entry& entry : entries) {
    if (!places_.emplace(entry.name, Place{files_.size() - 1, offset, entry.dtype, entry.shape})
             .second)
      fail(Exit::internal, path, ": two tensors ", entry.name);
    offset += bytes_of(entry);
  }
}

void SafetensorsWriter::write_index(const std::string& folder, std::uint64_t total) const {
  JsonWriter json;
  json.begin_object().key("metadata").begin_object().member("total_size", total).end_object();
  json.key("weight_map").begin_object();
  for (const auto& [name, place] : places_) json.member(name, names_[place.file]);
  json.end_object().end_object();
  write_file_atomically(folder + "/model.safetensors.index.json", json.text() + "\n", false);
}

void SafetensorsWriter::write(const std::string& name, ConstTensor tensor) {
  const Place& place = places_.at(name);
  if (tensor.dtype() != place.dtype || !(tensor.shape() == place.shape))
    fail(Exit::internal, name, ": ", name_of(tensor.dtype()), tensor.shape(), ", expected ",
         name_of(place.dtype), place.shape);
  files_[place.file].write_at(place.offset,
                              {static_cast<const std::byte*>(tensor.data()), tensor.bytes()});
  if (tensor.bytes() >= kLarge) files_[place.file].write_back();
}

void SafetensorsWriter::write_part(const std::string& name, std::int64_t part, ConstTensor tensor) {
  const Place& place = places_.at(name);
  const Shape expected(place.shape.extents().subspan(1));
  if (tensor.dtype() != place.dtype || !(tensor.shape() == expected) || part >= place.shape[0])
    fail(Exit::internal, name, ": part ", part, " is ", name_of(tensor.dtype()), tensor.shape(),
         ", expected ", name_of(place.dtype), expected);
  files_[place.file].write_at(place.offset + static_cast<std::uint64_t>(part) * tensor.bytes(),
                              {static_cast<const std::byte*>(tensor.data()), tensor.bytes()});
  if (tensor.bytes() >= kLarge) files_[place.file].write_back();
}

void SafetensorsWriter::close() {
  for (File& file : files_) {
    file.sync();
    file.close();
  }
}

}  // namespace mt
