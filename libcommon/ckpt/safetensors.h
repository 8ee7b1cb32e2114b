// safetensors files: Hugging Face's format of named tensors.
//   header size   u64, little-endian: at most 100,000,000
//   header        JSON, begins with {, padded with spaces to a multiple of 8:
//                   "__metadata__": {string: string}, at most once
//                   NAME: {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}
//   data          little-endian elements, row-major; offsets count from its first byte
// The tensors tile the data: no hole, no overlap, and the last one ends with the file.  A reader
// refuses all else, keys that come twice too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "ckpt/tensor_source.h"

namespace mt {

// The header of the file whose first bytes are `file` and which has `file.size()` of them; `name`
// is the file's, below its folder.  Errors are Exit::bad_data and begin with `where`.
std::map<std::string, DistTensor> parse_safetensors(Bytes file, const std::string& where,
                                                    const std::string& name);

class SafetensorsReader : public TensorSource {
 public:
  explicit SafetensorsReader(const std::string& path);
  const std::string& path() const override { return file_.path(); }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  std::optional<MappedTensor> view(const std::string& key, const Shape& offset,
                                   const Shape& shape) const override;

 private:
  MappedFile file_;
  std::map<std::string, DistTensor> tensors_;
};

// Writes model.safetensors, or, where that would be larger than `most` bytes,
// model-00001-of-0000N.safetensors and so on with model.safetensors.index.json (ckpt/
// indexed_tensors.h).  A tensor that is larger by itself has a file of its own.
class SafetensorsWriter {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
  };
  // Files keep the order of the entries, but for larger elements, which stand first in each: so all
  // are aligned.
  SafetensorsWriter(const std::string& folder, const std::vector<Entry>& entries,
                    std::uint64_t most);

  // All in one file of this name.
  SafetensorsWriter(const std::string& folder, const std::vector<Entry>& entries, const char* file);

  // Each of the entries once, in any order, from several threads at a time.
  void write(const std::string& name, ConstTensor tensor);
  // Writes a part of one of the entries, whose first axis counts them; all parts come once.
  void write_part(const std::string& name, std::int64_t part, ConstTensor tensor);
  void close();  // all files synced to the disk

 private:
  struct Place {
    std::size_t file;
    std::uint64_t offset;  // of its first element in the file
    DType dtype;
    Shape shape;
  };
  void begin_file(const std::string& path, std::vector<Entry> entries);
  void write_index(const std::string& folder, std::uint64_t total) const;

  std::vector<File> files_;
  std::vector<std::string> names_;  // of the files
  std::map<std::string, Place> places_;
};

}  // namespace mt
