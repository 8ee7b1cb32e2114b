// index_sqlite: .nv-meta/index.sqlite of an Energon folder, by which Megatron-Energon finds samples
// by their keys and joins folders, with the tables that its `energon prepare` makes:
//   samples       tar_file_id, sample_key, sample_index, byte_offset, byte_size
//   sample_parts  tar_file_id, sample_index, part_name, content_byte_offset, content_byte_size
// Shards are numbered as .info.json has them, samples in their shard, both from 0 on.  It takes
// less than a kilobyte of memory a sample while it is made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct IndexedSample {
  struct Part {
    std::string name;               // what stands behind the key and a point
    std::uint64_t begin = 0, size;  // of its content in the shard, in bytes
  };
  std::string key;
  std::uint64_t begin = 0, end = 0;  // of all its members with their headers
  std::vector<Part> parts = {};      // as they lie
};
using IndexedShard = std::vector<IndexedSample>;

// Returns the database's bytes.  The keys of all samples must differ.
std::string index_sqlite(const std::vector<IndexedShard>& shards);

// index.uuid: a UUID that is the same for the same index alone (RFC 9562: version 8).
std::string uuid_of(std::string_view index);

}  // namespace mt
