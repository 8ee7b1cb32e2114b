#include "data/energon/index_sqlite.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/hash.h"
#include "data/energon/sqlite_file.h"

namespace mt {
namespace {

struct SampleRow {
  std::int64_t shard, number;
  const IndexedSample* sample;
};

struct PartRow {
  std::int64_t shard, sample;
  const IndexedSample::Part* part;
};

std::int64_t number(std::uint64_t n) { return static_cast<std::int64_t>(n); }

// Places in `rows`, by what `key` makes of each.
template <class Row, class Key>
std::vector<std::int64_t> in_order(const std::vector<Row>& rows, const Key& key) {
  std::vector<std::int64_t> places(rows.size());
  std::iota(places.begin(), places.end(), std::int64_t{0});
  std::ranges::stable_sort(places, {},
                           [&](std::int64_t i) { return key(rows[static_cast<std::size_t>(i)]); });
  return places;
}

void add_samples(SqliteFile& file, const std::vector<SampleRow>& rows) {
  const auto count = std::ssize(rows);
  const auto row = [&](std::int64_t i) -> const SampleRow& {
    return rows[static_cast<std::size_t>(i)];
  };
  file.add_table("samples",
                 "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, "
                 "sample_key TEXT NOT NULL UNIQUE, sample_index INTEGER NOT NULL, "
                 "byte_offset INTEGER, byte_size INTEGER)",
                 count, [&](std::int64_t i) {
                   const auto& [shard, index, sample] = row(i);
                   return SqliteRecord()
                       .add(shard)
                       .add(sample->key)
                       .add(index)
                       .add(number(sample->begin))
                       .add(number(sample->end - sample->begin));
                 });
  const std::vector<std::int64_t> by_key =
      in_order(rows, [](const SampleRow& r) { return std::string_view(r.sample->key); });
  file.add_index("sqlite_autoindex_samples_1", "samples", "", count, [&](std::int64_t i) {
    const std::int64_t place = by_key[static_cast<std::size_t>(i)];
    return SqliteRecord().add(row(place).sample->key).add(place + 1);
  });
  file.add_index("idx_samples_by_tar_and_idx", "samples",
                 "CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index)",
                 count, [&](std::int64_t i) {
                   return SqliteRecord().add(row(i).shard).add(row(i).number).add(i + 1);
                 });
}

void add_parts(SqliteFile& file, const std::vector<PartRow>& rows) {
  const auto count = std::ssize(rows);
  const auto row = [&](std::int64_t i) -> const PartRow& {
    return rows[static_cast<std::size_t>(i)];
  };
  file.add_table("sample_parts",
                 "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, "
                 "part_name TEXT, content_byte_offset INTEGER, content_byte_size INTEGER)",
                 count, [&](std::int64_t i) {
                   const auto& [shard, sample, part] = row(i);
                   return SqliteRecord()
                       .add(shard)
                       .add(sample)
                       .add(part->name)
                       .add(number(part->begin))
                       .add(number(part->size));
                 });
  file.add_index("idx_sample_parts_seq", "sample_parts",
                 "CREATE INDEX idx_sample_parts_seq ON "
                 "sample_parts(tar_file_id, sample_index, content_byte_offset)",
                 count, [&](std::int64_t i) {
                   const auto& [shard, sample, part] = row(i);
                   return SqliteRecord().add(shard).add(sample).add(number(part->begin)).add(i + 1);
                 });
  const std::vector<std::int64_t> by_name = in_order(rows, [](const PartRow& r) {
    return std::tuple(r.shard, r.sample, std::string_view(r.part->name));
  });
  file.add_index("idx_sample_parts_full", "sample_parts",
                 "CREATE INDEX idx_sample_parts_full ON sample_parts(tar_file_id, sample_index, "
                 "part_name, content_byte_offset, content_byte_size)",
                 count, [&](std::int64_t i) {
                   const std::int64_t place = by_name[static_cast<std::size_t>(i)];
                   const auto& [shard, sample, part] = row(place);
                   return SqliteRecord()
                       .add(shard)
                       .add(sample)
                       .add(part->name)
                       .add(number(part->begin))
                       .add(number(part->size))
                       .add(place + 1);
                 });
}

}  // namespace

std::string index_sqlite(const std::vector<IndexedShard>& shards) {
  std::vector<SampleRow> samples;
  std::vector<PartRow> parts;
  for (std::int64_t shard = 0; shard < std::ssize(shards); ++shard) {
    std::int64_t n = 0;
    for (const IndexedSample& sample : shards[static_cast<std::size_t>(shard)]) {
      samples.push_back({shard, n, &sample});
      for (const IndexedSample::Part& part : sample.parts) parts.push_back({shard, n, &part});
      ++n;
    }
  }
  SqliteFile file;
  add_samples(file, samples);
  add_parts(file, parts);
  return file.finish();
}

std::string uuid_of(std::string_view index) {
  Hasher hasher;
  hasher.update(index);
  std::string text = hasher.hex();
  text[12] = '8';
  text[16] = "89ab"[static_cast<std::size_t>(text[16]) & 3];
  for (const std::size_t place : {20U, 16U, 12U, 8U}) text.insert(place, 1, '-');
  return text;
}

}  // namespace mt
