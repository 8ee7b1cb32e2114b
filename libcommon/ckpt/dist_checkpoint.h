// A PyTorch distributed checkpoint (DCP): a folder of named tensors and objects, as Megatron and
// torch.distributed.checkpoint write and read it.
//   FOLDER/.metadata      the index (ckpt/dist_metadata.h)
//   FOLDER/__R_N.distcp   items of writer R one after another; each is a complete archive of
//                         torch.save (ckpt/torch_file.h), root `archive`: of one contiguous tensor,
//                         a chunk of a named one, or of an object
// Which chunks a tensor was cut into does not matter to who reads it: any hyper-rectangle can be
// asked for.  The format knows no model.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/dist_metadata.h"
#include "ckpt/hashed_file.h"
#include "ckpt/hashed_reads.h"
#include "ckpt/torch_file.h"
#include "tensor/tensor.h"

namespace mt {

// Opens a folder and maps every file that .metadata names; their lengths are checked at once.
// Errors are Exit::no_input or bad_data and name file and key.  Several threads may read at once.
class DistReader : public TensorSource {
 public:
  // `reads`, if given, is told what is about to be read.
  explicit DistReader(const std::string& folder, HashedReads* reads = nullptr);

  const std::string& folder() const { return folder_; }
  const std::string& path() const override { return folder_; }
  const std::map<std::string, DistTensor>& tensors() const override { return metadata_.tensors; }
  const std::map<std::string, ItemPlace>& objects() const { return metadata_.objects; }
  std::vector<std::string> files() const;  // as .metadata names them, sorted

  // Fills `out` (host memory) with the elements [offset, offset + out.shape()) of the tensor `key`.
  // The element types must be equal; read_as() also turns one floating-point type into
  // another, rounding.
  void read(const std::string& key, const Shape& offset, Tensor out) const;
  void read_as(const std::string& key, const Shape& offset, Tensor out) const;

  // Reads from a tensor that is stored reformulated (original_shape): offset and out are in terms
  // of the original tensor.  An ordinary tensor is read as it is.
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  std::optional<MappedTensor> view(const std::string& key, const Shape& offset,
                                   const Shape& shape) const override;

  // The object `key`.  Megatron's are lists of one element for each local object with the key.
  PyValue read_object(const std::string& key) const { return open_object(key).value(); }
  TorchReader open_object(const std::string& key) const;  // views a mapped file of this reader

 private:
  TorchReader open_item(const ItemPlace& place, const std::string& key) const;
  StoredTensor chunk_in(const TorchReader& item, const DistTensor& tensor,
                        const DistChunk& chunk) const;
  void read_region(const DistTensor& tensor, const Shape& offset, Tensor out) const;

  std::string folder_;
  HashedReads* reads_;
  DistMetadata metadata_;
  std::map<std::string, MappedFile> mapped_;
};

// What one writer made: a file, and what lies in it.
struct WrittenFile : FileHash {
  std::vector<ItemRecord> items;
};

// Several of them as one string that another process can unpack.
std::string pack_files(const std::vector<WrittenFile>& files);
std::vector<WrittenFile> unpack_files(Bytes packed, const std::string& name);

// Writes one file of a checkpoint.  Each rank has its own; who has the WrittenFiles of all then
// calls write_dist_metadata().  Not thread-safe, but close() may be called from another thread.
class DistWriter {
 public:
  // What is added goes to the file at once, or is copied and goes there in close().
  enum class When : std::uint8_t { at_once, in_close };
  // It makes FOLDER/__RANK_NUMBER.distcp.
  DistWriter(const std::string& folder, int rank, int number = 0, When when = When::at_once);

  // `chunk` (host memory) is the part of `key` at `offset`; the parts of all writers tile the
  // tensor.
  void add(const std::string& key, const Shape& global_shape, const Shape& offset,
           ConstTensor chunk);
  void add(const std::string& key, ConstTensor whole);
  // Megatron's: a list of one element; `tensors` made those that it refers to.
  void add_object(const std::string& key, const PyValue& value, const TorchWriter& tensors = {});

  WrittenFile close();  // synced to the disk

 private:
  using Write = std::function<void(const Sink&)>;
  void add_item(ItemRecord item, Write write);
  void write_item(std::size_t item, const Write& write);

  std::string name_;
  When when_;
  HashedFile file_;  // removed unless closed
  std::vector<ItemRecord> items_;
  std::vector<Write> later_;  // of each item, if not at once
};

// FOLDER/.metadata, atomically.
FileHash write_dist_metadata(const std::string& folder, const std::vector<WrittenFile>& files,
                             const DistMetadataOptions& options = {});

}  // namespace mt
