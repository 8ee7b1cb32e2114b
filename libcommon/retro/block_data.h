// BlockData: vectors of passages by their ids, in files as Megatron-LM's create_doc_index.py leaves
// them (core_v0.12.1, megatron/legacy/data/realm_index.py): a pickle of
//   {'embed_data': {ID: numpy.ndarray of float16, [columns], ...}}
// The writer emits protocol 3: numbers, and each array as numpy's own reduction of it,
//   numpy.core.multiarray._reconstruct(numpy.ndarray, (0,), b'b'), then its state
//   (1, (columns,), numpy.dtype('f2', False, True), False, the little-endian bytes)
// and, of what all arrays have in common, memos.  The reader takes any protocol, numpy's names of
// version 2, and float32, too; no name is looked up (ckpt/pickle.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace mt {

class BlockDataWriter {
 public:
  BlockDataWriter(const std::string& path, bool overwrite);
  // Vectors of one length.  Rounds the numbers to float16; Exit::bad_data where one does not fit.
  void add(std::int64_t id, std::span<const float> vector);
  void commit();

 private:
  void begin_arrays(std::int64_t columns);

  AtomicFile file_;
  std::int64_t open_ = 0;  // pairs since the last mark
  bool begun_ = false;
};

struct BlockData {
  std::int64_t columns = 0;
  std::vector<std::int64_t> ids = {};
  std::vector<float> vectors = {};  // [ids, columns]
};

// Exit::bad_data for what is no such file, and where vectors differ in length.
BlockData read_block_data(const std::string& path);

}  // namespace mt
